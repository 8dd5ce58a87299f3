//! The tracker's calls by the names that a runtime's hooks have.
//!
//! Each is one event; what has no name here is recorded with [`Tracker::track`].

use crate::Tracker;
use ttmem_event::{
    BufferId, CacheResult, CbKind, Class, CoreType, CoresId, DeviceId, Direction, DispatchPath,
    EventKind, KernelId, KernelKind, Layout, MeshId, ProgramId, TextId,
};

/// A buffer that was placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    pub mesh: MeshId,
    pub buffer: BufferId,
    pub class: Class,
    /// How it is laid out.
    pub layout: Layout,
    /// Which end of the bank it was taken from.
    pub direction: Direction,
    /// Its address in every bank.
    pub address: u64,
    /// What the caller asked for, over all banks of one device.
    pub requested_bytes: u64,
    /// What each bank gives up.
    pub per_bank_bytes: u64,
    /// How many banks give up bytes.
    pub banks: u16,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// Cores of a buffer that takes only those banks; none = lockstep over all banks.
    pub cores: CoresId,
    /// The operation that asked for it.
    pub operation: TextId,
}

/// Per-core storage that a program placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CbAllocation {
    pub mesh: MeshId,
    pub program: ProgramId,
    /// Number of this storage within the program.
    pub cb: u32,
    pub kind: CbKind,
    /// Its address on every core.
    pub address: u64,
    /// Bytes on every core.
    pub size_bytes: u64,
    pub cores: CoresId,
}

/// A kernel that is on its cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelLoad {
    pub mesh: MeshId,
    pub program: ProgramId,
    pub kernel: KernelId,
    pub name: TextId,
    /// Bytes on each core.
    pub binary_bytes: u64,
    pub cores: CoresId,
    /// How many cores, when their places are not known.
    pub core_count: u32,
    pub kind: KernelKind,
    /// The kind of core it runs on.
    pub core_type: CoreType,
}

/// A program that was sent to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dispatch {
    pub mesh: MeshId,
    pub program: ProgramId,
    /// The runtime's id of this run.
    pub runtime_id: u64,
    /// The operation that ran it.
    pub operation: TextId,
    /// Whether the program came from the program cache.
    pub program_cache: CacheResult,
    /// Whether the binary on the device was reused.
    pub binary_reused: bool,
    pub path: DispatchPath,
}

impl Tracker {
    #[inline(always)]
    pub fn track_allocate(self, new: &Allocation) {
        self.track(EventKind::BufferAllocated {
            mesh: new.mesh,
            buffer: new.buffer,
            class: new.class,
            layout: new.layout,
            direction: new.direction,
            address: new.address,
            requested_bytes: new.requested_bytes,
            per_bank_bytes: new.per_bank_bytes,
            page_bytes: new.page_bytes,
            cores: new.cores,
            operation: new.operation,
            banks: new.banks,
        });
    }

    /// A buffer was given back.
    #[inline(always)]
    pub fn track_deallocate(self, mesh: MeshId, buffer: BufferId) {
        self.track(EventKind::BufferFreed { mesh, buffer });
    }

    /// A program placed per-core storage.
    #[inline(always)]
    pub fn track_allocate_cb(self, new: &CbAllocation) {
        self.track(EventKind::CbAllocated {
            mesh: new.mesh,
            program: new.program,
            cb: new.cb,
            kind: new.kind,
            address: new.address,
            size_bytes: new.size_bytes,
            cores: new.cores,
        });
    }

    /// A program gave back per-core storage: one by its number, or all.
    #[inline(always)]
    pub fn track_deallocate_cb(self, mesh: MeshId, program: ProgramId, cb: Option<u32>) {
        self.track(EventKind::CbFreed { mesh, program, cb });
    }

    #[inline(always)]
    pub fn track_program(self, program: ProgramId, name: TextId, runtime_id: u64, pointer: u64) {
        self.track(EventKind::ProgramCreated {
            program,
            name,
            runtime_id,
            pointer,
        });
    }

    /// A program was destroyed: its storage and its kernels are gone.
    #[inline(always)]
    pub fn track_program_destroyed(self, program: ProgramId) {
        self.track(EventKind::ProgramDestroyed { program });
    }

    /// A kernel of a program is on its cores.
    #[inline(always)]
    pub fn track_kernel_load(self, new: &KernelLoad) {
        self.track(EventKind::KernelLoaded {
            mesh: new.mesh,
            program: new.program,
            kernel: new.kernel,
            name: new.name,
            binary_bytes: new.binary_bytes,
            cores: new.cores,
            core_count: new.core_count,
            kind: new.kind,
            core_type: new.core_type,
        });
    }

    /// Kernels of a program left their cores: one, or all.
    #[inline(always)]
    pub fn track_kernel_unload(self, mesh: MeshId, program: ProgramId, kernel: Option<KernelId>) {
        self.track(EventKind::KernelUnloaded {
            mesh,
            program,
            kernel,
        });
    }

    /// A program was sent to run.
    #[inline(always)]
    pub fn track_dispatch(self, run: &Dispatch) {
        self.track(EventKind::Dispatched {
            mesh: run.mesh,
            program: run.program,
            runtime_id: run.runtime_id,
            operation: run.operation,
            program_cache: run.program_cache,
            binary_reused: run.binary_reused,
            path: run.path,
        });
    }

    /// A physical device was opened.
    #[inline(always)]
    pub fn track_device_open(self, device: DeviceId) {
        self.track(EventKind::DeviceOpened { device });
    }

    /// A physical device was closed: all that the process held on it is gone.
    #[inline(always)]
    pub fn track_device_close(self, device: DeviceId) {
        self.track(EventKind::DeviceClosed { device });
    }

    #[inline(always)]
    pub fn track_mesh_open(self, mesh: MeshId) {
        self.track(EventKind::MeshOpened { mesh });
    }

    /// A mesh was closed: all that its allocators held is gone.
    #[inline(always)]
    pub fn track_mesh_close(self, mesh: MeshId) {
        self.track(EventKind::MeshClosed { mesh });
    }
}
