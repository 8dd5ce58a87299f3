//! What a tracker call costs the thread that makes it.
//!
//! Runs in a process of its own, because tracking is on or off for a whole
//! process. Bursts fit into a ring and are far enough apart for the pump to
//! empty it, as operations of a model are. A block of calls is timed for the
//! median, so that the timer's own cost vanishes; single calls for the tail,
//! less what the timer costs by itself.

use super::harness::{mesh, n150};
use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::{Value, json};
use std::sync::Barrier;
use std::time::{Duration, Instant};
use ttmem_client::{Config, Tracker};
use ttmem_event::{
    BufferId, CacheResult, CbKind, Class, CoreSet, CoresId, Direction, DispatchPath, EventKind,
    Layout, MeshId, ProgramId, TextId,
};

/// Events of a burst: nearly a ring.
const BURST: usize = 7936;
/// Calls that are timed together.
const BLOCK: usize = 64;
const PAUSE: Duration = Duration::from_millis(12);

#[derive(Clone, Debug, Args)]
pub struct RecordOptions {
    /// Threads that record at the same time.
    #[arg(long, default_value_t = 1)]
    pub threads: usize,
    /// Bursts of each kind of event.
    #[arg(long, default_value_t = 100)]
    pub bursts: u64,
    /// Instead: pairs of events at this rate per second, for so many seconds, one line per second.
    #[arg(long, num_args = 2, value_names = ["RATE", "SECONDS"])]
    pub steady: Vec<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Subject {
    tracker: Tracker,
    mesh: MeshId,
    program: ProgramId,
    cores: CoresId,
    operation: TextId,
}

pub fn run(options: &RecordOptions) -> Result<Value> {
    let subject = Subject::open(Tracker::start(Config::from_env()))?;
    if let [rate, seconds] = *options.steady.as_slice() {
        return steady(&subject, rate, seconds);
    }
    let threads = options.threads.max(1);
    let barrier = Barrier::new(threads);
    let found: Vec<Value> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads)
            .map(|number| {
                let barrier = &barrier;
                let mut subject = subject;
                // Ids of its own.
                let base = (number as u64 + 1) << 40;
                scope.spawn(move || {
                    subject.program = ProgramId(base);
                    barrier.wait();
                    subject.measure(options.bursts, base)
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join())
            .collect::<Result<_, _>>()
    })
    .map_err(|_panic| anyhow::anyhow!("a measuring thread failed"))?;
    // Whether a server confirms is not what is measured here.
    let _no_server = subject.tracker.flush(Duration::from_secs(20));
    let statistics = subject.tracker.statistics();
    Ok(json!({
        "enabled": subject.tracker.is_enabled(),
        "threads": found,
        "lost_events": statistics.lost_events,
    }))
}

impl Subject {
    fn open(tracker: Tracker) -> Result<Self> {
        let device = tracker.device(&n150(0));
        let mesh = tracker.mesh(&mesh(MeshId(0), 0, &[device]));
        tracker.track(EventKind::DeviceOpened { device });
        tracker.track(EventKind::MeshOpened { mesh });
        Ok(Self {
            tracker,
            mesh,
            program: ProgramId(1),
            cores: tracker.cores(&CoreSet::grid(8, 8)),
            operation: tracker.text("ttnn::matmul"),
        })
    }

    #[inline(always)]
    fn allocate(&self, id: u64) {
        self.tracker.track(EventKind::BufferAllocated {
            mesh: self.mesh,
            buffer: BufferId(id),
            class: Class::Dram,
            layout: Layout::Interleaved,
            direction: Direction::BottomUp,
            address: id.wrapping_mul(64),
            requested_bytes: 24_576,
            per_bank_bytes: 2048,
            page_bytes: 2048,
            cores: CoresId::NONE,
            operation: self.operation,
            banks: 12,
        });
    }

    #[inline(always)]
    fn free(&self, id: u64) {
        self.tracker.track(EventKind::BufferFreed {
            mesh: self.mesh,
            buffer: BufferId(id),
        });
    }

    #[inline(always)]
    fn place_cb(&self) {
        self.tracker.track(EventKind::CbAllocated {
            mesh: self.mesh,
            program: self.program,
            cb: 0,
            kind: CbKind::Local,
            address: 110_592,
            size_bytes: 4096,
            cores: self.cores,
        });
    }

    #[inline(always)]
    fn free_cb(&self) {
        self.tracker.track(EventKind::CbFreed {
            mesh: self.mesh,
            program: self.program,
            cb: Some(0),
        });
    }

    #[inline(always)]
    fn dispatch(&self, runtime_id: u64) {
        self.tracker.track(EventKind::Dispatched {
            mesh: self.mesh,
            program: self.program,
            runtime_id,
            operation: self.operation,
            program_cache: CacheResult::Hit,
            binary_reused: true,
            path: DispatchPath::Fast,
        });
    }

