//! What the views want the feed to ask for.

use ttmem_api::{BufferQuery, DeviceKey, MemoryClass};

/// Documents to keep fresh besides the snapshot: those of the view on screen only.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Wants {
    /// A history that reaches so many seconds back.
    pub(crate) history_seconds: Option<u32>,
    /// L1 of a device, and one core of it.
    pub(crate) l1map: Option<(DeviceKey, Option<(u16, u16)>)>,
    /// The banks of a device, in so many cells.
    pub(crate) blocks: Option<(DeviceKey, MemoryClass, u32)>,
    pub(crate) programs: bool,
    pub(crate) kernels: bool,
    /// Buffers; offset and limit say which rows.
    pub(crate) buffers: Option<BufferQuery>,
    /// Buffers summed up; `by` says by what.
    pub(crate) groups: Option<BufferQuery>,
    /// Every event as it happens.
    pub(crate) tail: bool,
}

/// Something that the server is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Request {
    /// Set a mark with a name.
    Mark(String),
}
