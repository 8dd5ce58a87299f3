//! Programs: from construction to destruction, and every run in between.

use super::{Apply, Outcome};
use crate::account::ProgramKey;
use crate::anomaly::Anomaly;
use crate::device::CacheCounters;
use crate::observer::Observer;
use crate::program::{Cb, Cover, Finalized, Kernel, Placement, Program, ProgramOnDevice};
use std::sync::Arc;
use ttmem_event::{CacheResult, EventKind, MeshId, ProgramId, TextId};

impl<O: Observer> Apply<'_, O> {
    pub(super) fn run_program(&mut self, event: &EventKind) -> Outcome {
        match *event {
            EventKind::ProgramCreated {
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
            EventKind::ProgramFinalized {
                program,
                config_bytes,
                text_bytes,
                binary_bytes,
                ..
            } => {
                let time = self.time;
                let slot = self.program_slot_or_new(program, event)?;
                self.program_mut(slot).finalized = Some(Finalized {
                    time,
                    config_bytes,
                    text_bytes,
                    binary_bytes,
                });
            }
            EventKind::CommandsCached {
                mesh,
                program,
                bytes,
            } => self.each_part(mesh, program, event, |on| on.command_bytes = Some(bytes))?,
            EventKind::BinarySent {
                mesh,
                program,
                bytes,
            } => self.each_part(mesh, program, event, |on| on.sent_bytes = Some(bytes))?,
            EventKind::BinaryStatusChanged {
                mesh,
                program,
                status,
            } => self.each_part(mesh, program, event, |on| on.binary_status = status)?,
            EventKind::ProgramDestroyed { program } => self.destroy_program(program)?,
            EventKind::Dispatched { .. } => self.dispatch(event)?,
            _other => return Err(Anomaly::Malformed),
        }
        self.happened(event)
    }

    /// Changes what is known of a program on each device of a mesh.
    fn each_part(
        &mut self,
        mesh: MeshId,
        program: ProgramId,
        event: &EventKind,
        change: impl Fn(&mut ProgramOnDevice),
    ) -> Outcome {
        let members = self.members(mesh)?;
        let program = self.program_slot_or_new(program, event)?;
        self.account.work += members.len() as u64;
        for slot in members.iter() {
            change(self.part_mut(program, *slot)?);
        }
        Ok(())
    }

    pub(super) fn program_slot(&self, program: ProgramId) -> Option<u32> {
        self.account
            .program_index
            .get(&ProgramKey::Tracked(program))
            .copied()
    }

    /// The slot of a program that should have been created before.
    pub(super) fn program_slot_or_new(
        &mut self,
        program: ProgramId,
        event: &EventKind,
    ) -> Result<u32, Anomaly> {
        if let Some(slot) = self.program_slot(program) {
            return Ok(slot);
        }
        let slot = self.program_slot_or_add(ProgramKey::Tracked(program), program)?;
        self.note(Anomaly::ImplicitProgram, event);
        Ok(slot)
    }

    pub(crate) fn program_slot_or_add(
        &mut self,
        key: ProgramKey,
        id: ProgramId,
    ) -> Result<u32, Anomaly> {
        if let Some(slot) = self.account.program_index.get(&key) {
            return Ok(*slot);
        }
        if self.account.programs.len() >= self.limits.programs {
            return Err(Anomaly::LimitReached);
        }
        let slot = self.account.programs.insert(Program {
            id,
            created: self.time,
            ..Program::default()
        });
        let slot = slot.ok_or(Anomaly::LimitReached)?;
        self.account.program_index.insert(key, slot);
        Ok(slot)
    }

    pub(super) fn program_mut(&mut self, slot: u32) -> &mut Program {
        self.account
            .programs
            .get_mut(slot)
            .expect("slots in hand are those of live programs")
    }

    /// The id and the name of the program in a slot; 0 stands for none.
    pub(super) fn program_id_and_name(&self, slot: u32) -> (ProgramId, TextId) {
        let program = self.account.programs.get(slot);
        program.map_or((ProgramId(0), TextId::NONE), |known| (known.id, known.name))
    }

    /// A program's part on a device, new if it has none.
    pub(crate) fn part_mut(
        &mut self,
        program: u32,
        slot: u32,
    ) -> Result<&mut ProgramOnDevice, Anomaly> {
        if self.program_mut(program).on_device(slot).is_none() {
            if self.account.parts >= self.limits.parts {
                return Err(Anomaly::LimitReached);
            }
            self.account.parts += 1;
            self.account.on_device[slot as usize]
                .programs
                .insert(program);
        }
        Ok(self.program_mut(program).on_device_or_new(slot))
    }

    /// Gives a program a part on each of the devices where it has none.
    pub(super) fn make_parts(&mut self, program: u32, slots: &[u32]) -> Outcome {
        let known = self.program_mut(program);
        let is_known = |(near, slot): (usize, &u32)| known.on_device_near(near, *slot).is_some();
        if slots.iter().enumerate().all(is_known) {
            return Ok(());
        }
        for slot in slots {
            self.part_mut(program, *slot)?;
        }
        Ok(())
    }

    /// Ends a program's part on a device.
    pub(super) fn drop_part(&mut self, program: u32, slot: u32) {
        let parts = &mut self.program_mut(program).on;
        if let Ok(place) = parts.binary_search_by_key(&slot, |on| on.device) {
            parts.remove(place);
            self.account.parts -= 1;
            self.account.on_device[slot as usize]
                .programs
                .remove(&program);
        }
    }

    /// Changes what a program has on those of the devices that it has a part on.
    ///
    /// Returns the result for each. Devices that share a placement go on sharing it.
    pub(super) fn change_parts<R: Clone>(
        &mut self,
        program: u32,
        slots: &[u32],
        change: impl Fn(&mut Placement) -> R,
    ) -> Vec<(u32, R)> {
        self.account.work += slots.len() as u64;
        let program = self.program_mut(program);
        let mut changed: Vec<(u32, R)> = Vec::with_capacity(slots.len());
        let mut first = 0;
        while let Some(slot) = slots.get(first) {
            let Some(on) = program.on_device_near(first, *slot) else {
                first += 1;
                continue;
            };
            let mut shared = on.placement.take();
            // Their references go first, so that what only they share is not copied.
            let mut behind = first + 1;
            while let Some(next) = slots.get(behind)
                && let Some(on) = program.on_device_near(behind, *next)
                && is_same(&on.placement, &shared)
            {
                on.placement = None;
                behind += 1;
            }
            let placement = Arc::make_mut(shared.get_or_insert_default());
            let came = change(placement);
            let is_empty = placement.cbs().is_empty() && placement.kernels().is_empty();
            let shared = shared.filter(|_placement| !is_empty);
            for (near, slot) in (first..).zip(&slots[first..behind]) {
                if let Some(on) = program.on_device_near(near, *slot) {
                    on.placement.clone_from(&shared);
                }
                changed.push((*slot, came.clone()));
            }
            first = behind;
        }
        changed
    }

    /// Gives back what a program has on one of the process's devices, and leaves its cores.
    pub(super) fn empty_part(&mut self, program: u32, slot: u32) {
        let taken = self.change_parts(program, &[slot], |placed| {
            (placed.take::<Cb>(None), placed.take::<Kernel>(None))
        });
        for (slot, (cbs, kernels)) in taken {
            for cb in &cbs {
                self.give_back(slot, program, cb);
            }
            for kernel in &kernels {
                self.give_back(slot, program, kernel);
            }
        }
        let on = self.program_mut(program).on_device(slot);
        let ran = on.and_then(|on| Some((on.ran.clone()?, on.run, on.last_dispatch)));
        if let Some((ran, run, time)) = ran {
            self.leave_cores(slot, &ran, run, time.unwrap_or(0));
        }
        self.drop_part(program, slot);
    }

    /// The program that ran on these cores then is gone: they are empty.
    pub(super) fn leave_cores(&mut self, slot: u32, cover: &Cover, run: u64, time: u64) {
        let facts = &mut self.account.facts;
        let mut last = None;
        for (core_type, _id) in cover.sets() {
            // The sets of one type stand together.
            if last.replace(*core_type) == Some(*core_type) {
                continue;
            }
            let cores = cover.cores(&facts.definitions, *core_type);
            // A core costs less than a row: its place is known.
            let sets = cover.sets().len() as u64;
            self.account.work += 1 + (u64::from(cores.len()) + sets) / 8;
            let vacated = facts.devices[slot as usize].vacated.get_or_insert_default();
            Arc::make_mut(vacated).leave(*core_type, &cores, run, time);
        }
    }

    fn destroy_program(&mut self, program: ProgramId) -> Outcome {
        let slot = self.program_slot(program).ok_or(Anomaly::UnknownProgram)?;
        while let Some(device) = self.program_mut(slot).on.last().map(|on| on.device) {
            if self.account.pauses() {
                return Ok(());
            }
            self.empty_part(slot, device);
        }
        let key = ProgramKey::Tracked(program);
        self.account.program_index.remove(&key);
        self.account.programs.remove(slot);
        Ok(())
    }

    fn dispatch(&mut self, event: &EventKind) -> Outcome {
        let EventKind::Dispatched {
            mesh,
            program: id,
            runtime_id,
            program_cache,
            binary_reused,
            ..
        } = *event
        else {
            return Err(Anomaly::Malformed);
        };
        let mesh = self.mesh_slot(mesh)?;
        let slot = self.program_slot_or_new(id, event)?;
        let time = self.time;
        let captured_by = self.capture_of(mesh);
        let members = Arc::clone(&self.mesh(mesh).devices);
        self.make_parts(slot, &members)?;
        let account = &mut *self.account;
        account.runs += 1;
        account.work += members.len() as u64;
        let program = account.programs.get_mut(slot);
        let program = program.ok_or(Anomaly::UnknownProgram)?;
        program.runtime_id = runtime_id;
        let counted = CacheCounters {
            dispatches: 1,
            program_cache_hits: u64::from(program_cache == CacheResult::Hit),
            program_cache_misses: u64::from(program_cache == CacheResult::Miss),
            binary_reuses: u64::from(binary_reused),
            ..CacheCounters::default()
        };
        let mut left: Vec<(u32, Arc<Cover>, u64, u64)> = Vec::new();
        for (near, member) in members.iter().enumerate() {
            let Some(on) = program.on_device_near(near, *member) else {
                continue;
            };
            on.dispatches += 1;
            on.program_cache_hits += counted.program_cache_hits;
            on.program_cache_misses += counted.program_cache_misses;
            on.binary_reuses += counted.binary_reuses;
            on.first_dispatch.get_or_insert(time);
            let last = on.last_dispatch.replace(time).unwrap_or(0);
            if captured_by.is_none()
                && let Some(placed) = &on.placement
            {
                let cover = placed.cover();
                let ran_as = on.ran.as_ref().filter(|ran| !ran.is_within(cover));
                // Nothing is on cores that it ran on before and not now.
                left.extend(ran_as.map(|ran| (*member, Arc::clone(ran), on.run, last)));
                if on.ran.as_ref().is_none_or(|ran| !Arc::ptr_eq(ran, cover)) {
                    on.ran = Some(Arc::clone(cover));
                }
                on.run = account.runs;
            }
            let caches = &mut account.facts.devices[*member as usize].caches;
            caches.dispatches += 1;
            caches.program_cache_hits += counted.program_cache_hits;
            caches.program_cache_misses += counted.program_cache_misses;
            caches.binary_reuses += counted.binary_reuses;
            self.observer.counted(*member, &counted);
        }
        for (slot, cover, run, time) in left {
            self.leave_cores(slot, &cover, run, time);
        }
        match captured_by {
            Some(capturing) => self.capture(capturing, id, slot, mesh),
            None => Ok(()),
        }
    }
}

/// Whether two devices share what a program has on them.
fn is_same(one: &Option<Arc<Placement>>, other: &Option<Arc<Placement>>) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        _different => false,
    }
}
