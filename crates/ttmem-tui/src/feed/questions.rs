//! The questions to the server, each answered by one update.

use crate::data::{Listed, Update, Window};
use crate::wants::Wants;
use ttmem_api::{ApiClient, ApiRequestError, BufferQuery, DeviceKey, MemoryClass, Page};

/// How far the small curves reach back.
const RECENT_SECONDS: u32 = 600;

/// Programs and kernels that are asked for at once: more than anybody scrolls through.
const LIST_LIMIT: u32 = 2_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Question {
    Snapshot,
    /// The last ten minutes.
    Recent,
    /// A history that reaches so many seconds back.
    History(u32),
    /// L1 of a device, and one core of it.
    L1Map(DeviceKey, Option<(u16, u16)>),
    /// The banks of a device, in so many cells.
    Blocks(DeviceKey, MemoryClass, u32),
    Programs,
    Kernels,
    Buffers(BufferQuery),
    Groups(BufferQuery),
}

/// What is wanted, at most one question of each kind.
pub(super) fn wanted(wants: &Wants) -> impl Iterator<Item = Question> {
    let wants = wants.clone();
    let questions = [
        wants.history_seconds.map(Question::History),
        wants
            .l1map
            .map(|(device, core)| Question::L1Map(device, core)),
        wants
            .blocks
            .map(|(device, class, cells)| Question::Blocks(device, class, cells)),
        wants.programs.then_some(Question::Programs),
        wants.kernels.then_some(Question::Kernels),
        wants.buffers.map(Question::Buffers),
        wants.groups.map(Question::Groups),
    ];
    questions.into_iter().flatten()
}

impl Question {
    pub(super) fn ask(&self, client: &ApiClient) -> Result<Update, ApiRequestError> {
        Ok(match self {
            Self::Snapshot => Update::Snapshot(Box::new(client.snapshot()?)),
            Self::Recent => Update::Recent(client.history(RECENT_SECONDS)?),
            Self::History(seconds) => Update::History(*seconds, client.history(*seconds)?),
            Self::L1Map(device, core) => {
                let map = client.l1_map(&device.path(), *core)?;
                Update::L1Map(device.clone(), Box::new(map))
            }
            Self::Blocks(device, class, cells) => {
                let map = client.blocks(&device.path(), *class, Some(*cells))?;
                Update::Blocks(device.clone(), Box::new(map))
            }
            Self::Programs => Update::Programs(listed(client.programs(None, Some(LIST_LIMIT))?)),
            Self::Kernels => Update::Kernels(listed(client.kernels(None, Some(LIST_LIMIT))?)),
            Self::Buffers(query) => Update::Buffers(Window {
                query: query.clone(),
                page: client.buffers_where(query)?,
            }),
            Self::Groups(query) => Update::Groups(query.clone(), client.buffer_groups(query)?),
        })
    }
}

/// Asks everything once, in turn.
pub(crate) fn ask_all(
    client: &ApiClient,
    wants: &Wants,
    mut take: impl FnMut(Update),
) -> Result<(), ApiRequestError> {
    for question in wanted(wants) {
        take(question.ask(client)?);
    }
    Ok(())
}

/// The totals and the small curves, which every view has.
pub(crate) fn ask_totals(
    client: &ApiClient,
    mut take: impl FnMut(Update),
) -> Result<(), ApiRequestError> {
    for question in [Question::Snapshot, Question::Recent] {
        take(question.ask(client)?);
    }
    Ok(())
}

fn listed<R>(page: Page<R>) -> Listed<R> {
    Listed {
        has_more: page.next.is_some(),
        rows: page.rows,
    }
}
