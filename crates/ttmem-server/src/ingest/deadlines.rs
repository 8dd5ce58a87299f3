//! Deadlines that are all the same time away.
//!
//! With one delay for all, the order of arrival is the order of expiry and a
//! plain queue does.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// A queue of things that are due a fixed time after they were put in.
#[derive(Debug)]
pub(super) struct Deadlines<T> {
    delay: Duration,
    queue: VecDeque<(Instant, T)>,
}

impl<T> Deadlines<T> {
    pub(super) fn new(delay: Duration) -> Self {
        Self {
            delay,
            queue: VecDeque::new(),
        }
    }

    pub(super) fn push(&mut self, now: Instant, item: T) {
        self.queue.push_back((now + self.delay, item));
    }

    /// When the next one is due.
    pub(super) fn next(&self) -> Option<Instant> {
        self.queue.front().map(|(due, _item)| *due)
    }

    /// The next one that is due by now.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<T> {
        self.queue
            .pop_front_if(|(due, _item)| *due <= now)
            .map(|(_due, item)| item)
    }
}
