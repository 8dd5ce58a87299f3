//! Honest remains are read whole; every lie is told from them by its name.

use super::*;
use ttmem_event::EventKind;

const SLOTS: u32 = 16;
const HEADER_BYTES: usize = 4096;
const FILE_BYTES: u64 = 4096 + 8 * 16 * 64;

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// The header of a segment of eight rings from 24 on, all of them empty.
fn header() -> Vec<u8> {
    let mut bytes = vec![0; HEADER_BYTES];
    put(&mut bytes, 0, b"TTMEMRNG");
    put(&mut bytes, 8, &LAYOUT_HASH.to_le_bytes());
    for (at, word) in [(16, 2), (20, 8), (24, SLOTS), (28, 24)] {
        put(&mut bytes, at, &word.to_le_bytes());
    }
    bytes
}

fn read(bytes: &[u8]) -> Result<RingHeader, ReadSegmentError> {
    RingHeader::read(bytes, FILE_BYTES)
}

/// A header in which one ring has these positions.
fn with_ring(ring: usize, tail: u64, head: u64) -> RingHeader {
    let mut bytes = header();
    put(&mut bytes, 2048 + 256 * ring, &head.to_le_bytes());
    put(&mut bytes, 2056 + 256 * ring, &5_u64.to_le_bytes());
    put(&mut bytes, 2176 + 256 * ring, &tail.to_le_bytes());
    read(&bytes).expect("an honest header")
}

#[test]
fn an_honest_header_is_read() {
    let mut bytes = header();
    let empty = read(&bytes).expect("an honest header");
    assert!(!empty.leaving);
    assert_eq!((empty.first_ring, empty.marks.len()), (24, 8));
    assert_eq!(empty.marks, [RingMarks::default(); 8]);
    put(&mut bytes, 32, &1_u32.to_le_bytes());
    assert!(read(&bytes).expect("an honest header").leaving);
    let marks = RingMarks {
        head: 9,
        tail: 4,
        lost_events: 5,
    };
    for ring in 0..8 {
        assert_eq!(with_ring(ring, 4, 9).marks[ring], marks);
    }
}

/// The header takes as many pages as the words of its rings.
#[test]
fn a_segment_may_have_any_number_of_rings() {
    for rings in [1_u32, 9, 24, 25, 32_768] {
        let count = usize::try_from(rings).expect("a few");
        let header_bytes = (2048 + 256 * count).next_multiple_of(4096);
        let mut bytes = header();
        bytes.resize(header_bytes, 0);
        put(&mut bytes, 20, &rings.to_le_bytes());
        let last = 2048 + 256 * (count - 1);
        put(&mut bytes, last, &3_u64.to_le_bytes());
        let file_bytes = header_bytes as u64 + u64::from(rings) * 16 * 64;
        let start = &bytes[..RING_HEADER_START_BYTES];
        assert_eq!(RingHeader::bytes_of(start, file_bytes), Ok(header_bytes));
        let header = RingHeader::read(&bytes, file_bytes).expect("an honest header");
        assert_eq!(header.marks.len(), count);
        let unread = header.unread(count - 1, 0).expect("an honest ring");
        let start = file_bytes - 16 * 64;
        assert_eq!(unread.pieces[0], start..start + 3 * 64);
    }
}

