//! Programs: their storage, kernels, attributes, traces, and what they did.
//!
//! Events are kept in a log from which [`selection`](super::selection) drops
//! what has no effect any more, each time it has doubled. A program that only
//! runs again and again does not grow the log: its last run on each mesh is kept
//! beside it, and goes into it when the program's storage or kernels change,
//! because what the run left on its cores is what was there then.

use super::hash::IdMap;
use super::meshes::Meshes;
use super::selection;
use super::{ABSURD_BYTES, Told};
use std::collections::HashSet;
use ttmem_event::wire::ProgramCounters;
use ttmem_event::{CacheResult, CoresId, MeshId, ProgramId, TraceId, What};

/// A log below this length is not worth tidying.
const SHORT_LOG: usize = 4096;

/// What a program did on the devices of one mesh.
#[derive(Clone, Debug)]
struct Runs {
    mesh: u32,
    /// Chips that were closed since: nothing of this is left on them.
    closed: Vec<usize>,
    counts: Counts,
    misses: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    dispatches: u64,
    program_cache_hits: u64,
    binary_reuses: u64,
    first_time: u64,
    last_time: u64,
}

/// A program that ran.
#[derive(Clone, Debug, Default)]
struct Ran {
    runs: Vec<Runs>,
    /// The last run on each mesh since storage or kernels changed.
    last: Vec<(u32, Told)>,
}

/// The programs of a process.
#[derive(Clone, Debug, Default)]
pub(super) struct Programs {
    /// In order, but for the runs that went into it late.
    log: Vec<Told>,
    /// How long the log was after it was tidied last.
    tidy: usize,
    ran: IdMap<u64, Ran>,
    capturing: IdMap<u32, TraceId>,
}

impl Programs {
    pub(super) fn len(&self) -> usize {
        self.log.len()
    }

    pub(super) fn apply(&mut self, meshes: &Meshes, told: Told) {
        if !is_booked(meshes, &told.event.what) {
            return;
        }
        match told.event.what {
            What::Dispatched { mesh, program, .. } => {
                let first = self.count(program.0, &told);
                // A program may be first heard of by a run: that one goes into the log.
                if !first && !self.is_captured(meshes, mesh.0) {
                    self.remember_run(mesh.0, program.0, told);
                    return;
                }
            }
            What::CbAllocated { program, .. }
            | What::CbFreed { program, .. }
            | What::KernelLoaded { program, .. }
            | What::KernelUnloaded { program, .. } => self.keep_runs(program.0),
            What::ProgramDestroyed { program } => {
                self.keep_runs(program.0);
                self.ran.remove(&program.0);
            }
            What::TraceBegan { mesh, trace } => {
                self.capturing.insert(mesh.0, trace);
            }
            What::TraceEnded { mesh, trace, .. } | What::TraceReleased { mesh, trace }
                if self.capturing.get(&mesh.0) == Some(&trace) =>
            {
                self.capturing.remove(&mesh.0);
            }
            What::DeviceClosed { device } => {
                if let Some(chip) = meshes.chip(device.0) {
                    self.close_chip(meshes, chip);
                }
            }
            _without_runs => {}
        }
        self.log.push(told);
        if self.log.len() > SHORT_LOG.max(2 * self.tidy) {
            self.tidy_log(meshes);
        }
    }

    /// A mesh was closed: nothing is captured on it any more.
    pub(super) fn close_mesh(&mut self, mesh: u32) {
        self.capturing.remove(&mesh);
    }

    /// Whether a run on a mesh is captured: there, or on a mesh that it is a part of.
    fn is_captured(&self, meshes: &Meshes, mesh: u32) -> bool {
        let mut capturing = self.capturing.keys();
        capturing.any(|whole| meshes.is_part(mesh, *whole))
    }

    fn remember_run(&mut self, mesh: u32, program: u64, told: Told) {
        let last = &mut self.ran.entry(program).or_default().last;
        match last.iter_mut().find(|(on, _told)| *on == mesh) {
            // Between the two nothing of the program changed: the later covers the earlier.
            Some((_on, known)) => *known = told,
            None => last.push((mesh, told)),
        }
    }

    /// What a program has on its cores is about to change: its last runs saw what is there now.
    fn keep_runs(&mut self, program: u64) {
        if let Some(ran) = self.ran.get_mut(&program) {
            self.log
                .extend(ran.last.drain(..).map(|(_mesh, told)| told));
        }
    }

