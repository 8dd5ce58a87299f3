//! Definitions: texts, core sets, devices and meshes of a process.
//!
//! A definition stands for good: saying the same again is fine, saying
//! something else under the same id is refused.

use super::Outcome;
use crate::anomaly::Anomaly;
use crate::device::{ComputeL1, Device, DeviceFacts, DeviceKey};
use crate::ledger::Limits;
use crate::process::{Map, Mesh, Process, ProcessDevice};
use std::sync::Arc;
use ttmem_event::{
    CoresId, Definition, DeviceDefinition, MeshDefinition, MeshKind, Source, TextId, What,
};

/// All devices, found by their keys.
#[derive(Debug, Default)]
pub(crate) struct DeviceTable {
    pub(crate) devices: Vec<Device>,
    index: Map<DeviceKey, u32>,
}

impl DeviceTable {
    /// The device with this key, made from `facts` if it is new.
    ///
    /// When the table is full, a device that nobody speaks of any more makes room.
    pub(crate) fn find_or_add(
        &mut self,
        key: DeviceKey,
        facts: impl FnOnce() -> DeviceFacts,
        limit: usize,
    ) -> Result<u32, Anomaly> {
        if let Some(index) = self.index.get(&key) {
            return Ok(*index);
        }
        let device = Device::new(key.clone(), facts());
        let index = if self.devices.len() < limit {
            self.devices.push(device);
            self.devices.len() - 1
        } else {
            let unused = |device: &Device| device.references == 0 && device.configured.is_none();
            let index = self
                .devices
                .iter()
                .position(unused)
                .ok_or(Anomaly::LimitReached)?;
            self.index.remove(&self.devices[index].key);
            self.devices[index] = device;
            index
        };
        let index = u32::try_from(index).map_err(|_many| Anomaly::LimitReached)?;
        self.index.insert(key, index);
        Ok(index)
    }
}

/// A process that introduces what its events will refer to.
pub(crate) struct Introduction<'a> {
    pub(crate) process: &'a mut Process,
    pub(crate) table: &'a mut DeviceTable,
    pub(crate) limits: &'a Limits,
}

