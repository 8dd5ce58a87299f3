//! The record path, and nothing else, for a counter of instructions.
//!
//! `instructions <workload> <events>`. `cargo xtask gate` runs it under valgrind,
//! counts the instructions inside [`measured_events`] and holds them against
//! `instructions.txt`. It measures nothing itself. All events of a run fit into
//! the ring, so that no thread waits for another, and there is no server.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use ttmem_client::{ClockChoice, Config, Tracker};
use ttmem_event::{
    BufferId, CacheResult, CbKind, Class, CoresId, Direction, DispatchPath, EventKind, Layout,
    MeshId, ProgramId, TextId,
};

/// Calls before the count begins: the client is started and the ring is claimed.
const WARM_UP_EVENTS: u64 = 100;

/// A kind of event; events of a pair alternate.
struct Workload {
    name: &'static str,
    enabled: bool,
    record: fn(u64),
}

const WORKLOADS: &[Workload] = &[
    Workload {
        name: "record_buffers",
        enabled: true,
        record: buffers,
    },
    Workload {
        name: "record_cbs",
        enabled: true,
        record: cbs,
    },
    Workload {
        name: "record_dispatch",
        enabled: true,
        record: dispatches,
    },
    Workload {
        name: "record_disabled",
        enabled: false,
        record: buffers,
    },
];

fn main() -> ExitCode {
    // `cargo bench` adds a flag of its own.
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| word != "--bench")
        .collect();
    match words.as_slice() {
        // Where every bench is run, this one has nothing to say but what it can do.
        [] => list(ExitCode::SUCCESS),
        [name, events] => {
            let workload = WORKLOADS.iter().find(|workload| workload.name == name);
            let (Some(workload), Ok(events)) = (workload, events.parse()) else {
                return list(ExitCode::FAILURE);
            };
            run(workload, events)
        }
        _other => list(ExitCode::FAILURE),
    }
}

fn run(workload: &Workload, events: u64) -> ExitCode {
    let tracker = if workload.enabled {
        Tracker::start(Config {
            socket: Some(PathBuf::from("/nonexistent/ttmem.sock")),
            ring_events: 4 * usize::try_from(events).unwrap_or(0),
            clock: ClockChoice::Tsc,
            ..Config::default()
        })
    } else {
        Tracker::disabled()
    };
    (workload.record)(WARM_UP_EVENTS);
    measured_events(workload.record, events);
    if tracker.statistics().lost_events == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// The part that is counted: valgrind finds it by its name.
#[inline(never)]
fn measured_events(record: fn(u64), events: u64) {
    record(events);
}

const MESH: MeshId = MeshId(1);
const PROGRAM: ProgramId = ProgramId(1);

fn buffers(events: u64) {
    for pair in 0..events / 2 {
        let buffer = BufferId(pair);
        Tracker.track(EventKind::BufferAllocated {
            mesh: MESH,
            buffer,
            class: Class::Dram,
            layout: Layout::Interleaved,
            direction: Direction::BottomUp,
            address: 64 * pair,
            requested_bytes: 24_576,
            per_bank_bytes: 2048,
            page_bytes: 2048,
            cores: CoresId::NONE,
            operation: TextId(1),
            banks: 12,
        });
        Tracker.track(EventKind::BufferFreed { mesh: MESH, buffer });
    }
}

fn cbs(events: u64) {
    for _pair in 0..events / 2 {
        Tracker.track(EventKind::CbAllocated {
            mesh: MESH,
            program: PROGRAM,
            cb: 0,
            kind: CbKind::Local,
            address: 110_592,
            size_bytes: 4096,
            cores: CoresId(1),
        });
        Tracker.track(EventKind::CbFreed {
            mesh: MESH,
            program: PROGRAM,
            cb: Some(0),
        });
    }
}

fn dispatches(events: u64) {
    for runtime_id in 0..events {
        Tracker.track(EventKind::Dispatched {
            mesh: MESH,
            program: PROGRAM,
            runtime_id,
            operation: TextId(1),
            program_cache: CacheResult::Hit,
            binary_reused: true,
            path: DispatchPath::Fast,
        });
    }
}

/// Says which workloads there are: `cargo xtask gate` reads the list.
fn list(code: ExitCode) -> ExitCode {
    let mut out = std::io::stdout().lock();
    for workload in WORKLOADS {
        if writeln!(out, "{}", workload.name).is_err() {
            return ExitCode::FAILURE;
        }
    }
    code
}
