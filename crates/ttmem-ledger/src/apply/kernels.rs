//! Kernels of programs: bytes on each core, times cores.

use super::{ABSURD_BYTES, MAX_HELD_BYTES, Outcome, Scope};
use crate::anomaly::Anomaly;
use crate::effect::Change;
use crate::program::Kernel;
use crate::totals::Totals;
use std::sync::Arc;
use ttmem_event::{CoresId, KernelId, MeshId, ProgramId, What};

/// Far more kernels than a program has groups of cores.
const MAX_PER_PROGRAM: usize = 1024;

impl Scope<'_> {
    pub(super) fn load_kernel(&mut self, what: &What) -> Outcome {
        let What::KernelLoaded {
            mesh,
            program,
            kernel,
            name,
            binary_bytes,
            cores,
            core_count,
            kind,
            core_type,
        } = *what
        else {
            return Err(Anomaly::Malformed);
        };
        let members = self.members(mesh)?;
        let definitions = &self.process.facts.definitions;
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
        };
        self.check_held(
            &members,
            |totals| totals.kernel.registered.bytes(),
            entry.total_bytes,
        )?;
        let program = self.program_slot_or_new(program, what)?;
        let mut changed = false;
        for slot in members.iter() {
            changed |= self.put_kernel(*slot, program, entry)?;
        }
        if changed {
            self.note(Anomaly::KernelChanged, what);
        }
        Ok(())
    }

    /// Puts a kernel on one device; true if it replaced one with other figures.
    pub(super) fn put_kernel(
        &mut self,
        slot: u32,
        program: u32,
        entry: Kernel,
    ) -> Result<bool, Anomaly> {
        let room = self.has_room_for(1);
        let on = self.part_mut(program, slot)?;
        let kernels = &on.placement.kernels;
        let old = match kernels.binary_search_by_key(&entry.id, |kernel| kernel.id) {
            Ok(at) if same_figures(&kernels[at], &entry) => return Ok(false),
            Ok(at) => {
                let placement = Arc::make_mut(&mut on.placement);
                Some(std::mem::replace(&mut placement.kernels[at], entry))
            }
            Err(_at) if kernels.len() >= MAX_PER_PROGRAM || !room => {
                return Err(Anomaly::LimitReached);
            }
            Err(at) => {
                Arc::make_mut(&mut on.placement).kernels.insert(at, entry);
                None
            }
        };
        if let Some(old) = &old {
            self.give_back_kernel(slot, program, old);
        }
        self.book_kernel(slot, program, &entry);
        if old.is_some() {
            self.recover(program, slot);
        } else {
            self.cover(program, slot, entry.core_type, entry.cores_id);
        }
        Ok(old.is_some())
    }

    pub(super) fn unload_kernel(
        &mut self,
        mesh: MeshId,
        program: ProgramId,
        kernel: Option<KernelId>,
    ) -> Outcome {
        let members = self.members(mesh)?;
        let Some(program) = self.program_slot(program) else {
            return Err(Anomaly::UnknownUnload);
        };
        let mut found = kernel.is_none();
        for slot in members.iter() {
            for gone in self.take_kernels(program, *slot, kernel) {
                found = true;
                self.give_back_kernel(*slot, program, &gone);
            }
            self.recover(program, *slot);
        }
        if found {
            Ok(())
        } else {
            Err(Anomaly::UnknownUnload)
        }
    }

    /// Takes one kernel, or all, out of a program on one device.
    pub(super) fn take_kernels(
        &mut self,
        program: u32,
        slot: u32,
        kernel: Option<KernelId>,
    ) -> Vec<Kernel> {
        let Some(on) = self.program_mut(program).on_device_mut(slot) else {
            return Vec::new();
        };
        let gone = |entry: &Kernel| kernel.is_none_or(|kernel| kernel == entry.id);
        if !on.placement.kernels.iter().any(gone) {
            return Vec::new();
        }
        Arc::make_mut(&mut on.placement)
            .kernels
            .extract_if(.., |entry| gone(entry))
            .collect()
    }

    /// Whether the process may place so many entries more.
    pub(super) fn has_room_for(&self, entries: usize) -> bool {
        self.process.placed + entries <= self.limits.placed_per_process
    }

    fn book_kernel(&mut self, slot: u32, program: u32, kernel: &Kernel) {
        self.process.placed += 1;
        self.change_unique(slot, kernel, |count| *count += 1);
        let program = self.program_mut(program).id.0;
        let held = &mut self.process.facts.devices[slot as usize];
        held.totals.book_kernel(kernel, self.time);
        let index = held.device;
        let device = &mut self.devices[index as usize];
        device.totals.book_kernel(kernel, self.time);
        let total_bytes = device.totals.kernel.registered.bytes();
        self.effect(
            Some(index),
            Change::KernelBooked {
                program,
                kind: kernel.kind,
                core_type: kernel.core_type,
                binary_bytes: kernel.binary_bytes,
                cores: kernel.core_count,
                bytes: kernel.total_bytes,
                total_bytes,
            },
        );
    }

    pub(super) fn give_back_kernel(&mut self, slot: u32, program: u32, kernel: &Kernel) {
        self.process.placed -= 1;
        self.change_unique(slot, kernel, |count| *count -= 1);
        let program = self.program_mut(program).id.0;
        let held = &mut self.process.facts.devices[slot as usize];
        held.totals.release_kernel(kernel);
        let index = held.device;
        let device = &mut self.devices[index as usize];
        device.totals.release_kernel(kernel);
        let total_bytes = device.totals.kernel.registered.bytes();
        self.effect(
            Some(index),
            Change::KernelReleased {
                program,
                kind: kernel.kind,
                bytes: kernel.total_bytes,
                total_bytes,
            },
        );
    }

    /// Keeps the bytes of distinct binaries: each counts with its largest load.
    fn change_unique(&mut self, slot: u32, kernel: &Kernel, change: impl FnOnce(&mut u32)) {
        let binaries = &mut self.process.kernels[slot as usize];
        let loads = binaries.entry(kernel.id).or_default();
        let largest = |loads: &std::collections::BTreeMap<u64, u32>| {
            loads.last_key_value().map_or(0, |(total, _count)| *total)
        };
        let before = largest(loads);
        let count = loads.entry(kernel.total_bytes).or_insert(0);
        change(count);
        if *count == 0 {
            loads.remove(&kernel.total_bytes);
        }
        let after = largest(loads);
        if loads.is_empty() {
            binaries.remove(&kernel.id);
        }
        let held = &mut self.process.facts.devices[slot as usize];
        held.totals.change_unique(before, after);
        self.devices[held.device as usize]
            .totals
            .change_unique(before, after);
    }

    /// Refuses what would make a figure of the process on any device overflow.
    pub(super) fn check_held(
        &self,
        members: &[u32],
        figure: impl Fn(&Totals) -> u64,
        more: u64,
    ) -> Outcome {
        let devices = &self.process.facts.devices;
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
