//! Buffers: booked on every device of their mesh, given back as booked.

use super::{Apply, AtPeaks, Outcome, at_peaks, note_device_peak};
use crate::account::Released;
use crate::anomaly::Anomaly;
use crate::buffers::{BufferKey, BufferRow};
use crate::limits::{ABSURD_BYTES, MAX_HELD_BYTES};
use crate::observer::{Charge, Observer};
use crate::peak_composition::PeakEntry;
use crate::totals::GaugeKind;
use ttmem_event::{BufferId, Class, CoresId, EventKind, MeshId, TextId};

impl<O: Observer> Apply<'_, O> {
    pub(super) fn allocate_buffer(&mut self, event: &EventKind) -> Outcome {
        let EventKind::BufferAllocated {
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
        } = *event
        else {
            return Err(Anomaly::Malformed);
        };
        let mesh = self.mesh_slot(mesh)?;
        self.account.highest_buffer = self.account.highest_buffer.max(buffer.0);
        let capacity = self.mesh(mesh).allocators[class.index()].capacity;
        let banks = if cores == CoresId::NONE {
            // Lockstep: every bank gives up the bytes, also those without data.
            capacity.map_or(Some(banks), |capacity| u16::try_from(capacity.banks).ok())
        } else {
            let cores = self
                .account
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
            order: self.account.order,
            operation,
            page_bytes,
            cores_id: cores,
            banks: banks.ok_or(Anomaly::AbsurdSize)?,
            layout,
            direction,
            ..BufferRow::new(mesh, class, buffer.0)
        };
        if let Some(slot) = self.account.buffers.find(BufferKey::Id(buffer.0)) {
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
                event,
            );
        }
        self.check_size(&row)?;
        let end = address.saturating_add(per_bank_bytes);
        if capacity.is_some_and(|capacity| {
            address < capacity.base || end > capacity.base.saturating_add(capacity.per_bank_bytes)
        }) {
            self.note(Anomaly::OutsideBank, event);
        }
        self.book_row(row)
    }

    pub(super) fn free_buffer(&mut self, buffer: BufferId) -> Outcome {
        let found = self
            .account
            .buffers
            .find_and_forget(BufferKey::Id(buffer.0));
        let Some(slot) = found else {
            if buffer.0 < self.account.first_own_buffer {
                // The parent's: its own ledger entry keeps it until the parent frees it.
                self.account.facts.inherited_frees += 1;
                return Ok(());
            }
            return Err(Anomaly::UnknownFree);
        };
        self.release_forgotten(slot);
        Ok(())
    }

    /// Keeps the call stack of a live buffer; of anything else it is history only.
    pub(super) fn note_stack(&mut self, buffer: BufferId, stack: TextId) {
        let buffers = &mut self.account.buffers;
        if let Some(slot) = buffers.find(BufferKey::Id(buffer.0))
            && let Some(row) = buffers.rows.get_mut(slot)
        {
            row.stack = stack;
        }
    }

    pub(super) fn release_buffers(&mut self, mesh: MeshId, class: Option<Class>) -> Outcome {
        let mesh = self.mesh_slot(mesh)?;
        self.release_allocators(mesh, class, false);
        Ok(())
    }

    /// Gives back all that the allocators of a mesh hold, and returns how much that was.
    pub(super) fn release_allocators(
        &mut self,
        mesh: u32,
        class: Option<Class>,
        is_closing: bool,
    ) -> Released {
        let mut released = Released::default();
        let devices = self.mesh(mesh).devices.len() as u64;
        for each in Class::ALL {
            if class.is_some_and(|class| class != *each) {
                continue;
            }
            while let Some(slot) = self.mesh(mesh).allocators[each.index()].list.first()
                && !self.account.pauses()
            {
                let Some(row) = self.release_row(slot) else {
                    break;
                };
                released.buffers += 1;
                released.buffer_bytes += row.charged_bytes() * devices;
                if is_closing {
                    self.observer.left_behind(&row, devices);
                }
            }
        }
        released
    }

    /// Whether a live row equals a new one, times aside.
    fn is_repeated(&self, slot: u32, new: &BufferRow) -> bool {
        self.account.buffers.rows.get(slot).is_some_and(|old| {
            let place = |row: &BufferRow| (row.mesh, row.class, row.address, row.cores_id);
            let size = |row: &BufferRow| (row.requested_bytes, row.per_bank_bytes, row.banks);
            place(old) == place(new) && size(old) == size(new)
        })
    }

    /// Refuses a buffer that cannot be.
    pub(crate) fn check_size(&self, row: &BufferRow) -> Outcome {
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
        let all = self.account.buffer_bytes + u128::from(charged) + u128::from(row.requested_bytes);
        let may_be_held = all > u128::from(MAX_HELD_BYTES);
        let held = may_be_held
            && mesh.devices.iter().any(|slot| {
                let totals = &self.account.facts.devices[*slot as usize].totals;
                let class = totals.class(row.class);
                class.charged.bytes() + charged > MAX_HELD_BYTES
                    || class.requested_bytes + row.requested_bytes > MAX_HELD_BYTES
            });
        if full || held {
            return Err(Anomaly::BeyondCapacity);
        }
        if self.account.buffers.rows.len() >= self.limits.buffers {
            return Err(Anomaly::LimitReached);
        }
        Ok(())
    }

    /// Books a checked row on every device of its mesh.
    pub(crate) fn book_row(&mut self, row: BufferRow) -> Outcome {
        self.use_mesh(row.mesh);
        let account = &mut *self.account;
        let mesh = &mut account.facts.meshes[row.mesh as usize];
        let allocator = &mut mesh.allocators[row.class.index()];
        let slot = account.buffers.insert(&mut allocator.list, row);
        slot.ok_or(Anomaly::LimitReached)?;
        allocator.charged_bytes += row.charged_bytes();
        if row.cores_id == CoresId::NONE {
            allocator.per_bank_bytes += row.per_bank_bytes;
        }
        allocator.buffers += 1;
        let charge = Charge::of(&row, mesh.id.is_some());
        let (gauge, order, time) = (GaugeKind::Class(row.class), row.order, self.time);
        account.buffer_bytes += u128::from(charge.bytes) + u128::from(charge.requested_bytes);
        account.work += mesh.devices.len() as u64;
        for slot in mesh.devices.iter() {
            let held = &mut account.facts.devices[*slot as usize];
            let device_peaks = self.observer.buffer_booked(*slot, charge, &row, time);
            note_device_peak(held, device_peaks, order, gauge);
            held.totals.book_buffer(charge, time, order);
        }
        Ok(())
    }

    /// Gives back a live row on every device of its mesh.
    pub(super) fn release_row(&mut self, slot: u32) -> Option<BufferRow> {
        self.account.buffers.forget(slot);
        self.release_forgotten(slot)
    }

    /// Gives back a row that the index no longer has.
    fn release_forgotten(&mut self, slot: u32) -> Option<BufferRow> {
        let account = &mut *self.account;
        let row = account.buffers.rows.get(slot)?;
        let mesh = &mut account.facts.meshes[row.mesh as usize];
        let allocator = &mut mesh.allocators[row.class.index()];
        let row = account.buffers.remove(&mut allocator.list, slot)?;
        allocator.charged_bytes -= row.charged_bytes();
        if row.cores_id == CoresId::NONE {
            allocator.per_bank_bytes -= row.per_bank_bytes;
        }
        allocator.buffers -= 1;
        let charge = Charge::of(&row, mesh.id.is_some());
        let (gauge, order, time) = (GaugeKind::Class(row.class), account.order, self.time);
        account.buffer_bytes -= u128::from(charge.bytes) + u128::from(charge.requested_bytes);
        account.work += mesh.devices.len() as u64;
        let mut all = AtPeaks {
            first: u64::MAX,
            last: 0,
        };
        for slot in mesh.devices.iter() {
            let held = &mut account.facts.devices[*slot as usize];
            let device_peaks = self.observer.buffer_released(*slot, charge, &row, time);
            note_device_peak(held, device_peaks, order, gauge);
            held.totals.release_buffer(charge);
            let peaks = at_peaks(held, gauge);
            all.first = all.first.min(peaks.first);
            all.last = all.last.max(peaks.last);
        }
        account.freed.trim(&mut allocator.freed, all.first);
        if row.order <= all.last {
            let placed = if row.order <= all.first {
                Some(all.first)
            } else {
                let held = mesh.devices.iter();
                let held = held.map(|slot| &account.facts.devices[*slot as usize]);
                held.filter_map(|held| at_peaks(held, gauge).first_since(row.order))
                    .min()
            };
            let freed = PeakEntry {
                placed: placed.unwrap_or(all.last),
                freed: order,
                ..PeakEntry::of_buffer(&row)
            };
            account.freed.push(&mut allocator.freed, freed, all.last);
        }
        Some(row)
    }
}
