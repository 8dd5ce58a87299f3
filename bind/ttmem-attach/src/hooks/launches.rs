//! What the first run of a program leaves behind: its binary in DRAM and its cached commands.
//!
//! Both are noted with the program as they come and reported once it was sent. That is also
//! where programs are seen that no operation of ttnn has announced.

#![expect(unsafe_code, reason = "is called in place of the runtime's functions")]

use super::{dispatch, interpose, needed};
use crate::family::Family;
use crate::runtime::{Object, buffer, commands};
use crate::{program_table, report, thread};
use ttmem_event::{BinaryStatus, MeshId, ProgramId};

pub(crate) static FAMILY: Family = Family::new("binaries and commands");

// A runtime without one of these keeps binaries or commands in another way.
needed! {
    c"_ZN2tt8tt_metal6detail11ProgramImpl22set_kernels_bin_bufferERKSt10shared_ptrINS0_6BufferEE"
    c"_ZN2tt8tt_metal11distributed16MeshWorkloadImpl25set_program_binary_statusEmNS0_19ProgramBinaryStatusE"
    c"_ZN2tt8tt_metal16program_dispatch24assemble_device_commandsERNS0_22ProgramCommandSequenceERNS0_6detail11ProgramImplEPNS0_11distributed10MeshDeviceEN4ttsl10StrongTypeIhNS0_14SubDeviceIdTagEEEb"
    c"_ZN2tt8tt_metal6detail11ProgramImpl26generate_dispatch_commandsEPNS0_11distributed10MeshDeviceEb"
}

/// Reports what the first run of a program has left on a mesh.
pub(super) fn report_first_run(
    object: Object,
    mesh: MeshId,
    program: ProgramId,
    status: Option<BinaryStatus>,
) -> Option<()> {
    FAMILY.need(&*NEEDED)?;
    FAMILY.need(&*commands::ACCESSORS)?;
    let known =
        |program: &mut program_table::Program| (program.binary_bytes, program.command_bytes);
    let (binary_bytes, command_bytes) = program_table::with_known(object.address(), known)?;
    FAMILY.contain(|| report::first_run(mesh, program, binary_bytes, command_bytes, status));
    Some(())
}

/// Notes the buffer of a program's binary.
#[cold]
fn note_binary(program: Object, binary: Object) -> Option<()> {
    let accessors = FAMILY.need(&*buffer::ACCESSORS)?;
    // SAFETY: a shared pointer begins with the address of its object, which it keeps.
    let buffer = unsafe { binary.first_member() };
    if buffer.is_null() {
        return None;
    }
    let size_bytes = accessors.size_bytes(buffer);
    program_table::with_known(program.address(), |program| {
        program.binary_bytes = size_bytes
    })
}

/// Notes the commands of a program.
#[cold]
fn note_commands(program: Object, commands: Object) -> Option<()> {
    FAMILY.need(&*NEEDED)?;
    let bytes = FAMILY.need(&*commands::ACCESSORS)?.size_bytes(commands);
    program_table::with_known(program.address(), |program| program.command_bytes = bytes)
}

interpose! {
    /// `void ProgramImpl::set_kernels_bin_buffer(shared_ptr<Buffer> const&)`: where its binary lies.
    "_ZN2tt8tt_metal6detail11ProgramImpl22set_kernels_bin_bufferERKSt10shared_ptrINS0_6BufferEE"
    fn set_binary(program: Object, binary: Object) |real| {
        real();
        if FAMILY.is_tracking() {
            note_binary(program, binary);
        }
    }
}

interpose! {
    /// `void MeshWorkloadImpl::set_program_binary_status(u64, ProgramBinaryStatus)`: after every run.
    "_ZN2tt8tt_metal11distributed16MeshWorkloadImpl25set_program_binary_statusEmNS0_19ProgramBinaryStatusE"
    fn set_status(workload: Object, mesh: u64, status: u8) |real| {
        real();
        thread::with(|block| block.set_binary_status(BinaryStatus::from_code(status)));
    }
}

interpose! {
    /// `void assemble_device_commands(ProgramCommandSequence&, ProgramImpl&, MeshDevice*, SubDeviceId,
    /// bool)`: makes the commands that every run sends.
    "_ZN2tt8tt_metal16program_dispatch24assemble_device_commandsERNS0_22ProgramCommandSequenceERNS0_6detail11ProgramImplEPNS0_11distributed10MeshDeviceEN4ttsl10StrongTypeIhNS0_14SubDeviceIdTagEEEb"
    fn assemble(commands: Object, program: Object, mesh: Object, sub_device: u64, cached: u64) |real| {
        real();
        if FAMILY.is_tracking() {
            note_commands(program, commands);
        }
    }
}

interpose! {
    /// `void ProgramImpl::generate_dispatch_commands(MeshDevice*, bool)`: for every program that is
    /// about to be sent, whether or not its commands are there.
    "_ZN2tt8tt_metal6detail11ProgramImpl26generate_dispatch_commandsEPNS0_11distributed10MeshDeviceEb"
    fn generate_commands(program: Object, mesh: Object, cached: u64) |real| {
        real();
        if dispatch::FAMILY.is_tracking() {
            dispatch::note_unannounced(program, mesh);
        }
    }
}
