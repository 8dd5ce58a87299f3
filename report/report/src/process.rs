//! Processes of a snapshot: who holds memory, and what was given back.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{HexId, MemoryClass, PeakBytes, ProcessState, SchemaVersion, Source, Timestamp};

/// Every process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Processes {
    /// The version of the format.
    pub schema: SchemaVersion,
    /// When these figures held.
    pub time: Timestamp,
    /// Every process that holds something, and those that ended lately.
    pub processes: Vec<Process>,
}

/// One process, or one instance of it when it started tracking anew.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Process {
    /// The pid the kernel gives for its connection; `null` from another pid namespace.
    pub pid: Option<u32>,
    /// The instance id of its handshake, as 32 hex digits; old senders have none.
    pub instance: Option<String>,
    /// The command's name.
    pub name: Option<String>,
    /// Whether its name, its command and its texts are left out: they are shown to its user, to
    /// root and to the server's user.
    #[serde(default)]
    pub names_hidden: bool,
    /// The user the kernel gives for its connection.
    pub uid: Option<u32>,
    /// When the process started.
    pub start_time: Option<Timestamp>,
    /// Connected, detached or gone.
    pub state: ProcessState,
    /// How its figures are known.
    pub source: Source,
    /// Its figures may not be all that it has: there is a reason in `incomplete_reasons`.
    pub incomplete: bool,
    /// Why it is incomplete; empty if it is not.
    #[serde(default)]
    pub incomplete_reasons: Vec<IncompleteReason>,
    /// It is sending its live set anew; its figures are those from before.
    pub resyncing: bool,
    /// Events that never reached the ledger.
    pub lost_events: u64,
    /// Events missing from the log only; totals are exact.
    pub elided_events: u64,
    /// The pid it gives itself; shown, never used.
    pub claimed_pid: Option<i64>,
    /// What it says of where it runs: `job`, `step`, `rank`, `world_size`, `local_rank`, `mesh`, `mesh_host_rank`, `pod`,
    /// `namespace`, `container`, `unit`, and whatever its user adds. Hidden with its names.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Anomalies of all kinds in its events.
    pub anomalies: u64,
    /// Frees of buffers that belong to the process it was forked from; no anomaly.
    pub inherited_frees: u64,
    /// What it still held when it closed its devices, every time taken together.
    pub leak_candidates: LeakCandidates,
    /// Connections it has open.
    pub connections: u32,
    /// What it holds, per device it has touched; of one that is gone only the peaks are left.
    pub devices: Vec<ProcessDevice>,
    /// What it held when it ended; `null` while it lives.
    pub released: Option<Released>,
    /// What the host says of it; `null` once it is gone, or from another pid namespace.
    #[serde(default)]
    pub host: Option<HostProcess>,
}

/// A process as its host sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostProcess {
    /// Its command line, cut where it is very long.
    pub command: Option<String>,
    /// The name of its user.
    pub user: Option<String>,
    /// The pid of its parent.
    pub parent: Option<u32>,
    /// Host memory that it has in use.
    pub rss_bytes: Option<u64>,
}

/// Reasons of incompleteness in words, of one and of several.
pub(crate) const REASONS: [(&str, &str, &str); 8] = [
    ("events_lost", "event lost", "events lost"),
    (
        "limit_reached",
        "entry beyond what a process may have",
        "entries beyond what a process may have",
    ),
    (
        "devices_refused",
        "report of a device refused: its share of the devices is used up",
        "reports of devices refused: its share of the devices is used up",
    ),
    (
        "messages_dropped",
        "message dropped: its share of the clients is used up",
        "messages dropped: its share of the clients is used up",
    ),
    (
        "connections_refused",
        "connection refused: its share of the clients is used up",
        "connections refused: its share of the clients is used up",
    ),
    (
        "resyncs_refused",
        "state refused: its share of the memory is used up",
        "states refused: its share of the memory is used up",
    ),
    (
        "frames_refused",
        "frame refused: its share of the memory is used up",
        "frames refused: its share of the memory is used up",
    ),
    ("stalled", "message broken off", "messages broken off"),
];