    /// Counts a run; true if it is the first of its program.
    fn count(&mut self, program: u64, told: &Told) -> bool {
        let What::Dispatched {
            mesh,
            program_cache,
            binary_reused,
            ..
        } = told.event.what
        else {
            return false;
        };
        let time = told.event.time;
        let runs = &mut self.ran.entry(program).or_default().runs;
        let first = runs.is_empty();
        let known = runs
            .iter_mut()
            .find(|runs| runs.mesh == mesh.0 && runs.closed.is_empty());
        let on_mesh = match known {
            Some(known) => known,
            None => runs.push_mut(Runs::new(mesh.0, time)),
        };
        on_mesh.misses += u64::from(program_cache == CacheResult::Miss);
        let counts = &mut on_mesh.counts;
        counts.dispatches += 1;
        counts.program_cache_hits += u64::from(program_cache == CacheResult::Hit);
        counts.binary_reuses += u64::from(binary_reused);
        counts.last_time = time;
        first
    }

    /// A device was closed: what programs did on it is forgotten with them.
    fn close_chip(&mut self, meshes: &Meshes, chip: usize) {
        self.ran.values_mut().for_each(|ran| {
            ran.runs.retain_mut(|runs| {
                let Some(members) = meshes.members(runs.mesh) else {
                    return false;
                };
                if members.contains(&chip) && !runs.closed.contains(&chip) {
                    runs.closed.push(chip);
                }
                runs.closed.len() < members.len()
            });
        });
    }

    pub(super) fn tidy_log(&mut self, meshes: &Meshes) {
        let mut all = self.everything();
        selection::select(meshes, &mut all);
        let kept: HashSet<u64> = all.iter().map(|told| told.sequence).collect();
        let mut beside = HashSet::new();
        self.ran.values_mut().for_each(|ran| {
            // What ended a dropped run is dropped too: it must not come back.
            ran.last
                .retain(|(_mesh, told)| kept.contains(&told.sequence));
            beside.extend(ran.last.iter().map(|(_mesh, told)| told.sequence));
        });
        all.retain(|told| !beside.contains(&told.sequence));
        self.tidy = all.len();
        self.log = all;
    }

    #[cfg(test)]
    pub(super) fn log_len(&self) -> usize {
        self.log.len()
    }

    fn last_runs(&self) -> impl Iterator<Item = &Told> {
        let ran = self.ran.values();
        ran.flat_map(|ran| ran.last.iter().map(|(_mesh, told)| told))
    }

    fn everything(&self) -> Vec<Told> {
        let mut all = self.log.clone();
        all.extend(self.last_runs());
        all.sort_unstable_by_key(|told| told.sequence);
        all
    }

    /// Events that lead to the live programs.
    ///
    /// The caches' counts are carried apart from them; a run therefore says nothing of a cache,
    /// but for one miss, which nothing else carries.
    pub(super) fn tell(&self, meshes: &Meshes, told: &mut Vec<Told>) {
        let mut all = self.everything();
        selection::select(meshes, &mut all);
        let mut told_misses = HashSet::new();
        for each in all.iter_mut().rev() {
            if let What::Dispatched {
                mesh,
                program,
                program_cache,
                binary_reused,
                ..
            } = &mut each.event.what
            {
                let missed = self.has_missed(program.0, mesh.0);
                *program_cache = if missed && told_misses.insert((program.0, mesh.0)) {
                    CacheResult::Miss
                } else {
                    CacheResult::Unknown
                };
                *binary_reused = false;
            }
        }
        told.extend(all);
    }

    fn has_missed(&self, program: u64, mesh: u32) -> bool {
        let runs = self.ran.get(&program).into_iter().flat_map(|ran| &ran.runs);
        runs.into_iter()
            .any(|runs| runs.mesh == mesh && runs.misses > 0)
    }

    /// What the live programs did, to be restored in this order.
    pub(super) fn counters(&self, meshes: &Meshes) -> Vec<ProgramCounters> {
        let mut programs: Vec<u64> = self.ran.keys().copied().collect();
        programs.sort_unstable();
        let mut counters = Vec::new();
        for program in programs {
            if let Some(ran) = self.ran.get(&program) {
                let record = |(mesh, counts): (u32, Counts)| ProgramCounters {
                    program: ProgramId(program),
                    mesh: MeshId(mesh),
                    dispatches: counts.dispatches,
                    program_cache_hits: counts.program_cache_hits,
                    binary_reuses: counts.binary_reuses,
                    first_time: counts.first_time,
                    last_time: counts.last_time,
                };
                counters.extend(ran.by_mesh(meshes).into_iter().map(record));
            }
        }
        counters
    }
}

