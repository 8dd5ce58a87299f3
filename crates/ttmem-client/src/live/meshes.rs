//! What the process defined, as far as its events depend on it.
//!
//! A definition stands for good and a contradicting one is refused, as in the
//! ledger. Devices are counted by chip: two ids of one chip share its totals.

use super::hash::IdMap;
use std::sync::Arc;
use ttmem_event::{CoreSet, CoresId, Definition, DeviceDefinition, DeviceId, MeshDefinition};

/// What tells one chip of this process from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Chip {
    Unique(u64),
    Logical(u32),
}

/// Devices, meshes and core sets of the process.
#[derive(Clone, Debug, Default)]
pub(super) struct Meshes {
    chips: IdMap<Chip, usize>,
    devices: IdMap<u32, usize>,
    /// The first id of each chip.
    first_ids: Vec<DeviceId>,
    meshes: IdMap<u32, Arc<[usize]>>,
    cores: IdMap<u32, CoreSet>,
}

impl Meshes {
    /// Takes over a definition unless it is one that the ledger refuses.
    pub(super) fn define(&mut self, definition: &Definition) {
        match definition {
            Definition::Text { .. } => {}
            Definition::Cores { id, cores } => {
                if *id != CoresId::NONE {
                    self.cores.entry(id.0).or_insert(*cores);
                }
            }
            Definition::Device(device) => self.define_device(device),
            Definition::Mesh(mesh) => self.define_mesh(mesh),
        }
    }

    fn define_device(&mut self, device: &DeviceDefinition) {
        if self.devices.contains_key(&device.id.0) {
            return;
        }
        let chip = match device.unique_id {
            Some(unique_id) => Chip::Unique(unique_id),
            None => Chip::Logical(device.logical_id),
        };
        let next = self.first_ids.len();
        let place = *self.chips.entry(chip).or_insert(next);
        if place == next {
            self.first_ids.push(device.id);
        }
        self.devices.insert(device.id.0, place);
    }

    fn define_mesh(&mut self, mesh: &MeshDefinition) {
        let mut members: Vec<usize> = Vec::with_capacity(mesh.devices.len());
        for device in &mesh.devices {
            match self.devices.get(&device.0) {
                Some(place) if !members.contains(place) => members.push(*place),
                _unknown_or_twice => return,
            }
        }
        self.meshes.entry(mesh.id.0).or_insert(members.into());
    }

    /// The chips of a defined mesh.
    pub(super) fn members(&self, mesh: u32) -> Option<&Arc<[usize]>> {
        self.meshes.get(&mesh)
    }

    pub(super) fn is_mesh(&self, mesh: u32) -> bool {
        self.meshes.contains_key(&mesh)
    }

    /// Whether every chip of one mesh is a chip of the other.
    pub(super) fn is_part(&self, part: u32, whole: u32) -> bool {
        match (self.members(part), self.members(whole)) {
            (Some(part), Some(whole)) => part.iter().all(|chip| whole.contains(chip)),
            _undefined => false,
        }
    }

    /// The chip of a defined device.
    pub(super) fn chip(&self, device: u32) -> Option<usize> {
        self.devices.get(&device).copied()
    }

    /// The first id of each chip, by chip.
    pub(super) fn first_ids(&self) -> &[DeviceId] {
        &self.first_ids
    }

    pub(super) fn cores(&self, id: CoresId) -> Option<&CoreSet> {
        self.cores.get(&id.0)
    }

    /// Every mesh with this chip, in the order of their ids.
    pub(super) fn meshes_with(&self, chip: usize) -> Vec<u32> {
        let mut found = self.all();
        found.retain(|mesh| {
            self.members(*mesh)
                .is_some_and(|members| members.contains(&chip))
        });
        found
    }

    /// Every mesh, in the order of their ids.
    pub(super) fn all(&self) -> Vec<u32> {
        let mut ids: Vec<u32> = self.meshes.keys().copied().collect();
        ids.sort_unstable();
        ids
    }
}
