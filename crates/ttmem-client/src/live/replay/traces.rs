//! Traces: what each captured, and what it leaves on the cores.

use super::{Replay, cover};
use crate::live::covers::Settled;
use ttmem_event::{CoreSet, CoreType, TraceId};

/// A run that was captured.
#[derive(Clone, Copy, Debug)]
pub(in crate::live) struct Captured {
    pub(in crate::live) program: u64,
    /// The mesh it was dispatched on: that of the trace or a part of it.
    pub(in crate::live) mesh: u32,
    pub(in crate::live) at: usize,
}

/// A trace, captured or being captured.
#[derive(Debug)]
pub(in crate::live) struct Trace {
    pub(in crate::live) began: usize,
    pub(in crate::live) captured: Vec<Captured>,
    pub(in crate::live) ended: Option<Ended>,
}

/// What a mesh captures, or captured last.
#[derive(Clone, Copy, Debug)]
pub(in crate::live) struct Capturing {
    pub(in crate::live) began: usize,
    /// The event that ended it.
    pub(in crate::live) ended: Option<usize>,
    trace: TraceId,
}

impl Capturing {
    fn goes_on(&self, trace: TraceId) -> bool {
        self.ended.is_none() && self.trace == trace
    }
}

/// What a captured trace leaves on the cores.
#[derive(Clone, Debug)]
pub(in crate::live) struct Ended {
    pub(in crate::live) by: usize,
    pub(in crate::live) left: Vec<Left>,
}

/// Cores that a trace leaves to a program, and the captured run that did.
#[derive(Clone, Copy, Debug)]
pub(in crate::live) struct Left {
    pub(in crate::live) run: usize,
    group: usize,
    program: u64,
    core_type: CoreType,
    cores: CoreSet,
}

impl Replay<'_> {
    /// The captures that decide about a run on a mesh, each with its mesh.
    ///
    /// The first that goes on captures the run: that of the mesh itself, else the one of the
    /// lowest mesh id among those with all chips of the mesh.
    pub(in crate::live) fn captures_over(
        &self,
        mesh: u32,
    ) -> impl Iterator<Item = (u32, Capturing)> {
        let own = self.capturing.get_key_value(&mesh);
        let wider = self
            .capturing
            .iter()
            .filter(move |(whole, _capturing)| **whole != mesh)
            .filter(move |(whole, _capturing)| self.defined.is_part(mesh, **whole));
        let all = own.into_iter().chain(wider);
        all.map(|(mesh, capturing)| (*mesh, *capturing))
    }

    /// Captures a run; false if nothing is captured where it takes place.
    pub(super) fn capture(&mut self, run: Captured) -> bool {
        let mut captures = self.captures_over(run.mesh);
        let by = captures.find(|(_mesh, capturing)| capturing.ended.is_none());
        let by = by.map(|(mesh, capturing)| (mesh, capturing.trace));
        drop(captures);
        let trace = by.and_then(|key| self.traces.get_mut(&key));
        let captured = trace.is_some();
        if let Some(trace) = trace {
            trace.captured.push(run);
        }
        captured
    }

    pub(super) fn begin_trace(&mut self, mesh: u32, trace: TraceId, at: usize) {
        let fresh = Trace {
            began: at,
            captured: Vec::new(),
            ended: None,
        };
        self.traces.insert((mesh, trace), fresh);
        let capturing = Capturing {
            began: at,
            ended: None,
            trace,
        };
        self.capturing.insert(mesh, capturing);
    }

    pub(super) fn end_trace(&mut self, mesh: u32, trace: TraceId, at: usize) -> bool {
        match self.capturing.get_mut(&mesh) {
            Some(each) if each.goes_on(trace) => each.ended = Some(at),
            _another => return false,
        }
        let Some(trace) = self.traces.get_mut(&(mesh, trace)) else {
            return true;
        };
        let mut left = Vec::new();
        for group in self.groups.of_mesh(mesh) {
            let mut seen = [CoreSet::default(); CoreType::ALL.len()];
            for run in trace.captured.iter().rev() {
                if !self.groups.of_mesh(run.mesh).contains(group) {
                    continue;
                }
                let program = self.programs.get(&run.program);
                let program = program.filter(|live| live.created <= run.at);
                let Some(part) = program.and_then(|live| live.parts.get(group)) else {
                    continue;
                };
                for (core_type, cores) in cover(self.defined, self.log, part) {
                    let seen = &mut seen[core_type as usize];
                    let cores = cores.without(seen);
                    if !cores.is_empty() {
                        seen.insert_all(&cores);
                        left.push(Left {
                            run: run.at,
                            group: *group,
                            program: run.program,
                            core_type,
                            cores,
                        });
                    }
                }
            }
        }
        trace.captured = Vec::new();
        trace.ended = Some(Ended { by: at, left });
        true
    }

    pub(super) fn replay_trace(&mut self, mesh: u32, trace: TraceId, at: usize) {
        let trace = self.traces.get(&(mesh, trace));
        let Some(ended) = trace.and_then(|trace| trace.ended.as_ref()) else {
            return;
        };
        self.replayed.insert(at, ended.by);
        for left in &ended.left {
            let program = self.programs.get(&left.program);
            if program.is_some_and(|live| live.parts.contains_key(&left.group)) {
                let settled = Settled {
                    by: at,
                    program: left.program,
                };
                self.planes
                    .settle(left.group, left.core_type, &left.cores, settled);
            }
        }
    }

    pub(super) fn release_trace(&mut self, mesh: u32, trace: TraceId, at: usize) -> bool {
        if self.traces.remove(&(mesh, trace)).is_none() {
            return false;
        }
        self.released.insert((mesh, trace), at);
        if let Some(each) = self.capturing.get_mut(&mesh)
            && each.goes_on(trace)
        {
            each.ended = Some(at);
        }
        true
    }

    pub(super) fn close_mesh(&mut self, mesh: u32, at: usize) -> bool {
        let mut changed = false;
        if let Some(each) = self.capturing.get_mut(&mesh)
            && each.ended.is_none()
        {
            each.ended = Some(at);
            changed = true;
        }
        while let Some((key, _trace)) = self.traces.range((mesh, TraceId(0))..).next()
            && key.0 == mesh
        {
            let key = *key;
            self.traces.remove(&key);
            self.released.insert(key, at);
            changed = true;
        }
        changed
    }
}