impl Runs {
    fn new(mesh: u32, first_time: u64) -> Self {
        let counts = Counts {
            first_time,
            ..Counts::default()
        };
        Self {
            mesh,
            closed: Vec::new(),
            counts,
            misses: 0,
        }
    }
}

impl Ran {
    /// The counts of each chip, as records about meshes of which later ones overrule earlier ones.
    ///
    /// Where runs on overlapping meshes gave the chips of a mesh different counts, the record of a
    /// smaller mesh must come after that of the larger one. They are therefore chosen from the
    /// last to the first: each time a mesh whose chips without a record have equal counts.
    fn by_mesh(&self, meshes: &Meshes) -> Vec<(u32, Counts)> {
        let [only] = self.runs.as_slice() else {
            return self.by_chip(meshes);
        };
        if only.closed.is_empty() {
            vec![(only.mesh, only.counts)]
        } else {
            self.by_chip(meshes)
        }
    }

    fn by_chip(&self, meshes: &Meshes) -> Vec<(u32, Counts)> {
        let mut chips: IdMap<usize, Counts> = IdMap::default();
        for runs in &self.runs {
            let members = meshes.members(runs.mesh).map_or(&[] as &[usize], |all| all);
            for chip in members.iter().filter(|chip| !runs.closed.contains(chip)) {
                chips.entry(*chip).or_default().add(&runs.counts);
            }
        }
        let ran_on = |mesh: &u32| {
            let members = meshes.members(*mesh);
            members.is_some_and(|all| all.iter().all(|chip| chips.contains_key(chip)))
        };
        let mut candidates: Vec<u32> = meshes.all().into_iter().filter(ran_on).collect();
        let mut open: Vec<usize> = chips.keys().copied().collect();
        let mut records = Vec::new();
        while !open.is_empty() && !candidates.is_empty() {
            let counts_of = |mesh: u32| {
                let members = meshes.members(mesh).map_or(&[] as &[usize], |all| all);
                let left = members.iter().filter(|chip| open.contains(chip));
                left.filter_map(|chip| chips.get(chip))
                    .copied()
                    .collect::<Vec<Counts>>()
            };
            let equal = |mesh: &u32| counts_of(*mesh).windows(2).all(|pair| pair[0] == pair[1]);
            // Without such a mesh no order is right for every chip: any is as good.
            let at = candidates.iter().position(equal).unwrap_or(0);
            let mesh = candidates.remove(at);
            if let Some(counts) = counts_of(mesh).first() {
                records.push((mesh, *counts));
            }
            if let Some(members) = meshes.members(mesh) {
                open.retain(|chip| !members.contains(chip));
            }
        }
        records.reverse();
        records
    }
}

impl Counts {
    fn add(&mut self, more: &Self) {
        self.first_time = if self.dispatches == 0 {
            more.first_time
        } else {
            self.first_time.min(more.first_time)
        };
        self.last_time = self.last_time.max(more.last_time);
        self.dispatches += more.dispatches;
        self.program_cache_hits += more.program_cache_hits;
        self.binary_reuses += more.binary_reuses;
    }
}

/// Whether the ledger accepts the event, as far as definitions and sizes decide.
fn is_booked(meshes: &Meshes, what: &What) -> bool {
    let on_mesh = super::covers::mesh_of(what).is_none_or(|mesh| meshes.is_mesh(mesh));
    on_mesh
        && match *what {
            What::CbAllocated {
                size_bytes, cores, ..
            } => {
                let placed = meshes.cores(cores).is_some_and(|set| !set.is_empty());
                placed && size_bytes > 0 && size_bytes <= ABSURD_BYTES / 1024
            }
            What::KernelLoaded {
                binary_bytes,
                cores,
                core_count,
                ..
            } => {
                let count = if cores == CoresId::NONE {
                    Some(core_count)
                } else {
                    meshes.cores(cores).map(ttmem_event::CoreSet::len)
                };
                let total = count.and_then(|count| binary_bytes.checked_mul(u64::from(count)));
                total.is_some_and(|total| total <= ABSURD_BYTES)
            }
            _other => true,
        }
}
