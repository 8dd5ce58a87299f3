//! What the readers of one listener may take.
//!
//! Two limits bound the work of requests: how many there are at once, beyond which readers are
//! refused, and how many documents are made of them at once, for which they wait in turns. Streams are bounded
//! by their number. Each listener has limits of its own: whatever readers over TCP do, those on the
//! socket find room. On the socket, where the kernel says who a reader is, processes and users have
//! shares of requests and streams; over TCP nobody is known.

use super::http::Refusal;
use super::turnstile::{Passage, Turnstile};
use crate::lock;
use axum::http::StatusCode;
use std::num::NonZero;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use ttmem_ledger::{Audience, Holder, Shares, UNKNOWN_USER};

/// Documents of the past at once: one over time, which takes seconds, and one of an instant.
pub(super) const PAST_DOCUMENTS: usize = 2;

/// What the readers of one listener may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpLimits {
    pub requests: usize,
    /// Documents that are made at once, each on a thread.
    pub documents: usize,
    /// Streams of events at once: the work for each is its own.
    pub streams: usize,
    /// Recordings at once: each has a thread and a ledger of its own. Half of them are for users other than root and
    /// the server's, one each.
    pub recordings: usize,
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
        streams: 24,
        recordings: 4,
        header_timeout: Duration::from_secs(10),
        connection_timeout: Duration::from_secs(60),
        stream_timeout: Duration::from_secs(30),
    };

    /// What readers over TCP may cost: less, since anybody may try.
    pub const TCP: Self = Self {
        requests: 32,
        documents: 2,
        streams: 4,
        recordings: 1,
        header_timeout: Duration::from_secs(3),
        ..Self::SOCKET
    };

    /// The same where documents leave a processor to clients.
    #[must_use]
    pub fn on_this_machine(self) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        Self {
            documents: self.documents.min((processors - 1).max(1)),
            ..self
        }
    }
}

/// A number of permits, divided among those who are known.
#[derive(Clone, Debug)]
struct Pool {
    shares: Arc<Mutex<Shares>>,
}

/// One of a pool; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    holder: Holder,
    pool: Pool,
}

impl Pool {
    fn new(limit: usize) -> Self {
        Self {
            shares: Arc::new(Mutex::new(Shares::new(limit as u64, 1))),
        }
    }

    fn take(&self, holder: Option<Holder>) -> Option<Permit> {
        let is_granted = match holder {
            Some(holder) => lock(&self.shares).take(holder, 1),
            None => lock(&self.shares).take_ignoring_shares(NOBODY, 1),
        };
        // Not before it is known: a permit that is dropped is given back.
        is_granted.then(|| Permit {
            holder: holder.unwrap_or(NOBODY),
            pool: self.clone(),
        })
    }

    /// One for a user who has none: where there are few, shares would be none.
    fn take_first(&self, uid: u32) -> Option<Permit> {
        let holder = Holder { uid, process: 0 };
        let mut shares = lock(&self.shares);
        let is_granted = shares.of_user(uid) == 0 && shares.take_ignoring_shares(holder, 1);
        drop(shares);
        is_granted.then(|| Permit {
            holder,
            pool: self.clone(),
        })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        lock(&self.pool.shares).give_back(self.holder, 1);
    }
}

/// Readers over TCP.
const NOBODY: Holder = Holder {
    uid: UNKNOWN_USER,
    process: 0,
};

/// What is left of a listener's limits.
#[derive(Debug)]
pub(super) struct Permits {
    pub(super) limits: HttpLimits,
    requests: Pool,
    documents: Turnstile,
    /// For those about the past.
    past: Turnstile,
    streams: Pool,
    /// For the server's user and root, and for everybody over TCP.
    recordings: Pool,
    /// For all other users: they cannot keep those from recording.
    recordings_of_users: Pool,
}

impl Permits {
    pub(super) fn new(limits: HttpLimits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            requests: Pool::new(limits.requests),
            documents: Turnstile::new(limits.documents),
            past: Turnstile::new(PAST_DOCUMENTS),
            streams: Pool::new(limits.streams),
            recordings: Pool::new(limits.recordings - limits.recordings / 2),
            recordings_of_users: Pool::new(limits.recordings / 2),
        })
    }

    /// For a request, until it is answered or becomes a stream.
    pub(super) fn request(&self, holder: Option<Holder>) -> Result<Permit, Refusal> {
        self.requests.take(holder).ok_or_else(Refusal::busy)
    }

    /// Waits until a document may be made, in turn with other readers. Those that look back wait for each other, and
    /// keep none from what is true now.
    pub(super) async fn document(&self, looks_back: bool, holder: Option<Holder>) -> Passage {
        let turnstile = if looks_back {
            &self.past
        } else {
            &self.documents
        };
        turnstile.take(holder.unwrap_or(NOBODY)).await
    }

    /// For a stream, until it ends.
    pub(super) fn stream(&self, holder: Option<Holder>) -> Result<Permit, Refusal> {
        self.streams.take(holder).ok_or_else(|| {
            let detail = "too many readers follow the events";
            Refusal::new(StatusCode::TOO_MANY_REQUESTS, "too_many_streams", detail)
        })
    }

    /// For a recording, until it ends.
    pub(super) fn recording(&self, audience: Audience) -> Result<Permit, Refusal> {
        let permit = match audience {
            Audience::User(uid) => self.recordings_of_users.take_first(uid),
            Audience::Everything | Audience::Nobody => self.recordings.take(None),
        };
        permit.ok_or_else(|| {
            let detail = "too many readers record already";
            Refusal::new(StatusCode::TOO_MANY_REQUESTS, "too_many_recordings", detail)
        })
    }

    pub(super) async fn idle(&self) {
        while lock(&self.requests.shares).used() > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_keep_neither_each_other_nor_the_servers_user_from_recording() {
        let permits = Permits::new(HttpLimits::SOCKET);
        let first = permits.recording(Audience::User(7)).expect("the first");
        assert!(permits.recording(Audience::User(7)).is_err());
        let _second = permits.recording(Audience::User(8)).expect("another user");
        assert!(permits.recording(Audience::User(9)).is_err());
        let _own = permits.recording(Audience::Everything).expect("kept free");
        drop(first);
        assert!(permits.recording(Audience::User(7)).is_ok());
    }
}
