//! `std::unordered_map` as it lies in memory, checked to be one before it is believed.

#![expect(unsafe_code, reason = "reads objects of C++ by their layout")]

use std::ffi::c_void;

/// More entries than any map that is read here has: of chips, boards, or cores.
const MAX_ENTRIES: usize = 4096;

/// `std::unordered_map`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnorderedMap {
    buckets: *const c_void,
    bucket_count: usize,
    first: *const c_void,
    count: usize,
    /// As full as it may become before it grows, which is never set to anything but 1.
    max_load: f32,
    next_resize: usize,
    single_bucket: *const c_void,
}

const _: () = assert!(size_of::<UnorderedMap>() == 56);

/// A key with its value; a hash may follow.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Node<E> {
    next: *const c_void,
    entry: E,
}

/// The entries of a map; none if it does not look like one.
///
/// # Safety
/// If there is such a map, its keys and values lie as in `E`, and nobody changes it meanwhile.
pub(super) unsafe fn entries<E: Copy>(map: *const UnorderedMap) -> Option<Vec<E>> {
    if map.is_null() || !map.is_aligned() {
        return None;
    }
    // SAFETY: the caller vouches for a map at an address that is one.
    let map = unsafe { &*map };
    let sized = map.count <= MAX_ENTRIES && map.count <= map.bucket_count;
    if map.buckets.is_null() || !sized || map.max_load.to_bits() != 1.0_f32.to_bits() {
        return None;
    }
    let mut found = Vec::with_capacity(map.count);
    let mut next = map.first;
    while !next.is_null() {
        let node = next.cast::<Node<E>>();
        if found.len() == map.count || !node.is_aligned() {
            return None;
        }
        // SAFETY: the map looks like one, and it has this many entries.
        let node = unsafe { node.read() };
        found.push(node.entry);
        next = node.next;
    }
    (found.len() == map.count).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Entry = (u32, u64);

    fn node(next: Option<&Node<Entry>>, entry: Entry) -> Node<Entry> {
        let next = next.map_or(std::ptr::null(), |next| (&raw const *next).cast());
        Node { next, entry }
    }

    fn map(first: &Node<Entry>, count: usize) -> UnorderedMap {
        UnorderedMap {
            buckets: std::ptr::dangling(),
            bucket_count: 13,
            first: (&raw const *first).cast(),
            count,
            max_load: 1.0,
            next_resize: 13,
            single_bucket: std::ptr::null(),
        }
    }

    fn read(map: &UnorderedMap) -> Option<Vec<Entry>> {
        // SAFETY: it is a map of such, or must be recognised as none.
        unsafe { entries::<Entry>(map) }
    }

    #[test]
    fn every_entry_of_a_map_is_read() {
        let second = node(None, (1, 20));
        let first = node(Some(&second), (0, 10));
        assert_eq!(read(&map(&first, 2)), Some(vec![(0, 10), (1, 20)]));
        let mut empty = map(&first, 0);
        empty.first = std::ptr::null();
        assert_eq!(read(&empty), Some(Vec::new()));
    }

    #[test]
    fn what_cannot_be_a_map_is_none() {
        let second = node(None, (1, 20));
        let first = node(Some(&second), (0, 10));
        assert_eq!(read(&map(&first, 1)), None, "more entries than it says");
        assert_eq!(read(&map(&first, 3)), None, "fewer");
        assert_eq!(read(&map(&first, 14)), None, "fuller than it may be");
        assert_eq!(read(&map(&first, usize::MAX)), None);
        let mut other = map(&first, 2);
        other.max_load = 0.0;
        assert_eq!(read(&other), None);
        // SAFETY: it is seen that there is none.
        let none = unsafe { entries::<Entry>(std::ptr::null()) };
        assert_eq!(none, None);
    }
}
