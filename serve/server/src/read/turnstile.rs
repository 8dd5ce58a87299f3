//! A bounded number of readers at a time, the others served in turns.
//!
//! In the order in which they came, a reader would wait for every request of one that asks all the time.

use crate::in_turns::InTurns;
use crate::lock;
use std::sync::{Arc, Mutex};
use tokio::sync::oneshot;
use ttmem_ledger::Holder;

#[derive(Clone, Debug)]
pub(super) struct Turnstile(Arc<Mutex<Waiters>>);

#[derive(Debug)]
struct Waiters {
    free: usize,
    waiting: InTurns<oneshot::Sender<Passage>>,
}

/// Being among them; the next in turn is let in when this is dropped.
#[derive(Debug)]
pub(super) struct Passage(Option<Turnstile>);

impl Turnstile {
    pub(super) fn new(count: usize) -> Self {
        Self(Arc::new(Mutex::new(Waiters {
            free: count,
            waiting: InTurns::default(),
        })))
    }

    /// Waits to be let in. Whoever stops waiting gives up its turn.
    pub(super) async fn take(&self, holder: Holder) -> Passage {
        loop {
            let turn = {
                let mut state = lock(&self.0);
                if state.free > 0 {
                    state.free -= 1;
                    return Passage(Some(self.clone()));
                }
                let (sender, turn) = oneshot::channel();
                state.waiting.push(holder, sender);
                turn
            };
            // A sender is dropped only with the turnstile.
            if let Ok(passage) = turn.await {
                return passage;
            }
        }
    }

    fn give_back(self) {
        loop {
            let next = {
                let mut state = lock(&self.0);
                let next = state.waiting.next();
                state.free += usize::from(next.is_none());
                next
            };
            let Some(next) = next else { return };
            match next.send(Passage(Some(self.clone()))) {
                Ok(()) => return,
                // Nobody waits there any more. It is not given back a second time.
                Err(mut unused) => unused.0 = None,
            }
        }
    }
}

impl Drop for Passage {
    fn drop(&mut self) {
        if let Some(turnstile) = self.0.take() {
            turnstile.give_back();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    const GREEDY: Holder = Holder { uid: 1, process: 1 };
    const OTHER: Holder = Holder { uid: 2, process: 1 };

    fn polled<T>(future: &mut (impl Future<Output = T> + Unpin)) -> Option<T> {
        match std::pin::Pin::new(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    #[test]
    fn another_user_waits_for_one_of_many() {
        let turnstile = Turnstile::new(1);
        let mut first = pin!(turnstile.take(GREEDY));
        let first = polled(&mut first).unwrap();
        let mut greedy: Vec<_> = (0..100).map(|_| Box::pin(turnstile.take(GREEDY))).collect();
        for waiting in &mut greedy {
            assert!(polled(waiting).is_none());
        }
        let mut other = pin!(turnstile.take(OTHER));
        assert!(polled(&mut other).is_none());
        drop(first);
        let second = polled(&mut greedy[0]).expect("it came before the other");
        drop(second);
        let third = polled(&mut other).expect("its turn is after one of the greedy");
        assert!(polled(&mut greedy[1]).is_none());
        drop(third);
        assert!(polled(&mut greedy[1]).is_some());
    }

    #[test]
    fn whoever_stops_waiting_keeps_no_place() {
        let turnstile = Turnstile::new(1);
        let mut first = pin!(turnstile.take(GREEDY));
        let first = polled(&mut first).unwrap();
        let mut gone_before = Box::pin(turnstile.take(GREEDY));
        let mut gone_after = Box::pin(turnstile.take(GREEDY));
        let mut last = pin!(turnstile.take(OTHER));
        for waiting in [&mut gone_before, &mut gone_after] {
            assert!(polled(waiting).is_none());
        }
        assert!(polled(&mut last).is_none());
        drop(gone_before);
        // Given to one that stops before it looks.
        drop(first);
        drop(gone_after);
        let taken = polled(&mut last).expect("nobody else waits");
        drop(taken);
        assert_eq!(lock(&turnstile.0).free, 1);
    }
}
