//! Texts that come from C.

use crate::code::{TTMEM_E_NULL, TTMEM_E_VALUE, ttmem_code_t};
use std::borrow::Cow;
use std::ffi::{CStr, c_char};

/// The longest text that is kept: a definition has two bytes for its length.
pub(crate) const MAX_TEXT_BYTES: usize = 32 << 10;

/// The bytes up to the closing zero; none for a null pointer.
///
/// # Safety
/// A pointer that is not null points to a text closed by a zero, and stays valid for `'a`.
#[expect(unsafe_code, reason = "reads a text of C")]
pub(crate) unsafe fn closed_by_zero<'a>(text: *const c_char) -> Option<&'a [u8]> {
    // SAFETY: not null, and the caller promises that it is closed by a zero and stays valid.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_bytes())
}

/// The text of `length_bytes` bytes; what is not UTF-8 in it is replaced.
///
/// # Safety
/// A pointer that is not null points to that many bytes, which stay valid for `'a`.
#[expect(unsafe_code, reason = "reads a text of C")]
pub(crate) unsafe fn of_length<'a>(
    text: *const c_char,
    length_bytes: usize,
) -> Result<Cow<'a, str>, ttmem_code_t> {
    if text.is_null() {
        return Err(TTMEM_E_NULL);
    }
    if length_bytes > MAX_TEXT_BYTES {
        return Err(TTMEM_E_VALUE);
    }
    // SAFETY: not null, and the caller promises that many bytes that stay valid.
    let bytes = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), length_bytes) };
    // Names come from file systems and compilers: one bad byte must not lose the name.
    Ok(String::from_utf8_lossy(bytes))
}
