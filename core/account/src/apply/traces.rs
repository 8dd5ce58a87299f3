//! Traces: captured, run again, given up.
//!
//! A run that is captured is not a run yet: it leaves nothing on its cores until
//! its trace is replayed. A trace captures what is dispatched on its mesh and on
//! any part of it, because the programs of a collective differ from chip to chip
//! and are dispatched on each alone.

use super::{Apply, Outcome};
use crate::Map;
use crate::account::{Account, Capturing};
use crate::anomaly::Anomaly;
use crate::device::CacheCounters;
use crate::observer::Observer;
use crate::program::Cover;
use crate::residency::{Captured, MAX_CAPTURED, Replay, Trace, TraceKey};
use std::sync::Arc;
use ttmem_event::{EventKind, MeshId, ProgramId, TraceId};

impl<O: Observer> Apply<'_, O> {
    pub(super) fn trace(&mut self, event: &EventKind) -> Outcome {
        match *event {
            EventKind::TraceBegan { mesh, trace } => self.begin_trace(mesh, trace)?,
            EventKind::TraceEnded { mesh, trace, .. } => self.end_trace(mesh, trace)?,
            EventKind::TraceReplayed { mesh, trace } => self.replay_trace(mesh, trace)?,
            EventKind::TraceReleased { mesh, trace } => self.release_trace(mesh, trace)?,
            _other => return Err(Anomaly::Malformed),
        }
        self.happened(event)
    }

    /// The mesh whose trace captures what is dispatched on a mesh: the mesh itself, else the one
    /// of the lowest id among those with all its devices.
    pub(super) fn capture_of(&self, mesh: u32) -> Option<MeshId> {
        let capturing = &self.account.capturing;
        // Nearly every dispatch ends here.
        if capturing.is_empty() {
            return None;
        }
        let dispatched = self.mesh(mesh);
        let own = dispatched.id.filter(|id| capturing.contains_key(id));
        let whole = |capturing: &Capturing| {
            let members = &self.mesh(capturing.trace.0).members;
            dispatched.members.is_within(members)
        };
        own.or_else(|| {
            let mut others = capturing.iter();
            others.find(|(_id, each)| whole(each)).map(|(id, _)| *id)
        })
    }

    /// Captures a run of a program; of several of one program on one mesh, the last.
    pub(super) fn capture(
        &mut self,
        capturing: MeshId,
        program: ProgramId,
        slot: u32,
        mesh: u32,
    ) -> Outcome {
        let account = &mut *self.account;
        // Finding out whose run it is may have looked at all of them.
        let others = account.capturing.len();
        let capturing = account.capturing.get_mut(&capturing);
        let capturing = capturing.ok_or(Anomaly::UnknownTrace)?;
        let trace = account.facts.traces.get_mut(&capturing.trace);
        let trace = trace.ok_or(Anomaly::UnknownTrace)?;
        if trace.captured.len() >= MAX_CAPTURED && !capturing.last.contains_key(&(program, mesh)) {
            return Err(Anomaly::LimitReached);
        }
        account.work += (account.facts.meshes[mesh as usize].devices.len() + others) as u64;
        let live = account.programs.get(slot).ok_or(Anomaly::UnknownProgram)?;
        let none = Arc::new(Cover::default());
        let devices = account.facts.meshes[mesh as usize].devices.iter();
        let mut covers: Vec<Arc<Cover>> = devices
            .map(|device| {
                let on = live.on_device(*device);
                let placed = on.and_then(|on| on.placement.as_ref());
                Arc::clone(placed.map_or(&none, |placed| placed.cover()))
            })
            .collect();
        // By what they are, not by where: an account that was loaded shares other ones.
        if covers.windows(2).all(|two| two[0] == two[1]) {
            covers.truncate(1);
        }
        covers.shrink_to_fit();
        let captured = Arc::make_mut(&mut trace.captured);
        trace.next += 1;
        if let Some(before) = capturing.last.insert((program, mesh), trace.next) {
            captured.remove(&before);
        }
        let run = Captured {
            program,
            slot,
            mesh,
            covers,
        };
        captured.insert(trace.next, run);
        Ok(())
    }

    /// Gives up every trace of a mesh, and what is being captured.
    pub(super) fn drop_traces(&mut self, mesh: u32) {
        if let Some(id) = self.mesh(mesh).id {
            self.account.capturing.remove(&id);
        }
        let first = (mesh, TraceId(0));
        let next = |account: &Account| {
            let (key, _trace) = account.facts.traces.range(first..).next()?;
            (key.0 == mesh).then_some(*key)
        };
        while let Some(key) = next(self.account)
            && !self.account.pauses()
        {
            self.drop_trace(key);
        }
    }

    /// Forgets a trace; the programs of its last replay stay where it put them.
    fn drop_trace(&mut self, key: TraceKey) -> Option<()> {
        let mut trace = self.account.facts.traces.remove(&key)?;
        let Some(replay) = trace.replay else {
            return Some(());
        };
        let mut captures = Arc::unwrap_or_clone(trace.captured);
        while let Some((number, captured)) = captures.pop_first() {
            if self.account.pauses() {
                captures.insert(number, captured);
                trace.captured = Arc::new(captures);
                self.account.facts.traces.insert(key, trace);
                return Some(());
            }
            let run = replay.run + number;
            let devices = Arc::clone(&self.mesh(captured.mesh).devices);
            self.account.work += devices.len() as u64;
            for (place, device) in devices.iter().enumerate() {
                let Some(cover) = captured.cover(place) else {
                    continue;
                };
                let program = self.account.programs.get_mut(captured.slot);
                let program = program.filter(|program| program.id == captured.program);
                match program.and_then(|program| program.on_device_mut(*device)) {
                    Some(on) if on.run < run => {
                        on.run = run;
                        on.ran = Some(Arc::clone(cover));
                    }
                    Some(_ran_since) => {}
                    None => self.leave_cores(*device, cover, run, replay.time),
                }
            }
        }
        Some(())
    }

    fn begin_trace(&mut self, id: MeshId, trace: TraceId) -> Outcome {
        let mesh = self.mesh_slot(id)?;
        let key = (mesh, trace);
        let known = self.drop_trace(key).is_some();
        if self.account.unfinished {
            return Ok(());
        }
        let traces = &mut self.account.facts.traces;
        if traces.len() >= self.limits.traces && !known {
            return Err(Anomaly::LimitReached);
        }
        traces.insert(key, Trace::default());
        let capturing = Capturing {
            trace: key,
            last: Map::default(),
        };
        self.account.capturing.insert(id, capturing);
        self.use_mesh(mesh);
        Ok(())
    }

    /// Ends the capture of a trace; false if it is not being captured.
    fn end_capture(&mut self, id: MeshId, trace: TraceId) -> bool {
        let capturing = &mut self.account.capturing;
        let is_it = |capturing: &mut Capturing| capturing.trace.1 == trace;
        capturing.get_mut(&id).is_some_and(is_it) && capturing.remove(&id).is_some()
    }

    fn end_trace(&mut self, id: MeshId, trace: TraceId) -> Outcome {
        let mesh = self.mesh_slot(id)?;
        if !self.end_capture(id, trace) {
            return Err(Anomaly::UnknownTrace);
        }
        let trace = self.account.facts.traces.get_mut(&(mesh, trace));
        trace.ok_or(Anomaly::UnknownTrace)?.ended = true;
        Ok(())
    }

    /// Runs everything that a trace captured, one after the other.
    fn replay_trace(&mut self, mesh: MeshId, trace: TraceId) -> Outcome {
        let mesh = self.mesh_slot(mesh)?;
        let account = &mut *self.account;
        let trace = account.facts.traces.get_mut(&(mesh, trace));
        let trace = trace.ok_or(Anomaly::UnknownTrace)?;
        // What is still being captured cannot run yet.
        if trace.ended {
            trace.replay = Some(Replay {
                run: account.runs,
                time: self.time,
            });
            account.runs += trace.next;
        }
        let counted = CacheCounters {
            trace_replays: 1,
            ..CacheCounters::default()
        };
        let members = Arc::clone(&self.mesh(mesh).devices);
        self.count(&members, &counted);
        Ok(())
    }

    /// Gives up a trace; if it is being captured, that ends with it.
    fn release_trace(&mut self, id: MeshId, trace: TraceId) -> Outcome {
        let mesh = self.mesh_slot(id)?;
        self.drop_trace((mesh, trace))
            .ok_or(Anomaly::UnknownTrace)?;
        if self.account.unfinished {
            return Ok(());
        }
        self.end_capture(id, trace);
        Ok(())
    }
}
