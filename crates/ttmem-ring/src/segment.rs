//! Eight rings in one piece of shared memory.
//!
//! The layout is part of the protocol: a server reads it after its owner's death.

use crate::RINGS_PER_SEGMENT;
use crate::memory::{CreateMemoryError, Memory, Zeroed};
use crate::ring::{Ring, RingControl, Slot};
use crate::sync::{AtomicU32, Ordering};
use std::mem::offset_of;
use ttmem_event::event::LAYOUT_HASH;

/// What a ring segment begins with.
pub const MAGIC: [u8; 8] = *b"TTMEMRNG";

/// The version of the layout.
pub const VERSION: u32 = 1;

/// Bytes before the first slot.
pub const HEADER_BYTES: usize = 4096;

/// The name of the memory, as `/proc` shows it.
pub const NAME: &str = "ttmem-rings";

/// Where the header has the hash of the event table: eight bytes.
pub const LAYOUT_HASH_AT: usize = offset_of!(Header, layout_hash);

/// Where the header has the version of the layout: four bytes.
pub const VERSION_AT: usize = offset_of!(Header, version);

/// The first page of a segment.
#[derive(Debug)]
#[repr(C, align(4096))]
pub(crate) struct Header {
    magic: [u8; 8],
    layout_hash: u64,
    version: u32,
    pub(crate) ring_count: u32,
    pub(crate) slots_per_ring: u32,
    pub(crate) first_ring: u32,
    pub(crate) leaving: AtomicU32,
    padding: [u8; 2012],
    pub(crate) controls: [RingControl; RINGS_PER_SEGMENT],
}

const _: () = {
    assert!(size_of::<Header>() == HEADER_BYTES);
    assert!(offset_of!(Header, leaving) == 32);
    assert!(offset_of!(Header, controls) == 2048);
};

// SAFETY: a slot is bytes, and zeroes are bytes.
#[expect(unsafe_code, reason = "slots are read only after they were written")]
unsafe impl Zeroed for Slot {}

/// Eight rings of a process, for as long as it lives.
#[derive(Debug)]
pub struct RingSegment {
    memory: Memory,
    header: &'static Header,
    slots: &'static [Slot],
}

impl RingSegment {
    /// Makes the segment with this number.
    ///
    /// The number of slots per ring is rounded up to a power of two.
    pub fn create(number: usize, slots_per_ring: usize) -> Result<Self, CreateMemoryError> {
        let slots_per_ring = slots_per_ring.clamp(2, 1 << 20).next_power_of_two();
        let slots = RINGS_PER_SEGMENT * slots_per_ring;
        let fits = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let header = Header {
            magic: MAGIC,
            layout_hash: LAYOUT_HASH,
            version: VERSION,
            ring_count: fits(RINGS_PER_SEGMENT),
            slots_per_ring: fits(slots_per_ring),
            first_ring: fits(number * RINGS_PER_SEGMENT),
            leaving: AtomicU32::new(0),
            padding: [0; 2012],
            controls: std::array::from_fn(|_ring| RingControl::new()),
        };
        let (memory, header, slots) = Memory::create(NAME, header, slots)?;
        Ok(Self {
            memory,
            header,
            slots,
        })
    }

    /// The memory, to be handed over.
    #[must_use]
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    #[must_use]
    pub fn first_ring(&self) -> u32 {
        self.header.first_ring
    }

    pub fn rings(&self) -> impl Iterator<Item = Ring<'static>> + '_ {
        let each = self.slots.len() / RINGS_PER_SEGMENT;
        let controls = self.header.controls.iter();
        let slots = self.slots.chunks_exact(each.max(1));
        controls
            .zip(slots)
            .filter_map(|(control, slots)| Ring::new(control, slots))
    }

    /// Says that the process has begun to exit in order.
    pub fn mark_leaving(&self) {
        // Read after the process is gone: that orders it.
        self.header.leaving.store(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ttmem_event::event::EVENT_BYTES;

    #[test]
    fn what_a_thread_publishes_is_in_the_file() {
        let segment = RingSegment::create(3, 4).unwrap();
        let rings: Vec<_> = segment.rings().collect();
        assert_eq!(rings.len(), RINGS_PER_SEGMENT);
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
        assert_eq!(header, [1, 8, 4, 24, 0]);
        let control = 2048 + 2 * 256;
        assert_eq!((word(control), word(control + 136)), (1, 1));
        let slot = 4096 + 2 * 4 * 64;
        assert_eq!(bytes[slot..slot + 64], [7; 64]);
        assert_eq!(bytes[slot + 64], 0);
    }

    #[test]
    fn a_full_ring_has_room_again_when_slots_are_given_back() {
        let segment = RingSegment::create(0, 4).unwrap();
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
        let segment = RingSegment::create(0, 4).unwrap();
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
