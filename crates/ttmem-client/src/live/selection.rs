//! Choosing the events of the programs' log that still matter.
//!
//! Everything with a value of its own — a program's name, the storage under one
//! number on one chip, what is being captured — has an event that wrote it last.
//! The log is looked at in a few points: at its end, at every run that is kept,
//! and at the end of every capture that is kept. An event is kept if it was the
//! last to write something that is looked at. Replaying the kept events in
//! order then shows the same at each of these points, and so leaves the same.
//!
//! Cores are written by runs and by replays of traces. A run of a program that
//! is gone since is kept when it may hide an older run that is kept: its cores
//! belong to nobody now, and not to the program that ran there before.

use super::Told;
use super::covers::{Groups, mesh_of};
use super::meshes::Meshes;
use super::replay::{Captured, Capturing, Register, Replay, Trace};
use std::collections::HashSet;
use ttmem_event::What;

/// Drops the events of a log that make no difference to what it leads to.
pub(super) fn select(defined: &Meshes, log: &mut Vec<Told>) {
    let groups = Groups::of(defined, log);
    let mut selection = Selection {
        groups: &groups,
        log,
        kept: vec![false; log.len()],
        captures: HashSet::new(),
        captures_seen: HashSet::new(),
    };
    selection.look_at_the_end(Replay::new(defined, &groups, log));
    loop {
        let before = selection.kept_runs();
        selection.look_at_runs(Replay::new(defined, &groups, log));
        // A run may be kept for what came after it; what it found was not looked at then.
        if selection.kept_runs() == before {
            break;
        }
    }
    selection.keep_ends_of_captures();
    selection.keep_ends_of_programs();
    retain(log, &selection.kept);
    // What only takes away, and finds nothing to take in this selection, is idle.
    let mut replay = Replay::new(defined, &groups, log);
    let busy: Vec<bool> = (0..log.len()).map(|at| replay.play(at)).collect();
    retain(log, &busy);
}

fn retain(log: &mut Vec<Told>, kept: &[bool]) {
    let mut kept = kept.iter();
    log.retain(|_told| kept.next().copied().unwrap_or(true));
}

/// A capture that was over when something was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Over {
    mesh: u32,
    began: usize,
    ended: usize,
}

/// Which events of a log are kept.
struct Selection<'a> {
    groups: &'a Groups,
    log: &'a [Told],
    kept: Vec<bool>,
    /// The events that ended a capture which is needed.
    captures: HashSet<usize>,
    captures_seen: HashSet<Over>,
}

