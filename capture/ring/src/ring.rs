//! One producer's ring of event records, and its one consumer.
//!
//! Positions count events from the beginning of the process and never wrap; a
//! slot is its position modulo the ring's size. The producer owns the slots from
//! its head up to tail + size, the consumer those from tail to head: a slot
//! changes hands only with a release of one of the two words, so nothing in a
//! slot needs to be atomic. A producer that dies anywhere leaves whole events
//! below the head and nothing above it.

use crate::sync::{AtomicU32, AtomicU64, Ordering, UnsafeCell, fence};
use std::cell::Cell;
use ttmem_event::Event;
use ttmem_event::event::EVENT_BYTES;

/// Slots of a ring, unless configured: at three million events per second they
/// last 2.7 ms, longer than the pump ever sleeps while it is busy.
pub const DEFAULT_SLOTS: usize = 8192;

/// How many slots ahead a producer asks for the cache line: the pump read it last, and it is in
/// another core's cache. More than a page ahead, so that the page is known in time as well.
const PREFETCHED: u64 = 72;

/// In [`RingControl::owned`]: nobody writes to it; whoever claims it can push at once.
const FREE: u32 = 0;
/// A thread writes to it, or is allocating its memory.
const OWNED: u32 = 1;
/// Nobody writes to it and its slots have no memory: whoever claims it allocates that first.
const EMPTY: u32 = 2;
/// The consumer is giving its memory back; nobody can claim it meanwhile.
const GIVING_BACK: u32 = 3;

/// Room for one event record; a cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Slot(UnsafeCell<[u8; EVENT_BYTES]>);

impl Slot {
    #[cfg(test)]
    pub(crate) fn new() -> Self {
        Self(UnsafeCell::new([0; EVENT_BYTES]))
    }
}

// SAFETY: a slot is reached through `Producer` and `Consumer` only, which hand it to each other
// with SYNC(publish) and SYNC(free) and never use it at the same time.
#[expect(unsafe_code, reason = "the protocol makes slots shareable")]
unsafe impl Sync for Slot {}

/// The words that producer and consumer of a ring share.
///
/// The producer's and the consumer's lie 128 bytes apart: processors fetch cache
/// lines in pairs, and a shared pair would bounce at every event.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct RingControl {
    pub(crate) head: AtomicU64,
    pub(crate) lost: AtomicU64,
    padding: [u64; 14],
    pub(crate) tail: AtomicU64,
    owned: AtomicU32,
    waiting: AtomicU32,
    read: AtomicU32,
    more_padding: [u32; 27],
}

#[cfg(not(loom))]
const _: () = {
    assert!(size_of::<Slot>() == EVENT_BYTES);
    assert!(size_of::<RingControl>() == 256);
    assert!(std::mem::offset_of!(RingControl, lost) == 8);
    assert!(std::mem::offset_of!(RingControl, tail) == 128);
    assert!(std::mem::offset_of!(RingControl, owned) == 136);
};

impl RingControl {
    /// The words of an empty ring that nobody owns: all zero.
    #[cfg(test)]
    pub(crate) fn new() -> Self {
        Self {
            head: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            padding: [0; 14],
            tail: AtomicU64::new(0),
            owned: AtomicU32::new(0),
            waiting: AtomicU32::new(0),
            read: AtomicU32::new(0),
            more_padding: [0; 27],
        }
    }

    /// Says that the slots have no memory yet, before anybody else knows the ring.
    #[cfg(not(loom))]
    pub(crate) fn begin_empty(&self) {
        self.owned.store(EMPTY, Ordering::Relaxed);
    }
}

/// A ring: its words and its slots, wherever they lie.
#[derive(Clone, Copy, Debug)]
pub struct Ring<'m> {
    control: &'m RingControl,
    slots: &'m [Slot],
}

