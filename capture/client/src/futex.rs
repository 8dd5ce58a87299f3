//! Waiting on a word, by the system call itself: no lock that a fork could leave locked.

use crate::host;
use rustix::io::Errno;
use rustix::thread::futex::{self, Flags, Timespec};
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Waits until the word is woken, is no longer `expected`, or the time is up.
pub(crate) fn wait(word: &AtomicU32, expected: u32, timeout: Duration) {
    let limit = Timespec {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(timeout.subsec_nanos()),
    };
    // Woken, changed, interrupted or out of time: the caller looks for itself.
    match futex::wait(word, Flags::PRIVATE, expected, Some(&limit)) {
        Ok(()) | Err(Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT) => {}
        Err(_refused) => host::sleep_instead(timeout),
    }
}

/// Wakes all who wait on the word.
pub(crate) fn wake_all(word: &AtomicU32) {
    let most = u32::try_from(i32::MAX).unwrap_or(1);
    // Nobody waiting is no failure.
    let _woken = futex::wake(word, Flags::PRIVATE, most);
}
