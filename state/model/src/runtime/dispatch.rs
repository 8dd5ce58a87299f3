//! What both dispatch paths do: compile, place storage, check it, report kernels.

use super::options::Target;
use super::sub_devices::SubDeviceState;
use super::workloads::Part;
use super::{Mesh, Runtime, RuntimeError};
use crate::program::{Program, TextPlace};
use ttmem_event::{CoreSet, CoreType, EventKind, KernelId, KernelKind, MeshId};

impl Runtime {
    /// Compiles a program's kernels, or finds them on disk; a program is compiled once.
    pub(super) fn compile(&mut self, program: &mut Program) {
        if program.is_compiled() {
            return;
        }
        program.compile();
        let id = program.id();
        for kernel in program.kernels() {
            let hit = self.kernel_cache.look_up(kernel.id);
            if hit {
                self.counts.jit_disk_hits += 1;
            } else {
                self.counts.jit_disk_misses += 1;
            }
            let name = self.hooks.text(&kernel.spec.source);
            self.track(EventKind::JitDiskLookup {
                program: id,
                kernel: kernel.id,
                name,
                hit,
            });
        }
    }

    /// Places a program's per-core storage and reports it for each of `devices`.
    ///
    /// The layout is worked out once, for the first device, and holds on all of them: every device
    /// gets a report of what lies on it, whether or not that was worked out now.
    pub(super) fn place_storage(
        &mut self,
        mesh: Mesh,
        part: &mut Part,
        devices: &[usize],
    ) -> Result<(), RuntimeError> {
        part.program.place_storage(self.capacities.l1.base)?;
        if part.program.storage_revision() != part.reported {
            // What moved or grew makes void everything reported so far.
            part.reported_to.clear();
            part.reported = part.program.storage_revision();
        }
        let new = |device: &&usize| !part.reported_to.contains(device);
        let new: Vec<usize> = devices.iter().filter(new).copied().collect();
        if !new.is_empty() {
            self.report_storage(&part.program, &new);
            part.reported_to.extend(new);
        }
        self.check_storage(mesh, part)
    }

    fn report_storage(&mut self, program: &Program, devices: &[usize]) {
        for placed in program.storage() {
            let cores = self.hooks.cores(&placed.cores.set());
            for device in devices {
                let mesh = self.chip(*device);
                self.track(EventKind::CbAllocated {
                    mesh,
                    program: program.id(),
                    cb: placed.number,
                    kind: placed.kind,
                    address: placed.address,
                    size_bytes: placed.size,
                    cores,
                });
            }
        }
    }

    /// Holds the end of the storage against buffers and the end of L1: at every run, since
    /// buffers come and go.
    fn check_storage(&mut self, mesh: Mesh, part: &Part) -> Result<(), RuntimeError> {
        let state = self.mesh_state(mesh)?;
        // Memory that another sub-device keeps for itself is on other cores.
        let own = match &state.sub_devices[..] {
            [_whole_grid] => Some(0),
            _parts => {
                let cores = part.program.cores(CoreType::Tensix);
                Some(self.sub_device_of(mesh, &cores)?)
            }
        };
        let own = own.and_then(|own| state.sub_devices.get(own));
        let local = own.and_then(SubDeviceState::lowest_l1);
        let lowest = state.allocator.lowest_l1().into_iter().chain(local).min();
        let l1_bytes = self.capacities.l1_bytes_per_core;
        let checked = part.program.check_region(l1_bytes, lowest, self.grid());
        if let Err(error) = &checked
            && let Some((kind, range, region_end, limit)) = error.clash()
        {
            let cores = CoreSet::from_ranges([range]).unwrap_or_default();
            let cores = self.hooks.cores(&cores);
            self.track(EventKind::Clashed {
                mesh: part.mesh,
                program: part.program.id(),
                kind,
                cores,
                region_end,
                limit,
                call_first: 0,
            });
        }
        checked.map_err(RuntimeError::from)
    }

    pub(super) const fn text_place(&self) -> TextPlace {
        match self.options.target {
            Target::Silicon => TextPlace::Silicon,
            Target::Mock => TextPlace::Mock,
        }
    }

    /// Offsets are fixed: the first of the three points at which a program's kernels are known.
    pub(super) fn report_finalized(&mut self, mesh: MeshId, program: &Program) {
        let config = program.config().map(|config| config.per_core_type);
        let layouts = config.unwrap_or_default();
        let total: u64 = layouts.iter().map(|layout| layout.total).sum();
        let text: u64 = layouts.iter().map(|layout| layout.text_bytes).sum();
        self.track(EventKind::ProgramFinalized {
            mesh,
            program: program.id(),
            config_bytes: total.saturating_sub(text),
            text_bytes: text,
            binary_bytes: program.binary_bytes(),
        });
    }

    /// Reports the kernels of a program on the devices of a mesh.
    pub(super) fn report_kernels(&mut self, mesh: MeshId, program: &Program, kind: KernelKind) {
        // A binary that a program has on several sets of cores is one kernel on all of them.
        let mut reported: Vec<KernelId> = Vec::new();
        for kernel in program.kernels() {
            let no_text = kernel.bytes() == 0 || self.text_place() == TextPlace::Mock;
            if no_text || reported.contains(&kernel.id) {
                continue;
            }
            reported.push(kernel.id);
            let mut cores = CoreSet::default();
            for same in program.kernels().iter().filter(|same| same.id == kernel.id) {
                cores.insert_all(&same.spec.cores.set());
            }
            let name = self.hooks.text(&kernel.spec.source);
            let core_count = cores.len();
            let cores = self.hooks.cores(&cores);
            self.track(EventKind::KernelLoaded {
                mesh,
                program: program.id(),
                kernel: kernel.id,
                name,
                binary_bytes: kernel.bytes(),
                cores,
                core_count,
                kind,
                core_type: kernel.spec.core_type,
            });
        }
    }

    /// The sub-device that has these compute cores.
    pub(super) fn sub_device_of(&self, mesh: Mesh, cores: &CoreSet) -> Result<usize, RuntimeError> {
        let parts = &self.mesh_state(mesh)?.sub_devices;
        let holds = |part: &SubDeviceState| cores.is_subset(&part.cores());
        let found = parts.iter().position(holds);
        // On the whole grid, a program outside of it is refused by its own check.
        let found = found.or_else(|| (parts.len() == 1).then_some(0));
        found.ok_or(RuntimeError::Refused(
            "Programs must be executed on a single sub-device",
        ))
    }
}
