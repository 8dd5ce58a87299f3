//! What a thread's operation is about to send.
//!
//! Nearly always it is one program, which is kept among the thread's own words; those
//! after it are in a list that is not touched otherwise.

#![expect(unsafe_code, reason = "makes objects of addresses that were kept")]

use crate::call_context::{self, Slot};
use crate::runtime::Object;
use crate::thread;
use std::cell::Cell;
use ttmem_event::{MeshId, ProgramId, TextId};

/// A program that an operation is about to send.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pending {
    /// The address of the `ProgramImpl`.
    pub(crate) program: usize,
    /// The address of the device it is sent to, and its mesh.
    pub(crate) device: usize,
    pub(crate) mesh: MeshId,
    pub(crate) operation: TextId,
    /// Whether an operation of ttnn has said so before.
    pub(crate) is_announced: bool,
}

impl Pending {
    pub(crate) fn program(&self) -> Object {
        // SAFETY: a program that is destroyed before it is sent is taken out ([`forget`]).
        unsafe { Object::at(self.program) }
    }

    pub(crate) fn device(&self) -> Object {
        // SAFETY: the operation that is about to send holds the device; what is not sent is cleared.
        unsafe { Object::at(self.device) }
    }
}

/// The first of them, as a thread keeps it; zeroes stand for none.
#[repr(C)]
#[derive(Debug, Default)]
pub(crate) struct First {
    pending: Cell<Pending>,
    /// Its number, if it was seen that nothing but its sending has to be reported; 0 = not seen.
    settled: Cell<ProgramId>,
    is_there: Cell<bool>,
    /// Whether an operation has announced the last of all.
    is_announced: Cell<bool>,
    has_more: Cell<bool>,
}

thread_local! {
    static MORE: Slot<Vec<Pending>> = const { Slot::new() };
}

impl First {
    #[inline]
    fn get(&self) -> Option<Pending> {
        self.is_there.get().then(|| self.pending.get())
    }
}

/// Notes a program that this thread is about to send.
#[inline]
pub(crate) fn push(pending: Pending) {
    thread::with(|block| {
        let first = &block.pending;
        first.is_announced.set(pending.is_announced);
        if first.is_there.get() {
            first.has_more.set(true);
            push_more(pending);
        } else {
            first.pending.set(pending);
            first.settled.set(ProgramId(0));
            first.is_there.set(true);
        }
    });
}

/// Whether an operation has announced the last of what this thread is about to send.
#[inline]
pub(crate) fn is_announced() -> bool {
    thread::with(|block| block.pending.is_there.get() && block.pending.is_announced.get())
}

/// The first program that this thread is about to send.
#[inline]
pub(crate) fn first() -> Option<Pending> {
    thread::with(|block| block.pending.get())
}

/// Notes that nothing but its sending has to be reported of the first program.
#[inline]
pub(crate) fn settle_first(program: ProgramId) {
    thread::with(|block| block.pending.settled.set(program));
}

/// Takes the first program, with its number, if it is the only one and settled.
#[inline]
pub(crate) fn take_settled() -> Option<(Pending, ProgramId)> {
    thread::with(|block| {
        let first = &block.pending;
        let settled = first.settled.get();
        if settled == ProgramId(0) || first.has_more.get() {
            return None;
        }
        let pending = first.get()?;
        first.is_there.set(false);
        Some((pending, settled))
    })
}

/// Takes what this thread is about to send: the first, and those after it.
pub(crate) fn take() -> (Option<Pending>, Vec<Pending>) {
    thread::with(|block| {
        let first = block.pending.get();
        block.pending.is_there.set(false);
        let more = if block.pending.has_more.replace(false) {
            take_more()
        } else {
            Vec::new()
        };
        (first, more)
    })
}

/// Nothing is sent after all.
pub(crate) fn clear() {
    let _not_sent = take();
}

/// A program is gone: if this thread was about to send it, it sends nothing.
#[inline]
pub(crate) fn forget(program: usize) {
    thread::with(|block| {
        let first = &block.pending;
        let is_first = first.is_there.get() && first.pending.get().program == program;
        if is_first || (first.is_there.get() && first.has_more.get()) {
            clear();
        }
    });
}

/// Puts one behind the others; a thread that is ending sends one at most.
#[cold]
fn push_more(pending: Pending) {
    let mut more = take_more();
    more.push(pending);
    call_context::replace(&MORE, Some(more));
}

#[cold]
fn take_more() -> Vec<Pending> {
    call_context::replace(&MORE, None).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(number: u32) -> Pending {
        let address = usize::try_from(number).expect("it is small") * 4096;
        Pending {
            program: address,
            device: address + 8,
            mesh: MeshId(number),
            operation: TextId(number),
            is_announced: number != 2,
        }
    }

    #[test]
    fn what_is_about_to_be_sent_is_taken_once_and_in_order() {
        assert_eq!(
            (take(), first(), is_announced()),
            ((None, Vec::new()), None, false)
        );
        let all = [1, 2, 3].map(program);
        for (pending, is_last_announced) in all.into_iter().zip([true, false, true]) {
            push(pending);
            assert_eq!(first().map(|first| first.program), Some(all[0].program));
            assert_eq!(is_announced(), is_last_announced);
        }
        let elsewhere = std::thread::spawn(|| first().is_none());
        assert!(elsewhere.join().expect("it does not panic"));
        let (first_taken, more) = take();
        assert_eq!(first_taken.map(|first| first.program), Some(all[0].program));
        assert_eq!(more, all[1..]);
        assert_eq!(take(), (None, Vec::new()));
    }

    #[test]
    fn only_the_program_that_was_settled_is_taken_as_such() {
        push(program(1));
        assert_eq!(take_settled(), None);
        settle_first(ProgramId(7));
        assert_eq!(take_settled(), Some((program(1), ProgramId(7))));
        assert_eq!(take_settled(), None);
        push(program(3));
        assert_eq!(take_settled(), None, "it is another program");
        settle_first(ProgramId(8));
        push(program(4));
        assert_eq!(take_settled(), None, "there are two");
        clear();
    }

    #[test]
    fn a_program_that_is_gone_is_not_sent() {
        push(program(1));
        forget(program(2).program);
        assert_eq!(first(), Some(program(1)));
        forget(program(1).program);
        assert_eq!(take(), (None, Vec::new()));
        push(program(1));
        push(program(2));
        forget(program(2).program);
        assert_eq!(take(), (None, Vec::new()));
    }

    #[test]
    fn what_is_not_sent_is_forgotten() {
        push(program(1));
        push(program(2));
        clear();
        assert_eq!((first(), is_announced()), (None, false));
        push(program(3));
        assert_eq!(take(), (Some(program(3)), Vec::new()));
    }
}
