//! What programs have on devices: per-core storage and kernels.
//!
//! Storage is circular buffers, dataflow buffers and scratchpads. The runtime places that
//! of a program anew after a change and reports it again without taking the old back; a
//! second report of the same storage therefore replaces the first, and is no contradiction.
//! A kernel is its bytes on each core, times cores.

use super::{Apply, Outcome};
use crate::account::Loads;
use crate::anomaly::Anomaly;
use crate::limits::{ABSURD_BYTES, MAX_HELD_BYTES};
use crate::observer::Observer;
use crate::program::{Cb, Entry, Kernel, Put};
use crate::totals::GaugeKind;
use std::collections::BTreeMap;
use ttmem_event::{CoresId, EventKind, KernelId, MeshId, ProgramId};

/// Most storage entries, and most kernels, of a program on one device.
///
/// The runtime has 64 indices for storage, of which several entries may share one.
pub(crate) const MAX_PER_PROGRAM: usize = 1024;

impl<O: Observer> Apply<'_, O> {
    pub(super) fn allocate_cb(&mut self, event: &EventKind) -> Outcome {
        let EventKind::CbAllocated {
            mesh,
            program,
            cb,
            kind,
            address,
            size_bytes,
            cores,
        } = *event
        else {
            return Err(Anomaly::Malformed);
        };
        let members = self.members(mesh)?;
        let set = self.account.facts.definitions.cores(cores);
        let set = *set.ok_or(Anomaly::Undefined)?;
        let entry = Cb {
            number: cb,
            kind,
            address,
            size_bytes,
            cores_id: cores,
            core_count: set.len(),
            time: self.time,
            order: self.account.order,
        };
        if size_bytes == 0 || set.is_empty() {
            return Err(Anomaly::ZeroSize);
        }
        if size_bytes > ABSURD_BYTES / 1024 {
            return Err(Anomaly::AbsurdSize);
        }
        self.check_held(&members, GaugeKind::Cb, entry.total_bytes())?;
        let program = self.program_slot_or_new(program, event)?;
        for slot in members.iter() {
            let grid = self.account.facts.devices[*slot as usize].compute;
            if grid.is_some_and(|grid| !set.is_subset(&grid.cores)) {
                self.note(Anomaly::OutsideGrid, event);
            }
        }
        self.put_entry(&members, program, entry).map(drop)
    }

    pub(super) fn free_cb(
        &mut self,
        mesh: MeshId,
        program: ProgramId,
        number: Option<u32>,
    ) -> Outcome {
        let members = self.members(mesh)?;
        // The runtime takes back the storage of programs that never reported any.
        let found = self.program_slot(program).map_or(number.is_none(), |slot| {
            self.take_entries::<Cb>(&members, slot, number)
        });
        found.then_some(()).ok_or(Anomaly::UnknownFree)
    }

    pub(super) fn load_kernel(&mut self, event: &EventKind) -> Outcome {
        let EventKind::KernelLoaded {
            mesh,
            program,
            kernel,
            name,
            binary_bytes,
            cores,
            core_count,
            kind,
            core_type,
        } = *event
        else {
            return Err(Anomaly::Malformed);
        };
        let members = self.members(mesh)?;
        let definitions = &self.account.facts.definitions;
        let core_count = if cores == CoresId::NONE {
            core_count
        } else {
            definitions.cores(cores).ok_or(Anomaly::Undefined)?.len()
        };
        let total_bytes = binary_bytes.checked_mul(u64::from(core_count));
        let total_bytes = total_bytes.filter(|total| *total <= ABSURD_BYTES);
        let entry = Kernel {
            id: kernel,
            name,
            kind,
            core_type: Some(core_type),
            binary_bytes: Some(binary_bytes),
            core_count: Some(core_count),
            cores_id: cores,
            total_bytes: total_bytes.ok_or(Anomaly::AbsurdSize)?,
            time: self.time,
            order: self.account.order,
        };
        self.check_held(&members, GaugeKind::Kernel, entry.total_bytes)?;
        let program = self.program_slot_or_new(program, event)?;
        if self.put_entry(&members, program, entry)? {
            self.note(Anomaly::KernelChanged, event);
        }
        Ok(())
    }

    pub(super) fn unload_kernel(
        &mut self,
        mesh: MeshId,
        program: ProgramId,
        kernel: Option<KernelId>,
    ) -> Outcome {
        let members = self.members(mesh)?;
        let program = self.program_slot(program).ok_or(Anomaly::UnknownUnload)?;
        let found = self.take_entries::<Kernel>(&members, program, kernel);
        found.then_some(()).ok_or(Anomaly::UnknownUnload)
    }

    /// Puts an entry on devices; true if it replaced another one.
    pub(super) fn put_entry<E: Entry>(
        &mut self,
        members: &[u32],
        program: u32,
        entry: E,
    ) -> Result<bool, Anomaly> {
        let has_room = self.account.placed + members.len() <= self.limits.placed;
        let most = if has_room { MAX_PER_PROGRAM } else { 0 };
        self.make_parts(program, members)?;
        let put = self.change_parts(program, members, |placed| placed.put(entry, most));
        let (id, _name) = self.program_id_and_name(program);
        let mut outcome = Ok(false);
        for (slot, put) in put {
            match put {
                Ok(Put::Repeated) => continue,
                Ok(Put::Added) => {}
                Ok(Put::Replaced(old)) => {
                    outcome = outcome.map(|_replaced| true);
                    self.give_back(slot, program, &old);
                }
                Err(refused) => {
                    outcome = Err(refused);
                    continue;
                }
            }
            self.book_holding(slot, &entry.holding(id));
        }
        outcome
    }

    /// Takes back the entry of a key, or all; false if there is none of that key.
    fn take_entries<E: Entry>(
        &mut self,
        members: &[u32],
        program: u32,
        key: Option<E::Key>,
    ) -> bool {
        let mut found = key.is_none();
        let taken = self.change_parts(program, members, |placed| placed.take::<E>(key));
        for (slot, entries) in taken {
            for entry in entries {
                found = true;
                self.give_back(slot, program, &entry);
            }
        }
        found
    }

    pub(super) fn give_back<E: Entry>(&mut self, slot: u32, program: u32, entry: &E) {
        let (id, name) = self.program_id_and_name(program);
        self.release_holding(slot, name, &entry.holding(id));
    }

    /// Keeps the bytes of distinct binaries: each counts with its largest load.
    pub(super) fn change_unique(&mut self, slot: u32, kernel: &Kernel, loaded: bool) {
        let binaries = &mut self.account.on_device[slot as usize].kernels;
        let loads = binaries.entry(kernel.id).or_default();
        let before = loads.largest.0;
        loads.change(kernel.total_bytes, loaded);
        let after = loads.largest.0;
        if loads.largest.1 == 0 {
            binaries.remove(&kernel.id);
        }
        if before != after {
            let held = &mut self.account.facts.devices[slot as usize];
            held.totals.change_unique(before, after);
            self.observer.unique_kernels_changed(slot, before, after);
        }
    }

    /// Refuses what would make a figure of the process on any device overflow.
    pub(crate) fn check_held(&self, members: &[u32], gauge: GaugeKind, more: u64) -> Outcome {
        let devices = &self.account.facts.devices;
        let held = |slot: &u32| devices[*slot as usize].totals.gauge(gauge).bytes();
        let fits = |slot: &u32| held(slot).saturating_add(more) <= MAX_HELD_BYTES;
        let fit = members.iter().all(fits);
        fit.then_some(()).ok_or(Anomaly::BeyondCapacity)
    }
}

