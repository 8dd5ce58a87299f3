//! Which program ran last on each core, as far as one process knows.
//!
//! A dispatch only numbers the run: who is on a core is worked out when a
//! reader asks, from the runs with the highest numbers. So a dispatch costs the same on
//! one core as on a thousand. What a program had when it ran decides which cores
//! were its own, not what it has now. A program that is gone leaves its cores
//! empty: the programs before it were overwritten.

use crate::Map;
use crate::account::{AccountFacts, AccountRows};
use crate::definitions::Definitions;
use crate::program::Cover;
use std::collections::BTreeMap;
use std::sync::Arc;
use ttmem_event::{CoreSet, CoreType, ProgramId, TraceId};

const CORES: usize = 32 * 32;
const CORE_TYPES: usize = CoreType::ALL.len();

/// More programs than a trace can launch through its command buffer.
pub(crate) const MAX_CAPTURED: usize = 1 << 16;

/// A trace, by the slot of its mesh.
pub(crate) type TraceKey = (u32, TraceId);

#[derive(Clone, Debug, Default)]
pub(crate) struct Trace {
    /// What it runs, in the order of the capture; a program on a mesh stands where it was last.
    pub(crate) captured: Arc<BTreeMap<u64, Captured>>,
    /// The number of the last captured run.
    pub(crate) next: u64,
    /// Whether the capture is complete.
    pub(crate) ended: bool,
    pub(crate) replay: Option<Replay>,
}

/// The last time a trace ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Replay {
    /// Its runs are numbered from here on.
    pub(crate) run: u64,
    pub(crate) time: u64,
}

/// A run that was captured: on the mesh of the trace or on a part of it.
#[derive(Clone, Debug)]
pub(crate) struct Captured {
    pub(crate) program: ProgramId,
    pub(crate) slot: u32,
    /// The slot of the mesh it was dispatched on.
    pub(crate) mesh: u32,
    /// The cores that it had on each device of the mesh; a single one where they are all the same.
    pub(crate) covers: Vec<Arc<Cover>>,
}

impl Captured {
    /// The cores that it had on the device at this place of its mesh.
    pub(crate) fn cover(&self, place: usize) -> Option<&Arc<Cover>> {
        self.covers.get(place).or(self.covers.last())
    }
}

/// Cores whose last program is gone: nothing that ran before it is on them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vacated {
    cores: [Option<Box<LeftBy>>; CORE_TYPES],
}

/// By core: the number and the time of the run that is gone.
type LeftBy = [(u64, u64); CORES];

impl Vacated {
    pub(crate) const BOX_BYTES: usize = size_of::<LeftBy>();

    /// Core types of which any core was left.
    pub(crate) fn boxes(&self) -> usize {
        self.cores.iter().flatten().count()
    }

    /// The program that ran on these cores then is gone.
    pub fn leave(&mut self, core_type: CoreType, cores: &CoreSet, run: u64, time: u64) {
        if cores.is_empty() {
            return;
        }
        let map = self.cores[core_type as usize].get_or_insert_with(|| Box::new([(0, 0); CORES]));
        for at in cores.indices() {
            map[at] = map[at].max((run, time));
        }
    }

    /// The cores that were left by runs, grouped by run.
    #[must_use]
    pub fn claims(&self, core_type: CoreType) -> Vec<(u64, u64, CoreSet)> {
        let mut by_run: BTreeMap<(u64, u64), CoreSet> = BTreeMap::new();
        let map = self.cores[core_type as usize].as_deref();
        for (at, left) in map.into_iter().flatten().enumerate() {
            if *left != (0, 0) {
                by_run.entry(*left).or_default().insert_index(at);
            }
        }
        let claims = by_run.into_iter();
        let claims = claims.map(|((run, time), cores)| (run, time, cores));
        claims.collect()
    }
}

/// A program on the cores where it ran last; none where it is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResidentProgram {
    pub program: Option<u32>,
    pub time: u64,
    pub cores: CoreSet,
}

/// A run that may have left its program on cores.
struct Run<'a> {
    number: u64,
    time: u64,
    program: Option<u32>,
    claim: Claim<'a>,
}

enum Claim<'a> {
    Cover(&'a Arc<Cover>),
    Cores(CoreType, CoreSet),
}

/// When a trace that has it last ran, by the slot of each program that is in one.
#[must_use]
pub fn last_replays(facts: &AccountFacts, rows: &AccountRows) -> BTreeMap<u32, u64> {
    let mut last = BTreeMap::new();
    for trace in facts.traces.values() {
        let Some(replay) = trace.replay else { continue };
        for captured in trace.captured.values() {
            let live = rows.programs.get(captured.slot);
            if live.is_some_and(|program| program.id == captured.program) {
                let time: &mut u64 = last.entry(captured.slot).or_default();
                *time = replay.time.max(*time);
            }
        }
    }
    last
}

