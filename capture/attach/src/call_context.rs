//! Thread-local context of the enclosing runtime call.
//!
//! A runtime call often does not name what it belongs to; the call around it, on the same thread, does.

use std::cell::RefCell;
use std::mem::{ManuallyDrop, needs_drop};
use std::thread::LocalKey;

/// A thread's value, while there is one; a variable of the thread.
///
/// Not dropped with the thread: the C library would have to note a destructor, and ends the process
/// where it has no memory for that. A thread that ends inside of a call leaves its value behind.
#[derive(Debug)]
pub(crate) struct Slot<T>(RefCell<ManuallyDrop<Option<T>>>);

impl<T> Slot<T> {
    pub(crate) const fn new() -> Self {
        const { assert!(!needs_drop::<Self>()) }
        Self(RefCell::new(ManuallyDrop::new(None)))
    }
}

/// Puts back what the thread had before.
struct Outer<T: 'static> {
    slot: &'static LocalKey<Slot<T>>,
    value: Option<T>,
}

impl<T> Drop for Outer<T> {
    fn drop(&mut self) {
        replace(self.slot, self.value.take());
    }
}

/// Changes a thread's value; what it was. A thread that is ending has none.
pub(crate) fn replace<T>(slot: &'static LocalKey<Slot<T>>, value: Option<T>) -> Option<T> {
    let replaced = slot.try_with(|slot| {
        slot.0
            .try_borrow_mut()
            .map(|mut slot| std::mem::replace(&mut **slot, value))
    });
    replaced.ok()?.ok().flatten()
}

/// Runs a call during which the thread has a value; what has become of that.
///
/// What it had before is back afterwards, also when an exception leaves the call.
pub(crate) fn during<T, R>(
    slot: &'static LocalKey<Slot<T>>,
    value: T,
    call: impl FnOnce() -> R,
) -> (R, Option<T>) {
    let value = replace(slot, Some(value));
    let _outer = Outer { slot, value };
    let result = call();
    (result, replace(slot, None))
}

/// Looks at a thread's value, if it has one.
pub(crate) fn with<T, R>(
    slot: &'static LocalKey<Slot<T>>,
    look: impl FnOnce(&mut T) -> R,
) -> Option<R> {
    let looked = slot.try_with(|slot| slot.0.try_borrow_mut().ok()?.as_mut().map(look));
    looked.ok().flatten()
}

pub(crate) fn get<T: Copy>(slot: &'static LocalKey<Slot<T>>) -> Option<T> {
    with(slot, |value| *value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::catch_unwind;

    thread_local! {
        static SLOT: Slot<u32> = const { Slot::new() };
    }

    #[test]
    fn a_value_is_there_during_its_call_and_on_its_thread() {
        assert_eq!(get(&SLOT), None);
        let (inside, left) = during(&SLOT, 1, || {
            with(&SLOT, |value| *value += 1);
            let elsewhere = std::thread::spawn(|| get(&SLOT)).join();
            assert_eq!(elsewhere.expect("it does not panic"), None);
            get(&SLOT)
        });
        assert_eq!((inside, left, get(&SLOT)), (Some(2), Some(2), None));
    }

    #[test]
    fn values_nest_also_when_an_exception_passes() {
        during(&SLOT, 1, || {
            let failed = catch_unwind(|| {
                during(&SLOT, 2, || panic!("as an exception would pass"));
            });
            assert!(failed.is_err());
            assert_eq!(get(&SLOT), Some(1));
        });
        assert_eq!(get(&SLOT), None);
    }
}
