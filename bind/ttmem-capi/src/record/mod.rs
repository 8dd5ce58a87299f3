//! The record path: one exported function per kind of event.
//!
//! Called from any thread of the host program, on its hot paths. A function here
//! checks what C cannot promise, makes the event and hands it to the tracker; it
//! has no guard, because nothing in it can panic.
//!
//! Structures of events have no length member: the record behind them is fixed,
//! and with it the ABI that the name of the library stands for.

pub mod buffer;
pub mod cache;
pub mod device;
pub mod program;

use crate::code::{TTMEM_E_NULL, TTMEM_E_VALUE, TTMEM_OK, ttmem_code_t};
use ttmem_event::EventKind;

/// Records what C said, unless a value of it is no word.
#[inline(always)]
pub(crate) fn record(kind: impl FnOnce() -> Option<EventKind>) -> ttmem_code_t {
    match kind() {
        Some(kind) => {
            sink::track(kind);
            TTMEM_OK
        }
        None => TTMEM_E_VALUE,
    }
}

/// An event that comes as a structure.
trait Reported: Copy {
    /// The event, unless a member is outside the range of its type.
    fn event(&self) -> Option<EventKind>;
}

/// Records the event that C points at.
///
/// # Safety
/// `event` is null or points to a readable structure.
#[inline(always)]
#[expect(unsafe_code, reason = "takes a pointer from C")]
unsafe fn record_at<E: Reported>(event: *const E) -> ttmem_code_t {
    // SAFETY: the caller promises that it is null or can be read; every bit pattern of the
    // structures, which are integers only, is a value.
    match unsafe { event.as_ref() } {
        Some(event) => record(|| event.event()),
        None => TTMEM_E_NULL,
    }
}

#[cfg(not(test))]
mod sink {
    use ttmem_client::Tracker;
    use ttmem_event::EventKind;

    #[inline(always)]
    pub(super) fn track(kind: EventKind) {
        Tracker.track(kind);
    }
}

/// In unit tests, what would be recorded is kept for a look.
#[cfg(test)]
pub(crate) mod sink {
    use std::cell::RefCell;
    use ttmem_event::EventKind;

    thread_local! {
        static RECORDED: RefCell<Vec<EventKind>> = const { RefCell::new(Vec::new()) };
    }

    pub(super) fn track(kind: EventKind) {
        RECORDED.with_borrow_mut(|recorded| recorded.push(kind));
    }

    /// What this thread has recorded since the last look.
    pub(crate) fn take() -> Vec<EventKind> {
        RECORDED.take()
    }
}
