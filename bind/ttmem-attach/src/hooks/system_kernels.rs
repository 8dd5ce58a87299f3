//! Kernels of the runtime itself: of the fabric, and of dispatch.
//!
//! Their programs are told apart by the calls that configure them, and are finalized
//! within these. They never go through a queue, and are gone when their chip is closed.

#![expect(unsafe_code, reason = "is called in place of the runtime's functions")]

use super::{OnException, interpose, kernels};
use crate::family::Family;
use crate::runtime::Object;
use crate::{places, report};
use std::cell::Cell;
use ttmem_event::KernelKind;

pub(crate) static FAMILY: Family = Family::new("fabric and dispatch kernels");

thread_local! {
    /// What the programs that this thread finalizes are for.
    static CONFIGURING: Cell<Option<KernelKind>> = const { Cell::new(None) };
}

fn set_configuring(kind: Option<KernelKind>) {
    let _ending = CONFIGURING.try_with(|cell| cell.set(kind));
}

/// Runs a call during which programs are of a kind.
fn while_configuring(kind: KernelKind, call: impl FnOnce()) {
    set_configuring(Some(kind));
    let failed = OnException::new(|| set_configuring(None));
    call();
    failed.disarm();
    set_configuring(None);
}

/// Tells of the kernels of a program of the runtime.
///
/// # Safety
/// `program` is a live `ProgramImpl` that is built for the open device `device`.
#[cold]
unsafe fn tell(program: Object, device: Object, kind: KernelKind) -> Option<()> {
    // SAFETY: as the caller vouches.
    let place = unsafe { places::place_of(device) }?;
    // SAFETY: as above.
    unsafe { kernels::tell_loaded(program, device, place.mesh, kind) }
}

interpose! {
    /// `void Device::configure_fabric()`.
    "_ZN2tt8tt_metal6Device16configure_fabricEv"
    fn configure_fabric(chip: Object) |real| {
        // SAFETY: the caller's own argument.
        while_configuring(KernelKind::Fabric, || unsafe { real(chip) });
    }
}

interpose! {
    /// `void Device::configure_command_queue_programs(DispatchTopology*)`.
    "_ZN2tt8tt_metal6Device32configure_command_queue_programsEPNS0_16DispatchTopologyE"
    fn configure_dispatch(chip: Object, topology: Object) |real| {
        // SAFETY: the caller's own arguments.
        while_configuring(KernelKind::Dispatch, || unsafe { real(chip, topology) });
    }
}

interpose! {
    /// `void ProgramImpl::finalize_offsets(IDevice*)`: of a program that is configured by itself.
    "_ZN2tt8tt_metal6detail11ProgramImpl16finalize_offsetsEPNS0_7IDeviceE"
    fn finalize_offsets(program: Object, device: Object) |real| {
        // SAFETY: the caller's own arguments.
        unsafe { real(program, device) };
        let kind = CONFIGURING.try_with(Cell::get).ok().flatten();
        if let Some(kind) = kind
            && FAMILY.is_on()
            && report::is_on()
        {
            // SAFETY: the program was just finalized for the device, so it is built for it.
            unsafe { tell(program, device, kind) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_of_a_kind_only_while_that_is_configured() {
        while_configuring(KernelKind::Fabric, || {
            assert_eq!(CONFIGURING.get(), Some(KernelKind::Fabric));
        });
        assert_eq!(CONFIGURING.get(), None);
    }
}
