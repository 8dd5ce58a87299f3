//! The runtime's objects, read through its own accessors.
//!
//! Each set of accessors is found once, whole or not at all. No layout is assumed where
//! an accessor exists; where one is, of the containers of the standard library and of
//! storage of programs, values are checked before they are believed.
//!
//! Hooks ask only of objects that the runtime has just passed to them, and only where
//! the runtime does not hold the allocator's lock, which does not nest. docs/attach.md has
//! the list of all that is asked, and why nothing of it can fail where it is.

#![expect(unsafe_code, reason = "gives the runtime's functions their types")]

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
pub(crate) mod unordered_map;
pub(crate) mod vector;

use crate::family::Unsupported;
use crate::symbols;
use std::ffi::{CStr, c_void};

/// An object of the runtime, or null.
///
/// It comes from the runtime itself, as an argument of a hook or as a result of an accessor,
/// and is alive until that hook returns: whoever has one may ask it. What is kept longer is
/// an address, and who makes an object of it again says why it is still there.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Object(*const c_void);

impl Object {
    pub(crate) const NULL: Self = Self(std::ptr::null());

    /// The object at an address that was kept; 0 = null.
    ///
    /// # Safety
    /// The object is still alive, and stays so until the hook returns.
    pub(crate) unsafe fn at(address: usize) -> Self {
        Self(std::ptr::with_exposed_provenance(address))
    }

    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    #[inline]
    pub(crate) fn address(self) -> usize {
        self.0.expose_provenance()
    }

    /// What lies so many bytes behind the beginning of the object.
    ///
    /// # Safety
    /// The object is not null, and has a `T` there.
    pub(crate) unsafe fn read<T: Copy>(self, offset: usize) -> T {
        // SAFETY: the object is alive, and the caller vouches for what is there.
        unsafe { self.0.wrapping_byte_add(offset).cast::<T>().read() }
    }

    /// A virtual function that takes nothing else.
    ///
    /// # Safety
    /// The object is not null, and has such a function in that slot.
    unsafe fn virtual_function<R>(self, slot: usize) -> extern "C-unwind" fn(Self) -> R {
        // SAFETY: an object with virtual functions begins with the address of its table.
        let table = unsafe { self.read::<*const usize>(0) };
        // SAFETY: the caller vouches for the slot.
        let slot = unsafe { table.add(slot) };
        // SAFETY: the caller vouches for the function's type.
        unsafe { slot.cast::<extern "C-unwind" fn(Self) -> R>().read() }
    }

    /// The object that a member points to: plain pointers and shared ones begin with it.
    ///
    /// # Safety
    /// The object is not null, and begins with such a pointer to something that it keeps alive.
    pub(crate) unsafe fn first_member(self) -> Self {
        // SAFETY: as the caller vouches, it begins with a pointer.
        unsafe { self.read(0) }
    }
}

/// A result of at most two words, which is passed on as it came.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct TwoWords(u64, u64);

/// `tt::xy_pair`: a core, or the size of a grid.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    x: u64,
    y: u64,
}

/// No L1 is larger.
const MAX_L1_BYTES: u32 = 16 << 20;

/// `std::shared_ptr`: the object and its count.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Shared {
    object: Object,
    count: Object,
}

/// The address point of a virtual table: behind the offset and the type.
fn table_at(name: &'static CStr) -> Result<usize, Unsupported> {
    let table = symbols::require(name)?;
    Ok(table.as_ptr().expose_provenance() + 2 * size_of::<usize>())
}

/// Where a function is in the first entries of a class's virtual table: its slot is the same in
/// the tables of its whole family.
fn slot_of<const SEARCHED: usize>(
    table: &'static CStr,
    function: &'static CStr,
    missing: &'static str,
) -> Result<usize, Unsupported> {
    let entries = std::ptr::with_exposed_provenance::<[usize; SEARCHED]>(table_at(table)?);
    let function = symbols::require(function)?;
    // SAFETY: who asks knows that the class has more virtual functions than are searched.
    let entries = unsafe { entries.read() };
    position_of(&entries, function.as_ptr().addr()).ok_or(Unsupported::Unexpected(missing))
}

/// The only place of a function: two that the linker merged cannot be distinguished.
fn position_of(entries: &[usize], function: usize) -> Option<usize> {
    let mut places = (0..entries.len()).filter(|&at| entries[at] == function);
    let place = places.next()?;
    places.next().is_none().then_some(place)
}

/// Defines a set of accessors that is found whole or not at all; `=> NAME` is that of this
/// process's runtime.
macro_rules! accessors {
    ($(#[$doc:meta])* struct $set:ident $(=> $found:ident)? {
        $($(#[$field_doc:meta])* $field_visibility:vis $field:ident: fn($($argument:ty),*) -> $result:ty = $symbol:literal;)*
    }) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub(crate) struct $set {
            $($(#[$field_doc])* $field_visibility $field: extern "C-unwind" fn($($argument),*) -> $result,)*
        }

        $(pub(crate) static $found: std::sync::LazyLock<Result<$set, $crate::family::Unsupported>> =
            std::sync::LazyLock::new(|| {
                // SAFETY: the loader gives the function of each name.
                unsafe { $set::find($crate::symbols::find) }
            });)?

        impl $set {
            /// # Safety
            /// What `find` gives for a mangled name is the function of that name.
            unsafe fn find(
                find: impl Fn(&std::ffi::CStr) -> Option<std::ptr::NonNull<std::ffi::c_void>>,
            ) -> Result<Self, $crate::family::Unsupported> {
                Ok(Self { $($field: {
                    let symbol = find($symbol).ok_or($crate::family::Unsupported::Missing($symbol))?;
                    // SAFETY: the caller vouches that this is the function of the name, and the
                    // type is what the name and the platform's interface make of it. Objects
                    // that it is passed are alive, which is all that it asks.
                    unsafe {
                        std::mem::transmute::<
                            std::ptr::NonNull<std::ffi::c_void>,
                            extern "C-unwind" fn($($argument),*) -> $result,
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
        let doubt = slot_of::<3>(c"_ZTVnone", c"_Znone", "nothing").err();
        assert_eq!(doubt, Some(Unsupported::Missing(c"_ZTVnone")));
    }
}
