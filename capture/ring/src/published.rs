//! A reference that one thread makes known to all others.

use crate::sync::{AtomicPtr, Ordering};

/// Nothing, until it is set; what it refers to stays for as long as the process lives.
#[derive(Debug)]
pub struct Published<T: 'static>(AtomicPtr<T>);

impl<T: Sync> Published<T> {
    #[cfg(not(loom))]
    #[must_use]
    pub const fn unset() -> Self {
        Self(AtomicPtr::new(std::ptr::null_mut()))
    }

    #[cfg(loom)]
    pub fn unset() -> Self {
        Self(AtomicPtr::new(std::ptr::null_mut()))
    }

    pub fn set(&self, value: &'static T) {
        // SYNC(reference): what it refers to is complete.
        self.0
            .store(std::ptr::from_ref(value).cast_mut(), Ordering::Release);
    }

    #[must_use]
    pub fn get(&self) -> Option<&'static T> {
        // SYNC(reference): what it refers to is complete.
        let value = self.0.load(Ordering::Acquire);
        // SAFETY: null, or a reference that `set` was given, which stays for ever.
        #[expect(unsafe_code, reason = "only `set` stores here")]
        unsafe {
            value.as_ref()
        }
    }
}
