//! Old senders: no identities, no classes in frees, no cores.
//!
//! An address is all they have. Buffers are told apart by device, class and
//! address; circular buffers at one address are a multiset; kernels are known by
//! whatever id the sender chose. What is given back is what was booked,
//! whatever the message says.

use super::{ABSURD_BYTES, Outcome, Scope};
use crate::anomaly::Anomaly;
use crate::buffers::{BufferKey, BufferRow};
use crate::effect::Change;
use crate::process::ProgramKey;
use crate::program::{Cb, Kernel};
use std::sync::Arc;
use ttmem_event::{CbKind, Class, CoresId, KernelId, KernelKind, ProgramId, TextId, What};

/// Circular buffers that may share one address: more than a process has programs.
const MAX_AT_ONE_ADDRESS: usize = 65_536;

impl Scope<'_> {
    /// Applies an old sender's report about the device behind `mesh`.
    pub(crate) fn apply_legacy(&mut self, mesh: u32, what: &What) -> Outcome {
        // Reports of one batch share their time of receipt; "the newest" needs an order.
        self.time = self.time.max(self.process.last_report.saturating_add(1));
        self.process.last_report = self.time;
        let slot = self.mesh(mesh).devices[0];
        match *what {
            What::LegacyAllocated {
                class,
                size_bytes,
                id,
                ..
            } => self.legacy_allocate(mesh, class, size_bytes, id, what),
            What::LegacyFreed { id, .. } => self.legacy_free(mesh, id, what),
            What::LegacyCbAllocated { size_bytes, id, .. } => {
                self.legacy_allocate_cb(slot, size_bytes, id)
            }
            What::LegacyCbFreed { size_bytes, id, .. } => self.legacy_free_cb(slot, size_bytes, id),
            What::LegacyKernelLoaded {
                kind,
                size_bytes,
                id,
                ..
            } => self.legacy_load_kernel(slot, kind, size_bytes, id, what),
            What::LegacyKernelUnloaded { id, .. } => self.legacy_unload_kernel(slot, id),
            _other => Err(Anomaly::Malformed),
        }
    }

    fn legacy_allocate(
        &mut self,
        mesh: u32,
        class: Class,
        size_bytes: u64,
        id: u64,
        what: &What,
    ) -> Outcome {
        if size_bytes == 0 {
            return Err(Anomaly::ZeroSize);
        }
        let device = &self.devices[self.device_index(self.mesh(mesh).devices[0]) as usize];
        // Not what runtimes report: their order among processes must not decide what is live.
        let known = device.configured.and_then(|known| known[class.index()]);
        if size_bytes > known.map_or(ABSURD_BYTES, |capacity| capacity.total_bytes()) {
            return Err(Anomaly::AbsurdSize);
        }
        let found = self.process.buffers.find(BufferKey::Address {
            mesh,
            class,
            address: id,
        });
        if let Some(slot) = found {
            let row = self
                .process
                .buffers
                .rows
                .get_mut(slot)
                .ok_or(Anomaly::LimitReached)?;
            if row.per_bank_bytes == size_bytes {
                row.references = row.references.saturating_add(1);
                let row = *row;
                let device = self.device_index(self.mesh(mesh).devices[0]);
                self.tell_booked(device, &row);
                return Ok(());
            }
            self.release_row(slot);
            self.note(Anomaly::SizeChanged, what);
        }
        let row = BufferRow {
            requested_bytes: size_bytes,
            per_bank_bytes: size_bytes,
            time: self.time,
            ..BufferRow::new(mesh, class, id)
        };
        self.check_size(&row)?;
        self.book_row(row)
    }

    fn legacy_free(&mut self, mesh: u32, id: u64, what: &What) -> Outcome {
        let mut newest: Option<(u64, u32)> = None;
        let mut count = 0;
        for class in Class::ALL {
            let key = BufferKey::Address {
                mesh,
                class: *class,
                address: id,
            };
            let Some(slot) = self.process.buffers.find(key) else {
                continue;
            };
            let time = self
                .process
                .buffers
                .rows
                .get(slot)
                .map_or(0, |row| row.time);
            count += 1;
            newest = newest.max(Some((time, slot)));
        }
        let (_time, slot) = newest.ok_or(Anomaly::UnknownFree)?;
        if count > 1 {
            self.note(Anomaly::AmbiguousFree, what);
        }
        let row = self
            .process
            .buffers
            .rows
            .get_mut(slot)
            .ok_or(Anomaly::UnknownFree)?;
        if row.references > 1 {
            row.references -= 1;
            let row = *row;
            let device = self.device_index(self.mesh(mesh).devices[0]);
            self.effect(
                Some(device),
                Change::BufferReleased {
                    class: row.class,
                    id,
                    bytes: row.charged_bytes(),
                    references: row.references,
                },
            );
        } else {
            self.release_row(slot);
        }
        Ok(())
    }

    fn legacy_allocate_cb(&mut self, slot: u32, size_bytes: u64, id: u64) -> Outcome {
        if size_bytes > ABSURD_BYTES {
            return Err(Anomaly::AbsurdSize);
        }
        self.check_held(&[slot], |totals| totals.cb.registered.bytes(), size_bytes)?;
        // Entries of an old sender belong to no program: 0 stands for none.
        let program = self.program_slot_or_add(ProgramKey::LegacyCb(id), ProgramId(0))?;
        let time = self.time;
        let room = self.has_room_for(1);
        let on = self.part_mut(program, slot)?;
        if on.placement.cbs.len() >= MAX_AT_ONE_ADDRESS || !room {
            return Err(Anomaly::LimitReached);
        }
        let cb = Cb {
            number: 0,
            kind: CbKind::Local,
            address: id,
            size_bytes,
            cores_id: CoresId::NONE,
            core_count: 1,
            time,
        };
        Arc::make_mut(&mut on.placement).cbs.push(cb);
        self.book_cb(slot, program, &cb);
        Ok(())
    }

    fn legacy_free_cb(&mut self, slot: u32, size_bytes: u64, id: u64) -> Outcome {
        let key = ProgramKey::LegacyCb(id);
        let program = *self
            .process
            .program_index
            .get(&key)
            .ok_or(Anomaly::UnknownFree)?;
        let on = self
            .program_mut(program)
            .on_device_mut(slot)
            .ok_or(Anomaly::UnknownFree)?;
        let cbs = &on.placement.cbs;
        // The older clients send no size: there is nothing to look for then.
        let equal = (size_bytes > 0)
            .then(|| cbs.iter().rposition(|cb| cb.size_bytes == size_bytes))
            .flatten();
        let at = equal
            .or_else(|| cbs.len().checked_sub(1))
            .ok_or(Anomaly::UnknownFree)?;
        let cb = Arc::make_mut(&mut on.placement).cbs.remove(at);
        self.give_back_cb(slot, program, &cb);
        self.drop_if_empty(key, program, slot);
        Ok(())
    }

    fn legacy_load_kernel(
        &mut self,
        slot: u32,
        kind: KernelKind,
        size_bytes: u64,
        id: u64,
        what: &What,
    ) -> Outcome {
        if size_bytes > ABSURD_BYTES {
            return Err(Anomaly::AbsurdSize);
        }
        self.check_held(
            &[slot],
            |totals| totals.kernel.registered.bytes(),
            size_bytes,
        )?;
        let program = self.program_slot_or_add(ProgramKey::LegacyKernel(id), ProgramId(id))?;
        let time = self.time;
        let on = self.part_mut(program, slot)?;
        on.dispatches += 1;
        on.first_dispatch.get_or_insert(time);
        on.last_dispatch = Some(time);
        let repeated = on
            .placement
            .kernels
            .first()
            .is_some_and(|kernel| kernel.total_bytes == size_bytes);
        let device = self.device_index(slot);
        self.devices[device as usize].caches.dispatches += 1;
        if repeated {
            return Ok(());
        }
        let entry = Kernel {
            id: KernelId(id),
            name: TextId::NONE,
            kind,
            core_type: None,
            binary_bytes: None,
            core_count: None,
            cores_id: CoresId::NONE,
            total_bytes: size_bytes,
            time,
        };
        if self.put_kernel(slot, program, entry)? {
            self.note(Anomaly::KernelChanged, what);
        }
        Ok(())
    }

    fn legacy_unload_kernel(&mut self, slot: u32, id: u64) -> Outcome {
        let key = ProgramKey::LegacyKernel(id);
        let program = *self
            .process
            .program_index
            .get(&key)
            .ok_or(Anomaly::UnknownUnload)?;
        let gone = self.take_kernels(program, slot, None);
        if gone.is_empty() {
            return Err(Anomaly::UnknownUnload);
        }
        for kernel in gone {
            self.give_back_kernel(slot, program, &kernel);
        }
        self.drop_if_empty(key, program, slot);
        Ok(())
    }

    /// Forgets an entry that holds nothing on a device, and itself when on none.
    fn drop_if_empty(&mut self, key: ProgramKey, program: u32, slot: u32) {
        self.drop_parts(program, |on| {
            on.device == slot && on.placement.cbs.is_empty() && on.placement.kernels.is_empty()
        });
        if self.program_mut(program).on.is_empty() {
            self.process.programs.remove(program);
            self.process.program_index.remove(&key);
        }
    }
}
