//! Questions with filters, as a reader puts them and the server takes them apart.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{GroupBy, HexId, MemoryClass, SortBy, Timestamp};

/// The most rows a page can have.
pub const MAX_PAGE_ROWS: u32 = 10_000;

/// Which buffers a reader wants; every field that is there narrows them down.
///
/// Its fields are the query parameters of [`routes::BUFFERS`](crate::routes::BUFFERS) and of
/// [`routes::BUFFER_GROUPS`](crate::routes::BUFFER_GROUPS).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BufferQuery {
    /// Of this process.
    pub pid: Option<u32>,
    /// On the device with this logical id.
    pub device: Option<u32>,
    /// On the chip with this unique id.
    pub unique_id: Option<HexId>,
    /// Of this class.
    pub class: Option<MemoryClass>,
    /// Whose operation contains this text, whatever the case.
    pub operation: Option<String>,
    /// That take at least so much on a device.
    pub min_bytes: Option<u64>,
    /// Allocated at this time or later.
    pub since: Option<Timestamp>,
    /// The order; as the server has them if not said.
    pub sort: Option<SortBy>,
    /// The other way round.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub descending: bool,
    /// So many rows are left out at the beginning; not together with a cursor.
    pub offset: Option<u64>,
    /// Behind the row that a page ended with.
    pub cursor: Option<String>,
    /// What groups have in common; only of groups, which are by operation if not said.
    pub by: Option<GroupBy>,
    /// At most so many rows.
    #[schemars(range(min = 1, max = MAX_PAGE_ROWS))]
    pub limit: Option<u32>,
}
