//! Mesh handles of a process, and the allocators behind them.

use crate::buffers::BufferList;
use crate::device::Capacity;
use crate::freed::FreedList;
use std::sync::Arc;
use ttmem_event::{Class, MeshId, MeshKind};

/// One class of a mesh: the runtime has an allocator of its own for each.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allocator {
    /// What it can hand out on each device, as the runtime reports it; ends with the mesh.
    pub capacity: Option<Capacity>,
    /// What it took on each device.
    pub charged_bytes: u64,
    /// The same per bank, over the buffers that take every bank.
    pub per_bank_bytes: u64,
    pub buffers: u64,
    /// Whether the allocator's own statistics agreed when last compared.
    pub verified: Option<bool>,
    pub(crate) list: BufferList,
    /// Buffers that were live at a peak and are freed.
    pub(crate) freed: FreedList,
}

#[derive(Clone, Debug)]
pub struct Mesh {
    /// Its id in the process's events; `None` for the devices of old senders.
    pub id: Option<MeshId>,
    pub kind: MeshKind,
    pub handle: u64,
    /// Its devices, as the process counts them.
    pub devices: Arc<[u32]>,
    pub allocators: [Allocator; Class::COUNT],
    /// Whether it has something that ends when it closes.
    pub(crate) in_use: bool,
    /// The same devices, to be compared with those of others.
    pub(crate) members: DeviceSet,
}

/// Devices of a process as bits: comparing two sets is a few words of arithmetic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeviceSet {
    /// Shared, as a view has a copy of every mesh.
    words: Arc<[u64]>,
}

impl DeviceSet {
    pub(crate) fn words(&self) -> &Arc<[u64]> {
        &self.words
    }

    pub(crate) fn new(devices: &[u32]) -> Self {
        let last = devices.iter().max();
        let mut words = vec![0; last.map_or(0, |last| *last as usize / 64 + 1)];
        for device in devices {
            words[*device as usize / 64] |= 1_u64 << (device % 64);
        }
        Self {
            words: words.into(),
        }
    }

    /// How many there are, each once.
    pub(crate) fn len(&self) -> usize {
        let words = self.words.iter();
        words.map(|word| word.count_ones() as usize).sum()
    }

    /// Whether each is in the other, too.
    pub(crate) fn is_within(&self, other: &Self) -> bool {
        self.words.len() <= other.words.len()
            && self
                .words
                .iter()
                .zip(other.words.iter())
                .all(|(mine, others)| mine & !others == 0)
    }
}

impl Mesh {
    pub(crate) fn new(
        id: Option<MeshId>,
        kind: MeshKind,
        handle: u64,
        devices: Arc<[u32]>,
    ) -> Self {
        Self {
            id,
            kind,
            handle,
            members: DeviceSet::new(&devices),
            devices,
            allocators: Default::default(),
            in_use: false,
        }
    }
}
