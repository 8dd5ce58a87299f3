//! Programs that are sent to run, with the operation that runs them.

#![expect(unsafe_code, reason = "is called in place of the runtime's functions")]

use super::programs::{number_of, with_program};
use super::{OnException, dataflow, inside_tensors, interpose, kernels, launches, real_function};
use crate::family::Family;
use crate::pending::{self, Pending};
use crate::runtime::Object;
use crate::runtime::program::{self, ProgramAccessors, implementation};
use crate::thread::{self, Block};
use crate::{operation, places, programs, report};
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

/// Sets whether this thread is sending; whether it was.
#[inline]
fn set_sending(is_sending: bool) -> bool {
    thread::with(|block| block.is_sending.replace(is_sending))
}

/// Notes a program that an operation is about to send.
///
/// # Safety
/// `program` is a live `Program` and `device` an initialised `IDevice`.
unsafe fn note(program: Object, device: Object, return_address: usize) -> Option<()> {
    FAMILY.need(&*program::ACCESSORS)?;
    // SAFETY: as the caller vouches.
    let place = unsafe { places::place_of(device) }?;
    // SAFETY: as above.
    let program = unsafe { implementation(program) };
    let operation = FAMILY.contain(|| operation::text_at(return_address));
    let pending = Pending {
        program,
        device,
        mesh: place.mesh,
        operation,
        is_announced: true,
    };
    pending::push(pending);
    Some(())
}

/// Notes a program that is about to be sent, unless an operation has announced what is sent.
///
/// # Safety
/// `program` is a live `ProgramImpl` and `device` an initialised `IDevice`.
pub(super) unsafe fn note_unannounced(program: Object, device: Object) -> Option<()> {
    if pending::is_announced() || !thread::with(|block| block.is_sending.get()) {
        return None;
    }
    FAMILY.need(&*program::ACCESSORS)?;
    // SAFETY: as the caller vouches.
    let place = unsafe { places::place_of(device) }?;
    let pending = Pending {
        program,
        device,
        mesh: place.mesh,
        operation: TextId::NONE,
        is_announced: false,
    };
    pending::push(pending);
    Some(())
}

/// Notes a program that was launched on a device, and tells of it if nobody else will.
///
/// # Safety
/// `program` is a live `ProgramImpl` and `device` an initialised `IDevice`.
pub(super) unsafe fn note_launched(program: Object, device: Object) -> Option<()> {
    let is_sending = set_sending(true);
    // SAFETY: as the caller vouches.
    let noted = unsafe { note_unannounced(program, device) };
    set_sending(is_sending);
    if is_sending {
        return noted;
    }
    noted?;
    // SAFETY: as above.
    unsafe { tell_sent() }
}

/// The program that this thread is sending; of several that are sent together, the first.
///
/// Everything that it needs is placed by now: that nothing has changed is seen once for all.
pub(super) fn sending() -> Option<ProgramId> {
    let pending = pending::first()?;
    let known = programs::with_known(pending.program.addr(), |program| {
        (
            program.id,
            program.is_settled(pending.mesh, pending.operation),
        )
    });
    let Some((id, is_settled)) = known else {
        // SAFETY: what is about to be sent is alive.
        return unsafe { number_of(pending.program) };
    };
    if is_settled {
        pending::settle_first(id);
    }
    Some(id)
}

/// Tells that what was about to be sent is sent.
///
/// # Safety
/// The programs are alive.
unsafe fn tell_sent() -> Option<()> {
    let status = thread::with(Block::take_binary_status);
    if let Some((pending, program)) = pending::take_settled() {
        // SAFETY: as the caller vouches.
        return unsafe { tell_settled_sent(&pending, program) };
    }
    // SAFETY: as above.
    unsafe { tell_all_sent(status) }
}

/// Tells that a program was sent of which nothing else has to be told.
///
/// # Safety
/// The program is alive.
#[inline]
unsafe fn tell_settled_sent(pending: &Pending, program: ProgramId) -> Option<()> {
    let accessors = FAMILY.need(&*program::ACCESSORS)?;
    // SAFETY: as the caller vouches.
    let runtime_id = unsafe { accessors.runtime_id(pending.program) };
    FAMILY.contain(|| {
        let (mesh, operation) = (pending.mesh, pending.operation);
        report::dispatched(mesh, program, runtime_id, operation, true, *PATH);
    });
    Some(())
}