impl<'m> Ring<'m> {
    /// A ring over this memory; the number of slots must be a power of two.
    ///
    /// Not for everybody: two rings over the same slots would write to them at the same time.
    #[must_use]
    pub(crate) fn new(control: &'m RingControl, slots: &'m [Slot]) -> Option<Self> {
        slots
            .len()
            .is_power_of_two()
            .then_some(Self { control, slots })
    }

    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.slots.len() as u64
    }

    /// Becomes the ring's producer, if nobody is and the ring has memory.
    #[must_use]
    pub fn claim(&self) -> Option<Producer<'m>> {
        self.claim_in(FREE)
    }

    /// Becomes the producer of a ring that has no memory.
    ///
    /// Nothing may be pushed before it has some; if there is none to be had, the claim ends with
    /// [`Producer::release_empty`].
    #[must_use]
    pub(crate) fn claim_empty(&self) -> Option<Producer<'m>> {
        self.claim_in(EMPTY)
    }

    fn claim_in(&self, state: u32) -> Option<Producer<'m>> {
        // A look costs less than an attempt, and most rings that are looked at are taken.
        if self.control.owned.load(Ordering::Relaxed) != state {
            return None;
        }
        // SYNC(own): what the last owner published is the head this one goes on from, and memory
        // that was given back is gone.
        self.control
            .owned
            .compare_exchange(state, OWNED, Ordering::Acquire, Ordering::Relaxed)
            .ok()?;
        let head = self.control.head.load(Ordering::Relaxed);
        Some(Producer {
            ring: Cell::new(Some(*self)),
            head: Cell::new(head),
            // No room is known yet: the first push looks.
            room_until: Cell::new(head),
        })
    }

    #[cfg(not(loom))]
    pub(crate) fn is_controlled_by(&self, control: &RingControl) -> bool {
        std::ptr::eq(self.control, control)
    }

    /// Whether it cannot be claimed: a hint, which may be old.
    #[must_use]
    pub fn is_taken(&self) -> bool {
        let state = self.control.owned.load(Ordering::Relaxed);
        state == OWNED || state == GIVING_BACK
    }

    /// Whether it has memory that no thread needs: a hint, which may be old.
    #[must_use]
    pub fn is_free(&self) -> bool {
        self.control.owned.load(Ordering::Relaxed) == FREE
    }

    /// Events that its producers could not record.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.control.lost.load(Ordering::Relaxed)
    }

    /// Counts an event that could not be recorded.
    ///
    /// Anybody may: it is a shared counter, and only ever touched when things go wrong.
    pub fn count_lost(&self) {
        self.control.lost.fetch_add(1, Ordering::Relaxed);
    }

    /// The word that a producer without room waits on, and the consumer wakes.
    #[must_use]
    pub fn waiting(&self) -> &'m AtomicU32 {
        &self.control.waiting
    }

    /// Becomes the ring's consumer, if nobody is.
    #[must_use]
    pub fn consumer(&self) -> Option<Consumer<'m>> {
        // SYNC(read): what the last consumer gave back is the tail this one goes on from.
        self.control
            .read
            .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
            .ok()?;
        let tail = self.control.tail.load(Ordering::Relaxed);
        Some(Consumer {
            ring: *self,
            next: tail,
            published: tail,
            freed: tail,
        })
    }

    /// Asks for the cache line of a slot, to be written to soon.
    #[inline(always)]
    fn prefetch(&self, position: u64) {
        #[cfg(all(target_arch = "x86_64", not(loom)))]
        {
            let line = std::ptr::from_ref(self.slot(position));
            // By name: the compiler's own hint is one for reading on the oldest of these
            // processors, which all know the other.
            // SAFETY: a hint about an address of ours; nothing is read or written.
            #[expect(unsafe_code, reason = "a hint to the processor")]
            unsafe {
                std::arch::asm!(
                    "prefetchw [{line}]",
                    line = in(reg) line,
                    options(nostack, preserves_flags, readonly)
                );
            }
        }
        #[cfg(not(all(target_arch = "x86_64", not(loom))))]
        let _no_hint = position;
    }

    #[inline]
    fn slot(&self, position: u64) -> &'m Slot {
        let mask = self.slots.len() - 1;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "only the low bits matter: they are masked"
        )]
        let index = position as usize & mask;
        // SAFETY: the length is a power of two, so the mask keeps the index below it.
        #[expect(unsafe_code, reason = "no bounds check in the record path")]
        unsafe {
            self.slots.get_unchecked(index)
        }
    }
}

/// The writing end of a ring; it belongs to one thread at a time.
#[derive(Debug)]
pub struct Producer<'m> {
    ring: Cell<Option<Ring<'m>>>,
    head: Cell<u64>,
    /// Up to here there was room when it was last looked.
    room_until: Cell<u64>,
}

impl<'m> Producer<'m> {
    /// A producer without a ring, which has room for nothing.
    #[must_use]
    pub const fn vacant() -> Self {
        Self {
            ring: Cell::new(None),
            head: Cell::new(0),
            room_until: Cell::new(0),
        }
    }

