//! What [`routes::EVENTS`](crate::routes::EVENTS) sends: server-sent events, each with a JSON body.
//!
//! A stream has every event as it is applied. Ids grow, and a reader that comes back with the last
//! one it saw goes on behind it; what it missed for good is reported as a gap.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{LastEvent, SchemaVersion, Timestamp};

/// One message of the stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum StreamMessage {
    /// The first message: what the stream is.
    Hello(StreamHello),
    /// An event that was applied.
    Event(StreamEvent),
    /// Events that this reader will not get: it was too slow, or away for too long.
    Gap(StreamGap),
}

/// The first message of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StreamHello {
    /// The version of the format.
    pub schema: SchemaVersion,
    /// The server's start: ids of another server mean nothing here.
    pub started: Timestamp,
    /// The newest id so far.
    pub newest: u64,
}

/// One event of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StreamEvent {
    /// Its id.
    pub id: u64,
    /// When the server applied it.
    pub applied: Timestamp,
    /// The event.
    #[serde(flatten)]
    pub event: LastEvent,
}

/// Events that are missing from a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StreamGap {
    /// The last id before it.
    pub after: u64,
    /// The first id behind it.
    pub resumes: u64,
    /// Why.
    pub reason: String,
}
