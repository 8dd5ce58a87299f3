//! Rings in one piece of shared memory.
//!
//! A process begins with a segment of eight rings, and adds others as its
//! threads need them, each with twice as many rings as the one before and, down
//! to a limit, half as long ones: a process with a thousand threads has a dozen
//! descriptors for them. The first segment has all its memory from the
//! beginning and keeps it. Of the others a ring has memory while a thread owns
//! it, until it is given back; the length of the file never changes.
//!
//! The layout is part of the protocol: a server reads it after its owner's death.

use crate::memory::{CreateMemoryError, Memory, Zeroed};
use crate::ring::{Consumer, Producer, Ring, RingControl, Slot};
use crate::sync::{AtomicU32, Ordering};
use crate::{FIRST_RINGS, MAX_RING_SEGMENTS};
use std::mem::offset_of;
use std::ops::Range;
use ttmem_event::event::{EVENT_BYTES, LAYOUT_HASH};

/// What a ring segment begins with.
pub const MAGIC: [u8; 8] = *b"TTMEMRNG";

/// The version of the layout.
pub const VERSION: u32 = 2;

/// Where the words of the first ring are.
pub const CONTROLS_AT: usize = 2048;

/// Slots begin at a page.
const PAGE_BYTES: usize = 4096;

/// Slots that rings of later segments have at least, unless configured shorter: some hundred
/// microseconds of a thread that does nothing but record.
const SHORTEST_SLOTS: usize = 1024;

/// Slots that a ring may have.
const SLOTS: std::ops::RangeInclusive<usize> = 2..=1 << 20;

/// The name of the memory, as `/proc` shows it.
pub const NAME: &str = "ttmem-rings";

/// Where the header has the hash of the event table: eight bytes.
pub const LAYOUT_HASH_AT: usize = offset_of!(Header, layout_hash);

/// Where the header has the version of the layout: four bytes.
pub const VERSION_AT: usize = offset_of!(Header, version);

/// What a segment begins with.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Header {
    magic: [u8; 8],
    layout_hash: u64,
    version: u32,
    pub(crate) ring_count: u32,
    pub(crate) slots_per_ring: u32,
    pub(crate) first_ring: u32,
    pub(crate) leaving: AtomicU32,
}

const _: () = {
    assert!(size_of::<Header>() <= CONTROLS_AT);
    assert!(offset_of!(Header, leaving) == 32);
};

// SAFETY: a slot is bytes, and zeroes are bytes.
#[expect(unsafe_code, reason = "slots are read only after they were written")]
unsafe impl Zeroed for Slot {}

// SAFETY: the words of an empty ring that nobody owns are all zero.
#[expect(unsafe_code, reason = "`RingControl::new` is all zeroes")]
unsafe impl Zeroed for RingControl {}

/// Bytes before the first slot of a segment with so many rings.
pub(crate) const fn header_bytes(rings: usize) -> usize {
    (CONTROLS_AT + rings * size_of::<RingControl>()).next_multiple_of(PAGE_BYTES)
}

/// How the segment with a number is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub first_ring: usize,
    pub rings: usize,
    pub slots_per_ring: usize,
    /// Whether rings have memory only while they are used.
    is_sparse: bool,
}

impl Shape {
    /// The shape of segment `number` where the first ring is to have so many slots, which are
    /// rounded up to a power of two; `None` beyond the last.
    #[must_use]
    pub fn of(number: usize, first_slots: usize) -> Option<Self> {
        if number >= MAX_RING_SEGMENTS {
            return None;
        }
        let first_slots = first_slots.clamp(*SLOTS.start(), *SLOTS.end());
        let first_slots = first_slots.next_power_of_two();
        let slots_per_ring = (first_slots >> number).max(SHORTEST_SLOTS.min(first_slots));
        let is_whole_pages = (slots_per_ring * EVENT_BYTES).is_multiple_of(PAGE_BYTES);
        Some(Self {
            first_ring: FIRST_RINGS * ((1 << number) - 1),
            rings: FIRST_RINGS << number,
            slots_per_ring,
            is_sparse: number > 0 && is_whole_pages,
        })
    }

