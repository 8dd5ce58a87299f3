//! Programs and workloads: made, run by one of the two paths, and taken down again.

use super::fast::Footprint;
use super::meshes::Rectangle;
use super::{Buffer, Mesh, Runtime, RuntimeError, Workload};
use crate::program::Program;
use std::collections::{BTreeMap, BTreeSet};
use ttmem_event::catalogue::DispatchCores;
use ttmem_event::{
    BinaryStatus, CacheResult, DeviceId, EventKind, MeshDefinition, MeshId, MeshKind, ProgramId,
};

/// Where the first program object of a process might lie, and how far the next one is.
const FIRST_PROGRAM_AT: u64 = 0x7f3a_1000_0000;
const PROGRAM_STRIDE: u64 = 0x1_0000;

/// Which devices of a mesh a program runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceRange {
    All,
    Part {
        row: u16,
        column: u16,
        rows: u16,
        columns: u16,
    },
}

impl DeviceRange {
    #[must_use]
    pub const fn one(row: u16, column: u16) -> Self {
        Self::Part {
            row,
            column,
            rows: 1,
            columns: 1,
        }
    }
}

/// One run of a workload.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// The operation that runs it.
    pub operation: &'a str,
    /// Whether the workload came from the program cache.
    pub program_cache: CacheResult,
}

#[derive(Debug)]
pub(super) struct WorkloadState {
    pub(super) mesh: Mesh,
    pub(super) parts: Vec<Part>,
    /// The one DRAM buffer with the binaries of all its programs.
    pub(super) binaries: Option<Buffer>,
    pub(super) status: BinaryStatus,
    pub(super) commands_generated: bool,
    /// What each run takes of the devices, once offsets are fixed.
    pub(super) footprint: Footprint,
}

/// A program and the devices it is for.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) program: Program,
    /// These devices as events name them.
    pub(super) mesh: MeshId,
    pub(super) devices: Vec<usize>,
    /// The per-core storage as it was reported last, by the program's count of its changes.
    pub(super) reported: u64,
    /// Devices for which just that was reported.
    pub(super) reported_to: BTreeSet<usize>,
    /// Devices on which the kernels were reported.
    pub(super) loaded_on: BTreeSet<usize>,
}

impl Runtime {
    /// Constructs an empty program.
    pub fn new_program(&mut self, name: &str) -> Program {
        let id = self.hooks.next_program();
        let place = self.program_places.take(id);
        let text = self.operation(name);
        self.track(EventKind::ProgramCreated {
            program: id,
            name: text,
            runtime_id: 0,
            pointer: FIRST_PROGRAM_AT.saturating_add(place.saturating_mul(PROGRAM_STRIDE)),
        });
        Program::new(id, name, self.map)
    }

