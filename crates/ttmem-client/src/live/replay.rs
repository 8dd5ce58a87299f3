//! Playing the log of the programs: which event each part of the state comes from.
//!
//! The rules are those of the ledger; the state is not bytes and names but, for
//! each thing that has a value of its own, the event that gave it this value,
//! by its place in the log. Only [`selection`](super::selection) uses this.

mod traces;

pub(super) use traces::{Captured, Capturing, Trace};

use super::Told;
use super::covers::{Groups, Planes, Settled};
use super::hash::IdMap;
use super::meshes::Meshes;
use std::collections::BTreeMap;
use ttmem_event::{CoreSet, CoreType, CoresId, TraceId, What};

/// The event that placed something, or the one that took it away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    Placed(usize),
    Taken(usize),
}

impl Written {
    fn by(self) -> usize {
        match self {
            Self::Placed(by) | Self::Taken(by) => by,
        }
    }
}

/// What storage or a kernel was last written by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Register {
    written: Written,
    /// What a kernel replaced: a kernel is only news after something else.
    before: Option<usize>,
}

impl Register {
    fn placed(at: usize) -> Self {
        Self {
            written: Written::Placed(at),
            before: None,
        }
    }

    /// The events that must be replayed for it to have its value.
    pub(super) fn events(&self) -> impl Iterator<Item = usize> + use<> {
        self.before.into_iter().chain([self.written.by()])
    }
}

/// Storage or a kernel within a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Item {
    Cb(u32),
    Kernel(u64),
}

/// A program on a group of chips.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) born: usize,
    /// The last event that needed the part to be there.
    pub(super) touched: usize,
    pub(super) commands: Option<usize>,
    pub(super) sent: Option<usize>,
    pub(super) status: Option<usize>,
    pub(super) items: BTreeMap<Item, Register>,
}

/// A live program.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) created: usize,
    pub(super) named: Option<usize>,
    pub(super) runtime_id: Option<usize>,
    pub(super) finalized: Option<usize>,
    /// By mesh; runs that were captured are not among them.
    pub(super) last_run: BTreeMap<u32, usize>,
    pub(super) parts: BTreeMap<usize, Part>,
}

/// The state that a log leads to.
#[derive(Debug)]
pub(super) struct Replay<'a> {
    defined: &'a Meshes,
    groups: &'a Groups,
    log: &'a [Told],
    pub(super) programs: IdMap<u64, Program>,
    pub(super) traces: BTreeMap<(u32, TraceId), Trace>,
    /// The last event that took a trace away.
    pub(super) released: BTreeMap<(u32, TraceId), usize>,
    pub(super) capturing: BTreeMap<u32, Capturing>,
    /// The replays of traces, each with the event that ended the capture.
    pub(super) replayed: BTreeMap<usize, usize>,
    pub(super) planes: Planes,
}

impl<'a> Replay<'a> {
    pub(super) fn new(defined: &'a Meshes, groups: &'a Groups, log: &'a [Told]) -> Self {
        Self {
            defined,
            groups,
            log,
            programs: IdMap::default(),
            traces: BTreeMap::new(),
            released: BTreeMap::new(),
            capturing: BTreeMap::new(),
            replayed: BTreeMap::new(),
            planes: Planes::default(),
        }
    }

    /// Plays one event of the log; false if it changed nothing.
    pub(super) fn play(&mut self, at: usize) -> bool {
        let what = self.log[at].event.what;
        match what {
            What::ProgramCreated { program, .. } => {
                let program = self.program(program.0, at);
                program.named = Some(at);
                program.runtime_id = Some(at);
            }
            What::ProgramFinalized { program, .. } => {
                self.program(program.0, at).finalized = Some(at);
            }
            What::CommandsCached { mesh, program, .. } => {
                self.each_part(mesh.0, program.0, at, |part| part.commands = Some(at));
            }
            What::BinarySent { mesh, program, .. } => {
                self.each_part(mesh.0, program.0, at, |part| part.sent = Some(at));
            }
            What::BinaryStatusChanged { mesh, program, .. } => {
                self.each_part(mesh.0, program.0, at, |part| part.status = Some(at));
            }
            What::CbAllocated {
                mesh, program, cb, ..
            } => self.each_part(mesh.0, program.0, at, |part| {
                part.items.insert(Item::Cb(cb), Register::placed(at));
            }),
            What::KernelLoaded {
                mesh,
                program,
                kernel,
                ..
            } => {
                let log = self.log;
                self.each_part(mesh.0, program.0, at, |part| {
                    let item = Item::Kernel(kernel.0);
                    let old = part.items.get(&item).map(|register| register.written);
                    let repeated = matches!(old, Some(Written::Placed(old))
                        if same_kernel(&log[old].event.what, &what));
                    if !repeated {
                        let register = Register {
                            written: Written::Placed(at),
                            before: old.map(Written::by),
                        };
                        part.items.insert(item, register);
                    }
                });
            }
            What::CbFreed { mesh, program, cb } => {
                return self.take(
                    mesh.0,
                    program.0,
                    at,
                    |item| matches!(item, Item::Cb(number) if cb.is_none_or(|cb| cb == *number)),
                );
            }
            What::KernelUnloaded {
                mesh,
                program,
                kernel,
            } => {
                return self.take(mesh.0, program.0, at, |item| {
                    matches!(item, Item::Kernel(id) if kernel.is_none_or(|kernel| kernel.0 == *id))
                });
            }
            What::ProgramDestroyed { program } => {
                return self.programs.remove(&program.0).is_some();
            }
            What::Dispatched { mesh, program, .. } => self.dispatch(mesh.0, program.0, at),
            What::TraceBegan { mesh, trace } => self.begin_trace(mesh.0, trace, at),
            What::TraceEnded { mesh, trace, .. } => return self.end_trace(mesh.0, trace, at),
            What::TraceReplayed { mesh, trace } => self.replay_trace(mesh.0, trace, at),
            What::TraceReleased { mesh, trace } => return self.release_trace(mesh.0, trace, at),
            What::MeshClosed { mesh } => return self.close_mesh(mesh.0, at),
            What::DeviceClosed { device } => return self.close_device(device.0, at),
            _of_no_program => return false,
        }
        true
    }

