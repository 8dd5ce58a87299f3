//! A fleet of servers, as a Prometheus that scrapes them knows it.
//!
//! The thresholds are those of the views of one server, and of the alerts in `deploy/prometheus`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{MemoryClass, SchemaVersion, Timestamp};

/// All hosts at one moment, and what the last week was like.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fleet {
    /// The version of the format.
    pub schema: SchemaVersion,
    /// Who was asked.
    pub prometheus: String,
    /// The moment, by its clock.
    pub time: Timestamp,
    /// Devices of all hosts that answer.
    pub devices_known: u64,
    /// What is wrong, what to act on first; of one kind the worst first.
    pub problems: Vec<FleetProblem>,
    /// Whether there are more problems of a kind than were asked for.
    pub problems_cut: bool,
    /// Every host: those with problems first, then the fullest, then those whose server does not answer.
    pub hosts: Vec<FleetHost>,
    /// Batch jobs, those that hold most first.
    pub jobs: Vec<FleetJob>,
    /// The fullest devices of the fleet.
    pub devices: Vec<FleetDevice>,
    /// What the figures of the week are from.
    pub week_source: WeekSource,
    /// Values that were left out because no server can have exposed them, such as -1 devices.
    pub impossible_values: u64,
    /// The first of them, of which host, and what was asked.
    pub impossible_example: Option<String>,
}

/// What the figures of a week are worked out from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WeekSource {
    /// The recording rules of `deploy/prometheus`.
    RecordingRules,
    /// All samples of the week, because there are no recording rules: slow for many hosts.
    Samples,
    /// All samples of the week, because the recording rules are loaded and have recorded nothing yet.
    RulesWithoutValues,
}

/// Something that is wrong on a host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FleetProblem {
    /// What kind it is.
    pub kind: FleetProblemKind,
    /// The host: the scrape target's `instance`.
    pub instance: String,
    /// The device, where it is of one.
    pub device: Option<String>,
    /// The class of memory, where it is of one.
    pub class: Option<MemoryClass>,
    /// The process, where it is of one.
    pub pid: Option<String>,
    /// Its name, where it is known.
    pub name: Option<String>,
    /// Its batch job, where it is known.
    pub job: Option<String>,
    /// Failures in ten minutes, the share that is full or in pieces, bytes per mark, processes.
    pub value: f64,
}

/// What can be wrong, what to act on first.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum FleetProblemKind {
    /// Memory was refused within ten minutes.
    Failing,
    /// A class is at least 95 % full.
    Full,
    /// Of what is free less than a quarter can be had at once.
    Fragmented,
    /// A process grows at every mark.
    Growing,
    /// Tracking of processes is incomplete.
    Incomplete,
    /// The server does not answer.
    Absent,
}

/// A host.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FleetHost {
    /// The scrape target's `instance`.
    pub instance: String,
    /// Whether its server answers.
    pub is_up: bool,
    /// Devices that its server knows.
    pub devices: u64,
    /// Charged DRAM of all its devices.
    pub dram_charged_bytes: Option<u64>,
    /// DRAM that its devices have.
    pub dram_capacity_bytes: Option<u64>,
    /// How full DRAM of its fullest device is, from 0 to 1.
    pub dram_used: Option<f64>,
    /// The same at its highest in the last week: of all samples, and of the peak that the server keeps.
    pub dram_used_week: Option<f64>,
    /// How full L1 of its fullest device is.
    pub l1_used: Option<f64>,
    /// The same at its highest in the last week.
    pub l1_used_week: Option<f64>,
    /// How much of free DRAM is in pieces, on the device where that is most.
    pub dram_fragmented: Option<f64>,
    /// The same at its highest in the last week; known where there are recording rules.
    pub dram_fragmented_week: Option<f64>,
    /// Charged DRAM now, less that of an hour ago.
    pub dram_grown_hour_bytes: Option<i64>,
    /// Charged DRAM now, less that of a week ago.
    pub dram_grown_week_bytes: Option<i64>,
    /// Requests that were refused in ten minutes.
    pub failures: u64,
    /// Requests that were refused in the last week.
    pub failures_week: Option<u64>,
    /// Processes that grow at every mark.
    pub growing_processes: u64,
    /// Processes whose tracking is incomplete.
    pub incomplete_processes: u64,
}

/// A batch job, on however many hosts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FleetJob {
    /// Its number or name.
    pub job: String,
    /// Whose it is, where that is known.
    pub user: Option<String>,
    /// Hosts that it is on.
    pub hosts: u64,
    /// Charged DRAM of all its processes.
    pub dram_bytes: Option<u64>,
    /// Charged L1 of all its processes.
    pub l1_bytes: Option<u64>,
    /// Its DRAM at its highest in the last week; known where there are recording rules.
    pub dram_week_bytes: Option<u64>,
    /// What its processes grow by at every mark, together.
    pub grows_per_mark_bytes: Option<u64>,
}

/// A device of a host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FleetDevice {
    /// The host.
    pub instance: String,
    /// The device's number there.
    pub device: String,
    /// The class that is full.
    pub class: MemoryClass,
    /// How full it is, from 0 to 1.
    pub used: f64,
}
