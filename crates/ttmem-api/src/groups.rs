//! Groups of live buffers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{GroupBy, SchemaVersion, Timestamp};

/// Live buffers summed up by what they have in common.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BufferGroups {
    /// The version of the format.
    pub schema: SchemaVersion,
    /// When this held.
    pub time: Timestamp,
    /// What the groups have in common.
    pub by: GroupBy,
    /// The groups, those with most bytes first.
    pub groups: Vec<BufferGroup>,
    /// Groups that were not listed because there are too many.
    pub left_out: u64,
    /// Buffers that matched, of all groups.
    pub buffers: u64,
    /// What they take, on each device they lie on.
    pub charged_bytes: u64,
}

/// Buffers with something in common.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BufferGroup {
    /// What they have in common; `null` where it is not known.
    pub key: Option<String>,
    /// How many.
    pub buffers: u64,
    /// What they take, on each device they lie on.
    pub charged_bytes: u64,
    /// What was asked for.
    pub requested_bytes: u64,
    /// The oldest.
    pub oldest: Option<Timestamp>,
    /// The newest.
    pub newest: Option<Timestamp>,
}
