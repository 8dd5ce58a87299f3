//! Buffers: one backing allocation per mesh, at the same address on every chip of it.

use super::{Buffer, Mesh, Runtime, RuntimeError};
use crate::allocator::{AllocateError, Placement};
use crate::buffer::BufferSpec;
use ttmem_event::{Class, CoreSet, CoresId, EventKind};

#[derive(Debug)]
pub(super) struct BufferState {
    pub(super) mesh: Mesh,
    class: Class,
    placement: Placement,
    /// The sub-device whose own allocator it is from.
    sub_device: Option<usize>,
}

impl Runtime {
    /// Allocates a buffer on every device of a mesh.
    ///
    /// # Errors
    /// When the mesh is not open or its allocator has no room: then the failure is tracked.
    pub fn allocate(
        &mut self,
        mesh: Mesh,
        spec: &BufferSpec,
        operation: &str,
    ) -> Result<Buffer, RuntimeError> {
        let placed = self.mesh_state_mut(mesh)?.allocator.allocate(spec);
        self.book(mesh, spec, operation, placed, None)
    }

    /// Allocates a sharded L1 buffer in the memory that a sub-device keeps for itself.
    ///
    /// # Errors
    /// As [`allocate`](Self::allocate), and when the sub-device has no memory of its own.
    pub fn allocate_local(
        &mut self,
        mesh: Mesh,
        sub_device: usize,
        spec: &BufferSpec,
        operation: &str,
    ) -> Result<Buffer, RuntimeError> {
        let state = self.mesh_state_mut(mesh)?;
        let local = state.sub_devices.get_mut(sub_device);
        let local = local.ok_or(RuntimeError::Refused("there is no such sub-device"))?;
        let cores = local.cores();
        let placed = local.allocate(spec)?;
        self.book(mesh, spec, operation, placed, Some((sub_device, cores)))
    }

    fn book(
        &mut self,
        mesh: Mesh,
        spec: &BufferSpec,
        operation: &str,
        placed: Result<Placement, AllocateError>,
        local: Option<(usize, CoreSet)>,
    ) -> Result<Buffer, RuntimeError> {
        let id = self.mesh_state(mesh)?.id;
        let operation = self.operation(operation);
        let placement = match placed {
            Ok(placement) => placement,
            Err(error) => {
                if let AllocateError::OutOfMemory {
                    requested,
                    class,
                    banks,
                    per_bank,
                    bank_size,
                    free,
                    largest_free,
                    ..
                } = error
                {
                    self.track(EventKind::AllocationFailed {
                        mesh: id,
                        class,
                        banks: u16::try_from(banks).unwrap_or(u16::MAX),
                        requested_bytes: requested,
                        per_bank_bytes: per_bank,
                        free_bytes: free,
                        largest_free_bytes: largest_free,
                        bank_bytes: bank_size,
                        operation,
                        call_first: 0,
                    });
                }
                return Err(error.into());
            }
        };
        let buffer = Buffer(self.hooks.next_buffer());
        let cores = match &local {
            Some((_sub_device, cores)) => self.hooks.cores(cores),
            None => CoresId::NONE,
        };
        self.counts.allocations += 1;
        self.buffers.insert(
            buffer,
            BufferState {
                mesh,
                class: spec.class,
                placement,
                sub_device: local.map(|(sub_device, _cores)| sub_device),
            },
        );
        self.track(EventKind::BufferAllocated {
            mesh: id,
            buffer: buffer.0,
            class: spec.class,
            layout: spec.layout,
            direction: spec.direction,
            address: placement.address,
            requested_bytes: spec.size,
            per_bank_bytes: placement.per_bank,
            page_bytes: u32::try_from(spec.page).unwrap_or(u32::MAX),
            cores,
            operation,
            banks: u16::try_from(placement.banks).unwrap_or(u16::MAX),
        });
        Ok(buffer)
    }

    /// Gives a buffer back.
    ///
    /// # Errors
    /// When it is not live.
    pub fn free(&mut self, buffer: Buffer) -> Result<(), RuntimeError> {
        let live = self.buffers.remove(&buffer);
        let live = live.ok_or(RuntimeError::BufferFreed)?;
        let state = self.mesh_state(live.mesh)?;
        let mesh = state.id;
        // The runtime reports a free before the block is given back.
        self.track(EventKind::BufferFreed {
            mesh,
            buffer: buffer.0,
        });
        let state = self.mesh_state_mut(live.mesh)?;
        let address = live.placement.address;
        match live.sub_device {
            Some(sub_device) => {
                if let Some(local) = state.sub_devices.get_mut(sub_device) {
                    local.free(address);
                }
            }
            None => {
                state.allocator.free(live.class, address);
            }
        }
        Ok(())
    }

    /// Where a live buffer lies in every bank.
    #[must_use]
    pub fn address(&self, buffer: Buffer) -> Option<u64> {
        self.buffers.get(&buffer).map(|live| live.placement.address)
    }

    /// What a live buffer takes of every bank.
    #[must_use]
    pub fn per_bank(&self, buffer: Buffer) -> Option<u64> {
        self.buffers
            .get(&buffer)
            .map(|live| live.placement.per_bank)
    }

    /// How many buffers of a mesh are live.
    #[must_use]
    pub fn live_buffers(&self, mesh: Mesh) -> usize {
        let live = self.buffers.values().filter(|live| live.mesh == mesh);
        live.count()
    }
}
