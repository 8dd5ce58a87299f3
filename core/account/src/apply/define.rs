//! Definitions: texts, core sets, devices and meshes of a process.
//!
//! A definition stands for good: saying the same again is fine, saying
//! something else under the same id is refused.

use super::{Apply, Outcome};
use crate::account::DeviceIndex;
use crate::anomaly::Anomaly;
use crate::definitions::Definitions;
use crate::device::{ChipKey, HeldDevice};
use crate::mesh::{DeviceSet, Mesh};
use crate::observer::Observer;
use std::sync::Arc;
use ttmem_event::{
    CoresId, Definition, DeviceDefinition, EventKind, MeshDefinition, MeshKind, TextId,
};

impl<O: Observer> Apply<'_, O> {
    pub(crate) fn define(&mut self, definition: &Definition) -> Outcome {
        match definition {
            Definition::Text { id, .. } if *id == TextId::NONE => Err(Anomaly::Malformed),
            Definition::Cores { id, .. } if *id == CoresId::NONE => Err(Anomaly::Malformed),
            Definition::Text { id, text } => {
                let known = self.account.facts.definitions.text(*id);
                if let Some(known) = known {
                    return same(**known == **text);
                }
                self.check_room(text.len())?;
                self.definitions_mut(text.len()).insert_text(*id, text);
                Ok(())
            }
            Definition::Cores { id, cores } => {
                if let Some(known) = self.account.facts.definitions.cores(*id) {
                    return same(known == cores);
                }
                self.check_room(0)?;
                self.definitions_mut(0).insert_cores(*id, *cores);
                Ok(())
            }
            Definition::Device(device) => self.define_device(device),
            Definition::Mesh(mesh) => self.define_mesh(mesh),
        }
    }

    /// The definitions, to add one with a text of so many bytes.
    fn definitions_mut(&mut self, bytes: usize) -> &mut Definitions {
        let definitions = &mut self.account.facts.definitions;
        let mut touched = bytes / 64;
        if Arc::strong_count(definitions) > 1 {
            // A reader has them: all are copied.
            touched += definitions.len();
        }
        self.account.work += touched as u64;
        Arc::make_mut(definitions)
    }

    fn check_room(&self, more_bytes: usize) -> Outcome {
        let definitions = &self.account.facts.definitions;
        let has_room = definitions.len() < self.limits.definitions
            && definitions.text_bytes + more_bytes <= self.limits.text_bytes;
        has_room.then_some(()).ok_or(Anomaly::LimitReached)
    }

    fn define_device(&mut self, definition: &DeviceDefinition) -> Outcome {
        let id = definition.id;
        let key = match definition.unique_id {
            Some(unique_id) => ChipKey::Unique(unique_id),
            None => ChipKey::Logical(definition.logical_id),
        };
        if let Some(slot) = self.account.device_ids.get(&id.0) {
            return same(self.account.facts.devices[*slot as usize].key == key);
        }
        if self.account.device_ids.len() >= self.limits.devices {
            // Any number of ids could be given to one device.
            return Err(Anomaly::LimitReached);
        }
        let slot = self.hold_device(key)?;
        let account = &mut *self.account;
        account.facts.devices[slot as usize].id.get_or_insert(id);
        account.device_ids.insert(id.0, slot);
        account.device_definitions.insert(id.0, definition.clone());
        self.describe_device(slot, id);
        Ok(())
    }

    /// The process's slot for a device, new if it was never mentioned.
    fn hold_device(&mut self, key: ChipKey) -> Result<u32, Anomaly> {
        if let Some(slot) = self.account.chips.get(&key) {
            return Ok(*slot);
        }
        let devices = &mut self.account.facts.devices;
        if devices.len() >= self.limits.devices {
            return Err(Anomaly::LimitReached);
        }
        let slot = u32::try_from(devices.len()).map_err(|_many| Anomaly::LimitReached)?;
        self.observer.device_added(slot, key)?;
        devices.push(HeldDevice::new(key));
        self.account.chips.insert(key, slot);
        self.account.on_device.push(DeviceIndex::default());
        Ok(slot)
    }

    fn define_mesh(&mut self, definition: &MeshDefinition) -> Outcome {
        self.account.work += definition.devices.len() as u64;
        let mut slots: Vec<u32> = Vec::with_capacity(definition.devices.len());
        for device in &definition.devices {
            let slot = self.account.device_ids.get(&device.0);
            slots.push(*slot.ok_or(Anomaly::Undefined)?);
        }
        if DeviceSet::new(&slots).len() < slots.len() {
            // Two ids of one chip: an event would be booked on it twice.
            return Err(Anomaly::Redefined);
        }
        if let Some(known) = self.account.mesh_ids.get(&definition.id.0) {
            return same(*self.account.facts.meshes[*known as usize].devices == *slots);
        }
        let (id, kind) = (Some(definition.id), definition.kind);
        let slot = self.add_mesh(Mesh::new(id, kind, definition.handle, slots.into()))?;
        self.account.mesh_ids.insert(definition.id.0, slot);
        Ok(())
    }

    fn add_mesh(&mut self, mesh: Mesh) -> Result<u32, Anomaly> {
        let meshes = &mut self.account.facts.meshes;
        let members = self.account.mesh_members + mesh.devices.len();
        if meshes.len() >= self.limits.meshes || members > self.limits.mesh_members {
            return Err(Anomaly::LimitReached);
        }
        self.account.mesh_members = members;
        let slot = u32::try_from(meshes.len()).map_err(|_many| Anomaly::LimitReached)?;
        meshes.push(mesh);
        Ok(slot)
    }

    /// The mesh that stands for the device number of an old sender's report.
    ///
    /// Nothing can be given back on a device that the sender never held anything on,
    /// and no device comes to be by trying.
    pub(super) fn legacy_mesh(&mut self, event: &EventKind) -> Result<u32, Anomaly> {
        let number = event.legacy_device().ok_or(Anomaly::Malformed)?;
        let number = u32::try_from(number).map_err(|_negative| Anomaly::InvalidDevice)?;
        if number > self.limits.last_legacy_device {
            return Err(Anomaly::InvalidDevice);
        }
        if let Some(mesh) = self.account.legacy_meshes.get(&number) {
            return Ok(*mesh);
        }
        match event {
            EventKind::LegacyFreed { .. } | EventKind::LegacyCbFreed { .. } => {
                Err(Anomaly::UnknownFree)
            }
            EventKind::LegacyKernelUnloaded { .. } => Err(Anomaly::UnknownUnload),
            _report => self.add_legacy_mesh(number),
        }
    }

    pub(crate) fn add_legacy_mesh(&mut self, number: u32) -> Result<u32, Anomaly> {
        let slot = self.hold_device(ChipKey::Logical(number))?;
        let handle = u64::from(number);
        let mesh = Mesh::new(None, MeshKind::Chip, handle, [slot].into());
        let mesh = self.add_mesh(mesh)?;
        self.account.legacy_meshes.insert(number, mesh);
        Ok(mesh)
    }
}

fn same(equal: bool) -> Outcome {
    equal.then_some(()).ok_or(Anomaly::Redefined)
}
