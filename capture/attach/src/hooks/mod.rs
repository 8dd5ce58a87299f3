//! The functions that this library defines in place of the runtime's, by family.
//!
//! Every hook is `extern "C-unwind"`: an exception of the runtime passes through. First
//! it finds the real function, then it looks whether its family is on, and whatever it
//! does besides, it calls the real function once with the arguments it got.

pub(crate) mod buffers;
pub(crate) mod cbs;
pub(crate) mod compiler;
pub(crate) mod config_rings;
pub(crate) mod creating;
pub(crate) mod dataflow;
pub(crate) mod devices;
pub(crate) mod dispatch;
pub(crate) mod failures;
pub(crate) mod identities;
pub(crate) mod inside_tensors;
pub(crate) mod kernels;
pub(crate) mod launches;
pub(crate) mod prefetchers;
pub(crate) mod programs;
mod queues;
pub(crate) mod scratchpads;
pub(crate) mod system_kernels;
pub(crate) mod traces;

use crate::family::{Family, Unsupported};
use crate::python;
use crate::runtime::{
    buffer, circular, cluster, commands, dataflow as dataflow_buffer, device, kernel, program,
    scratchpad,
};
use std::sync::LazyLock;

/// Something of the runtime that a family needs.
trait Need: Sync {
    /// What the runtime lacks of it.
    fn unsupported(&self) -> Option<&Unsupported>;
}

impl<T: Sync + Send> Need for LazyLock<Result<T, Unsupported>> {
    fn unsupported(&self) -> Option<&Unsupported> {
        self.as_ref().err()
    }
}

/// Every family with what it needs, in the order of the status.
static FAMILIES: &[(&Family, &[&dyn Need])] = &[
    (&devices::FAMILY, &[&device::ACCESSORS]),
    (&identities::FAMILY, &[&cluster::ACCESSORS]),
    (&buffers::FAMILY, &[&device::ACCESSORS, &buffer::ACCESSORS]),
    (&failures::FAMILY, &[&device::ACCESSORS, &buffer::ACCESSORS]),
    (&programs::FAMILY, &[&program::ACCESSORS]),
    (&cbs::FAMILY, &[&device::ACCESSORS, &cbs::NEEDED]),
    (&inside_tensors::FAMILY, &[&circular::ACCESSORS]),
    (&dataflow::FAMILY, &[&dataflow_buffer::ACCESSORS]),
    (
        &scratchpads::FAMILY,
        &[&kernel::ACCESSORS, &scratchpad::ACCESSORS],
    ),
    (&dispatch::FAMILY, &[&program::ACCESSORS]),
    (&kernels::FAMILY, &[&kernel::ACCESSORS]),
    (
        &launches::FAMILY,
        &[&buffer::ACCESSORS, &launches::NEEDED, &commands::ACCESSORS],
    ),
    (&compiler::FAMILY, &[&compiler::NEEDED]),
    (&traces::FAMILY, &[&device::ACCESSORS]),
    (&config_rings::FAMILY, &[&config_rings::NEEDED]),
    (&prefetchers::FAMILY, &[&prefetchers::NEEDED]),
    (&system_kernels::FAMILY, &[&kernel::ACCESSORS]),
];

/// One line per family: on, or off and why.
pub(crate) fn describe() -> String {
    let mut text = String::new();
    for (family, needs) in FAMILIES {
        let lacking = needs.iter().find_map(|need| need.unsupported());
        family.describe(lacking, &mut text);
    }
    python::describe(&mut text);
    text
}

/// Reports the families that are off, in a process that begins to use devices: a child has its
/// parent's families, but reports to the server as itself.
pub(crate) fn report_off() {
    for (family, _needs) in FAMILIES {
        family.report_off();
    }
    python::report_off();
}

macro_rules! c_name {
    ($symbol:literal) => {
        const {
            match std::ffi::CStr::from_bytes_with_nul(concat!($symbol, "\0").as_bytes()) {
                Ok(name) => name,
                Err(_zero) => c"",
            }
        }
    };
}
pub(crate) use c_name;

