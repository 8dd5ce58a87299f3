//! Questions with filters, as a reader puts them and the server takes them apart.

use serde::{Deserialize, Serialize};

use crate::{GroupBy, HexId, MemoryClass, SortBy, Timestamp};

/// Which buffers a reader wants; every field that is there narrows them down.
///
/// Its fields are the query parameters of [`routes::BUFFERS`](crate::routes::BUFFERS) and of
/// [`routes::BUFFER_GROUPS`](crate::routes::BUFFER_GROUPS).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BufferQuery {
    /// Of this process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// On the device with this logical id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<u32>,
    /// On the chip with this unique id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unique_id: Option<HexId>,
    /// Of this class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<MemoryClass>,
    /// Whose operation contains this text, whatever the case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// That take at least so much on a device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_bytes: Option<u64>,
    /// Allocated at this time or later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// The order; as the server has them if not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sort: Option<SortBy>,
    /// The other way round.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub descending: bool,
    /// So many rows are left out at the beginning; not together with a cursor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// Behind the row that a page ended with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// What groups have in common; only of groups, which are by operation if not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<GroupBy>,
    /// At most so many rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}
