//! What a report of a run says about its figures.

use super::baseline::Figures;
use crate::run::command_line;
use anyhow::{Result, ensure};
use serde::Deserialize;
use serde_json::Value;
use std::cmp::Reverse;
use ttmem_report::{
    LeakCandidates, LeftGroup, MemoryClass, PeakBytes, PeakGroup, called_from, short_line,
    size_text,
};

const SCHEMA: u64 = 1;

/// Lines that are named of what was left behind.
const MAX_ORIGINS: usize = 3;

/// The parts of a report that are compared.
#[derive(Debug, Deserialize)]
pub(super) struct Measured {
    schema: u64,
    command: Vec<String>,
    exit_code: Option<i32>,
    signal: Option<i32>,
    tracked: bool,
    lost_events: u64,
    devices: Vec<Device>,
    processes: Vec<Process>,
    leak_candidates: LeakCandidates,
    peaks: Vec<Peak>,
    left: Left,
}

#[derive(Debug, Deserialize)]
struct Device {
    peak_bytes: PeakBytes,
}

#[derive(Debug, Deserialize)]
struct Process {
    released: Option<Released>,
}

#[derive(Debug, Deserialize)]
struct Released {
    buffer_bytes: u64,
}

#[derive(Debug, Deserialize)]
struct Peak {
    class: MemoryClass,
    groups: Vec<PeakGroup>,
}

#[derive(Debug, Deserialize)]
struct Left {
    at_close: Vec<LeftGroup>,
    at_exit: Vec<LeftGroup>,
}

impl Measured {
    pub(super) fn of(document: Value) -> Result<Self> {
        let measured: Self = serde_json::from_value(document)?;
        let schema = measured.schema;
        ensure!(schema == SCHEMA, "it has schema {schema}, not {SCHEMA}");
        Ok(measured)
    }

    pub(super) fn command_line(&self) -> String {
        command_line(&self.command)
    }

    /// How the program failed, if it did.
    pub(super) fn failure(&self) -> Option<String> {
        match (self.exit_code, self.signal) {
            (Some(0), None) => None,
            (Some(code), _) => Some(format!("ended with code {code}")),
            (None, Some(signal)) => Some(format!("was ended by signal {signal}")),
            (None, None) => Some("ended in a way that is not known".to_owned()),
        }
    }

    /// The most that one device held of each kind, and what was left behind on all of them.
    pub(super) fn figures(&self) -> Result<Figures> {
        // Zeros would be below any baseline.
        ensure!(
            self.tracked,
            "nothing was tracked, so there is nothing to compare: does the program open a device? \
             `ttmem run` of it says what to look at"
        );
        let lost = self.lost_events;
        ensure!(
            lost == 0,
            "{lost} events were lost: the figures cannot be relied on"
        );
        let peak = |figure: fn(&PeakBytes) -> u64| {
            let peaks = self.devices.iter().map(|device| figure(&device.peak_bytes));
            peaks.max().unwrap_or(0)
        };
        let at_exit = self.processes.iter().filter_map(|process| {
            let released = process.released.as_ref()?;
            Some(released.buffer_bytes)
        });
        let leaked = at_exit.fold(self.leak_candidates.bytes, u64::saturating_add);
        Ok([
            ("peak_dram", peak(|peaks| peaks.dram)),
            ("peak_l1", peak(|peaks| peaks.l1)),
            ("peak_l1_small", peak(|peaks| peaks.l1_small)),
            ("peak_trace", peak(|peaks| peaks.trace)),
            ("leaked", leaked),
        ]
        .map(|(name, size)| (name.to_owned(), size))
        .into())
    }

    /// Where most of a figure comes from: what held most at a peak, or what was left behind.
    pub(super) fn origins(&self, name: &str) -> Vec<String> {
        let class = match name {
            "peak_dram" => MemoryClass::Dram,
            "peak_l1" => MemoryClass::L1,
            "peak_l1_small" => MemoryClass::L1Small,
            "peak_trace" => MemoryClass::Trace,
            "leaked" => return self.left_behind(),
            _ => return Vec::new(),
        };
        let groups = self.peaks.iter().filter(|peak| peak.class == class);
        let known = groups
            .flat_map(|peak| &peak.groups)
            .filter(|group| group.name.is_some() || group.line.is_some());
        let most = known.max_by_key(|group| group.bytes);
        let line = most.map(|group| {
            let origin = origin(group.name.as_deref(), group.line.as_deref());
            line(
                group.bytes,
                group.count,
                &(origin + &called_from(&group.callers)),
            )
        });
        line.into_iter().collect()
    }

    fn left_behind(&self) -> Vec<String> {
        let mut groups: Vec<&LeftGroup> = self
            .left
            .at_close
            .iter()
            .chain(&self.left.at_exit)
            .collect();
        groups.sort_by_key(|group| Reverse(group.bytes));
        let more = groups.len().saturating_sub(MAX_ORIGINS);
        let mut lines: Vec<String> = groups
            .iter()
            .take(MAX_ORIGINS)
            .map(|group| {
                let origin = origin(group.operation.as_deref(), group.line.as_deref());
                let callers = called_from(&group.callers);
                let whose = format!("{} of {origin}{callers}", kind(group.class));
                line(group.bytes, group.buffers, &whose)
            })
            .collect();
        if more > 0 {
            lines.push(format!("and {more} more lines"));
        }
        lines
    }
}

fn line(bytes: u64, count: u64, whose: &str) -> String {
    format!("{} in {count}: {whose}", size_text(bytes))
}

/// The operation and the line of Python, as the pytest plugin has them.
fn origin(operation: Option<&str>, line: Option<&str>) -> String {
    let line = line.map_or("a line that is not known", short_line);
    match operation {
        Some(operation) => format!("{operation} at {line}"),
        None => line.to_owned(),
    }
}

/// A class by the name that figures have.
fn kind(class: MemoryClass) -> &'static str {
    match class {
        MemoryClass::Dram => "dram",
        MemoryClass::L1 => "l1",
        MemoryClass::L1Small => "l1_small",
        MemoryClass::Trace => "trace",
        MemoryClass::System => "system",
        MemoryClass::Other => "memory",
    }
}
