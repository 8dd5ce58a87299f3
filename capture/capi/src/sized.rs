//! Structures of C that may grow: their first member says how long they are.
//!
//! A program that was compiled with an older header passes a shorter structure;
//! what it does not have is zero. One that was compiled with a newer header passes
//! a longer one, which is accepted as long as it does not use what is new.

use crate::code::{TTMEM_E_NULL, TTMEM_E_SIZE, ttmem_code_t};
use std::mem::MaybeUninit;

/// No structure will be this long: more is a member that was not set.
const MAX_STRUCT_BYTES: usize = 4096;

/// A structure whose first member is its length.
///
/// # Safety
/// `repr(C)`; the first member is a `usize`; all zeros, and any bytes where an
/// integer stands, are a valid value.
#[expect(unsafe_code, reason = "zeros and bytes of C are taken for a value")]
pub(crate) unsafe trait Growing: Copy {
    /// Its length in the first version of the library.
    const FIRST_BYTES: usize;
}

/// Copies a structure of a C program.
///
/// # Safety
/// A pointer that is not null points to a readable structure as long as it says.
#[expect(unsafe_code, reason = "reads a structure of C")]
pub(crate) unsafe fn read<T: Growing>(given: *const T) -> Result<T, ttmem_code_t> {
    // SAFETY: the caller promises null, or a structure, whose first member is a `usize`.
    let given_bytes = unsafe { length(given) }?;
    let known_bytes = given_bytes.min(size_of::<T>());
    let mut value = MaybeUninit::<T>::zeroed();
    // SAFETY: both are at least `known_bytes` long: the minimum of the two lengths.
    unsafe {
        std::ptr::copy_nonoverlapping(
            given.cast::<u8>(),
            value.as_mut_ptr().cast::<u8>(),
            known_bytes,
        );
    }
    // SAFETY: the caller promises `given_bytes` readable bytes.
    let all = unsafe { std::slice::from_raw_parts(given.cast::<u8>(), given_bytes) };
    if all[known_bytes..].iter().any(|byte| *byte != 0) {
        return Err(TTMEM_E_SIZE);
    }
    // SAFETY: zeros, with bytes of C above them, are a valid value: the contract of `Growing`.
    Ok(unsafe { value.assume_init() })
}

/// Fills in a structure of a C program, as much of it as that knows.
///
/// # Safety
/// A pointer that is not null points to a writable structure as long as it says.
#[expect(unsafe_code, reason = "writes a structure of C")]
pub(crate) unsafe fn write<T: Growing>(
    given: *mut T,
    with: impl FnOnce(usize) -> T,
) -> Result<(), ttmem_code_t> {
    // SAFETY: the caller promises null, or a structure, whose first member is a `usize`.
    let given_bytes = unsafe { length(given) }?;
    let value = with(given_bytes);
    let known_bytes = given_bytes.min(size_of::<T>());
    // SAFETY: both are at least `known_bytes` long, and `value` is ours alone.
    unsafe {
        std::ptr::copy_nonoverlapping(
            (&raw const value).cast::<u8>(),
            given.cast::<u8>(),
            known_bytes,
        );
    }
    Ok(())
}

/// What the first member says, if it can be.
///
/// # Safety
/// A pointer that is not null points to a readable `usize`.
#[expect(unsafe_code, reason = "reads the first member of a structure of C")]
unsafe fn length<T: Growing>(given: *const T) -> Result<usize, ttmem_code_t> {
    if given.is_null() {
        return Err(TTMEM_E_NULL);
    }
    // SAFETY: not null, and the first member is a `usize`: the contract of `Growing`.
    let length = unsafe { given.cast::<usize>().read() };
    if (T::FIRST_BYTES..=MAX_STRUCT_BYTES).contains(&length) {
        Ok(length)
    } else {
        Err(TTMEM_E_SIZE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C)]
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Grown {
        struct_bytes: usize,
        first: u64,
        added: u64,
    }

    #[expect(unsafe_code, reason = "integers only")]
    // SAFETY: `repr(C)`, a `usize` first, then integers.
    unsafe impl Growing for Grown {
        const FIRST_BYTES: usize = 16;
    }

    /// A structure of `length` words that says it has `said` bytes.
    #[expect(unsafe_code, reason = "calls the function under test")]
    fn read_words(words: &[u64]) -> Result<Grown, ttmem_code_t> {
        // SAFETY: each test says no more than there is.
        unsafe { read(words.as_ptr().cast::<Grown>()) }
    }

    #[test]
    fn an_older_program_leaves_out_what_is_new() {
        let value = read_words(&[16, 7]);
        let expected = Grown {
            struct_bytes: 16,
            first: 7,
            added: 0,
        };
        assert_eq!(value, Ok(expected));
    }

    #[test]
    fn a_newer_program_must_not_use_what_is_newer() {
        assert_eq!(read_words(&[32, 7, 8, 0]).map(|value| value.added), Ok(8));
        assert_eq!(read_words(&[32, 7, 8, 1]), Err(TTMEM_E_SIZE));
    }

    #[test]
    fn a_length_that_cannot_be_is_refused() {
        assert_eq!(read_words(&[15, 7]), Err(TTMEM_E_SIZE));
        assert_eq!(read_words(&[0, 7]), Err(TTMEM_E_SIZE));
        assert_eq!(read_words(&[u64::MAX, 7]), Err(TTMEM_E_SIZE));
    }

    #[test]
    #[expect(unsafe_code, reason = "calls the functions under test")]
    fn only_what_the_program_knows_is_written() {
        let mut words = [16_u64, 0, 99];
        let given = words.as_mut_ptr().cast::<Grown>();
        // SAFETY: it says 16 bytes and has 24.
        let written = unsafe {
            write(given, |struct_bytes| Grown {
                struct_bytes,
                first: 7,
                added: 8,
            })
        };
        assert_eq!(written, Ok(()));
        assert_eq!(words, [16, 7, 99]);
        // SAFETY: null is refused before anything is read.
        let null = unsafe { write(std::ptr::null_mut(), |_bytes| -> Grown { unreachable!() }) };
        assert_eq!(null, Err(TTMEM_E_NULL));
    }
}
