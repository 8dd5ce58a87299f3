//! What the process itself may ask of the preloaded library: plain C functions.
//!
//! The Python package `ttmem` and the tests use them.

#![expect(
    unsafe_code,
    reason = "exports C functions, fills a caller's buffer and gives memory away"
)]

use crate::{generation, hooks, report, symbols};
use std::ffi::{CStr, c_char, c_int};
use std::panic::catch_unwind;
use std::ptr::{null_mut, slice_from_raw_parts_mut};
use std::time::Duration;
use ttmem_client::{AskError, Question};
use ttmem_event::EventKind;

/// Waits until the server has applied all that was recorded before; 0 = it has.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_attach_flush(timeout_millis: u32) -> c_int {
    let flushed = catch_unwind(|| {
        let timeout = Duration::from_millis(u64::from(timeout_millis));
        report::tracker().flush(timeout).is_ok()
    });
    if flushed.unwrap_or(false) { 0 } else { -1 }
}

/// Asks the account of this process what it holds, as `ttmem_account_ask` of `ttmem.h` does.
///
/// 0 = `*answer` is a JSON document of `*bytes` bytes, which [`ttmem_attach_free`] frees; -1 = tracking is
/// off; -2 = no place for it; -3 = no such question or stretch; -5 = no answer in time; -6 = too many
/// stretches; -7 = no memory.
///
/// # Safety
/// `answer` and `bytes` are null or can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ttmem_attach_ask(
    ask: u32,
    subject: u64,
    max_rows: u32,
    timeout_millis: u32,
    answer: *mut *mut c_char,
    bytes: *mut usize,
) -> c_int {
    if answer.is_null() || bytes.is_null() {
        return -2;
    }
    let asked = catch_unwind(|| {
        let words = [ask.into(), subject, max_rows.into()];
        let question = Question::from_words(words).ok_or(AskError::Value)?;
        let timeout = Duration::from_millis(timeout_millis.into());
        report::tracker().own_account(question, timeout)
    });
    let (given, length, code) = match asked.unwrap_or(Err(AskError::Disabled)) {
        Ok(document) => {
            let length = document.len();
            (Box::into_raw(document).cast(), length, 0)
        }
        Err(error) => (null_mut(), 0, error.code()),
    };
    // SAFETY: not null, and the caller vouches that it can be written to.
    unsafe { answer.write(given) };
    // SAFETY: as above.
    unsafe { bytes.write(length) };
    code
}

/// Frees an answer of [`ttmem_attach_ask`]; null is none.
///
/// # Safety
/// `answer` and `bytes` are what one call gave, and are freed once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ttmem_attach_free(answer: *mut c_char, bytes: usize) {
    if !answer.is_null() {
        let document = slice_from_raw_parts_mut(answer.cast::<u8>(), bytes);
        // SAFETY: made by `Box::into_raw` with this length, and not freed before.
        drop(unsafe { Box::from_raw(document) });
    }
}

/// Bytes of a mark's name; what is beyond is left out.
const LONGEST_NAME: usize = 32 << 10;

/// Sets a mark, from which on readers see peaks, too; 0 = it is set, -1 = tracking is off, -2 = it
/// has no name.
///
/// # Safety
/// `name` is null or closed by a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ttmem_attach_mark(name: *const c_char, number: u64) -> c_int {
    if name.is_null() {
        return -2;
    }
    // SAFETY: not null, and the caller vouches for the zero.
    let name = unsafe { CStr::from_ptr(name) };
    let marked = catch_unwind(|| {
        let tracker = report::tracker();
        let name = name.to_bytes();
        let name = &name[..name.len().min(LONGEST_NAME)];
        let name = tracker.text(&String::from_utf8_lossy(name));
        tracker.track(EventKind::Marked { name, number });
        tracker.is_enabled()
    });
    if marked.unwrap_or(false) { 0 } else { -1 }
}

/// Stops reporting anything while `paused` is not 0: for a benchmark that compares both.
///
/// What happens meanwhile is never reported. So what begins while it is paused must have ended
/// before it goes on, and the other way round: a buffer that is placed and given back, a
/// program that ran before and runs again. Only then the account is exact afterwards.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_attach_pause(paused: c_int) {
    report::pause(paused != 0);
}

/// Writes where the runtime is and what it is like, and one line per family of hooks: on, or
/// off and why.
///
/// Returns the length of the whole text without its final zero; what does not fit is cut.
///
/// # Safety
/// `buffer` must be writable for `size` bytes, or `size` must be 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ttmem_attach_status(buffer: *mut c_char, size: usize) -> c_int {
    let Ok(text) = catch_unwind(status) else {
        return -1;
    };
    let fitting = text.len().min(size.saturating_sub(1));
    if size > 0 && !buffer.is_null() {
        // SAFETY: the caller vouches for `size` bytes, of which at most `size - 1` are copied.
        unsafe { buffer.copy_from_nonoverlapping(text.as_ptr().cast(), fitting) };
        // SAFETY: `fitting` is below `size`.
        let end = unsafe { buffer.add(fitting) };
        // SAFETY: it is the last of at most `size` bytes.
        unsafe { end.write(0) };
    }
    c_int::try_from(text.len()).unwrap_or(c_int::MAX)
}

fn status() -> String {
    if !symbols::is_runtime_loaded() {
        return "no TT-Metal in this process\n".to_owned();
    }
    let library = symbols::library().unwrap_or_default();
    let like = match generation::of(|name| symbols::find(name).is_some()) {
        Some(generation) => format!("like ttnn {}", generation.releases),
        None => "like no ttnn that is known".to_owned(),
    };
    format!("runtime: {library}, {like}\n{}", hooks::describe())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_is_cut_to_the_buffer_and_ends_with_a_zero() {
        let mut buffer: [c_char; 6] = [1; 6];
        // SAFETY: the buffer is as long as said.
        let length = unsafe { ttmem_attach_status(buffer.as_mut_ptr(), 6) };
        assert_eq!(length, 28);
        let expected: Vec<c_char> = b"no TT\0"
            .iter()
            .map(|&byte| c_char::try_from(byte).expect("ASCII"))
            .collect();
        assert_eq!(buffer.as_slice(), expected);
    }
}
