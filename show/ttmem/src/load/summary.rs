//! What became of a load: the clients' accounts, and the server's.

use super::clients::ClientAccount;
use crate::cli::LoadOptions;
use crate::output::Screen;
use crate::render;
use crate::render::in_seconds;
use serde::Serialize;
use std::collections::BTreeSet;
use std::time::Duration;
use ttmem_report::{Process, Snapshot};

#[derive(Debug, Serialize)]
pub(super) struct Summary {
    scenario: String,
    clients: usize,
    stories: u64,
    #[serde(rename = "seconds", serialize_with = "in_seconds")]
    took: Duration,
    recorded_events: u64,
    recorded_per_second: f64,
    applied_events: u64,
    applied_per_second: f64,
    lost_events: u64,
    elided_events: u64,
    clients_cpu_seconds: f64,
    pumps_cpu_seconds: f64,
    #[serde(skip)]
    unconfirmed_clients: usize,
    /// What the server holds for the clients after their last play.
    live_bytes: u64,
    /// Contradictions of all kinds that came with the load.
    anomalies: u64,
    /// Nobody else spoke to the server: both counts are of the same events.
    #[serde(rename = "own_server")]
    alone: bool,
}

impl Summary {
    /// Puts together the accounts of the clients and what the server answered before and after.
    pub(super) fn new(
        options: &LoadOptions,
        took: Duration,
        accounts: Vec<ClientAccount>,
        before: &Snapshot,
        after: &Snapshot,
        alone: bool,
    ) -> Self {
        let sum = |figure: fn(&ClientAccount) -> u64| accounts.iter().map(figure).sum::<u64>();
        let seconds = |figure: fn(&ClientAccount) -> f64| accounts.iter().map(figure).sum::<f64>();
        let rates = accounts.iter().map(|account| {
            // Counts stay far below 2^52, where every integer is a float.
            account.events as f64 / account.recording_seconds.max(f64::MIN_POSITIVE)
        });
        let pids: BTreeSet<u32> = accounts.iter().map(|account| account.pid).collect();
        let of_load = |process: &&Process| process.pid.is_some_and(|pid| pids.contains(&pid));
        let processes = || after.processes.iter().filter(of_load);
        let applied_events = after
            .server
            .events_applied
            .saturating_sub(before.server.events_applied);
        let anomalies = |snapshot: &Snapshot| -> u64 {
            snapshot.anomalies.seen().map(|(_name, times)| times).sum()
        };
        let reported = processes().map(|process| process.lost_events).sum::<u64>();
        Self {
            scenario: options.play.scenario.asked().to_owned(),
            clients: accounts.len(),
            stories: sum(|account| account.stories),
            took,
            recorded_events: sum(|account| account.events),
            recorded_per_second: rates.sum(),
            applied_events,
            applied_per_second: applied_events as f64 / took.as_secs_f64(),
            lost_events: sum(|account| account.lost_events).max(reported),
            elided_events: sum(|account| account.elided_events),
            clients_cpu_seconds: seconds(|account| account.cpu_seconds),
            pumps_cpu_seconds: seconds(|account| account.pump_cpu_seconds),
            unconfirmed_clients: accounts.iter().filter(|account| !account.flushed).count(),
            live_bytes: processes().map(held_bytes).fold(0, u64::saturating_add),
            anomalies: anomalies(after).saturating_sub(anomalies(before)),
            alone,
        }
    }

    /// Everything that is not as it should be; nothing = all is well.
    pub(super) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.unconfirmed_clients > 0 {
            problems.push(format!(
                "{} clients got no confirmation of the server",
                self.unconfirmed_clients
            ));
        }
        if self.lost_events > 0 {
            problems.push(format!("{} events lost", self.lost_events));
        }
        if self.live_bytes > 0 {
            problems.push(format!("{} bytes still held", self.live_bytes));
        }
        if self.alone && self.anomalies > 0 {
            problems.push(format!("{} anomalies", self.anomalies));
        }
        if self.alone && self.elided_events == 0 && self.applied_events != self.recorded_events {
            problems.push(format!(
                "{} events recorded, {} applied",
                self.recorded_events, self.applied_events
            ));
        }
        problems
    }

    pub(super) fn text(&self, screen: Screen) -> String {
        let cores = |seconds: f64| seconds / self.took.as_secs_f64();
        let rows = [
            (
                "clients",
                format!("{} for {:.1} s", self.clients, self.took.as_secs_f64()),
            ),
            ("stories", format!("{} of {}", self.stories, self.scenario)),
            (
                "recorded",
                format!(
                    "{} events, {:.0} per second",
                    self.recorded_events, self.recorded_per_second
                ),
            ),
            (
                "applied",
                format!(
                    "{} events, {:.0} per second",
                    self.applied_events, self.applied_per_second
                ),
            ),
            (
                "missing",
                format!("lost {}, elided {}", self.lost_events, self.elided_events),
            ),
            (
                "processor",
                format!(
                    "clients {:.2} cores, of which pumps {:.2}",
                    cores(self.clients_cpu_seconds),
                    cores(self.pumps_cpu_seconds)
                ),
            ),
            (
                "live",
                format!("{} bytes of these clients", self.live_bytes),
            ),
            ("anomalies", self.anomalies.to_string()),
        ];
        render::facts(&rows, screen)
    }
}

/// What a process holds, or held when it ended.
fn held_bytes(process: &Process) -> u64 {
    let held = process.devices.iter().map(|device| {
        let code = device.cb_bytes.saturating_add(device.kernel_bytes);
        device.buffer_bytes().saturating_add(code)
    });
    let released = process.released.as_ref().map_or(0, |gone| gone.bytes);
    held.fold(released, u64::saturating_add)
}
