//! Programs that are sent to run, with the operation that runs them.

#![expect(unsafe_code, reason = "is called in place of the runtime's functions")]

use super::programs::{number_of, with_program};
use super::{
    dataflow, inside_tensors, interpose, interpose_with_return_address, kernels, launches,
    on_exception,
};
use crate::family::Family;
use crate::pending::{self, Pending};
use crate::runtime::Object;
use crate::runtime::program::{self, ProgramAccessors, implementation};
use crate::thread::{self, Block};
use crate::{open_devices, operation, program_table, report};
use std::sync::LazyLock;
use ttmem_event::{BinaryStatus, DispatchPath, KernelKind, ProgramId, TextId};

pub(crate) static FAMILY: Family = Family::new("dispatches");

static PATH: LazyLock<DispatchPath> = LazyLock::new(|| {
    if std::env::var_os("TT_METAL_SLOW_DISPATCH_MODE").is_some() {
        DispatchPath::Slow
    } else {
        DispatchPath::Fast
    }
});

#[inline]
fn set_sending(is_sending: bool) -> bool {
    thread::with(|block| block.is_sending.replace(is_sending))
}

/// Notes a program that an operation is about to send.
fn note_announced(program: Object, device: Object, return_address: usize) -> Option<()> {
    let operation = FAMILY.contain(|| operation::text_at(return_address));
    note(implementation(program), device, Some(operation))
}

/// Notes a program that is about to be sent by an operation, or by none that has said so.
fn note(program: Object, device: Object, operation: Option<TextId>) -> Option<()> {
    FAMILY.need(&*program::ACCESSORS)?;
    let mesh = open_devices::of(device)?.mesh;
    pending::push(Pending {
        program: program.address(),
        device: device.address(),
        mesh,
        operation: operation.unwrap_or(TextId::NONE),
        is_announced: operation.is_some(),
    });
    Some(())
}

/// Notes a program that is about to be sent, unless an operation has announced what is sent.
pub(super) fn note_unannounced(program: Object, device: Object) -> Option<()> {
    if pending::is_announced() || !thread::with(|block| block.is_sending.get()) {
        return None;
    }
    note(program, device, None)
}

/// Notes a program that was launched on a device, and reports it if nobody else will.
fn note_launched(program: Object, device: Object) -> Option<()> {
    let is_sending = set_sending(true);
    let noted = note_unannounced(program, device);
    set_sending(is_sending);
    if is_sending {
        return noted;
    }
    noted?;
    report_sent()
}

/// Reports that the host has launched a program on a chip by itself: slow dispatch.
///
/// What an operation of ttnn announces is reported as sent to its mesh, once. A program
/// that nobody announced is reported for each chip that it is launched on.
fn report_launched(program: Object, device: Object) {
    if FAMILY.is_tracking() {
        note_launched(implementation(program), device);
    }
}

/// The program that this thread is sending; of several that are sent together, the first.
///
/// Everything that it needs is placed by now: that nothing has changed is seen once for all.
pub(super) fn sending() -> Option<ProgramId> {
    let pending = pending::first()?;
    let known = program_table::with_known(pending.program, |program| {
        (
            program.id,
            program.is_settled(pending.mesh, pending.operation),
        )
    });
    let Some((id, is_settled)) = known else {
        return number_of(pending.program());
    };
    if is_settled {
        pending::settle_first(id);
    }
    Some(id)
}

fn report_sent() -> Option<()> {
    let status = thread::with(Block::take_binary_status);
    if let Some((pending, program)) = pending::take_settled() {
        return report_settled_sent(&pending, program);
    }
    report_all_sent(status)
}

/// Reports that a program was sent of which nothing else has to be reported.
#[inline]
fn report_settled_sent(pending: &Pending, program: ProgramId) -> Option<()> {
    let accessors = FAMILY.need(&*program::ACCESSORS)?;
    let runtime_id = (accessors.runtime_id)(pending.program());
    FAMILY.contain(|| {
        let (mesh, operation) = (pending.mesh, pending.operation);
        report::dispatched(mesh, program, runtime_id, operation, true, *PATH);
    });
    Some(())
}

