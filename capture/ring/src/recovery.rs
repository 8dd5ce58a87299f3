//! Reading the memory that a dead process left behind.
//!
//! Owns what the bytes of a ring segment and of a dictionary segment mean, and
//! which of a ring's events nobody has read. The server calls it after a death;
//! it does no I/O itself: the caller reads the bytes that it is pointed to and
//! hands them back. Nothing here believes a number before it was compared with
//! what the file can hold, so a length from there never becomes an allocation.

use crate::dictionary::DictionaryHeader;
use crate::ring::RingControl;
use crate::segment::Header;
use crate::{MAX_RINGS, dictionary, segment};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::mem::offset_of;
use std::ops::Range;
use ttmem_event::Event;
use ttmem_event::event::{EVENT_BYTES, Field, LAYOUT_HASH};

/// Bytes at the beginning of a ring segment that say how long its header is.
pub const RING_HEADER_START_BYTES: usize = segment::CONTROLS_AT;

/// Bytes at the beginning of a dictionary segment.
pub const DICTIONARY_HEADER_BYTES: usize = dictionary::HEADER_BYTES;

/// An event's size where positions are counted.
const RECORD_BYTES: u64 = EVENT_BYTES as u64;

/// Why a segment cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadSegmentError {
    /// It ends inside its header.
    #[error("its header has only {0} bytes")]
    Short(usize),
    /// It does not begin with the magic.
    #[error("it does not begin with its magic")]
    Magic,
    /// Its layout is another one.
    #[error("its layout has version {0}")]
    Version(u32),
    /// Its events are of another table.
    #[error("its event layout is {0:#018x}, this end's is {LAYOUT_HASH:#018x}")]
    EventLayout(u64),
    /// It has no rings, or more than a process can have.
    #[error("it claims {0} rings")]
    Rings(u32),
    /// Its rings have a length that no ring can have.
    #[error("it claims {0} slots for each ring")]
    Slots(u32),
    /// Its rings have numbers that no rings have.
    #[error("it claims to begin with ring {0}")]
    FirstRing(u32),
    /// Its parts do not add up to its length.
    #[error("it claims {claimed} bytes and has {actual}")]
    Length {
        /// What its header adds up to.
        claimed: u64,
        actual: u64,
    },
}

/// Why a ring cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadRingError {
    /// More is claimed to be in it than it has slots, or less than nothing.
    #[error("it claims to hold positions {tail} to {head} in {slots} slots")]
    Positions {
        /// The first position that is not free.
        tail: u64,
        /// The position after the last event.
        head: u64,
        slots: u64,
    },
    /// More was read of it than was ever in it.
    #[error("{drained} of its {head} events are said to be read")]
    Drained {
        /// How far it was read.
        drained: u64,
        /// The position after the last event.
        head: u64,
    },
}

/// The positions of a ring, as they stand in its segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingMarks {
    /// The position after the last published event.
    pub head: u64,
    /// The first position whose slot is not free.
    pub tail: u64,
    /// Events that its producers had no room for.
    pub lost_events: u64,
}

/// What the header of a ring segment says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingHeader {
    slots: u64,
    bytes: u64,
    /// Whether the process had begun to exit in order; only segment 0 has it.
    pub leaving: bool,
    /// The number of its first ring.
    pub first_ring: u32,
    /// Its rings, in order.
    pub marks: Vec<RingMarks>,
}

/// What is left in a ring for whoever comes after its process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    /// Events that left the ring and reached nobody.
    pub gone_events: u64,
    /// Where the others are in the segment's file, oldest first: two pieces when they wrap.
    pub pieces: [Range<u64>; 2],
}

impl Unread {
    /// How many events the pieces hold.
    #[must_use]
    pub fn events(&self) -> u64 {
        let bytes = |piece: &Range<u64>| piece.end - piece.start;
        self.pieces.iter().map(bytes).sum::<u64>() / RECORD_BYTES
    }
}

