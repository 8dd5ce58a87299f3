//! The record path: one exported function per kind of event.
//!
//! Called from any thread of the host program, on its hot paths. A function here
//! checks what C cannot promise, makes the event and hands it to the tracker; it
//! has no guard, because nothing in it can panic.
//!
//! Structures of events have no length member: the record behind them is fixed,
//! and with it the ABI that the name of the library stands for.

use crate::code::{TTMEM_E_VALUE, TTMEM_OK, ttmem_code_t};
use ttmem_event::EventKind;
use ttmem_event::event::Field;

/// Records an event whose fields are integers of C.
///
/// A field that has another name in C is written `field = name_in_c`.
macro_rules! record {
    ($kind:ident: $($field:ident $(= $value:ident)?),*) => {
        $crate::record::record_event(|| {
            Some(ttmem_event::EventKind::$kind {
                $($field: $crate::record::field(record!(@ $field $($value)?).to_le_bytes())?,)*
            })
        })
    };
    (@ $field:ident) => { $field };
    (@ $field:ident $value:ident) => { $value };
}
pub(crate) use record;

/// Records an event whose fields are members of a structure of C; null is refused.
macro_rules! record_at {
    ($event:ident, $kind:ident: $($field:ident $(= $member:ident)?),*) => {
        match $event {
            Some(event) => $crate::record::record_event(|| {
                Some(ttmem_event::EventKind::$kind {
                    $($field: $crate::record::field(
                        record_at!(@ event $field $($member)?).to_le_bytes(),
                    )?,)*
                })
            }),
            None => $crate::code::TTMEM_E_NULL,
        }
    };
    (@ $event:ident $field:ident) => { $event.$field };
    (@ $event:ident $field:ident $member:ident) => { $event.$member };
}

pub mod buffer;
pub mod cache;
pub mod device;
pub mod program;

/// Records what C passed, unless a value is outside the range of its type.
#[inline(always)]
pub(crate) fn record_event(kind: impl FnOnce() -> Option<EventKind>) -> ttmem_code_t {
    match kind() {
        Some(kind) => {
            sink::track(kind);
            TTMEM_OK
        }
        None => TTMEM_E_VALUE,
    }
}

/// An integer of C as the event's record would have it; `None` when the field cannot be that.
#[inline(always)]
pub(crate) fn field<T: Field, const WIDTH: usize>(bytes: [u8; WIDTH]) -> Option<T> {
    const { assert!(WIDTH == T::WIDTH) };
    T::get(&bytes).ok()
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
