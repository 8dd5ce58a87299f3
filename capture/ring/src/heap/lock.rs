//! The lock of the heap: taken by a thread once, also where a signal handler interrupts it.

use crate::sync::{AtomicBool, AtomicUsize, Ordering};
use rustix::thread::Timespec;

/// How often a thread looks at a lock that another has before it sleeps in between.
const LOOKS: u32 = 100;

/// How long it sleeps then, and how often before it does without: a thread that has the lock keeps
/// it for less than that by orders of magnitude.
const SLEEP: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000,
};
const SLEEPS: u32 = 20_000;

#[derive(Debug)]
pub(super) struct Lock {
    /// The thread that has it; 0 if none has.
    owner: AtomicUsize,
    /// Set once a thread has waited in vain, in a child that a bare system call made.
    is_stuck: AtomicBool,
}

impl Lock {
    pub(super) const fn new() -> Self {
        Self {
            owner: AtomicUsize::new(0),
            is_stuck: AtomicBool::new(false),
        }
    }

    /// Takes the lock; false in a signal handler that interrupts its owner, and in a process where
    /// its owner does not exist.
    #[inline]
    pub(super) fn take(&self) -> bool {
        self.try_take(this_thread()) || self.wait()
    }

    #[inline]
    fn try_take(&self, thread: usize) -> bool {
        // SYNC(heap): sees what its last owner did.
        let taken = self
            .owner
            .compare_exchange(0, thread, Ordering::Acquire, Ordering::Relaxed);
        taken.is_ok()
    }

    #[cold]
    fn wait(&self) -> bool {
        let thread = this_thread();
        if self.owner.load(Ordering::Relaxed) == thread || self.is_stuck.load(Ordering::Relaxed) {
            return false;
        }
        for look in 0..LOOKS + SLEEPS {
            if self.try_take(thread) {
                return true;
            }
            if look < LOOKS {
                std::hint::spin_loop();
            } else {
                // That of `std` panics where a filter refuses the call.
                let _refused = rustix::thread::nanosleep(&SLEEP);
            }
        }
        self.is_stuck.store(true, Ordering::Relaxed);
        false
    }

    #[inline]
    pub(super) fn release(&self) {
        // SYNC(heap): the next owner sees what this one did.
        self.owner.store(0, Ordering::Release);
    }

    /// Frees it in a child, where nobody else can have it.
    pub(super) fn reset(&self) {
        self.is_stuck.store(false, Ordering::Relaxed);
        self.release();
    }
}

/// A number that no other thread of the process has; not 0.
#[inline]
fn this_thread() -> usize {
    // SAFETY: takes no arguments and cannot fail.
    let thread = unsafe { libc::pthread_self() };
    usize::try_from(thread).unwrap_or(usize::MAX)
}
