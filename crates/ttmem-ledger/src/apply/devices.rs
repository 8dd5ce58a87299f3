//! Devices and meshes: opened, closed, measured.

use super::{MAX_HELD_BYTES, Outcome, Scope};
use crate::anomaly::Anomaly;
use crate::device::Capacity;
use std::sync::Arc;
use ttmem_event::{Class, DeviceId, MeshId, What};

impl Scope<'_> {
    pub(super) fn change_devices(&mut self, what: &What) -> Outcome {
        match *what {
            What::DeviceOpened { device } => {
                self.device_slot(device)?;
            }
            What::DeviceClosed { device } => self.close_device(device)?,
            What::MeshOpened { mesh } => {
                self.mesh_slot(mesh)?;
            }
            What::MeshClosed { mesh } => {
                let mesh = self.mesh_slot(mesh)?;
                self.close_mesh(mesh);
            }
            What::CapacityReported {
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
                self.set_capacity(mesh, class, capacity)?;
            }
            What::StatisticsReported {
                mesh,
                class,
                allocated_bytes,
                ..
            } => {
                let mesh = self.mesh_slot(mesh)?;
                let allocator = &mut self.mesh_mut(mesh).allocators[class.index()];
                let agrees = allocator.per_bank_bytes == allocated_bytes;
                allocator.verified = Some(agrees);
                if !agrees {
                    return Err(Anomaly::StatisticsDiffer);
                }
            }
            What::AllocationFailed { mesh, .. } | What::Clashed { mesh, .. } => {
                self.mesh_slot(mesh)?;
            }
            _other => return Err(Anomaly::Malformed),
        }
        self.happened(what);
        Ok(())
    }

    fn device_slot(&self, device: DeviceId) -> Result<u32, Anomaly> {
        self.process
            .device_ids
            .get(&device.0)
            .copied()
            .ok_or(Anomaly::Undefined)
    }

    /// The runtime closes no device under an open mesh: its meshes end with it.
    fn close_device(&mut self, device: DeviceId) -> Outcome {
        let slot = self.device_slot(device)?;
        let meshes = self.process.facts.meshes.len();
        for mesh in 0..u32::try_from(meshes).unwrap_or(u32::MAX) {
            if self.mesh(mesh).devices.contains(&slot) {
                self.close_mesh(mesh);
            }
        }
        let programs: Vec<u32> = self
            .process
            .programs
            .iter()
            .filter(|(_slot, program)| program.on_device(slot).is_some())
            .map(|(program, _row)| program)
            .collect();
        for program in programs {
            self.empty_program(program, |each| each == slot);
        }
        Ok(())
    }

    /// Buffers that are still held are leak candidates; programs are not: the
    /// runtime's cache keeps them until their device closes.
    fn close_mesh(&mut self, mesh: u32) {
        let held = self.release_allocators(mesh, None);
        let leaks = &mut self.process.facts.leak_candidates;
        leaks.buffers += held.buffers;
        leaks.buffer_bytes = leaks.buffer_bytes.saturating_add(held.buffer_bytes);
        self.drop_rings(mesh, 0);
        self.process.facts.prefetchers.remove(&mesh);
        self.drop_traces(mesh);
    }

    fn set_capacity(&mut self, mesh: MeshId, class: Class, capacity: Capacity) -> Outcome {
        let mesh = self.mesh_slot(mesh)?;
        let total = u64::from(capacity.banks).checked_mul(capacity.per_bank_bytes);
        if total.is_none_or(|total| total > MAX_HELD_BYTES) {
            return Err(Anomaly::AbsurdSize);
        }
        let allocator = &mut self.mesh_mut(mesh).allocators[class.index()];
        if capacity.total_bytes() < allocator.charged_bytes {
            return Err(Anomaly::CapacityConflict);
        }
        allocator.capacity = Some(capacity);
        let members = Arc::clone(&self.mesh(mesh).devices);
        for slot in members.iter() {
            let device = self.device_index(*slot);
            self.devices[device as usize].facts.capacities[class.index()] = Some(capacity);
        }
        Ok(())
    }
}
