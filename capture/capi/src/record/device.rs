//! Devices, meshes, traces and marks.
#![expect(unsafe_code, reason = "exports C symbols by their names")]

use crate::code::ttmem_code_t;
use crate::ids::{ttmem_device_id_t, ttmem_mesh_id_t, ttmem_text_id_t, ttmem_trace_id_t};

/// A physical device was opened.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_device_opened(device: ttmem_device_id_t) -> ttmem_code_t {
    record!(DeviceOpened: device)
}

/// A physical device was closed: all that the process held on it is gone.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_device_closed(device: ttmem_device_id_t) -> ttmem_code_t {
    record!(DeviceClosed: device)
}

/// A mesh was opened.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_mesh_opened(mesh: ttmem_mesh_id_t) -> ttmem_code_t {
    record!(MeshOpened: mesh)
}

/// A mesh was closed: all that its allocators held is gone.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_mesh_closed(mesh: ttmem_mesh_id_t) -> ttmem_code_t {
    record!(MeshClosed: mesh)
}

/// Capturing a trace began.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_trace_began(
    mesh: ttmem_mesh_id_t,
    trace: ttmem_trace_id_t,
) -> ttmem_code_t {
    record!(TraceBegan: mesh, trace)
}

/// Capturing a trace ended: its commands take `bytes` on each device.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_trace_ended(
    mesh: ttmem_mesh_id_t,
    trace: ttmem_trace_id_t,
    bytes: u64,
) -> ttmem_code_t {
    record!(TraceEnded: mesh, trace, bytes)
}

/// A trace was run.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_trace_replayed(
    mesh: ttmem_mesh_id_t,
    trace: ttmem_trace_id_t,
) -> ttmem_code_t {
    record!(TraceReplayed: mesh, trace)
}

/// A trace was given up.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_trace_released(
    mesh: ttmem_mesh_id_t,
    trace: ttmem_trace_id_t,
) -> ttmem_code_t {
    record!(TraceReleased: mesh, trace)
}

/// The user set a mark: peaks are also counted from here.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_mark_set(name: ttmem_text_id_t, number: u64) -> ttmem_code_t {
    record!(Marked: name, number)
}