impl Introduction<'_> {
    pub(crate) fn define(&mut self, definition: &Definition) -> Outcome {
        match definition {
            Definition::Text { id, .. } if *id == TextId::NONE => Err(Anomaly::Malformed),
            Definition::Cores { id, .. } if *id == CoresId::NONE => Err(Anomaly::Malformed),
            Definition::Text { id, text } => {
                let known = self.process.facts.definitions.text(*id);
                if let Some(known) = known {
                    return same(**known == **text);
                }
                self.check_room(text.len())?;
                Arc::make_mut(&mut self.process.facts.definitions).insert_text(*id, text);
                Ok(())
            }
            Definition::Cores { id, cores } => {
                if let Some(known) = self.process.facts.definitions.cores(*id) {
                    return same(known == cores);
                }
                self.check_room(0)?;
                Arc::make_mut(&mut self.process.facts.definitions).insert_cores(*id, *cores);
                Ok(())
            }
            Definition::Device(device) => self.define_device(device),
            Definition::Mesh(mesh) => self.define_mesh(mesh),
        }
    }

    fn check_room(&self, more_bytes: usize) -> Outcome {
        let definitions = &self.process.facts.definitions;
        let full = definitions.len() >= self.limits.definitions_per_process
            || definitions.text_bytes + more_bytes > self.limits.text_bytes_per_process;
        if full {
            Err(Anomaly::LimitReached)
        } else {
            Ok(())
        }
    }

    fn define_device(&mut self, definition: &DeviceDefinition) -> Outcome {
        let key = match definition.unique_id {
            Some(unique_id) => DeviceKey::Unique(unique_id),
            None => DeviceKey::Logical {
                visible: Arc::clone(&self.process.facts.identity.visible_devices),
                id: definition.logical_id,
            },
        };
        if let Some(slot) = self.process.device_ids.get(&definition.id.0) {
            let device = self.process.facts.devices[*slot as usize].device;
            return same(self.table.devices[device as usize].key == key);
        }
        if self.process.device_ids.len() >= self.limits.devices_per_process {
            // Any number of ids could be given to one device.
            return Err(Anomaly::LimitReached);
        }
        let facts = self.facts(definition);
        let slot = self.hold_device(key, || facts.clone())?;
        let held = &mut self.process.facts.devices[slot as usize];
        held.id.get_or_insert(definition.id);
        let index = held.device;
        self.process.device_ids.insert(definition.id.0, slot);
        learn(&mut self.table.devices[index as usize].facts, facts);
        Ok(())
    }

    fn facts(&self, definition: &DeviceDefinition) -> DeviceFacts {
        let definitions = &self.process.facts.definitions;
        let l1_bytes = u64::from(definition.l1_bytes_per_core);
        let compute = definition.compute_cores().filter(|_known| l1_bytes > 0);
        DeviceFacts {
            logical_id: definition.logical_id,
            unique_id: definition.unique_id,
            arch: Some(definition.arch),
            board: definitions.text(definition.board).cloned(),
            remote: definition.remote,
            compute: compute.map(|cores| ComputeL1 {
                cores,
                bytes_per_core: l1_bytes,
                reserved_bytes: u64::from(definition.l1_reserved_bytes).min(l1_bytes),
            }),
            capacities: Default::default(),
        }
    }

    /// The process's slot for a device, new if it never spoke of it.
    fn hold_device(
        &mut self,
        key: DeviceKey,
        facts: impl FnOnce() -> DeviceFacts,
    ) -> Result<u32, Anomaly> {
        let devices = &mut self.process.facts.devices;
        let known = self.table.index.get(&key);
        let held = devices
            .iter()
            .position(|device| Some(&device.device) == known);
        if let Some(slot) = held {
            return u32::try_from(slot).map_err(|_many| Anomaly::LimitReached);
        }
        if devices.len() >= self.limits.devices_per_process {
            return Err(Anomaly::LimitReached);
        }
        let index = self.table.find_or_add(key, facts, self.limits.devices)?;
        let slot = u32::try_from(devices.len()).map_err(|_many| Anomaly::LimitReached)?;
        devices.push(ProcessDevice {
            device: index,
            id: None,
            totals: Default::default(),
        });
        self.process.kernels.push(Map::default());
        let device = &mut self.table.devices[index as usize];
        device.references += 1;
        let source = self.process.facts.identity.source;
        // Of several kinds of sources the best is named: their numbers are in that order.
        device.source = Some(
            device
                .source
                .map_or(source, |known: Source| known.min(source)),
        );
        Ok(slot)
    }

    fn define_mesh(&mut self, definition: &MeshDefinition) -> Outcome {
        let mut slots: Vec<u32> = Vec::with_capacity(definition.devices.len());
        for device in &definition.devices {
            let slot = self
                .process
                .device_ids
                .get(&device.0)
                .ok_or(Anomaly::Undefined)?;
            if slots.contains(slot) {
                // Two ids of one chip: an event would be booked on it twice.
                return Err(Anomaly::Redefined);
            }
            slots.push(*slot);
        }
        if let Some(known) = self.process.mesh_ids.get(&definition.id.0) {
            return same(*self.process.facts.meshes[*known as usize].devices == *slots);
        }
        let mut mesh = Mesh::new(definition.kind, definition.handle, slots.into());
        mesh.id = Some(definition.id);
        let slot = self.add_mesh(mesh)?;
        self.process.mesh_ids.insert(definition.id.0, slot);
        Ok(())
    }

    fn add_mesh(&mut self, mesh: Mesh) -> Result<u32, Anomaly> {
        let meshes = &mut self.process.facts.meshes;
        let members = self.process.mesh_members + mesh.devices.len();
        if meshes.len() >= self.limits.meshes_per_process
            || members > self.limits.mesh_members_per_process
        {
            return Err(Anomaly::LimitReached);
        }
        self.process.mesh_members = members;
        let slot = u32::try_from(meshes.len()).map_err(|_many| Anomaly::LimitReached)?;
        meshes.push(mesh);
        Ok(slot)
    }

    /// The mesh that stands for the device number of an old sender's report.
    ///
    /// Nothing can be given back on a device that the sender never held anything on,
    /// and no device comes to be by trying.
    pub(crate) fn legacy_mesh(&mut self, logical_id: i32, what: &What) -> Result<u32, Anomaly> {
        let id = u32::try_from(logical_id).map_err(|_negative| Anomaly::InvalidDevice)?;
        if id > self.limits.last_legacy_device {
            return Err(Anomaly::InvalidDevice);
        }
        if let Some(mesh) = self.process.legacy_meshes.get(&id) {
            return Ok(*mesh);
        }
        match what {
            What::LegacyFreed { .. } | What::LegacyCbFreed { .. } => {
                return Err(Anomaly::UnknownFree);
            }
            What::LegacyKernelUnloaded { .. } => return Err(Anomaly::UnknownUnload),
            _report => {}
        }
        self.add_legacy_mesh(id)
    }

    /// The process's slot for a device number of an old sender; it may hold nothing there now.
    pub(crate) fn legacy_device(&mut self, id: u32) -> Option<u32> {
        let mesh = match self.process.legacy_meshes.get(&id) {
            Some(mesh) => *mesh,
            None if id > self.limits.last_legacy_device => return None,
            None => self.add_legacy_mesh(id).ok()?,
        };
        let mesh = &self.process.facts.meshes[mesh as usize];
        mesh.devices.first().copied()
    }

    fn add_legacy_mesh(&mut self, id: u32) -> Result<u32, Anomaly> {
        let visible = Arc::clone(&self.process.facts.identity.visible_devices);
        let key = DeviceKey::Logical { visible, id };
        let facts = || DeviceFacts {
            logical_id: id,
            ..DeviceFacts::default()
        };
        let slot = self.hold_device(key, facts)?;
        let mesh = Mesh::new(MeshKind::Chip, u64::from(id), [slot].into());
        let mesh = self.add_mesh(mesh)?;
        self.process.legacy_meshes.insert(id, mesh);
        Ok(mesh)
    }
}

fn same(equal: bool) -> Outcome {
    if equal {
        Ok(())
    } else {
        Err(Anomaly::Redefined)
    }
}

/// What a runtime reports replaces what was known; what it does not say stays.
fn learn(facts: &mut DeviceFacts, reported: DeviceFacts) {
    facts.logical_id = reported.logical_id;
    facts.unique_id = reported.unique_id.or(facts.unique_id);
    facts.arch = reported.arch.or(facts.arch);
    facts.board = reported.board.or(facts.board.take());
    facts.remote = reported.remote.or(facts.remote);
    facts.compute = reported.compute.or(facts.compute);
}