    fn measure(&self, bursts: u64, base: u64) -> Value {
        self.tracker.track(EventKind::ProgramCreated {
            program: self.program,
            name: self.operation,
            runtime_id: 1,
            pointer: 0,
        });
        let (allocate, free) = (|id| self.allocate(base + id), |id| self.free(base + id));
        let (place, take) = (|_pair| self.place_cb(), |_pair| self.free_cb());
        let dispatch = |pair| self.dispatch(pair);
        json!({
            "buffer": figures(bursts, allocate, free),
            "cb": figures(bursts, place, take),
            "dispatch": figures(bursts, dispatch, dispatch),
        })
    }
}

/// The median over blocks and the tail over single calls, of two kinds of call in turn.
fn figures(bursts: u64, first: impl Fn(u64), second: impl Fn(u64)) -> Value {
    let half = usize::try_from(bursts / 2).unwrap_or(0);
    let mut blocks = room((half + 1) * (BURST / BLOCK));
    let mut singles = room(half * BURST);
    let (mut next_block, mut next_singles) = (blocks.iter_mut(), singles.chunks_exact_mut(2));
    let mut pair = 0;
    for burst in 0..bursts {
        std::thread::sleep(PAUSE);
        if burst.is_multiple_of(2) {
            for block in next_block.by_ref().take(BURST / BLOCK) {
                let begun = Instant::now();
                for _pair in 0..BLOCK / 2 {
                    first(pair);
                    second(pair);
                    pair += 1;
                }
                *block = begun.elapsed().as_nanos() as f64 / BLOCK as f64;
            }
        } else {
            for singles in next_singles.by_ref().take(BURST / 2) {
                let begun = Instant::now();
                first(pair);
                singles[0] = begun.elapsed().as_nanos() as f64;
                let begun = Instant::now();
                second(pair);
                singles[1] = begun.elapsed().as_nanos() as f64;
                pair += 1;
            }
        }
    }
    let (timer, timer_p999) = timer_nanos();
    // Room for one burst more than there was, if their number was even.
    blocks.retain(|nanos| *nanos < f64::MAX);
    json!({
        "nanos_median": percentile(&mut blocks, 0.5),
        "nanos_p999": (percentile(&mut singles, 0.999) - timer).max(0.0),
        "events": 2 * pair,
        "timer_nanos_median": timer,
        "timer_nanos_p999": timer_p999,
    })
}

/// Room for figures that the system has given already: a page fault between two calls would be
/// measured with the second.
fn room(figures: usize) -> Vec<f64> {
    let mut room = vec![0.0; figures];
    room.fill(f64::MAX);
    room
}

/// What timing costs by itself, in the middle and at the tail: the tail is the machine's own.
fn timer_nanos() -> (f64, f64) {
    let mut empty = room(200_000);
    for pair in &mut empty {
        *pair = Instant::now().elapsed().as_nanos() as f64;
    }
    (percentile(&mut empty, 0.5), percentile(&mut empty, 0.999))
}

fn percentile(figures: &mut [f64], share: f64) -> f64 {
    figures.sort_by(f64::total_cmp);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share below one of a length"
    )]
    let at = (figures.len() as f64 * share) as usize;
    figures.get(at).copied().unwrap_or(f64::NAN)
}

/// Events at a steady rate; what each second cost, so that one in which the server was stopped can
/// be held against the others.
fn steady(subject: &Subject, rate: u64, seconds: u64) -> Result<Value> {
    ensure!(rate > 0, "a rate of nothing");
    let (timer, _tail) = timer_nanos();
    let begun = Instant::now();
    let mut rows = Vec::new();
    let mut number: u64 = 0;
    for second in 0..seconds {
        let mut singles = Vec::new();
        while begun.elapsed() < Duration::from_secs(second + 1) {
            for _pair in 0..50 {
                let call = Instant::now();
                subject.allocate(number);
                singles.push(call.elapsed().as_nanos() as f64);
                let call = Instant::now();
                subject.free(number);
                singles.push(call.elapsed().as_nanos() as f64);
                number += 2;
            }
            let due = Duration::from_nanos(number.saturating_mul(1_000_000_000) / rate);
            std::thread::sleep(due.saturating_sub(begun.elapsed()));
        }
        rows.push(json!({
            "second": second,
            "events": singles.len(),
            "nanos_median": (percentile(&mut singles, 0.5) - timer).max(0.0),
            "nanos_p999": (percentile(&mut singles, 0.999) - timer).max(0.0),
        }));
    }
    let elapsed = begun.elapsed();
    // One stays.
    subject.allocate(u64::MAX >> 1);
    let flushed = subject.tracker.flush(Duration::from_secs(30));
    flushed.context("the server did not confirm")?;
    let statistics = subject.tracker.statistics();
    Ok(json!({
        "seconds": rows,
        "elapsed_seconds": elapsed.as_secs_f64(),
        "events": number + 1,
        "lost_events": statistics.lost_events,
        "elided_events": statistics.elided_events,
        "pump_cpu_seconds": statistics.pump_cpu().as_secs_f64(),
    }))
}