/// The runtime's function of a name, as a function of type `$type`.
macro_rules! real_function {
    ($symbol:literal, $type:ty) => {{
        static FOUND: std::sync::atomic::AtomicPtr<std::ffi::c_void> =
            std::sync::atomic::AtomicPtr::new(std::ptr::null_mut());
        let mut found = FOUND.load(std::sync::atomic::Ordering::Relaxed);
        if found.is_null() {
            found = $crate::symbols::find_original($crate::hooks::c_name!($symbol)).as_ptr();
            FOUND.store(found, std::sync::atomic::Ordering::Relaxed);
        }
        // SAFETY: it is the runtime's function of this name, and the type is what the name and
        // the platform's interface give it.
        unsafe { std::mem::transmute::<*mut std::ffi::c_void, $type>(found) }
    }};
}
pub(crate) use real_function;

/// Defines functions of the runtime; `real` calls the runtime's own, as the hook was called.
macro_rules! interpose {
    ($($(#[$doc:meta])* $symbol:literal
     fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)? |$real:ident| $body:block)*) => {
        $($(#[$doc])*
        #[unsafe(export_name = $symbol)]
        unsafe extern "C-unwind" fn $name($($argument: $type),*) $(-> $result)? {
            let function = $crate::hooks::real_function!(
                $symbol,
                unsafe extern "C-unwind" fn($($type),*) $(-> $result)?
            );
            // SAFETY: these are the caller's own arguments, and the function is the one it wants.
            let $real = move || unsafe { function($($argument),*) };
            $body
        })*
    };
}
pub(crate) use interpose;

/// As [`interpose`], of functions that its family cannot do without: `NEEDED` is whether the
/// runtime has them.
macro_rules! interpose_needed {
    ($($(#[$doc:meta])* $symbol:literal
     fn $name:ident $arguments:tt $(-> $result:ty)? |$real:ident| $body:block)*) => {
        pub(crate) static NEEDED: std::sync::LazyLock<Result<(), $crate::family::Unsupported>> =
            std::sync::LazyLock::new(|| {
                $crate::symbols::need_all(&[$($crate::hooks::c_name!($symbol)),*])
            });

        $($crate::hooks::interpose! {
            $(#[$doc])* $symbol fn $name $arguments $(-> $result)? |$real| $body
        })*
    };
}
pub(crate) use interpose_needed;

/// Defines functions of the runtime that get the address they return to as one more argument,
/// which no language feature gives: a jump passes it on and leaves everything else as it was.
///
/// `$x86_64` and `$aarch64` do so, for as many arguments as the function has.
macro_rules! interpose_with_return_address {
    ($($(#[$doc:meta])* $symbol:literal $x86_64:literal $aarch64:literal
     fn $name:ident($($argument:ident: $type:ty),*; $address:ident) $(-> $result:ty)? |$real:ident| $body:block)*) => {
        $($(#[$doc])*
        #[unsafe(export_name = $symbol)]
        #[unsafe(naked)]
        unsafe extern "C-unwind" fn $name() {
            unsafe extern "C-unwind" fn hook(
                $($argument: $type,)* $address: usize
            ) $(-> $result)? {
                let function = $crate::hooks::real_function!(
                    $symbol,
                    unsafe extern "C-unwind" fn($($type),*) $(-> $result)?
                );
                // SAFETY: these are the caller's own arguments, and the function is the one it wants.
                let $real = move || unsafe { function($($argument),*) };
                $body
            }
            #[cfg(target_arch = "x86_64")]
            std::arch::naked_asm!($x86_64, hook = sym hook);
            #[cfg(target_arch = "aarch64")]
            std::arch::naked_asm!($aarch64, hook = sym hook);
        })*
    };
}
pub(crate) use interpose_with_return_address;

/// Runs something when it is dropped: after a call, whether it returned or threw.
pub(crate) struct OnExit<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnExit<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Runs a call, and something else if an exception leaves it, which goes on afterwards.
#[inline]
pub(crate) fn on_exception<R, F: Fn()>(call: impl FnOnce() -> R, run: F) -> R {
    const {
        assert!(
            !std::mem::needs_drop::<F>(),
            "it is forgotten where nothing is thrown"
        )
    };
    let failed = OnExit(run);
    let result = call();
    let _never_dropped = std::mem::ManuallyDrop::new(failed);
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn only_an_exception_has_something_else_run() {
        let runs = Cell::new(0);
        let count = || runs.set(runs.get() + 1);
        assert_eq!(on_exception(|| 7, count), 7);
        assert_eq!(runs.get(), 0);
        let throw = || on_exception(|| panic!("as an exception would pass"), count);
        assert!(catch_unwind(AssertUnwindSafe(throw)).is_err());
        assert_eq!(runs.get(), 1);
    }
}