/// A reason why the figures of a process may not be all that it has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IncompleteReason {
    /// The reason: `events_lost`, `not_tracked`, `limit_reached`, `devices_refused`,
    /// `messages_dropped`, `connections_refused`, `resyncs_refused`, `frames_refused`, `stalled`.
    pub reason: String,
    /// How many events, entries, devices, messages, connections, states or frames it concerns; 1
    /// where nothing is counted.
    pub count: u64,
    /// The reason in words, where it has some of its own. Those of a process are its user's: `null` for other readers.
    pub detail: Option<String>,
}

impl IncompleteReason {
    /// The reason in words, with its count.
    #[must_use]
    pub fn text(&self) -> String {
        let count = self.count;
        let words = REASONS.iter().find(|(reason, ..)| *reason == self.reason);
        let Some((_reason, one, many)) = words else {
            // One that has no words here is a newer server's.
            let detail = self.detail.clone();
            return detail.unwrap_or_else(|| format!("{} ({count})", self.reason));
        };
        format!("{count} {}", if count == 1 { one } else { many })
    }
}

/// Buffers that outlived the mesh they lay on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeakCandidates {
    /// How many.
    pub buffers: u64,
    /// Their charged bytes, on all devices.
    pub bytes: u64,
}

/// What a process left behind, by who asked for it, the most bytes first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeftBehind {
    /// The version of the format.
    pub schema: SchemaVersion,
    /// When this was asked.
    pub time: Timestamp,
    /// The process.
    pub pid: Option<u32>,
    /// Its instance.
    pub instance: Option<String>,
    /// Held when it closed the mesh that they lay on.
    pub at_close: Vec<LeftGroup>,
    /// Held when it ended, without what was left at a close before; empty while it lives.
    pub at_exit: Vec<LeftGroup>,
}

/// Buffers of one class, operation, line and call stack that were left behind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeftGroup {
    /// Where they lay.
    pub class: MemoryClass,
    /// The operation they were allocated for, where known.
    pub operation: Option<String>,
    /// The line of Python that they come from, where lines are reported.
    pub line: Option<String>,
    /// Where the user's code called that line from, the most bytes first; the first four.
    #[serde(default)]
    pub callers: Vec<String>,
    /// The native call stack they were allocated under, where stacks are reported.
    pub stack: Option<Vec<String>>,
    /// How many.
    pub buffers: u64,
    /// Their charged bytes, on all devices.
    pub bytes: u64,
}

/// What one process holds on one device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessDevice {
    /// The device's logical id in this process.
    pub id: u32,
    /// The chip's unique id.
    pub unique_id: Option<HexId>,
    /// The visible-device set under which `id` counts; `null` is the default.
    pub scope: Option<String>,
    /// Charged bytes in DRAM.
    pub dram_bytes: u64,
    /// Charged bytes in L1.
    pub l1_bytes: u64,
    /// Charged bytes in the small region of L1.
    pub l1_small_bytes: u64,
    /// Charged bytes in the trace region.
    pub trace_bytes: u64,
    /// Charged bytes of host memory.
    pub system_bytes: u64,
    /// Registered bytes of circular buffers.
    pub cb_bytes: u64,
    /// Registered bytes of kernels.
    pub kernel_bytes: u64,
    /// Live buffers of all classes.
    pub buffers: u64,
    /// The highest value of each total since the process was first seen.
    pub peak: Option<PeakBytes>,
}

/// What was given back for a process, all at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Released {
    /// Buffers released.
    pub buffers: u64,
    /// Circular buffers released.
    pub cbs: u64,
    /// Kernels released.
    pub kernels: u64,
    /// Charged and registered bytes of these, on all devices.
    pub bytes: u64,
    /// Of these, charged bytes of buffers.
    #[serde(default)]
    pub buffer_bytes: u64,
    /// When it happened.
    pub time: Timestamp,
    /// Why: `exited` (it said so to the server, with whatever code; `goodbye` of older servers),
    /// `ended`, `replaced`, `forgotten`. Of `ended` only its parent knows whether that was an exit
    /// or a signal.
    pub reason: String,
}

impl ProcessDevice {
    /// What its buffers of all classes are charged with.
    #[must_use]
    pub fn buffer_bytes(&self) -> u64 {
        let dram_and_l1 = [self.dram_bytes, self.l1_bytes, self.l1_small_bytes];
        let all = dram_and_l1.into_iter();
        all.chain([self.trace_bytes, self.system_bytes])
            .fold(0, u64::saturating_add)
    }
}
