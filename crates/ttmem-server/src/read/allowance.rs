//! What readers over TCP may take all together, so that those on the socket always find room.

use super::http::Refusal;
use crate::stream::Pace;
use axum::http::StatusCode;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Of the streams that the server has in all.
const CHANGES: usize = 1024;
const RAW: usize = 4;

/// Of the descriptors that the server may have: each stream takes one, and clients need theirs.
const DESCRIPTORS: u64 = 8;

/// Of the threads that make documents.
const WORKERS: usize = 2;

/// What readers of one kind share; nothing is counted for those on the socket.
#[derive(Clone, Debug, Default)]
pub(super) struct Allowance(Option<Arc<Counted>>);

#[derive(Debug)]
struct Counted {
    changes: Arc<Semaphore>,
    raw: Arc<Semaphore>,
    workers: Arc<Semaphore>,
}

impl Allowance {
    /// What all readers over TCP share.
    pub(super) fn of_tcp() -> Self {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let share = limit.and_then(|limit| usize::try_from(limit / DESCRIPTORS).ok());
        let seats = |count| Arc::new(Semaphore::new(count));
        Self(Some(Arc::new(Counted {
            changes: seats(share.map_or(CHANGES, |share| CHANGES.min(share))),
            raw: seats(RAW),
            workers: seats(WORKERS),
        })))
    }

    /// A place for a stream, held for as long as it goes on.
    pub(super) fn stream(&self, pace: Pace) -> Result<Option<OwnedSemaphorePermit>, Refusal> {
        let Some(counted) = &self.0 else {
            return Ok(None);
        };
        let places = match pace {
            Pace::Changes => &counted.changes,
            Pace::Raw => &counted.raw,
        };
        match Arc::clone(places).try_acquire_owned() {
            Ok(place) => Ok(Some(place)),
            Err(_none_left) => Err(Refusal::new(
                StatusCode::TOO_MANY_REQUESTS,
                "too_many_streams",
                "too many readers follow the events over TCP",
            )),
        }
    }

    /// Waits for a turn to have a document made, held until it is.
    pub(super) async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        let counted = self.0.as_ref()?;
        // Nobody closes it.
        Arc::clone(&counted.workers).acquire_owned().await.ok()
    }
}
