//! Slow dispatch: the host configures and launches each chip by itself.
//!
//! What an operation of ttnn announces is told of as sent to its mesh, once. A program
//! that nobody announced is told of for each chip that it is launched on.

#![expect(unsafe_code, reason = "is called in place of the runtime's functions")]

use super::{dispatch, interpose};
use crate::report;
use crate::runtime::Object;
use crate::runtime::program::implementation;

/// Tells that a program was launched on a chip.
///
/// # Safety
/// `program` is a live `Program` that is built for the open device `device`.
unsafe fn tell(program: Object, device: Object) {
    if dispatch::FAMILY.is_on() && report::is_on() {
        // SAFETY: as the caller vouches.
        let program = unsafe { implementation(program) };
        // SAFETY: as above.
        unsafe { dispatch::note_launched(program, device) };
    }
}

interpose! {
    /// `void slow_dispatch::LaunchProgramAsync(IDevice&, Program&, bool)`.
    "_ZN2tt8tt_metal13slow_dispatch18LaunchProgramAsyncERNS0_7IDeviceERNS0_7ProgramEb"
    fn launch_program(device: Object, program: Object, forced: u64) |real| {
        // SAFETY: the caller's own arguments.
        unsafe { real(device, program, forced) };
        // SAFETY: the program was just launched on the device.
        unsafe { tell(program, device) };
    }
}

interpose! {
    /// `void DispatchCompiledProgramToDevice(IDevice*, Program&)`: on every chip but the first.
    "_ZN2tt8tt_metal12experimental31DispatchCompiledProgramToDeviceEPNS0_7IDeviceERNS0_7ProgramE"
    fn launch_compiled(device: Object, program: Object) |real| {
        // SAFETY: the caller's own arguments.
        unsafe { real(device, program) };
        // SAFETY: the program was just launched on the device.
        unsafe { tell(program, device) };
    }
}