    /// Takes over the ring of another producer.
    ///
    /// One that it has is forgotten, not given up: after a fork its memory is not there.
    pub fn become_owner(&self, other: &Producer<'m>) {
        self.ring.set(other.ring.take());
        self.head.set(other.head.get());
        self.room_until
            .set(other.room_until.replace(other.head.get()));
    }

    /// The ring, if there is one.
    #[must_use]
    pub fn ring(&self) -> Option<Ring<'m>> {
        self.ring.get()
    }

    /// Publishes an event record, if there is known to be room.
    ///
    /// Not to be called from a signal handler that interrupted this very call.
    #[inline(always)]
    pub fn push(&self, record: &[u8; EVENT_BYTES]) -> bool {
        let head = self.head.get();
        if head >= self.room_until.get() {
            return false;
        }
        let ring = self.ring_with_room();
        ring.prefetch(head.wrapping_add(PREFETCHED));
        self.write(&ring, head, record);
        let next = head.wrapping_add(1);
        self.head.set(next);
        // SYNC(publish): whoever sees this head sees the slot.
        ring.control.head.store(next, Ordering::Release);
        true
    }

    /// Publishes several event records at once, if there is known to be room for all of them.
    ///
    /// As of [`Self::push`]. Whoever sees one of them sees all.
    #[inline(always)]
    pub fn push_together<const COUNT: usize>(&self, records: &[[u8; EVENT_BYTES]; COUNT]) -> bool {
        let head = self.head.get();
        let count = u64::try_from(COUNT).unwrap_or(u64::MAX);
        if self.room_until.get().saturating_sub(head) < count.max(1) {
            return false;
        }
        let ring = self.ring_with_room();
        let mut next = head;
        for record in records {
            ring.prefetch(next.wrapping_add(PREFETCHED));
            self.write(&ring, next, record);
            next = next.wrapping_add(1);
        }
        self.head.set(next);
        // SYNC(publish): whoever sees this head sees the slots.
        ring.control.head.store(next, Ordering::Release);
        true
    }

    /// The ring, where room beyond the head is known.
    #[inline(always)]
    fn ring_with_room(&self) -> Ring<'m> {
        // SAFETY: without a ring there is no room: `vacant`, `release` and `become_owner` leave
        // none, and only `look_for_room` finds some, in a ring that is there.
        #[expect(unsafe_code, reason = "no check twice in the record path")]
        unsafe {
            self.ring.get().unwrap_unchecked()
        }
    }

    /// Writes the slot at the head, for which there must be room.
    #[inline(always)]
    fn write(&self, ring: &Ring<'m>, head: u64, record: &[u8; EVENT_BYTES]) {
        ring.slot(head).0.with_mut(|slot| {
            // SAFETY: head < tail + slots, so the consumer has given this slot up (SYNC(free)), and
            // only this thread owns the ring (SYNC(own)).
            #[expect(unsafe_code, reason = "writes the slot in place")]
            unsafe {
                *slot = *record;
            }
        });
    }

    /// What a thread leaves that is killed in the middle of [`Self::push`].
    #[cfg(all(loom, test))]
    pub(crate) fn die_in_push(&self, record: &[u8; EVENT_BYTES]) {
        assert!(self.look_for_room());
        if let Some(ring) = self.ring.get() {
            self.write(&ring, self.head.get(), record);
        }
    }

    /// Looks whether the consumer has made room since.
    pub fn look_for_room(&self) -> bool {
        let Some(ring) = self.ring.get() else {
            return false;
        };
        // SYNC(free): the consumer has read what was in the slots before this.
        let tail = ring.control.tail.load(Ordering::Acquire);
        self.room_until.set(tail.wrapping_add(ring.capacity()));
        self.head.get() < self.room_until.get()
    }

    /// Says that it is about to wait until [`Ring::waiting`] is no longer 1.
    ///
    /// False if there is room after all: then there is nothing to wait for.
    #[must_use]
    pub fn announce_waiting(&self) -> bool {
        let Some(ring) = self.ring.get() else {
            return false;
        };
        ring.control.waiting.store(1, Ordering::Relaxed);
        // SYNC(wait): either the consumer sees the word or this sees the room it has made.
        fence(Ordering::SeqCst);
        !self.look_for_room()
    }

    /// Gives the ring up, for another thread to claim.
    pub fn release(&self) {
        self.release_as(FREE);
    }

    /// Gives up a ring that was claimed empty and is still without memory.
    #[cfg(not(loom))]
    pub(crate) fn release_empty(&self) {
        self.release_as(EMPTY);
    }

    fn release_as(&self, state: u32) {
        if let Some(ring) = self.ring.take() {
            self.room_until.set(self.head.get());
            // SYNC(own): the next owner goes on from the head that is there now.
            ring.control.owned.store(state, Ordering::Release);
        }
    }
}

