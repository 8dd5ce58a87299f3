//! Recordings: which instants there are to look at, and what is drawn over time.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    GroupBy, HexId, Mark, MemoryClass, PeakOf, RecordedFailureKind, RecordingSource, SchemaVersion,
    Timestamp,
};

/// What can be looked back at: every document takes `at`, an instant between `from` and `to`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Recording {
    /// The version of the format.
    pub schema: SchemaVersion,
    /// Whether more is still being recorded.
    pub source: RecordingSource,
    /// The first instant.
    pub from: Timestamp,
    /// The last instant.
    pub to: Timestamp,
    /// Events in the recording.
    pub events: u64,
    /// Events that the recorder could not keep.
    pub missing_events: u64,
    /// What of the file cannot be read, in words.
    pub damage: Option<String>,
    /// Whether names, paths and command lines were left out.
    pub redacted: bool,
    /// Marks, oldest first.
    pub marks: Vec<Mark>,
    /// What failed, oldest first.
    pub failures: Vec<RecordedFailure>,
    /// The highest total of each device and class that held anything.
    pub peaks: Vec<RecordedPeak>,
    /// Marks and failures that are not listed because there are too many.
    pub left_out: u64,
}

/// An instant at which something failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecordedFailure {
    /// The instant.
    pub time: Timestamp,
    /// What failed.
    pub kind: RecordedFailureKind,
    /// The process.
    pub pid: Option<u32>,
    /// The logical ids of its devices.
    pub device_ids: Vec<u32>,
}

/// An instant at which a device held most.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecordedPeak {
    /// The instant.
    pub time: Timestamp,
    /// The device's logical id.
    pub device: u32,
    /// The chip's unique id.
    pub unique_id: Option<HexId>,
    /// Of what the peak is.
    pub of: PeakOf,
    /// The highest total.
    pub bytes: u64,
}

/// A class of a device over time, stacked by what its buffers have in common.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Timeline {
    /// The version of the format.
    pub schema: SchemaVersion,
    /// The beginning of the window.
    pub from: Timestamp,
    /// The end of the window.
    pub to: Timestamp,
    /// The device's logical id.
    pub device: u32,
    /// The class.
    pub class: MemoryClass,
    /// What the buffers of a layer have in common.
    pub by: GroupBy,
    /// What the allocator can hand out.
    pub capacity_bytes: Option<u64>,
    /// The edges of the steps: one more than there are values.
    pub times: Vec<Timestamp>,
    /// The layers that were largest, those with most bytes first; each value is of the instant within its step
    /// at which the total was highest.
    pub series: Vec<Layer>,
    /// All other layers at the same instants.
    pub other: Vec<u64>,
    /// The highest total within each step.
    pub total_max: Vec<u64>,
    /// Programs run on the device in each step.
    pub dispatches: Vec<u64>,
    /// Events of the window that were not looked at because there are too many, or they cannot be read: there are
    /// fewer steps then, and totals may have been higher than they say.
    pub unseen_events: u64,
}

/// One layer of a timeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Layer {
    /// What its buffers have in common; `null` where it is not known.
    pub key: Option<String>,
    /// Bytes in each step.
    pub values: Vec<u64>,
}

/// Where the buffers of a class lay in a bank, and how long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Allocations {
    /// The version of the format.
    pub schema: SchemaVersion,
    /// The beginning of the window.
    pub from: Timestamp,
    /// The end of the window.
    pub to: Timestamp,
    /// The device's logical id.
    pub device: u32,
    /// The class.
    pub class: MemoryClass,
    /// Buffers that lived within the window, in the order in which they were placed.
    pub rectangles: Vec<Rectangle>,
    /// Those that are not listed because there are too many: they took less of address × time than any that is.
    pub left_out: u64,
    /// Events of the window that were not looked at because there are too many, or they cannot be read: buffers that
    /// lived only then are missing, and others may have been released before they say.
    pub unseen_events: u64,
}

/// A buffer, as long as it lived.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Rectangle {
    /// Its address in the bank.
    pub address: u64,
    /// What it takes of the bank.
    pub per_bank_bytes: u64,
    /// When it was placed; the beginning of the recording if it was there before.
    pub from: Timestamp,
    /// When it was released; `null` if it was live at the end of the window.
    pub to: Option<Timestamp>,
    /// Its id.
    pub id: HexId,
    /// The process.
    pub pid: Option<u32>,
    /// The operation that placed it.
    pub operation: Option<String>,
    /// The line of Python that placed it: the innermost frame of the user's own code.
    pub line: Option<String>,
}
