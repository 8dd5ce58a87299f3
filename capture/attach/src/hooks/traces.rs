//! Traces: captured, replayed, released.

#![expect(unsafe_code, reason = "is called in place of the runtime's functions")]

use super::interpose;
use crate::call_context::{self, Slot, during};
use crate::family::Family;
use crate::runtime::Object;
use crate::{open_devices, report};
use ttmem_event::{EventKind, MeshId, TraceId};

pub(crate) static FAMILY: Family = Family::new("traces");

thread_local! {
    /// Bytes that this thread has placed in trace regions while it ends a capture.
    static TRACE_BYTES: Slot<u64> = const { Slot::new() };
}

/// Counts a buffer in a trace region towards the capture that this thread ends.
#[cold]
pub(super) fn count_trace_buffer(size_bytes: u64) {
    call_context::with(&TRACE_BYTES, |bytes| {
        *bytes = bytes.saturating_add(size_bytes)
    });
}

/// The number of a trace, by a reference to it.
fn number_of(trace: Object) -> Option<TraceId> {
    if trace.is_null() {
        return None;
    }
    // SAFETY: the runtime passes a reference to a number.
    Some(TraceId(unsafe { trace.read::<u32>(0) }))
}

/// Reports something of a trace of a mesh, which is known by its implementation.
fn report(
    mesh: Object,
    trace: Option<TraceId>,
    event: impl FnOnce(MeshId, TraceId) -> EventKind,
) -> Option<()> {
    if !FAMILY.is_tracking() {
        return None;
    }
    let (mesh, trace) = (open_devices::at(mesh.address())?.mesh, trace?);
    FAMILY.contain(|| report::event(event(mesh, trace)));
    Some(())
}

interpose! {
    /// `void MeshDeviceImpl::begin_mesh_trace(u8, MeshTraceId const&)`.
    "_ZN2tt8tt_metal11distributed14MeshDeviceImpl16begin_mesh_traceEhRKN4ttsl10StrongTypeIjNS1_14MeshTraceIdTagEEE"
    fn begin_mesh_trace(mesh: Object, queue: u64, trace: Object) |real| {
        real();
        report(mesh, number_of(trace), |mesh, trace| EventKind::TraceBegan { mesh, trace });
    }

    /// `void MeshDeviceImpl::end_mesh_trace(u8, MeshTraceId const&)`: places the trace's commands.
    "_ZN2tt8tt_metal11distributed14MeshDeviceImpl14end_mesh_traceEhRKN4ttsl10StrongTypeIjNS1_14MeshTraceIdTagEEE"
    fn end_mesh_trace(mesh: Object, queue: u64, trace: Object) |real| {
        let ((), bytes) = during(&TRACE_BYTES, 0, real);
        let bytes = bytes.unwrap_or_default();
        report(mesh, number_of(trace), |mesh, trace| EventKind::TraceEnded { mesh, trace, bytes });
    }

    /// `void MeshDeviceImpl::replay_mesh_trace(u8, MeshTraceId const&, bool)`.
    "_ZN2tt8tt_metal11distributed14MeshDeviceImpl17replay_mesh_traceEhRKN4ttsl10StrongTypeIjNS1_14MeshTraceIdTagEEEb"
    fn replay_mesh_trace(mesh: Object, queue: u64, trace: Object, blocking: u64) |real| {
        real();
        report(mesh, number_of(trace), |mesh, trace| EventKind::TraceReplayed { mesh, trace });
    }

    /// `void MeshDeviceImpl::release_mesh_trace(MeshTraceId const&)`.
    "_ZN2tt8tt_metal11distributed14MeshDeviceImpl18release_mesh_traceERKN4ttsl10StrongTypeIjNS1_14MeshTraceIdTagEEE"
    fn release_mesh_trace(mesh: Object, trace: Object) |real| {
        // The number may lie in what is released.
        let number = number_of(trace);
        real();
        report(mesh, number, |mesh, trace| EventKind::TraceReleased { mesh, trace });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_buffers_placed_while_a_capture_ends_count() {
        count_trace_buffer(5);
        let ((), counted) = during(&TRACE_BYTES, 0, || {
            count_trace_buffer(100);
            count_trace_buffer(20);
        });
        assert_eq!(counted, Some(120));
    }
}
