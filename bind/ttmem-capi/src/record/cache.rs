//! Config rings, prefetcher caches, and the compiler's cache.
#![expect(
    unsafe_code,
    reason = "exports C symbols by their names, and takes pointers from C"
)]

use super::{Reported, record, record_at};
use crate::code::ttmem_code_t;
use crate::ids::{ttmem_kernel_id_t, ttmem_mesh_id_t, ttmem_program_id_t, ttmem_text_id_t};
use crate::words::{to_core_type, to_flag, ttmem_core_type_t, ttmem_flag_t};
use ttmem_event::{EventKind, KernelId, MeshId, ProgramId, TextId};

/// A kernel config ring exists.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ttmem_ring_opened_t {
    /// First address.
    pub base: u64,
    /// Bytes per core.
    pub size_bytes: u64,
    /// The devices.
    pub mesh: ttmem_mesh_id_t,
    /// The sub-device it belongs to.
    pub sub_device: u8,
    /// The kind of core it lies on.
    pub core_type: ttmem_core_type_t,
    /// Zero.
    pub reserved: [u8; 2],
}

const _: () = assert!(size_of::<ttmem_ring_opened_t>() == 24);

impl Reported for ttmem_ring_opened_t {
    #[inline(always)]
    fn event(&self) -> Option<EventKind> {
        Some(EventKind::RingOpened {
            base: self.base,
            size_bytes: self.size_bytes,
            mesh: MeshId(self.mesh),
            sub_device: self.sub_device,
            core_type: to_core_type(self.core_type)?,
        })
    }
}

/// A kernel config ring exists.
///
/// # Safety
/// `event` is null or points to a readable structure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ttmem_ring_opened(event: *const ttmem_ring_opened_t) -> ttmem_code_t {
    // SAFETY: passed on from the caller.
    unsafe { record_at(event) }
}

/// Room in a config ring was asked for.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ttmem_ring_reserved_t {
    /// Bytes asked for.
    pub size_bytes: u64,
    /// What to wait for.
    pub sync: u64,
    /// The devices.
    pub mesh: ttmem_mesh_id_t,
    /// The sub-device.
    pub sub_device: u8,
    /// The kind of core.
    pub core_type: ttmem_core_type_t,
    /// Whether dispatch must wait for earlier programs.
    pub stalled: ttmem_flag_t,
    /// Zero.
    pub reserved: u8,
}

const _: () = assert!(size_of::<ttmem_ring_reserved_t>() == 24);

impl Reported for ttmem_ring_reserved_t {
    #[inline(always)]
    fn event(&self) -> Option<EventKind> {
        Some(EventKind::RingReserved {
            size_bytes: self.size_bytes,
            sync: self.sync,
            mesh: MeshId(self.mesh),
            sub_device: self.sub_device,
            core_type: to_core_type(self.core_type)?,
            stalled: to_flag(self.stalled)?,
        })
    }
}

/// Room in a config ring was asked for.
///
/// # Safety
/// `event` is null or points to a readable structure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ttmem_ring_reserved(event: *const ttmem_ring_reserved_t) -> ttmem_code_t {
    // SAFETY: passed on from the caller.
    unsafe { record_at(event) }
}

/// A program took room in a config ring.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ttmem_ring_allocated_t {
    /// The program.
    pub program: ttmem_program_id_t,
    /// Where.
    pub address: u64,
    /// How much.
    pub size_bytes: u64,
    /// When this number of completions is reached, it may go.
    pub sync: u64,
    /// The devices.
    pub mesh: ttmem_mesh_id_t,
    /// The sub-device.
    pub sub_device: u8,
    /// The kind of core.
    pub core_type: ttmem_core_type_t,
    /// Zero.
    pub reserved: [u8; 2],
}

const _: () = assert!(size_of::<ttmem_ring_allocated_t>() == 40);

impl Reported for ttmem_ring_allocated_t {
    #[inline(always)]
    fn event(&self) -> Option<EventKind> {
        Some(EventKind::RingAllocated {
            program: ProgramId(self.program),
            address: self.address,
            size_bytes: self.size_bytes,
            sync: self.sync,
            mesh: MeshId(self.mesh),
            sub_device: self.sub_device,
            core_type: to_core_type(self.core_type)?,
        })
    }
}

/// A program took room in a config ring.
///
/// # Safety
/// `event` is null or points to a readable structure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ttmem_ring_allocated(
    event: *const ttmem_ring_allocated_t,
) -> ttmem_code_t {
    // SAFETY: passed on from the caller.
    unsafe { record_at(event) }
}

/// Room in a config ring was given back: the oldest entries up to `sync`.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_ring_freed(
    mesh: ttmem_mesh_id_t,
    sub_device: u8,
    core_type: ttmem_core_type_t,
    sync: u64,
) -> ttmem_code_t {
    record(|| {
        Some(EventKind::RingFreed {
            mesh: MeshId(mesh),
            sub_device,
            core_type: to_core_type(core_type)?,
            sync,
        })
    })
}

/// A config ring was marked full: its entries are gone, and it is free again at `sync`.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_ring_filled(
    mesh: ttmem_mesh_id_t,
    sub_device: u8,
    core_type: ttmem_core_type_t,
    sync: u64,
) -> ttmem_code_t {
    record(|| {
        Some(EventKind::RingFilled {
            mesh: MeshId(mesh),
            sub_device,
            core_type: to_core_type(core_type)?,
            sync,
        })
    })
}

/// A prefetcher cache exists.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_prefetch_opened(mesh: ttmem_mesh_id_t, size_bytes: u64) -> ttmem_code_t {
    record(|| {
        Some(EventKind::PrefetchOpened {
            mesh: MeshId(mesh),
            size_bytes,
        })
    })
}

/// The prefetcher cache was asked for a workload.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ttmem_prefetched_t {
    /// The workload.
    pub workload: u64,
    /// Where it is now.
    pub offset: u64,
    /// Its bytes.
    pub size_bytes: u64,
    /// The devices.
    pub mesh: ttmem_mesh_id_t,
    /// Whether it was there already.
    pub hit: ttmem_flag_t,
    /// Zero.
    pub reserved: [u8; 3],
}

const _: () = assert!(size_of::<ttmem_prefetched_t>() == 32);

impl Reported for ttmem_prefetched_t {
    #[inline(always)]
    fn event(&self) -> Option<EventKind> {
        Some(EventKind::Prefetched {
            workload: self.workload,
            offset: self.offset,
            size_bytes: self.size_bytes,
            mesh: MeshId(self.mesh),
            hit: to_flag(self.hit)?,
        })
    }
}

/// The prefetcher cache was asked for a workload.
///
/// # Safety
/// `event` is null or points to a readable structure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ttmem_prefetched(event: *const ttmem_prefetched_t) -> ttmem_code_t {
    // SAFETY: passed on from the caller.
    unsafe { record_at(event) }
}

/// The prefetcher cache was emptied.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_prefetch_reset(mesh: ttmem_mesh_id_t) -> ttmem_code_t {
    record(|| Some(EventKind::PrefetchReset { mesh: MeshId(mesh) }))
}

/// The compiler's cache on disk was asked for a kernel.
///
/// `program`, `kernel` and `name` are 0 when not known.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_jit_disk_lookup(
    program: ttmem_program_id_t,
    kernel: ttmem_kernel_id_t,
    name: ttmem_text_id_t,
    hit: ttmem_flag_t,
) -> ttmem_code_t {
    record(|| {
        Some(EventKind::JitDiskLookup {
            program: ProgramId(program),
            kernel: KernelId(kernel),
            name: TextId(name),
            hit: to_flag(hit)?,
        })
    })
}
