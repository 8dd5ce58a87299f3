//! The interpreter of this process: found, checked, read.

use crate::layout::Layout;
use crate::memory::{Memory, Trusted, Untrusted};
use crate::walk::{Fingerprint, Frame, Unexpected, Walk};
use std::ffi::{CStr, c_char, c_int};
use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};

/// Why there are no Python lines.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unsupported {
    /// This process runs no Python, or one that hides its symbols.
    NoPython,
    /// An interpreter whose layout is not known.
    Version(String),
    /// Its memory cannot be looked at without the risk of a fault.
    Reading,
    /// Its memory is not laid out as that of its version.
    Layout,
}

impl fmt::Display for Unsupported {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPython => formatter.write_str("no CPython in this process"),
            Self::Version(version) => write!(formatter, "unsupported interpreter {version}"),
            Self::Reading => formatter.write_str("the kernel refuses process_vm_readv"),
            Self::Layout => formatter.write_str("the interpreter's memory is not as expected"),
        }
    }
}

impl std::error::Error for Unsupported {}

/// The types of the objects that are read.
#[derive(Debug)]
pub(crate) struct Types {
    pub(crate) code: usize,
    pub(crate) text: usize,
    pub(crate) bytes: usize,
    pub(crate) dict: usize,
}

/// What is known of the layout: nothing until a walk was made through the kernel.
const UNCHECKED: u8 = 0;
pub(crate) const CHECKED: u8 = 1;
const WRONG: u8 = 2;

/// What a walk through the kernel shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Check {
    Passed,
    /// Neither that the layout is right nor that it is wrong.
    Open,
}

/// A variable of a frame led to a dictionary: they are where they were expected.
const VARIABLES_CHECKED: u8 = u8::MAX;
/// Looks through the kernel without that, after which there are no more.
const MOST_TRIES: u8 = 64;

/// The CPython of this process.
#[derive(Debug)]
pub struct Interpreter {
    pub(crate) layout: &'static Layout,
    pub(crate) types: Types,
    /// `PyGILState_GetThisThreadState`: a look into thread-specific storage.
    pub(crate) thread_state: unsafe extern "C" fn() -> *const u8,
    /// `Py_IsFinalizing`: a look at a global.
    pub(crate) is_finalizing: unsafe extern "C" fn() -> c_int,
    /// `PyInterpreterState_Main` and `PyInterpreterState_Head`: looks at a global.
    pub(crate) interpreters: [unsafe extern "C" fn() -> *const u8; 2],
    /// Relaxed: it orders nothing, and a thread that misses a change checks once more.
    pub(crate) state: AtomicU8,
    /// How often no variable led to a dictionary, or [`VARIABLES_CHECKED`]. Relaxed, too.
    pub(crate) variables: AtomicU8,
}

