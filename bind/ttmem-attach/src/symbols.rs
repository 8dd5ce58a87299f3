//! The runtime's own functions behind the names this library defines.
//!
//! `RTLD_NEXT` does not find them: it searches what was loaded when the program
//! started, and Python loads ttnn later and locally. So the loaded objects are searched
//! for the runtime's library, and the symbol is asked of that library itself, whose
//! scope does not contain ours. A runtime that is built into another library is found
//! by asking every loaded object.

#![expect(unsafe_code, reason = "asks the loader through its C interface")]

use crate::family::Doubt;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering};

/// The library that defines the functions, where TT-Metal is a library of its own.
const RUNTIME_LIBRARY: &[u8] = b"/libtt_metal.so";

/// A function whose presence tells that an object is, or contains, the runtime.
///
/// Every release has it, and this library does not define it.
const LANDMARK: &CStr = c"_ZNK2tt8tt_metal6Buffer7addressEv";

/// A handle of the runtime's library; null before it is loaded.
static RUNTIME: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// The runtime's symbol of that name.
pub(crate) fn find(name: &CStr) -> Option<NonNull<c_void>> {
    let mut runtime = RUNTIME.load(Ordering::Relaxed);
    if runtime.is_null() {
        runtime = find_runtime()?.as_ptr();
        RUNTIME.store(runtime, Ordering::Relaxed);
    }
    symbol_of(runtime, name)
}

/// Whether the runtime has all of these symbols; what hooks alone use is not asked for otherwise.
pub(crate) fn need_all(names: &[&'static CStr]) -> Result<(), Doubt> {
    let missing = names.iter().find(|name| find(name).is_none());
    missing.map_or(Ok(()), |name| Err(Doubt::Missing(name)))
}

/// Whether TT-Metal is loaded.
pub(crate) fn is_runtime_loaded() -> bool {
    find(LANDMARK).is_some()
}

/// The path of the library that the runtime is in.
pub(crate) fn library() -> Option<String> {
    let landmark = find(LANDMARK)?;
    let mut found = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: `found` is writable; the address is not read.
    if unsafe { libc::dladdr(landmark.as_ptr(), found.as_mut_ptr()) } == 0 {
        return None;
    }
    // SAFETY: dladdr filled it in, and zero is valid for each of its fields.
    let name = unsafe { found.assume_init() }.dli_fname;
    if name.is_null() {
        return None;
    }
    // SAFETY: the loader's names are C strings that stay while the library is loaded.
    let name = unsafe { CStr::from_ptr(name) };
    Some(name.to_string_lossy().into_owned())
}

/// The real function of a hook that was called.
///
/// The caller was linked against it, so it exists: without it there is no way to go on.
#[cold]
pub(crate) fn find_original(name: &CStr) -> NonNull<c_void> {
    find(name)
        .or_else(|| find_anywhere(name))
        .unwrap_or_else(|| {
            crate::family::complain(&format!("{} is nowhere", name.to_string_lossy()));
            std::process::abort()
        })
}

/// What a walk for one symbol looks for and finds.
struct Definition<'n> {
    name: &'n CStr,
    found: *mut c_void,
}

/// The definition of a symbol in whatever library has it, if that is not this one.
///
/// Functions of ttnn are not in the runtime's library, and of data that many libraries have
/// the first that was loaded is everybody's.
#[cold]
pub(crate) fn find_anywhere(name: &CStr) -> Option<NonNull<c_void>> {
    let found = ptr::null_mut();
    let mut definition = Definition { name, found };
    // SAFETY: the callback has the type the function asks for and keeps nothing.
    unsafe { libc::dl_iterate_phdr(Some(ask), (&raw mut definition).cast()) };
    NonNull::new(definition.found)
}

