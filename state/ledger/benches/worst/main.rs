//! Hostile inputs of growing size, for a counter of instructions.
//!
//! `worst <case> <size>` sets a case up at a size and runs it once. `cargo xtask
//! worst` does that under valgrind, counts the instructions inside
//! [`measured_events`] and divides them by the units that are printed here: what
//! an event costs beside much, not how much there is. Without words it lists the
//! cases. `worst memory` prints what programs take of the machine's memory. It reads
//! no clock.

mod buffers;
mod caches;
mod devices;
mod legacy;
mod memory;
mod programs;
mod readers;
#[path = "../workloads/shuffle.rs"]
mod shuffle;
mod traces;
mod world;

use std::io::Write;
use std::process::ExitCode;

/// How the instructions of a unit may grow with the size.
#[derive(Clone, Copy, Debug)]
enum Growth {
    /// Not, or with a logarithm.
    Flat,
    /// With the size, for a reason that is told to the reader of the table.
    Linear(&'static str),
}

struct Case {
    name: &'static str,
    /// What there is so many of.
    beside: &'static str,
    sizes: &'static [u64],
    /// What the instructions are divided by.
    unit: &'static str,
    growth: Growth,
    prepare: fn(u64) -> Work,
}

/// A case that is set up.
struct Work {
    run: Box<dyn FnMut()>,
    /// What one run consists of.
    units: u64,
}

impl Work {
    fn new(units: usize, run: impl FnMut() + 'static) -> Self {
        Self {
            run: Box::new(run),
            units: u64::try_from(units).expect("a length fits 64 bits"),
        }
    }
}

fn cases() -> impl Iterator<Item = &'static Case> {
    let families = [
        buffers::CASES,
        programs::CASES,
        legacy::CASES,
        traces::CASES,
        caches::CASES,
        devices::CASES,
        readers::CASES,
    ];
    families.into_iter().flatten()
}

fn main() -> ExitCode {
    // `cargo bench` adds a flag of its own.
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| word != "--bench")
        .collect();
    match words.as_slice() {
        [] => list(ExitCode::SUCCESS),
        [memory] if memory == "memory" => memory::report(),
        [memory, row] if memory == "memory" => memory::measure(row),
        [name, size] => {
            let case = cases().find(|case| case.name == name);
            let (Some(case), Ok(size)) = (case, size.parse()) else {
                return list(ExitCode::FAILURE);
            };
            let mut work = (case.prepare)(size);
            measured_events(&mut work.run);
            match writeln!(std::io::stdout().lock(), "{}", work.units) {
                Ok(()) => ExitCode::SUCCESS,
                Err(_closed) => ExitCode::FAILURE,
            }
        }
        _other => list(ExitCode::FAILURE),
    }
}

/// The part that is counted: valgrind finds it by its name.
#[inline(never)]
fn measured_events(run: &mut Box<dyn FnMut()>) {
    run();
}

/// Says which cases there are, in fields that `cargo xtask worst` reads.
fn list(code: ExitCode) -> ExitCode {
    let mut out = std::io::stdout().lock();
    for case in cases() {
        let sizes: Vec<String> = case.sizes.iter().map(u64::to_string).collect();
        let growth = match case.growth {
            Growth::Flat => "",
            Growth::Linear(reason) => reason,
        };
        let fields = [case.name, case.beside, &sizes.join(" "), case.unit, growth];
        if writeln!(out, "{}", fields.join("\t")).is_err() {
            return ExitCode::FAILURE;
        }
    }
    code
}
