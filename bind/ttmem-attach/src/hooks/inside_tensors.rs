//! Circular buffers inside of tensors, looked at whenever their program is sent.
//!
//! The runtime tells of them only beside others, and to nobody that a cached program was
//! given other tensors. Others are told of as they are placed, and only then: of what was placed
//! unseen, while nothing was told or by the parent of this process, it is not known whether
//! it still is.

#![expect(unsafe_code, reason = "asks programs of the runtime")]

use super::cbs;
use crate::family::Family;
use crate::programs::Circulars;
use crate::runtime::Object;
use crate::runtime::circular::{self, CircularAccessors, CircularBuffer};
use crate::{programs, report};
use ttmem_event::MeshId;

pub(crate) static FAMILY: Family = Family::new("circular buffers in tensors");

/// Tells of circular buffers of a program that are not where they were last told of.
///
/// # Safety
/// `object` is a live `ProgramImpl` that was sent and that only this thread changes.
pub(super) unsafe fn tell_moved(object: Object, mesh: MeshId) -> Option<()> {
    if !cbs::FAMILY.is_on() {
        // Nobody would tell that they are given back.
        return None;
    }
    let accessors = FAMILY.need(&*circular::ACCESSORS)?;
    let (program, mut known) = programs::with_known(object.addr(), |program| {
        (program.id, std::mem::take(&mut program.circular))
    })?;
    if !known.checked {
        // SAFETY: as the caller vouches.
        unsafe { check(accessors, object, &mut known) }?;
    }
    // SAFETY: as above.
    let objects = unsafe { accessors.objects(object) };
    for (number, (buffer, circular)) in (0..).zip(known.told.iter_mut().zip(objects)) {
        if !buffer.is_global {
            continue;
        }
        // SAFETY: it is inside of a tensor.
        let address = unsafe { accessors.address(circular) };
        let is_told = buffer.address == address;
        if is_told || address == 0 || buffer.size_bytes == 0 || buffer.cores.is_empty() {
            continue;
        }
        buffer.address = address;
        // SAFETY: as above.
        buffer.size_bytes = unsafe { accessors.size_bytes(circular) };
        let (size_bytes, cores) = (buffer.size_bytes, &buffer.cores);
        FAMILY.contain(|| {
            report::cb_allocated(mesh, program, number, true, address, size_bytes, cores);
        });
    }
    programs::with_known(object.addr(), |program| program.circular = known)
}

/// Reads what was not told of; what was must be the same, in the same order.
///
/// # Safety
/// As of [`tell_moved`].
unsafe fn check(
    accessors: &CircularAccessors,
    object: Object,
    known: &mut Circulars,
) -> Option<()> {
    known.checked = true;
    // SAFETY: as the caller vouches.
    let objects = unsafe { accessors.objects(object) };
    if known.told.is_empty() {
        let unplaced = objects.map(|circular| CircularBuffer {
            // SAFETY: as above.
            is_global: unsafe { accessors.is_global(circular) },
            address: 0,
            // SAFETY: as above.
            size_bytes: unsafe { accessors.size_bytes(circular) },
            // SAFETY: as above.
            cores: unsafe { accessors.cores(circular) },
        });
        known.told = unplaced.collect();
        known.has_global = known.told.iter().any(|buffer| buffer.is_global);
        return Some(());
    }
    // SAFETY: as above.
    let sizes = objects.map(|circular| unsafe { accessors.size_bytes(circular) });
    if sizes.eq(known.told.iter().map(|buffer| buffer.size_bytes)) {
        return Some(());
    }
    FAMILY.turn_off("circular buffers are told in another order");
    None
}