#[test]
fn every_false_word_of_a_header_is_named() {
    let lie = |at: usize, value: &[u8]| {
        let mut bytes = header();
        put(&mut bytes, at, value);
        read(&bytes).expect_err("a lie")
    };
    for at in 0..8 {
        assert_eq!(lie(at, b"?"), ReadSegmentError::Magic);
    }
    let hash = LAYOUT_HASH ^ 1;
    assert_eq!(
        lie(8, &hash.to_le_bytes()),
        ReadSegmentError::EventLayout(hash)
    );
    for version in [0, 1, 3, u32::MAX] {
        let found = lie(16, &version.to_le_bytes());
        assert_eq!(found, ReadSegmentError::Version(version));
    }
    for rings in [0, 65_529, u32::MAX] {
        let found = lie(20, &rings.to_le_bytes());
        assert_eq!(found, ReadSegmentError::Rings(rings));
    }
    for rings in [7_u32, 9, 65_000] {
        let header = (2048 + 256 * u64::from(rings)).next_multiple_of(4096);
        let claimed = header + u64::from(rings) * 16 * 64;
        let actual = FILE_BYTES;
        let found = lie(20, &rings.to_le_bytes());
        assert_eq!(found, ReadSegmentError::Length { claimed, actual });
    }
    for slots in [0, 15, u32::MAX] {
        let found = lie(24, &slots.to_le_bytes());
        assert_eq!(found, ReadSegmentError::Slots(slots));
    }
    for slots in [8_u32, 32, 1 << 31] {
        let claimed = 4096 + 512 * u64::from(slots);
        let actual = FILE_BYTES;
        let found = lie(24, &slots.to_le_bytes());
        assert_eq!(found, ReadSegmentError::Length { claimed, actual });
    }
    for first in [65_521, u32::MAX] {
        let found = lie(28, &first.to_le_bytes());
        assert_eq!(found, ReadSegmentError::FirstRing(first));
    }
}

#[test]
fn a_header_cut_anywhere_is_refused() {
    let bytes = header();
    for len in [0, 1, 7, 8, 16, 2047, 2048, HEADER_BYTES - 1] {
        assert_eq!(read(&bytes[..len]), Err(ReadSegmentError::Short(len)));
    }
}

#[test]
fn unread_events_are_those_from_where_reading_stopped() {
    let ring = 2;
    let base = 4096 + 2 * 16 * 64;
    let header = with_ring(ring, 4, 9);
    let expected = |gone_events, slot: u64, count: u64| {
        let start = base + slot * 64;
        Unread {
            gone_events,
            pieces: [start..start + count * 64, base..base],
        }
    };
    // Everything up to the tail was acknowledged.
    assert_eq!(header.unread(ring, 4), Ok(expected(0, 4, 5)));
    // Nothing was: four events died in the heap of the process.
    assert_eq!(header.unread(ring, 0), Ok(expected(4, 4, 5)));
    // More was than left the ring.
    assert_eq!(header.unread(ring, 7), Ok(expected(0, 7, 2)));
    assert_eq!(header.unread(ring, 9), Ok(expected(0, 9, 0)));
    assert_eq!(header.unread(ring, 0).map(|unread| unread.events()), Ok(5));
    // The other rings have nothing.
    assert_eq!(header.unread(3, 0).map(|unread| unread.events()), Ok(0));
}

#[test]
fn events_that_wrap_are_two_pieces() {
    let base = 4096 + 7 * 16 * 64;
    let far = u64::MAX - 15;
    for (tail, head) in [(29, 45), (far, u64::MAX)] {
        let unread = with_ring(7, tail, head).unread(7, tail).expect("honest");
        assert_eq!(unread.events(), head - tail);
        let slot = tail % 16;
        assert_eq!(
            unread.pieces[0],
            base + slot * 64..base + (16.min(slot + head - tail)) * 64
        );
        assert_eq!(unread.pieces[1].start, base);
        assert!(unread.pieces.iter().all(|piece| piece.end <= FILE_BYTES));
    }
}

#[test]
fn positions_that_no_ring_can_have_are_refused() {
    let slots = 16;
    for (tail, head) in [(0, 17), (5, 4), (0, u64::MAX), (u64::MAX, 0), (1 << 63, 1)] {
        assert_eq!(
            with_ring(0, tail, head).unread(0, 0),
            Err(ReadRingError::Positions { tail, head, slots })
        );
    }
    assert!(with_ring(0, 1, 17).unread(0, 0).is_ok());
    let drained = ReadRingError::Drained {
        drained: 18,
        head: 17,
    };
    assert_eq!(with_ring(0, 1, 17).unread(0, 18), Err(drained));
}

