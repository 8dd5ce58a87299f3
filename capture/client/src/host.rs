//! What is asked of the process that the client runs in.

use crate::cgroup;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::thread::{MembarrierCommand, NanosleepRelativeResult, Timespec, membarrier, nanosleep};
use std::ffi::{CStr, c_int, c_void};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;
use ttmem_ring::heap::{Heap, OwnThread};

/// Bytes of a program's arguments that are read for its name.
const LONGEST_NAME: usize = 16 << 10;

/// The pid of the process that the C library forked; a fork by a bare system call leaves it alone.
static FORKED_PID: AtomicI32 = AtomicI32::new(0);

/// Bytes of a line: what a pipe that has room takes without waiting (PIPE_BUF).
const LONGEST_LINE: usize = 4096;

/// One line on stderr, if it can be written without waiting.
pub fn complain(text: &str) {
    complain_in_bytes(format!("ttmem: {text}\n").as_bytes());
}

/// The same where no memory is left: `line` is the whole line.
///
/// A reader of stderr that has stopped must not stop the program: the line is dropped then.
pub(crate) fn complain_in_bytes(line: &[u8]) {
    let _unharmed = PipesUnbroken::begin();
    let stderr = rustix::stdio::stderr();
    let mut room = [PollFd::new(&stderr, PollFlags::OUT)];
    // A program without stderr has nobody to report to, and neither has one that closed it.
    if !matches!(poll(&mut room, Some(&Timespec::default())), Ok(1))
        || !room[0].revents().contains(PollFlags::OUT)
    {
        return;
    }
    let _nobody = rustix::io::write(stderr, &line[..line.len().min(LONGEST_LINE)]);
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
    let arguments = cgroup::read_bytes(Path::new("/proc/self/cmdline"), LONGEST_NAME)?;
    let program = arguments.split(|byte| *byte == 0).next()?;
    let base = program.rsplit(|byte| *byte == b'/').next()?;
    Some(String::from_utf8_lossy(base).into_owned())
}

/// Whether this process was made by the C library's fork.
pub(crate) fn was_forked() -> bool {
    FORKED_PID.load(Ordering::Relaxed) == own_pid()
}

/// The pid of this process; -1 where a filter refuses to tell it, which `rustix` takes for impossible.
pub(crate) fn own_pid() -> i32 {
    // SAFETY: no conditions.
    #[expect(unsafe_code, reason = "C library call")]
    unsafe {
        libc::getpid()
    }
}

/// The user of this process; where a filter refuses to tell it, one that nobody is.
pub(crate) fn own_uid() -> u32 {
    // SAFETY: no conditions.
    #[expect(unsafe_code, reason = "C library call")]
    unsafe {
        libc::geteuid()
    }
}

/// Whether the C library would end the process over a new thread.
///
/// It does so where the first thread registered its restartable sequences and a filter, set since then,
/// refuses that to further threads.
fn are_threads_fatal() -> bool {
    // SAFETY: the name ends with a zero byte; looking a symbol up runs nothing.
    #[expect(unsafe_code, reason = "C library call")]
    let size = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_size".as_ptr()) };
    // SAFETY: the C library has a number under this name, which it writes before `main` only.
    #[expect(unsafe_code, reason = "reads a variable of the C library")]
    let is_registered = !size.is_null() && unsafe { size.cast::<u32>().read() } != 0;
    // SAFETY: no memory is passed: the kernel refuses an empty registration as invalid.
    #[expect(unsafe_code, reason = "the C library lacks it")]
    let refused = unsafe { libc::syscall(libc::SYS_rseq, 0, 0, 0, 0) } != 0
        && io::Error::last_os_error().raw_os_error() != Some(libc::EINVAL);
    is_registered && refused
}

/// Sleeps. That of `std` panics where a filter refuses the call.
pub(crate) fn sleep(time: Duration) {
    let time = Timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(time.subsec_nanos()),
    };
    if let NanosleepRelativeResult::Err(_refused) = nanosleep(&time) {
        std::thread::yield_now();
    }
}

