//! Buffers: booked on every device of their mesh, given back as booked.

use super::{ABSURD_BYTES, MAX_HELD_BYTES, Outcome, Scope};
use crate::anomaly::Anomaly;
use crate::buffers::{BufferKey, BufferRow};
use crate::effect::Change;
use crate::process::Released;
use crate::totals::BufferShare;
use std::sync::Arc;
use ttmem_event::{BufferId, Class, CoresId, MeshId, TextId, What};

/// A new L1 peak is announced when it is this much above the last announced one.
const PEAK_STEP_BYTES: u64 = 1 << 20;

impl Scope<'_> {
    pub(super) fn allocate_buffer(&mut self, what: &What) -> Outcome {
        let What::BufferAllocated {
            mesh,
            buffer,
            class,
            layout,
            direction,
            address,
            requested_bytes,
            per_bank_bytes,
            page_bytes,
            cores,
            operation,
            banks,
        } = *what
        else {
            return Err(Anomaly::Malformed);
        };
        let mesh = self.mesh_slot(mesh)?;
        let capacity = self.mesh(mesh).allocators[class.index()].capacity;
        let banks = if cores == CoresId::NONE {
            // Lockstep: every bank gives up the bytes, also those without data.
            capacity.map_or(Some(banks), |capacity| u16::try_from(capacity.banks).ok())
        } else {
            let cores = self
                .process
                .facts
                .definitions
                .cores(cores)
                .ok_or(Anomaly::Undefined)?;
            u16::try_from(cores.len()).ok()
        };
        let row = BufferRow {
            address,
            requested_bytes,
            per_bank_bytes,
            time: self.time,
            operation,
            page_bytes,
            cores_id: cores,
            banks: banks.ok_or(Anomaly::AbsurdSize)?,
            layout,
            direction,
            ..BufferRow::new(mesh, class, buffer.0)
        };
        if let Some(slot) = self.process.buffers.find(BufferKey::Id(buffer.0)) {
            if self.is_repeated(slot, &row) {
                return Ok(());
            }
            let old = self.release_row(slot);
            let moved = old.is_some_and(|old| old.class != class);
            self.note(
                if moved {
                    Anomaly::ClassChanged
                } else {
                    Anomaly::SizeChanged
                },
                what,
            );
        }
        self.check_size(&row)?;
        let end = address.saturating_add(per_bank_bytes);
        if capacity.is_some_and(|capacity| {
            address < capacity.base || end > capacity.base.saturating_add(capacity.per_bank_bytes)
        }) {
            self.note(Anomaly::OutsideBank, what);
        }
        self.book_row(row)
    }

    pub(super) fn free_buffer(&mut self, buffer: BufferId) -> Outcome {
        let Some(slot) = self.process.buffers.find(BufferKey::Id(buffer.0)) else {
            if buffer.0 < self.process.first_own_buffer {
                // The parent's: its own ledger entry keeps it until the parent frees it.
                self.process.facts.inherited_frees += 1;
                return Ok(());
            }
            return Err(Anomaly::UnknownFree);
        };
        self.release_row(slot);
        Ok(())
    }

    /// Keeps the call stack of a live buffer; of anything else it is history only.
    pub(super) fn note_stack(&mut self, buffer: BufferId, stack: TextId) {
        let buffers = &mut self.process.buffers;
        if let Some(slot) = buffers.find(BufferKey::Id(buffer.0))
            && let Some(row) = buffers.rows.get_mut(slot)
        {
            row.stack = stack;
        }
    }

    pub(super) fn release_buffers(&mut self, mesh: MeshId, class: Option<Class>) -> Outcome {
        let mesh = self.mesh_slot(mesh)?;
        self.release_allocators(mesh, class);
        Ok(())
    }

    /// Gives back all that the allocators of a mesh hold, and says how much that was.
    pub(super) fn release_allocators(&mut self, mesh: u32, class: Option<Class>) -> Released {
        let mut released = Released::default();
        for each in Class::ALL {
            if class.is_some_and(|class| class != *each) {
                continue;
            }
            while let Some(slot) = self.mesh(mesh).allocators[each.index()].list.first() {
                let Some(row) = self.release_row(slot) else {
                    break;
                };
                let devices = self.mesh(mesh).devices.len() as u64;
                released.buffers += 1;
                released.buffer_bytes += row.charged_bytes() * devices;
            }
        }
        released
    }

    /// Whether a live row says the same as a new one, times aside.
    fn is_repeated(&self, slot: u32, new: &BufferRow) -> bool {
        self.process.buffers.rows.get(slot).is_some_and(|old| {
            let place = |row: &BufferRow| (row.mesh, row.class, row.address, row.cores_id);
            let size = |row: &BufferRow| (row.requested_bytes, row.per_bank_bytes, row.banks);
            place(old) == place(new) && size(old) == size(new)
        })
    }

    /// Refuses a buffer that cannot be.
    pub(super) fn check_size(&self, row: &BufferRow) -> Outcome {
        if row.per_bank_bytes == 0 || row.banks == 0 {
            return Err(Anomaly::ZeroSize);
        }
        let charged = row.per_bank_bytes.checked_mul(u64::from(row.banks));
        let charged = charged.ok_or(Anomaly::AbsurdSize)?;
        let mesh = self.mesh(row.mesh);
        let allocator = &mesh.allocators[row.class.index()];
        let most = allocator
            .capacity
            .map_or(ABSURD_BYTES, |capacity| capacity.total_bytes());
        if charged > most || row.requested_bytes > most.max(ABSURD_BYTES) {
            return Err(Anomaly::AbsurdSize);
        }
        let full = allocator
            .capacity
            .is_some_and(|_known| allocator.charged_bytes + charged > most);
        let held = mesh.devices.iter().any(|slot| {
            let totals = &self.process.facts.devices[*slot as usize].totals;
            let class = totals.class(row.class);
            class.charged.bytes() + charged > MAX_HELD_BYTES
                || class.requested_bytes + row.requested_bytes > MAX_HELD_BYTES
        });
        if full || held {
            return Err(Anomaly::BeyondCapacity);
        }
        if self.process.buffers.rows.len() >= self.limits.buffers_per_process {
            return Err(Anomaly::LimitReached);
        }
        Ok(())
    }

    /// Books a checked row on every device of its mesh.
    pub(super) fn book_row(&mut self, row: BufferRow) -> Outcome {
        let allocator =
            &mut self.process.facts.meshes[row.mesh as usize].allocators[row.class.index()];
        if self
            .process
            .buffers
            .insert(&mut allocator.list, row)
            .is_none()
        {
            return Err(Anomaly::LimitReached);
        }
        allocator.charged_bytes += row.charged_bytes();
        if row.cores_id == CoresId::NONE {
            allocator.per_bank_bytes += row.per_bank_bytes;
        }
        allocator.buffers += 1;
        let share = self.share(&row);
        let members = Arc::clone(&self.mesh(row.mesh).devices);
        for slot in members.iter() {
            let held = &mut self.process.facts.devices[*slot as usize];
            held.totals.book_buffer(&share, self.time);
            let index = held.device;
            let device = &mut self.devices[index as usize];
            device.totals.book_buffer(&share, self.time);
            if self.effects.is_some() {
                self.tell_booked(index, &row);
            }
        }
        Ok(())
    }

    /// Tells of a booked buffer, and of a new L1 peak if it is one.
    pub(super) fn tell_booked(&mut self, index: u32, row: &BufferRow) {
        self.effect(
            Some(index),
            Change::BufferBooked {
                class: row.class,
                id: row.id,
                bytes: row.charged_bytes(),
                references: row.references,
            },
        );
        let device = &mut self.devices[index as usize];
        let l1 = device.totals.class(Class::L1);
        let (bytes, buffers) = (l1.charged.bytes(), l1.buffers);
        if row.class == Class::L1 && bytes >= device.announced_l1_peak + PEAK_STEP_BYTES {
            device.announced_l1_peak = bytes;
            self.effect(Some(index), Change::L1Peak { bytes, buffers });
        }
    }

    /// Gives back a live row on every device of its mesh.
    pub(super) fn release_row(&mut self, slot: u32) -> Option<BufferRow> {
        let (mesh, class) = {
            let row = self.process.buffers.rows.get(slot)?;
            (row.mesh, row.class)
        };
        let allocator = &mut self.process.facts.meshes[mesh as usize].allocators[class.index()];
        let row = self.process.buffers.remove(&mut allocator.list, slot)?;
        allocator.charged_bytes -= row.charged_bytes();
        if row.cores_id == CoresId::NONE {
            allocator.per_bank_bytes -= row.per_bank_bytes;
        }
        allocator.buffers -= 1;
        let share = self.share(&row);
        let members = Arc::clone(&self.mesh(mesh).devices);
        for slot in members.iter() {
            let held = &mut self.process.facts.devices[*slot as usize];
            held.totals.release_buffer(&share);
            let index = held.device;
            self.devices[index as usize].totals.release_buffer(&share);
            self.effect(
                Some(index),
                Change::BufferReleased {
                    class,
                    id: row.id,
                    bytes: row.charged_bytes(),
                    references: 0,
                },
            );
        }
        Some(row)
    }

    fn share(&self, row: &BufferRow) -> BufferShare {
        BufferShare {
            class: row.class,
            charged_bytes: row.charged_bytes(),
            requested_bytes: row.requested_bytes,
            placed: self.mesh(row.mesh).id.is_some(),
        }
    }
}
