//! Children: what is known here is the parent's.
//!
//! A child that goes on tracks as a process of its own: what was defined is not defined
//! there, and what was allocated is its parent's. So all tables begin empty again.

#![expect(unsafe_code, reason = "registers a handler with the C library")]

use crate::config_ring_managers::MANAGERS;
use crate::hooks::{buffers, creating, prefetchers};
use crate::{open_devices, operation, program_table, python, quiescence, stacks};
use std::sync::Once;

/// Has the tables emptied in every child from now on.
pub(crate) fn watch() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        // SAFETY: the handler only stores to atomics of this library, which stays loaded.
        unsafe { libc::pthread_atfork(None, None, Some(forget_parent)) };
    });
}

/// Runs in the child, where only the thread that forked exists.
extern "C" fn forget_parent() {
    open_devices::forget();
    buffers::forget();
    program_table::forget();
    operation::forget();
    stacks::forget();
    python::forget();
    creating::forget();
    quiescence::reset_after_fork();
    MANAGERS.forget();
    prefetchers::CACHES.forget();
}