impl Interpreter {
    /// Finds the interpreter by the symbols that it exports.
    ///
    /// # Errors
    /// There is none, or its layout is not known.
    pub fn find() -> Result<Self, Unsupported> {
        let find = |name: &CStr| {
            // SAFETY: the name ends with a zero byte; looking a symbol up runs nothing.
            let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
            if found.is_null() {
                Err(Unsupported::NoPython)
            } else {
                Ok(found)
            }
        };
        let version = find(c"Py_GetVersion")?;
        let thread_state = find(c"PyGILState_GetThisThreadState")?;
        // It was made public in 3.13.
        let is_finalizing = find(c"Py_IsFinalizing").or_else(|_none| find(c"_Py_IsFinalizing"))?;
        let interpreters = [
            find(c"PyInterpreterState_Main")?,
            find(c"PyInterpreterState_Head")?,
        ];
        // SAFETY: this is the signature that Python's C API has for the function of this name.
        let version: unsafe extern "C" fn() -> *const c_char =
            unsafe { std::mem::transmute(version) };
        // SAFETY: it only composes a text, once, and needs no GIL.
        let version = unsafe { version() };
        // SAFETY: that text ends with a zero byte and lives as long as the process.
        let version = unsafe { CStr::from_ptr(version) };
        let layout = layout_of(&version.to_string_lossy())?;
        let known = 1_usize;
        if Untrusted.number((&raw const known).addr()) != Some(known) {
            return Err(Unsupported::Reading);
        }
        Ok(Self {
            layout,
            types: Types {
                code: find(c"PyCode_Type")?.addr(),
                text: find(c"PyUnicode_Type")?.addr(),
                bytes: find(c"PyBytes_Type")?.addr(),
                dict: find(c"PyDict_Type")?.addr(),
            },
            // SAFETY: the signature of the C API again.
            thread_state: unsafe {
                std::mem::transmute::<*mut libc::c_void, unsafe extern "C" fn() -> *const u8>(
                    thread_state,
                )
            },
            interpreters: interpreters.map(|found| {
                // SAFETY: the signature of the C API for both.
                unsafe {
                    std::mem::transmute::<*mut libc::c_void, unsafe extern "C" fn() -> *const u8>(
                        found,
                    )
                }
            }),
            // SAFETY: and of the last one.
            is_finalizing: unsafe {
                std::mem::transmute::<*mut libc::c_void, unsafe extern "C" fn() -> c_int>(
                    is_finalizing,
                )
            },
            state: AtomicU8::new(UNCHECKED),
            variables: AtomicU8::new(0),
        })
    }

    /// Two numbers that name the calling thread's stack: equal for equal stacks. `None` for a
    /// thread that Python does not know, and once the interpreter ends: it then frees the states
    /// of threads that are still in a native call.
    ///
    /// # Errors
    /// The interpreter's memory is not as expected; it never is again.
    ///
    /// # Safety
    /// The calling thread is inside a native call that Python made, or runs no Python.
    #[inline]
    pub unsafe fn fingerprint(&self) -> Result<Option<Fingerprint>, Unsupported> {
        // SAFETY: passed on.
        unsafe {
            self.walk(
                |walk, thread| walk.fingerprint(thread),
                |walk, thread| walk.fingerprint(thread),
            )
        }
    }

    /// The calling thread's stack, innermost frame first. `None` for a thread that Python does not
    /// know. Each frame takes memory: before it does, `goes_on` is called.
    ///
    /// # Errors
    /// As [`Self::fingerprint`], and where `goes_on` is false.
    ///
    /// # Safety
    /// As [`Self::fingerprint`].
    pub unsafe fn frames(
        &self,
        goes_on: impl Fn() -> bool,
    ) -> Result<Option<Vec<Frame>>, Unsupported> {
        // SAFETY: passed on.
        unsafe {
            self.walk(
                |walk, thread| walk.frames(thread, &goes_on),
                |walk, thread| walk.frames(thread, &goes_on),
            )
        }
    }

    /// A number that differs between two calls of the function whose frame is at this depth of the
    /// calling thread's stack, 0 for the innermost; equal ones may be of one call or of several.
    ///
    /// It is known of functions that take any named arguments and leave their dictionary as it is. The
    /// first ones are read through the kernel, until a variable led to a dictionary.
    ///
    /// # Safety
    /// As [`Self::fingerprint`].
    pub unsafe fn call_version(&self, depth: usize) -> Option<u64> {
        let tries = self.variables.load(Ordering::Relaxed);
        let untrusting = |thread| self.over(Untrusted).call_version(thread, depth);
        // SAFETY: passed on.
        let read = unsafe {
            self.walk(
                |walk, thread| match tries {
                    VARIABLES_CHECKED => walk.call_version(thread, depth),
                    MOST_TRIES => Ok(None),
                    _few => untrusting(thread),
                },
                |_unchecked, thread| untrusting(thread),
            )
        };
        let version = read.ok().flatten().flatten();
        if tries < MOST_TRIES {
            let next = if version.is_some() {
                VARIABLES_CHECKED
            } else {
                tries + 1
            };
            self.variables.store(next, Ordering::Relaxed);
        }
        version
    }

