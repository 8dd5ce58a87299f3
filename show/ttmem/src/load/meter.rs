//! How many events a client has recorded, and how many it may.
//!
//! A bucket of tokens without a thread: an event that is early waits until it is due. Events that
//! the machine was too slow for are not made up for in one burst, beyond what the bucket holds.

use crate::observer::Observer;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use ttmem_event::EventKind;

/// How far behind its rate a client may catch up.
const BUCKET: Duration = Duration::from_millis(100);

/// Events that are let through together: a sleep is never exact to the microsecond.
const MOST_TOGETHER: u64 = 64;

/// How long a client sleeps before it looks whether it is over.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);

#[derive(Clone, Debug)]
pub(super) struct Ending {
    /// The time it was given.
    pub(super) deadline: Instant,
    /// Set when it is to end before that.
    pub(super) early: Arc<AtomicBool>,
}

impl Ending {
    pub(super) fn has_come(&self) -> bool {
        self.early.load(Ordering::Relaxed) || Instant::now() >= self.deadline
    }
}

/// Counts events and keeps to a rate until the end comes.
#[derive(Debug)]
pub(super) struct Meter {
    pub(super) events: u64,
    /// Events per second; 0 = as fast as it goes.
    rate: u64,
    /// When the rate began to count, and at which event.
    since: (Instant, u64),
    ending: Ending,
}

impl Meter {
    pub(super) fn new(rate: u64, ending: Ending) -> Self {
        Self {
            events: 0,
            rate,
            since: (Instant::now(), 0),
            ending,
        }
    }

    /// Waits until the next event is due; not after the end, where a scenario is only closed.
    fn wait(&mut self) {
        let (begun, first) = self.since;
        let events = u128::from(self.events - first);
        let nanos = events * 1_000_000_000 / u128::from(self.rate);
        let due = begun + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        let now = Instant::now();
        if now.saturating_duration_since(due) > BUCKET {
            self.since = (now, self.events);
            return;
        }
        while !self.ending.has_come() {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(LONGEST_SLEEP));
        }
    }
}

impl Observer for Meter {
    fn before(&mut self, _what: &EventKind) -> u64 {
        if self.rate > 0 {
            // At slow rates each event by itself, at fast ones some together.
            let together = (self.rate / 1000).clamp(1, MOST_TOGETHER);
            if self.events.is_multiple_of(together) {
                self.wait();
            }
        }
        self.events += 1;
        self.events - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ttmem_event::{MeshId, TextId};

    const EVENT: EventKind = EventKind::Marked {
        name: TextId(0),
        number: 0,
    };

    fn ending(lasts: Duration) -> Ending {
        Ending {
            deadline: Instant::now() + lasts,
            early: Arc::default(),
        }
    }

    #[test]
    fn events_are_never_early() {
        let begun = Instant::now();
        let mut meter = Meter::new(10_000, ending(Duration::from_secs(60)));
        for _event in 0..1000 {
            meter.before(&EVENT);
        }
        assert_eq!(meter.events, 1000);
        // The last ones that are let through together begin at the 990th.
        assert!(begun.elapsed() >= Duration::from_millis(99));
    }

    #[test]
    fn after_the_end_nothing_waits() {
        let mut meter = Meter::new(1, ending(Duration::ZERO));
        let early = ending(Duration::from_secs(3600));
        early.early.store(true, Ordering::Relaxed);
        let mut early = Meter::new(1, early);
        // At one event per second this would take hours.
        for _event in 0..10_000 {
            meter.before(&EventKind::MeshClosed { mesh: MeshId(1) });
            early.before(&EVENT);
        }
        assert_eq!(meter.events + early.events, 20_000);
    }

    #[test]
    fn without_a_rate_events_are_only_counted() {
        let mut meter = Meter::new(0, ending(Duration::from_secs(3600)));
        for _event in 0..1_000_000 {
            meter.before(&EVENT);
        }
        assert_eq!(meter.events, 1_000_000);
    }
}
