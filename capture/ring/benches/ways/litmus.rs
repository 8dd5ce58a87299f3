//! How often a stamp is older than one that its thread had read before.

use super::clock::{Clock, Cycles, CyclesAfterFence, CyclesAfterLoads, Monotonic};
use super::measure::stay_on;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long each clock is tried.
const SECONDS: u64 = 2;

/// Reads between two looks at the time.
const READS: u64 = 100_000;

#[derive(Debug, Default)]
pub(crate) struct Inversions {
    /// Reads that found a new stamp.
    pub(crate) fresh_reads: u64,
    /// Those of them after which the own stamp was older.
    pub(crate) older: u64,
    /// By how much at most.
    pub(crate) most_ticks: u64,
}

/// Every clock.
pub(crate) fn run() -> [(&'static str, Inversions); 4] {
    [
        ("rdtsc", inversions::<Cycles>()),
        ("rdtscp", inversions::<CyclesAfterLoads>()),
        ("lfence; rdtsc", inversions::<CyclesAfterFence>()),
        ("clock_gettime", inversions::<Monotonic>()),
    ]
}

fn inversions<C: Clock>() -> Inversions {
    let stamp = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    let mut found = Inversions::default();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            stay_on(1);
            while !stop.load(Ordering::Relaxed) {
                stamp.store(C::now(), Ordering::Release);
            }
        });
        scope.spawn(|| {
            stay_on(0);
            let end = Instant::now() + Duration::from_secs(SECONDS);
            while Instant::now() < end {
                found.read::<C>(&stamp);
            }
            stop.store(true, Ordering::Relaxed);
        });
    });
    found
}

impl Inversions {
    fn read<C: Clock>(&mut self, stamp: &AtomicU64) {
        let mut last = 0;
        for _read in 0..READS {
            let theirs = stamp.load(Ordering::Acquire);
            let ours = C::now();
            if theirs != last {
                last = theirs;
                self.fresh_reads += 1;
                if ours < theirs {
                    self.older += 1;
                    self.most_ticks = self.most_ticks.max(theirs - ours);
                }
            }
        }
    }
}
