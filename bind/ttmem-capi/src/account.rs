//! Asking the process's own account.
#![expect(unsafe_code, reason = "exports a C symbol that calls a given function")]

use crate::code::{TTMEM_E_NULL, TTMEM_E_VALUE, TTMEM_OK, guard, ttmem_code_t};
use std::ffi::{c_char, c_void};
use std::time::Duration;
use ttmem_client::{Question, Tracker};

/// What to ask the account of this process: one of TTMEM_ASK_*.
pub type ttmem_ask_t = u32;

/// What is held, with the peaks of the stretch `subject`; 0 is the one since start or reset.
pub const TTMEM_ASK_FIGURES: ttmem_ask_t = 0;
/// The same with the `max_rows` largest buffers.
pub const TTMEM_ASK_SNAPSHOT: ttmem_ask_t = 1;
/// Peaks begin anew on the device `subject`, or on all devices if it is UINT64_MAX.
pub const TTMEM_ASK_RESET: ttmem_ask_t = 2;
/// A stretch of its own begins; the answer has its number.
pub const TTMEM_ASK_BEGIN: ttmem_ask_t = 3;
/// The stretch `subject` ends: its peaks, and the `max_rows` largest buffers that were placed in
/// it and are still held.
pub const TTMEM_ASK_END: ttmem_ask_t = 4;

/// Takes an answer of `bytes` bytes, which are valid during the call only; it must not throw.
pub type ttmem_answer_t =
    Option<extern "C" fn(context: *mut c_void, answer: *const c_char, bytes: usize)>;

/// Asks the account of this process what it holds; needs no server.
///
/// `take` is called once, before this returns, with a JSON document that has everything reported
/// before the call. Nothing is asked where the code is not TTMEM_OK: TTMEM_E_VALUE for a stretch
/// that is not open, TTMEM_E_TOO_MANY when a thousand are.
///
/// # Safety
/// `take` is null or a function that may be called with `context`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ttmem_account_ask(
    ask: ttmem_ask_t,
    subject: u64,
    max_rows: u32,
    timeout_millis: u32,
    take: ttmem_answer_t,
    context: *mut c_void,
) -> ttmem_code_t {
    let Some(take) = take else {
        return TTMEM_E_NULL;
    };
    let mut answer = String::new();
    let code = guard(|| {
        let Some(question) = Question::from_words([ask.into(), subject, max_rows.into()]) else {
            return TTMEM_E_VALUE;
        };
        let timeout = Duration::from_millis(timeout_millis.into());
        match Tracker.own_account(question, timeout) {
            Ok(text) => {
                answer = text;
                TTMEM_OK
            }
            Err(error) => error.code(),
        }
    });
    // Outside of the guard, which is for failures of ours.
    if code == TTMEM_OK {
        take(context, answer.as_ptr().cast(), answer.len());
    }
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    extern "C" fn take(_context: *mut c_void, _answer: *const c_char, _bytes: usize) {
        panic!("there is no answer to a question that makes no sense");
    }

    fn ask(ask: ttmem_ask_t, subject: u64, take: ttmem_answer_t) -> ttmem_code_t {
        // SAFETY: the function takes any context.
        unsafe { ttmem_account_ask(ask, subject, 0, 0, take, std::ptr::null_mut()) }
    }

    #[test]
    fn what_makes_no_sense_is_refused_before_anything_starts() {
        assert_eq!(ask(TTMEM_ASK_FIGURES, 0, None), TTMEM_E_NULL);
        assert_eq!(ask(99, 0, Some(take)), TTMEM_E_VALUE);
        let no_device = u64::from(u32::MAX) + 1;
        assert_eq!(ask(TTMEM_ASK_RESET, no_device, Some(take)), TTMEM_E_VALUE);
    }
}
