//! Traces: captured, run again, given up.
//!
//! A run that is captured is not a run yet: it leaves nothing on its cores until
//! its trace is replayed. A trace captures what is dispatched on its mesh and on
//! any part of it, because the programs of a collective differ from chip to chip
//! and are dispatched on each alone.

use super::{Outcome, Scope};
use crate::anomaly::Anomaly;
use crate::process::{Captured, ProgramKey, Trace, TraceCores};
use crate::residency::Owner;
use std::sync::Arc;
use ttmem_event::{CoreSet, CoreType, MeshId, TraceId, What};

/// More programs than a trace can launch through its command buffer.
const MAX_CAPTURED: usize = 1 << 16;

/// Sets of cores that a trace may leave to different programs: a program for
/// every few cores of every device.
const MAX_SETTLED: usize = 8192;

/// A trace, by the slot of its mesh.
pub(super) type TraceKey = (u32, TraceId);

impl Scope<'_> {
    pub(super) fn trace(&mut self, what: &What) -> Outcome {
        match *what {
            What::TraceBegan { mesh, trace } => self.begin_trace(mesh, trace)?,
            What::TraceEnded { mesh, trace, .. } => self.end_trace(mesh, trace)?,
            What::TraceReplayed { mesh, trace } => self.replay_trace(mesh, trace)?,
            What::TraceReleased { mesh, trace } => self.release_trace(mesh, trace)?,
            _other => return Err(Anomaly::Malformed),
        }
        self.happened(what);
        Ok(())
    }

    /// The trace that captures what is dispatched on a mesh: one of the mesh itself, else the one
    /// of the lowest mesh id among those with all its devices.
    pub(super) fn capture_of(&self, mesh: u32) -> Option<TraceKey> {
        let capturing = &self.process.capturing;
        // Nearly every dispatch ends here.
        if capturing.is_empty() {
            return None;
        }
        let dispatched = self.mesh(mesh);
        let own = dispatched.id.and_then(|id| capturing.get(&id));
        let whole = |key: &&TraceKey| {
            let devices = &self.mesh(key.0).devices;
            let mut parts = dispatched.devices.iter();
            parts.all(|device| devices.contains(device))
        };
        own.or_else(|| capturing.values().find(whole)).copied()
    }

    pub(super) fn capture(&mut self, trace: TraceKey, run: Captured) -> Outcome {
        let trace = self.process.traces.get_mut(&trace);
        let captured = &mut trace.ok_or(Anomaly::UnknownTrace)?.captured;
        if captured.len() == MAX_CAPTURED {
            return Err(Anomaly::LimitReached);
        }
        captured.push(run);
        Ok(())
    }

    /// Gives up every trace of a mesh, and what is being captured.
    pub(super) fn drop_traces(&mut self, mesh: u32) {
        if let Some(id) = self.mesh(mesh).id {
            self.process.capturing.remove(&id);
        }
        let traces = &mut self.process.traces;
        while let Some((key, _trace)) = traces.range((mesh, TraceId(0))..).next()
            && key.0 == mesh
        {
            let key = *key;
            traces.remove(&key);
        }
    }

    fn begin_trace(&mut self, id: MeshId, trace: TraceId) -> Outcome {
        let mesh = self.mesh_slot(id)?;
        let known = self.process.traces.contains_key(&(mesh, trace));
        if self.process.traces.len() >= self.limits.traces_per_process && !known {
            return Err(Anomaly::LimitReached);
        }
        self.process.traces.insert((mesh, trace), Trace::default());
        self.process.capturing.insert(id, (mesh, trace));
        Ok(())
    }

    /// Ends the capture of a trace; false if it is not being captured.
    fn end_capture(&mut self, id: MeshId, trace: TraceId) -> bool {
        let capturing = &mut self.process.capturing;
        let found = capturing
            .get(&id)
            .is_some_and(|(_mesh, each)| *each == trace);
        if found {
            capturing.remove(&id);
        }
        found
    }

    /// Works out which program each core is left with: the last one captured on it.
    fn end_trace(&mut self, id: MeshId, trace: TraceId) -> Outcome {
        let mesh = self.mesh_slot(id)?;
        if !self.end_capture(id, trace) {
            return Err(Anomaly::UnknownTrace);
        }
        let captured = match self.process.traces.get_mut(&(mesh, trace)) {
            Some(trace) => std::mem::take(&mut trace.captured),
            None => return Err(Anomaly::UnknownTrace),
        };
        let devices = self.process.facts.devices.len();
        let mut seen = vec![[CoreSet::default(); CoreType::ALL.len()]; devices];
        let mut settled = Vec::new();
        for run in captured.iter().rev() {
            let program = self.process.programs.get(run.slot);
            let Some(program) = program.filter(|live| live.id == run.program) else {
                continue;
            };
            for device in self.mesh(run.mesh).devices.iter() {
                let Some(on) = program.on_device(*device) else {
                    continue;
                };
                for core_type in CoreType::ALL {
                    let seen = &mut seen[*device as usize][core_type as usize];
                    let cores = on.placement.cover[core_type as usize].without(seen);
                    if cores.is_empty() {
                        continue;
                    }
                    seen.insert_all(&cores);
                    if settled.len() == MAX_SETTLED {
                        return Err(Anomaly::LimitReached);
                    }
                    settled.push(TraceCores {
                        device: *device,
                        core_type,
                        cores,
                        program: run.program,
                    });
                }
            }
        }
        if let Some(trace) = self.process.traces.get_mut(&(mesh, trace)) {
            trace.settled = settled;
        }
        Ok(())
    }

    fn replay_trace(&mut self, mesh: MeshId, trace: TraceId) -> Outcome {
        let mesh = self.mesh_slot(mesh)?;
        let trace = self
            .process
            .traces
            .get(&(mesh, trace))
            .ok_or(Anomaly::UnknownTrace)?;
        for part in &trace.settled {
            let program = self
                .process
                .program_index
                .get(&ProgramKey::Tracked(part.program))
                // Without a part on the device nothing would take it off the cores again.
                .filter(|slot| {
                    let program = self.process.programs.get(**slot);
                    program.is_some_and(|live| live.on_device(part.device).is_some())
                });
            let Some(program) = program else { continue };
            let owner = Owner {
                process: self.index,
                program: *program,
            };
            let device = self.process.facts.devices[part.device as usize].device;
            let device = &mut self.devices[device as usize];
            device.residency.settle(part.core_type, &part.cores, owner);
        }
        let members = Arc::clone(&self.mesh(mesh).devices);
        for slot in members.iter() {
            let device = self.device_index(*slot);
            self.devices[device as usize].caches.trace_replays += 1;
        }
        Ok(())
    }

    /// Gives up a trace; if it is being captured, that ends with it.
    fn release_trace(&mut self, id: MeshId, trace: TraceId) -> Outcome {
        let mesh = self.mesh_slot(id)?;
        let known = self.process.traces.remove(&(mesh, trace));
        known.ok_or(Anomaly::UnknownTrace)?;
        self.end_capture(id, trace);
        Ok(())
    }
}
