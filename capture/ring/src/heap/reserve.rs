//! Blocks for the calls that are under way when memory runs out.
//!
//! Part of the library, so it is there before anything is tracked. Blocks are taken one behind the
//! other, and once all were given back it is empty again: it serves calls that end, no tables.

use super::LARGE_BYTES;
use crate::sync::{AtomicU64, Ordering};
use std::alloc::Layout;
use std::cell::UnsafeCell;
use std::ptr::null_mut;

/// Four of the largest requests that it serves; most are some hundred bytes.
const RESERVE_BYTES: usize = 4 * LARGE_BYTES;

/// How far it is used, above the number of blocks that are.
const USED_SHIFT: u32 = 32;

#[repr(align(4096))]
pub(super) struct Reserve {
    bytes: UnsafeCell<[u8; RESERVE_BYTES]>,
    state: AtomicU64,
}

// SAFETY: the bytes are only ever used as blocks, each by who took it.
unsafe impl Sync for Reserve {}

impl Reserve {
    pub(super) const fn new() -> Self {
        Self {
            bytes: UnsafeCell::new([0; RESERVE_BYTES]),
            state: AtomicU64::new(0),
        }
    }

    /// A block, or null where there is no room.
    pub(super) fn take(&self, layout: Layout) -> *mut u8 {
        let place = |state: u64| {
            let used = usize::try_from(state >> USED_SHIFT).ok()?;
            let at = used.next_multiple_of(layout.align());
            let end = at.checked_add(layout.size())?;
            (end <= RESERVE_BYTES && layout.align() <= 4096).then_some((at, end))
        };
        let taken = self
            .state
            // SYNC(reserve): what the last user of the block did comes first.
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, |state| {
                let (_at, end) = place(state)?;
                let blocks = (state & u64::from(u32::MAX)) + 1;
                Some((end as u64) << USED_SHIFT | blocks)
            });
        let Some((at, _end)) = taken.ok().and_then(place) else {
            return null_mut();
        };
        self.bytes.get().cast::<u8>().wrapping_add(at)
    }

    pub(super) fn has(&self, block: *mut u8) -> bool {
        let start = self.bytes.get().addr();
        (start..start + RESERVE_BYTES).contains(&block.addr())
    }

    /// Gives a block back; false if it is none of these.
    pub(super) fn give_back(&self, block: *mut u8) -> bool {
        if !self.has(block) {
            return false;
        }
        // SYNC(reserve): the next user of the block comes after this one.
        let _counted = self
            .state
            .fetch_update(Ordering::Release, Ordering::Relaxed, |state| {
                let blocks = (state & u64::from(u32::MAX)).saturating_sub(1);
                let used = if blocks == 0 { 0 } else { state >> USED_SHIFT };
                Some(used << USED_SHIFT | blocks)
            });
        true
    }
}

impl std::fmt::Debug for Reserve {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let used = self.state.load(Ordering::Relaxed) >> USED_SHIFT;
        f.debug_struct("Reserve").field("used", &used).finish()
    }
}
