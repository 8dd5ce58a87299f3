//! Asking the process's own account.
#![expect(
    unsafe_code,
    reason = "exports C symbols that give memory away and take it back"
)]

use crate::code::{TTMEM_E_NULL, TTMEM_E_VALUE, TTMEM_OK, guard, ttmem_code_t};
use std::ffi::c_char;
use std::ptr::{null_mut, slice_from_raw_parts_mut};
use std::time::Duration;
use ttmem_client::{Question, Tracker};

/// What to ask the account of this process: one of TTMEM_ASK_*.
pub type ttmem_ask_t = u32;

/// What is held, with the peaks of the stretch `subject`; 0 is the one since start or reset.
pub const TTMEM_ASK_FIGURES: ttmem_ask_t = 0;
/// The same with the `max_rows` largest buffers; of a stretch other than 0, those placed in it.
pub const TTMEM_ASK_SNAPSHOT: ttmem_ask_t = 1;
/// Peaks begin anew on the device `subject`, or on all devices if it is UINT64_MAX.
pub const TTMEM_ASK_RESET: ttmem_ask_t = 2;
/// A stretch of its own begins; the answer has its number.
pub const TTMEM_ASK_BEGIN: ttmem_ask_t = 3;
/// The stretch `subject` ends: its peaks, and the `max_rows` largest buffers that were placed in
/// it and are still held, or were when their mesh was closed.
pub const TTMEM_ASK_END: ttmem_ask_t = 4;
/// Figures of the stretch `subject`, and up to `max_rows` texts that held most at each peak.
pub const TTMEM_ASK_PEAKS: ttmem_ask_t = 5;

/// Asks the account of this process what it holds; needs no server.
///
/// `*answer` is a JSON document of `*bytes` bytes that has everything reported before the call, not
/// closed by a zero; `ttmem_account_free` frees it. Where the code is not TTMEM_OK it is null:
/// TTMEM_E_VALUE for a stretch that is not open, TTMEM_E_TOO_MANY when a thousand are,
/// TTMEM_E_NO_MEMORY where there is none for the answer.
///
/// # Safety
/// `answer` and `bytes` are null or can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ttmem_account_ask(
    ask: ttmem_ask_t,
    subject: u64,
    max_rows: u32,
    timeout_millis: u32,
    answer: *mut *mut c_char,
    bytes: *mut usize,
) -> ttmem_code_t {
    if answer.is_null() || bytes.is_null() {
        return TTMEM_E_NULL;
    }
    let mut document = None;
    let code = guard(|| {
        let Some(question) = Question::from_words([ask.into(), subject, max_rows.into()]) else {
            return TTMEM_E_VALUE;
        };
        let timeout = Duration::from_millis(timeout_millis.into());
        match Tracker.own_account(question, timeout) {
            Ok(made) => {
                document = Some(made);
                TTMEM_OK
            }
            Err(error) => error.code(),
        }
    });
    let length = document.as_ref().map_or(0, |document| document.len());
    let given = document.map_or(null_mut(), |document| Box::into_raw(document).cast());
    // SAFETY: not null, and the caller vouches that it can be written to.
    unsafe { answer.write(given) };
    // SAFETY: as above.
    unsafe { bytes.write(length) };
    code
}

/// Frees an answer of `ttmem_account_ask`; null is none.
///
/// # Safety
/// `answer` and `bytes` are what one call of `ttmem_account_ask` gave, and are freed once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ttmem_account_free(answer: *mut c_char, bytes: usize) {
    if !answer.is_null() {
        let document = slice_from_raw_parts_mut(answer.cast::<u8>(), bytes);
        // SAFETY: made by `Box::into_raw` with this length, and not freed before.
        drop(unsafe { Box::from_raw(document) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(ask: ttmem_ask_t, subject: u64, bytes: *mut usize) -> (ttmem_code_t, *mut c_char) {
        let mut answer = std::ptr::dangling_mut();
        // SAFETY: the first is a place of ours, the second null or one.
        let code = unsafe { ttmem_account_ask(ask, subject, 0, 0, &raw mut answer, bytes) };
        (code, answer)
    }

    #[test]
    fn what_makes_no_sense_is_refused_before_anything_starts() {
        assert_eq!(ask(TTMEM_ASK_FIGURES, 0, null_mut()).0, TTMEM_E_NULL);
        let no_device = u64::from(u32::MAX) + 1;
        for (which, subject) in [(99, 0), (TTMEM_ASK_RESET, no_device)] {
            let mut bytes = 1;
            let refused = ask(which, subject, &raw mut bytes);
            assert_eq!((refused, bytes), ((TTMEM_E_VALUE, null_mut()), 0));
        }
        // SAFETY: null is none.
        unsafe { ttmem_account_free(null_mut(), 0) };
    }
}
