//! The runtime's own functions behind the names this library defines.
//!
//! `RTLD_NEXT` does not find them: it searches what was loaded when the program
//! started, and Python loads ttnn later and locally. So the loaded objects are searched
//! for the runtime's library, and the symbol is asked of that library itself, whose
//! scope does not contain ours. A runtime that is built into another library is found
//! by asking every loaded object.

#![expect(unsafe_code, reason = "asks the loader through its C interface")]

use crate::family::Unsupported;
use crate::operation::take_part;
use std::borrow::Cow;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering};

/// The library that defines the functions, where TT-Metal is a library of its own.
const RUNTIME_LIBRARY: &[u8] = b"/libtt_metal.so";

/// A function whose presence shows that an object is, or contains, the runtime.
///
/// Every release has it, and this library does not define it.
const LANDMARK: &CStr = c"_ZNK2tt8tt_metal6Buffer7addressEv";

/// A handle of the runtime's library; null before it is loaded.
static RUNTIME: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// The function that gives back what the runtime allocated.
///
/// The runtime calls the first of that name in the process, which a preloaded library may
/// have replaced, not the one its own library would find. No other may be asked of the
/// process, which finds this library's functions before the runtime's.
const DELETE: &CStr = c"_ZdlPv";

pub(crate) fn find(name: &CStr) -> Option<NonNull<c_void>> {
    if name == DELETE
        && let Some(delete) = symbol_of(libc::RTLD_DEFAULT, name)
    {
        return Some(delete);
    }
    let mut runtime = RUNTIME.load(Ordering::Relaxed);
    if runtime.is_null() {
        runtime = find_runtime()?.as_ptr();
        RUNTIME.store(runtime, Ordering::Relaxed);
    }
    symbol_of(runtime, name)
}

/// As [`find`]; without it a family that needs it is off.
pub(crate) fn require(name: &'static CStr) -> Result<NonNull<c_void>, Unsupported> {
    find(name).ok_or(Unsupported::Missing(name))
}

pub(crate) fn need_all(names: &[&'static CStr]) -> Result<(), Unsupported> {
    names.iter().try_for_each(|name| require(name).map(drop))
}

pub(crate) fn is_runtime_loaded() -> bool {
    find(LANDMARK).is_some()
}

pub(crate) fn library() -> Option<String> {
    let landmark = find(LANDMARK)?;
    let path = around(landmark.as_ptr().addr())?.library?;
    Some(path.to_string_lossy().into_owned())
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Around {
    /// Where the library begins that it lies in, and the path of that.
    pub(crate) base: usize,
    pub(crate) library: Option<&'static CStr>,
    pub(crate) symbol: Option<&'static CStr>,
}

/// A mangled name as people know it: the class and the function, or the type.
///
/// One that cannot be read stays as it is.
pub(crate) fn readable(name: &CStr) -> Cow<'_, str> {
    let mangled = name.to_string_lossy();
    readable_parts(&mangled).map_or(mangled.clone(), Cow::Owned)
}

fn readable_parts(mangled: &str) -> Option<String> {
    let (is_type, nested) = match mangled.strip_prefix("_ZTVN") {
        Some(nested) => (true, nested),
        None => (false, mangled.strip_prefix("_ZN")?),
    };
    let mut rest = nested.strip_prefix('K').unwrap_or(nested);
    let mut parts = Vec::new();
    while let Some(part) = take_part(&mut rest)? {
        parts.push(part);
    }
    let &last = parts.last()?;
    // Constructors and destructors have the name of their class.
    match rest.as_bytes().first() {
        Some(b'C') => parts.push(last),
        Some(b'D') => return Some(format!("{last}::~{last}")),
        _function => {}
    }
    let shown = if is_type { 1 } else { 2 };
    let shown = &parts[parts.len().saturating_sub(shown)..];
    Some(shown.join("::"))
}

/// What an address lies in; none if that is no library.
pub(crate) fn around(address: usize) -> Option<Around> {
    /// # Safety
    /// It is null or a name of the loader's.
    unsafe fn name(name: *const c_char) -> Option<&'static CStr> {
        // SAFETY: the loader's names are C strings that stay while the library is loaded. Ours
        // does, and whoever asks for another is called from there.
        (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) })
    }
    let mut found = MaybeUninit::<libc::Dl_info>::zeroed();
    let address = ptr::without_provenance::<c_void>(address);
    // SAFETY: `found` is writable; any address may be asked for, it is not read.
    if unsafe { libc::dladdr(address, found.as_mut_ptr()) } == 0 {
        return None;
    }
    // SAFETY: dladdr filled it in, and zero is valid for each of its fields.
    let found = unsafe { found.assume_init() };
    Some(Around {
        base: found.dli_fbase.addr(),
        // SAFETY: dladdr has given the name.
        library: unsafe { name(found.dli_fname) },
        // SAFETY: dladdr has given the name.
        symbol: unsafe { name(found.dli_sname) },
    })
}