/// The reading end of a ring.
///
/// Reading and giving back are two steps: a slot is kept until what was read has
/// been sent, so that it is not lost with this process.
#[derive(Debug)]
pub struct Consumer<'m> {
    ring: Ring<'m>,
    /// The tail, which nobody else changes.
    freed: u64,
    next: u64,
    published: u64,
}

impl Drop for Consumer<'_> {
    fn drop(&mut self) {
        // SYNC(read): the next consumer goes on from the tail that is there now.
        self.ring.control.read.store(0, Ordering::Release);
    }
}

impl<'m> Consumer<'m> {
    #[must_use]
    pub fn ring(&self) -> Ring<'m> {
        self.ring
    }

    /// Looks what was published since.
    pub fn look(&mut self) {
        // SYNC(publish): the slots below this head are complete.
        self.published = self.ring.control.head.load(Ordering::Acquire);
    }

    /// The position of the next event to read.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.next
    }

    /// How many events are to be read, as of the last look.
    #[must_use]
    pub fn available(&self) -> u64 {
        self.published.wrapping_sub(self.next)
    }

    /// How many slots are in use: by events that were read and kept, or are yet to be read.
    #[must_use]
    pub fn used_slots(&self) -> u64 {
        self.published.wrapping_sub(self.freed)
    }

    /// The next event, left where it is.
    #[inline]
    #[must_use]
    pub fn peek(&self) -> Option<[u8; EVENT_BYTES]> {
        self.with_next(|record| *record)
    }

    #[inline]
    #[must_use]
    pub fn peek_time(&self) -> Option<u64> {
        self.with_next(Event::time_of)
    }

    #[inline]
    fn with_next<R>(&self, read: impl FnOnce(&[u8; EVENT_BYTES]) -> R) -> Option<R> {
        if self.next == self.published {
            return None;
        }
        Some(self.ring.slot(self.next).0.with(|slot| {
            // SAFETY: tail ≤ next < head: the producer published this slot (SYNC(publish)) and does
            // not write to it before the tail has passed it (SYNC(free)).
            #[expect(unsafe_code, reason = "reads the slot in place")]
            read(unsafe { &*slot })
        }))
    }

    /// Goes on to the event after the one that [`Self::peek`] shows.
    #[inline]
    pub fn advance(&mut self) {
        if self.next != self.published {
            self.next = self.next.wrapping_add(1);
        }
    }

    /// Gives back the slots before `position`, as far as they have been read; false when there are
    /// none that were not given back before.
    pub fn free(&mut self, position: u64) -> bool {
        let position = position.min(self.next);
        if position <= self.freed {
            return false;
        }
        self.freed = position;
        // SYNC(free): what was in them has been read.
        self.ring.control.tail.store(position, Ordering::Release);
        true
    }

    /// Gives the memory of the slots back, if nobody owns the ring and nothing is left in it.
    ///
    /// `give_back` says whether it did; nobody reads or writes a slot while it runs.
    pub(crate) fn give_back(&mut self, give_back: impl FnOnce() -> bool) -> bool {
        if self.used_slots() > 0 {
            return false;
        }
        let owned = &self.ring.control.owned;
        // SYNC(own): all that the last owner published is seen below.
        if owned
            .compare_exchange(FREE, GIVING_BACK, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            return false;
        }
        // A thread may have claimed it, recorded, and ended since the last look.
        self.look();
        let given_back = self.used_slots() == 0 && give_back();
        let state = if given_back { EMPTY } else { FREE };
        // SYNC(own): whoever claims it next finds the memory gone, and allocates it anew.
        owned.store(state, Ordering::Release);
        given_back
    }

    /// Whether the producer waits for slots that were given back, and is to be woken.
    ///
    /// To be asked after every [`Self::free`] that gave something back; says so once per wait.
    #[must_use]
    pub fn take_waiter(&mut self) -> bool {
        // SYNC(wait): either this sees the word or the producer sees the room that was made.
        fence(Ordering::SeqCst);
        let waits = self.ring.control.waiting.load(Ordering::Relaxed) != 0;
        if waits {
            // A producer that announces itself again just now finds 0 when it goes to sleep, and
            // looks again.
            self.ring.control.waiting.store(0, Ordering::Relaxed);
        }
        waits
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
