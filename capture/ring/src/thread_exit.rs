//! A function that runs when a thread ends.
//!
//! A `thread_local!` with a destructor is registered with the C library, which ends the process when
//! it has no memory to note it. A key is refused instead.

#![expect(unsafe_code, reason = "C library calls")]

use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};

/// A key that was not made yet, and one that cannot be.
const NONE: u32 = u32::MAX;
const REFUSED: u32 = u32::MAX - 1;

/// What runs at the end of each thread that has asked for it.
#[derive(Debug)]
pub struct ThreadExit {
    run: unsafe extern "C" fn(*mut c_void),
    key: AtomicU32,
}

impl ThreadExit {
    #[must_use]
    pub const fn new(run: unsafe extern "C" fn(*mut c_void)) -> Self {
        Self {
            run,
            key: AtomicU32::new(NONE),
        }
    }

    /// Has it run at the end of this thread, once; false where that cannot be.
    ///
    /// The library must stay loaded from now on.
    #[must_use]
    pub fn arm(&self) -> bool {
        let mut key = self.key.load(Ordering::Relaxed);
        if key == NONE {
            key = self.make_key();
        }
        // SAFETY: a key that was made below; the value is only compared with null.
        key != REFUSED && unsafe { libc::pthread_setspecific(key, std::ptr::dangling()) } == 0
    }

    fn make_key(&self) -> u32 {
        let mut made = NONE;
        // SAFETY: the key has room, and the function stays for as long as the library does.
        if unsafe { libc::pthread_key_create(&raw mut made, Some(self.run)) } != 0 {
            made = REFUSED;
        }
        let set = self
            .key
            .compare_exchange(NONE, made, Ordering::Relaxed, Ordering::Relaxed);
        let Err(earlier) = set else {
            return made;
        };
        if made != REFUSED {
            // SAFETY: made above, and no thread has used it.
            unsafe { libc::pthread_key_delete(made) };
        }
        earlier
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_runs_once_at_the_end_of_each_thread() {
        static RUNS: AtomicU32 = AtomicU32::new(0);
        static EXIT: ThreadExit = ThreadExit::new(count);
        extern "C" fn count(_value: *mut c_void) {
            RUNS.fetch_add(1, Ordering::Relaxed);
        }
        for threads in 1..=3 {
            let armed = std::thread::spawn(|| EXIT.arm() && EXIT.arm());
            assert!(armed.join().unwrap());
            assert_eq!(RUNS.load(Ordering::Relaxed), threads);
        }
    }
}
