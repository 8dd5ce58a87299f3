//! The documents that the server is asked for, each answered by one update.

use super::stream::LOOK_BACK;
use crate::data::{Listed, Update, Window};
use ttmem_reader::{ApiClient, ApiRequestError};
use ttmem_report::{BufferQuery, DeviceKey, MemoryClass, Page, Recording};

const RECENT_SECONDS: u32 = 600;

/// Programs and kernels that are asked for at once: more than anybody scrolls through.
const LIST_LIMIT: u32 = 2_000;

/// As many failures as a server keeps.
const FAILURES: u32 = 64;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Document {
    Snapshot,
    Recent,
    /// A history that reaches so many seconds back.
    History(u32),
    /// L1 of a device, and one core of it.
    L1Map(DeviceKey, Option<(u16, u16)>),
    /// The banks of a device, in so many cells.
    Blocks(DeviceKey, MemoryClass, u32),
    Programs,
    Kernels,
    /// What was refused, and why.
    Failures,
    /// Buffers; offset and limit say which rows.
    Buffers(BufferQuery),
    /// Buffers summed up; `by` says by what.
    Groups(BufferQuery),
    /// What grows from mark to mark.
    Leaks,
    /// What is wrong.
    Problems,
    /// Which instants can be looked at.
    Recording,
    /// The events before an instant.
    LastEvents,
}

impl Document {
    /// What can be looked at, the totals, the small curves and what is wrong, which every view shows.
    pub(crate) const TOTALS: [Self; 4] = [
        Self::Recording,
        Self::Snapshot,
        Self::Recent,
        Self::Problems,
    ];

    pub(super) fn fetch(&self, client: &ApiClient) -> Result<Update, ApiRequestError> {
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
            Self::Programs => Update::Programs(listed(client.page(None, Some(LIST_LIMIT))?)),
            Self::Kernels => Update::Kernels(listed(client.page(None, Some(LIST_LIMIT))?)),
            Self::Failures => Update::Failures(client.failures(FAILURES)?),
            Self::Buffers(query) => Update::Buffers(Window {
                query: query.clone(),
                page: client.buffers_where(query)?,
            }),
            Self::Recording => Update::Recording(recording(client)?),
            Self::LastEvents => Update::LastEvents(client.last(LOOK_BACK, None)?),
            Self::Leaks => Update::Leaks(Box::new(client.leaks()?)),
            Self::Problems => Update::Problems(client.problems()?),
            Self::Groups(query) => Update::Groups(query.clone(), client.buffer_groups(query)?),
        })
    }
}

/// What the server recorded; none if it records nothing, or does not know how to.
fn recording(client: &ApiClient) -> Result<Option<Box<Recording>>, ApiRequestError> {
    match client.recording() {
        Ok(recording) => Ok(Some(Box::new(recording))),
        Err(ApiRequestError::Status { code: 404, .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

pub(crate) fn fetch_all(
    client: &ApiClient,
    documents: &[Document],
    mut take: impl FnMut(Update),
) -> Result<(), ApiRequestError> {
    for document in documents {
        take(document.fetch(client)?);
    }
    Ok(())
}

fn listed<R>(page: Page<R>) -> Listed<R> {
    Listed {
        has_more: page.next.is_some(),
        rows: page.rows,
    }
}
