//! What the readers of one listener may take.
//!
//! Two limits bound the work of requests: how many there are at once, beyond which readers are
//! refused, and how many documents are made of them at once, for which they wait. Streams are bounded
//! by their number. Each listener has limits of its own: whatever readers over TCP do, those on the
//! socket find room.

use super::http::Refusal;
use axum::http::StatusCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What the readers of one listener may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpLimits {
    pub requests: usize,
    /// Documents that are made at once, each on a thread.
    pub documents: usize,
    /// Streams of events at once: the work for each is its own.
    pub streams: usize,
    /// How long a request's headers may take.
    pub header_timeout: Duration,
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
        streams: 8,
        header_timeout: Duration::from_secs(10),
        connection_timeout: Duration::from_secs(60),
        stream_timeout: Duration::from_secs(30),
    };

    /// What readers over TCP may cost: less, since anybody may try.
    pub const TCP: Self = Self {
        requests: 32,
        documents: 2,
        streams: 4,
        header_timeout: Duration::from_secs(3),
        ..Self::SOCKET
    };
}

/// What is left of a listener's limits.
#[derive(Debug)]
pub(super) struct Permits {
    pub(super) limits: HttpLimits,
    requests: Arc<Semaphore>,
    documents: Arc<Semaphore>,
    streams: Arc<Semaphore>,
}

impl Permits {
    pub(super) fn new(limits: HttpLimits) -> Arc<Self> {
        let permits = |count: usize| Arc::new(Semaphore::new(count));
        Arc::new(Self {
            limits,
            requests: permits(limits.requests),
            documents: permits(limits.documents),
            streams: permits(limits.streams),
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
    pub(super) fn stream(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        let permit = Arc::clone(&self.streams).try_acquire_owned();
        permit.map_err(|_none_left| {
            let detail = "too many readers follow the events";
            Refusal::new(StatusCode::TOO_MANY_REQUESTS, "too_many_streams", detail)
        })
    }

    pub(super) async fn idle(&self) {
        while self.requests.available_permits() < self.limits.requests {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}