    #[must_use]
    pub fn ring_bytes(&self) -> usize {
        self.slots_per_ring * EVENT_BYTES
    }

    fn header_bytes(&self) -> usize {
        header_bytes(self.rings)
    }

    fn bytes(&self) -> usize {
        self.header_bytes() + self.rings * self.ring_bytes()
    }

    /// Memory that the segment takes when it is made.
    #[must_use]
    pub fn allocated_bytes(&self) -> usize {
        if self.is_sparse {
            self.header_bytes()
        } else {
            self.bytes()
        }
    }
}

/// Some rings of a process, for as long as it lives.
#[derive(Debug)]
pub struct RingSegment {
    memory: Memory,
    shape: Shape,
    header: &'static Header,
    controls: &'static [RingControl],
    slots: &'static [Slot],
}

impl RingSegment {
    pub fn create(shape: Shape) -> Result<Self, CreateMemoryError> {
        let fits = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let memory = Memory::map(NAME, shape.bytes(), shape.allocated_bytes())?;
        // SAFETY: the header's words end before these, and the slots begin after them.
        #[expect(unsafe_code, reason = "places the words of the rings")]
        let controls: &[RingControl] = unsafe { memory.zeroed(CONTROLS_AT, shape.rings) };
        let slots = shape.rings * shape.slots_per_ring;
        // SAFETY: the last part; a slot is used by a ring's owner and consumer only, and those have
        // it allocated.
        #[expect(unsafe_code, reason = "places the slots")]
        let slots = unsafe { memory.zeroed(shape.header_bytes(), slots) };
        if shape.is_sparse {
            controls.iter().for_each(RingControl::begin_empty);
        }
        let header = memory.place(Header {
            magic: MAGIC,
            layout_hash: LAYOUT_HASH,
            version: VERSION,
            ring_count: fits(shape.rings),
            slots_per_ring: fits(shape.slots_per_ring),
            first_ring: fits(shape.first_ring),
            leaving: AtomicU32::new(0),
        });
        Ok(Self {
            memory,
            shape,
            header,
            controls,
            slots,
        })
    }

    /// The memory, to be handed over.
    #[must_use]
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    #[must_use]
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Whether its rings have memory only while they are needed.
    #[must_use]
    pub fn gives_back(&self) -> bool {
        self.shape.is_sparse
    }

    pub fn rings(&self) -> impl Iterator<Item = Ring<'static>> + '_ {
        let slots = self.slots.chunks_exact(self.shape.slots_per_ring);
        let rings = self.controls.iter().zip(slots);
        rings.filter_map(|(control, slots)| Ring::new(control, slots))
    }

    /// Becomes the producer of a ring that nobody owns and that has memory.
    #[must_use]
    pub fn claim(&self) -> Option<Producer<'static>> {
        self.rings().find_map(|ring| ring.claim())
    }

    /// Claims a ring that has no memory yet.
    pub fn claim_empty(&self) -> Option<EmptyRing<'_>> {
        let mut rings = self.rings().enumerate();
        rings.find_map(|(ring, empty)| {
            Some(EmptyRing {
                segment: self,
                ring,
                producer: empty.claim_empty()?,
            })
        })
    }

    /// Gives the memory of a ring back, if nobody owns it and nothing is left in it.
    ///
    /// The ring is known by its number in this segment and its consumer, which must belong
    /// together. `None` if this was not the time; else whether the system did it.
    pub fn give_back(&self, ring: usize, consumer: &mut Consumer<'static>) -> Option<bool> {
        let is_it = |control: &RingControl| consumer.ring().is_controlled_by(control);
        if !self.shape.is_sparse || !self.controls.get(ring).is_some_and(is_it) {
            return None;
        }
        let mut done = None;
        consumer.give_back(|| *done.insert(self.memory.give_back(self.piece(ring))));
        done
    }

    /// Where the slots of a ring are.
    fn piece(&self, ring: usize) -> Range<usize> {
        let at = self.shape.header_bytes() + ring * self.shape.ring_bytes();
        at..at + self.shape.ring_bytes()
    }

    /// Says that the process has begun to exit in order.
    pub fn mark_leaving(&self) {
        // Read after the process is gone: that orders it.
        self.header.leaving.store(1, Ordering::Relaxed);
    }
}

