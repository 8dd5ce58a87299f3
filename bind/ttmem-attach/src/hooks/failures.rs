//! Allocations that were refused, seen as the exception passes.

#![expect(unsafe_code, reason = "is called in place of the runtime's functions")]

use super::{OnException, buffers, creating, interpose};
use crate::family::Family;
use crate::runtime::{Object, buffer, device};
use crate::{places, quiet, report};

pub(crate) static FAMILY: Family = Family::new("failures");

/// Tells that a buffer could not be placed.
///
/// # Safety
/// `buffer` is a live `Buffer` that this thread is creating on an open device, and the
/// allocator's lock is not held.
unsafe fn tell_refused(buffer: Object) -> Option<()> {
    let accessors = FAMILY.need(&*buffer::ACCESSORS)?;
    let devices = FAMILY.need(&*device::ACCESSORS)?;
    // SAFETY: as the caller vouches.
    let facts = unsafe { buffers::read(accessors, buffer, &FAMILY) }?;
    // SAFETY: as above.
    let place = unsafe { places::place_of(facts.device) }?;
    let allocator = place.allocator()?;
    // SAFETY: as above.
    let statistics = unsafe { devices.allocators().statistics(allocator, facts.class) };
    let banks = place.banks(facts.class);
    let operation = creating::operation();
    FAMILY.contain(|| {
        report::allocation_failed(place.mesh, &facts, banks, &statistics, operation);
        report::stacks::of_failure(place.mesh);
    });
    Some(())
}

/// Notes that a buffer was placed by an allocator that is not its device's.
///
/// # Safety
/// `buffer` is a live `Buffer` that this thread is creating.
#[cold]
unsafe fn note_foreign(buffer: Object) -> Option<()> {
    let accessors = buffers::FAMILY.need(&*buffer::ACCESSORS)?;
    // SAFETY: as the caller vouches.
    let device = unsafe { accessors.device(buffer) }?;
    places::known_place(device)?.add_foreign_buffer();
    Some(())
}

interpose! {
    /// `u64 AllocatorImpl::allocate_buffer(Buffer*)`: out of memory leaves it as an exception.
    "_ZN2tt8tt_metal13AllocatorImpl15allocate_bufferEPNS0_6BufferE"
    fn allocate_buffer(allocator: Object, buffer: Object) -> u64 |real| {
        // Changes are announced for the sake of buffers, whether or not failures are told.
        if !buffers::FAMILY.is_on() || !report::is_on() {
            // SAFETY: the caller's own arguments.
            return unsafe { real(allocator, buffer) };
        }
        quiet::begin();
        let failed = OnException::new(|| {
            quiet::end();
            if FAMILY.is_on() {
                // SAFETY: the exception has left the function, which gave back the lock; the
                // caller's buffer is alive until it has passed the caller.
                unsafe { tell_refused(buffer) };
            }
        });
        // SAFETY: the caller's own arguments.
        let address = unsafe { real(allocator, buffer) };
        failed.disarm();
        if places::known_place(allocator).is_none() {
            // SAFETY: the runtime passes a live buffer.
            unsafe { note_foreign(buffer) };
        }
        address
    }
}