/// Number of runs [`residents`] scans: of programs, and of replayed traces on each device.
#[must_use]
pub fn run_count(facts: &AccountFacts, rows: &AccountRows) -> u64 {
    let programs = rows.programs.iter();
    let of_programs: usize = programs.map(|(_slot, program)| 1 + program.on.len()).sum();
    let replayed = facts.traces.values().filter(|trace| trace.replay.is_some());
    let captured = replayed.flat_map(|trace| trace.captured.values());
    let of_traces = captured.map(|captured| {
        let mesh = facts.meshes.get(captured.mesh as usize);
        1 + mesh.map_or(0, |mesh| mesh.devices.len()) as u64
    });
    of_programs as u64 + of_traces.sum::<u64>()
}

/// Who is on the cores of each device of a process, by core type.
#[must_use]
pub fn residents(
    facts: &AccountFacts,
    rows: &AccountRows,
) -> Vec<[Vec<ResidentProgram>; CORE_TYPES]> {
    let mut runs: Vec<Vec<Run<'_>>> = facts.devices.iter().map(|_device| Vec::new()).collect();
    for (slot, program) in rows.programs.iter() {
        for on in &program.on {
            if let (Some(ran), Some(runs)) = (&on.ran, runs.get_mut(on.device as usize)) {
                runs.push(Run {
                    number: on.run,
                    time: on.last_dispatch.unwrap_or(0),
                    program: Some(slot),
                    claim: Claim::Cover(ran),
                });
            }
        }
    }
    for trace in facts.traces.values() {
        let Some(replay) = trace.replay else { continue };
        for (number, captured) in trace.captured.iter() {
            let live = rows.programs.get(captured.slot);
            let live = live.filter(|program| program.id == captured.program);
            let devices = facts.meshes.get(captured.mesh as usize);
            let devices = devices.map_or(&[][..], |mesh| &mesh.devices);
            for (place, device) in devices.iter().enumerate() {
                let on = live.and_then(|program| program.on_device(*device));
                let cover = captured.cover(place);
                if let (Some(cover), Some(runs)) = (cover, runs.get_mut(*device as usize)) {
                    runs.push(Run {
                        number: replay.run + number,
                        time: replay.time,
                        program: on.map(|_part| captured.slot),
                        claim: Claim::Cover(cover),
                    });
                }
            }
        }
    }
    let mut covers = Covers {
        definitions: &facts.definitions,
        known: Map::default(),
    };
    let devices = runs.into_iter().zip(&facts.devices);
    let devices = devices.map(|(mut runs, device)| {
        for core_type in CoreType::ALL {
            let claims = device
                .vacated
                .iter()
                .flat_map(|left| left.claims(core_type));
            runs.extend(claims.map(|(number, time, cores)| Run {
                number,
                time,
                program: None,
                claim: Claim::Cores(core_type, cores),
            }));
        }
        settle(runs, &mut covers)
    });
    devices.collect()
}

/// Gives each core to the last of the runs that claim it.
fn settle(mut runs: Vec<Run<'_>>, covers: &mut Covers<'_>) -> [Vec<ResidentProgram>; CORE_TYPES] {
    runs.sort_unstable_by_key(|run| std::cmp::Reverse(run.number));
    let mut settled: [Vec<ResidentProgram>; CORE_TYPES] = Default::default();
    let mut claimed = [CoreSet::default(); CORE_TYPES];
    for run in runs {
        let mut claim = |core_type: CoreType, cores: &CoreSet| {
            let claimed = &mut claimed[core_type as usize];
            let cores = cores.without(claimed);
            if !cores.is_empty() {
                claimed.insert_all(&cores);
                settled[core_type as usize].push(ResidentProgram {
                    program: run.program,
                    time: run.time,
                    cores,
                });
            }
        };
        match &run.claim {
            Claim::Cover(cover) => {
                for (core_type, cores) in covers.of(cover) {
                    claim(*core_type, cores);
                }
            }
            Claim::Cores(core_type, cores) => claim(*core_type, cores),
        }
    }
    settled
}

/// The cores of each core type that a cover has; those without any are left out.
type Resolved = Vec<(CoreType, CoreSet)>;

/// Covers that were worked out already: devices of a mesh share them.
struct Covers<'a> {
    definitions: &'a Definitions,
    known: Map<usize, Resolved>,
}

impl Covers<'_> {
    fn of(&mut self, cover: &Arc<Cover>) -> &[(CoreType, CoreSet)] {
        let definitions = self.definitions;
        // Its address: the run keeps it alive meanwhile.
        let known = self.known.entry(Arc::as_ptr(cover).addr());
        known.or_insert_with(|| {
            let types = CoreType::ALL.into_iter();
            let cores = types.map(|each| (each, cover.cores(definitions, each)));
            cores.filter(|(_type, cores)| !cores.is_empty()).collect()
        })
    }
}
