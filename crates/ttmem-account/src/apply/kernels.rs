//! Kernels of programs: bytes on each core, times cores.

use super::{Apply, Outcome};
use crate::account::Loads;
use crate::anomaly::Anomaly;
use crate::limits::{ABSURD_BYTES, MAX_HELD_BYTES};
use crate::observer::{Holding, Observer};
use crate::program::{Kernel, Placement};
use crate::totals::Totals;
use std::collections::BTreeMap;
use ttmem_event::{CoresId, EventKind, KernelId, MeshId, ProgramId};

/// Far more kernels than a program has groups of cores.
const MAX_PER_PROGRAM: usize = 1024;

impl<O: Observer> Apply<'_, O> {
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
        let registered = |totals: &Totals| totals.kernel.registered.bytes();
        self.check_held(&members, registered, entry.total_bytes)?;
        let program = self.program_slot_or_new(program, event)?;
        if self.put_kernel(&members, program, entry)? {
            self.note(Anomaly::KernelChanged, event);
        }
        Ok(())
    }

    /// Puts a kernel on devices; true if it replaced one with other figures.
    pub(super) fn put_kernel(
        &mut self,
        members: &[u32],
        program: u32,
        entry: Kernel,
    ) -> Result<bool, Anomaly> {
        let most = self.most_placed(members.len(), MAX_PER_PROGRAM);
        let mut outcome = Ok(false);
        let put = self.change_parts(program, members, |placed: &mut Placement| {
            match placed.kernel(entry.id) {
                Some(known) if same_figures(known, &entry) => Ok(None),
                _other => placed.put_kernel(entry, most).map(Some),
            }
        })?;
        let (id, _name) = self.program_id_and_name(program);
        for (slot, put) in members.iter().zip(put) {
            let old = match put {
                Ok(None) => continue,
                Ok(Some(old)) => old,
                Err(refused) => {
                    outcome = Err(refused);
                    continue;
                }
            };
            if let Some(old) = old {
                outcome = outcome.map(|_changed| true);
                self.give_back_kernel(*slot, program, &old);
            }
            self.change_unique(*slot, &entry, true);
            self.book_holding(*slot, &Holding::Kernel(id, &entry));
        }
        outcome
    }

    pub(super) fn unload_kernel(
        &mut self,
        mesh: MeshId,
        program: ProgramId,
        kernel: Option<KernelId>,
    ) -> Outcome {
        let members = self.members(mesh)?;
        let program = self.program_slot(program).ok_or(Anomaly::UnknownUnload)?;
        let mut found = kernel.is_none();
        let taken =
            self.change_known_parts(program, &members, |placed| placed.take_kernels(kernel));
        for (slot, kernels) in taken {
            for gone in kernels {
                found = true;
                self.give_back_kernel(slot, program, &gone);
            }
        }
        if found {
            Ok(())
        } else {
            Err(Anomaly::UnknownUnload)
        }
    }

    /// How many entries a program may have on a device: none more where the process is full.
    pub(crate) fn most_placed(&self, devices: usize, most: usize) -> usize {
        if self.account.placed + devices <= self.limits.placed {
            most
        } else {
            0
        }
    }

    pub(super) fn give_back_kernel(&mut self, slot: u32, program: u32, kernel: &Kernel) {
        self.change_unique(slot, kernel, false);
        let (id, name) = self.program_id_and_name(program);
        self.release_holding(slot, name, &Holding::Kernel(id, kernel));
    }

    /// Keeps the bytes of distinct binaries: each counts with its largest load.
    pub(crate) fn change_unique(&mut self, slot: u32, kernel: &Kernel, loaded: bool) {
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
    pub(crate) fn check_held(
        &self,
        members: &[u32],
        figure: impl Fn(&Totals) -> u64,
        more: u64,
    ) -> Outcome {
        let devices = &self.account.facts.devices;
        let full = members.iter().any(|slot| {
            figure(&devices[*slot as usize].totals).saturating_add(more) > MAX_HELD_BYTES
        });
        if full {
            Err(Anomaly::BeyondCapacity)
        } else {
            Ok(())
        }
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

fn same_figures(one: &Kernel, other: &Kernel) -> bool {
    let figures = |kernel: &Kernel| {
        (
            kernel.kind,
            kernel.core_type,
            kernel.binary_bytes,
            kernel.cores_id,
            kernel.total_bytes,
        )
    };
    figures(one) == figures(other)
}
