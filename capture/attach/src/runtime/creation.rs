//! Buffers as they are created, for runtimes whose buffers cannot be asked everything.
//!
//! Up to 0.78 a buffer's size, class, layout, device and number are read inline: there is
//! no function to call. All but the last are arguments of `Buffer::create`, on the thread
//! on which the buffer is placed a moment later; there they are kept, and compared with
//! what the buffer does say. The number is one of ours, kept by the buffer's address
//! from its placing to its end.

#![expect(unsafe_code, reason = "reads objects of C++ by their layout")]

use super::Object;
use super::buffer::Buffer;
use crate::call_context::Slot;
use crate::lock_free::per_process::PerProcess;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use ttmem_event::Class;
use ttmem_ring::heap::Heap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Creation {
    pub(crate) device: Object,
    pub(crate) size_bytes: u64,
    pub(crate) page_bytes: u64,
    /// The runtime's number of the class.
    pub(crate) class: u32,
}

impl Creation {
    pub(crate) fn class(&self) -> Option<Class> {
        u8::try_from(self.class).ok().and_then(Class::from_code)
    }
}

thread_local! {
    pub(crate) static CREATING: Slot<Creation> = const { Slot::new() };
}

/// The beginning of a `Buffer` as it is up to 0.78.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Head {
    /// What makes shared pointers to itself.
    shared: [usize; 2],
    device: Object,
    size_bytes: u64,
    class: u32,
    layout: u32,
}

/// The runtime's number of a buffer's layout; none unless everything around it is as created.
pub(crate) fn layout_of(buffer: Object, creation: &Creation) -> Option<u32> {
    // SAFETY: no buffer is smaller than what is read, and any bytes are valid for it.
    let head = unsafe { buffer.read::<Head>(0) };
    let as_created = head.device == creation.device
        && head.size_bytes == creation.size_bytes
        && head.class == creation.class;
    as_created.then_some(head.layout)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Numbered {
    pub(crate) number: u64,
    pub(crate) device: usize,
    /// What it takes of the banks of a class.
    pub(crate) class: Class,
    pub(crate) per_bank_bytes: u64,
}

/// Buffers by the address of their object; those of a parent are not a child's.
pub(crate) static BUFFERS: PerProcess<HashMap<usize, Numbered>> = PerProcess::new();

/// The next number, which is never used again: a child goes on where its parent was.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Gives a buffer that was placed its number.
///
/// One that is there at this address died with its device, which nobody reported.
#[cold]
pub(crate) fn begin(buffer: Object, facts: &Buffer) -> u64 {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let numbered = Numbered {
        number,
        device: facts.device.address(),
        class: facts.class,
        per_bank_bytes: facts.per_bank_bytes,
    };
    let mut buffers = BUFFERS.lock();
    if buffers.try_reserve(1).is_ok() {
        buffers.insert(buffer.address(), numbered);
    } else {
        Heap::exhaust();
    }
    number
}

/// Forgets a buffer that is given back; none if it was not reported.
#[cold]
pub(crate) fn end(buffer: Object) -> Option<Numbered> {
    BUFFERS.lock().remove(&buffer.address())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ttmem_event::Layout;

    const CREATION: Creation = Creation {
        device: Object(std::ptr::without_provenance(0x1000)),
        size_bytes: 4096,
        page_bytes: 2048,
        class: 1,
    };

    #[test]
    fn a_layout_is_believed_only_beside_what_was_created() {
        let head = Head {
            shared: [1, 2],
            device: CREATION.device,
            size_bytes: CREATION.size_bytes,
            class: CREATION.class,
            layout: 2,
        };
        let layout = |creation| layout_of(Object((&raw const head).cast()), &creation);
        assert_eq!(layout(CREATION), Some(2));
        let size_bytes = 8192;
        assert_eq!(
            layout(Creation {
                size_bytes,
                ..CREATION
            }),
            None
        );
        assert_eq!(
            layout(Creation {
                class: 0,
                ..CREATION
            }),
            None
        );
        let device = Object(std::ptr::without_provenance(0x2000));
        assert_eq!(layout(Creation { device, ..CREATION }), None);
    }

    #[test]
    fn a_number_ends_with_its_buffer_and_is_never_used_again() {
        let buffer = Object(std::ptr::without_provenance(0x9000));
        let facts = Buffer {
            device: CREATION.device,
            class: Class::L1,
            layout: Layout::Unknown,
            size_bytes: 4096,
            per_bank_bytes: 2048,
            page_bytes: 2048,
            number: None,
        };
        let first = begin(buffer, &facts);
        let expected = Numbered {
            number: first,
            device: 0x1000,
            class: Class::L1,
            per_bank_bytes: 2048,
        };
        assert_eq!(end(buffer), Some(expected));
        assert_eq!(end(buffer), None);
        // The second dies unseen with its device; a third has its address.
        let second = begin(buffer, &facts);
        let third = begin(buffer, &facts);
        assert!(first < second && second < third);
        assert_eq!(end(buffer).map(|buffer| buffer.number), Some(third));
    }
}
