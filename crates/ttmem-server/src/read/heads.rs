//! Connections over TCP that were not let in yet.
//!
//! Anybody can connect and say nothing, so such connections take no permit: they have places of their
//! own here. When those are taken the one that waited longest goes for the one that comes. Who sends
//! its request at once is served then, however many are silent: to be in its way they would have to
//! come in the moment that it needs for its request, all of them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Places for connections that were not let in yet.
#[derive(Clone, Debug)]
pub(super) struct Heads {
    places: usize,
    waiting: Arc<Mutex<Waiting>>,
}

/// Who waits, in the order in which they came.
#[derive(Debug, Default)]
struct Waiting {
    next: u64,
    evictions: BTreeMap<u64, oneshot::Sender<()>>,
}

/// The place of one connection, which is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Head {
    number: u64,
    waiting: Arc<Mutex<Waiting>>,
}

/// Tells a connection that its place was given to another one.
#[derive(Debug)]
pub(super) struct Eviction(oneshot::Receiver<()>);

impl Heads {
    pub(super) fn new(places: usize) -> Self {
        Self {
            places,
            waiting: Arc::default(),
        }
    }

    /// A place, which somebody else may have to leave for it.
    pub(super) fn enter(&self) -> (Head, Eviction) {
        let (evict, evicted) = oneshot::channel();
        let mut waiting = lock(&self.waiting);
        while waiting.evictions.len() >= self.places {
            let Some((_number, oldest)) = waiting.evictions.pop_first() else {
                break;
            };
            // One that is just going by itself does not listen any more.
            let _told = oldest.send(());
        }
        let number = waiting.next;
        waiting.next += 1;
        waiting.evictions.insert(number, evict);
        drop(waiting);
        let head = Head {
            number,
            waiting: Arc::clone(&self.waiting),
        };
        (head, Eviction(evicted))
    }
}

impl Drop for Head {
    fn drop(&mut self) {
        lock(&self.waiting).evictions.remove(&self.number);
    }
}

impl Eviction {
    /// Waits until the place is given away, for ever if it is left before that.
    pub(super) async fn wait(self) {
        if self.0.await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

fn lock(waiting: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use oneshot::error::TryRecvError;

    #[test]
    fn who_came_first_goes_first_and_who_left_by_itself_is_not_told() {
        let heads = Heads::new(2);
        let (_first, mut first) = heads.enter();
        let (second, mut second_told) = heads.enter();
        assert_eq!(first.0.try_recv(), Err(TryRecvError::Empty));
        let (third, mut third_told) = heads.enter();
        assert_eq!(first.0.try_recv(), Ok(()));
        drop(second);
        assert_eq!(second_told.0.try_recv(), Err(TryRecvError::Closed));
        // There is a place now.
        let (_fourth, mut fourth) = heads.enter();
        assert_eq!(third_told.0.try_recv(), Err(TryRecvError::Empty));
        assert_eq!(fourth.0.try_recv(), Err(TryRecvError::Empty));
        let (_fifth, _fifth_told) = heads.enter();
        assert_eq!(third_told.0.try_recv(), Ok(()));
        assert_eq!(fourth.0.try_recv(), Err(TryRecvError::Empty));
        // One that was told to go frees nobody's place but its own.
        drop(third);
        assert_eq!(lock(&heads.waiting).evictions.len(), 2);
    }
}
