//! Circular buffers inside of tensors, looked at whenever their program is sent.
//!
//! The runtime reports them only beside others, and to nobody that a cached program was
//! given other tensors. Others are reported as they are placed, and only then: of what was placed
//! unseen, while nothing was reported or by the parent of this process, it is not known whether
//! it still is.

use super::cbs;
use crate::family::Family;
use crate::program_table::{self, Circulars};
use crate::runtime::Object;
use crate::runtime::circular::{self, CircularAccessors, CircularBuffer};
use ttmem_event::MeshId;

pub(crate) static FAMILY: Family = Family::new("circular buffers in tensors");

/// Reports circular buffers of a program that was sent, if they are not where they were last
/// reported.
pub(super) fn report_moved(object: Object, mesh: MeshId) -> Option<()> {
    if !cbs::FAMILY.is_on() {
        // Nobody would report that they are given back.
        return None;
    }
    let accessors = FAMILY.need(&*circular::ACCESSORS)?;
    let (program, mut known) = program_table::with_known(object.address(), |program| {
        (program.id, std::mem::take(&mut program.circular))
    })?;
    if !known.is_checked {
        check(accessors, object, &mut known);
    }
    if known.can_move() {
        let objects = accessors.objects(object);
        for (number, (buffer, circular)) in (0..).zip(known.reported.iter_mut().zip(objects)) {
            if !buffer.is_global {
                continue;
            }
            let address = accessors.address(circular);
            let is_reported = buffer.address == address;
            if is_reported || address == 0 || buffer.size_bytes == 0 || buffer.cores.is_empty() {
                continue;
            }
            buffer.address = address;
            buffer.size_bytes = accessors.size_bytes(circular);
            cbs::report_circular(&FAMILY, mesh, program, number, buffer);
        }
    }
    program_table::with_known(object.address(), |program| program.circular = known)
}

/// Reads what was not reported. What was must be the same, in the same order; if it is not, this
/// program's are not followed, which says nothing of any other program.
fn check(accessors: &CircularAccessors, object: Object, known: &mut Circulars) {
    known.is_checked = true;
    let objects = accessors.objects(object);
    if known.reported.is_empty() {
        let unplaced = objects.map(|circular| CircularBuffer {
            is_global: accessors.is_global(circular),
            address: 0,
            size_bytes: accessors.size_bytes(circular),
            cores: accessors.cores(circular),
        });
        known.reported = unplaced.collect();
        known.has_global = known.reported.iter().any(|buffer| buffer.is_global);
        return;
    }
    let sizes = objects.map(|circular| accessors.size_bytes(circular));
    if !sizes.eq(known.reported.iter().map(|buffer| buffer.size_bytes)) {
        known.is_odd = true;
        FAMILY.skip("a program's circular buffers are placed in another order than it has them");
    }
}