/// Sleeps for a moment where the call by which a thread waits is refused: it must not use a
/// whole processor instead.
pub(crate) fn sleep_instead(most: Duration) {
    const MOMENT: Duration = Duration::from_millis(1);
    sleep(most.min(MOMENT));
}

extern "C" fn before_fork() {
    Heap::before_fork();
}

extern "C" fn in_parent() {
    Heap::after_fork_in_parent();
}

extern "C" fn in_child() {
    Heap::after_fork_in_child();
    FORKED_PID.store(own_pid(), Ordering::Relaxed);
}

/// Notices from now on when the C library forks.
pub(crate) fn watch_forks() {
    static DONE: AtomicBool = AtomicBool::new(false);
    if DONE.swap(true, Ordering::Relaxed) {
        return;
    }
    // SAFETY: the handlers touch atomics only; unloading this library withdraws them.
    #[expect(unsafe_code, reason = "C library call")]
    let _no_memory =
        unsafe { libc::pthread_atfork(Some(before_fork), Some(in_parent), Some(in_child)) };
}

/// Bytes of a thread's stack: ours never go deep. More where the C library puts the variables of
/// all libraries there.
const STACKS_BYTES: [usize; 3] = [256 << 10, 1 << 20, 4 << 20];

/// Starts a thread of ours, which inherits this thread's blocked signals.
///
/// Not by the standard library: at the start of a thread it registers a destructor with the C
/// library, which ends the process where it has no memory for that. `run` must not panic.
pub(crate) fn spawn<F: FnOnce() + Send + 'static>(name: &'static CStr, run: F) -> io::Result<()> {
    struct Start<F>(&'static CStr, F);

    extern "C" fn main<F: FnOnce()>(start: *mut c_void) -> *mut c_void {
        // SAFETY: `spawn` has passed its own on.
        #[expect(unsafe_code, reason = "what was passed on as a pointer")]
        let Start(name, run) = *unsafe { Box::from_raw(start.cast::<Start<F>>()) };
        let _own = OwnThread::begin();
        let _unnamed = rustix::thread::set_name(name);
        run();
        std::ptr::null_mut()
    }

    if are_threads_fatal() {
        // EPERM, without the memory that an error with a text takes.
        return Err(io::Error::from_raw_os_error(libc::EPERM));
    }
    let start = Box::into_raw(Box::new(Start(name, run)));
    let mut error = libc::EINVAL;
    for bytes in STACKS_BYTES {
        if error == libc::EINVAL {
            error = start_thread(bytes, main::<F>, start.cast());
        }
    }
    if error == 0 {
        return Ok(());
    }
    // SAFETY: no thread was given it.
    #[expect(unsafe_code, reason = "takes back what was passed on as a pointer")]
    drop(unsafe { Box::from_raw(start) });
    Err(io::Error::from_raw_os_error(error))
}

/// Starts a thread that nobody waits for; 0 or an error number.
fn start_thread(
    stack_bytes: usize,
    main: extern "C" fn(*mut c_void) -> *mut c_void,
    start: *mut c_void,
) -> c_int {
    let mut attributes = std::mem::MaybeUninit::<libc::pthread_attr_t>::zeroed();
    let attributes = attributes.as_mut_ptr();
    let mut thread = 0;
    // SAFETY: the attributes are used between their beginning and their end, and all that is
    // passed is on this stack, but for `start`, which is for the thread.
    #[expect(unsafe_code, reason = "C library calls")]
    #[expect(clippy::multiple_unsafe_ops_per_block, reason = "one thread")]
    unsafe {
        let made = libc::pthread_attr_init(attributes);
        if made != 0 {
            return made;
        }
        libc::pthread_attr_setdetachstate(attributes, libc::PTHREAD_CREATE_DETACHED);
        let sized = libc::pthread_attr_setstacksize(attributes, stack_bytes);
        let started = if sized == 0 {
            libc::pthread_create(&raw mut thread, attributes, main, start)
        } else {
            sized
        };
        libc::pthread_attr_destroy(attributes);
        started
    }
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