/// Takes the definition of an object that comes by, and stops there.
extern "C" fn ask(object: *mut libc::dl_phdr_info, _size: usize, definition: *mut c_void) -> c_int {
    // SAFETY: `find_anywhere` passed its own, which outlives the walk.
    let definition = unsafe { &mut *definition.cast::<Definition<'_>>() };
    // SAFETY: the loader passes a valid description of a loaded object.
    let name: *const c_char = unsafe { (*object).dlpi_name };
    // SAFETY: the loader's names are C strings. The program itself has no name, and this
    // library comes first in its scope.
    if name.is_null() || unsafe { *name } == 0 {
        return 0;
    }
    // SAFETY: the name is a C string; NOLOAD only takes a handle of what is loaded.
    let handle = unsafe { libc::dlopen(name, libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    if handle.is_null() {
        return 0;
    }
    let Some(symbol) = symbol_of(handle, definition.name) else {
        return 0;
    };
    let own: extern "C" fn(*mut libc::dl_phdr_info, usize, *mut c_void) -> c_int = ask;
    if object_with(symbol.as_ptr()) == object_with(own as *const c_void) {
        return 0;
    }
    definition.found = symbol.as_ptr();
    1
}

/// Where the object begins that contains an address; null if none does.
fn object_with(address: *const c_void) -> *mut c_void {
    let mut found = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: `found` is writable; any address may be asked for, it is not read.
    unsafe { libc::dladdr(address, found.as_mut_ptr()) };
    // SAFETY: zero is valid for each of its fields, and dladdr may have filled them in.
    unsafe { found.assume_init() }.dli_fbase
}

fn symbol_of(handle: *mut c_void, name: &CStr) -> Option<NonNull<c_void>> {
    // SAFETY: the handle came from dlopen and is never closed; the name is a C string.
    let symbol = unsafe { libc::dlsym(handle, name.as_ptr()) };
    NonNull::new(symbol)
}

/// What one walk over the loaded objects looks for and finds.
struct Search {
    by_name: bool,
    found: *mut c_void,
}

fn find_runtime() -> Option<NonNull<c_void>> {
    [true, false].into_iter().find_map(|by_name| {
        let found = ptr::null_mut();
        let mut search = Search { by_name, found };
        // SAFETY: the callback has the type the function asks for and keeps nothing.
        unsafe { libc::dl_iterate_phdr(Some(consider), (&raw mut search).cast()) };
        NonNull::new(search.found)
    })
}

/// Takes a handle of the runtime's library when it comes by, and stops there.
extern "C" fn consider(
    object: *mut libc::dl_phdr_info,
    _size: usize,
    search: *mut c_void,
) -> c_int {
    // SAFETY: `find_runtime` passed its own, which outlives the walk.
    let search = unsafe { &mut *search.cast::<Search>() };
    // SAFETY: the loader passes a valid description of a loaded object.
    let name: *const c_char = unsafe { (*object).dlpi_name };
    if name.is_null() {
        return 0;
    }
    // SAFETY: the loader's names are C strings.
    let bytes = unsafe { CStr::from_ptr(name) }.to_bytes();
    // The program itself has no name: its scope begins with what was preloaded.
    if bytes.is_empty() || (search.by_name && !bytes.ends_with(RUNTIME_LIBRARY)) {
        return 0;
    }
    // SAFETY: the name is a C string; NOLOAD only takes a handle of what is loaded.
    let handle = unsafe { libc::dlopen(name, libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    if handle.is_null() || symbol_of(handle, LANDMARK).is_none() {
        return 0;
    }
    search.found = handle;
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symbol_of_another_library_is_found() {
        let getpid: unsafe extern "C" fn() -> libc::pid_t = libc::getpid;
        let found = find_anywhere(c"getpid").map(|found| found.as_ptr().cast_const());
        assert_eq!(found, Some(getpid as *const c_void));
    }

    #[test]
    fn a_process_without_the_runtime_has_none_of_its_symbols() {
        assert!(!is_runtime_loaded());
        assert_eq!(library(), None);
        assert_eq!(find(c"_ZNK2tt8tt_metal6Buffer4sizeEv"), None);
        assert_eq!(find_anywhere(c"_ZNK2tt8tt_metal6Buffer4sizeEv"), None);
    }
}
