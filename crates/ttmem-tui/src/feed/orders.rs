//! What the app wants of the feed's threads.

use crate::wants::{Request, Wants};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

#[derive(Debug, Clone)]
pub(super) struct Order {
    pub(super) wants: Wants,
    pub(super) interval: Duration,
    pub(super) paused: bool,
    /// Grows when everything is to be asked for anew.
    pub(super) refreshed: u64,
    /// What the server is to do.
    pub(super) requests: Vec<Request>,
    /// The threads are to end.
    pub(super) ended: bool,
    pub(super) failed: bool,
    /// Grows with every change of the above.
    version: u64,
}

/// What is wanted, shared by the app and the threads.
#[derive(Debug)]
pub(super) struct Orders {
    order: Mutex<Order>,
    changed: Condvar,
}

impl Orders {
    pub(super) fn new(interval: Duration) -> Self {
        Self {
            order: Mutex::new(Order {
                wants: Wants::default(),
                interval,
                paused: false,
                refreshed: 0,
                requests: Vec::new(),
                ended: false,
                failed: false,
                version: 0,
            }),
            changed: Condvar::new(),
        }
    }

    pub(super) fn want(&self, wants: Wants) {
        // Asked for in every frame: most of the time nothing is new.
        if self.lock().wants != wants {
            self.change(|order| order.wants = wants);
        }
    }

    /// Notes that a thread has failed; the others are to end.
    pub(super) fn fail(&self) {
        self.change(|order| {
            order.failed = true;
            order.ended = true;
        });
    }

    /// Whether a thread has failed.
    pub(super) fn has_failed(&self) -> bool {
        self.lock().failed
    }

    /// What is wanted now; requests stay until they are taken.
    pub(super) fn now(&self) -> Order {
        self.lock().clone()
    }

    /// Takes what the server is to do.
    pub(super) fn take_requests(&self) -> Vec<Request> {
        std::mem::take(&mut self.lock().requests)
    }

    /// Waits until a moment, or until something else is wanted than `seen`.
    pub(super) fn wait_until(&self, moment: Instant, seen: &Order) {
        let mut order = self.lock();
        while order.version == seen.version {
            let left = moment.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.changed.wait_timeout(order, left);
            order = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Changes what is wanted, and wakes the threads.
    pub(super) fn change(&self, change: impl FnOnce(&mut Order)) {
        let mut order = self.lock();
        change(&mut order);
        order.version += 1;
        drop(order);
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Order> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
