//! What the first run of a program leaves behind: its binary in DRAM and its cached commands.
//!
//! Both are noted with the program as they come and told once it was sent. That is also
//! where programs are seen that no operation of ttnn has announced.

#![expect(unsafe_code, reason = "is called in place of the runtime's functions")]

use super::{dispatch, interpose};
use crate::family::{Doubt, Family};
use crate::runtime::commands::{self, CommandAccessors};
use crate::runtime::{Object, buffer};
use crate::{programs, report, symbols, thread};
use std::ffi::CStr;
use std::sync::LazyLock;
use ttmem_event::{BinaryStatus, MeshId, ProgramId};

pub(crate) static FAMILY: Family = Family::new("binaries and commands");

/// A runtime without one of these keeps binaries or commands in another way.
const NEEDED: [&CStr; 4] = [
    c"_ZN2tt8tt_metal6detail11ProgramImpl22set_kernels_bin_bufferERKSt10shared_ptrINS0_6BufferEE",
    c"_ZN2tt8tt_metal11distributed16MeshWorkloadImpl25set_program_binary_statusEmNS0_19ProgramBinaryStatusE",
    c"_ZN2tt8tt_metal16program_dispatch24assemble_device_commandsERNS0_22ProgramCommandSequenceERNS0_6detail11ProgramImplEPNS0_11distributed10MeshDeviceEN4ttsl10StrongTypeIhNS0_14SubDeviceIdTagEEEb",
    c"_ZN2tt8tt_metal6detail11ProgramImpl26generate_dispatch_commandsEPNS0_11distributed10MeshDeviceEb",
];

/// What is asked of commands, if all else that is needed is there.
pub(crate) static ACCESSORS: LazyLock<Result<CommandAccessors, Doubt>> = LazyLock::new(|| {
    symbols::need_all(&NEEDED)?;
    commands::find()
});

/// Tells what the first run of a program has left on a mesh.
pub(super) fn tell_first_run(
    object: Object,
    mesh: MeshId,
    program: ProgramId,
    status: Option<BinaryStatus>,
) -> Option<()> {
    FAMILY.need(&*ACCESSORS)?;
    let known = |program: &mut programs::Program| (program.binary_bytes, program.command_bytes);
    let (binary_bytes, command_bytes) = programs::with_known(object.addr(), known)?;
    FAMILY.contain(|| report::first_run(mesh, program, binary_bytes, command_bytes, status));
    Some(())
}

/// Notes the buffer of a program's binary.
///
/// # Safety
/// `binary` is a shared pointer to a `Buffer`.
#[cold]
unsafe fn note_binary(program: Object, binary: Object) -> Option<()> {
    let accessors = FAMILY.need(&*buffer::ACCESSORS)?;
    // SAFETY: a shared pointer begins with the object's address.
    let buffer = unsafe { binary.cast::<Object>().read() };
    if buffer.is_null() {
        return None;
    }
    // SAFETY: as the caller vouches.
    let size_bytes = unsafe { accessors.size_bytes(buffer) };
    programs::with_known(program.addr(), |program| program.binary_bytes = size_bytes)
}

/// Notes the commands of a program.
///
/// # Safety
/// `commands` is a live `ProgramCommandSequence`.
#[cold]
unsafe fn note_commands(program: Object, commands: Object) -> Option<()> {
    let accessors = FAMILY.need(&*ACCESSORS)?;
    // SAFETY: as the caller vouches.
    let bytes = unsafe { accessors.size_bytes(commands) };
    programs::with_known(program.addr(), |program| program.command_bytes = bytes)
}

interpose! {
    /// `void ProgramImpl::set_kernels_bin_buffer(shared_ptr<Buffer> const&)`: where its binary lies.
    "_ZN2tt8tt_metal6detail11ProgramImpl22set_kernels_bin_bufferERKSt10shared_ptrINS0_6BufferEE"
    fn set_binary(program: Object, binary: Object) |real| {
        // SAFETY: the caller's own arguments.
        unsafe { real(program, binary) };
        if FAMILY.is_on() && report::is_on() {
            // SAFETY: the caller passes a buffer.
            unsafe { note_binary(program, binary) };
        }
    }
}

interpose! {
    /// `void MeshWorkloadImpl::set_program_binary_status(u64, ProgramBinaryStatus)`: after every run.
    "_ZN2tt8tt_metal11distributed16MeshWorkloadImpl25set_program_binary_statusEmNS0_19ProgramBinaryStatusE"
    fn set_status(workload: Object, mesh: u64, status: u8) |real| {
        // SAFETY: the caller's own arguments.
        unsafe { real(workload, mesh, status) };
        let status = BinaryStatus::from_code(status);
        thread::with(|block| block.set_binary_status(status));
    }
}

interpose! {
    /// `void assemble_device_commands(ProgramCommandSequence&, ProgramImpl&, MeshDevice*, SubDeviceId,
    /// bool)`: makes the commands that every run sends.
    "_ZN2tt8tt_metal16program_dispatch24assemble_device_commandsERNS0_22ProgramCommandSequenceERNS0_6detail11ProgramImplEPNS0_11distributed10MeshDeviceEN4ttsl10StrongTypeIhNS0_14SubDeviceIdTagEEEb"
    fn assemble(commands: Object, program: Object, mesh: Object, sub_device: u64, cached: u64) |real| {
        // SAFETY: the caller's own arguments.
        unsafe { real(commands, program, mesh, sub_device, cached) };
        if FAMILY.is_on() && report::is_on() {
            // SAFETY: the commands were just made.
            unsafe { note_commands(program, commands) };
        }
    }
}

interpose! {
    /// `void ProgramImpl::generate_dispatch_commands(MeshDevice*, bool)`: for every program that is
    /// about to be sent, whether or not its commands are there.
    "_ZN2tt8tt_metal6detail11ProgramImpl26generate_dispatch_commandsEPNS0_11distributed10MeshDeviceEb"
    fn generate_commands(program: Object, mesh: Object, cached: u64) |real| {
        // SAFETY: the caller's own arguments.
        unsafe { real(program, mesh, cached) };
        if dispatch::FAMILY.is_on() && report::is_on() {
            // SAFETY: the runtime is about to send the program to the mesh.
            unsafe { dispatch::note_unannounced(program, mesh) };
        }
    }
}
