//! The runtime's objects, read through its own accessors.
//!
//! Each set of accessors is found once, whole or not at all. No layout is assumed where
//! an accessor exists; where one is, of the containers of the standard library and of
//! storage of programs, values are checked before they are believed.
//!
//! Hooks ask only of objects that the runtime has just passed to them, and only where
//! the runtime does not hold the allocator's lock, which does not nest.

pub(crate) mod allocator;
pub(crate) mod bank_sizes;
pub(crate) mod buffer;
pub(crate) mod circular;
pub(crate) mod cluster;
pub(crate) mod commands;
pub(crate) mod creation;
pub(crate) mod dataflow;
pub(crate) mod device;
pub(crate) mod function;
pub(crate) mod kernel;
pub(crate) mod per_core;
pub(crate) mod program;
pub(crate) mod scratchpad;
pub(crate) mod text;
pub(crate) mod vector;

use crate::family::Doubt;
use crate::symbols;
use std::ffi::{CStr, c_void};

/// An object of the runtime.
pub(crate) type Object = *const c_void;

/// A result of at most two words, which is passed on as it came.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct TwoWords(u64, u64);

/// `std::shared_ptr`: the object and its count.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Shared {
    object: Object,
    count: Object,
}

/// The address point of a virtual table: behind the offset and the type.
fn table_at(name: &'static CStr) -> Result<usize, Doubt> {
    let table = symbols::find(name).ok_or(Doubt::Missing(name))?;
    Ok(table.as_ptr().expose_provenance() + 2 * size_of::<usize>())
}

/// Where a function is in a table: its slot is the same in the tables of its whole family.
fn slot_of(
    entries: &[usize],
    function: &'static CStr,
    missing: &'static str,
) -> Result<usize, Doubt> {
    let function = symbols::find(function).ok_or(Doubt::Missing(function))?;
    position_of(entries, function.as_ptr().addr()).ok_or(Doubt::Unexpected(missing))
}

/// The only place of a function: two that the linker made one cannot be told apart.
fn position_of(entries: &[usize], function: usize) -> Option<usize> {
    let mut places = (0..entries.len()).filter(|&at| entries[at] == function);
    let place = places.next()?;
    places.next().is_none().then_some(place)
}

/// Defines a set of accessors that is found whole or not at all.
macro_rules! accessors {
    ($(#[$doc:meta])* struct $set:ident {
        $($(#[$field_doc:meta])* $field:ident: fn($($argument:ty),*) -> $result:ty = $symbol:literal;)*
    }) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub(crate) struct $set {
            $($(#[$field_doc])* $field: unsafe extern "C-unwind" fn($($argument),*) -> $result,)*
        }

        impl $set {
            /// Finds every accessor.
            ///
            /// # Safety
            /// What `find` gives for a mangled name is the function of that name.
            unsafe fn find_all(
                find: impl Fn(&std::ffi::CStr) -> Option<std::ptr::NonNull<std::ffi::c_void>>,
            ) -> Result<Self, $crate::family::Doubt> {
                Ok(Self { $($field: {
                    let symbol = find($symbol).ok_or($crate::family::Doubt::Missing($symbol))?;
                    // SAFETY: the caller vouches that this is the function of the name, and the
                    // type is what the name and the platform's interface make of it.
                    unsafe {
                        std::mem::transmute::<
                            std::ptr::NonNull<std::ffi::c_void>,
                            unsafe extern "C-unwind" fn($($argument),*) -> $result,
                        >(symbol)
                    }
                },)* })
            }
        }
    };
}
pub(crate) use accessors;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_found_by_its_address_or_doubted() {
        let entries = [0x1000, 0x2000, 0x3000];
        assert_eq!(position_of(&entries, 0x3000), Some(2));
        assert_eq!(position_of(&entries, 0x4000), None);
        assert_eq!(position_of(&[0x1000, 0x1000], 0x1000), None);
        let doubt = slot_of(&entries, c"_Znone", "nothing").err();
        assert_eq!(doubt, Some(Doubt::Missing(c"_Znone")));
    }
}
