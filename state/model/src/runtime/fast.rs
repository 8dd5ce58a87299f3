//! Fast dispatch: a workload is compiled, finalized and sent as one, by commands in queues.
//!
//! The first run on a mesh puts the binaries of all programs into one DRAM buffer; from then on
//! they are only launched. Every run takes room in the config ring of its sub-device, and asks
//! the prefetcher whether it still has the binaries.

use super::sub_devices::number;
use super::sub_devices::ring_core_types;
use super::workloads::{Part, Run, WorkloadState};
use super::{Mesh, Runtime, RuntimeError, Workload};
use crate::buffer::BufferSpec;
use crate::program::{Program, finalize};
use ttmem_event::catalogue::MemoryMap;
use ttmem_event::{
    BinaryStatus, CacheResult, Class, CoreSet, CoreType, DispatchPath, EventKind, KernelKind,
    MeshId, ProgramId,
};

/// Binaries lie in DRAM in pages of this size.
const BINARY_PAGE_BYTES: u64 = 2048;

/// The runtime's name for these buffers.
const BINARIES: &str = "program_cache: kernel binaries";

/// Commands that every program has: preamble, stalls, launch and go.
const COMMAND_FRAME_BYTES: u64 = 1024;

impl Runtime {
    pub(super) fn enqueue_fast(
        &mut self,
        id: Workload,
        workload: &mut WorkloadState,
        run: &Run<'_>,
    ) -> Result<(), RuntimeError> {
        let mesh = workload.mesh;
        for part in &mut workload.parts {
            self.compile(&mut part.program);
            let devices = part.devices.clone();
            self.place_storage(mesh, part, &devices)?;
        }
        self.finalize_together(workload)?;
        self.load_binaries(workload)?;
        self.generate_commands(workload);
        if let Some(trace) = self.mesh_state(mesh)?.capturing {
            self.capture(trace, workload)?;
        } else {
            self.take_ring(workload)?;
            self.prefetch(id, workload)?;
        }
        self.send(workload, run);
        if workload.status == BinaryStatus::InFlight {
            self.set_status(workload, BinaryStatus::Committed);
        }
        Ok(())
    }

    /// Fixes the offsets of all programs at once: they come out equal.
    fn finalize_together(&mut self, workload: &mut WorkloadState) -> Result<(), RuntimeError> {
        if workload
            .parts
            .iter()
            .all(|part| part.program.is_finalized())
        {
            return Ok(());
        }
        let text = self.text_place();
        let mut programs: Vec<&mut Program> = workload
            .parts
            .iter_mut()
            .map(|part| &mut part.program)
            .collect();
        finalize(&mut programs, text)?;
        for part in &mut workload.parts {
            self.report_finalized(part.mesh, &part.program);
            part.loaded_on.extend(&part.devices);
            self.report_kernels(part.mesh, &part.program, KernelKind::Application);
        }
        workload.footprint = Footprint::of(&workload.parts, self.map);
        Ok(())
    }

    /// Puts the binaries into DRAM, once: one buffer over the mesh, as large as the largest.
    fn load_binaries(&mut self, workload: &mut WorkloadState) -> Result<(), RuntimeError> {
        if workload.status != BinaryStatus::NotSent {
            return Ok(());
        }
        let bytes = largest_binary(workload);
        if bytes > 0 {
            if self.mesh_state(workload.mesh)?.capturing.is_some() {
                let text = "Cannot load new binaries during trace capture";
                return Err(RuntimeError::Refused(text));
            }
            let spec = BufferSpec::interleaved(Class::Dram, bytes, BINARY_PAGE_BYTES).top_down();
            workload.binaries = Some(self.allocate(workload.mesh, &spec, BINARIES)?);
        }
        for part in &workload.parts {
            let bytes = part.program.binary_bytes();
            if bytes > 0 {
                self.track(EventKind::BinarySent {
                    mesh: part.mesh,
                    program: part.program.id(),
                    bytes,
                });
            }
        }
        self.set_status(workload, BinaryStatus::InFlight);
        Ok(())
    }

    fn set_status(&mut self, workload: &mut WorkloadState, status: BinaryStatus) {
        workload.status = status;
        for part in &workload.parts {
            self.track(EventKind::BinaryStatusChanged {
                mesh: part.mesh,
                program: part.program.id(),
                status,
            });
        }
    }

