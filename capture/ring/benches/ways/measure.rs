//! Times a way: with one thread and with two, with nobody reading and with a consumer beside.
//!
//! Every thread stays on a processor of its own as far as there are enough. Each
//! measurement is repeated and the least disturbed one counts: other work on the
//! machine makes it longer, nothing makes it shorter.

use super::clock::{Clock, CyclesAfterFence, CyclesAfterLoads};
use super::way::{THREADS, Way};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Events of a burst: half of what fits.
const BURST: u64 = 4096;

/// Events that are timed together for the median.
const BLOCK: u64 = 64;

/// Bursts of each measurement, after some that are not counted.
const BURSTS: usize = 200;
const WARMING: usize = 20;

const RUNS: usize = 5;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    pub(crate) median_nanos: f64,
    /// One event in a thousand costs more.
    pub(crate) rare_nanos: f64,
}

/// How fast the cycle counter runs.
pub(crate) fn ticks_per_nano() -> f64 {
    let (start, ticks) = (Instant::now(), CyclesAfterLoads::now());
    std::thread::sleep(Duration::from_millis(200));
    let ticks = CyclesAfterLoads::now() - ticks;
    ticks as f64 / start.elapsed().as_nanos() as f64
}

/// One thread and two, each without a consumer and with one.
pub(crate) fn measure<W: Way>(ticks_per_nano: f64, make: impl Fn() -> W) -> [Cost; 4] {
    [(1, false), (1, true), (2, false), (2, true)].map(|(threads, consumer)| {
        let least = |events_per_time, rank: fn(usize) -> usize| {
            let runs = (0..RUNS).map(|_run| {
                let mut times = run(&make(), threads, consumer, events_per_time);
                times.sort_unstable();
                times[rank(times.len())]
            });
            let ticks = runs.min().unwrap_or(0).saturating_sub(timer_ticks());
            ticks as f64 / ticks_per_nano
        };
        Cost {
            median_nanos: least(BLOCK, |count| count / 2) / BLOCK as f64,
            rare_nanos: least(1, |count| count - count / 1000 - 1),
        }
    })
}

/// Keeps the calling thread on a processor; where that is not allowed, it may move.
pub(crate) fn stay_on(processor: usize) {
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    let mut set = CpuSet::new();
    set.set(processor % count);
    // Times are then only less steady.
    let _kept = sched_setaffinity(None, &set);
}

/// What reading the timer twice costs.
fn timer_ticks() -> u64 {
    let mut empty: Vec<u64> = (0..10_000).map(|_pair| time(|| {})).collect();
    empty.sort_unstable();
    empty[empty.len() / 2]
}

#[inline]
fn time(work: impl FnOnce()) -> u64 {
    let start = CyclesAfterFence::now();
    work();
    CyclesAfterLoads::now() - start
}

/// Ticks for every so many events of every counted burst of every thread.
fn run<W: Way>(way: &W, threads: usize, consumer: bool, events_per_time: u64) -> Vec<u64> {
    let start = Barrier::new(threads + 1);
    let end = Barrier::new(threads + 1);
    let stop = AtomicBool::new(false);
    let taken = AtomicU64::new(0);
    let (start, end, stop, taken) = (&start, &end, &stop, &taken);
    let mut receiver = way.receiver();
    std::thread::scope(|scope| {
        let senders = way.senders().into_iter().take(threads.min(THREADS));
        let spawn = |(number, sender)| {
            scope.spawn(move || {
                stay_on(number);
                produce::<W>(&sender, start, end, events_per_time)
            })
        };
        let producing: Vec<_> = senders.enumerate().map(spawn).collect();
        let mut idle = Some(receiver);
        if consumer {
            receiver = idle.take().expect("nobody has taken it");
            scope.spawn(move || {
                stay_on(threads);
                while !stop.load(Ordering::Relaxed) {
                    taken.fetch_add(W::take(&mut receiver), Ordering::Relaxed);
                    std::thread::yield_now();
                }
            });
        }
        let burst = BURST * threads as u64;
        for number in 1..=(WARMING + BURSTS) as u64 {
            start.wait();
            end.wait();
            // The next burst finds everything empty.
            while taken.load(Ordering::Relaxed) < number * burst {
                match &mut idle {
                    Some(receiver) => {
                        taken.fetch_add(W::take(receiver), Ordering::Relaxed);
                    }
                    None => std::thread::yield_now(),
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
        let times = producing
            .into_iter()
            .map(|thread| thread.join().expect("nobody panics"));
        times.collect::<Vec<_>>().concat()
    })
}

/// All bursts of a thread.
fn produce<W: Way>(
    sender: &W::Sending<'_>,
    start: &Barrier,
    end: &Barrier,
    events_per_time: u64,
) -> Vec<u64> {
    let count = BURST / events_per_time;
    let mut times = Vec::with_capacity(BURSTS * usize::try_from(count).unwrap_or(0));
    for number in 0..WARMING + BURSTS {
        start.wait();
        for _time in 0..count {
            let ticks = time(|| {
                for value in 0..events_per_time {
                    W::send(sender, value);
                }
            });
            if number >= WARMING {
                times.push(ticks);
            }
        }
        end.wait();
    }
    times
}
