//! What the views want the feed to ask for.

use ttmem_api::{BufferQuery, Device, HexId, MemoryClass};

/// A device, whatever its place in the snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct DeviceKey {
    /// Its logical id.
    pub(crate) id: u32,
    /// The chip's unique id.
    pub(crate) unique_id: Option<HexId>,
    /// The visible-device set under which `id` counts.
    pub(crate) scope: Option<String>,
}

impl DeviceKey {
    /// The key of a device.
    pub(crate) fn of(device: &Device) -> Self {
        Self {
            id: device.id,
            unique_id: device.unique_id,
            scope: device.scope.clone(),
        }
    }

    /// How the read API's paths name it: by its unique id where it has one.
    pub(crate) fn path(&self) -> String {
        match self.unique_id {
            Some(unique_id) => unique_id.to_string(),
            None => self.id.to_string(),
        }
    }
}

/// Documents to keep fresh besides the snapshot: those of the view on screen only.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Wants {
    /// A history that reaches so many seconds back.
    pub(crate) history_seconds: Option<u32>,
    /// L1 of a device, and one core of it.
    pub(crate) l1map: Option<(DeviceKey, Option<(u16, u16)>)>,
    /// The banks of a device, in so many cells.
    pub(crate) blocks: Option<(DeviceKey, MemoryClass, u32)>,
    /// Every program.
    pub(crate) programs: bool,
    /// Every kernel.
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
