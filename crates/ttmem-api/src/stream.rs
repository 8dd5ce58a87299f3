//! What [`routes::EVENTS`](crate::routes::EVENTS) sends: server-sent events, each with a JSON body.
//!
//! A stream has one of two paces. `raw` gives every event as it is applied; `changes`, the usual
//! one, gives what changed, at most ten times a second. Ids grow, and a reader that comes back
//! with the last one it saw goes on behind it; what it missed for good is told as a gap.

use serde::{Deserialize, Serialize};

use crate::{HexId, LastEvent, Timestamp};

/// One message of the stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum StreamMessage {
    /// The first message: what the stream is.
    Hello(StreamHello),
    /// An event that was applied (`raw`).
    Event(StreamEvent),
    /// What changed (`changes`).
    Changes(StreamChanges),
    /// Events that this reader will not get: it was too slow, or away for too long.
    Gap(StreamGap),
}

/// The first message of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamHello {
    /// [`SCHEMA`](crate::SCHEMA).
    pub schema: u32,
    /// The server's start: ids of another server mean nothing here.
    pub started: Timestamp,
    /// The newest id so far.
    pub newest: u64,
}

/// One event of a raw stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamEvent {
    /// Its id.
    pub id: u64,
    /// When the server applied it.
    pub applied: Timestamp,
    /// The event.
    #[serde(flatten)]
    pub event: LastEvent,
}

/// What changed since the last message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamChanges {
    /// The newest id that is in it.
    pub id: u64,
    /// When this held.
    pub time: Timestamp,
    /// Events applied since the server started.
    pub events_applied: u64,
    /// The devices whose totals changed.
    pub devices: Vec<StreamDevice>,
}

/// Totals of a device that changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamDevice {
    /// The device's logical id.
    pub id: u32,
    /// The chip's unique id.
    pub unique_id: Option<HexId>,
    /// The visible-device set under which `id` counts; `null` is the default.
    ///
    /// With it and the two ids a device is told from every other, as in a snapshot.
    #[serde(default)]
    pub scope: Option<String>,
    /// Charged in DRAM.
    pub dram_bytes: u64,
    /// Charged in L1.
    pub l1_bytes: u64,
    /// Charged in the small region of L1.
    pub l1_small_bytes: u64,
    /// Charged in the trace region.
    pub trace_bytes: u64,
    /// Registered circular buffers.
    pub cb_bytes: u64,
    /// Registered kernels.
    pub kernel_bytes: u64,
    /// Live buffers of all classes.
    pub buffers: u64,
    /// Programs run so far.
    pub dispatches: u64,
}

/// Events that are missing from a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamGap {
    /// The last id before it.
    pub after: u64,
    /// The first id behind it.
    pub resumes: u64,
    /// Why.
    pub reason: String,
}