/// The real function of a hook that was called.
///
/// The caller was linked against it, so it exists: without it there is no way to go on.
#[cold]
pub(crate) fn find_original(name: &CStr) -> NonNull<c_void> {
    find(name)
        .or_else(|| find_anywhere(name))
        .unwrap_or_else(|| {
            ttmem_client::complain(&format!("{} is nowhere", readable(name)));
            std::process::abort()
        })
}

/// The definition of a symbol in whatever library has it, if that is not this one.
///
/// Functions of ttnn are not in the runtime's library, and of data that many libraries have
/// the first that was loaded is everybody's.
#[cold]
pub(crate) fn find_anywhere(name: &CStr) -> Option<NonNull<c_void>> {
    let library_of = |symbol: *const c_void| around(symbol.addr()).map(|found| found.base);
    let own: extern "C" fn(*mut libc::dl_phdr_info, usize, *mut c_void) -> c_int = collect;
    let own = library_of(own as *const c_void);
    let elsewhere = |handle| {
        let found = symbol_of(handle, name);
        found.filter(|symbol| library_of(symbol.as_ptr()) != own)
    };
    let objects = loaded_objects();
    let found = objects
        .iter()
        .find_map(|object| handle_with(object, elsewhere));
    found.map(|(_handle, symbol)| symbol)
}

/// Takes the name of an object that comes by.
///
/// They are asked after the walk: it holds a lock that loading a library takes as well.
extern "C" fn collect(
    object: *mut libc::dl_phdr_info,
    _size: usize,
    objects: *mut c_void,
) -> c_int {
    // SAFETY: `loaded_objects` passed its own, which outlives the walk.
    let objects = unsafe { &mut *objects.cast::<Vec<CString>>() };
    // SAFETY: the loader passes a valid description of a loaded object.
    let name: *const c_char = unsafe { (*object).dlpi_name };
    if !name.is_null() {
        // SAFETY: the loader's names are C strings.
        let name = unsafe { CStr::from_ptr(name) };
        if !name.is_empty() {
            objects.push(name.to_owned());
        }
    }
    0
}

fn symbol_of(handle: *mut c_void, name: &CStr) -> Option<NonNull<c_void>> {
    // SAFETY: the handle came from dlopen and is not closed yet, or stands for the process; the
    // name is a C string.
    let symbol = unsafe { libc::dlsym(handle, name.as_ptr()) };
    NonNull::new(symbol)
}

/// A handle of the runtime's library, or of the one that it is built into.
fn find_runtime() -> Option<NonNull<c_void>> {
    let objects = loaded_objects();
    let is_its_own = |object: &CString| object.as_bytes().ends_with(RUNTIME_LIBRARY);
    let (first, others): (Vec<CString>, Vec<CString>) = objects.into_iter().partition(is_its_own);
    let mut all = first.iter().chain(&others);
    all.find_map(|object| handle_with(object, |handle| symbol_of(handle, LANDMARK).map(|_| ())))
        .map(|(handle, ())| handle)
}

/// What is found in a loaded object, with a handle that is kept; a handle of any other is not.
fn handle_with<T>(
    object: &CStr,
    find: impl FnOnce(*mut c_void) -> Option<T>,
) -> Option<(NonNull<c_void>, T)> {
    // SAFETY: the name is a C string; NOLOAD only takes a handle of what is loaded.
    let handle = unsafe { libc::dlopen(object.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    let handle = NonNull::new(handle)?;
    let found = find(handle.as_ptr());
    if found.is_none() {
        // SAFETY: the handle is ours, and nothing of it is used.
        unsafe { libc::dlclose(handle.as_ptr()) };
    }
    Some((handle, found?))
}

/// The names of all loaded objects but the program, in the order in which they were loaded.
///
/// The program itself has no name: its scope begins with what was preloaded.
fn loaded_objects() -> Vec<CString> {
    let mut objects = Vec::<CString>::new();
    // SAFETY: the callback has the type the function asks for and keeps nothing.
    unsafe { libc::dl_iterate_phdr(Some(collect), (&raw mut objects).cast()) };
    objects
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mangled_name_is_shown_as_class_and_function() {
        let cases = [
            (
                c"_ZN2tt8tt_metal22RingbufferCacheManager5resetEv",
                "RingbufferCacheManager::reset",
            ),
            (c"_ZNK2tt8tt_metal6Kernel4nameB5cxx11Ev", "Kernel::name"),
            (c"_ZN2tt5ClassC1Eiii", "Class::Class"),
            (c"_ZN2tt5ClassD1Ev", "Class::~Class"),
            (c"_ZTVN2tt8tt_metal6DeviceE", "Device"),
            (c"_ZN99x", "_ZN99x"),
            (c"getpid", "getpid"),
        ];
        for (mangled, expected) in cases {
            assert_eq!(readable(mangled), expected);
        }
    }

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