impl Selection<'_> {
    fn keep(&mut self, at: usize) {
        self.kept[at] = true;
    }

    fn keep_all(&mut self, all: impl IntoIterator<Item = usize>) {
        for at in all {
            self.keep(at);
        }
    }

    fn kept_runs(&self) -> usize {
        let is_run = |told: &Told| matches!(told.event.what, What::Dispatched { .. });
        let runs = self.log.iter().zip(&self.kept);
        runs.filter(|(told, kept)| **kept && is_run(told)).count()
    }

    /// Keeps what the live programs and traces, and the cores, come from.
    fn look_at_the_end(&mut self, mut replay: Replay<'_>) {
        for at in 0..self.log.len() {
            replay.play(at);
        }
        replay.programs.values().for_each(|program| {
            self.keep(program.created);
            self.keep_all(program.named);
            self.keep_all(program.runtime_id);
            self.keep_all(program.finalized);
            for part in program.parts.values() {
                self.keep(part.touched);
                self.keep_all(part.commands);
                self.keep_all(part.sent);
                self.keep_all(part.status);
                self.keep_all(part.items.values().flat_map(Register::events));
            }
            for (mesh, run) in &program.last_run {
                let parts = self.groups.of_mesh(*mesh).iter();
                let mut parts = parts.filter_map(|group| program.parts.get(group));
                if parts.any(|part| part.born <= *run) {
                    self.keep(*run);
                }
            }
        });
        self.look_at_cores(&replay);
        for (key, trace) in &replay.traces {
            match &trace.ended {
                Some(ended) => {
                    self.captures.insert(ended.by);
                }
                None => self.keep_capture(trace),
            }
            self.keep_all(replay.released.get(key).copied());
        }
        self.keep_all(replay.released.values().copied());
        for mesh in replay.capturing.keys() {
            self.look_at_capture(&replay, *mesh);
        }
    }

    fn look_at_cores(&mut self, replay: &Replay<'_>) {
        let mut hiding = HashSet::new();
        for (group, plane) in replay.planes.iter() {
            let mut before = None;
            for settled in plane.iter().flatten() {
                if before.replace(*settled) == Some(*settled) {
                    continue;
                }
                let program = replay.programs.get(&settled.program);
                let part = program.and_then(|program| program.parts.get(&group));
                if part.is_some_and(|part| part.born <= settled.by) {
                    self.keep(settled.by);
                } else {
                    hiding.insert(settled.by);
                }
            }
        }
        let writes = |at: &usize| {
            let what = self.log[*at].event.what;
            matches!(what, What::Dispatched { .. } | What::TraceReplayed { .. })
        };
        let oldest = (0..self.log.len()).find(|at| self.kept[*at] && writes(at));
        if let Some(oldest) = oldest {
            hiding.retain(|at| *at > oldest);
            self.keep_all(hiding);
        }
        let needed = replay
            .replayed
            .iter()
            .filter(|(at, _ended)| self.kept[**at]);
        let needed: Vec<usize> = needed.map(|(_at, ended)| *ended).collect();
        self.captures.extend(needed);
    }

    /// Keeps the runs of an unfinished capture, the last of each program on each mesh.
    fn keep_capture(&mut self, trace: &Trace) {
        self.keep(trace.began);
        let mut seen = HashSet::new();
        for run in trace.captured.iter().rev() {
            if seen.insert((run.program, run.mesh)) {
                self.keep(run.at);
            }
        }
    }

    /// Keeps what the runs that are kept found on their cores, and what captures ended with.
    fn look_at_runs(&mut self, mut replay: Replay<'_>) {
        for (at, told) in self.log.iter().enumerate() {
            match told.event.what {
                What::Dispatched { mesh, program, .. } if self.kept[at] => {
                    let captured = self.look_at_capture(&replay, mesh.0);
                    let seen = if captured {
                        &[]
                    } else {
                        self.groups.of_mesh(mesh.0)
                    };
                    for group in seen {
                        self.look_at_program(&replay, program.0, *group);
                    }
                }
                What::TraceEnded { mesh, trace, .. } if self.captures.contains(&at) => {
                    let key = (mesh.0, trace);
                    let captured = replay.traces.get(&key).map(|trace| trace.captured.clone());
                    replay.play(at);
                    if let Some(trace) = replay.traces.get(&key) {
                        self.keep(trace.began);
                        self.keep(at);
                        let left = trace.ended.iter().flat_map(|ended| &ended.left);
                        self.keep_all(left.map(|left| left.run));
                    }
                    self.look_at_captured(&replay, &captured.unwrap_or_default());
                    self.keep_all(replay.released.get(&key).copied());
                    continue;
                }
                _unseen => {}
            }
            replay.play(at);
        }
    }

    /// Keeps what the runs of a capture that are kept left on their cores when it ended.
    ///
    /// Even where that was nothing: what was taken away before must not come back.
    fn look_at_captured(&mut self, replay: &Replay<'_>, captured: &[Captured]) {
        let groups = self.groups;
        for run in captured {
            let seen = if self.kept[run.at] {
                groups.of_mesh(run.mesh)
            } else {
                &[]
            };
            for group in seen {
                self.look_at_program(replay, run.program, *group);
            }
        }
    }

    fn look_at_program(&mut self, replay: &Replay<'_>, program: u64, group: usize) {
        if let Some(program) = replay.programs.get(&program) {
            self.keep(program.created);
            if let Some(part) = program.parts.get(&group) {
                self.keep_all(part.items.values().flat_map(Register::events));
            }
        }
    }

    /// Keeps what decides whether a run on a mesh is captured, and where; true if it is.
    fn look_at_capture(&mut self, replay: &Replay<'_>, mesh: u32) -> bool {
        for (mesh, Capturing { began, ended, .. }) in replay.captures_over(mesh) {
            let Some(ended) = ended else {
                self.keep(began);
                return true;
            };
            self.captures_seen.insert(Over { mesh, began, ended });
        }
        false
    }

    /// Keeps the ends of captures that were over where one is kept that would go on instead.
    fn keep_ends_of_captures(&mut self) {
        let mut began_on: Vec<(u32, usize)> = Vec::new();
        for (at, told) in self.log.iter().enumerate() {
            if let What::TraceBegan { mesh, .. } = told.event.what {
                began_on.push((mesh.0, at));
            }
        }
        let mut seen = std::mem::take(&mut self.captures_seen);
        loop {
            let before = seen.len();
            seen.retain(|over| {
                let mut earlier = began_on.iter().filter(|(mesh, _at)| *mesh == over.mesh);
                let goes_on = earlier.any(|(_mesh, at)| *at < over.ended && self.kept[*at]);
                if goes_on {
                    self.kept[over.began] = true;
                    self.kept[over.ended] = true;
                }
                !goes_on
            });
            if seen.len() == before {
                return;
            }
        }
    }

    /// Keeps what ended the programs and parts of which anything is kept.
    fn keep_ends_of_programs(&mut self) {
        let mut programs = HashSet::new();
        let mut groups = vec![false; self.groups.len()];
        for (at, told) in self.log.iter().enumerate() {
            match told.event.what {
                What::ProgramDestroyed { program } => {
                    self.kept[at] |= programs.remove(&program.0);
                }
                What::DeviceClosed { device } => {
                    if let Some(group) = self.groups.of_closed(device.0) {
                        self.kept[at] |= std::mem::take(&mut groups[group]);
                    }
                }
                what if self.kept[at] => {
                    programs.extend(program_of(&what));
                    let members =
                        mesh_of(&what).map_or(&[] as &[usize], |mesh| self.groups.of_mesh(mesh));
                    for group in members {
                        groups[*group] = true;
                    }
                }
                _dropped => {}
            }
        }
    }
}

/// The program that an event may have brought about.
fn program_of(what: &What) -> Option<u64> {
    match *what {
        What::ProgramCreated { program, .. }
        | What::ProgramFinalized { program, .. }
        | What::CommandsCached { program, .. }
        | What::BinarySent { program, .. }
        | What::BinaryStatusChanged { program, .. }
        | What::CbAllocated { program, .. }
        | What::KernelLoaded { program, .. }
        | What::Dispatched { program, .. } => Some(program.0),
        _none => None,
    }
}