    /// Destroys a program that no workload took.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "it cannot be used again, nor destroyed twice"
    )]
    pub fn discard_program(&mut self, program: Program) {
        self.forget_place(program.id());
        let program = program.id();
        self.track(EventKind::ProgramDestroyed { program });
    }

    /// Puts programs together; each device runs at most one of them.
    ///
    /// # Errors
    /// When the mesh is not open or a range leaves it; the programs are destroyed then.
    pub fn new_workload(
        &mut self,
        mesh: Mesh,
        programs: Vec<(DeviceRange, Program)>,
    ) -> Result<Workload, RuntimeError> {
        let mut parts: Vec<Part> = Vec::new();
        let mut failure = None;
        for (range, program) in programs {
            let placed = self.devices_of(mesh, range).and_then(|(id, devices)| {
                let taken = |device: &usize| parts.iter().any(|part| part.devices.contains(device));
                if devices.iter().any(taken) {
                    let text = "Program range overlaps with the previously added range";
                    return Err(RuntimeError::Refused(text));
                }
                Ok((id, devices))
            });
            match placed {
                Ok((id, devices)) if failure.is_none() => parts.push(Part {
                    program,
                    mesh: id,
                    devices,
                    reported: 0,
                    reported_to: BTreeSet::new(),
                    loaded_on: BTreeSet::new(),
                }),
                Ok(_devices) => self.discard_program(program),
                Err(error) => {
                    self.discard_program(program);
                    failure.get_or_insert(error);
                }
            }
        }
        if let Some(error) = failure {
            for part in parts {
                self.discard_program(part.program);
            }
            return Err(error);
        }
        self.next_workload += 1;
        let workload = Workload(self.next_workload);
        self.workloads.insert(
            workload,
            WorkloadState {
                mesh,
                parts,
                binaries: None,
                status: BinaryStatus::NotSent,
                commands_generated: false,
                footprint: Footprint::default(),
            },
        );
        Ok(workload)
    }

    fn devices_of(
        &mut self,
        mesh: Mesh,
        range: DeviceRange,
    ) -> Result<(MeshId, Vec<usize>), RuntimeError> {
        let state = self.mesh_state(mesh)?;
        let DeviceRange::Part {
            row,
            column,
            rows,
            columns,
        } = range
        else {
            return Ok((state.id, state.devices.clone()));
        };
        let rectangle = Rectangle {
            rows,
            columns,
            row,
            column,
        };
        let devices = rectangle.of(&state.devices, (state.rows, state.columns));
        let devices = devices.ok_or(RuntimeError::Refused("a program's range leaves its mesh"))?;
        if let [device] = devices[..] {
            return Ok((self.chip(device), devices));
        }
        let handle = u64::from(state.handle);
        let open = |device: &usize| self.devices.get(*device)?.open.as_ref();
        let ids: Vec<DeviceId> = devices
            .iter()
            .filter_map(open)
            .map(|open| open.id)
            .collect();
        let id = self.hooks.mesh(&MeshDefinition {
            id: MeshId(0),
            kind: MeshKind::Mesh,
            handle,
            rows,
            columns,
            devices: ids,
        });
        Ok((id, devices))
    }

    /// A program of a workload, to change its sizes or addresses before the next run.
    pub fn program_mut(&mut self, workload: Workload, index: usize) -> Option<&mut Program> {
        let part = self.workloads.get_mut(&workload)?.parts.get_mut(index)?;
        Some(&mut part.program)
    }

    /// Runs a workload.
    ///
    /// # Errors
    /// When its storage, its configuration or its binaries find no place. What was reported until
    /// then stays until the workload is destroyed, as in the runtime.
    pub fn enqueue(&mut self, workload: Workload, run: &Run<'_>) -> Result<(), RuntimeError> {
        let state = self.workloads.remove(&workload);
        let mut state = state.ok_or(RuntimeError::WorkloadGone)?;
        self.next_run += 1;
        let outcome = if self.options.dispatch == DispatchCores::Slow {
            self.launch(&mut state, run)
        } else {
            self.enqueue_fast(workload, &mut state, run)
        };
        self.workloads.insert(workload, state);
        outcome
    }

    /// Destroys a workload: its binaries, then its programs with their storage and kernels.
    ///
    /// # Errors
    /// When it is gone already.
    pub fn destroy(&mut self, workload: Workload) -> Result<(), RuntimeError> {
        let state = self.workloads.remove(&workload);
        let state = state.ok_or(RuntimeError::WorkloadGone)?;
        if let Some(binaries) = state.binaries {
            self.free(binaries)?;
        }
        for part in state.parts {
            let program = part.program.id();
            let storage_on = if part.program.has_storage() {
                part.reported_to
            } else {
                BTreeSet::new()
            };
            for device in storage_on {
                let mesh = self.chip(device);
                self.track(EventKind::CbFreed {
                    mesh,
                    program,
                    cb: None,
                });
            }
            self.end_program(program, part.mesh);
        }
        Ok(())
    }

    /// A program's kernels leave their cores, and it is gone.
    pub(super) fn end_program(&mut self, program: ProgramId, mesh: MeshId) {
        self.track(EventKind::KernelUnloaded {
            mesh,
            program,
            kernel: None,
        });
        self.forget_place(program);
        self.track(EventKind::ProgramDestroyed { program });
    }

    fn forget_place(&mut self, program: ProgramId) {
        self.program_places.give_back(program);
    }

    pub(super) fn drop_workloads(&mut self, mesh: Mesh) -> Result<(), RuntimeError> {
        let workloads: Vec<Workload> = self
            .workloads
            .iter()
            .filter(|(_workload, state)| state.mesh == mesh)
            .map(|(workload, _state)| *workload)
            .collect();
        for workload in workloads {
            self.destroy(workload)?;
        }
        Ok(())
    }
}

/// Places of program objects in the process: an address is used again, an identity is not.
#[derive(Debug, Default)]
pub(super) struct ProgramPlaces {
    taken: BTreeMap<ProgramId, u64>,
    free: Vec<u64>,
}

impl ProgramPlaces {
    fn take(&mut self, program: ProgramId) -> u64 {
        let next = u64::try_from(self.taken.len()).unwrap_or(u64::MAX);
        let place = self.free.pop().unwrap_or(next);
        self.taken.insert(program, place);
        place
    }

    fn give_back(&mut self, program: ProgramId) {
        self.free.extend(self.taken.remove(&program));
    }
}
