//! `std::function`, lent to the runtime for the time of a call.

use std::ffi::c_void;

/// What a function keeps; the first word is the lender's own.
pub(super) type Kept = [*mut c_void; 2];

/// `std::function`: what it keeps, then what manages it and what calls it.
///
/// What calls it gets the address of what is kept and, as references, the arguments. Nobody
/// copies or destroys what is lent, so there is nothing to manage; it must only not look empty.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Function<I> {
    kept: Kept,
    manager: unsafe extern "C" fn(),
    pub(super) invoker: I,
}

impl<I> Function<I> {
    pub(super) fn lent(word: *mut c_void, invoker: I) -> Self {
        Self {
            kept: [word, std::ptr::null_mut()],
            manager: never,
            invoker,
        }
    }
}

/// Stands where a function has its manager.
extern "C" fn never() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_at_the_beginning() {
        let mut word = 7_u64;
        let function = Function::lent((&raw mut word).cast(), ());
        assert_eq!(std::mem::offset_of!(Function<()>, kept), 0);
        assert_eq!(function.kept[0], (&raw mut word).cast());
        assert_eq!(std::mem::offset_of!(Function<fn()>, invoker), 24);
    }
}
