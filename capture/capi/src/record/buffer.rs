//! Buffers and the allocators they come from.
#![expect(unsafe_code, reason = "exports C symbols by their names")]

use crate::code::ttmem_code_t;
use crate::constants::{ttmem_class_t, ttmem_direction_t, ttmem_layout_t};
use crate::ids::{ttmem_buffer_id_t, ttmem_cores_id_t, ttmem_mesh_id_t, ttmem_text_id_t};

/// A buffer was placed.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ttmem_buffer_allocated_t {
    /// The new buffer, from ttmem_buffer_next.
    pub buffer: ttmem_buffer_id_t,
    /// Its address in every bank.
    pub address: u64,
    /// What the caller asked for, over all banks of one device.
    pub requested_bytes: u64,
    /// What each bank gives up.
    pub per_bank_bytes: u64,
    /// The allocator's mesh.
    pub mesh: ttmem_mesh_id_t,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// Cores of a buffer that takes only those banks; 0 = lockstep over all banks.
    pub cores: ttmem_cores_id_t,
    /// The operation that asked for it; 0 = not known.
    pub operation: ttmem_text_id_t,
    /// How many banks give up bytes.
    pub banks: u16,
    /// Where it lives.
    pub memory_class: ttmem_class_t,
    /// How it is laid out.
    pub layout: ttmem_layout_t,
    /// Which end of the bank it was taken from.
    pub direction: ttmem_direction_t,
    /// Zero.
    pub reserved: [u8; 3],
}

/// A buffer was placed.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_buffer_allocated(event: Option<&ttmem_buffer_allocated_t>) -> ttmem_code_t {
    record_at!(event, BufferAllocated:
        mesh, buffer, class = memory_class, layout, direction, address, requested_bytes,
        per_bank_bytes, page_bytes, cores, operation, banks
    )
}

/// A buffer was given back.
///
/// What is given back is what was booked for it.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_buffer_freed(
    mesh: ttmem_mesh_id_t,
    buffer: ttmem_buffer_id_t,
) -> ttmem_code_t {
    record!(BufferFreed: mesh, buffer)
}

/// Every buffer of an allocator was given back at once.
///
/// `memory_class` may be TTMEM_CLASS_ALL.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_buffers_released(
    mesh: ttmem_mesh_id_t,
    memory_class: ttmem_class_t,
) -> ttmem_code_t {
    record!(BuffersReleased: mesh, class = memory_class)
}

/// What an allocator can hand out, as the runtime reports it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ttmem_capacity_reported_t {
    /// First address in a bank.
    pub base: u64,
    /// Bytes of a bank.
    pub per_bank_bytes: u64,
    /// The allocator's mesh.
    pub mesh: ttmem_mesh_id_t,
    /// Every address and size is a multiple of this.
    pub alignment: u32,
    /// Banks of one device.
    pub banks: u16,
    /// The class.
    pub memory_class: ttmem_class_t,
    /// Zero.
    pub reserved: [u8; 5],
}

/// What an allocator can hand out, as the runtime reports it.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_capacity_reported(
    event: Option<&ttmem_capacity_reported_t>,
) -> ttmem_code_t {
    record_at!(event, CapacityReported:
        mesh, class = memory_class, banks, base, per_bank_bytes, alignment
    )
}

/// An allocation was refused.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ttmem_allocation_failed_t {
    /// Asked for, over all banks.
    pub requested_bytes: u64,
    /// Asked for in each bank.
    pub per_bank_bytes: u64,
    /// Free in each bank.
    pub free_bytes: u64,
    /// Largest free block of a bank.
    pub largest_free_bytes: u64,
    /// Bytes of a bank.
    pub bank_bytes: u64,
    /// The allocator's mesh.
    pub mesh: ttmem_mesh_id_t,
    /// The operation that asked; 0 = not known.
    pub operation: ttmem_text_id_t,
    /// Banks.
    pub banks: u16,
    /// The class.
    pub memory_class: ttmem_class_t,
    /// Zero.
    pub reserved: [u8; 1],
    /// The lower half of the first buffer id of the call that failed; 0 = not known.
    pub call_first: u32,
}

/// An allocation was refused.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_allocation_failed(
    event: Option<&ttmem_allocation_failed_t>,
) -> ttmem_code_t {
    record_at!(event, AllocationFailed:
        mesh, class = memory_class, banks, requested_bytes, per_bank_bytes, free_bytes,
        largest_free_bytes, bank_bytes, operation, call_first
    )
}

/// The allocator's own statistics, for the server to compare its account with.
///
/// `allocated_bytes` are taken in each bank; `largest_free_bytes` is the largest free block of one.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_statistics_reported(
    mesh: ttmem_mesh_id_t,
    memory_class: ttmem_class_t,
    allocated_bytes: u64,
    largest_free_bytes: u64,
) -> ttmem_code_t {
    record!(StatisticsReported: mesh, class = memory_class, allocated_bytes, largest_free_bytes)
}
