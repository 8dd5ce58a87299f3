//! `ttmem doctor`: what of this machine is as it has to be, and what to do about the rest.
//!
//! One check per line, each with what was found and, unless all is well, a remedy. Nothing is changed, no
//! device is opened and no program of others is run. Remedies are commands of ours, or
//! of the projects that they are about. `--bundle` puts the same into an archive, without secrets.

mod bundle;
mod figures;
mod hardware;
mod memory;
mod python;
mod redact;
mod tracking;

#[cfg(test)]
mod tests;

use crate::cli::DoctorOptions;
use crate::exit;
use crate::output::{Output, Screen};
use crate::render;
use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use ttmem_host::shm::{self, SharedMemory};
use ttmem_host::{Chip, Device, Machine, Reader, Reading, Roots, chips, devices};

/// How a check ended, the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Ok,
    /// Not there, and nothing is wrong with that.
    Info,
    /// Something is missing or less than it could be.
    Warning,
    /// Something does not work.
    Problem,
}

/// One line.
#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    state: State,
    found: String,
    remedy: Option<String>,
}

impl Check {
    fn new(name: &'static str, state: State, found: impl Into<String>) -> Self {
        Self {
            name,
            state,
            found: found.into(),
            remedy: None,
        }
    }

    fn with(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}

/// A chip by all its names.
#[derive(Debug, Serialize)]
struct NamedChip {
    logical_id: u32,
    node: String,
    remote: bool,
    pci_address: Option<String>,
    board: Option<&'static str>,
    /// Sixteen hexadecimal digits, as the driver writes them.
    board_serial: Option<String>,
    asic_id: Option<String>,
    tray: Option<String>,
}

impl NamedChip {
    fn of(chip: &Chip) -> Self {
        let digits = |id: u64| format!("{id:016X}");
        Self {
            logical_id: chip.logical_id,
            node: format!("/dev/tenstorrent/{}", chip.ordinal),
            remote: chip.is_remote,
            pci_address: chip.bdf.map(|bdf| bdf.to_string()),
            board: chip.board.map(|board| board.name()),
            board_serial: chip.serial.map(digits),
            asic_id: chip.asic_id.map(digits),
            tray: chip.tray.map(|tray| tray.to_string()),
        }
    }
}

/// All of it.
#[derive(Debug, Serialize)]
struct Findings {
    schema: u32,
    problems: usize,
    warnings: usize,
    checks: Vec<Check>,
    chips: Vec<NamedChip>,
    /// What the driver says of each card.
    devices: Vec<Value>,
    /// TT-Metal's own counters, and what they are not.
    upstream: Vec<Value>,
    upstream_limits: Value,
}

/// Looks at everything, prints it, and says by the exit code whether something does not work.
pub(crate) fn run<W: Write>(
    options: &DoctorOptions,
    socket: Option<PathBuf>,
    screen: Screen,
    output: &mut Output<W>,
) -> Result<ExitCode> {
    if let Some(root) = &options.root {
        // An empty folder is a machine without anything; one that is not there is a mistake.
        fs::read_dir(root).with_context(|| format!("cannot read {}", root.display()))?;
    }
    if let Some(path) = &options.bundle {
        bundle::run(path, options, socket, screen, output)?;
        return Ok(ExitCode::SUCCESS);
    }
    let findings = Facts::read(&roots(options)).findings(options, socket);
    if options.json {
        output.print(&format!("{}\n", serde_json::to_string_pretty(&findings)?))?;
    } else {
        output.print(&text(&findings, screen))?;
    }
    Ok(match findings.problems {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::from(exit::NEEDS_ATTENTION),
    })
}

fn roots(options: &DoctorOptions) -> Roots {
    match &options.root {
        Some(root) => Roots::below(root),
        None => Roots::this_machine(),
    }
}

/// What the files of a machine say.
struct Facts {
    machine: Machine,
    devices: Reading<Vec<Device>>,
    regions: Reading<Vec<SharedMemory>>,
    /// Files that do not answer.
    stuck: usize,
}

impl Facts {
    fn read(roots: &Roots) -> Self {
        let mut reader = Reader::default();
        Self {
            machine: Machine::read(roots, &mut reader),
            devices: devices(roots, &mut reader),
            regions: shm::files(roots, &mut reader),
            stuck: reader.stuck(),
        }
    }

    fn findings(self, options: &DoctorOptions, socket: Option<PathBuf>) -> Findings {
        let mut checks = hardware::checks(&self.machine, &self.devices);
        checks.extend(memory::checks(&self.machine, &self.regions));
        // A copy of another machine's files has no servers and no programs.
        if options.root.is_none() {
            checks.extend(tracking::checks(socket));
            checks.extend(python::checks(|name| std::env::var_os(name)));
        }
        if self.stuck > 0 {
            let found = format!("{} files do not answer", self.stuck);
            checks.push(Check::new("reading", State::Problem, found).with(
                "see the kernel's messages (`sudo dmesg`) for the device; `tt-smi -r` resets it",
            ));
        }
        let count = |state: State| checks.iter().filter(|check| check.state == state).count();
        let found = self.devices.unwrap_or_default();
        let regions = self.regions.unwrap_or_default();
        let chips = chips(&found);
        Findings {
            schema: 1,
            problems: count(State::Problem),
            warnings: count(State::Warning),
            chips: chips.iter().map(NamedChip::of).collect(),
            devices: found.iter().map(figures::device).collect(),
            upstream: regions.iter().map(figures::region).collect(),
            upstream_limits: figures::limits(),
            checks,
        }
    }
}

fn text(findings: &Findings, screen: Screen) -> String {
    let lines = findings.checks.iter().map(|check| render::DoctorLine {
        name: check.name,
        state: match check.state {
            State::Ok => "ok",
            State::Info => "info",
            State::Warning => "warning",
            State::Problem => "problem",
        },
        is_bad: check.state >= State::Warning,
        found: &check.found,
        remedy: check.remedy.as_deref(),
    });
    let mut text = answer(findings) + "\n\n" + &render::doctor(lines, screen);
    if !findings.chips.is_empty() {
        text.push_str("\nchip  node                  PCI address   board serial      chip id           board\n");
    }
    for chip in &findings.chips {
        let or_dash = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
        let place = chip
            .tray
            .clone()
            .or_else(|| chip.remote.then(|| "remote".to_owned()));
        let line = format!(
            "{:<5} {:<21} {:<13} {:<17} {:<17} {} {}",
            chip.logical_id,
            chip.node,
            or_dash(&chip.pci_address),
            or_dash(&chip.board_serial),
            or_dash(&chip.asic_id),
            chip.board.unwrap_or("-"),
            place.unwrap_or_default(),
        );
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// What people came for, before everything else.
fn answer(findings: &Findings) -> String {
    let names = |state: State| {
        let checks = findings.checks.iter().filter(|check| check.state == state);
        checks
            .map(|check| check.name)
            .collect::<Vec<_>>()
            .join(", ")
    };
    let (problems, warnings) = (names(State::Problem), names(State::Warning));
    let mut answer = match problems.as_str() {
        "" if findings.chips.is_empty() => "no problems seen; no card in this machine".to_owned(),
        "" => "no problems seen".to_owned(),
        problems => format!("problems: {problems}"),
    };
    if !warnings.is_empty() {
        answer.push_str(&format!("; warnings: {warnings}"));
    }
    answer
}
