//! How fast the ledger is on this machine: a report, never a gate.
//!
//! `cargo bench -p ttmem-ledger --bench ledger` prints one JSON object: events
//! per second of every workload, and how long it takes to read where everything
//! lies. Times are of one core and vary with whatever else runs; the counts of
//! instructions are what regressions are judged by.

mod workloads;

use rustix::time::{ClockId, clock_gettime};
use std::fmt::Write as _;
use std::hint::black_box;
use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};
use ttmem_account::Account;
use ttmem_event::wire::Frame;
use ttmem_event::{Class, Event, EventKind};
use workloads::buffers::{BufferSpace, LIVE_PER_ALLOCATOR};
use workloads::shuffle::Shuffle;
use workloads::world::World;
use workloads::{WORKLOADS, Workload};

/// Events of one timed run: a fifth of a second at the target.
const EVENTS: u64 = 1_000_000;
/// Timed runs, after one that is not.
const RUNS: usize = 5;
/// Events per second that the ledger should apply on one core, at the least.
const TARGET_EVENTS_PER_SECOND: u64 = 5_000_000;
/// How long reading the geometry of 100,000 live buffers should take, at the most.
const TARGET_GEOMETRY_MICROS: u128 = 20_000;

fn main() -> std::io::Result<()> {
    let workloads: Vec<String> = WORKLOADS.iter().map(report_workload).collect();
    let mut geometry = Vec::new();
    for live in [10_000, 100_000, 1_000_000] {
        for order in [Order::Ascending, Order::Random] {
            geometry.push(report_geometry(live, order));
        }
    }
    let pauses = report_pauses(1_000_000);
    let mut report = String::new();
    // Writing to a string cannot fail.
    let _written = write!(
        report,
        "{{\n  \"events_per_run\": {EVENTS},\n  \"runs\": {RUNS},\n  \
         \"live_per_allocator\": {LIVE_PER_ALLOCATOR},\n  \
         \"workloads\": [\n    {}\n  ],\n  \"geometry\": [\n    {}\n  ],\n  \"pauses\": {pauses}\n}}",
        workloads.join(",\n    "),
        geometry.join(",\n    "),
    );
    writeln!(std::io::stdout().lock(), "{report}")
}

fn report_workload(workload: &Workload) -> String {
    let mut run = (workload.prepare)();
    run(EVENTS);
    let times = sorted_times(|| {
        let start = Instant::now();
        run(EVENTS);
        start.elapsed()
    });
    let target = if workload.name.starts_with("ledger_") {
        TARGET_EVENTS_PER_SECOND.to_string()
    } else {
        "null".to_owned()
    };
    format!(
        "{{\"name\": \"{}\", \"best_events_per_second\": {}, \"median_events_per_second\": {}, \
         \"target_events_per_second\": {target}}}",
        workload.name,
        per_second(times[0]),
        per_second(times[RUNS / 2]),
    )
}

/// The places of live buffers in the order of their rows.
#[derive(Clone, Copy, Debug)]
enum Order {
    /// As an allocator fills an empty bank.
    Ascending,
    /// As it is after many have come and gone.
    Random,
}

fn report_geometry(live: u64, order: Order) -> String {
    let mut world = World::with_mesh(1);
    let space = BufferSpace::new(Class::Dram, live);
    let mut places: Vec<u64> = (0..live).collect();
    if let Order::Random = order {
        Shuffle::new(4).shuffle(&mut places);
    }
    for place in places {
        world.apply(space.allocated(place));
    }
    world.assert_sound();
    let views = sorted_times(|| {
        let start = Instant::now();
        black_box(world.view());
        start.elapsed()
    });
    let reads = sorted_times(|| {
        let start = Instant::now();
        black_box(world.view().geometry());
        start.elapsed()
    });
    let target = if live == 100_000 {
        TARGET_GEOMETRY_MICROS.to_string()
    } else {
        "null".to_owned()
    };
    format!(
        "{{\"live_buffers\": {live}, \"order\": \"{order:?}\", \"median_view_micros\": {}, \
         \"best_read_micros\": {}, \"median_read_micros\": {}, \"target_read_micros\": {target}}}",
        views[RUNS / 2].as_micros(),
        reads[0].as_micros(),
        reads[RUNS / 2].as_micros(),
    )
}

