//! History: totals of a device over time, in steps that are coarser the older they are.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{HexId, SchemaVersion, Timestamp};

/// Totals of every device over time, in steps of one width.
///
/// The server keeps steps of 1 s for 10 minutes, of 10 s for 2 hours and of 1 minute for a day,
/// and answers with the finest that reaches back as far as the reader asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct History {
    /// The version of the format.
    pub schema: SchemaVersion,
    /// When it was asked for.
    pub time: Timestamp,
    /// The width of a step.
    pub step_seconds: u32,
    /// The ends of the steps, oldest first; the same for every device.
    pub times: Vec<Timestamp>,
    /// The devices.
    pub devices: Vec<DeviceHistory>,
}

/// One device over time: each series has one value per step; `null` where nothing was known.
///
/// A value is the highest within its step, so that a short peak is not lost in a wide one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceHistory {
    /// The device's logical id.
    pub id: u32,
    /// The chip's unique id.
    pub unique_id: Option<HexId>,
    /// The visible-device set under which `id` counts; `null` is the default.
    pub scope: Option<String>,
    /// Charged in DRAM.
    pub dram_bytes: Vec<Option<u64>>,
    /// Charged in L1.
    pub l1_bytes: Vec<Option<u64>>,
    /// Charged in the small region of L1.
    pub l1_small_bytes: Vec<Option<u64>>,
    /// Charged in the trace region.
    pub trace_bytes: Vec<Option<u64>>,
    /// L1 in use for anything.
    pub occupied_bytes: Vec<Option<u64>>,
    /// Circular buffers of the programs that ran last.
    pub cb_resident_bytes: Vec<Option<u64>>,
    /// Circular buffers of every live program.
    pub cb_registered_bytes: Vec<Option<u64>>,
    /// Kernels of every live program.
    pub kernel_registered_bytes: Vec<Option<u64>>,
    /// Largest contiguous free block of a DRAM bank, the smallest within the step.
    pub dram_largest_free_bytes: Vec<Option<u64>>,
    /// Largest contiguous free block of an L1 bank, the smallest within the step.
    pub l1_largest_free_bytes: Vec<Option<u64>>,
    /// Programs run in the step.
    pub dispatches: Vec<Option<u64>>,
}
