//! Config rings, prefetcher caches, and the compiler's cache.
#![expect(unsafe_code, reason = "exports C symbols by their names")]

use crate::code::ttmem_code_t;
use crate::constants::{ttmem_core_type_t, ttmem_flag_t};
use crate::ids::{ttmem_kernel_id_t, ttmem_mesh_id_t, ttmem_program_id_t, ttmem_text_id_t};

/// A kernel config ring exists.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ttmem_config_ring_opened_t {
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

/// A kernel config ring exists.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_config_ring_opened(
    event: Option<&ttmem_config_ring_opened_t>,
) -> ttmem_code_t {
    record_at!(event, ConfigRingOpened: base, size_bytes, mesh, sub_device, core_type)
}

/// Room in a config ring was asked for.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ttmem_config_ring_reserved_t {
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

/// Room in a config ring was asked for.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_config_ring_reserved(
    event: Option<&ttmem_config_ring_reserved_t>,
) -> ttmem_code_t {
    record_at!(event, ConfigRingReserved: size_bytes, sync, mesh, sub_device, core_type, stalled)
}

/// A program took room in a config ring.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ttmem_config_ring_allocated_t {
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

/// A program took room in a config ring.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_config_ring_allocated(
    event: Option<&ttmem_config_ring_allocated_t>,
) -> ttmem_code_t {
    record_at!(event, ConfigRingAllocated:
        mesh, sub_device, core_type, program, address, size_bytes, sync
    )
}

/// Room in a config ring was given back: the oldest entries up to `sync`.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_config_ring_freed(
    mesh: ttmem_mesh_id_t,
    sub_device: u8,
    core_type: ttmem_core_type_t,
    sync: u64,
) -> ttmem_code_t {
    record!(ConfigRingFreed: mesh, sub_device, core_type, sync)
}

/// A config ring was marked full: its entries are gone, and it is free again at `sync`.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_config_ring_filled(
    mesh: ttmem_mesh_id_t,
    sub_device: u8,
    core_type: ttmem_core_type_t,
    sync: u64,
) -> ttmem_code_t {
    record!(ConfigRingFilled: mesh, sub_device, core_type, sync)
}

/// A prefetcher cache exists.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_prefetch_opened(mesh: ttmem_mesh_id_t, size_bytes: u64) -> ttmem_code_t {
    record!(PrefetchOpened: mesh, size_bytes)
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

/// The prefetcher cache was asked for a workload.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_prefetched(event: Option<&ttmem_prefetched_t>) -> ttmem_code_t {
    record_at!(event, Prefetched: workload, offset, size_bytes, mesh, hit)
}

/// The prefetcher cache was emptied.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_prefetch_reset(mesh: ttmem_mesh_id_t) -> ttmem_code_t {
    record!(PrefetchReset: mesh)
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
    record!(JitDiskLookup: program, kernel, name, hit)
}
