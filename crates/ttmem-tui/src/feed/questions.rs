//! The questions to the server, each answered by one update.

use crate::data::{Listed, Update, Window};
use crate::wants::Wants;
use ttmem_api::{ApiClient, ApiRequestError, Page};

/// How far the small curves reach back.
const RECENT_SECONDS: u32 = 600;

/// Programs and kernels that are asked for at once: more than anybody scrolls through.
const LIST_LIMIT: u32 = 2_000;

/// One question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Question {
    /// All totals.
    Snapshot,
    /// The last ten minutes.
    Recent,
    /// What a view wants: only the field of this kind is set.
    Wanted(Box<Wants>),
}

/// The kinds of questions that views may want asked.
pub(super) const KINDS: usize = 7;

/// What is wanted, one question for each kind of document.
pub(super) fn wanted(wants: &Wants) -> [Option<Question>; KINDS] {
    let none = Wants::default();
    let only = [
        Wants {
            history_seconds: wants.history_seconds,
            ..none.clone()
        },
        Wants {
            l1map: wants.l1map.clone(),
            ..none.clone()
        },
        Wants {
            blocks: wants.blocks.clone(),
            ..none.clone()
        },
        Wants {
            programs: wants.programs,
            ..none.clone()
        },
        Wants {
            kernels: wants.kernels,
            ..none.clone()
        },
        Wants {
            buffers: wants.buffers.clone(),
            ..none.clone()
        },
        Wants {
            groups: wants.groups.clone(),
            ..none.clone()
        },
    ];
    only.map(|one| (one != none).then(|| Question::Wanted(Box::new(one))))
}

impl Question {
    /// Asks it.
    pub(super) fn ask(&self, client: &ApiClient) -> Result<Option<Update>, ApiRequestError> {
        let wants = match self {
            Self::Snapshot => {
                let snapshot = client.snapshot()?;
                return Ok(Some(Update::Snapshot(Box::new(snapshot))));
            }
            Self::Recent => return client.history(RECENT_SECONDS).map(Update::Recent).map(Some),
            Self::Wanted(wants) => wants,
        };
        Ok(if let Some(seconds) = wants.history_seconds {
            Some(Update::History(seconds, client.history(seconds)?))
        } else if let Some((device, core)) = &wants.l1map {
            let map = client.l1_map(&device.path(), *core)?;
            Some(Update::L1Map(device.clone(), Box::new(map)))
        } else if let Some((device, class, cells)) = &wants.blocks {
            let map = client.blocks(&device.path(), *class, Some(*cells))?;
            Some(Update::Blocks(device.clone(), Box::new(map)))
        } else if wants.programs {
            let page = client.programs(None, Some(LIST_LIMIT))?;
            Some(Update::Programs(listed(page)))
        } else if wants.kernels {
            let page = client.kernels(None, Some(LIST_LIMIT))?;
            Some(Update::Kernels(listed(page)))
        } else if let Some(query) = &wants.buffers {
            let page = client.buffers_where(query)?;
            let query = query.clone();
            Some(Update::Buffers(Window { query, page }))
        } else if let Some(query) = &wants.groups {
            Some(Update::Groups(query.clone(), client.buffer_groups(query)?))
        } else {
            None
        })
    }
}

/// Asks everything once, in turn.
pub(crate) fn ask_all(
    client: &ApiClient,
    wants: &Wants,
    mut take: impl FnMut(Update),
) -> Result<(), ApiRequestError> {
    for question in wanted(wants).into_iter().flatten() {
        question.ask(client)?.into_iter().for_each(&mut take);
    }
    Ok(())
}

/// The totals and the small curves, which every view has.
pub(crate) fn ask_totals(
    client: &ApiClient,
    mut take: impl FnMut(Update),
) -> Result<(), ApiRequestError> {
    for question in [Question::Snapshot, Question::Recent] {
        question.ask(client)?.into_iter().for_each(&mut take);
    }
    Ok(())
}

fn listed<R>(page: Page<R>) -> Listed<R> {
    Listed {
        has_more: page.next.is_some(),
        rows: page.rows,
    }
}