    fn generate_commands(&mut self, workload: &mut WorkloadState) {
        if workload.commands_generated {
            return;
        }
        workload.commands_generated = true;
        for part in &workload.parts {
            self.track(EventKind::CommandsCached {
                mesh: part.mesh,
                program: part.program.id(),
                bytes: command_bytes(&part.program),
            });
        }
    }

    /// Takes room in the config ring, waiting for the oldest programs if there is none.
    fn take_ring(&mut self, workload: &WorkloadState) -> Result<(), RuntimeError> {
        let Some(first) = workload.parts.first() else {
            return Ok(());
        };
        let footprint = &workload.footprint;
        let (sizes, map) = (&footprint.ring_bytes, self.map);
        let sub_device = self.sub_device_of(workload.mesh, &footprint.compute_cores)?;
        let (status, program) = (workload.status, first.program.id());
        let ethernet_cores = self.options.board.ethernet_cores();
        let state = self.mesh_state_mut(workload.mesh)?;
        let id = state.id;
        let part = state.sub_devices.get_mut(sub_device);
        let part = part.ok_or(RuntimeError::Refused("there is no such sub-device"))?;
        let done_before = part.expected_completed;
        let done_after = done_before + footprint.workers(&part.cores(), ethernet_cores);
        let Some(rings) = part.rings.as_mut() else {
            return Ok(());
        };
        let reservation = rings.reserve(sizes);
        // The first run waits for all that was sent before it, so all of that may go; its place is
        // the one that was found before.
        let freed = match status {
            BinaryStatus::Committed => reservation.sync,
            BinaryStatus::NotSent | BinaryStatus::InFlight => {
                (done_before > 0).then_some(done_before)
            }
        };
        if let Some(sync) = freed {
            rings.free(sync);
        }
        rings.alloc(&reservation, sizes, done_after);
        part.expected_completed = done_after;
        let mut taken = ConfigRingTaken {
            mesh: id,
            sub_device: number(sub_device),
            program,
            waited_for: freed,
            done: done_after,
            places: Vec::new(),
        };
        let mut wraps = 0;
        for (index, core_type) in ring_core_types(map).enumerate() {
            let size_bytes = sizes.get(index).copied().unwrap_or(0);
            if size_bytes > 0 {
                let address = reservation.addresses.get(index).copied().unwrap_or(0);
                let before = part.last_placed.insert(core_type, address);
                // Below the one before: the ring began anew.
                wraps += u64::from(before.is_some_and(|before| address < before));
                taken.places.push((core_type, address, size_bytes));
            }
        }
        self.counts.ring_wraps += wraps;
        self.report_ring(&taken);
        Ok(())
    }

    fn report_ring(&mut self, taken: &ConfigRingTaken) {
        let ConfigRingTaken {
            mesh,
            sub_device,
            program,
            waited_for,
            ..
        } = *taken;
        for (core_type, _address, size_bytes) in &taken.places {
            self.counts.ring_stalls += u64::from(waited_for.is_some());
            self.track(EventKind::ConfigRingReserved {
                mesh,
                sub_device,
                core_type: *core_type,
                stalled: waited_for.is_some(),
                size_bytes: *size_bytes,
                sync: waited_for.unwrap_or(0),
            });
        }
        if let Some(sync) = waited_for {
            // What is waited for has left the rings of every kind of core.
            for core_type in ring_core_types(self.map) {
                self.track(EventKind::ConfigRingFreed {
                    mesh,
                    sub_device,
                    core_type,
                    sync,
                });
            }
        }
        for (core_type, address, size_bytes) in &taken.places {
            self.track(EventKind::ConfigRingAllocated {
                mesh,
                sub_device,
                core_type: *core_type,
                program,
                address: *address,
                size_bytes: *size_bytes,
                sync: taken.done,
            });
        }
    }

    /// Asks the prefetcher's cache for the binaries, which places them if they are not there.
    fn prefetch(&mut self, id: Workload, workload: &WorkloadState) -> Result<(), RuntimeError> {
        let size_bytes = largest_binary(workload);
        if size_bytes == 0 {
            // What is not cached writes over what is.
            return self.reset_prefetcher(workload.mesh);
        }
        let state = self.mesh_state_mut(workload.mesh)?;
        let mesh = state.id;
        let Some(cache) = state.prefetcher.as_mut() else {
            return Ok(());
        };
        match cache.look_up(id.0, size_bytes) {
            Some(found) => {
                if found.hit {
                    self.counts.prefetch_hits += 1;
                } else {
                    self.counts.prefetch_misses += 1;
                }
                self.track(EventKind::Prefetched {
                    mesh,
                    workload: id.0,
                    offset: found.offset,
                    size_bytes,
                    hit: found.hit,
                });
            }
            None => self.track(EventKind::PrefetchReset { mesh }),
        }
        Ok(())
    }

