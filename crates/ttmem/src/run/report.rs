//! What a program used: the server's account of a run, put together for its report.
//!
//! All figures come through the read API. Peaks are of this run alone: those of the devices where the
//! server was started for it, else the highest of one of its processes. What a process left behind is
//! always its own.

use super::child::Ended;
use super::holders::{Holder, by_operation};
use super::watch::{ProcessKey, Watched, key};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;
use ttmem_api::{
    Device, GrowingGroup, HeldAtClose, HexId, LeakCandidates, LeakGroup, Leaks, PeakBytes, Process,
    ProcessState, Snapshot,
};

/// Lines of buffers that are alike which are worth showing.
const MAX_HOLDERS: usize = 10;

#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) command: Vec<OsString>,
    pub(crate) pid: i32,
    pub(crate) ended: Ended,
    pub(crate) took: Duration,
    pub(crate) socket: PathBuf,
    pub(crate) own_server: bool,
    /// Whether the tracking library was loaded into it.
    pub(crate) attached: bool,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct DeviceUse {
    pub(crate) id: u32,
    /// The most of everything that it held.
    #[serde(rename = "peak_bytes")]
    pub(crate) peaks: PeakBytes,
    /// What it holds after the end of the program.
    #[serde(rename = "end_bytes")]
    pub(crate) end: PeakBytes,
    /// How much DRAM, L1, small L1 and trace region there is, as far as it is known.
    #[serde(skip)]
    pub(crate) capacities: [Option<u64>; 4],
    arch: Option<String>,
    unique_id: Option<HexId>,
}

/// Parameters for opening the devices, at least as large as this run needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Recommended {
    /// `trace_region_size`, if traces were kept in a region of their own.
    pub(crate) trace_region_bytes: Option<u64>,
    /// `l1_small_size`, if the small region was used.
    pub(crate) l1_small_bytes: Option<u64>,
}

#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) ran: Ran,
    pub(crate) processes: Vec<Process>,
    /// Processes that may or may not have been part of this run.
    pub(crate) unknown_processes: usize,
    pub(crate) devices: Vec<DeviceUse>,
    /// What was still held when its mesh closed.
    pub(crate) leak_candidates: LeakCandidates,
    /// What grew with the marks.
    pub(crate) growing: Vec<GrowingGroup>,
    /// What was held when its mesh closed, or at the end, by who allocated it.
    pub(crate) held_at_close: Vec<HeldAtClose>,
    /// The buffers when `most_bytes` were held; most bytes first.
    holders: Vec<Holder>,
    /// The most that was seen held at once, on all devices.
    pub(crate) most_bytes: u64,
    pub(crate) recommended: Recommended,
    /// Contradictions by kind; by kind they are known of a server of one's own only.
    pub(crate) anomaly_kinds: Vec<(String, u64)>,
}

impl Report {
    pub(super) fn new(ran: Ran, watched: Watched, after: &Snapshot) -> Self {
        let mut processes: BTreeMap<ProcessKey, Process> = watched.processes;
        for process in &after.processes {
            if let Some(seen) = processes.get_mut(&key(process)) {
                seen.clone_from(process);
            }
        }
        let processes: Vec<Process> = processes.into_values().collect();
        // Too short to be seen on any device: then it may have been on all of them.
        let of_run = |device: &&Device| {
            device.source.is_some()
                && (ran.own_server
                    || watched.devices.is_empty()
                    || watched.devices.contains(&device.key()))
        };
        let tracked = !processes.is_empty();
        let devices: Vec<&Device> = after.devices.iter().filter(of_run).collect();
        let kinds = after.anomalies.seen();
        Self {
            recommended: recommended(&devices),
            devices: devices
                .into_iter()
                .filter(|_device| tracked)
                .map(|device| DeviceUse::new(device, ran.own_server, &processes))
                .collect(),
            leak_candidates: LeakCandidates {
                buffers: sum(&processes, |process| process.leak_candidates.buffers),
                bytes: sum(&processes, |process| process.leak_candidates.bytes),
            },
            anomaly_kinds: kinds
                .filter(|_kind| ran.own_server)
                .map(|(kind, times)| (kind.to_owned(), times))
                .collect(),
            unknown_processes: watched.unknown.len(),
            growing: Vec::new(),
            held_at_close: Vec::new(),
            holders: watched.holders,
            most_bytes: watched.most_bytes,
            processes,
            ran,
        }
    }

