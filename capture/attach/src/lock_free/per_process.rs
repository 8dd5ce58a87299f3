//! A table under a lock that a child of this process begins anew.
//!
//! A fork copies the table and the lock as they are, and in the child nobody gives the lock
//! back. So a child leaves its parent's table behind, whole, and makes its own.

#![expect(unsafe_code, reason = "the table is replaced as a whole in a child")]

use super::sync::atomic::{AtomicPtr, Ordering};
use super::sync::{Mutex, MutexGuard};

#[derive(Debug)]
pub(crate) struct PerProcess<T: 'static> {
    /// Never freed; null before the first use.
    table: AtomicPtr<Mutex<T>>,
}

impl<T: Default> PerProcess<T> {
    super::const_where_possible! {
        pub(crate) fn new() -> Self {
            Self {
                table: AtomicPtr::new(std::ptr::null_mut()),
            }
        }
    }

    /// Leaves the parent's table behind, in a child in which only this thread exists.
    pub(crate) fn forget(&self) {
        self.table.store(std::ptr::null_mut(), Ordering::Relaxed);
    }

    pub(crate) fn lock(&self) -> MutexGuard<'static, T> {
        // SYNC(table): whoever sees the table sees it made.
        let mut table = self.table.load(Ordering::Acquire);
        if table.is_null() {
            let new = Box::into_raw(Box::new(Mutex::new(T::default())));
            let null = std::ptr::null_mut();
            // SYNC(table): it is made. One that came too late is left behind.
            let found = self
                .table
                .compare_exchange(null, new, Ordering::AcqRel, Ordering::Acquire);
            table = found.err().unwrap_or(new);
        }
        // SAFETY: only this function stores anything but null: a table that it has made, which
        // is never freed.
        let table: &'static Mutex<T> = unsafe { &*table };
        // Tables are whole after every step: a panic leaves nothing broken.
        table.lock().unwrap_or_else(|broken| broken.into_inner())
    }
}
