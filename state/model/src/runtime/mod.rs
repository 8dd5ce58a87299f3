//! The host runtime: devices and meshes, buffers, workloads, both dispatch paths, traces.
//!
//! Everything it does is worked out by the pure modules ([`allocator`](crate::allocator),
//! [`program`](crate::program), [`config_ring`](crate::config_ring), …); this is where they are
//! joined as TT-Metal joins them, and the only place that calls [`Hooks`]. A call that fails
//! leaves behind what the runtime leaves behind.

mod buffers;
mod devices;
mod dispatch;
mod error;
mod fast;
mod meshes;
mod options;
mod slow;
mod sub_devices;
mod system;
mod traces;
mod workloads;

pub use error::{FailureKind, RuntimeError};
pub use options::{RuntimeOptions, Target};
pub use sub_devices::SubDevice;
pub use workloads::{DeviceRange, Run};

use crate::hooks::Hooks;
use crate::jit::KernelCache;
use buffers::BufferState;
use devices::DeviceState;
use meshes::MeshState;
use std::collections::BTreeMap;
use traces::TraceState;
use ttmem_event::catalogue::{Capacities, Grid, MemoryMap};
use ttmem_event::{BufferId, EventKind, TextId};
use workloads::{ProgramPlaces, WorkloadState};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mesh(u32);

/// A live buffer of a mesh.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Buffer(BufferId);

/// A workload: programs over the devices of a mesh.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Workload(u64);

/// A trace of a mesh.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Trace(u32);

/// What the model counted itself, to hold an account of its events against.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub events: u64,
    pub allocations: u64,
    /// Programs sent to run or captured to be run, one per device.
    pub dispatches: u64,
    /// Programs sent to run that came from the program cache, one per device.
    pub program_cache_hits: u64,
    /// Workloads found in a prefetcher cache.
    pub prefetch_hits: u64,
    /// Workloads not found there.
    pub prefetch_misses: u64,
    /// Kernels found compiled on disk.
    pub jit_disk_hits: u64,
    /// Kernels that had to be compiled.
    pub jit_disk_misses: u64,
    /// Times that a program was placed below the one before it in a config ring.
    pub ring_wraps: u64,
    /// Reservations in a config ring that had to wait.
    pub ring_stalls: u64,
    pub trace_replays: u64,
}

pub struct Runtime {
    hooks: Box<dyn Hooks>,
    options: RuntimeOptions,
    capacities: Capacities,
    map: &'static MemoryMap,
    kernel_cache: KernelCache,
    devices: Vec<DeviceState>,
    meshes: BTreeMap<Mesh, MeshState>,
    buffers: BTreeMap<Buffer, BufferState>,
    workloads: BTreeMap<Workload, WorkloadState>,
    traces: BTreeMap<Trace, TraceState>,
    program_places: ProgramPlaces,
    next_mesh: u32,
    next_workload: u64,
    next_trace: u32,
    next_run: u64,
    counts: Counts,
    /// Who calls it, a line for each frame, the innermost first.
    callers: String,
}

impl std::fmt::Debug for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runtime")
            .field("options", &self.options)
            .field("meshes", &self.meshes.len())
            .field("buffers", &self.buffers.len())
            .field("workloads", &self.workloads.len())
            .field("counts", &self.counts)
            .finish_non_exhaustive()
    }
}

impl Runtime {
    /// A runtime that has not opened anything yet.
    ///
    /// # Errors
    /// When the board cannot dispatch that way, or an optional region does not fit.
    pub fn new(hooks: Box<dyn Hooks>, options: RuntimeOptions) -> Result<Self, RuntimeError> {
        let capacities = options.capacities().ok_or(RuntimeError::Options {
            board: options.board.name(),
            dispatch: options.dispatch.name(),
        })?;
        Ok(Self {
            hooks,
            capacities,
            map: options.board.memory_map(),
            kernel_cache: KernelCache::new(),
            devices: devices::chips_of(options.board),
            options,
            meshes: BTreeMap::new(),
            buffers: BTreeMap::new(),
            workloads: BTreeMap::new(),
            traces: BTreeMap::new(),
            program_places: ProgramPlaces::default(),
            next_mesh: 0,
            next_workload: 0,
            next_trace: 0,
            next_run: 0,
            counts: Counts::default(),
            callers: String::new(),
        })
    }

    /// What it was opened with.
    #[must_use]
    pub const fn options(&self) -> &RuntimeOptions {
        &self.options
    }

    /// What the allocator of one chip has to give.
    #[must_use]
    pub const fn capacities(&self) -> &Capacities {
        &self.capacities
    }

    /// The memory layout of the chips.
    #[must_use]
    pub const fn memory_map(&self) -> &'static MemoryMap {
        self.map
    }

    /// The compute cores of each chip.
    #[must_use]
    pub const fn grid(&self) -> Grid {
        self.capacities.compute_grid
    }

    /// The compiler's cache on disk; it outlives devices, and in reality processes.
    pub const fn kernel_cache(&mut self) -> &mut KernelCache {
        &mut self.kernel_cache
    }

    /// What it has counted so far.
    #[must_use]
    pub const fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The user sets a mark.
    pub fn mark(&mut self, name: &str, number: u64) {
        let name = self.hooks.text(name);
        self.track(EventKind::Marked { name, number });
    }

    /// Says who calls it from now on, as a Python stack: `file:line function`, the innermost first.
    pub fn set_callers(&mut self, frames: impl IntoIterator<Item = String>) {
        self.callers.clear();
        for frame in frames {
            self.callers.push('\n');
            // A frame is a line, whatever the file is called.
            self.callers.push_str(&frame.replace(char::is_control, " "));
        }
    }

    /// The text of an operation: its name, and who called it behind that, as ttnn's are reported.
    fn operation(&mut self, name: &str) -> TextId {
        let text = format!("{name}{}", self.callers);
        self.hooks.text(&text)
    }

    fn track(&mut self, event: EventKind) {
        self.counts.events += 1;
        self.hooks.track(event);
    }

    fn mesh_state(&self, mesh: Mesh) -> Result<&MeshState, RuntimeError> {
        self.meshes.get(&mesh).ok_or(RuntimeError::MeshClosed)
    }

    fn mesh_state_mut(&mut self, mesh: Mesh) -> Result<&mut MeshState, RuntimeError> {
        self.meshes.get_mut(&mesh).ok_or(RuntimeError::MeshClosed)
    }
}
