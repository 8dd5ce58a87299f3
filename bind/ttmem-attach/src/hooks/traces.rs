//! Traces: captured, replayed, released.

#![expect(unsafe_code, reason = "is called in place of the runtime's functions")]

use super::{OnException, interpose};
use crate::family::Family;
use crate::runtime::Object;
use crate::{places, report};
use std::cell::Cell;
use ttmem_event::{MeshId, TraceId};

pub(crate) static FAMILY: Family = Family::new("traces");

thread_local! {
    /// Bytes that this thread has placed in trace regions while it ends a capture.
    static TRACE_BYTES: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Counts a buffer in a trace region towards the capture that this thread ends.
#[cold]
pub(super) fn count_trace_buffer(size_bytes: u64) {
    let _ending = TRACE_BYTES.try_with(|bytes| {
        if let Some(so_far) = bytes.get() {
            bytes.set(Some(so_far.saturating_add(size_bytes)));
        }
    });
}

fn begin_counting() {
    let _ending = TRACE_BYTES.try_with(|bytes| bytes.set(Some(0)));
}

fn end_counting() -> u64 {
    let counted = TRACE_BYTES.try_with(Cell::take);
    counted.ok().flatten().unwrap_or_default()
}

/// Tells something of a trace of a mesh, which is known by its implementation.
///
/// # Safety
/// `trace` is the place of a trace's number.
unsafe fn tell(mesh: Object, trace: Object, report: impl FnOnce(MeshId, TraceId)) -> Option<()> {
    if !FAMILY.is_on() || !report::is_on() || trace.is_null() {
        return None;
    }
    let mesh = places::known_place(mesh)?.mesh;
    // SAFETY: as the caller vouches.
    let trace = TraceId(unsafe { trace.cast::<u32>().read() });
    FAMILY.contain(|| report(mesh, trace));
    Some(())
}

interpose! {
    /// `void MeshDeviceImpl::begin_mesh_trace(u8, MeshTraceId const&)`.
    "_ZN2tt8tt_metal11distributed14MeshDeviceImpl16begin_mesh_traceEhRKN4ttsl10StrongTypeIjNS1_14MeshTraceIdTagEEE"
    fn begin_mesh_trace(mesh: Object, queue: u64, trace: Object) |real| {
        // SAFETY: the caller's own arguments.
        unsafe { real(mesh, queue, trace) };
        // SAFETY: the caller passes a trace's number.
        unsafe { tell(mesh, trace, report::trace_began) };
    }
}

interpose! {
    /// `void MeshDeviceImpl::end_mesh_trace(u8, MeshTraceId const&)`: places the trace's commands.
    "_ZN2tt8tt_metal11distributed14MeshDeviceImpl14end_mesh_traceEhRKN4ttsl10StrongTypeIjNS1_14MeshTraceIdTagEEE"
    fn end_mesh_trace(mesh: Object, queue: u64, trace: Object) |real| {
        begin_counting();
        let failed = OnException::new(|| {
            end_counting();
        });
        // SAFETY: the caller's own arguments.
        unsafe { real(mesh, queue, trace) };
        failed.disarm();
        let bytes = end_counting();
        // SAFETY: the caller passes a trace's number.
        unsafe { tell(mesh, trace, |mesh, trace| report::trace_ended(mesh, trace, bytes)) };
    }
}

interpose! {
    /// `void MeshDeviceImpl::replay_mesh_trace(u8, MeshTraceId const&, bool)`.
    "_ZN2tt8tt_metal11distributed14MeshDeviceImpl17replay_mesh_traceEhRKN4ttsl10StrongTypeIjNS1_14MeshTraceIdTagEEEb"
    fn replay_mesh_trace(mesh: Object, queue: u64, trace: Object, blocking: u64) |real| {
        // SAFETY: the caller's own arguments.
        unsafe { real(mesh, queue, trace, blocking) };
        // SAFETY: the caller passes a trace's number.
        unsafe { tell(mesh, trace, report::trace_replayed) };
    }
}

interpose! {
    /// `void MeshDeviceImpl::release_mesh_trace(MeshTraceId const&)`.
    "_ZN2tt8tt_metal11distributed14MeshDeviceImpl18release_mesh_traceERKN4ttsl10StrongTypeIjNS1_14MeshTraceIdTagEEE"
    fn release_mesh_trace(mesh: Object, trace: Object) |real| {
        // The number may lie in what is released, so a copy of it is kept.
        let number = if trace.is_null() {
            0
        } else {
            // SAFETY: the caller passes a trace's number.
            unsafe { trace.cast::<u32>().read() }
        };
        // SAFETY: the caller's own arguments.
        unsafe { real(mesh, trace) };
        // SAFETY: it is the copy.
        unsafe { tell(mesh, (&raw const number).cast(), report::trace_released) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_buffers_placed_while_a_capture_ends_count() {
        count_trace_buffer(5);
        begin_counting();
        count_trace_buffer(100);
        count_trace_buffer(20);
        assert_eq!(end_counting(), 120);
        assert_eq!(end_counting(), 0);
    }
}
