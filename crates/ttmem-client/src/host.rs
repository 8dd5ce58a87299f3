//! What is asked of the program that we are guests in.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// The pid of the process that the C library forked; a fork by a bare system call leaves it alone.
static FORKED_PID: AtomicI32 = AtomicI32::new(0);

/// One line on stderr, by one system call.
pub(crate) fn complain(text: &str) {
    let line = format!("ttmem: {text}\n");
    // A program without stderr has nobody to tell.
    let _nobody = rustix::io::write(rustix::stdio::stderr(), line.as_bytes());
}

/// Whether this process was made by the C library's fork.
pub(crate) fn was_forked() -> bool {
    FORKED_PID.load(Ordering::Relaxed) == own_pid()
}

fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

extern "C" fn in_child() {
    FORKED_PID.store(own_pid(), Ordering::Relaxed);
}

/// Makes this library stay loaded, watches for forks, and calls `leaving` at exit.
///
/// The pump's thread and the threads' ends run this library's code: unloading it under them
/// would be a crash.
pub(crate) fn stay(leaving: extern "C" fn()) {
    static DONE: AtomicBool = AtomicBool::new(false);
    if DONE.swap(true, Ordering::Relaxed) {
        return;
    }
    // SAFETY: the handler touches an atomic only, and this library is pinned below.
    #[expect(unsafe_code, reason = "C library call")]
    let _no_memory = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    // SAFETY: as above.
    #[expect(unsafe_code, reason = "C library call")]
    let _no_memory = unsafe { libc::atexit(leaving) };
    pin();
}

fn pin() {
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    let here = in_child as *const c_void;
    // SAFETY: the address is one of ours and the result has room.
    #[expect(unsafe_code, reason = "C library call")]
    let found = unsafe { libc::dladdr(here, info.as_mut_ptr()) };
    // SAFETY: zeroes are a valid value of it: null pointers.
    #[expect(unsafe_code, reason = "zeroed or filled")]
    let info = unsafe { info.assume_init() };
    if found == 0 || info.dli_fname.is_null() {
        return;
    }
    let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE;
    // SAFETY: the name is the C library's own. The program itself is not found under its name, and
    // needs no pinning.
    #[expect(unsafe_code, reason = "C library call")]
    let _pinned_for_ever = unsafe { libc::dlopen(info.dli_fname, flags) };
}

#[expect(unsafe_code, reason = "the libc crate lacks it")]
unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

const CANCEL_DISABLE: c_int = 1;

/// While it lives, the thread cannot be cancelled: unwinding it through Rust would abort.
#[derive(Debug)]
pub(crate) struct Uncancelled {
    before: c_int,
}

impl Uncancelled {
    pub(crate) fn begin() -> Self {
        let mut before = 0;
        // SAFETY: changes this thread's own state and writes the old one where there is room.
        #[expect(unsafe_code, reason = "C library call")]
        unsafe {
            pthread_setcancelstate(CANCEL_DISABLE, &raw mut before);
        }
        Self { before }
    }
}

impl Drop for Uncancelled {
    fn drop(&mut self) {
        let mut ours = 0;
        // SAFETY: as above; the state is one that the C library gave.
        #[expect(unsafe_code, reason = "C library call")]
        unsafe {
            pthread_setcancelstate(self.before, &raw mut ours);
        }
    }
}

/// While it lives, the thread takes no signal, nor does a thread that it starts.
#[derive(Debug)]
pub(crate) struct SignalsBlocked {
    before: libc::sigset_t,
}

impl SignalsBlocked {
    pub(crate) fn begin() -> Self {
        let mut all = std::mem::MaybeUninit::<libc::sigset_t>::zeroed();
        let mut before = std::mem::MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: fills the set that it is given.
        #[expect(unsafe_code, reason = "C library call")]
        unsafe {
            libc::sigfillset(all.as_mut_ptr());
        }
        // SAFETY: both sets have room, and the first was filled.
        #[expect(unsafe_code, reason = "C library call")]
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        }
        // SAFETY: zeroed, and filled if the call succeeded: an empty set either way.
        #[expect(unsafe_code, reason = "zeroed or filled")]
        let before = unsafe { before.assume_init() };
        Self { before }
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        // SAFETY: the set is the one that was in force before.
        #[expect(unsafe_code, reason = "C library call")]
        unsafe {
            libc::pthread_sigmask(
                libc::SIG_SETMASK,
                &raw const self.before,
                std::ptr::null_mut(),
            );
        }
    }
}
