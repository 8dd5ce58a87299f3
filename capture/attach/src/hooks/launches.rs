//! What the first run of a program leaves behind: its binary in DRAM and its cached commands.
//!
//! Both are noted with the program as they come and reported once it was sent. That is also
//! where programs are seen that no operation of ttnn has announced.

#![expect(unsafe_code, reason = "is called in place of the runtime's functions")]

use super::{dispatch, interpose_needed};
use crate::family::Family;
use crate::runtime::{Object, buffer, commands};
use crate::{program_table, report, thread};
use ttmem_event::{BinaryStatus, EventKind, MeshId, ProgramId};

pub(crate) static FAMILY: Family = Family::new("binaries and commands");

/// Reports what the first run of a program has left on a mesh; 0 bytes are none that is known.
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
    FAMILY.contain(|| {
        let status_changed = |status| EventKind::BinaryStatusChanged {
            mesh,
            program,
            status,
        };
        if binary_bytes > 0 {
            let bytes = binary_bytes;
            report::event(EventKind::BinarySent {
                mesh,
                program,
                bytes,
            });
            report::event(status_changed(BinaryStatus::InFlight));
        }
        if command_bytes > 0 {
            let bytes = command_bytes;
            report::event(EventKind::CommandsCached {
                mesh,
                program,
                bytes,
            });
        }
        if let Some(status) = status {
            report::event(status_changed(status));
        }
    });
    Some(())
}

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

#[cold]
fn note_commands(program: Object, commands: Object) -> Option<()> {
    FAMILY.need(&*NEEDED)?;
    let bytes = FAMILY.need(&*commands::ACCESSORS)?.size_bytes(commands);
    program_table::with_known(program.address(), |program| program.command_bytes = bytes)
}

// A runtime without one of these keeps binaries or commands in another way.
interpose_needed! {
    /// `void ProgramImpl::set_kernels_bin_buffer(shared_ptr<Buffer> const&)`: where its binary lies.
    "_ZN2tt8tt_metal6detail11ProgramImpl22set_kernels_bin_bufferERKSt10shared_ptrINS0_6BufferEE"
    fn set_binary(program: Object, binary: Object) |real| {
        real();
        if FAMILY.is_tracking() {
            note_binary(program, binary);
        }
    }

    /// `void MeshWorkloadImpl::set_program_binary_status(u64, ProgramBinaryStatus)`: after every run.
    "_ZN2tt8tt_metal11distributed16MeshWorkloadImpl25set_program_binary_statusEmNS0_19ProgramBinaryStatusE"
    fn set_status(workload: Object, mesh: u64, status: u8) |real| {
        real();
        thread::with(|block| block.set_binary_status(BinaryStatus::from_code(status)));
    }

    /// `void assemble_device_commands(ProgramCommandSequence&, ProgramImpl&, MeshDevice*, SubDeviceId,
    /// bool)`: makes the commands that every run sends.
    "_ZN2tt8tt_metal16program_dispatch24assemble_device_commandsERNS0_22ProgramCommandSequenceERNS0_6detail11ProgramImplEPNS0_11distributed10MeshDeviceEN4ttsl10StrongTypeIhNS0_14SubDeviceIdTagEEEb"
    fn assemble(commands: Object, program: Object, mesh: Object, sub_device: u64, cached: u64) |real| {
        real();
        if FAMILY.is_tracking() {
            note_commands(program, commands);
        }
    }

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
