//! A lock whose waiters time out: a fork copies locks as they are, and one that another thread
//! held would stay locked in the child. Fork handlers reset ours; a raw clone runs none of them.

use super::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
#[cfg(loom)]
use std::time::Instant;
#[cfg(not(loom))]
use ttmem_client::Instant;

/// After this long, the lock's owner is taken for lost.
const TIMEOUT: Duration = Duration::from_millis(100);

/// A lock that holds nothing itself.
#[derive(Debug)]
pub(crate) struct PatientLock {
    locked: AtomicBool,
}

/// The lock is held until this is dropped.
#[derive(Debug)]
pub(crate) struct Held<'a>(&'a PatientLock);

impl PatientLock {
    super::const_where_possible! {
        pub(crate) fn new() -> Self {
            Self {
                locked: AtomicBool::new(false),
            }
        }
    }

    pub(super) fn try_lock(&self) -> Option<Held<'_>> {
        // SYNC(patient): what was done under the lock before is seen by who has it now.
        let is_free = !self.locked.swap(true, Ordering::Acquire);
        is_free.then(|| Held(self))
    }

    /// Locks; none when that takes too long.
    pub(crate) fn lock(&self) -> Option<Held<'_>> {
        let mut begin = None;
        loop {
            if let Some(held) = self.try_lock() {
                return Some(held);
            }
            if begin.get_or_insert_with(Instant::now).elapsed() > TIMEOUT {
                return None;
            }
            super::thread::yield_now();
        }
    }

    /// Makes it free, in a child in which its owner does not exist.
    pub(crate) fn reset(&self) {
        self.locked.store(false, Ordering::Relaxed);
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // SYNC(patient): what was done under the lock is seen by the next who has it.
        self.0.locked.store(false, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_is_never_given_back_is_given_up_on() {
        static LOCK: PatientLock = PatientLock::new();
        drop(LOCK.lock().expect("it is free"));
        let held = LOCK.lock().expect("it was given back");
        let other = std::thread::spawn(|| LOCK.lock().is_none());
        assert!(other.join().expect("it does not panic"));
        LOCK.reset();
        assert!(LOCK.lock().is_some());
        drop(held);
    }
}
