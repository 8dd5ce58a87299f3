//! What the readers of one listener may take.
//!
//! Two limits bound the work of requests: how many there are at once, beyond which readers are
//! refused, and how many documents are made of them at once, for which they wait. Streams are bounded
//! by their number. Each listener has limits of its own: whatever readers over TCP do, those on the
//! socket find room.

use super::http::Refusal;
use crate::stream::Pace;
use axum::http::StatusCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Of the descriptors that the server may have, the share of streams over TCP: each takes one, and
/// clients need theirs.
const DESCRIPTORS: u64 = 8;

/// What the readers of one listener may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpLimits {
    pub requests: usize,
    /// Documents that are made at once, each on a thread.
    pub documents: usize,
    /// Streams of changes at once.
    pub changes_streams: usize,
    /// Streams of every event at once: each is worked for alone.
    pub raw_streams: usize,
    /// How long a request's head may take.
    pub head_timeout: Duration,
    /// How long a connection may last in all, unless it is a stream.
    pub connection_timeout: Duration,
    /// A stream whose reader takes nothing for so long ends.
    pub stream_timeout: Duration,
}

impl HttpLimits {
    /// What readers on the socket may cost.
    pub const SOCKET: Self = Self {
        requests: 64,
        documents: 3,
        changes_streams: 4096,
        raw_streams: 8,
        head_timeout: Duration::from_secs(10),
        connection_timeout: Duration::from_secs(60),
        stream_timeout: Duration::from_secs(30),
    };

    /// What readers over TCP may cost: less, since anybody may try.
    #[must_use]
    pub fn of_tcp() -> Self {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let share = limit.and_then(|limit| usize::try_from(limit / DESCRIPTORS).ok());
        Self {
            requests: 32,
            documents: 2,
            changes_streams: share.unwrap_or(usize::MAX).min(1024),
            raw_streams: 4,
            head_timeout: Duration::from_secs(3),
            ..Self::SOCKET
        }
    }
}

/// What is left of a listener's limits.
#[derive(Debug)]
pub(super) struct Permits {
    pub(super) limits: HttpLimits,
    requests: Arc<Semaphore>,
    documents: Arc<Semaphore>,
    changes_streams: Arc<Semaphore>,
    raw_streams: Arc<Semaphore>,
}

impl Permits {
    pub(super) fn new(limits: HttpLimits) -> Arc<Self> {
        let permits = |count: usize| Arc::new(Semaphore::new(count));
        Arc::new(Self {
            limits,
            requests: permits(limits.requests),
            documents: permits(limits.documents),
            changes_streams: permits(limits.changes_streams),
            raw_streams: permits(limits.raw_streams),
        })
    }

    /// For a request, until it is answered or becomes a stream.
    pub(super) fn request(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        let permit = Arc::clone(&self.requests).try_acquire_owned();
        permit.map_err(|_none_left| Refusal::busy())
    }

    /// Waits until a document may be made.
    pub(super) async fn document(&self) -> Option<OwnedSemaphorePermit> {
        // Nobody closes it.
        Arc::clone(&self.documents).acquire_owned().await.ok()
    }

    /// For a stream, until it ends.
    pub(super) fn stream(&self, pace: Pace) -> Result<OwnedSemaphorePermit, Refusal> {
        let streams = match pace {
            Pace::Changes => &self.changes_streams,
            Pace::Raw => &self.raw_streams,
        };
        Arc::clone(streams).try_acquire_owned().map_err(|_error| {
            let detail = "too many readers follow the events";
            Refusal::new(StatusCode::TOO_MANY_REQUESTS, "too_many_streams", detail)
        })
    }

    /// Waits until no request is left.
    pub(super) async fn idle(&self) {
        while self.requests.available_permits() < self.limits.requests {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}
