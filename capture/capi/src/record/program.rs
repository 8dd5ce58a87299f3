//! Programs, their per-core storage, their kernels, and their dispatch.
#![expect(unsafe_code, reason = "exports C symbols by their names")]

use crate::code::ttmem_code_t;
use crate::constants::{
    ttmem_binary_status_t, ttmem_cache_result_t, ttmem_cb_kind_t, ttmem_clash_kind_t,
    ttmem_core_type_t, ttmem_dispatch_path_t, ttmem_flag_t, ttmem_kernel_kind_t,
};
use crate::ids::{
    ttmem_cores_id_t, ttmem_kernel_id_t, ttmem_mesh_id_t, ttmem_program_id_t, ttmem_text_id_t,
};

/// A program was constructed.
///
/// `program` is from ttmem_program_next, `name` is the operation's; `runtime_id` and `pointer`, which the
/// runtime reuses, are only shown.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_program_created(
    program: ttmem_program_id_t,
    name: ttmem_text_id_t,
    runtime_id: u64,
    pointer: u64,
) -> ttmem_code_t {
    record!(ProgramCreated: program, name, runtime_id, pointer)
}

/// The offsets of a program were fixed.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ttmem_program_finalized_t {
    /// The program.
    pub program: ttmem_program_id_t,
    /// Bytes of configuration per core.
    pub config_bytes: u64,
    /// Bytes of kernel text per core.
    pub text_bytes: u64,
    /// Bytes of all binaries packed for DRAM.
    pub binary_bytes: u64,
    /// The devices.
    pub mesh: ttmem_mesh_id_t,
    /// Zero.
    pub reserved: [u8; 4],
}

/// The offsets of a program were fixed.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_program_finalized(
    event: Option<&ttmem_program_finalized_t>,
) -> ttmem_code_t {
    record_at!(event, ProgramFinalized: program, config_bytes, text_bytes, binary_bytes, mesh)
}

/// The commands of a program were generated for the first time.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_commands_cached(
    mesh: ttmem_mesh_id_t,
    program: ttmem_program_id_t,
    bytes: u64,
) -> ttmem_code_t {
    record!(CommandsCached: mesh, program, bytes)
}

/// The binary of a program was written to the devices: `bytes` to each.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_binary_sent(
    mesh: ttmem_mesh_id_t,
    program: ttmem_program_id_t,
    bytes: u64,
) -> ttmem_code_t {
    record!(BinarySent: mesh, program, bytes)
}

/// The state of a program's binary changed.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_binary_status_changed(
    mesh: ttmem_mesh_id_t,
    program: ttmem_program_id_t,
    status: ttmem_binary_status_t,
) -> ttmem_code_t {
    record!(BinaryStatusChanged: mesh, program, status)
}

/// A program was sent to run.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ttmem_program_dispatched_t {
    /// The program.
    pub program: ttmem_program_id_t,
    /// The runtime's id of this run.
    pub runtime_id: u64,
    /// The devices.
    pub mesh: ttmem_mesh_id_t,
    /// The operation that ran it; 0 = not known.
    pub operation: ttmem_text_id_t,
    /// Whether the program came from the program cache.
    pub program_cache: ttmem_cache_result_t,
    /// Whether the binary on the device was reused.
    pub binary_reused: ttmem_flag_t,
    /// The way it went.
    pub path: ttmem_dispatch_path_t,
    /// Zero.
    pub reserved: [u8; 5],
}

/// A program was sent to run.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_program_dispatched(
    event: Option<&ttmem_program_dispatched_t>,
) -> ttmem_code_t {
    record_at!(event, Dispatched:
        mesh, program, runtime_id, operation, program_cache, binary_reused, path
    )
}

/// A program was destroyed: its storage and its kernels are gone.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_program_destroyed(program: ttmem_program_id_t) -> ttmem_code_t {
    record!(ProgramDestroyed: program)
}

/// A program's per-core storage was refused.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ttmem_program_clashed_t {
    /// The program.
    pub program: ttmem_program_id_t,
    /// Where the storage would end.
    pub region_end: u64,
    /// What it met: the lowest buffer, or the end of L1.
    pub limit: u64,
    /// The devices.
    pub mesh: ttmem_mesh_id_t,
    /// Where.
    pub cores: ttmem_cores_id_t,
    /// Why.
    pub kind: ttmem_clash_kind_t,
    /// Zero.
    pub reserved: [u8; 3],
    /// The lower half of the first buffer id of the call that failed; 0 = not known.
    pub call_first: u32,
}

/// A program's per-core storage was refused.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_program_clashed(event: Option<&ttmem_program_clashed_t>) -> ttmem_code_t {
    record_at!(event, Clashed: program, region_end, limit, mesh, cores, kind, call_first)
}

/// A program placed per-core storage: a circular or dataflow buffer, or a scratchpad.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ttmem_cb_allocated_t {
    /// The program.
    pub program: ttmem_program_id_t,
    /// Its address on every core.
    pub address: u64,
    /// Bytes on every core.
    pub size_bytes: u64,
    /// The devices.
    pub mesh: ttmem_mesh_id_t,
    /// Number of this storage within the program.
    pub cb: u32,
    /// The cores.
    pub cores: ttmem_cores_id_t,
    /// What it is.
    pub kind: ttmem_cb_kind_t,
    /// Zero.
    pub reserved: [u8; 3],
}

/// A program placed per-core storage: a circular or dataflow buffer, or a scratchpad.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_cb_allocated(event: Option<&ttmem_cb_allocated_t>) -> ttmem_code_t {
    record_at!(event, CbAllocated: program, address, size_bytes, mesh, cb, cores, kind)
}

/// A program gave back per-core storage.
///
/// `cb` is its number within the program, or TTMEM_CB_ALL.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_cb_freed(
    mesh: ttmem_mesh_id_t,
    program: ttmem_program_id_t,
    cb: u32,
) -> ttmem_code_t {
    record!(CbFreed: mesh, program, cb)
}

/// A kernel of a program is on its cores.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ttmem_kernel_loaded_t {
    /// The program.
    pub program: ttmem_program_id_t,
    /// The binary.
    pub kernel: ttmem_kernel_id_t,
    /// Bytes on each core.
    pub binary_bytes: u64,
    /// The devices.
    pub mesh: ttmem_mesh_id_t,
    /// The kernel's name; 0 = not known.
    pub name: ttmem_text_id_t,
    /// The cores; 0 = their places are not known.
    pub cores: ttmem_cores_id_t,
    /// How many cores, when their places are not known.
    pub core_count: u32,
    /// What it is for.
    pub kind: ttmem_kernel_kind_t,
    /// The kind of core it runs on.
    pub core_type: ttmem_core_type_t,
    /// Zero.
    pub reserved: [u8; 6],
}

/// A kernel of a program is on its cores.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_kernel_loaded(event: Option<&ttmem_kernel_loaded_t>) -> ttmem_code_t {
    record_at!(event, KernelLoaded:
        mesh, program, kernel, name, binary_bytes, cores, core_count, kind, core_type
    )
}

/// Kernels of a program left their cores.
///
/// `kernel` is the binary, or TTMEM_KERNEL_ALL.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_kernel_unloaded(
    mesh: ttmem_mesh_id_t,
    program: ttmem_program_id_t,
    kernel: ttmem_kernel_id_t,
) -> ttmem_code_t {
    record!(KernelUnloaded: mesh, program, kernel)
}