    /// Adds what grew and what was held by its processes.
    pub(super) fn add_leaks(&mut self, leaks: Leaks) {
        let pids: BTreeSet<u32> = self.processes.iter().filter_map(|each| each.pid).collect();
        let is_own = |group: &LeakGroup| group.pid.is_some_and(|pid| pids.contains(&pid));
        let (growing, held) = (leaks.growing.into_iter(), leaks.held_at_close.into_iter());
        self.growing = growing.filter(|each| is_own(&each.group)).collect();
        self.held_at_close = held.filter(|each| is_own(&each.group)).collect();
    }

    pub(crate) fn is_tracked(&self) -> bool {
        !self.processes.is_empty()
    }

    /// Contradictions of all kinds in the events of the run.
    pub(crate) fn anomalies(&self) -> u64 {
        sum(&self.processes, |process| process.anomalies)
    }

    /// Events that never reached the account.
    pub(crate) fn lost_events(&self) -> u64 {
        sum(&self.processes, |process| process.lost_events)
    }

    /// Events that the account has, and the history has not.
    pub(crate) fn elided_events(&self) -> u64 {
        sum(&self.processes, |process| process.elided_events)
    }

    /// Processes of the run that outlived its program.
    pub(crate) fn still_running(&self) -> usize {
        let running = |process: &&Process| process.state != ProcessState::Exited;
        self.processes.iter().filter(running).count()
    }

    /// The program, without the folder that it is in, and its arguments in one line.
    pub(crate) fn command_line(&self) -> String {
        let mut words = self.ran.command.iter();
        let program = words.next().map(|program| {
            let file = Path::new(program).file_name();
            file.unwrap_or(program).to_string_lossy()
        });
        let arguments = words.map(|word| word.to_string_lossy());
        let words = program.into_iter().chain(arguments);
        words.collect::<Vec<_>>().join(" ")
    }

    /// The buffers that held most, and how many others there were.
    pub(crate) fn top_holders(&self) -> (&[Holder], u64) {
        let (top, others) = self.holders.split_at(self.holders.len().min(MAX_HOLDERS));
        let others = others.iter().map(|holder| holder.buffers);
        (top, others.fold(0, u64::saturating_add))
    }

    /// What it may mean that nothing was reported, before what to look at.
    pub(crate) fn when_nothing_is_right(&self) -> &'static str {
        if self.ran.attached {
            "That is right for a program that opens no device with TT-Metal or ttnn. If it does:"
        } else {
            "That is right for a program that uses no device. If it does:"
        }
    }

    /// What to look at when nothing was reported.
    pub(crate) fn hints(&self) -> Vec<&'static str> {
        let mut hints = Vec::new();
        if std::env::var_os("TTMEM_DISABLE").is_some_and(|value| value == "1") {
            hints.push("TTMEM_DISABLE=1 is set and turns tracking off");
        }
        if self.ran.attached {
            hints.push(
                "the loader drops LD_PRELOAD for setuid programs and has no part in static ones; \
                 containers and `env -i` do not pass it on",
            );
        } else {
            hints.push("with --no-attach the program must be linked with libttmem, and use it");
        }
        hints.push("TTMEM_SOCKET must reach the program, and the socket must be visible to it");
        hints
    }

    pub(crate) fn json(&self) -> Value {
        let ran = &self.ran;
        let command = ran.command.iter().map(|word| word.to_string_lossy());
        let (code, signal) = match ran.ended {
            Ended::Exited(code) => (Some(code), None),
            Ended::Killed(signal) => (None, Some(signal)),
        };
        let operations = by_operation(&self.holders);
        let operations = operations.iter().map(|(operation, held)| {
            json!({
                "operation": operation,
                "buffers": held.buffers,
                "bytes": held.bytes,
            })
        });
        let kinds = self.anomaly_kinds.iter().cloned();
        let kinds: serde_json::Map<String, Value> =
            kinds.map(|(kind, times)| (kind, times.into())).collect();
        json!({
            "schema": 1,
            "command": command.collect::<Vec<_>>(),
            "pid": ran.pid,
            "exit_code": code,
            "signal": signal,
            "seconds": ran.took.as_secs_f64(),
            "socket": ran.socket.to_string_lossy(),
            "own_server": ran.own_server,
            "attached": ran.attached,
            "tracked": self.is_tracked(),
            "processes": self.processes,
            "unknown_processes": self.unknown_processes,
            "devices": self.devices,
            "leak_candidates": self.leak_candidates,
            "growing": self.growing,
            "held_at_close": self.held_at_close,
            "holders": {
                "sampled_bytes": self.most_bytes,
                "by_operation": operations.take(MAX_HOLDERS).collect::<Vec<_>>(),
                "alike": self.top_holders().0,
            },
            "recommended": {
                "trace_region_size": self.recommended.trace_region_bytes,
                "l1_small_size": self.recommended.l1_small_bytes,
            },
            "anomalies": self.anomalies(),
            "anomaly_kinds": kinds,
            "lost_events": self.lost_events(),
            "elided_events": self.elided_events(),
        })
    }
}

