//! Runs one workload, and nothing else, for a counter of instructions.
//!
//! `instructions <workload> <events>`. `cargo xtask gate` runs it under valgrind,
//! counts the instructions inside [`measured_events`] and holds them against
//! `instructions.txt`. It measures nothing itself and reads no clock.

mod workloads;

use std::io::Write;
use std::process::ExitCode;
use workloads::{Runner, WORKLOADS};

/// Events before the count begins: several rounds of the longest cycle.
///
/// Hash tables grow once more after they are filled, when enough was removed
/// from them, and the seed decides when; by now they have.
const WARM_UP_EVENTS: u64 = 300_000;

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
            let mut run = (workload.prepare)();
            run(WARM_UP_EVENTS);
            measured_events(&mut run, events);
            ExitCode::SUCCESS
        }
        _other => list(ExitCode::FAILURE),
    }
}

/// The part that is counted: valgrind finds it by its name.
#[inline(never)]
fn measured_events(run: &mut Runner, events: u64) {
    run(events);
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
