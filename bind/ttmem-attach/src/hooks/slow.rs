//! Slow dispatch: the host configures and launches each chip by itself.
//!
//! What an operation of ttnn announces is reported as sent to its mesh, once. A program
//! that nobody announced is reported for each chip that it is launched on.

#![expect(unsafe_code, reason = "is called in place of the runtime's functions")]

use super::{dispatch, interpose};
use crate::runtime::Object;
use crate::runtime::program::implementation;

fn report(program: Object, device: Object) {
    if dispatch::FAMILY.is_tracking() {
        dispatch::note_launched(implementation(program), device);
    }
}

interpose! {
    /// `void slow_dispatch::LaunchProgramAsync(IDevice&, Program&, bool)`.
    "_ZN2tt8tt_metal13slow_dispatch18LaunchProgramAsyncERNS0_7IDeviceERNS0_7ProgramEb"
    fn launch_program(device: Object, program: Object, forced: u64) |real| {
        real();
        report(program, device);
    }

    /// `void DispatchCompiledProgramToDevice(IDevice*, Program&)`: on every chip but the first.
    "_ZN2tt8tt_metal12experimental31DispatchCompiledProgramToDeviceEPNS0_7IDeviceERNS0_7ProgramE"
    fn launch_compiled(device: Object, program: Object) |real| {
        real();
        report(program, device);
    }
}
