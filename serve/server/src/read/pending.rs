//! Connections of readers whose request was not admitted yet.
//!
//! Anybody can connect and send nothing, or one byte, so such connections take no permit of requests:
//! their own number is bounded here. At the bound the oldest of whoever has most is closed for a new
//! one. Who sends its request at once is served then, however many are silent.

use crate::lock;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio::sync::oneshot;

/// Connections that were not admitted yet, up to a limit; a peer is what `P` says it is.
#[derive(Clone, Debug)]
pub(super) struct PendingConnections<P> {
    limit: usize,
    waiting: Arc<Mutex<Waiting<P>>>,
}

/// Who waits, in the order in which they came.
#[derive(Debug)]
struct Waiting<P> {
    next: u64,
    evictions: BTreeMap<u64, (P, oneshot::Sender<()>)>,
}

/// One connection that was not admitted yet; it does not count any more when this is dropped.
#[derive(Debug)]
pub(super) struct Pending<P> {
    number: u64,
    waiting: Arc<Mutex<Waiting<P>>>,
}

/// Evicts a connection in favour of a newer one.
#[derive(Debug)]
pub(super) struct Eviction(oneshot::Receiver<()>);

impl<P: Copy + Ord> Waiting<P> {
    /// Takes out the oldest connection of the peer that has most.
    fn take_oldest_of_largest(&mut self) -> Option<oneshot::Sender<()>> {
        let mut counts: BTreeMap<P, usize> = BTreeMap::new();
        for (peer, _eviction) in self.evictions.values() {
            *counts.entry(*peer).or_default() += 1;
        }
        let most = counts.values().copied().max()?;
        let is_of_largest = |(_number, (peer, _eviction)): &(&u64, &(P, _))| counts[peer] == most;
        let (number, _oldest) = self.evictions.iter().find(is_of_largest)?;
        let number = *number;
        self.evictions.remove(&number).map(|(_peer, evict)| evict)
    }
}

impl<P: Copy + Ord> PendingConnections<P> {
    pub(super) fn new(limit: usize) -> Self {
        let waiting = Waiting {
            next: 0,
            evictions: BTreeMap::new(),
        };
        Self {
            limit,
            waiting: Arc::new(Mutex::new(waiting)),
        }
    }

    /// Counts a connection, for which another may have to go.
    pub(super) fn add(&self, peer: P) -> (Pending<P>, Eviction) {
        let (evict, evicted) = oneshot::channel();
        let mut waiting = lock(&self.waiting);
        while waiting.evictions.len() >= self.limit {
            let Some(oldest) = waiting.take_oldest_of_largest() else {
                break;
            };
            // One that is just going by itself does not listen any more.
            let _gone = oldest.send(());
        }
        let number = waiting.next;
        waiting.next += 1;
        waiting.evictions.insert(number, (peer, evict));
        drop(waiting);
        let pending = Pending {
            number,
            waiting: Arc::clone(&self.waiting),
        };
        (pending, Eviction(evicted))
    }
}

impl<P> Drop for Pending<P> {
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
        let (_first, mut first) = connections.add(1);
        let (second, mut second_evicted) = connections.add(1);
        assert_eq!(first.0.try_recv(), Err(TryRecvError::Empty));
        let (third, mut third_evicted) = connections.add(1);
        assert_eq!(first.0.try_recv(), Ok(()));
        drop(second);
        assert_eq!(second_evicted.0.try_recv(), Err(TryRecvError::Closed));
        // There is room now.
        let (_fourth, mut fourth) = connections.add(1);
        assert_eq!(third_evicted.0.try_recv(), Err(TryRecvError::Empty));
        assert_eq!(fourth.0.try_recv(), Err(TryRecvError::Empty));
        let (_fifth, _fifth_evicted) = connections.add(1);
        assert_eq!(third_evicted.0.try_recv(), Ok(()));
        assert_eq!(fourth.0.try_recv(), Err(TryRecvError::Empty));
        // One that was evicted makes no room but its own.
        drop(third);
        assert_eq!(lock(&connections.waiting).evictions.len(), 2);
    }

    #[test]
    fn whoever_has_most_makes_room() {
        let connections = PendingConnections::new(4);
        let (_honest, mut honest) = connections.add("honest");
        let mut kept = Vec::new();
        for _connection in 0..1000 {
            kept.push(connections.add("greedy"));
        }
        assert_eq!(honest.0.try_recv(), Err(TryRecvError::Empty));
        let mut evicted = 0;
        for (_pending, eviction) in &mut kept {
            evicted += usize::from(eviction.0.try_recv() == Ok(()));
        }
        assert_eq!(evicted, 997);
    }
}
