//! Kernels of the runtime itself: of the fabric, and of dispatch.
//!
//! Their programs are distinguished by the calls that configure them, and are finalized
//! within these. They never go through a queue, and are gone when their chip is closed.

#![expect(unsafe_code, reason = "is called in place of the runtime's functions")]

use super::{interpose, kernels};
use crate::call_context::{self, Slot, during};
use crate::family::Family;
use crate::open_devices;
use crate::runtime::Object;
use ttmem_event::KernelKind;

pub(crate) static FAMILY: Family = Family::new("fabric and dispatch kernels");

thread_local! {
    /// What the programs that this thread finalizes are for.
    static CONFIGURING: Slot<KernelKind> = const { Slot::new() };
}

/// Reports the kernels of a program of the runtime that was finalized for a device.
#[cold]
fn report(program: Object, device: Object, kind: KernelKind) -> Option<()> {
    let mesh = open_devices::of(device)?.mesh;
    kernels::report_loaded(program, device, mesh, kind)
}

interpose! {
    /// `void Device::configure_fabric()`.
    "_ZN2tt8tt_metal6Device16configure_fabricEv"
    fn configure_fabric(chip: Object) |real| {
        during(&CONFIGURING, KernelKind::Fabric, real);
    }

    /// `void Device::configure_command_queue_programs(DispatchTopology*)`.
    "_ZN2tt8tt_metal6Device32configure_command_queue_programsEPNS0_16DispatchTopologyE"
    fn configure_dispatch(chip: Object, topology: Object) |real| {
        during(&CONFIGURING, KernelKind::Dispatch, real);
    }

    /// `void ProgramImpl::finalize_offsets(IDevice*)`: of a program that is configured by itself.
    "_ZN2tt8tt_metal6detail11ProgramImpl16finalize_offsetsEPNS0_7IDeviceE"
    fn finalize_offsets(program: Object, device: Object) |real| {
        real();
        if let Some(kind) = call_context::get(&CONFIGURING)
            && FAMILY.is_tracking()
        {
            report(program, device, kind);
        }
    }
}
