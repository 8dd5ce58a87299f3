//! How fast the ledger is on this machine: a report, never a gate.
//!
//! `cargo bench -p ttmem-ledger --bench ledger` prints one JSON object: events
//! per second of every workload, and how long it takes to read where everything
//! lies. Times are of one core and vary with whatever else runs; the counts of
//! instructions are what regressions are judged by.

mod workloads;

use std::fmt::Write as _;
use std::hint::black_box;
use std::io::Write as _;
use std::time::{Duration, Instant};
use ttmem_event::{Class, Event};
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
    let mut report = String::new();
    // Writing to a string cannot fail.
    let _written = write!(
        report,
        "{{\n  \"events_per_run\": {EVENTS},\n  \"runs\": {RUNS},\n  \
         \"live_per_allocator\": {LIVE_PER_ALLOCATOR},\n  \
         \"workloads\": [\n    {}\n  ],\n  \"geometry\": [\n    {}\n  ]\n}}",
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
        let what = space.allocated(place);
        world.apply_to(
            &Event {
                time: 1,
                kind: what,
            },
            None,
        );
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

fn sorted_times(mut run: impl FnMut() -> Duration) -> [Duration; RUNS] {
    let mut times = [Duration::ZERO; RUNS];
    times.fill_with(&mut run);
    times.sort();
    times
}

fn per_second(time: Duration) -> u128 {
    u128::from(EVENTS) * 1_000_000_000 / time.as_nanos().max(1)
}