/// The number at a place of a header, which has been found long enough.
fn number_at<T: Field + Default>(header: &[u8], at: usize) -> T {
    let bytes = header.get(at..at + T::WIDTH);
    bytes
        .and_then(|bytes| T::get(bytes).ok())
        .unwrap_or_default()
}

impl RingHeader {
    /// How long the header is that begins with these bytes: as long as the file at most.
    pub fn bytes_of(start: &[u8], file_bytes: u64) -> Result<usize, ReadSegmentError> {
        let start = start
            .get(..RING_HEADER_START_BYTES)
            .ok_or(ReadSegmentError::Short(start.len()))?;
        if !start.starts_with(&segment::MAGIC) {
            return Err(ReadSegmentError::Magic);
        }
        let version: u32 = number_at(start, segment::VERSION_AT);
        if version != segment::VERSION {
            return Err(ReadSegmentError::Version(version));
        }
        let layout_hash: u64 = number_at(start, segment::LAYOUT_HASH_AT);
        if layout_hash != LAYOUT_HASH {
            return Err(ReadSegmentError::EventLayout(layout_hash));
        }
        let ring_count: u32 = number_at(start, offset_of!(Header, ring_count));
        let rings = usize::try_from(ring_count).unwrap_or(usize::MAX);
        if !(1..=MAX_RINGS).contains(&rings) {
            return Err(ReadSegmentError::Rings(ring_count));
        }
        let slots: u32 = number_at(start, offset_of!(Header, slots_per_ring));
        if !slots.is_power_of_two() {
            return Err(ReadSegmentError::Slots(slots));
        }
        let first_ring: u32 = number_at(start, offset_of!(Header, first_ring));
        if !usize::try_from(first_ring).is_ok_and(|first| first <= MAX_RINGS - rings) {
            return Err(ReadSegmentError::FirstRing(first_ring));
        }
        let header_bytes = segment::header_bytes(rings);
        let slot_bytes = u64::from(ring_count) * u64::from(slots) * RECORD_BYTES;
        let claimed = header_bytes as u64 + slot_bytes;
        if claimed != file_bytes {
            return Err(ReadSegmentError::Length {
                claimed,
                actual: file_bytes,
            });
        }
        Ok(header_bytes)
    }

    /// Reads the header of a segment whose file has `file_bytes`.
    pub fn read(header: &[u8], file_bytes: u64) -> Result<Self, ReadSegmentError> {
        let bytes = Self::bytes_of(header, file_bytes)?;
        let header = header
            .get(..bytes)
            .ok_or(ReadSegmentError::Short(header.len()))?;
        let rings: u32 = number_at(header, offset_of!(Header, ring_count));
        let slots: u32 = number_at(header, offset_of!(Header, slots_per_ring));
        let controls = header.get(segment::CONTROLS_AT..).unwrap_or_default();
        let controls = controls.chunks_exact(size_of::<RingControl>());
        let marks = controls.map(|control| RingMarks {
            head: number_at(control, offset_of!(RingControl, head)),
            tail: number_at(control, offset_of!(RingControl, tail)),
            lost_events: number_at(control, offset_of!(RingControl, lost)),
        });
        Ok(Self {
            slots: slots.into(),
            bytes: bytes as u64,
            leaving: number_at::<u32>(header, offset_of!(Header, leaving)) == 1,
            first_ring: number_at(header, offset_of!(Header, first_ring)),
            marks: marks.take(usize::try_from(rings).unwrap_or(0)).collect(),
        })
    }