/// A ring that is claimed and has no memory; dropped, it is for others to claim.
#[derive(Debug)]
pub struct EmptyRing<'s> {
    segment: &'s RingSegment,
    ring: usize,
    producer: Producer<'static>,
}

impl EmptyRing<'_> {
    /// What it takes to allocate it.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.segment.shape.ring_bytes()
    }

    /// Allocates its memory.
    pub fn allocate(self) -> Result<Producer<'static>, CreateMemoryError> {
        let piece = self.segment.piece(self.ring);
        self.segment.memory.allocate(piece)?;
        let producer = Producer::vacant();
        producer.become_owner(&self.producer);
        Ok(producer)
    }
}

impl Drop for EmptyRing<'_> {
    fn drop(&mut self) {
        self.producer.release_empty();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ttmem_event::event::EVENT_BYTES;

    #[test]
    fn what_a_thread_publishes_is_in_the_file() {
        let segment = RingSegment::create(Shape::of(0, 4).unwrap()).unwrap();
        let rings: Vec<_> = segment.rings().collect();
        assert_eq!(rings.len(), FIRST_RINGS);
        let producer = rings[2].claim().unwrap();
        assert!(rings[2].claim().is_none());
        assert!(producer.look_for_room());
        assert!(producer.push(&[7; EVENT_BYTES]));
        let memory = segment.memory();
        let mut bytes = vec![0; memory.bytes()];
        let read = rustix::io::pread(memory.descriptor().unwrap(), &mut bytes, 0);
        assert_eq!(read, Ok(4096 + 8 * 4 * 64));
        assert_eq!(&bytes[..8], b"TTMEMRNG");
        assert_eq!(bytes[8..16], LAYOUT_HASH.to_le_bytes());
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let header: Vec<u32> = (16..36).step_by(4).map(word).collect();
        assert_eq!(header, [2, 8, 4, 0, 0]);
        let control = 2048 + 2 * 256;
        assert_eq!((word(control), word(control + 136)), (1, 1));
        let slot = 4096 + 2 * 4 * 64;
        assert_eq!(bytes[slot..slot + 64], [7; 64]);
        assert_eq!(bytes[slot + 64], 0);
    }

    /// What a segment really takes.
    fn allocated_bytes(segment: &RingSegment) -> usize {
        let stat = rustix::fs::fstat(segment.memory().descriptor().unwrap()).unwrap();
        usize::try_from(stat.st_blocks).unwrap() * 512
    }

    #[test]
    fn each_segment_has_twice_as_many_rings_and_their_numbers_go_on() {
        let mut next = 0;
        for number in 0..MAX_RING_SEGMENTS {
            let shape = Shape::of(number, 5000).unwrap();
            assert_eq!((shape.first_ring, shape.rings), (next, 8 << number));
            let slots = [8192, 4096, 2048, 1024];
            let slots = slots.get(number).copied().unwrap_or(1024);
            assert_eq!(shape.slots_per_ring, slots);
            next += shape.rings;
        }
        assert_eq!(next, crate::MAX_RINGS);
        assert_eq!(Shape::of(MAX_RING_SEGMENTS, 5000), None);
        // The first has all its memory, and so have rings that share a page.
        assert_eq!(Shape::of(0, 64).unwrap().allocated_bytes(), 4096 * 9);
        assert_eq!(
            Shape::of(1, 32).unwrap().allocated_bytes(),
            4096 * 2 + 16 * 32 * 64
        );
        assert_eq!(Shape::of(1, 64).unwrap().allocated_bytes(), 4096 * 2);
        assert_eq!(Shape::of(1, 0).unwrap().slots_per_ring, 2);
        assert_eq!(Shape::of(0, usize::MAX).unwrap().slots_per_ring, 1 << 20);
    }

    #[test]
    fn a_ring_of_a_later_segment_has_memory_while_it_is_needed() {
        let shape = Shape::of(1, 128).unwrap();
        let segment = RingSegment::create(shape).unwrap();
        let header = allocated_bytes(&segment);
        assert_eq!(header, shape.allocated_bytes());
        assert!(segment.claim().is_none(), "no ring has memory yet");
        let mut consumer = segment.rings().next().unwrap().consumer().unwrap();
        for round in 0..3 {
            let empty = segment.claim_empty().unwrap();
            assert_eq!(empty.bytes(), 128 * 64);
            let producer = empty.allocate().unwrap();
            assert_eq!(allocated_bytes(&segment), header + 128 * 64);
            assert!(producer.look_for_room());
            assert!(producer.push(&[round; EVENT_BYTES]));
            consumer.look();
            let give_back = |consumer: &mut Consumer<'static>| segment.give_back(0, consumer);
            assert_eq!(give_back(&mut consumer), None, "a thread owns it");
            producer.release();
            assert_eq!(give_back(&mut consumer), None, "an event is in it");
            assert_eq!(consumer.peek(), Some([round; EVENT_BYTES]));
            consumer.advance();
            assert_eq!(give_back(&mut consumer), None, "the event is kept");
            consumer.free(consumer.position());
            assert_eq!(segment.give_back(1, &mut consumer), None, "another ring");
            assert_eq!(segment.give_back(0, &mut consumer), Some(true));
            assert_eq!(allocated_bytes(&segment), header);
        }
        // Claimed and not used, it is there for others.
        drop(segment.claim_empty());
        let claimed: Vec<_> = std::iter::from_fn(|| segment.claim_empty()).collect();
        assert_eq!(claimed.len(), 16);
    }

    #[test]
    fn rings_of_the_first_segment_keep_their_memory() {
        let segment = RingSegment::create(Shape::of(0, 128).unwrap()).unwrap();
        let mut consumer = segment.rings().next().unwrap().consumer().unwrap();
        let before = allocated_bytes(&segment);
        assert_eq!(segment.give_back(0, &mut consumer), None);
        assert!(segment.claim_empty().is_none());
        assert!(segment.claim().is_some());
        assert_eq!(allocated_bytes(&segment), before);
    }

    #[test]
    fn a_full_ring_has_room_again_when_slots_are_given_back() {
        let segment = RingSegment::create(Shape::of(0, 4).unwrap()).unwrap();
        let ring = segment.rings().next().unwrap();
        let producer = ring.claim().unwrap();
        let mut consumer = ring.consumer().unwrap();
        assert!(producer.look_for_room());
        for value in 0..4 {
            assert!(producer.push(&[value; EVENT_BYTES]));
        }
        assert!(!producer.push(&[0; EVENT_BYTES]));
        assert!(!producer.look_for_room());
        consumer.look();
        assert_eq!(consumer.available(), 4);
        assert_eq!(consumer.peek().unwrap()[0], 0);
        consumer.advance();
        consumer.advance();
        assert_eq!(consumer.used_slots(), 4, "reading alone gives nothing back");
        assert!(!producer.look_for_room());
        consumer.free(consumer.position());
        assert!(producer.look_for_room());
        assert!(producer.push(&[9; EVENT_BYTES]));
        assert!(producer.push(&[10; EVENT_BYTES]));
        assert!(!producer.push(&[0; EVENT_BYTES]));
        consumer.look();
        let mut seen = Vec::new();
        while let Some(record) = consumer.peek() {
            seen.push(record[0]);
            consumer.advance();
        }
        assert_eq!(seen, [2, 3, 9, 10]);
    }

    #[test]
    fn the_next_owner_goes_on_where_the_last_one_ended() {
        let segment = RingSegment::create(Shape::of(0, 4).unwrap()).unwrap();
        let ring = segment.rings().next().unwrap();
        let first = ring.claim().unwrap();
        assert!(first.look_for_room());
        assert!(first.push(&[1; EVENT_BYTES]));
        first.release();
        assert!(!first.push(&[0; EVENT_BYTES]));
        let second = ring.claim().unwrap();
        assert!(second.look_for_room());
        assert!(second.push(&[2; EVENT_BYTES]));
        let mut consumer = ring.consumer().unwrap();
        consumer.look();
        assert_eq!(consumer.peek().unwrap()[0], 1);
        consumer.advance();
        assert_eq!(consumer.peek().unwrap()[0], 2);
    }
}
