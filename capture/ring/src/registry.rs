//! The ring segments of a process, which become more while threads use them.
//!
//! Reading takes no lock. A thread that finds no ring adds a segment itself: one
//! thread at a time, and the others wait for that one to be done, for a bounded
//! time, or go without.

use crate::MAX_RING_SEGMENTS;
use crate::published::Published;
use crate::sync::{AtomicBool, AtomicU32, Ordering};

#[derive(Debug)]
pub struct Registry<S: 'static> {
    segments: [Published<S>; MAX_RING_SEGMENTS],
    is_growing: AtomicBool,
    /// How often a thread was done with adding one, or with trying to; a futex.
    attempts: AtomicU32,
}

impl<S: Sync> Default for Registry<S> {
    fn default() -> Self {
        Self {
            segments: std::array::from_fn(|_segment| Published::unset()),
            is_growing: AtomicBool::new(false),
            attempts: AtomicU32::new(0),
        }
    }
}

impl<S: Sync> Registry<S> {
    /// The segments there are, in their order.
    pub fn segments(&self) -> impl Iterator<Item = &'static S> + '_ {
        self.segments.iter().map_while(Published::get)
    }

    /// How often somebody tried to add a segment: to be read before looking for a ring.
    pub fn attempts(&self) -> u32 {
        // SYNC(attempt): who sees the count sees the segment that was added before it.
        self.attempts.load(Ordering::Acquire)
    }

    /// The word that changes with [`Self::attempts`], to sleep on.
    #[cfg(not(loom))]
    pub fn attempts_word(&self) -> &AtomicU32 {
        &self.attempts
    }

    /// Makes this thread the one that adds a segment; `None` while another does.
    pub fn begin_growing(&self) -> Option<Growing<'_, S>> {
        // SYNC(grow): the segments that others added are there.
        self.is_growing
            .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
            .ok()?;
        Some(Growing(self))
    }
}

/// The right to add a segment; whoever waits is to be woken after it was dropped.
#[derive(Debug)]
pub struct Growing<'r, S: Sync + 'static>(&'r Registry<S>);

impl<S: Sync> Growing<'_, S> {
    /// The number that the next segment will have.
    #[must_use]
    pub fn next_number(&self) -> usize {
        self.0.segments().count()
    }

    /// Adds the next segment; false if there is no place for it.
    pub fn add(&self, segment: &'static S) -> bool {
        let place = self.0.segments.get(self.next_number());
        place.is_some_and(|place| {
            place.set(segment);
            true
        })
    }
}

impl<S: Sync> Drop for Growing<'_, S> {
    fn drop(&mut self) {
        // SYNC(grow): the next one finds what this one added.
        self.0.is_growing.store(false, Ordering::Release);
        // SYNC(attempt): after both, so that whoever sees the count can do better than wait.
        self.0.attempts.fetch_add(1, Ordering::Release);
    }
}
