//! The call stack behind what was told just before, if stacks are told at all.

use super::{buffer_id, tracker};
use crate::runtime::buffer::Buffer;
use crate::stacks;
use ttmem_event::{BufferId, EventKind, MeshId, ProgramId, TextId};

/// Of a buffer that was placed.
#[inline]
pub(crate) fn of_buffer(mesh: MeshId, unique_id: u64, per_bank_bytes: u64, banks: u16) {
    if stacks::are_on() && stacks::is_large(per_bank_bytes.saturating_mul(u64::from(banks))) {
        tell(mesh, buffer_id(unique_id), ProgramId(0));
    }
}

/// Of a part of a buffer, which is as large as all of it.
pub(crate) fn of_part(mesh: MeshId, part: BufferId, buffer: &Buffer, all_cores: u64) {
    if stacks::are_on() && stacks::is_large(buffer.per_bank_bytes.saturating_mul(all_cores)) {
        tell(mesh, part, ProgramId(0));
    }
}

/// Of an allocation that was refused.
pub(crate) fn of_failure(mesh: MeshId) {
    if stacks::are_on() {
        tell(mesh, BufferId(0), ProgramId(0));
    }
}

/// Of the load of a program's kernels.
pub(crate) fn of_kernels(mesh: MeshId, program: ProgramId) {
    if stacks::are_on() {
        tell(mesh, BufferId(0), program);
    }
}

#[cold]
fn tell(mesh: MeshId, buffer: BufferId, program: ProgramId) {
    let stack = stacks::here();
    if stack != TextId::NONE {
        tracker().track(EventKind::StackNoted {
            mesh,
            buffer,
            program,
            stack,
        });
    }
}
