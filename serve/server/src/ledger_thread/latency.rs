//! How long what processes report waits until it is in the ledger.

use std::time::Duration;

/// The upper bounds of the counts, in seconds.
pub(crate) const LATENCY_BOUNDS: [f64; 8] = [0.0001, 0.001, 0.01, 0.1, 0.5, 1.0, 5.0, 30.0];

/// Commands by how long they waited.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct LatencyCounts {
    /// Those within each bound and beyond the one before; the last, beyond all.
    pub(crate) counts: [u64; LATENCY_BOUNDS.len() + 1],
    pub(crate) sum_seconds: f64,
}

impl LatencyCounts {
    pub(super) fn add(&mut self, waited: Duration) {
        let seconds = waited.as_secs_f64();
        let place = LATENCY_BOUNDS.partition_point(|bound| *bound < seconds);
        self.counts[place] += 1;
        self.sum_seconds += seconds;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wait_is_counted_within_the_first_bound_that_it_keeps() {
        let mut latency = LatencyCounts::default();
        for micros in [0, 100, 101, 30_000_000, 30_000_001] {
            latency.add(Duration::from_micros(micros));
        }
        assert_eq!(latency.counts, [2, 1, 0, 0, 0, 0, 0, 1, 1]);
        assert!((latency.sum_seconds - 60.000_202).abs() < 1e-9);
    }
}
