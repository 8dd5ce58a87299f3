//! What a program used: the server's account of a run, put together for its report.
//!
//! All figures come from the server's account through the read API, after the end. They are of this run
//! alone: those of the devices where the server was started for it, else the highest of one of its
//! processes. What a process left behind is always its own.

use super::child::Ended;
use super::contents::{Contents, PeakOfClass};
use super::ranks::{Ranks, RefusedLabel, refused_labels};
use super::watch::{ProcessKey, Watched, key};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;
use ttmem_reader::ApiClient;
use ttmem_report::{
    Device, HexId, LeakCandidates, PeakBytes, Process, ProcessState, Setting, Snapshot, Timestamp,
};

#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) command: Vec<OsString>,
    pub(crate) pid: i32,
    pub(crate) ended: Ended,
    pub(crate) took: Duration,
    /// When it was started.
    pub(crate) begun: Timestamp,
    pub(crate) socket: PathBuf,
    pub(crate) own_server: bool,
    /// Whether the tracking library was loaded into it.
    pub(crate) attached: bool,
    /// What is wrong with the variables by which it was tracked.
    pub(crate) warnings: Vec<String>,
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
    pub(crate) unique_id: Option<HexId>,
}

/// A region that is given when a device is opened.
#[derive(Debug)]
pub(crate) struct Region {
    pub(crate) setting: Setting,
    /// Whether all that the program has for it was seen, or only what came before a failure.
    pub(crate) is_exact: bool,
}

#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) ran: Ran,
    pub(crate) processes: Vec<Process>,
    /// Whether processes that are not of this run lived beside it.
    pub(crate) has_other_users: bool,
    /// Processes that may or may not have been part of this run.
    pub(crate) unknown_processes: usize,
    pub(crate) devices: Vec<DeviceUse>,
    /// What was still held when its mesh closed.
    pub(crate) leak_candidates: LeakCandidates,
    /// Its ranks, where a launcher started several.
    pub(crate) ranks: Ranks,
    /// Labels that should say which rank a process is, and do not.
    pub(crate) refused_labels: Vec<RefusedLabel>,
    /// Failures, peaks and what was left behind, in detail.
    pub(crate) contents: Contents,
    /// The regions of the device that needs most of each.
    pub(crate) regions: Vec<Region>,
    /// Contradictions by kind; by kind they are known of a server of one's own only.
    pub(crate) anomaly_kinds: Vec<(String, u64)>,
}

impl Report {
    pub(super) fn new(ran: Ran, watched: Watched, after: &Snapshot, server: &ApiClient) -> Self {
        let mut report = Self::without_contents(ran, watched, after);
        if report.is_tracked() {
            report.contents = Contents::read(server, &report);
            report.enlarge_regions();
        }
        report
    }

    /// What did not fit was in no peak: regions are at least as large as failures say.
    pub(super) fn enlarge_regions(&mut self) {
        for failure in &self.contents.failures {
            let Some(setting) = &failure.setting else {
                continue;
            };
            let refused = Region {
                setting: setting.clone(),
                is_exact: false,
            };
            let known = self.regions.iter_mut();
            match { known }.find(|known| known.setting.name == setting.name) {
                Some(known) if known.setting.value < setting.value => *known = refused,
                Some(_enough) => {}
                None => self.regions.push(refused),
            }
        }
    }

    /// What the snapshot has of a run.
    pub(super) fn without_contents(ran: Ran, watched: Watched, after: &Snapshot) -> Self {
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
        let uses = devices.into_iter().filter(|_device| tracked);
        let uses: Vec<(&Device, DeviceUse)> = uses
            .map(|device| (device, DeviceUse::new(device, ran.own_server, &processes)))
            .collect();
        let is_exact = ran.ended == Ended::Exited(0);
        Self {
            regions: regions(&uses)
                .into_iter()
                .map(|setting| Region { setting, is_exact })
                .collect(),
            devices: uses.into_iter().map(|(_device, used)| used).collect(),
            leak_candidates: LeakCandidates {
                buffers: sum(&processes, |process| process.leak_candidates.buffers),
                bytes: sum(&processes, |process| process.leak_candidates.bytes),
            },
            anomaly_kinds: kinds
                .filter(|_kind| ran.own_server)
                .map(|(kind, times)| (kind.to_owned(), times))
                .collect(),
            has_other_users: watched.had_others,
            unknown_processes: watched.unknown.len(),
            contents: Contents::default(),
            refused_labels: refused_labels(&processes),
            ranks: Ranks::new(&processes, ran.ended != Ended::Exited(0)),
            processes,
            ran,
        }
    }

