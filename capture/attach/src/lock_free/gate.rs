//! The gate that threads pass before they change something, and that one of them closes to
//! look at what all have changed.
//!
//! A thread announces its change and then looks at the gate; who closes the gate then looks at
//! what is announced. With a fence between the two steps on either side, at least one of them
//! sees the other: a moment is found only if whoever is not in it waits for its end.
//!
//! Every thread has a slot of its own, which it writes without a locked instruction. Threads
//! that found none free are counted.

use super::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

/// A thread's slot; on a cache line of its own, so that threads do not disturb each other.
#[repr(align(64))]
#[derive(Debug)]
pub(crate) struct Slot {
    taken: AtomicBool,
    /// Whether the thread is between a change and its event.
    changing: AtomicBool,
}

impl Slot {
    super::const_where_possible! {
        pub(crate) fn new() -> Self {
            Self {
                taken: AtomicBool::new(false),
                changing: AtomicBool::new(false),
            }
        }
    }
}

/// A thread's slot, by its index; a thread without one is counted.
pub(crate) type Member = Option<usize>;

#[derive(Debug)]
pub(crate) struct Gate<const SLOTS: usize> {
    /// The moment for which the gate is closed; 0 = it is open.
    closed: AtomicU64,
    /// Moments so far: each has a number of its own.
    moments: AtomicU64,
    slots: [Slot; SLOTS],
    /// Changes of threads without a slot.
    begun: AtomicU64,
    ended: AtomicU64,
}

impl<const SLOTS: usize> Gate<SLOTS> {
    super::const_where_possible! {
        pub(crate) fn new(slots: [Slot; SLOTS]) -> Self {
            Self {
                closed: AtomicU64::new(0),
                moments: AtomicU64::new(0),
                slots,
                begun: AtomicU64::new(0),
                ended: AtomicU64::new(0),
            }
        }
    }

    pub(crate) fn join(&self) -> Member {
        // SYNC(slot): the thread that had it before has ended its last change.
        let free = |slot: &Slot| !slot.taken.swap(true, Ordering::Acquire);
        self.slots.iter().position(free)
    }

    /// Gives a slot back; a change that is announced there counts as ended.
    pub(crate) fn leave(&self, slot: usize) {
        if let Some(slot) = self.slots.get(slot) {
            // SYNC(changed): what the thread has changed is seen by who finds a moment.
            slot.changing.store(false, Ordering::Release);
            // SYNC(slot): its last change has ended.
            slot.taken.store(false, Ordering::Release);
        }
    }

    /// Announces a change of a thread; the moment whose end it must wait for, 0 = none.
    ///
    /// `fence_passed` is what the thread does for `SYNC(gate)`.
    #[inline(always)]
    pub(crate) fn begin(&self, member: Member, fence_passed: impl FnOnce()) -> u64 {
        match member {
            Some(slot) => self.slots[slot].changing.store(true, Ordering::Relaxed),
            None => {
                self.begun.fetch_add(1, Ordering::Relaxed);
            }
        }
        // SYNC(gate): announced before the gate is looked at.
        fence_passed();
        self.closed.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn end(&self, member: Member) {
        match member {
            // SYNC(changed): what the thread has changed is seen by who finds a moment.
            Some(slot) => self.slots[slot].changing.store(false, Ordering::Release),
            None => {
                // SYNC(changed): the same, and whoever sees this end sees its beginning.
                self.ended.fetch_add(1, Ordering::Release);
            }
        }
    }

    /// The moment for which the gate is closed; 0 = it is open.
    #[inline]
    pub(crate) fn closed_for(&self) -> u64 {
        // SYNC(open): who goes on does so after what was looked at in the moment.
        self.closed.load(Ordering::Acquire)
    }

    /// Closes the gate, if it is open, and looks whether nobody is changing anything: the number
    /// of the moment, for which [`Self::open`] has to be called, and whether it is one.
    ///
    /// `fence_for_all` has every thread pass a fence; false when that cannot be known.
    pub(crate) fn close(&self, fence_for_all: impl FnOnce() -> bool) -> Option<(u64, bool)> {
        let number = self.moments.fetch_add(1, Ordering::Relaxed) + 1;
        let relaxed = Ordering::Relaxed;
        self.closed
            .compare_exchange(0, number, relaxed, relaxed)
            .ok()?;
        // SYNC(gate): closed before it is looked who has announced what.
        fence(Ordering::SeqCst);
        let are_ordered = fence_for_all();
        // SYNC(changed): what has ended is seen as a whole. Ends first: none without its beginning.
        let ended = self.ended.load(Ordering::Acquire);
        let are_counted_out = self.begun.load(Ordering::Relaxed) == ended;
        // SYNC(changed): what has ended is seen as a whole.
        let is_out = |slot: &Slot| !slot.changing.load(Ordering::Acquire);
        let is_moment = are_ordered && are_counted_out && self.slots.iter().all(is_out);
        Some((number, is_moment))
    }

    /// Opens the gate, if it is still closed for this moment.
    pub(crate) fn open(&self, moment: u64) {
        // SYNC(open): what was looked at in the moment comes before what others do then.
        let (from, to) = (Ordering::Release, Ordering::Relaxed);
        let _opened_before = self.closed.compare_exchange(moment, 0, from, to);
    }

    /// Begins anew, in a child in which only the thread exists that is this member, and maybe
    /// changes something.
    pub(crate) fn reset(&self, member: Member, is_changing: bool) {
        self.closed.store(0, Ordering::Relaxed);
        for (index, slot) in self.slots.iter().enumerate() {
            if member != Some(index) {
                slot.changing.store(false, Ordering::Relaxed);
                slot.taken.store(false, Ordering::Relaxed);
            }
        }
        let is_counted = member.is_none() && is_changing;
        self.ended.store(0, Ordering::Relaxed);
        self.begun.store(is_counted.into(), Ordering::Relaxed);
    }

    #[cfg(all(test, not(loom)))]
    pub(crate) fn members(&self) -> usize {
        let slots = self.slots.iter();
        slots
            .filter(|slot| slot.taken.load(Ordering::Relaxed))
            .count()
    }
}
