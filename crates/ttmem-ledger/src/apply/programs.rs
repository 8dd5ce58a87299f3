//! Programs: from construction to destruction, and every run in between.

use super::{Outcome, Scope};
use crate::anomaly::Anomaly;
use crate::process::{Captured, ProgramKey};
use crate::program::{Finalized, Program, ProgramOnDevice};
use crate::residency::Owner;
use std::sync::Arc;
use ttmem_event::{CacheResult, CoreType, MeshId, ProgramId, What};

impl Scope<'_> {
    pub(super) fn run_program(&mut self, what: &What) -> Outcome {
        match *what {
            What::ProgramCreated {
                program,
                name,
                runtime_id,
                pointer,
            } => {
                let slot = self.program_slot_or_add(ProgramKey::Tracked(program), program)?;
                let program = self.program_mut(slot);
                program.name = name;
                program.runtime_id = runtime_id;
                program.pointer = pointer;
            }
            What::ProgramFinalized {
                program,
                config_bytes,
                text_bytes,
                binary_bytes,
                ..
            } => {
                let time = self.time;
                let slot = self.program_slot_or_new(program, what)?;
                self.program_mut(slot).finalized = Some(Finalized {
                    time,
                    config_bytes,
                    text_bytes,
                    binary_bytes,
                });
            }
            What::CommandsCached {
                mesh,
                program,
                bytes,
            } => self.each_part(mesh, program, what, |on| on.command_bytes = Some(bytes))?,
            What::BinarySent {
                mesh,
                program,
                bytes,
            } => self.each_part(mesh, program, what, |on| on.sent_bytes = Some(bytes))?,
            What::BinaryStatusChanged {
                mesh,
                program,
                status,
            } => self.each_part(mesh, program, what, |on| on.binary_status = status)?,
            What::ProgramDestroyed { program } => self.destroy_program(program)?,
            What::Dispatched { .. } => self.dispatch(what)?,
            _other => return Err(Anomaly::Malformed),
        }
        self.happened(what);
        Ok(())
    }

    /// Changes what is known of a program on each device of a mesh.
    fn each_part(
        &mut self,
        mesh: MeshId,
        program: ProgramId,
        what: &What,
        change: impl Fn(&mut ProgramOnDevice),
    ) -> Outcome {
        let members = self.members(mesh)?;
        let program = self.program_slot_or_new(program, what)?;
        for slot in members.iter() {
            change(self.part_mut(program, *slot)?);
        }
        Ok(())
    }

    pub(super) fn program_slot(&self, program: ProgramId) -> Option<u32> {
        self.process
            .program_index
            .get(&ProgramKey::Tracked(program))
            .copied()
    }

    /// The slot of a program that should have been created before.
    pub(super) fn program_slot_or_new(
        &mut self,
        program: ProgramId,
        what: &What,
    ) -> Result<u32, Anomaly> {
        if let Some(slot) = self.program_slot(program) {
            return Ok(slot);
        }
        let slot = self.program_slot_or_add(ProgramKey::Tracked(program), program)?;
        self.note(Anomaly::ImplicitProgram, what);
        Ok(slot)
    }

    pub(super) fn program_slot_or_add(
        &mut self,
        key: ProgramKey,
        id: ProgramId,
    ) -> Result<u32, Anomaly> {
        if let Some(slot) = self.process.program_index.get(&key) {
            return Ok(*slot);
        }
        if self.process.programs.len() >= self.limits.programs_per_process {
            return Err(Anomaly::LimitReached);
        }
        let slot = self.process.programs.insert(Program::new(id, self.time));
        let slot = slot.ok_or(Anomaly::LimitReached)?;
        self.process.program_index.insert(key, slot);
        Ok(slot)
    }

    pub(super) fn program_mut(&mut self, slot: u32) -> &mut Program {
        self.process
            .programs
            .get_mut(slot)
            .expect("slots in hand are those of live programs")
    }

    fn destroy_program(&mut self, program: ProgramId) -> Outcome {
        let slot = self.program_slot(program).ok_or(Anomaly::UnknownProgram)?;
        self.empty_program(slot, |_every| true);
        self.process
            .program_index
            .remove(&ProgramKey::Tracked(program));
        self.process.programs.remove(slot);
        Ok(())
    }

    /// A program's part on a device, new if it has none.
    pub(super) fn part_mut(
        &mut self,
        program: u32,
        slot: u32,
    ) -> Result<&mut ProgramOnDevice, Anomaly> {
        if self.program_mut(program).on_device(slot).is_none() {
            if self.process.parts >= self.limits.parts_per_process {
                return Err(Anomaly::LimitReached);
            }
            self.process.parts += 1;
        }
        Ok(self.program_mut(program).on_device_or_new(slot))
    }

    /// Ends the parts of a program for which `gone` holds.
    pub(super) fn drop_parts(&mut self, program: u32, gone: impl Fn(&ProgramOnDevice) -> bool) {
        let parts = &mut self.program_mut(program).on;
        let before = parts.len();
        parts.retain(|on| !gone(on));
        let ended = before - parts.len();
        self.process.parts -= ended;
    }

    /// Gives back what a program has on some of the process's devices.
    pub(super) fn empty_program(&mut self, program: u32, affected: impl Fn(u32) -> bool) {
        let slots: Vec<u32> = self
            .program_mut(program)
            .on
            .iter()
            .map(|on| on.device)
            .filter(|device| affected(*device))
            .collect();
        let gone = Owner {
            process: self.index,
            program,
        };
        for slot in slots {
            for cb in self.take_cbs(program, slot, |_all| true) {
                self.give_back_cb(slot, program, &cb);
            }
            for kernel in self.take_kernels(program, slot, None) {
                self.give_back_kernel(slot, program, &kernel);
            }
            let device = self.device_index(slot);
            self.devices[device as usize]
                .residency
                .clear(|owner| owner == gone);
            self.drop_parts(program, |on| on.device == slot);
        }
    }

    fn dispatch(&mut self, what: &What) -> Outcome {
        let What::Dispatched {
            mesh,
            program: id,
            runtime_id,
            program_cache,
            binary_reused,
            ..
        } = *what
        else {
            return Err(Anomaly::Malformed);
        };
        let mesh = self.mesh_slot(mesh)?;
        let members = Arc::clone(&self.mesh(mesh).devices);
        let slot = self.program_slot_or_new(id, what)?;
        let (time, index) = (self.time, self.index);
        let captured_by = self.capture_of(mesh);
        for member in members.iter() {
            self.part_mut(slot, *member)?;
        }
        let program = self
            .process
            .programs
            .get_mut(slot)
            .ok_or(Anomaly::UnknownProgram)?;
        program.runtime_id = runtime_id;
        let hit = u64::from(program_cache == CacheResult::Hit);
        let miss = u64::from(program_cache == CacheResult::Miss);
        let reused = u64::from(binary_reused);
        for member in members.iter() {
            let Some(on) = program.on_device_mut(*member) else {
                continue;
            };
            // A reconnecting client says how far these had come: it may say anything.
            on.dispatches = on.dispatches.saturating_add(1);
            on.program_cache_hits = on.program_cache_hits.saturating_add(hit);
            on.program_cache_misses += miss;
            on.binary_reuses = on.binary_reuses.saturating_add(reused);
            on.first_dispatch.get_or_insert(time);
            on.last_dispatch = Some(time);
            let device = self.process.facts.devices[*member as usize].device;
            let device = &mut self.devices[device as usize];
            device.caches.dispatches += 1;
            device.caches.program_cache_hits += hit;
            device.caches.program_cache_misses += miss;
            device.caches.binary_reuses += reused;
            if captured_by.is_none() {
                let owner = Owner {
                    process: index,
                    program: slot,
                };
                for core_type in CoreType::ALL {
                    let cores = &on.placement.cover[core_type as usize];
                    if !cores.is_empty() {
                        device.residency.settle(core_type, cores, owner);
                    }
                }
            }
        }
        if let Some(trace) = captured_by {
            let run = Captured {
                program: id,
                slot,
                mesh,
            };
            self.capture(trace, run)?;
        }
        Ok(())
    }
}
