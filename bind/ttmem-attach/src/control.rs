//! What a test may ask of the preloaded library: plain C functions.

#![expect(
    unsafe_code,
    reason = "exports C functions and fills a caller's buffer"
)]

use crate::{generation, hooks, report, symbols};
use std::ffi::{c_char, c_int};
use std::panic::catch_unwind;
use std::time::Duration;

/// Waits until the server has applied all that was recorded before; 0 = it has.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_attach_flush(timeout_millis: u32) -> c_int {
    let flushed = catch_unwind(|| {
        let timeout = Duration::from_millis(u64::from(timeout_millis));
        report::tracker().flush(timeout).is_ok()
    });
    if flushed.unwrap_or(false) { 0 } else { -1 }
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
