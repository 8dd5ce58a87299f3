//! The functions that this library defines in place of the runtime's, by family.
//!
//! Every hook is `extern "C-unwind"`: an exception of the runtime passes through. First
//! it finds the real function, then it looks whether its family is on, and whatever it
//! does besides, it calls the real function once with the arguments it got.

pub(crate) mod buffers;
pub(crate) mod cbs;
pub(crate) mod compiler;
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
pub(crate) mod rings;
pub(crate) mod scratchpads;
mod slow;
pub(crate) mod system_kernels;
pub(crate) mod traces;

use crate::family::Family;

/// Every family, in the order of the status.
static FAMILIES: &[&Family] = &[
    &devices::FAMILY,
    &identities::FAMILY,
    &buffers::FAMILY,
    &failures::FAMILY,
    &programs::FAMILY,
    &cbs::FAMILY,
    &inside_tensors::FAMILY,
    &dataflow::FAMILY,
    &scratchpads::FAMILY,
    &dispatch::FAMILY,
    &kernels::FAMILY,
    &launches::FAMILY,
    &compiler::FAMILY,
    &traces::FAMILY,
    &rings::FAMILY,
    &prefetchers::FAMILY,
    &system_kernels::FAMILY,
];

/// One line per family: on, or off and why.
pub(crate) fn describe() -> String {
    decide();
    let mut text = String::new();
    for family in FAMILIES {
        family.describe(&mut text);
    }
    text
}

/// Decides the families that were not used yet.
fn decide() {
    use crate::runtime::{
        buffer, circular, cluster, dataflow as dataflow_buffer, device, kernel, program, scratchpad,
    };
    for family in [
        &devices::FAMILY,
        &buffers::FAMILY,
        &cbs::FAMILY,
        &failures::FAMILY,
        &traces::FAMILY,
    ] {
        family.need(&*device::ACCESSORS);
    }
    for family in [&buffers::FAMILY, &failures::FAMILY] {
        family.need(&*buffer::ACCESSORS);
    }
    for family in [&programs::FAMILY, &dispatch::FAMILY] {
        family.need(&*program::ACCESSORS);
    }
    inside_tensors::FAMILY.need(&*circular::ACCESSORS);
    cbs::FAMILY.need(&*cbs::GIVEN_BACK);
    dataflow::FAMILY.need(&*dataflow_buffer::ACCESSORS);
    identities::FAMILY.need(&*cluster::ACCESSORS);
    compiler::FAMILY.need(&*compiler::SYMBOLS);
    kernels::FAMILY.need(&*kernel::ACCESSORS);
    launches::FAMILY.need(&*buffer::ACCESSORS);
    launches::FAMILY.need(&*launches::ACCESSORS);
    system_kernels::FAMILY.need(&*kernel::ACCESSORS);
    prefetchers::FAMILY.need(&*prefetchers::SYMBOLS);
    rings::FAMILY.need(&*rings::SYMBOLS);
    scratchpads::FAMILY.need(&*kernel::ACCESSORS);
    scratchpads::FAMILY.need(&*scratchpad::ACCESSORS);
}

/// The runtime's function of a name, as a function of type `$type`.
macro_rules! real_function {
    ($symbol:literal, $type:ty) => {{
        static FOUND: std::sync::atomic::AtomicPtr<std::ffi::c_void> =
            std::sync::atomic::AtomicPtr::new(std::ptr::null_mut());
        let mut found = FOUND.load(std::sync::atomic::Ordering::Relaxed);
        if found.is_null() {
            const NAME: &std::ffi::CStr =
                match std::ffi::CStr::from_bytes_with_nul(concat!($symbol, "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_zero) => c"",
                };
            found = $crate::symbols::find_original(NAME).as_ptr();
            FOUND.store(found, std::sync::atomic::Ordering::Relaxed);
        }
        // SAFETY: it is the runtime's function of this name, and the type is what the name and
        // the platform's interface give it.
        unsafe { std::mem::transmute::<*mut std::ffi::c_void, $type>(found) }
    }};
}
pub(crate) use real_function;

/// Defines a function of the runtime; `real` is the runtime's own.
macro_rules! interpose {
    ($(#[$doc:meta])* $symbol:literal
     fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)? |$real:ident| $body:block) => {
        $(#[$doc])*
        #[unsafe(export_name = $symbol)]
        unsafe extern "C-unwind" fn $name($($argument: $type),*) $(-> $result)? {
            let $real = $crate::hooks::real_function!(
                $symbol,
                unsafe extern "C-unwind" fn($($type),*) $(-> $result)?
            );
            $body
        }
    };
}
pub(crate) use interpose;

/// Runs something if it is dropped before it is disarmed: when an exception passes.
pub(crate) struct OnException<F: FnMut()> {
    tell: F,
}

impl<F: FnMut()> OnException<F> {
    #[inline]
    pub(crate) fn new(tell: F) -> Self {
        Self { tell }
    }

    /// No exception came.
    ///
    /// What it would have run is forgotten: hooks give it nothing that has an end of its own.
    #[inline]
    pub(crate) fn disarm(self) {
        const { assert!(!std::mem::needs_drop::<F>()) };
        let _never_dropped = std::mem::ManuallyDrop::new(self);
    }
}

impl<F: FnMut()> Drop for OnException<F> {
    fn drop(&mut self) {
        (self.tell)();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn only_what_was_not_disarmed_is_told() {
        let told = Cell::new(0);
        OnException::new(|| told.set(told.get() + 1)).disarm();
        assert_eq!(told.get(), 0);
        drop(OnException::new(|| told.set(told.get() + 1)));
        assert_eq!(told.get(), 1);
    }
}
