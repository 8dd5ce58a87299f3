//! What is asked of the process that the client runs in.

use rustix::thread::{MembarrierCommand, membarrier};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// The pid of the process that the C library forked; a fork by a bare system call leaves it alone.
static FORKED_PID: AtomicI32 = AtomicI32::new(0);

/// One line on stderr, by one system call.
pub(crate) fn complain(text: &str) {
    let line = format!("ttmem: {text}\n");
    let _unharmed = PipesUnbroken::begin();
    // A program without stderr has nobody to report to.
    let _nobody = rustix::io::write(rustix::stdio::stderr(), line.as_bytes());
}

/// While it lives, writing to a pipe that nobody reads does not end the program.
#[derive(Debug)]
struct PipesUnbroken {
    _blocked: SignalsBlocked,
    was_pending: bool,
}

impl PipesUnbroken {
    fn begin() -> Self {
        let blocked = SignalsBlocked::begin();
        Self {
            _blocked: blocked,
            was_pending: is_pipe_signal_pending(),
        }
    }
}

impl Drop for PipesUnbroken {
    fn drop(&mut self) {
        if self.was_pending || !is_pipe_signal_pending() {
            return;
        }
        // Ours: a broken pipe signals the thread that writes, and only that one.
        let only = pipe_signal();
        let at_once = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: takes a pending signal of this thread; all that is passed is on this stack.
        #[expect(unsafe_code, reason = "C library call")]
        unsafe {
            libc::sigtimedwait(&raw const only, std::ptr::null_mut(), &raw const at_once);
        }
    }
}

/// The set of signals that `fill` makes of an empty one.
fn signal_set(fill: impl FnOnce(*mut libc::sigset_t)) -> libc::sigset_t {
    let mut set = std::mem::MaybeUninit::zeroed();
    fill(set.as_mut_ptr());
    // SAFETY: zeroes are a value of it, the empty set; the C library put others in their place.
    #[expect(unsafe_code, reason = "zeroed or filled")]
    unsafe {
        set.assume_init()
    }
}

fn pipe_signal() -> libc::sigset_t {
    signal_set(|set| {
        // SAFETY: adds to the set that it is given, which is empty.
        #[expect(unsafe_code, reason = "C library call")]
        unsafe {
            libc::sigaddset(set, libc::SIGPIPE);
        }
    })
}

fn is_pipe_signal_pending() -> bool {
    let pending = signal_set(|set| {
        // SAFETY: fills the set that it is given.
        #[expect(unsafe_code, reason = "C library call")]
        unsafe {
            libc::sigpending(set);
        }
    });
    // SAFETY: only reads the set.
    #[expect(unsafe_code, reason = "C library call")]
    let is_member = unsafe { libc::sigismember(&raw const pending, libc::SIGPIPE) };
    is_member == 1
}

/// Has every thread of this process pass a fence; false where the system cannot.
pub(crate) fn fence_all_threads() -> bool {
    let pass = || membarrier(MembarrierCommand::PrivateExpedited);
    let register = || membarrier(MembarrierCommand::RegisterPrivateExpedited);
    // A process has to register first, once.
    pass()
        .or_else(|_unregistered| register().and_then(|()| pass()))
        .is_ok()
}

/// What this program was started as: for a server that comes too late to ask the system.
pub(crate) fn program_name() -> Option<String> {
    let arguments = std::fs::read("/proc/self/cmdline").ok()?;
    let program = arguments.split(|byte| *byte == 0).next()?;
    let base = program.rsplit(|byte| *byte == b'/').next()?;
    Some(String::from_utf8_lossy(base).into_owned())
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

/// Notices from now on when the C library forks.
pub(crate) fn watch_forks() {
    static DONE: AtomicBool = AtomicBool::new(false);
    if DONE.swap(true, Ordering::Relaxed) {
        return;
    }
    // SAFETY: the handler touches an atomic only; unloading this library withdraws it.
    #[expect(unsafe_code, reason = "C library call")]
    let _no_memory = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
}

/// Makes this library stay loaded, and calls `leaving` at exit.
///
/// The pump's thread and the threads' ends run this library's code: unloading it under them
/// would be a crash.
pub(crate) fn stay(leaving: extern "C" fn()) {
    static DONE: AtomicBool = AtomicBool::new(false);
    if DONE.swap(true, Ordering::Relaxed) {
        return;
    }
    // SAFETY: the handler touches shared memory that stays, and this library is pinned below.
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
        // SAFETY: changes this thread's own state, to one that the C library gave.
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
        let all = signal_set(|set| {
            // SAFETY: fills the set that it is given.
            #[expect(unsafe_code, reason = "C library call")]
            unsafe {
                libc::sigfillset(set);
            }
        });
        let before = signal_set(|before| {
            // SAFETY: `all` was filled, and `before` has room.
            #[expect(unsafe_code, reason = "C library call")]
            unsafe {
                libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, before);
            }
        });
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
