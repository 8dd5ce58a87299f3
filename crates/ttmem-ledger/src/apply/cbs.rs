//! Per-core storage of programs: circular buffers, dataflow buffers, scratchpads.
//!
//! The runtime places the storage of a program anew after a change and reports
//! it again without taking the old back; a second report of the same storage
//! therefore replaces the first, and is no contradiction.

use super::{ABSURD_BYTES, Outcome, Scope};
use crate::anomaly::Anomaly;
use crate::effect::Change;
use crate::program::{Cb, Placement};
use std::sync::Arc;
use ttmem_event::{CoreType, CoresId, MeshId, ProgramId, What};

/// The runtime has 64 indices at most; several entries may share one.
const MAX_PER_PROGRAM: usize = 1024;

impl Scope<'_> {
    pub(super) fn allocate_cb(&mut self, what: &What) -> Outcome {
        let What::CbAllocated {
            mesh,
            program,
            cb,
            kind,
            address,
            size_bytes,
            cores,
        } = *what
        else {
            return Err(Anomaly::Malformed);
        };
        let members = self.members(mesh)?;
        let set = *self
            .process
            .facts
            .definitions
            .cores(cores)
            .ok_or(Anomaly::Undefined)?;
        let entry = Cb {
            number: cb,
            kind,
            address,
            size_bytes,
            cores_id: cores,
            core_count: set.len(),
            time: self.time,
        };
        if size_bytes == 0 || set.is_empty() {
            return Err(Anomaly::ZeroSize);
        }
        if size_bytes > ABSURD_BYTES / 1024 {
            return Err(Anomaly::AbsurdSize);
        }
        self.check_held(
            &members,
            |totals| totals.cb.registered.bytes(),
            entry.total_bytes(),
        )?;
        let program = self.program_slot_or_new(program, what)?;
        for slot in members.iter() {
            let device = self.device_index(*slot);
            let grid = self.devices[device as usize].facts.compute;
            if grid.is_some_and(|grid| !set.is_subset(&grid.cores)) {
                self.note(Anomaly::OutsideGrid, what);
            }
            let room = self.has_room_for(1);
            let on = self.part_mut(program, *slot)?;
            let place = on.placement.cbs.binary_search_by_key(&cb, |cb| cb.number);
            let full = on.placement.cbs.len() >= MAX_PER_PROGRAM || !room;
            let placement = Arc::make_mut(&mut on.placement);
            let old = match place {
                Ok(at) => Some(std::mem::replace(&mut placement.cbs[at], entry)),
                Err(_at) if full => return Err(Anomaly::LimitReached),
                Err(at) => {
                    placement.cbs.insert(at, entry);
                    None
                }
            };
            placement.cover[CoreType::Tensix as usize].insert_all(&set);
            if let Some(old) = old {
                self.give_back_cb(*slot, program, &old);
                self.recover(program, *slot);
            }
            self.book_cb(*slot, program, &entry);
        }
        Ok(())
    }

    pub(super) fn free_cb(
        &mut self,
        mesh: MeshId,
        program: ProgramId,
        number: Option<u32>,
    ) -> Outcome {
        let members = self.members(mesh)?;
        let Some(program) = self.program_slot(program) else {
            // The runtime takes back the storage of programs that never reported any.
            return if number.is_none() {
                Ok(())
            } else {
                Err(Anomaly::UnknownFree)
            };
        };
        let mut found = number.is_none();
        for slot in members.iter() {
            for cb in self.take_cbs(program, *slot, |cb| number.is_none_or(|n| n == cb.number)) {
                found = true;
                self.give_back_cb(*slot, program, &cb);
            }
            self.recover(program, *slot);
        }
        if found {
            Ok(())
        } else {
            Err(Anomaly::UnknownFree)
        }
    }

    /// Takes entries out of a program on one device.
    pub(super) fn take_cbs(
        &mut self,
        program: u32,
        slot: u32,
        taken: impl Fn(&Cb) -> bool,
    ) -> Vec<Cb> {
        let Some(on) = self.program_mut(program).on_device_mut(slot) else {
            return Vec::new();
        };
        if !on.placement.cbs.iter().any(&taken) {
            return Vec::new();
        }
        Arc::make_mut(&mut on.placement)
            .cbs
            .extract_if(.., |cb| taken(cb))
            .collect()
    }

    pub(super) fn book_cb(&mut self, slot: u32, program: u32, cb: &Cb) {
        self.process.placed += 1;
        let program = self.program_mut(program).id.0;
        let held = &mut self.process.facts.devices[slot as usize];
        held.totals.book_cb(cb, self.time);
        let index = held.device;
        let device = &mut self.devices[index as usize];
        device.totals.book_cb(cb, self.time);
        let total_bytes = device.totals.cb.registered.bytes();
        self.effect(
            Some(index),
            Change::CbBooked {
                program,
                bytes: cb.total_bytes(),
                total_bytes,
            },
        );
    }

    pub(super) fn give_back_cb(&mut self, slot: u32, program: u32, cb: &Cb) {
        self.process.placed -= 1;
        let program = self.program_mut(program).id.0;
        let held = &mut self.process.facts.devices[slot as usize];
        held.totals.release_cb(cb);
        let index = held.device;
        let device = &mut self.devices[index as usize];
        device.totals.release_cb(cb);
        let total_bytes = device.totals.cb.registered.bytes();
        self.effect(
            Some(index),
            Change::CbReleased {
                program,
                bytes: cb.total_bytes(),
                total_bytes,
            },
        );
    }

    /// Adds the cores of a new entry to those a program covers on a device.
    pub(super) fn cover(
        &mut self,
        program: u32,
        slot: u32,
        core_type: Option<CoreType>,
        cores: CoresId,
    ) {
        let definitions = Arc::clone(&self.process.facts.definitions);
        let (Some(core_type), Some(cores)) = (core_type, definitions.cores(cores)) else {
            return;
        };
        if let Some(on) = self.program_mut(program).on_device_mut(slot) {
            Arc::make_mut(&mut on.placement).cover[core_type as usize].insert_all(cores);
        }
    }

    /// Computes anew which cores a program covers on a device.
    pub(super) fn recover(&mut self, program: u32, slot: u32) {
        let definitions = Arc::clone(&self.process.facts.definitions);
        let Some(on) = self.program_mut(program).on_device_mut(slot) else {
            return;
        };
        let mut cover = Placement::default().cover;
        for cb in &on.placement.cbs {
            if let Some(cores) = definitions.cores(cb.cores_id) {
                cover[CoreType::Tensix as usize].insert_all(cores);
            }
        }
        for kernel in &on.placement.kernels {
            let cores = definitions.cores(kernel.cores_id);
            if let (Some(core_type), Some(cores)) = (kernel.core_type, cores) {
                cover[core_type as usize].insert_all(cores);
            }
        }
        if on.placement.cover != cover {
            Arc::make_mut(&mut on.placement).cover = cover;
        }
    }
}