/// How long the pump of a client is held at so many live buffers: by single events, and by each
/// step of sending its whole state that is not done in a thread beside it.
///
/// In processor time of the thread, so that what else runs does not count; of three runs, the least.
fn report_pauses(live: u64) -> String {
    let mut least: Vec<(&str, Duration)> = Vec::new();
    let mut state_bytes = 0;
    for _run in 0..3 {
        let mut account = Account::new(false);
        let mut times = grow(&mut account, live);
        let (bytes, state_times) = send_state(account);
        state_bytes = bytes;
        times.extend(state_times);
        least = match least.as_slice() {
            [] => times,
            known => {
                let pairs = known.iter().zip(&times);
                pairs
                    .map(|(one, other)| (one.0, one.1.min(other.1)))
                    .collect()
            }
        };
    }
    let times = least
        .iter()
        .map(|(step, time)| format!("\"{step}_micros\": {}", time.as_micros()));
    let times = times.collect::<Vec<_>>().join(", ");
    format!(
        "{{\"live_buffers\": {live}, \"state_bytes\": {state_bytes}, {times}, \"target_micros\": 5000}}"
    )
}

/// The longest event while buffers come, and while some are replaced.
fn grow(account: &mut Account, live: u64) -> Vec<(&'static str, Duration)> {
    let limits = ttmem_account::Limits::default();
    let (definitions, events) = World::introduction(1);
    for definition in &definitions {
        let defined = account.define(definition, &limits, &mut ());
        defined.expect("the definitions of a workload do not contradict each other");
    }
    let mut apply = |kind: EventKind| {
        let start = cpu_time();
        let applied = account.apply(&Event { time: 1, kind }, &limits, &mut ());
        applied.expect("the events of a workload do not contradict each other");
        cpu_time() - start
    };
    for event in events {
        apply(event);
    }
    let space = BufferSpace::new(Class::Dram, live);
    let grown = (0..live).map(|place| apply(space.allocated(place))).max();
    let replaced = (0..live / 10).map(|place| {
        let freed = apply(space.freed(place));
        freed.max(apply(space.allocated(place)))
    });
    let replaced = replaced.max();
    vec![
        ("longest_event_while_growing", grown.unwrap_or_default()),
        ("longest_event_at_that_size", replaced.unwrap_or_default()),
    ]
}

/// The steps of sending a state, as the pump of a client takes them.
fn send_state(account: Account) -> (usize, Vec<(&'static str, Duration)>) {
    let start = cpu_time();
    let lent = Arc::new(account);
    let account = Arc::clone(&lent);
    let maker = std::thread::spawn(move || {
        let mut state = Vec::new();
        lent.save(&mut state);
        (state, cpu_time())
    });
    let lending = cpu_time() - start;
    let (state, saved) = maker.join().expect("saving does not panic");
    let start = cpu_time();
    let account = Arc::into_inner(account);
    let taking_back = cpu_time() - start;
    let start = cpu_time();
    let mut frames = Vec::new();
    Frame::put_state(&mut frames, &state);
    let framing = cpu_time() - start;
    let state_bytes = state.len();
    let start = cpu_time();
    drop(state);
    let dropping = cpu_time() - start;
    black_box((account, frames));
    let times = vec![
        ("saved_beside", saved),
        ("lending", lending),
        ("taking_back", taking_back),
        ("framing", framing),
        ("dropping", dropping),
    ];
    (state_bytes, times)
}

/// What this thread has used so far.
fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(now).expect("a thread's time is not negative")
}

fn sorted_times(mut run: impl FnMut() -> Duration) -> [Duration; RUNS] {
    let mut times = [Duration::ZERO; RUNS];
    times.fill_with(&mut run);
    times.sort();
    times
}

fn per_second(time: Duration) -> u128 {
    u128::from(EVENTS) * 1_000_000_000 / time.as_nanos().max(1)
}