/// Whatever the words are, a piece lies inside its ring.
#[test]
fn no_positions_lead_outside_a_ring() {
    let words = [
        0,
        1,
        15,
        16,
        17,
        31,
        1 << 32,
        u64::MAX - 16,
        u64::MAX - 1,
        u64::MAX,
    ];
    let mut read = 0;
    for ring in 0..8_u64 {
        let inside = 4096 + ring * 1024..=4096 + (ring + 1) * 1024;
        let ring = usize::try_from(ring).expect("small");
        for tail in words {
            for head in words {
                for drained in words {
                    let Ok(unread) = with_ring(ring, tail, head).unread(ring, drained) else {
                        continue;
                    };
                    read += 1;
                    for piece in &unread.pieces {
                        assert!(piece.start <= piece.end);
                        assert!(inside.contains(&piece.start) && inside.contains(&piece.end));
                    }
                    assert!(unread.events() <= 16);
                }
            }
        }
    }
    assert!(read > 100, "only {read} were honest");
}

fn dictionary(published: u64) -> Vec<u8> {
    let mut bytes = vec![0; DICTIONARY_HEADER_BYTES];
    put(&mut bytes, 0, b"TTMEMDIC");
    put(&mut bytes, 8, &1_u32.to_le_bytes());
    put(&mut bytes, 16, &published.to_le_bytes());
    bytes
}

#[test]
fn a_dictionary_tells_what_it_published_and_no_more_than_it_has() {
    for published in [0, 1, 936] {
        let found = published_bytes(&dictionary(published), 1000);
        assert_eq!(found, Ok(published));
    }
    for published in [937, u64::MAX] {
        let claimed = published.saturating_add(64);
        let actual = 1000;
        assert_eq!(
            published_bytes(&dictionary(published), 1000),
            Err(ReadSegmentError::Length { claimed, actual })
        );
    }
    assert!(published_bytes(&dictionary(1), 10).is_err());
    let mut bytes = dictionary(1);
    assert_eq!(
        published_bytes(&bytes[..63], 1000),
        Err(ReadSegmentError::Short(63))
    );
    put(&mut bytes, 8, &7_u32.to_le_bytes());
    assert_eq!(
        published_bytes(&bytes, 1000),
        Err(ReadSegmentError::Version(7))
    );
    put(&mut bytes, 0, b"TTMEMRNG");
    assert_eq!(published_bytes(&bytes, 1000), Err(ReadSegmentError::Magic));
}

fn records(events: &[(u64, u64)]) -> Vec<u8> {
    let encoded = events.iter().map(|(time, count)| {
        let kind = EventKind::EventsLost { count: *count };
        Event { time: *time, kind }.encode()
    });
    encoded.collect::<Vec<_>>().concat()
}

fn merge(rings: &[Vec<u8>]) -> (Vec<(u64, u64)>, u64) {
    let mut merged = Merged::new(rings.iter());
    let events = merged.by_ref().map(|event| match event.kind {
        EventKind::EventsLost { count } => (event.time, count),
        other => panic!("nobody wrote {other:?}"),
    });
    let events = events.collect();
    (events, merged.malformed())
}

#[test]
fn rings_are_merged_by_time_and_keep_their_own_order() {
    let rings = [
        records(&[(1, 10), (4, 11), (4, 12)]),
        records(&[(2, 20), (3, 21), (9, 22)]),
        Vec::new(),
        // Its clock ran back: it waits for its own, and nobody waits for it.
        records(&[(8, 30), (0, 31)]),
    ];
    let expected = [
        (1, 10),
        (2, 20),
        (3, 21),
        (4, 11),
        (4, 12),
        (8, 30),
        (0, 31),
        (9, 22),
    ];
    assert_eq!(merge(&rings), (expected.to_vec(), 0));
}

#[test]
fn records_that_are_no_events_are_passed_over_and_counted() {
    let mut torn = records(&[(1, 10), (2, 11), (3, 12), (4, 13)]);
    torn[0] = 0;
    torn[64] = 200;
    torn[3 * 64] = 0xFF;
    let garbage = vec![0xA5; 5 * 64 + 63];
    let (events, malformed) = merge(&[torn, garbage, records(&[(2, 20)])]);
    assert_eq!(events, [(2, 20), (3, 12)]);
    assert_eq!(malformed, 8);
}
