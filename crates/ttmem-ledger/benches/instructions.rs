//! Runs one workload, and nothing else, for a counter of instructions.
//!
//! `instructions <workload> <events>`. `cargo xtask gate` builds it, runs it
//! under valgrind for `n` and for `2n` events and compares the difference with
//! `instructions.txt`. It measures nothing itself and reads no clock.

mod workloads;

use std::io::Write;
use std::process::ExitCode;
use workloads::WORKLOADS;

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
            (workload.prepare)()(events);
            ExitCode::SUCCESS
        }
        _other => list(ExitCode::FAILURE),
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
