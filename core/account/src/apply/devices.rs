//! Devices and meshes: opened, closed, measured.

use super::{Apply, Outcome};
use crate::anomaly::Anomaly;
use crate::device::{Capacity, ComputeL1};
use crate::observer::Observer;
use std::sync::Arc;
use ttmem_event::{Class, DeviceId, EventKind};

impl<O: Observer> Apply<'_, O> {
    pub(super) fn change_devices(&mut self, event: &EventKind) -> Outcome {
        match *event {
            EventKind::DeviceOpened { device } => {
                let slot = self.device_slot(device)?;
                self.describe_device(slot, device);
            }
            EventKind::DeviceClosed { device } => self.close_device(device)?,
            EventKind::MeshOpened { mesh } => {
                let mesh = self.mesh_slot(mesh)?;
                self.use_mesh(mesh);
            }
            EventKind::MeshClosed { mesh } => {
                let mesh = self.mesh_slot(mesh)?;
                self.close_mesh(mesh);
            }
            EventKind::CapacityReported {
                mesh,
                class,
                banks,
                base,
                per_bank_bytes,
                ..
            } => {
                let capacity = Capacity {
                    banks: u32::from(banks),
                    base,
                    per_bank_bytes,
                };
                let mesh = self.mesh_slot(mesh)?;
                self.set_capacity(mesh, class, capacity)?;
                let members = Arc::clone(&self.mesh(mesh).devices);
                self.account.work += members.len() as u64;
                for slot in members.iter() {
                    self.note_capacity(*slot, class, capacity);
                }
            }
            EventKind::StatisticsReported {
                mesh,
                class,
                allocated_bytes,
                ..
            } => {
                let mesh = self.mesh_slot(mesh)?;
                self.use_mesh(mesh);
                let mesh = &mut self.account.facts.meshes[mesh as usize];
                let allocator = &mut mesh.allocators[class.index()];
                let agrees = allocator.per_bank_bytes == allocated_bytes;
                allocator.verified = Some(agrees);
                if !agrees {
                    return Err(Anomaly::StatisticsDiffer);
                }
            }
            EventKind::AllocationFailed { mesh, .. } | EventKind::Clashed { mesh, .. } => {
                self.mesh_slot(mesh)?;
            }
            _other => return Err(Anomaly::Malformed),
        }
        self.happened(event)
    }

    fn device_slot(&self, device: DeviceId) -> Result<u32, Anomaly> {
        let slot = self.account.device_ids.get(&device.0);
        slot.copied().ok_or(Anomaly::Undefined)
    }

    /// The grid that is in use is that of the definition a device was last opened by.
    pub(crate) fn describe_device(&mut self, slot: u32, id: DeviceId) {
        let account = &mut *self.account;
        let Some(definition) = account.device_definitions.get(&id.0) else {
            return;
        };
        let held = &mut account.facts.devices[slot as usize];
        held.opened = Some(id);
        held.compute = ComputeL1::of(definition).or(held.compute);
        if let Some((definition, board)) = account.description(slot) {
            self.observer.device_described(slot, definition, board);
        }
    }

    /// The runtime closes no device under an open mesh: its meshes end with it.
    fn close_device(&mut self, device: DeviceId) -> Outcome {
        let slot = self.device_slot(device)?;
        let on = &self.account.on_device[slot as usize];
        // In an order that does not depend on the seed of a set.
        let mut meshes: Vec<u32> = on.meshes.iter().copied().collect();
        let mut programs: Vec<u32> = on.programs.iter().copied().collect();
        meshes.sort_unstable();
        programs.sort_unstable();
        // Each time it goes on it sorts again: it then does as much as that cost.
        let sorted = (meshes.len() + programs.len()) as u64 / 16;
        self.account.work += sorted;
        self.account.pause_at = match self.account.pause_at {
            0 => 0,
            at => at.saturating_add(2 * sorted),
        };
        for mesh in meshes {
            if self.account.pauses() {
                return Ok(());
            }
            self.close_mesh(mesh);
        }
        for program in programs {
            if self.account.pauses() {
                return Ok(());
            }
            self.empty_part(program, slot);
        }
        Ok(())
    }

    /// Buffers that are still held are leak candidates; programs are not: the
    /// runtime's cache keeps them until their device closes. The allocators end.
    fn close_mesh(&mut self, mesh: u32) {
        let held = self.release_allocators(mesh, None, true);
        let leaks = &mut self.account.facts.leak_candidates;
        leaks.buffers += held.buffers;
        leaks.buffer_bytes = leaks.buffer_bytes.saturating_add(held.buffer_bytes);
        if self.account.unfinished {
            return;
        }
        self.drop_config_rings(mesh, 0);
        self.account.facts.prefetchers.remove(&mesh);
        self.drop_traces(mesh);
        if self.account.unfinished {
            return;
        }
        let closed = &mut self.account.facts.meshes[mesh as usize];
        for allocator in &mut closed.allocators {
            allocator.capacity = None;
            allocator.verified = None;
        }
        closed.in_use = false;
        self.account.work += closed.devices.len() as u64;
        for device in closed.devices.iter() {
            self.account.on_device[*device as usize]
                .meshes
                .remove(&mesh);
        }
    }

    pub(crate) fn set_capacity(&mut self, mesh: u32, class: Class, capacity: Capacity) -> Outcome {
        capacity.check()?;
        let known = &mut self.account.facts.meshes[mesh as usize];
        let allocator = &mut known.allocators[class.index()];
        if capacity.total_bytes() < allocator.charged_bytes {
            return Err(Anomaly::CapacityConflict);
        }
        allocator.capacity = Some(capacity);
        self.use_mesh(mesh);
        Ok(())
    }

    /// What was reported last is known also when nothing is open any more.
    pub(crate) fn note_capacity(&mut self, slot: u32, class: Class, capacity: Capacity) {
        let held = &mut self.account.facts.devices[slot as usize];
        held.capacities[class.index()] = Some(capacity);
        self.observer.capacity_reported(slot, class, capacity);
    }
}