/// Reports that everything was sent, with whatever has changed.
#[inline(never)]
fn report_all_sent(status: Option<BinaryStatus>) -> Option<()> {
    let (first, more) = pending::take();
    let accessors = FAMILY.need(&*program::ACCESSORS)?;
    for pending in first.iter().chain(&more) {
        report_program_sent(accessors, pending, status);
    }
    Some(())
}

fn report_program_sent(
    accessors: &ProgramAccessors,
    pending: &Pending,
    status: Option<BinaryStatus>,
) -> Option<()> {
    let (mesh, operation) = (pending.mesh, pending.operation);
    let (object, device) = (pending.program(), pending.device());
    if object.is_null() {
        return None;
    }
    let runtime_id = (accessors.runtime_id)(object);
    let (program, ran_before, renamed, borrows, circulars_move) =
        with_program(object, |program| {
            let renamed = std::mem::replace(&mut program.name, operation) != operation;
            let ran_before = program.sent_to.contains(&mesh);
            if !ran_before {
                program.sent_to.push(mesh);
            }
            (
                program.id,
                ran_before,
                renamed,
                !program.borrowed.is_empty(),
                program.circular.can_move(),
            )
        })?;
    if borrows {
        // The tensors that it borrows from are known by now.
        dataflow::report_moved(object, device, mesh);
    }
    if circulars_move {
        inside_tensors::report_moved(object, mesh);
    }
    if !ran_before {
        // What was sent is built.
        kernels::report_loaded(object, device, mesh, KernelKind::Application);
        launches::report_first_run(object, mesh, program, status);
    }
    FAMILY.contain(|| {
        if renamed {
            report::program(program, operation, runtime_id, object.address());
        }
        report::dispatched(mesh, program, runtime_id, operation, ran_before, *PATH);
    });
    Some(())
}

interpose_with_return_address! {
    /// `void GraphTracker::track_program(Program*, IDevice const*)`: the address lies in the
    /// operation's own instance of the function that sends it.
    "_ZN2tt8tt_metal12GraphTracker13track_programEPNS0_7ProgramEPKNS0_7IDeviceE"
    "mov rcx, [rsp]\njmp {hook}" "mov x3, x30\nb {hook}"
    fn track_program(tracker: Object, program: Object, device: Object; return_address) |real| {
        if FAMILY.is_tracking() {
            note_announced(program, device, return_address);
        }
        real();
    }
}

interpose! {
    /// `bool GraphTracker::hook_program(Program*)`: true when a capture keeps it from being sent.
    "_ZN2tt8tt_metal12GraphTracker12hook_programEPNS0_7ProgramE"
    fn hook_program(tracker: Object, program: Object) -> u64 |real| {
        let kept = real();
        // A flag leaves the upper bits of its register undefined.
        if kept & 0xff != 0 {
            pending::clear();
        }
        kept
    }

    /// `void EnqueueMeshWorkload(MeshCommandQueue&, MeshWorkload&, bool)`.
    "_ZN2tt8tt_metal11distributed19EnqueueMeshWorkloadERNS1_16MeshCommandQueueERNS1_12MeshWorkloadEb"
    fn enqueue_mesh_workload(queue: Object, workload: Object, blocking: u64) |real| {
        set_sending(true);
        on_exception(real, || {
            set_sending(false);
            pending::clear();
        });
        set_sending(false);
        if FAMILY.is_tracking() {
            report_sent();
        } else {
            pending::clear();
        }
    }

    /// `void slow_dispatch::LaunchProgramAsync(IDevice&, Program&, bool)`.
    "_ZN2tt8tt_metal13slow_dispatch18LaunchProgramAsyncERNS0_7IDeviceERNS0_7ProgramEb"
    fn launch_program(device: Object, program: Object, forced: u64) |real| {
        real();
        report_launched(program, device);
    }

    /// `void DispatchCompiledProgramToDevice(IDevice*, Program&)`: on every chip but the first.
    "_ZN2tt8tt_metal12experimental31DispatchCompiledProgramToDeviceEPNS0_7IDeviceERNS0_7ProgramE"
    fn launch_compiled(device: Object, program: Object) |real| {
        real();
        report_launched(program, device);
    }
}
