//! Bytes of memory per circular buffer and per kernel, as the system counts them.
//!
//! Each row is a process of its own: memory that an earlier one gave back would
//! be used again unseen.

use crate::world::{MESH, ONE_CORE, World, cb, created, kernel};
use std::io::Write;
use std::process::{Command, ExitCode};

const PROGRAMS: u64 = 100_000;

/// What every program of a row has, on how many devices.
const ROWS: &[(&str, u64, u64, u32)] = &[
    ("none", 0, 0, 1),
    ("1 CB", 1, 0, 1),
    ("1 kernel", 0, 1, 1),
    ("1 CB and 1 kernel", 1, 1, 1),
    ("10 CBs", 10, 0, 1),
    ("10 kernels", 0, 10, 1),
    ("1 CB, mesh of 8", 1, 0, 8),
    ("1 kernel, mesh of 8", 0, 1, 8),
    ("10 CBs, mesh of 8", 10, 0, 8),
    ("10 kernels, mesh of 8", 0, 10, 8),
];

pub(crate) fn report() -> ExitCode {
    let written = || -> std::io::Result<()> {
        let mut out = std::io::stdout().lock();
        let program = std::env::current_exe()?;
        writeln!(
            out,
            "| {PROGRAMS} programs with | bytes per program | per entry and device |"
        )?;
        writeln!(out, "|---|---|---|")?;
        for (name, ..) in ROWS {
            let row = Command::new(&program).args(["memory", name]).output()?;
            out.write_all(&row.stdout)?;
        }
        Ok(())
    };
    match written() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_closed) => ExitCode::FAILURE,
    }
}

pub(crate) fn measure(name: &str) -> ExitCode {
    let row = ROWS.iter().find(|(each, ..)| *each == name);
    let Some((name, cbs, kernels, devices)) = row else {
        return ExitCode::FAILURE;
    };
    let mut world = World::with_devices(*devices);
    let before = resident_bytes();
    for program in 0..PROGRAMS {
        world.apply(created(program));
        world.apply_all((0..*cbs).map(|number| cb(MESH, program, number, ONE_CORE)));
        let loads = (0..*kernels).map(|number| program * 10 + number);
        world.apply_all(loads.map(|number| kernel(MESH, program, number, ONE_CORE)));
    }
    world.assert_sound();
    let bytes = resident_bytes().saturating_sub(before) / PROGRAMS;
    let entries = (cbs + kernels) * u64::from(*devices);
    let per_entry = match entries {
        0 => "-".to_owned(),
        entries => (bytes / entries).to_string(),
    };
    match writeln!(
        std::io::stdout().lock(),
        "| {name} | {bytes} | {per_entry} |"
    ) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_closed) => ExitCode::FAILURE,
    }
}

/// What the process has in memory.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
    let kilobytes = kilobytes.and_then(|number| number.trim().parse::<u64>().ok());
    kilobytes.map_or(0, |number| number * 1024)
}
