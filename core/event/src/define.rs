//! Definitions: what events refer to by id because it has no fixed size.
//!
//! A definition is published before the first event that uses its id, and is
//! never taken back while the process lives.

use crate::catalogue::Arch;
use crate::core::CoreSet;
use crate::event::MeshKind;
use crate::ids::{CoresId, DeviceId, MeshId, TextId};

/// Something with an id that events may use from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Definition {
    /// A text: a name, an operation, a mark.
    Text {
        /// Its id, not 0.
        id: TextId,
        text: String,
    },
    Cores {
        /// Its id, not 0.
        id: CoresId,
        cores: CoreSet,
    },
    Device(DeviceDefinition),
    /// The devices behind a mesh handle.
    Mesh(MeshDefinition),
}

/// A physical device as the process sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceDefinition {
    /// Its id in this process's events.
    pub id: DeviceId,
    /// The runtime's logical id; renumbers with the visible devices.
    pub logical_id: u32,
    pub unique_id: Option<u64>,
    pub arch: Arch,
    pub board: TextId,
    /// Whether it is reached through another chip.
    pub remote: Option<bool>,
    /// Columns of the compute grid; 0 when not known.
    pub grid_columns: u16,
    /// Rows of the compute grid; 0 when not known.
    pub grid_rows: u16,
    /// Bytes of L1 of each compute core; 0 when not known.
    pub l1_bytes_per_core: u32,
    /// Bytes at the bottom of L1 that no allocator hands out.
    pub l1_reserved_bytes: u32,
}

impl DeviceDefinition {
    /// The cores of the compute grid, where it is known.
    #[must_use]
    pub fn compute_cores(&self) -> Option<CoreSet> {
        let known = self.grid_columns > 0 && self.grid_rows > 0;
        known.then(|| CoreSet::grid(self.grid_columns, self.grid_rows))
    }
}

/// The devices behind a mesh handle, in mesh order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeshDefinition {
    /// Its id in this process's events.
    pub id: MeshId,
    /// What the handle stands for.
    pub kind: MeshKind,
    /// The runtime's own id of it; collides with chip ids.
    pub handle: u64,
    pub rows: u16,
    pub columns: u16,
    pub devices: Vec<DeviceId>,
}
