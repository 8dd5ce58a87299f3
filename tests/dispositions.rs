//! The signal dispositions of a program in the foreground, for every process that tests start.
//!
//! A background job of a shell without job control has SIGINT and SIGQUIT ignored, a program under `nohup` SIGHUP, and children inherit
//! that. A handler is not inherited: where one is installed, exec gives the child the default. Included by the end-to-end tests,
//! the harness of ttnn and xtask.

use signal_hook::flag::register_conditional_default;
use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Has these signals do here what they do by default, and in every child from now on, whatever was inherited.
///
/// Not for SIGCHLD, which arrives all the time: a handler for it would interrupt system calls.
pub(crate) fn restore(signals: &[c_int]) {
    for &signal in signals {
        let always = Arc::new(AtomicBool::new(true));
        let _handler = register_conditional_default(signal, always)
            .expect("signals that a program may handle");
    }
}
