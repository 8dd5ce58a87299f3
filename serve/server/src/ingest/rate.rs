//! How often something may happen: so many at once, and so many in a time.

use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    /// How many may happen at once.
    pub(crate) burst: u32,
    /// After how long one more may.
    pub(crate) interval: Duration,
}

/// What is left of a [`Rate`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Allowance {
    /// When all of it is left again.
    whole_at: Option<Instant>,
}

impl Allowance {
    /// Whether it may happen once more now; if so, it counts.
    pub(crate) fn take(&mut self, rate: Rate, now: Instant) -> bool {
        let is_granted = self.has(rate, now);
        if is_granted {
            self.charge(rate, 1, now);
        }
        is_granted
    }

    /// Whether it may happen once more now.
    pub(crate) fn has(&self, rate: Rate, now: Instant) -> bool {
        let used = self
            .whole_at
            .map_or(Duration::ZERO, |at| at.saturating_duration_since(now));
        used <= rate.interval * rate.burst.saturating_sub(1)
    }

    /// Counts what has happened, also beyond what was left: that is made up for before more may happen.
    pub(crate) fn charge(&mut self, rate: Rate, count: u32, now: Instant) {
        let whole_at = self.whole_at.map_or(now, |at| at.max(now));
        self.whole_at = Some(whole_at + rate.interval * count);
    }

    pub(crate) fn is_whole(&self, now: Instant) -> bool {
        self.whole_at.is_none_or(|at| at <= now)
    }
}
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_and_then_one_in_every_interval() {
        let rate = Rate {
            burst: 3,
            interval: Duration::from_secs(1),
        };
        let start = Instant::now();
        let mut left = Allowance::default();
        let mut taken = |seconds: u64| left.take(rate, start + Duration::from_secs(seconds));
        assert_eq!(
            [0, 0, 0, 0, 0].map(&mut taken),
            [true, true, true, false, false]
        );
        assert_eq!([1, 1, 2, 2].map(&mut taken), [true, false, true, false]);
        assert_eq!(
            [100, 100, 100, 100].map(&mut taken),
            [true, true, true, false]
        );
        assert!(!left.is_whole(start + Duration::from_secs(102)));
        assert!(left.is_whole(start + Duration::from_secs(103)));
    }
}