    /// What of ring `ring` of this segment is not read, when all before `drained` is.
    ///
    /// # Panics
    /// When a segment has no such ring.
    pub fn unread(&self, ring: usize, drained: u64) -> Result<Unread, ReadRingError> {
        let RingMarks { head, tail, .. } = self.marks[ring];
        let slots = self.slots;
        if head.checked_sub(tail).is_none_or(|held| held > slots) {
            return Err(ReadRingError::Positions { tail, head, slots });
        }
        if drained > head {
            return Err(ReadRingError::Drained { drained, head });
        }
        let first = drained.max(tail);
        let count = head - first;
        let base = self.bytes + ring as u64 * slots * RECORD_BYTES;
        let slot = first % slots;
        let until_wrap = count.min(slots - slot);
        let piece = |slot: u64, count: u64| {
            let start = base + slot * RECORD_BYTES;
            start..start + count * RECORD_BYTES
        };
        Ok(Unread {
            gone_events: tail.saturating_sub(drained),
            pieces: [piece(slot, until_wrap), piece(0, count - until_wrap)],
        })
    }
}

/// How many bytes of definitions follow the header of a dictionary segment.
pub fn published_bytes(header: &[u8], file_bytes: u64) -> Result<u64, ReadSegmentError> {
    let header = header
        .get(..DICTIONARY_HEADER_BYTES)
        .ok_or(ReadSegmentError::Short(header.len()))?;
    if !header.starts_with(&dictionary::MAGIC) {
        return Err(ReadSegmentError::Magic);
    }
    let version: u32 = number_at(header, offset_of!(DictionaryHeader, version));
    if version != dictionary::VERSION {
        return Err(ReadSegmentError::Version(version));
    }
    let published: u64 = number_at(header, offset_of!(DictionaryHeader, published));
    let room = file_bytes.saturating_sub(DICTIONARY_HEADER_BYTES as u64);
    if published > room {
        return Err(ReadSegmentError::Length {
            claimed: published.saturating_add(DICTIONARY_HEADER_BYTES as u64),
            actual: file_bytes,
        });
    }
    Ok(published)
}

/// The events of several rings in the order of their times.
///
/// Each ring keeps its own order whatever its times say: an event never
/// overtakes the one before it. Records that are no events are passed over and
/// counted.
#[derive(Debug)]
pub struct Merged<R> {
    /// Each ring, and how many of its records were passed.
    rings: Vec<(R, usize)>,
    /// The next event of each ring that has one, the earliest on top.
    next: BinaryHeap<Reverse<(u64, usize)>>,
    malformed: u64,
}

impl<R: AsRef<[u8]>> Merged<R> {
    /// Merges rings, each given as whole records; bytes after the last whole one are left out.
    pub fn new(rings: impl IntoIterator<Item = R>) -> Self {
        let rings: Vec<_> = rings.into_iter().map(|ring| (ring, 0)).collect();
        let mut merged = Self {
            next: BinaryHeap::with_capacity(rings.len()),
            rings,
            malformed: 0,
        };
        for ring in 0..merged.rings.len() {
            merged.queue_next(ring);
        }
        merged
    }

    /// Records that were no events, among those passed so far.
    #[must_use]
    pub fn malformed(&self) -> u64 {
        self.malformed
    }

    /// The first record of a ring that was not passed.
    fn first(&self, ring: usize) -> Option<&[u8; EVENT_BYTES]> {
        let (ring, passed) = self.rings.get(ring)?;
        ring.as_ref().as_chunks().0.get(*passed)
    }

    /// Finds a ring's next event and puts it among those of the others.
    fn queue_next(&mut self, ring: usize) {
        while let Some(record) = self.first(ring) {
            match Event::decode(record) {
                Ok(event) => return self.next.push(Reverse((event.time, ring))),
                Err(_no_event) => {
                    self.malformed += 1;
                    self.rings[ring].1 += 1;
                }
            }
        }
    }
}

impl<R: AsRef<[u8]>> Iterator for Merged<R> {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        let Reverse((_time, ring)) = self.next.pop()?;
        let event = Event::decode(self.first(ring)?).ok()?;
        self.rings[ring].1 += 1;
        self.queue_next(ring);
        Some(event)
    }
}

#[cfg(test)]
mod tests;
