//! Scratchpads: collected when a program places them, reported with its dataflow buffers.
//!
//! The runtime places them above the dataflow buffers and reports them to nobody.

#![expect(unsafe_code, reason = "is called in place of the runtime's functions")]

use super::interpose;
use super::kernels::kernels_of;
use crate::family::Family;
use crate::program_table;
use crate::runtime::{Object, kernel, scratchpad};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use ttmem_event::CoreSet;

pub(crate) static FAMILY: Family = Family::new("scratchpads");

/// Whether any program has scratchpads: most processes need not look for them.
static ANY: AtomicBool = AtomicBool::new(false);

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub(crate) struct Scratchpad {
    pub(crate) address: u64,
    pub(crate) size_bytes: u64,
    pub(crate) cores: CoreSet,
}

pub(super) fn of(program: Object) -> Vec<Scratchpad> {
    if !ANY.load(Relaxed) {
        return Vec::new();
    }
    let known = program_table::with_known(program.address(), |known| known.scratchpads.clone());
    known.unwrap_or_default()
}

fn collect(program: Object) -> Option<()> {
    let kernels = FAMILY.need(&*kernel::ACCESSORS)?;
    let accessors = FAMILY.need(&*scratchpad::ACCESSORS)?;
    let mut found = Vec::new();
    for (object, _core_type) in kernels_of(program)? {
        let bindings = FAMILY.ok_or_turn_off(accessors.read(object))?;
        // Where nothing is placed, as in a capture without a device, there is no address.
        for binding in bindings.iter().filter(|binding| binding.address != 0) {
            found.push(Scratchpad {
                address: u64::from(binding.address),
                size_bytes: u64::from(binding.size_bytes),
                cores: kernels.cores(object)?,
            });
        }
    }
    // Where nothing is placed, what was placed before stays.
    if !found.is_empty() {
        ANY.store(true, Relaxed);
        program_table::with_known(program.address(), |program| program.scratchpads = found);
    }
    Some(())
}

interpose! {
    /// `void ProgramImpl::allocate_scratchpads(IDevice const*)`: afterwards they have addresses.
    "_ZN2tt8tt_metal6detail11ProgramImpl20allocate_scratchpadsEPKNS0_7IDeviceE"
    fn allocate_scratchpads(program: Object, device: Object) |real| {
        real();
        if FAMILY.is_tracking() {
            collect(program);
        }
    }
}