    /// # Safety
    /// As [`Self::fingerprint`].
    #[inline]
    unsafe fn walk<T>(
        &self,
        trusting: impl Fn(&Walk<'_, Trusted>, usize) -> Result<T, Unexpected>,
        checking: impl Fn(&Walk<'_, Untrusted>, usize) -> Result<T, Unexpected>,
    ) -> Result<Option<T>, Unsupported> {
        if self.is_ending() {
            return Ok(None);
        }
        // SAFETY: it only looks into the thread's own storage, and may be called without the GIL.
        let thread = unsafe { (self.thread_state)() }.addr();
        if thread == 0 {
            return Ok(None);
        }
        if self.may_be_in_another(thread) {
            return Ok(None);
        }
        let found = match self.state.load(Ordering::Relaxed) {
            CHECKED => {
                // SAFETY: the layout was checked, and the caller's frames stay as they are while it
                // is inside its native call: what they lead to is readable.
                let walk = self.over(unsafe { Trusted::new() });
                trusting(&walk, thread)
            }
            UNCHECKED => match self.check(thread) {
                Ok(Check::Passed) => checking(&self.over(Untrusted), thread),
                Ok(Check::Open) => return Ok(None),
                Err(unexpected) => Err(unexpected),
            },
            _wrong => Err(Unexpected),
        };
        if self.is_ending() {
            return Ok(None);
        }
        found.map(Some).map_err(|Unexpected| {
            self.state.store(WRONG, Ordering::Relaxed);
            Unsupported::Layout
        })
    }

    fn is_ending(&self) -> bool {
        // SAFETY: it only reads a global, and may be called without the GIL.
        unsafe { (self.is_finalizing)() != 0 }
    }

    /// Whether the thread may be in another interpreter than its state is of.
    ///
    /// Up to 3.11 that state stays the main interpreter's while the thread runs another one. Which of the
    /// others a thread is in cannot be known, so there are no lines while any of them runs.
    fn may_be_in_another(&self, thread: usize) -> bool {
        let [main, first] = self.interpreters.map(|address| {
            // SAFETY: it only reads a global, and may be called without the GIL.
            unsafe { address() }.addr()
        });
        main != first
            && self
                .over(Untrusted)
                .runs_another(thread, main, first)
                .unwrap_or(true)
    }

    fn over<M: Memory>(&self, memory: M) -> Walk<'_, M> {
        Walk {
            memory,
            is_finalizing: self.is_finalizing,
            layout: self.layout,
            types: &self.types,
        }
    }

    /// Walks through the kernel and looks at everything; a stack with nothing on it proves nothing.
    #[cold]
    fn check(&self, thread: usize) -> Result<Check, Unexpected> {
        let walk = self.over(Untrusted);
        walk.fingerprint(thread)?;
        let frames = walk.frames(thread, &|| true)?;
        // A program can give its code any name, also none: one frame that has both proves enough.
        let is_right = |frame: &Frame| frame.line.is_some() && frame.has_names();
        if frames.iter().any(is_right) {
            self.state.store(CHECKED, Ordering::Relaxed);
            return Ok(Check::Passed);
        }
        if frames.is_empty() {
            Ok(Check::Passed)
        } else {
            // Only such frames: the next stack is checked.
            Ok(Check::Open)
        }
    }
}

/// The layout of the interpreter that calls itself so.
pub(crate) fn layout_of(version: &str) -> Result<&'static Layout, Unsupported> {
    let unsupported = || Unsupported::Version(version.chars().take(80).collect());
    // Objects of a free-threaded interpreter have another header, and its frames may move.
    let is_other = version.contains("free-threading") || version.contains("PyPy");
    let minor = version.strip_prefix("3.").and_then(|rest| {
        let digits = rest.find(|sign: char| !sign.is_ascii_digit())?;
        rest[..digits].parse().ok()
    });
    let layout = minor.and_then(Layout::of);
    let is_wide = cfg!(target_pointer_width = "64") && cfg!(target_endian = "little");
    layout
        .filter(|_layout| is_wide && !is_other)
        .ok_or_else(unsupported)
}