/// Tells that everything was sent, with whatever has changed.
///
/// # Safety
/// The programs are alive.
#[inline(never)]
unsafe fn tell_all_sent(status: Option<BinaryStatus>) -> Option<()> {
    let (first, more) = pending::take();
    let accessors = FAMILY.need(&*program::ACCESSORS)?;
    if let Some(first) = &first {
        // SAFETY: as the caller vouches.
        unsafe { tell_program_sent(accessors, first, status) };
    }
    for pending in &more {
        // SAFETY: as above.
        unsafe { tell_program_sent(accessors, pending, status) };
    }
    Some(())
}

/// Tells that a program was sent.
///
/// # Safety
/// The program is alive.
unsafe fn tell_program_sent(
    accessors: &ProgramAccessors,
    pending: &Pending,
    status: Option<BinaryStatus>,
) -> Option<()> {
    let &Pending {
        program: object,
        device,
        mesh,
        operation,
        is_announced: _,
    } = pending;
    if object.is_null() {
        return None;
    }
    // SAFETY: as the caller vouches.
    let runtime_id = unsafe { accessors.runtime_id(object) };
    // SAFETY: as above.
    let (program, ran_before, renamed, borrows, circulars_move) = unsafe {
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
        })
    }?;
    if borrows {
        // SAFETY: as above; the tensors that it borrows from are known by now.
        unsafe { dataflow::tell_moved(object, device, mesh) };
    }
    if circulars_move {
        // SAFETY: as above; it was sent.
        unsafe { inside_tensors::tell_moved(object, mesh) };
    }
    if !ran_before {
        // SAFETY: as above; what was sent is built.
        unsafe { kernels::tell_loaded(object, device, mesh, KernelKind::Application) };
        launches::tell_first_run(object, mesh, program, status);
    }
    FAMILY.contain(|| {
        if renamed {
            report::program(program, operation, runtime_id, object.addr());
        }
        report::dispatched(mesh, program, runtime_id, operation, ran_before, *PATH);
    });
    Some(())
}

/// `void GraphTracker::track_program(Program*, IDevice const*)`, with the address it returns to.
///
/// The address lies in the operation's own instance of the function that sends it.
unsafe extern "C-unwind" fn track_program_from(
    tracker: Object,
    program: Object,
    device: Object,
    return_address: usize,
) {
    if FAMILY.is_on() && report::is_on() {
        // SAFETY: the runtime passes a live program and an open device.
        unsafe { note(program, device, return_address) };
    }
    let real = real_function!(
        "_ZN2tt8tt_metal12GraphTracker13track_programEPNS0_7ProgramEPKNS0_7IDeviceE",
        unsafe extern "C-unwind" fn(Object, Object, Object)
    );
    // SAFETY: the caller's own arguments.
    unsafe { real(tracker, program, device) }
}

/// `void GraphTracker::track_program(Program*, IDevice const*)`.
///
/// No language feature gives the address that a function returns to: it is passed on
/// as one more argument, by a jump that leaves everything else as it was.
#[unsafe(export_name = "_ZN2tt8tt_metal12GraphTracker13track_programEPNS0_7ProgramEPKNS0_7IDeviceE")]
#[unsafe(naked)]
unsafe extern "C-unwind" fn track_program() {
    #[cfg(target_arch = "x86_64")]
    std::arch::naked_asm!("mov rcx, [rsp]", "jmp {from}", from = sym track_program_from);
    #[cfg(target_arch = "aarch64")]
    std::arch::naked_asm!("mov x3, x30", "b {from}", from = sym track_program_from);
}

interpose! {
    /// `bool GraphTracker::hook_program(Program*)`: true when a capture keeps it from being sent.
    "_ZN2tt8tt_metal12GraphTracker12hook_programEPNS0_7ProgramE"
    fn hook_program(tracker: Object, program: Object) -> u64 |real| {
        // SAFETY: the caller's own arguments.
        let kept = unsafe { real(tracker, program) };
        // A flag leaves the upper bits of its register undefined.
        if kept & 0xff != 0 {
            pending::clear();
        }
        kept
    }
}

interpose! {
    /// `void EnqueueMeshWorkload(MeshCommandQueue&, MeshWorkload&, bool)`.
    "_ZN2tt8tt_metal11distributed19EnqueueMeshWorkloadERNS1_16MeshCommandQueueERNS1_12MeshWorkloadEb"
    fn enqueue_mesh_workload(queue: Object, workload: Object, blocking: u64) |real| {
        set_sending(true);
        let failed = OnException::new(|| {
            set_sending(false);
            pending::clear();
        });
        // SAFETY: the caller's own arguments.
        unsafe { real(queue, workload, blocking) };
        failed.disarm();
        set_sending(false);
        if FAMILY.is_on() && report::is_on() {
            // SAFETY: the programs are the workload's, which the caller holds.
            unsafe { tell_sent() };
        } else {
            pending::clear();
        }
    }
}
