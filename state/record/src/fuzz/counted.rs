//! An allocator that counts, for tests and the fuzz target: what was allocated at most by a thread.

#![expect(unsafe_code, reason = "an allocator cannot be written without")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static LIVE: Cell<i64> = const { Cell::new(0) };
    static HIGHEST: Cell<i64> = const { Cell::new(0) };
}

struct Counted;

#[global_allocator]
static ALLOCATOR: Counted = Counted;

fn count(more: usize, less: usize) {
    let change = i64::try_from(more).unwrap_or(i64::MAX) - i64::try_from(less).unwrap_or(0);
    // A thread that ends has no counts any more, and is not measured.
    let _ended = LIVE.try_with(|live| {
        live.set(live.get() + change);
        HIGHEST.with(|highest| highest.set(highest.get().max(live.get())));
    });
}

// SAFETY: all calls go to the system's allocator as they are.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller keeps the rules of this call, which are the same there.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: likewise.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size, layout.size());
        // SAFETY: likewise.
        unsafe { System.realloc(at, layout, size) }
    }
}

/// Runs something; the most bytes that it had at a time.
pub(super) fn measured<T>(run: impl FnOnce() -> T) -> (T, u64) {
    let before = LIVE.get();
    HIGHEST.set(before);
    let made = run();
    (made, u64::try_from(HIGHEST.get() - before).unwrap_or(0))
}
