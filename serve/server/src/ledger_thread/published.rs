//! The newest view of the ledger: the ledger thread publishes it, readers take it.
//!
//! A view is current until the next change begins, and readers who ask meanwhile get it
//! without waking anybody. Those who ask later wait for the next one and share it. A reader waits here and
//! not in the command queue, so it is served after the command at hand, however many are queued.
//! Everything that was acknowledged before it asked is in its view: a change is announced before it
//! begins, and acknowledged after that.

use crate::lock;
use std::sync::{Arc, Mutex};
use tokio::sync::oneshot;
use ttmem_ledger::{Ledger, View};

/// The readers' end. See [`Publisher`] for the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Published(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// Only while nothing has changed since: what nobody may take is not kept in memory.
    current: Option<Arc<View>>,
    waiting: Vec<oneshot::Sender<Arc<View>>>,
    ended: bool,
}

impl Published {
    /// A view of all that was acknowledged so far. `wake` is called if the ledger thread may not
    /// know that somebody waits.
    pub(crate) fn request(&self, wake: impl FnOnce()) -> oneshot::Receiver<Arc<View>> {
        let (sender, receiver) = oneshot::channel();
        let mut state = lock(&self.0);
        if let Some(view) = &state.current {
            // The receiver is here.
            let _held = sender.send(Arc::clone(view));
        } else if !state.ended {
            state.waiting.push(sender);
            let is_first = state.waiting.len() == 1;
            drop(state);
            if is_first {
                wake();
            }
        }
        receiver
    }
}

/// The ledger thread's end; when it is dropped, nobody waits any longer.
#[derive(Debug)]
pub(crate) struct Publisher {
    published: Published,
    current: Option<Arc<View>>,
}

impl Publisher {
    pub(crate) fn new(published: Published) -> Self {
        Self {
            published,
            current: None,
        }
    }

    /// A change begins: from now on readers wait for the view after it.
    pub(crate) fn invalidate(&mut self) {
        if self.current.take().is_some() {
            lock(&self.published.0).current = None;
        }
    }

    pub(crate) fn publish_if_requested(&mut self, ledger: &mut Ledger) {
        if !lock(&self.published.0).waiting.is_empty() {
            self.publish(ledger);
        }
    }

    /// Publishes a view, unless the current one is.
    pub(crate) fn publish(&mut self, ledger: &mut Ledger) -> Arc<View> {
        // Not under the lock: readers must not wait there.
        let view = self.current.get_or_insert_with(|| Arc::new(ledger.view()));
        let mut state = lock(&self.published.0);
        state.current = Some(Arc::clone(view));
        for sender in state.waiting.drain(..) {
            // Who went away needs no view.
            let _gone = sender.send(Arc::clone(view));
        }
        Arc::clone(view)
    }

    /// Answers who waits, and keeps nothing for those who ask later: a test changes its ledger without
    /// announcing it.
    #[cfg(test)]
    pub(crate) fn answer_waiting(&mut self, ledger: &mut Ledger) {
        let mut state = lock(&self.published.0);
        if !state.waiting.is_empty() {
            let view = Arc::new(ledger.view());
            for sender in state.waiting.drain(..) {
                // Who went away needs no view.
                let _gone = sender.send(Arc::clone(&view));
            }
        }
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        *lock(&self.published.0) = State {
            ended: true,
            ..State::default()
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oneshot::error::TryRecvError;
    use std::cell::Cell;
    use ttmem_ledger::testing::TestLedger;
    use ttmem_ledger::{Change, Limits};

    #[test]
    fn readers_share_a_view_until_something_changes() {
        let mut ledger = Ledger::new(Limits::default());
        let published = Published::default();
        let mut publisher = Publisher::new(published.clone());
        let woken = Cell::new(0);
        let request = || published.request(|| woken.set(woken.get() + 1));

        let (mut first, mut second) = (request(), request());
        assert_eq!(woken.get(), 1, "one of those who wait is enough");
        assert_eq!(first.try_recv().err(), Some(TryRecvError::Empty));
        publisher.publish_if_requested(&mut ledger);
        let first = first.try_recv().unwrap();
        assert!(Arc::ptr_eq(&first, &second.try_recv().unwrap()));
        assert!(Arc::ptr_eq(&first, &request().try_recv().unwrap()));
        assert_eq!(woken.get(), 1, "what is current wakes nobody");

        publisher.invalidate();
        let mut during = request();
        ledger.make(Change::ConfigureDevice(Box::default()));
        assert_eq!(during.try_recv().err(), Some(TryRecvError::Empty));
        publisher.publish_if_requested(&mut ledger);
        // The next change takes nothing from who waited for the one before.
        publisher.invalidate();
        assert_eq!(during.try_recv().unwrap().devices.len(), 1);
        assert_eq!((first.devices.len(), woken.get()), (0, 2));

        let mut last = request();
        drop(publisher);
        assert_eq!(last.try_recv().err(), Some(TryRecvError::Closed));
        assert_eq!(request().try_recv().err(), Some(TryRecvError::Closed));
    }
}
