//! What failed in a run, what its peaks were made of, and what it left behind: as the server's account
//! has it after the end.

use super::report::Report;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use ttmem_reader::ApiClient;
use ttmem_report::{
    Explanation, GrowingGroup, LeftGroup, MemoryClass, PeakBytes, PeakContents, PeakGroup, PeakOf,
    Process,
};

/// As many as a server keeps.
const MAX_FAILURES: u32 = 64;

/// Groups of a peak that a report lists.
const MAX_GROUPS: usize = 100;

#[derive(Debug, Default)]
pub(crate) struct Contents {
    /// Oldest first.
    pub(crate) failures: Vec<Explanation>,
    /// Failures of this run that its server no longer has.
    pub(crate) failures_not_kept: u64,
    pub(crate) peaks: Vec<PeakOfClass>,
    /// What was held when meshes were closed, the most bytes first.
    pub(crate) left_at_close: Vec<LeftGroup>,
    /// What was held when processes ended, the most bytes first.
    pub(crate) left_at_exit: Vec<LeftGroup>,
    /// What grew with the marks, the fastest first.
    pub(crate) growing: Vec<GrowingGroup>,
}

/// The highest peak of a class, and what was live then.
#[derive(Debug)]
pub(crate) struct PeakOfClass {
    pub(crate) class: MemoryClass,
    pub(crate) contents: PeakContents,
    /// Devices that held as much at their peaks, this one included.
    pub(crate) devices: usize,
}

pub(super) type Figure = fn(&PeakBytes) -> u64;

const CLASSES: [(MemoryClass, PeakOf, Figure); 4] = [
    (MemoryClass::Dram, PeakOf::Dram, |peaks| peaks.dram),
    (MemoryClass::L1, PeakOf::L1, |peaks| peaks.l1),
    (MemoryClass::L1Small, PeakOf::L1Small, |peaks| {
        peaks.l1_small
    }),
    (MemoryClass::Trace, PeakOf::Trace, |peaks| peaks.trace),
];

impl Contents {
    /// What a server cannot answer is left out: it may have forgotten a process.
    pub(super) fn read(server: &ApiClient, report: &Report) -> Self {
        let mut contents = Self::default();
        contents.read_failures(server, report);
        let peaks = CLASSES.into_iter();
        contents.peaks = peaks
            .filter_map(|(class, of, figure)| peak(server, report, class, of, figure))
            .collect();
        contents.read_growth(server, report);
        for process in &report.processes {
            let Ok(left) = server.left(process.pid, process.instance.as_deref()) else {
                continue;
            };
            contents.left_at_close.extend(left.at_close);
            contents.left_at_exit.extend(left.at_exit);
        }
        for left in [&mut contents.left_at_close, &mut contents.left_at_exit] {
            *left = merged(std::mem::take(left));
        }
        contents
    }

    fn read_growth(&mut self, server: &ApiClient, report: &Report) {
        let Ok(leaks) = server.leaks() else {
            return;
        };
        let is_of_run = |growing: &GrowingGroup| {
            let whose = (growing.group.pid, &growing.group.instance);
            let mut processes = report.processes.iter();
            processes.any(|one| (one.pid, &one.instance) == whose)
        };
        self.growing = leaks.growing.into_iter().filter(is_of_run).collect();
    }

    fn read_failures(&mut self, server: &ApiClient, report: &Report) {
        let Ok(kept) = server.failures(MAX_FAILURES) else {
            return;
        };
        let ran = &report.ran;
        let is_of_run = |failure: &Explanation| {
            failure.time.is_none_or(|time| time >= ran.begun)
                && (ran.own_server || report.processes.iter().any(|one| one.pid == failure.pid))
        };
        // On a server of others nobody knows whose those were.
        if ran.own_server {
            self.failures_not_kept = kept.omitted;
        }
        self.failures = kept.failures.into_iter().filter(is_of_run).collect();
        self.failures.reverse();
    }
}

/// The peak of the device that held most, over all processes of the run if the server is its own,
/// else of one of them.
fn peak(
    server: &ApiClient,
    report: &Report,
    class: MemoryClass,
    of: PeakOf,
    figure: Figure,
) -> Option<PeakOfClass> {
    let devices = report.devices.iter();
    // Of several alike the first one.
    let device = devices.rev().max_by_key(|device| figure(&device.peaks))?;
    let bytes = figure(&device.peaks);
    if bytes == 0 {
        return None;
    }
    let name = match device.unique_id {
        Some(id) => id.to_string(),
        None => device.id.to_string(),
    };
    let contents = if report.ran.own_server {
        server.peak(&name, of, None, None)
    } else {
        let holds = |process: &&Process| {
            let on = process.devices.iter().filter(|on| on.id == device.id);
            on.filter_map(|on| on.peak)
                .any(|peak| figure(&peak) == bytes)
        };
        let process = report.processes.iter().find(holds)?;
        server.peak(&name, of, process.pid, process.instance.as_deref())
    };
    let alike = report.devices.iter();
    let alike = alike.filter(|device| figure(&device.peaks) == bytes);
    Some(PeakOfClass {
        class,
        contents: contents.ok()?,
        devices: alike.count(),
    })
}

/// Groups of several processes by class, operation, line and call stack, the most bytes first.
fn merged(groups: Vec<LeftGroup>) -> Vec<LeftGroup> {
    let mut merged: BTreeMap<_, LeftGroup> = BTreeMap::new();
    for group in groups {
        let LeftGroup {
            class,
            operation,
            line,
            stack,
            ..
        } = group.clone();
        let key = (class, operation, line, stack);
        match merged.get_mut(&key) {
            Some(known) => {
                known.buffers += group.buffers;
                known.bytes = known.bytes.saturating_add(group.bytes);
            }
            None => {
                merged.insert(key, group);
            }
        }
    }
    let mut merged: Vec<LeftGroup> = merged.into_values().collect();
    merged.sort_by_key(|group| std::cmp::Reverse(group.bytes));
    merged
}

impl PeakOfClass {
    pub(super) fn json(&self) -> Value {
        let contents = &self.contents;
        let groups: &[PeakGroup] = &contents.groups;
        json!({
            "class": self.class,
            "device": contents.device,
            "devices_alike": self.devices,
            "pid": contents.pid,
            "peak_bytes": contents.peak_bytes,
            "peak_time": contents.peak_time,
            "groups": groups.iter().take(MAX_GROUPS).collect::<Vec<_>>(),
            "groups_left_out": groups.len().saturating_sub(MAX_GROUPS),
        })
    }
}