    pub(crate) fn is_tracked(&self) -> bool {
        !self.processes.is_empty()
    }

    /// Whether a process left more behind than it ever held at once: then devices were opened and closed again.
    pub(crate) fn was_closed_again(&self) -> bool {
        self.processes.iter().any(|process| {
            let peaks = process.devices.iter().filter_map(|on| on.peak);
            let most = peaks.fold(0, |sum: u64, peak| sum.saturating_add(peak.buffers()));
            process.leak_candidates.bytes > most
        })
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

    pub(crate) fn command_line(&self) -> String {
        command_line(&self.ran.command)
    }

    /// What it may mean that nothing was reported, before what to look at.
    pub(crate) fn when_nothing_is_right(&self) -> &'static str {
        if self.ran.ended != Ended::Exited(0) {
            "It failed, most likely before it opened a device."
        } else if self.ran.attached {
            "That is right for a program that opens no device with TT-Metal or ttnn. If it does:"
        } else {
            "That is right for a program that uses no device. If it does:"
        }
    }

    /// What to look at when nothing was reported.
    pub(crate) fn hints(&self) -> Vec<&'static str> {
        let mut hints = Vec::new();
        if self.ran.ended != Ended::Exited(0) {
            // What it failed of says more than what else could be.
            return hints;
        }
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
        let contents = &self.contents;
        let peaks = contents.peaks.iter().map(PeakOfClass::json);
        let regions = self.regions.iter().map(|Region { setting, is_exact }| {
            json!({
                "name": setting.name,
                "enough": setting.value,
                "given": setting.given,
                "unused": setting.unused(),
                "is_exact": is_exact,
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
            "ranks": self.ranks.are_several().then_some(&self.ranks),
            "refused_labels": self.refused_labels,
            "warnings": ran.warnings,
            "leak_candidates": self.leak_candidates,
            "failures": contents.failures,
            "failures_not_kept": contents.failures_not_kept,
            "peaks": peaks.collect::<Vec<_>>(),
            "left": { "at_close": contents.left_at_close, "at_exit": contents.left_at_exit },
            "growing": contents.growing,
            "regions": regions.collect::<Vec<_>>(),
            "anomalies": self.anomalies(),
            "anomaly_kinds": kinds,
            "lost_events": self.lost_events(),
            "elided_events": self.elided_events(),
        })
    }
}

/// A program, without the folder that it is in, and its arguments in one line.
pub(crate) fn command_line(command: &[impl AsRef<OsStr>]) -> String {
    let mut words = command.iter().map(AsRef::as_ref);
    let program = words.next().map(|program| {
        let file = Path::new(program).file_name();
        file.unwrap_or(program).to_string_lossy()
    });
    let arguments = words.map(OsStr::to_string_lossy);
    let words = program.into_iter().chain(arguments);
    words.collect::<Vec<_>>().join(" ")
}

/// The highest that a process of the run held on a device.
fn own_peaks(device: &Device, processes: &[Process]) -> PeakBytes {
    let key = device.key();
    let held = processes.iter().flat_map(|process| &process.devices);
    let held = held.filter(|on| on.key() == key);
    PeakBytes::highest(held.filter_map(|on| on.peak))
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

/// Of each region, that of the device that needs most.
fn regions(uses: &[(&Device, DeviceUse)]) -> Vec<Setting> {
    let mut most: BTreeMap<String, Setting> = BTreeMap::new();
    for (device, used) in uses {
        for setting in ttmem_report::explain::regions(device, &used.peaks) {
            let known = most.get(&setting.name);
            if known.is_none_or(|known| known.value < setting.value) {
                most.insert(setting.name.clone(), setting);
            }
        }
    }
    most.into_values().rev().collect()
}

fn sum(processes: &[Process], figure: fn(&Process) -> u64) -> u64 {
    let figures = processes.iter().map(figure);
    figures.fold(0, u64::saturating_add)
}
