//! Programs: what was built, where it lies, and how often it ran.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{BinaryState, HexId, KernelKind, Timestamp};

/// One live program; its byte figures are per device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramRow {
    /// Its process; `null` from another pid namespace.
    pub pid: Option<u32>,
    /// The instance of that process, as 32 hex digits.
    pub instance: Option<String>,
    /// Its number in that process, counted from construction; old senders have none.
    pub program: Option<u64>,
    /// The operation it was built for.
    pub name: Option<String>,
    /// The runtime's number of its last run.
    pub runtime_id: Option<u64>,
    /// What its kernels are for; of several kinds the first in the order fabric, dispatch,
    /// application.
    pub kind: Option<KernelKind>,
    /// When it was built.
    pub created: Timestamp,
    /// Cores that its kernels and storage cover, on the device where they are most.
    pub cores: Option<u32>,
    /// Bytes that it takes in the config ring of a core besides code; `null` before it is finalized.
    pub config_bytes: Option<u64>,
    /// Code on the core that has most of it; `null` before it is finalized.
    pub text_bytes: Option<u64>,
    /// Its binary in DRAM; `null` before it is finalized.
    pub binary_bytes: Option<u64>,
    /// Circular buffers, dataflow buffers and scratchpads: bytes times cores, on the device where
    /// they are most.
    pub cb_bytes: u64,
    /// Kernels: bytes times cores, on the device where they are most.
    pub kernel_bytes: u64,
    /// How many kernels it has.
    pub kernels: u64,
    /// Kernels found compiled on disk.
    pub jit_disk_hits: u64,
    /// How often it ran, on the device where that was most.
    pub dispatches: u64,
    /// The first time it ran.
    pub first_run: Option<Timestamp>,
    /// The last time it ran.
    pub last_run: Option<Timestamp>,
    /// What is different from device to device.
    pub devices: Vec<ProgramDevice>,
}

/// One program on one device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramDevice {
    /// The device's logical id in this process.
    pub id: u32,
    /// The chip's unique id.
    pub unique_id: Option<HexId>,
    /// Whether its binary is there.
    pub binary: BinaryState,
    /// Bytes of its binary that were sent.
    pub sent_bytes: Option<u64>,
    /// Bytes of its commands that are kept.
    pub command_bytes: Option<u64>,
    /// How often it ran.
    pub dispatches: u64,
    /// Runs that found it in the program cache.
    pub program_cache_hits: u64,
    /// Runs for which it was built.
    pub program_cache_misses: u64,
    /// Runs that found its binary on the device.
    pub binary_reuses: u64,
    /// The last time it ran.
    pub last_run: Option<Timestamp>,
    /// Compute cores on which no other program ran since.
    pub resident_cores: u32,
}
