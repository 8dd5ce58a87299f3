//! Identifiers, as C sees them.
//!
//! Each is meaningful only inside the process that uses it.

/// A device allocation, from creation to release: see ttmem_buffer_next. Never an address.
pub type ttmem_buffer_id_t = u64;
/// A program, from construction to destruction: see ttmem_program_next. Never a pointer.
pub type ttmem_program_id_t = u64;
/// A kernel binary: equal binaries have equal ids, such as a hash of their content.
pub type ttmem_kernel_id_t = u64;
/// A defined text; 0 means none. See ttmem_text_define.
pub type ttmem_text_id_t = u32;
/// A defined core set; 0 means none. See ttmem_cores_define.
pub type ttmem_cores_id_t = u32;
/// A defined physical device. See ttmem_device_define.
pub type ttmem_device_id_t = u32;
/// A defined mesh: the devices that a report is about. See ttmem_mesh_define.
pub type ttmem_mesh_id_t = u32;
/// A captured trace of one mesh: the runtime's own number.
pub type ttmem_trace_id_t = u32;

/// In ttmem_kernel_unloaded: all kernels of the program.
pub const TTMEM_KERNEL_ALL: ttmem_kernel_id_t = 0xFFFF_FFFF_FFFF_FFFF;
/// In ttmem_cb_freed: all storage of the program.
pub const TTMEM_CB_ALL: u32 = 0xFFFF_FFFF;
