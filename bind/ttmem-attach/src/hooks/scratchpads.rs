//! Scratchpads: collected when a program places them, told with its dataflow buffers.
//!
//! The runtime places them above the dataflow buffers and tells nobody.

#![expect(unsafe_code, reason = "is called in place of the runtime's functions")]

use super::interpose;
use crate::family::Family;
use crate::runtime::{Object, kernel, scratchpad};
use crate::{programs, report};
use std::sync::atomic::{AtomicBool, Ordering};
use ttmem_event::CoreSet;

pub(crate) static FAMILY: Family = Family::new("scratchpads");

/// Whether any program has scratchpads: most processes need not look for them.
static ANY: AtomicBool = AtomicBool::new(false);

/// A scratchpad on each of some cores.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub(crate) struct Scratchpad {
    pub(crate) address: u64,
    pub(crate) size_bytes: u64,
    pub(crate) cores: CoreSet,
}

/// The scratchpads of a program.
pub(super) fn of(program: Object) -> Vec<Scratchpad> {
    if !ANY.load(Ordering::Relaxed) {
        return Vec::new();
    }
    programs::with_known(program.addr(), |program| program.scratchpads.clone()).unwrap_or_default()
}

/// Collects the scratchpads of a program that has just placed them.
///
/// # Safety
/// `program` is a live `ProgramImpl` that only this thread changes.
unsafe fn collect(program: Object) -> Option<()> {
    let kernels = FAMILY.need(&*kernel::ACCESSORS)?;
    let accessors = FAMILY.need(&*scratchpad::ACCESSORS)?;
    let objects = programs::with_known(program.addr(), |program| program.kernels.clone())?;
    let mut found = Vec::new();
    for (object, _core_type) in objects {
        let object = std::ptr::with_exposed_provenance(object);
        // SAFETY: as the caller vouches; the program keeps its kernels.
        let bindings = match unsafe { accessors.read(object) } {
            Ok(bindings) => bindings,
            Err(doubt) => {
                FAMILY.turn_off(&doubt.to_string());
                return None;
            }
        };
        // Where nothing is placed, as in a capture without a device, there is no address.
        for binding in bindings.iter().filter(|binding| binding.address != 0) {
            found.push(Scratchpad {
                address: u64::from(binding.address),
                size_bytes: u64::from(binding.size_bytes),
                // SAFETY: as above.
                cores: unsafe { kernels.cores(object) }?,
            });
        }
    }
    // Where nothing is placed, what was placed before stays.
    if !found.is_empty() {
        ANY.store(true, Ordering::Relaxed);
        programs::with_known(program.addr(), |program| program.scratchpads = found);
    }
    Some(())
}

interpose! {
    /// `void ProgramImpl::allocate_scratchpads(IDevice const*)`: afterwards they have addresses.
    "_ZN2tt8tt_metal6detail11ProgramImpl20allocate_scratchpadsEPKNS0_7IDeviceE"
    fn allocate_scratchpads(program: Object, device: Object) |real| {
        // SAFETY: the caller's own arguments.
        unsafe { real(program, device) };
        if FAMILY.is_on() && report::is_on() {
            // SAFETY: the program is the caller's.
            unsafe { collect(program) };
        }
    }
}