impl Loads {
    /// One load more, or less, of so many bytes.
    fn change(&mut self, bytes: u64, loaded: bool) {
        if self.largest.1 > 0 && bytes == self.largest.0 {
            self.largest.1 = if loaded {
                self.largest.1 + 1
            } else {
                self.largest.1 - 1
            };
        } else if loaded && self.largest.1 == 0 {
            // Not by way of the others: an empty tree that had something keeps its node.
            self.largest = (bytes, 1);
        } else if loaded {
            *self.others.entry(bytes).or_insert(0) += 1;
        } else if let Some(count) = self.others.get_mut(&bytes) {
            *count -= 1;
            if *count == 0 {
                self.others.remove(&bytes);
            }
        }
        // The largest is the one that counts: it stands apart, for mostly there is no other.
        let other = self
            .others
            .last_key_value()
            .map(|(bytes, count)| (*bytes, *count));
        if let Some(other) = other.filter(|other| self.largest.1 == 0 || other.0 > self.largest.0) {
            self.others.remove(&other.0);
            if self.others.is_empty() {
                self.others = BTreeMap::new();
            }
            if self.largest.1 > 0 {
                self.others.insert(self.largest.0, self.largest.1);
            }
            self.largest = other;
        } else if self.largest.1 == 0 {
            self.largest.0 = 0;
        }
    }
}
