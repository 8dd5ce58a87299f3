//! What our mappings take of the limits that the process has, and how much they may.
//!
//! Under `RLIMIT_AS` and `RLIMIT_DATA` every byte of ours is one that the program cannot have. So
//! before anything is mapped both are looked at: together we take at most half of the addresses and
//! a quarter of the data that the program leaves, and no more than 16 MiB or a sixteenth of it, whichever is more. A program that
//! ends well under a limit 24 MiB lower does so with us: the rest is stacks and code.

use rustix::fs::{Mode, OFlags};
use rustix::mm::{MapFlags, ProtFlags};
use rustix::process::Resource;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What we may have under any limit that leaves twice as much.
const ALWAYS_BYTES: u64 = 16 << 20;

/// The part that we may have where that is more.
const PART: u64 = 16;

const PAGE_BYTES: u64 = 4096;

/// Numbers of `/proc/self/statm`: all that is mapped, and what is private and can be written to.
const ALL: usize = 0;
const DATA: usize = 5;

/// What a mapping is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Heap,
    /// Rings and dictionaries; a child of a fork does not have them.
    Shared,
}

static HEAP_BYTES: AtomicUsize = AtomicUsize::new(0);
static SHARED_BYTES: AtomicUsize = AtomicUsize::new(0);

fn counter(kind: Kind) -> &'static AtomicUsize {
    match kind {
        Kind::Heap => &HEAP_BYTES,
        Kind::Shared => &SHARED_BYTES,
    }
}

/// Counts a mapping that is about to be made; false if the limits do not allow it.
pub(crate) fn take(kind: Kind, bytes: usize) -> bool {
    let is_allowed = allows(bytes);
    if is_allowed {
        counter(kind).fetch_add(bytes, Ordering::Relaxed);
    }
    is_allowed
}

/// Counts a mapping that is made in spite of the limits.
pub(super) fn take_anyway(kind: Kind, bytes: usize) {
    counter(kind).fetch_add(bytes, Ordering::Relaxed);
}

pub(crate) fn give_back(kind: Kind, bytes: usize) {
    counter(kind).fetch_sub(bytes, Ordering::Relaxed);
}

/// In a child of a fork: what was shared is the parent's.
pub(super) fn forget_shared() {
    SHARED_BYTES.store(0, Ordering::Relaxed);
}

/// Whether the limits of this process allow so much more.
#[must_use]
pub fn allows(bytes: usize) -> bool {
    let limit = |resource| rustix::process::getrlimit(resource).current;
    let (all, data) = (limit(Resource::As), limit(Resource::Data));
    if all.is_none() && data.is_none() {
        return true;
    }
    let mapped = mapped_pages();
    let heap = HEAP_BYTES.load(Ordering::Relaxed) as u64;
    let ours = heap + SHARED_BYTES.load(Ordering::Relaxed) as u64;
    let is_within = |limit: Option<u64>, number: usize, ours: u64, most: u64| {
        let mapped = mapped.map(|numbers| numbers[number].saturating_mul(PAGE_BYTES));
        limit.is_none_or(|limit| {
            ours.saturating_add(bytes as u64) <= share(limit, mapped, ours, most)
        })
    };
    is_within(all, ALL, ours, 2) && is_within(data, DATA, heap, 4)
}

/// Whether the limits allow so much more, and the system has it.
#[must_use]
pub fn is_there(bytes: usize) -> bool {
    if !allows(bytes) {
        return false;
    }
    let (read_write, private) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
    // SAFETY: a new mapping at an address of the system's choice touches nothing of ours.
    let mapped = unsafe { rustix::mm::mmap_anonymous(null_mut(), bytes, read_write, private) };
    // SAFETY: mapped just now, and used by nobody.
    mapped.is_ok_and(|start| unsafe { rustix::mm::munmap(start, bytes) }.is_ok())
}

/// What we may have of a limit, where so much is mapped and so much of that is ours: at most one of
/// `most` parts of what is left.
fn share(limit: u64, mapped: Option<u64>, ours: u64, most: u64) -> u64 {
    // Where that cannot be read, the program may have half.
    let program = mapped.map_or(limit / 2, |mapped| mapped.saturating_sub(ours));
    let left = limit.saturating_sub(program);
    (left / PART).max(ALWAYS_BYTES).min(left / most)
}

/// The numbers of `/proc/self/statm`, without taking memory for them.
fn mapped_pages() -> Option<[u64; DATA + 1]> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = rustix::fs::open(c"/proc/self/statm", flags, Mode::empty()).ok()?;
    let mut text = [0; 256];
    let count = rustix::io::read(&file, &mut text).ok()?;
    numbers(text.get(..count)?)
}

fn numbers(text: &[u8]) -> Option<[u64; DATA + 1]> {
    let mut words = std::str::from_utf8(text).ok()?.split_ascii_whitespace();
    let mut numbers = [0; DATA + 1];
    for number in &mut numbers {
        *number = words.next()?.parse().ok()?;
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn shares_of_small_and_large_limits() {
        assert_eq!(share(200 * MIB, Some(10 * MIB), 5 * MIB, 2), 16 * MIB);
        assert_eq!(share(20 * MIB, Some(9 * MIB), 5 * MIB, 2), 8 * MIB);
        assert_eq!(share(1605 * MIB, Some(10 * MIB), 5 * MIB, 2), 100 * MIB);
        assert_eq!(share(4 * MIB, Some(9 * MIB), 5 * MIB, 2), 0);
        assert_eq!(share(100 * MIB, None, 5 * MIB, 2), 16 * MIB);
    }

    #[test]
    fn numbers_of_pages() {
        assert_eq!(numbers(b"7 6 5 4 0 2 0\n"), Some([7, 6, 5, 4, 0, 2]));
        assert_eq!(numbers(b"7 6 5"), None);
        assert_eq!(numbers(b"7 6 x 4 0 2 0"), None);
        assert!(mapped_pages().is_some_and(|pages| pages[ALL] > pages[DATA]));
    }
}
