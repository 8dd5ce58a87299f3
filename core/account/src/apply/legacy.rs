//! Old senders: no identities, no classes in frees, no cores.
//!
//! An address is all they have. Buffers are identified by device, class and
//! address; circular buffers at one address are a multiset; kernels are known by
//! whatever id the sender chose. What is given back is what was booked,
//! whatever the message claims.

use super::{Apply, Outcome};
use crate::account::ProgramKey;
use crate::anomaly::Anomaly;
use crate::buffers::{BufferKey, BufferRow};
use crate::device::CacheCounters;
use crate::legacy_cbs::LegacyCb;
use crate::limits::ABSURD_BYTES;
use crate::observer::{Holding, Observer};
use crate::program::{Cb, Kernel};
use crate::totals::GaugeKind;
use ttmem_event::{CbKind, Class, CoresId, EventKind, KernelId, KernelKind, ProgramId, TextId};

impl<O: Observer> Apply<'_, O> {
    /// Applies an old sender's report.
    ///
    /// What a fork gives back of its parent's passes: the parent's own account keeps it.
    pub(super) fn apply_legacy(&mut self, event: &EventKind) -> Outcome {
        let outcome = self
            .legacy_mesh(event)
            .and_then(|mesh| self.report_on(mesh, event));
        match (event, outcome) {
            (EventKind::LegacyFreed { id, .. }, Err(Anomaly::UnknownFree))
                if *id < self.account.first_own_buffer =>
            {
                self.account.facts.inherited_frees += 1;
                Ok(())
            }
            (_report, outcome) => outcome,
        }
    }

    /// Applies a report about the device behind `mesh`.
    fn report_on(&mut self, mesh: u32, event: &EventKind) -> Outcome {
        // Reports of one batch share their time of receipt; "the newest" needs an order.
        self.time = self.time.max(self.account.last_report.saturating_add(1));
        self.account.last_report = self.time;
        let slot = self.mesh(mesh).devices[0];
        match *event {
            EventKind::LegacyAllocated {
                class,
                size_bytes,
                id,
                ..
            } => self.legacy_allocate(mesh, class, size_bytes, id, event),
            EventKind::LegacyFreed { id, .. } => self.legacy_free(mesh, id, event),
            EventKind::LegacyCbAllocated { size_bytes, id, .. } => {
                self.legacy_allocate_cb(slot, size_bytes, id)
            }
            EventKind::LegacyCbFreed { size_bytes, id, .. } => {
                self.legacy_free_cb(slot, size_bytes, id)
            }
            EventKind::LegacyKernelLoaded {
                kind,
                size_bytes,
                id,
                ..
            } => self.legacy_load_kernel(slot, kind, size_bytes, id, event),
            EventKind::LegacyKernelUnloaded { id, .. } => self.legacy_unload_kernel(slot, id),
            _other => Err(Anomaly::Malformed),
        }
    }

    fn legacy_allocate(
        &mut self,
        mesh: u32,
        class: Class,
        size_bytes: u64,
        id: u64,
        event: &EventKind,
    ) -> Outcome {
        if size_bytes == 0 {
            return Err(Anomaly::ZeroSize);
        }
        let device = self.mesh(mesh).devices[0];
        // Not what runtimes report: their order among processes must not decide what is live.
        let known = self.observer.configured_capacity(device, class);
        if size_bytes > known.map_or(ABSURD_BYTES, |capacity| capacity.total_bytes()) {
            return Err(Anomaly::AbsurdSize);
        }
        let found = self.account.buffers.find(BufferKey::Address {
            mesh,
            class,
            address: id,
        });
        if let Some(slot) = found {
            let row = self
                .account
                .buffers
                .rows
                .get_mut(slot)
                .ok_or(Anomaly::LimitReached)?;
            if row.per_bank_bytes == size_bytes {
                row.references = row.references.saturating_add(1);
                self.observer.referenced(device, row, true, self.time);
                return Ok(());
            }
            self.release_row(slot);
            self.note(Anomaly::SizeChanged, event);
        }
        let row = BufferRow {
            requested_bytes: size_bytes,
            per_bank_bytes: size_bytes,
            time: self.time,
            order: self.account.order,
            ..BufferRow::new(mesh, class, id)
        };
        self.check_size(&row)?;
        self.book_row(row)
    }

    fn legacy_free(&mut self, mesh: u32, id: u64, event: &EventKind) -> Outcome {
        let mut newest: Option<(u64, u32)> = None;
        let mut count = 0;
        for class in Class::ALL {
            if self.mesh(mesh).allocators[class.index()].buffers == 0 {
                continue;
            }
            let key = BufferKey::Address {
                mesh,
                class: *class,
                address: id,
            };
            let Some(slot) = self.account.buffers.find(key) else {
                continue;
            };
            let row = self.account.buffers.rows.get(slot);
            count += 1;
            newest = newest.max(row.map(|row| (row.order, slot)));
        }
        let (_order, slot) = newest.ok_or(Anomaly::UnknownFree)?;
        if count > 1 {
            self.note(Anomaly::AmbiguousFree, event);
        }
        let row = self.account.buffers.rows.get_mut(slot);
        let row = row.ok_or(Anomaly::UnknownFree)?;
        if row.references > 1 {
            row.references -= 1;
            let device = self.account.facts.meshes[mesh as usize].devices[0];
            self.observer.referenced(device, row, false, self.time);
        } else {
            self.release_row(slot);
        }
        Ok(())
    }

    fn legacy_allocate_cb(&mut self, slot: u32, size_bytes: u64, id: u64) -> Outcome {
        if size_bytes > ABSURD_BYTES {
            return Err(Anomaly::AbsurdSize);
        }
        let cb = Cb {
            number: 0,
            kind: CbKind::Local,
            address: id,
            size_bytes,
            cores_id: CoresId::NONE,
            core_count: 1,
            time: self.time,
            order: self.account.order,
        };
        self.book_legacy_cb(LegacyCb { device: slot, cb })
    }

    pub(crate) fn book_legacy_cb(&mut self, entry: LegacyCb) -> Outcome {
        let (device, cb) = (entry.device, entry.cb);
        self.check_held(&[device], GaugeKind::Cb, cb.size_bytes)?;
        let cbs = &mut self.account.legacy_cbs;
        let has_room = self.account.placed < self.limits.placed;
        if !has_room || !cbs.has_room(device, cb.address) || !cbs.insert(entry) {
            return Err(Anomaly::LimitReached);
        }
        // Storage of an old sender belongs to no program: 0 stands for none.
        self.book_holding(device, &Holding::Cb(ProgramId(0), &cb));
        Ok(())
    }

    fn legacy_free_cb(&mut self, slot: u32, size_bytes: u64, id: u64) -> Outcome {
        let gone = self.account.legacy_cbs.remove(slot, id, size_bytes);
        let gone = gone.ok_or(Anomaly::UnknownFree)?;
        self.release_holding(slot, TextId::NONE, &Holding::Cb(ProgramId(0), &gone.cb));
        Ok(())
    }

    fn legacy_load_kernel(
        &mut self,
        slot: u32,
        kind: KernelKind,
        size_bytes: u64,
        id: u64,
        event: &EventKind,
    ) -> Outcome {
        if size_bytes > ABSURD_BYTES {
            return Err(Anomaly::AbsurdSize);
        }
        self.check_held(&[slot], GaugeKind::Kernel, size_bytes)?;
        let program = self.program_slot_or_add(ProgramKey::LegacyKernel(id), ProgramId(id))?;
        let time = self.time;
        let on = self.part_mut(program, slot)?;
        on.dispatches += 1;
        on.first_dispatch.get_or_insert(time);
        on.last_dispatch = Some(time);
        let loaded = on.kernels().first();
        let repeated = loaded.is_some_and(|kernel| kernel.total_bytes == size_bytes);
        let counted = CacheCounters {
            dispatches: 1,
            ..CacheCounters::default()
        };
        self.count(&[slot], &counted);
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
            order: self.account.order,
        };
        if self.put_entry(&[slot], program, entry)? {
            self.note(Anomaly::KernelChanged, event);
        }
        Ok(())
    }

    fn legacy_unload_kernel(&mut self, slot: u32, id: u64) -> Outcome {
        let key = ProgramKey::LegacyKernel(id);
        let program = self.account.program_index.get(&key).copied();
        let program = program.ok_or(Anomaly::UnknownUnload)?;
        let on = self.program_mut(program).on_device(slot);
        on.ok_or(Anomaly::UnknownUnload)?;
        self.empty_part(program, slot);
        if self.program_mut(program).on.is_empty() {
            self.account.programs.remove(program);
            self.account.program_index.remove(&key);
        }
        Ok(())
    }
}