    fn send(&mut self, workload: &WorkloadState, run: &Run<'_>) {
        let operation = self.operation(run.operation);
        let runtime_id = self.next_run;
        let hit = run.program_cache == CacheResult::Hit;
        for part in &workload.parts {
            let devices = u64::try_from(part.devices.len()).unwrap_or(u64::MAX);
            self.counts.dispatches += devices;
            self.counts.program_cache_hits += if hit { devices } else { 0 };
            self.track(EventKind::Dispatched {
                mesh: part.mesh,
                program: part.program.id(),
                runtime_id,
                operation,
                program_cache: run.program_cache,
                binary_reused: workload.status == BinaryStatus::Committed,
                path: DispatchPath::Fast,
            });
        }
    }

    /// The prefetcher's cache holds something else from now on.
    pub(super) fn reset_prefetcher(&mut self, mesh: Mesh) -> Result<(), RuntimeError> {
        let state = self.mesh_state_mut(mesh)?;
        let id = state.id;
        if let Some(cache) = state.prefetcher.as_mut() {
            cache.reset();
            self.track(EventKind::PrefetchReset { mesh: id });
        }
        Ok(())
    }
}

/// Room that a program took in the rings of a sub-device.
#[derive(Debug)]
struct ConfigRingTaken {
    mesh: MeshId,
    sub_device: u8,
    program: ProgramId,
    /// Completions that it waits for; what they belong to may go.
    waited_for: Option<u64>,
    done: u64,
    /// Kind of core, address, bytes.
    places: Vec<(CoreType, u64, u64)>,
}

fn largest_binary(workload: &WorkloadState) -> u64 {
    let sizes = workload
        .parts
        .iter()
        .map(|part| part.program.binary_bytes());
    sizes.max().unwrap_or(0)
}

/// What every run of a workload takes of its devices.
#[derive(Debug, Default)]
pub(super) struct Footprint {
    /// Compute cores that run a kernel of the first program.
    pub(super) compute_cores: CoreSet,
    /// Whether any program has kernels on compute cores.
    compute: bool,
    /// Whether any has kernels on Ethernet cores.
    ethernet: bool,
    /// Bytes of the config ring of each kind of core, then the launch slots.
    ring_bytes: Vec<u64>,
}

impl Footprint {
    fn of(parts: &[Part], map: &MemoryMap) -> Self {
        let compute = parts.iter().any(|part| part.program.uses(CoreType::Tensix));
        let on_ethernet = |part: &Part| {
            part.program.uses(CoreType::ActiveEth) || part.program.uses(CoreType::IdleEth)
        };
        let ethernet = parts.iter().any(on_ethernet);
        let total = |core_type: CoreType| {
            let configs = parts.iter().filter_map(|part| part.program.config());
            let totals = configs.map(|config| config.of(core_type).total);
            totals.max().unwrap_or(0)
        };
        let mut ring_bytes: Vec<u64> = ring_core_types(map).map(total).collect();
        ring_bytes.push(u64::from(compute));
        ring_bytes.push(u64::from(ethernet));
        let first = parts
            .first()
            .map(|part| part.program.cores(CoreType::Tensix));
        Self {
            compute_cores: first.unwrap_or_default(),
            compute,
            ethernet,
            ring_bytes,
        }
    }

    /// Cores that report when a run is done: all of the sub-device and of the chip, not only those
    /// that have a kernel.
    pub(super) fn workers(&self, sub_device: &CoreSet, ethernet_cores: u32) -> u64 {
        let compute = if self.compute { sub_device.len() } else { 0 };
        let ethernet = if self.ethernet { ethernet_cores } else { 0 };
        u64::from(compute) + u64::from(ethernet)
    }
}

/// What the cached commands of a program come to: arguments of every core, configuration, frame.
pub(super) fn command_bytes(program: &Program) -> u64 {
    let mut bytes = COMMAND_FRAME_BYTES;
    for kernel in program.kernels() {
        let cores = u64::from(kernel.spec.cores.set().len());
        let unique = u64::from(kernel.spec.runtime_args) * 4 * cores;
        bytes += unique + u64::from(kernel.spec.common_args) * 4;
    }
    let config = program.config().map(|config| config.per_core_type);
    for layout in config.iter().flatten() {
        bytes += layout.total - layout.text_bytes;
    }
    bytes.next_multiple_of(16)
}
