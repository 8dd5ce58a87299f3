//! What functions return, and the guard that keeps panics out of the host.

use std::panic::{AssertUnwindSafe, catch_unwind};
use ttmem_client::Tracker;

/// How a call ended: TTMEM_OK, or one of TTMEM_E_*, which are all negative.
pub type ttmem_code_t = i32;

/// Done; or there was nothing to do because tracking is off.
pub const TTMEM_OK: ttmem_code_t = 0;
/// Tracking is off: by choice, or because it failed and has turned itself off.
pub const TTMEM_E_DISABLED: ttmem_code_t = -1;
/// A pointer that must be given is null.
pub const TTMEM_E_NULL: ttmem_code_t = -2;
/// A value is outside the range of its type: a class, a kind, a flag, a core range, a count.
pub const TTMEM_E_VALUE: ttmem_code_t = -3;
/// `struct_bytes` is too small, or members that this library does not know are not zero.
pub const TTMEM_E_SIZE: ttmem_code_t = -4;
/// The time was over before the server had confirmed everything; nothing is lost by that.
pub const TTMEM_E_TIMEOUT: ttmem_code_t = -5;

/// So many are open that there is no room for another.
pub const TTMEM_E_TOO_MANY: ttmem_code_t = -6;
/// The process has no memory left for it.
pub const TTMEM_E_NO_MEMORY: ttmem_code_t = -7;

/// Runs `entry`; a panic turns tracking off and the program runs on.
///
/// Not for the record path, which is free of panics, and never around a call that
/// can come back into C++: an exception must not pass `catch_unwind`.
pub(crate) fn guard(entry: impl FnOnce() -> ttmem_code_t) -> ttmem_code_t {
    // What a panic leaves half done belongs to the client, which is not used again.
    catch_unwind(AssertUnwindSafe(entry)).unwrap_or_else(|_panic| {
        let _off = Tracker::disabled();
        TTMEM_E_DISABLED
    })
}

/// [`guard`] for a function that can fail with a code.
pub(crate) fn try_guard(entry: impl FnOnce() -> Result<(), ttmem_code_t>) -> ttmem_code_t {
    guard(|| entry().err().unwrap_or(TTMEM_OK))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_turns_tracking_off_and_goes_no_further() {
        let code = guard(|| panic!("a failure of ours"));
        assert_eq!(code, TTMEM_E_DISABLED);
        assert!(!Tracker.is_enabled());
    }

    #[test]
    fn codes_come_through_the_guard() {
        assert_eq!(guard(|| TTMEM_E_TIMEOUT), TTMEM_E_TIMEOUT);
        assert_eq!(try_guard(|| Err(TTMEM_E_NULL)), TTMEM_E_NULL);
        assert_eq!(try_guard(|| Ok(())), TTMEM_OK);
    }
}
