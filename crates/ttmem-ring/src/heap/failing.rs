//! Requests that fail because a test says so.
//!
//! The variable has the number of a request: it and all after it fail, as where memory runs out.
//! Tests run a program once for each number, so that every place that asks for memory is the first
//! that gets none. Not part of a library that is built for use.

use std::sync::atomic::{AtomicI64, Ordering};

const VARIABLE: &std::ffi::CStr = c"TTMEM_TEST_FAILING_REQUEST";

/// Not looked at yet, and nothing to count.
const UNKNOWN: i64 = i64::MIN;
const NEVER: i64 = i64::MAX;

static LEFT: AtomicI64 = AtomicI64::new(UNKNOWN);

pub(super) fn counts_down() -> bool {
    let left = LEFT.load(Ordering::Relaxed);
    if left == NEVER {
        return false;
    }
    if left == UNKNOWN {
        LEFT.store(wanted().unwrap_or(NEVER), Ordering::Relaxed);
        return false;
    }
    left <= 0 || LEFT.fetch_sub(1, Ordering::Relaxed) <= 1
}

/// The value of the variable; nothing here takes memory.
fn wanted() -> Option<i64> {
    // SAFETY: the name ends with a zero; the test that sets it changes no variable afterwards.
    let value = unsafe { libc::getenv(VARIABLE.as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: the value of a variable ends with a zero.
    let value = unsafe { std::ffi::CStr::from_ptr(value) };
    value.to_str().ok()?.parse().ok()
}
