//! `ttmem doctor`: whether this machine is set up correctly, and how to fix what is not.
//!
//! One check per line, each with what was found and, unless all is well, a remedy. Nothing is changed, no
//! device is opened and no program of others is run. Remedies are commands of ours, or
//! of the projects that they are about. `--bundle` puts the same into an archive, without secrets.

mod bundle;
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
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use ttmem_machine::{Machine, Reader, Roots, Sample, Watch};
use ttmem_report::{Device, DeviceNames, HexId, Telemetry, Upstream, escape_json};
use ttmem_server::describe_machine;

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

/// A chip, in the words of the API: what of a device is known where no process is asked.
#[derive(Debug, Serialize)]
struct Chip {
    id: u32,
    arch: Option<String>,
    board: Option<String>,
    remote: Option<bool>,
    names: Option<DeviceNames>,
    telemetry: Option<Telemetry>,
    upstream: Option<Upstream>,
}

impl From<Device> for Chip {
    fn from(device: Device) -> Self {
        Self {
            id: device.id,
            arch: device.arch,
            board: device.board,
            remote: device.remote,
            names: device.names,
            telemetry: device.telemetry,
            upstream: device.upstream,
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
    devices: Vec<Chip>,
    machine: ttmem_report::Machine,
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
        let json = serde_json::to_string_pretty(&findings)?;
        output.print(&escape_json(format!("{json}\n")))?;
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
    sample: Sample,
}

impl Facts {
    fn read(roots: &Roots) -> Self {
        let mut reader = Reader::default();
        Self {
            machine: Machine::read(roots, &mut reader),
            sample: Watch::with_reader(roots.clone(), reader).look(),
        }
    }

    fn findings(self, options: &DoctorOptions, socket: Option<PathBuf>) -> Findings {
        let mut checks = hardware::checks(&self.machine, &self.sample.devices);
        checks.extend(memory::checks(&self.machine, &self.sample));
        // A copy of another machine's files has no servers and no programs.
        if options.root.is_none() {
            checks.extend(tracking::checks(socket));
            checks.extend(python::checks(|name| std::env::var_os(name)));
        }
        let stuck = self.sample.stuck.iter();
        let stuck: Vec<String> = stuck.map(|path| path.display().to_string()).collect();
        if !stuck.is_empty() {
            let found = format!("do not answer: {}", stuck.join(", "));
            // Anybody can put such a file into a folder of everybody's: no device is at fault.
            let is_shared = |path: &PathBuf| path.starts_with("/dev/shm");
            let remedy = match self.sample.stuck.iter().all(is_shared) {
                true => {
                    "see whose it is and what is mounted there: `ls -l /dev/shm`, `findmnt -R /dev/shm`"
                }
                false => {
                    "see the kernel's messages (`sudo dmesg`) for the device; `tt-smi -r` resets it"
                }
            };
            checks.push(Check::new("reading", State::Problem, found).with(remedy));
        }
        let count = |state: State| checks.iter().filter(|check| check.state == state).count();
        let (devices, machine) = describe_machine(self.sample);
        Findings {
            schema: 1,
            problems: count(State::Problem),
            warnings: count(State::Warning),
            devices: devices.into_iter().map(Chip::from).collect(),
            machine,
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
    if !findings.devices.is_empty() {
        text.push_str("\nchip  node                  PCI address   board serial      chip id           board\n");
    }
    for chip in &findings.devices {
        let names = chip.names.as_ref();
        let or_dash = |value: Option<&str>| value.unwrap_or("-").to_owned();
        // As the driver writes them.
        let digits =
            |id: Option<HexId>| id.map_or_else(|| "-".to_owned(), |HexId(id)| format!("{id:016X}"));
        let tray = names.and_then(|names| names.tray.as_deref());
        let place = tray.or((chip.remote == Some(true)).then_some("remote"));
        let line = format!(
            "{:<5} {:<21} {:<13} {:<17} {:<17} {} {}",
            chip.id,
            or_dash(names.map(|names| names.node.as_str())),
            or_dash(names.and_then(|names| names.pci_address.as_deref())),
            digits(names.and_then(|names| names.board_serial)),
            digits(names.and_then(|names| names.asic_id)),
            or_dash(chip.board.as_deref()),
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
        "" if findings.devices.is_empty() => "no problems seen; no card in this machine".to_owned(),
        "" => "no problems seen".to_owned(),
        problems => format!("problems: {problems}"),
    };
    if !warnings.is_empty() {
        answer.push_str(&format!("; warnings: {warnings}"));
    }
    answer
}