/// The highest that a process of the run held on a device.
///
/// Of several processes the peaks are of different moments: their sum would be a peak of nothing.
fn own_peaks(device: &Device, processes: &[Process]) -> PeakBytes {
    let key = device.key();
    let held = processes.iter().flat_map(|process| &process.devices);
    let peaks = held.filter(|on| on.key() == key).filter_map(|on| on.peak);
    peaks.fold(PeakBytes::default(), |most, peak| PeakBytes {
        dram: most.dram.max(peak.dram),
        l1: most.l1.max(peak.l1),
        l1_small: most.l1_small.max(peak.l1_small),
        trace: most.trace.max(peak.trace),
        system: most.system.max(peak.system),
        cb: most.cb.max(peak.cb),
        kernel: most.kernel.max(peak.kernel),
    })
}

/// What the processes of the run hold on a device now.
fn own_held(device: &Device, processes: &[Process]) -> PeakBytes {
    let key = device.key();
    let held = processes.iter().flat_map(|process| &process.devices);
    let held = held.filter(|on| on.key() == key);
    held.fold(PeakBytes::default(), |sum, on| PeakBytes {
        dram: sum.dram.saturating_add(on.dram_bytes),
        l1: sum.l1.saturating_add(on.l1_bytes),
        l1_small: sum.l1_small.saturating_add(on.l1_small_bytes),
        trace: sum.trace.saturating_add(on.trace_bytes),
        system: sum.system.saturating_add(on.system_bytes),
        cb: sum.cb.saturating_add(on.cb_bytes),
        kernel: sum.kernel.saturating_add(on.kernel_bytes),
    })
}

impl DeviceUse {
    /// On a server of its own the figures are those of the device; else those of the run's processes.
    fn new(device: &Device, own_server: bool, processes: &[Process]) -> Self {
        let (peaks, end) = if own_server {
            (device.peaks(), device.held())
        } else {
            (own_peaks(device, processes), own_held(device, processes))
        };
        Self {
            id: device.id,
            peaks,
            end,
            capacities: [
                device.dram.capacity_bytes,
                device.l1.capacity_bytes,
                device.l1_small.capacity_bytes,
                device.trace.capacity_bytes,
            ],
            arch: device.arch.clone(),
            unique_id: device.unique_id,
        }
    }

    /// Whether nothing is held on it any more.
    pub(crate) fn is_empty(&self) -> bool {
        self.end.total() == 0
    }
}

/// What the device that needs most needs.
fn recommended(devices: &[&Device]) -> Recommended {
    let most = |need: fn(&Device) -> Option<u64>| devices.iter().copied().filter_map(need).max();
    Recommended {
        trace_region_bytes: most(Device::trace_region_size_needed),
        l1_small_bytes: most(Device::l1_small_size_needed),
    }
}

fn sum(processes: &[Process], figure: fn(&Process) -> u64) -> u64 {
    let figures = processes.iter().map(figure);
    figures.fold(0, u64::saturating_add)
}