    fn program(&mut self, id: u64, at: usize) -> &mut Program {
        self.programs.entry(id).or_insert_with(|| Program {
            created: at,
            named: None,
            runtime_id: None,
            finalized: None,
            last_run: BTreeMap::new(),
            parts: BTreeMap::new(),
        })
    }

    fn each_part(&mut self, mesh: u32, program: u64, at: usize, change: impl Fn(&mut Part)) {
        let groups = self.groups;
        let program = self.program(program, at);
        for group in groups.of_mesh(mesh) {
            let part = program.parts.entry(*group).or_insert_with(|| Part {
                born: at,
                touched: at,
                commands: None,
                sent: None,
                status: None,
                items: BTreeMap::new(),
            });
            part.touched = at;
            change(part);
        }
    }

    fn take(&mut self, mesh: u32, program: u64, at: usize, gone: impl Fn(&Item) -> bool) -> bool {
        let groups = self.groups;
        let Some(program) = self.programs.get_mut(&program) else {
            return false;
        };
        let mut found = false;
        for group in groups.of_mesh(mesh) {
            let Some(part) = program.parts.get_mut(group) else {
                continue;
            };
            for (item, register) in &mut part.items {
                if gone(item) && matches!(register.written, Written::Placed(_)) {
                    *register = Register {
                        written: Written::Taken(at),
                        before: None,
                    };
                    found = true;
                }
            }
        }
        found
    }

    fn dispatch(&mut self, mesh: u32, id: u64, at: usize) {
        self.each_part(mesh, id, at, |_part| {});
        let captured = self.capture(Captured {
            program: id,
            mesh,
            at,
        });
        let groups = self.groups;
        let (log, defined) = (self.log, self.defined);
        let Some(program) = self.programs.get_mut(&id) else {
            return;
        };
        program.runtime_id = Some(at);
        if captured {
            return;
        }
        program.last_run.insert(mesh, at);
        for group in groups.of_mesh(mesh) {
            let Some(part) = program.parts.get(group) else {
                continue;
            };
            for (core_type, cores) in cover(defined, log, part) {
                let settled = Settled {
                    by: at,
                    program: id,
                };
                self.planes.settle(*group, core_type, &cores, settled);
            }
        }
    }

    fn close_device(&mut self, device: u32, at: usize) -> bool {
        let Some(group) = self.groups.of_closed(device) else {
            return false;
        };
        let mut changed = false;
        for mesh in self.groups.meshes_with(group) {
            changed |= self.close_mesh(mesh, at);
        }
        self.programs.values_mut().for_each(|program| {
            changed |= program.parts.remove(&group).is_some();
        });
        changed
    }
}

/// The cores that a program lies on, by core type.
fn cover(defined: &Meshes, log: &[Told], part: &Part) -> Vec<(CoreType, CoreSet)> {
    let mut cover = [CoreSet::default(); CoreType::ALL.len()];
    for register in part.items.values() {
        let Written::Placed(at) = register.written else {
            continue;
        };
        let (core_type, cores) = match log[at].event.what {
            What::CbAllocated { cores, .. } => (CoreType::Tensix, cores),
            What::KernelLoaded {
                core_type, cores, ..
            } => (core_type, cores),
            _other => continue,
        };
        if let Some(cores) = defined.cores(cores) {
            cover[core_type as usize].insert_all(cores);
        }
    }
    let types = CoreType::ALL.into_iter().zip(cover);
    types.filter(|(_type, cores)| !cores.is_empty()).collect()
}

/// Whether a second report of a kernel says what the first said.
fn same_kernel(one: &What, other: &What) -> bool {
    let figures = |what: &What| match *what {
        What::KernelLoaded {
            kind,
            core_type,
            binary_bytes,
            cores,
            core_count,
            ..
        } => {
            let count = if cores == CoresId::NONE {
                core_count
            } else {
                0
            };
            Some((
                kind,
                core_type,
                binary_bytes,
                cores,
                binary_bytes.saturating_mul(u64::from(count)),
            ))
        }
        _other => None,
    };
    figures(one) == figures(other)
}
