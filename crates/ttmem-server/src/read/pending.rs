//! Connections over TCP whose request was not admitted yet.
//!
//! Anybody can connect and send nothing, so such connections take no permit of requests: their own
//! number is bounded here. At the bound the oldest is closed for a new one. Who sends its request at
//! once is served then, however many are silent: to be in its way they would all have to come in the
//! moment that it needs for its request.

use crate::lock;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio::sync::oneshot;

/// Connections that were not admitted yet, up to a limit.
#[derive(Clone, Debug)]
pub(super) struct PendingConnections {
    limit: usize,
    waiting: Arc<Mutex<Waiting>>,
}

/// Who waits, in the order in which they came.
#[derive(Debug, Default)]
struct Waiting {
    next: u64,
    evictions: BTreeMap<u64, oneshot::Sender<()>>,
}

/// One connection that was not admitted yet; it does not count any more when this is dropped.
#[derive(Debug)]
pub(super) struct Pending {
    number: u64,
    waiting: Arc<Mutex<Waiting>>,
}

/// Evicts a connection in favour of a newer one.
#[derive(Debug)]
pub(super) struct Eviction(oneshot::Receiver<()>);

impl PendingConnections {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            waiting: Arc::default(),
        }
    }

    /// Counts a connection, for which the oldest may have to go.
    pub(super) fn add(&self) -> (Pending, Eviction) {
        let (evict, evicted) = oneshot::channel();
        let mut waiting = lock(&self.waiting);
        while waiting.evictions.len() >= self.limit {
            let Some((_number, oldest)) = waiting.evictions.pop_first() else {
                break;
            };
            // One that is just going by itself does not listen any more.
            let _gone = oldest.send(());
        }
        let number = waiting.next;
        waiting.next += 1;
        waiting.evictions.insert(number, evict);
        drop(waiting);
        let pending = Pending {
            number,
            waiting: Arc::clone(&self.waiting),
        };
        (pending, Eviction(evicted))
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        lock(&self.waiting).evictions.remove(&self.number);
    }
}

impl Eviction {
    /// Waits until the connection has to go, for ever if it is admitted before that.
    pub(super) async fn wait(self) {
        if self.0.await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oneshot::error::TryRecvError;

    #[test]
    fn the_oldest_goes_first_and_who_left_by_itself_is_not_evicted() {
        let connections = PendingConnections::new(2);
        let (_first, mut first) = connections.add();
        let (second, mut second_evicted) = connections.add();
        assert_eq!(first.0.try_recv(), Err(TryRecvError::Empty));
        let (third, mut third_evicted) = connections.add();
        assert_eq!(first.0.try_recv(), Ok(()));
        drop(second);
        assert_eq!(second_evicted.0.try_recv(), Err(TryRecvError::Closed));
        // There is room now.
        let (_fourth, mut fourth) = connections.add();
        assert_eq!(third_evicted.0.try_recv(), Err(TryRecvError::Empty));
        assert_eq!(fourth.0.try_recv(), Err(TryRecvError::Empty));
        let (_fifth, _fifth_evicted) = connections.add();
        assert_eq!(third_evicted.0.try_recv(), Ok(()));
        assert_eq!(fourth.0.try_recv(), Err(TryRecvError::Empty));
        // One that was evicted makes no room but its own.
        drop(third);
        assert_eq!(lock(&connections.waiting).evictions.len(), 2);
    }
}
