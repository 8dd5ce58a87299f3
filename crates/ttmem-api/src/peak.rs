//! What was live when a device, or a process on it, held most.

use crate::{HexId, PeakOf, SchemaVersion, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A peak of a device, or of a process on it, and what it was made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PeakContents {
    /// The version of the format.
    pub schema: SchemaVersion,
    /// When this was asked.
    pub time: Timestamp,
    /// The device's logical id.
    pub device: u32,
    /// The chip's burnt-in id, where known.
    pub unique_id: Option<HexId>,
    /// The process whose peak it is; `null` for the peak of the device over all of them.
    pub pid: Option<u32>,
    /// Of what it is the peak.
    pub of: PeakOf,
    /// The highest total.
    pub peak_bytes: u64,
    /// When it was reached; `null` before anything was held.
    pub peak_time: Option<Timestamp>,
    /// What was live then, the most bytes first. The bytes of all groups are `peak_bytes`.
    pub groups: Vec<PeakGroup>,
}

/// What one process had of a peak for one purpose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PeakGroup {
    /// The process; `null` where it is not known, and of small groups that are put together.
    pub pid: Option<u32>,
    /// Whether the process is gone.
    pub departed: bool,
    /// The operation of buffers or the program of storage and kernels, where known.
    pub name: Option<String>,
    /// How many buffers, storage entries or kernels.
    pub count: u64,
    /// Their bytes on the device.
    pub bytes: u64,
}
