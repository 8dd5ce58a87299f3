//! The snapshot, and the server's own state.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Device, DeviceKey, Machine, Process, SchemaVersion, Timestamp};

/// Every total the server knows, at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Snapshot {
    /// The version of the format.
    pub schema: SchemaVersion,
    /// When these figures held.
    pub time: Timestamp,
    /// The machine's name.
    pub host: String,
    /// The server itself.
    pub server: Server,
    /// Every device that was reported, open or not.
    pub devices: Vec<Device>,
    /// Every process that holds something, and those that ended lately.
    pub processes: Vec<Process>,
    /// The latest marks that users set, oldest first.
    pub marks: Vec<Mark>,
    /// What did not add up, by kind.
    pub anomalies: Anomalies,
    /// What the server failed to do and the reader should know of.
    pub errors: Vec<String>,
    /// What processes were refused.
    #[serde(default)]
    pub failures: FailureCount,
    /// What the machine says by itself; `null` in a recording, and while nothing was read.
    #[serde(default)]
    pub machine: Option<Machine>,
}

impl Snapshot {
    /// Leaves out what processes have on other devices than those that are here, and who has nothing on these.
    pub fn keep_own_devices(&mut self) {
        let keys: BTreeSet<DeviceKey> = self.devices.iter().map(Device::key).collect();
        self.processes.retain_mut(|process| {
            let had = !process.devices.is_empty();
            process.devices.retain(|held| keys.contains(&held.key()));
            // One that has not opened any may open these.
            !had || !process.devices.is_empty()
        });
        if let Some(machine) = &mut self.machine {
            machine.unmatched.clear();
            machine.processes.retain_mut(|user| {
                user.devices.retain(|used| keys.contains(&used.key()));
                user.unmatched.clear();
                !user.devices.is_empty()
            });
        }
    }
}

/// How many failures of processes the server knows of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailureCount {
    /// How many, those that are no longer kept included.
    pub count: u64,
    /// When the newest was.
    pub newest: Option<Timestamp>,
}

/// A mark: a moment with a name, from which peaks are counted as well.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Mark {
    /// Its name; empty if it has none, or if it is hidden.
    pub name: String,
    /// Whether its name is left out: it is shown to the user that set it, to root and to the server's user. Names of
    /// marks that root or the server's user set are shown to all.
    #[serde(default)]
    pub name_hidden: bool,
    /// The user's number.
    pub number: u64,
    /// When it was set.
    pub time: Timestamp,
}

/// The server's own state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Server {
    /// Its pid.
    pub pid: u32,
    /// Its version.
    pub version: String,
    /// When it started; peaks count from here.
    pub started: Timestamp,
    /// Whole seconds since then.
    pub uptime_seconds: u64,
    /// Where it listens: paths of sockets, and the URL for readers over TCP.
    pub sockets: Vec<String>,
    /// Connections that send events.
    pub clients: u64,
    /// How many it accepts at once; `null` when not limited.
    pub clients_limit: Option<u64>,
    /// Connections refused so far.
    pub clients_refused: u64,
    /// Events applied to the ledger.
    pub events_applied: u64,
    /// Events of all processes that never reached the ledger, of those that are gone as well.
    #[serde(default)]
    pub events_lost: u64,
    /// Events of all processes that are missing from the log only, of those that are gone as well.
    #[serde(default)]
    pub events_elided: u64,
    /// Lines that were left out of the event log to keep up; totals are not affected.
    pub log_lines_elided: u64,
}

/// Counts of what did not add up, by kind; a newer server may know more kinds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Anomalies(
    /// Kind to count; kinds that never happened may be there with 0.
    pub BTreeMap<String, u64>,
);

impl Anomalies {
    /// The kinds that happened, in alphabetical order.
    pub fn seen(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0
            .iter()
            .filter(|(_, count)| **count > 0)
            .map(|(kind, count)| (kind.as_str(), *count))
    }
}
