//! Segments that are what they should be, and every kind that is not.

use super::*;
use rustix::fs::{MemfdFlags, fcntl_add_seals, ftruncate, memfd_create};
use ttmem_event::event::LAYOUT_HASH;
use ttmem_event::{Definition, EventKind, TextId};
use ttmem_ledger::Change;

const SLOTS: usize = 4;
const RING_BYTES: u64 = 4096 + 8 * 4 * 64;

fn memory(contents: &[u8], seals: SealFlags) -> OwnedFd {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let memory = memfd_create("ttmem-test", flags).expect("a memory file");
    let file = File::from(memory.try_clone().expect("a second descriptor"));
    file.write_all_at(contents, 0).expect("room");
    fcntl_add_seals(&memory, seals).expect("seals");
    memory
}

fn handed(kind: SegmentKind, number: usize, contents: &[u8]) -> HandedSegment {
    HandedSegment {
        kind,
        number,
        bytes: contents.len() as u64,
        descriptor: memory(contents, SEALS),
    }
}

/// Segment `number` with one ring: its tail, its head, and records by their positions.
fn rings(number: u32, tail: u64, head: u64, records: &[(u64, Event)]) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(RING_BYTES).expect("small")];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(0, b"TTMEMRNG");
    put(8, &LAYOUT_HASH.to_le_bytes());
    for (at, word) in [(16, 2), (20, 8), (24, 4), (28, 8 * number)] {
        put(at, &u32::to_le_bytes(word));
    }
    put(2048, &head.to_le_bytes());
    put(2176, &tail.to_le_bytes());
    for (position, event) in records {
        let slot = usize::try_from(position % SLOTS as u64).expect("small");
        put(4096 + slot * 64, &event.encode());
    }
    bytes
}

fn dictionary(definitions: &[u8], published: u64) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    bytes[..8].copy_from_slice(b"TTMEMDIC");
    bytes[8] = 1;
    bytes[16..24].copy_from_slice(&published.to_le_bytes());
    bytes.extend_from_slice(definitions);
    bytes
}

fn marked(time: u64, number: u64) -> Event {
    let content = EventKind::Marked {
        name: TextId(1),
        number,
    };
    Event {
        time,
        kind: content,
    }
}

fn refusal(handed: HandedSegment) -> KeepSegmentError {
    HandedMemory::default()
        .keep(handed)
        .expect_err("no segment")
}

fn commands(memory: HandedMemory) -> (bool, Vec<ProcessCommand>) {
    let left_in_order = memory.left_in_order();
    let holder = Holder { uid: 0, process: 0 };
    let mut recovery = Recovery::new(memory, Clock::UNIX_NANOS, holder);
    let commands = std::iter::from_fn(|| recovery.next().map(|(command, _units)| command));
    (left_in_order, commands.collect())
}

#[test]
fn a_segment_is_kept_and_the_same_one_again_takes_its_place() {
    let mut memory = HandedMemory::default();
    for kind in [SegmentKind::Rings, SegmentKind::Dictionary] {
        for number in [0, 1, 12] {
            let new = handed(kind, number, &[0; 100]);
            assert!(memory.is_new(&new));
            memory.keep(new).expect("a sealed memory");
            let again = handed(kind, number, &[1; 100]);
            assert!(!memory.is_new(&again));
            memory.keep(again).expect("a sealed memory");
        }
    }
    assert_eq!(memory.segments.len(), 6);
    let replaced = &memory.segments[&(SegmentKind::Rings, 0)];
    assert_eq!(replaced.read(0..2).expect("readable"), [1, 1]);
}

#[test]
fn what_is_no_sealed_memory_of_the_said_length_is_not_kept() {
    let rings = SegmentKind::Rings;
    let bytes = &[0; 64];
    let mut many = handed(rings, MAX_RING_SEGMENTS, bytes);
    assert!(matches!(refusal(many), KeepSegmentError::Number(_)));
    for (kind, most) in [
        (rings, MAX_RING_BYTES),
        (SegmentKind::Dictionary, MAX_DICTIONARY_BYTES),
    ] {
        // Sparse: it costs its owner nothing.
        let huge = memory(&[], SealFlags::empty());
        ftruncate(&huge, most + 1).expect("a length");
        fcntl_add_seals(&huge, SEALS).expect("seals");
        many = handed(kind, 0, bytes);
        (many.descriptor, many.bytes) = (huge, most + 1);
        assert!(matches!(refusal(many), KeepSegmentError::TooLarge(_)));
    }
    for seal in [SealFlags::SHRINK, SealFlags::GROW, SealFlags::SEAL] {
        let mut open = handed(rings, 0, bytes);
        open.descriptor = memory(bytes, SEALS.difference(seal));
        assert!(matches!(refusal(open), KeepSegmentError::Unsealed));
    }
    for wrong in [63, 65, 0] {
        let mut longer = handed(rings, 0, bytes);
        longer.bytes = wrong;
        let error = refusal(longer);
        assert!(matches!(error, KeepSegmentError::Length { claimed, .. } if claimed == wrong));
    }
    let (end, _other) = std::os::unix::net::UnixStream::pair().expect("a pair");
    let disk = tempfile::tempfile().expect("a file");
    for descriptor in [end.into(), disk.into()] {
        let mut other = handed(rings, 0, bytes);
        other.descriptor = descriptor;
        let error = refusal(other);
        let no_memory = matches!(
            error,
            KeepSegmentError::NoMemory(_) | KeepSegmentError::Unsealed
        );
        assert!(no_memory, "{error}");
    }
}

#[test]
fn what_was_not_received_is_read_definitions_first_then_events_by_time() {
    let mut definitions = Vec::new();
    let text = Definition::Text {
        id: TextId(1),
        text: "lap".to_owned(),
    };
    text.encode(&mut definitions);
    let published = definitions.len() as u64;
    definitions.extend([0xFF; 30]);
    let mut memory = HandedMemory::default();
    let segments = [
        handed(
            SegmentKind::Dictionary,
            0,
            &dictionary(&definitions, published),
        ),
        // Positions 2 to 5 are in it: 2 was received, 4 and 5 are wrapped.
        handed(
            SegmentKind::Rings,
            0,
            &rings(
                0,
                2,
                6,
                &[
                    (2, marked(5, 2)),
                    (3, marked(20, 3)),
                    (4, marked(30, 4)),
                    (5, marked(50, 5)),
                ],
            ),
        ),
        // Two of its events had left it when their process died.
        handed(
            SegmentKind::Rings,
            1,
            &rings(1, 2, 3, &[(2, marked(40, 12))]),
        ),
    ];
    for segment in segments {
        memory.keep(segment).expect("a sealed memory");
    }
    let position = |ring, position| RingPosition { ring, position };
    // Positions never go back, and rings that cannot be are not remembered.
    memory.drain_to([position(0, 3), position(0, 1), position(65_528, 9)]);
    assert_eq!(memory.drained.len(), 1);
    let (left_in_order, commands) = commands(memory);
    assert!(!left_in_order);
    let [
        ProcessCommand::Change(Change::Define { definitions, .. }),
        ProcessCommand::Lost {
            gone_events,
            lost_events,
            ..
        },
        ProcessCommand::Events(Reports { events, .. }),
    ] = commands.as_slice()
    else {
        panic!("{commands:?}");
    };
    assert_eq!(definitions.as_slice(), [text]);
    assert_eq!((*gone_events, *lost_events), (2, 0));
    let expected = [marked(20, 3), marked(30, 4), marked(40, 12), marked(50, 5)];
    assert_eq!(events.as_slice(), expected);
}

#[test]
fn segments_that_lie_are_counted_and_do_not_hide_the_others() {
    let mut memory = HandedMemory::default();
    let text = Definition::Text {
        id: TextId(1),
        text: "lap".to_owned(),
    };
    let mut torn = Vec::new();
    text.encode(&mut torn);
    torn.extend([1, 0xFF, 0xFF]);
    let torn_bytes = torn.len() as u64;
    let mut leaving = rings(0, 0, 1, &[(0, marked(1, 1))]);
    leaving[32] = 1;
    let honest = handed(SegmentKind::Rings, 0, &leaving);
    let segments = [
        honest,
        // The wrong place, a head beyond all slots, a record that is no event, no segment at all.
        handed(SegmentKind::Rings, 1, &rings(0, 0, 0, &[])),
        handed(SegmentKind::Rings, 2, &rings(2, 0, 5, &[])),
        handed(
            SegmentKind::Rings,
            3,
            &rings(3, 0, 2, &[(0, marked(2, 31))]),
        ),
        handed(SegmentKind::Rings, 4, b"TTMEMRNG"),
        handed(SegmentKind::Dictionary, 0, &dictionary(&torn, torn_bytes)),
        handed(SegmentKind::Dictionary, 1, &dictionary(&[], 1)),
        handed(SegmentKind::Dictionary, 2, &[0xA5; 200]),
    ];
    for segment in segments {
        memory.keep(segment).expect("a sealed memory");
    }
    let (left_in_order, commands) = commands(memory);
    assert!(left_in_order, "segment 0 says that it left in order");
    let [
        ProcessCommand::Change(Change::Define { definitions, .. }),
        ProcessCommand::Events(Reports { events, .. }),
        ProcessCommand::Change(Change::Refuse { anomaly, count, .. }),
    ] = commands.as_slice()
    else {
        panic!("{commands:?}");
    };
    assert_eq!(definitions.as_slice(), [text]);
    assert_eq!(events.as_slice(), [marked(1, 1), marked(2, 31)]);
    assert_eq!((*anomaly, *count), (Anomaly::Malformed, 7));
}

/// Each segment is short enough; all of them are not.
#[test]
fn the_segments_of_a_process_have_a_bound_in_sum() {
    let mut memory = HandedMemory::default();
    let part = MAX_RING_BYTES / 4;
    for number in 0..6 {
        let sparse = self::memory(&[], SealFlags::empty());
        ftruncate(&sparse, part).expect("a length");
        fcntl_add_seals(&sparse, SEALS).expect("seals");
        let segment = HandedSegment {
            kind: SegmentKind::Rings,
            number,
            bytes: part,
            descriptor: sparse,
        };
        assert_eq!(memory.keep(segment).is_ok(), number < 4);
    }
    assert_eq!(memory.segments.len(), 4);
}

/// A process cannot have so many rings, however small they are.
#[test]
fn rings_of_segments_that_overlap_are_not_read_without_end() {
    let rings = u32::try_from(MAX_RINGS).expect("a few");
    let bytes = (2048 + MAX_RINGS * 256).next_multiple_of(4096) + MAX_RINGS * 4 * 64;
    let mut memory = HandedMemory::default();
    for number in 0..3 {
        let mut header = self::rings(0, 0, 1, &[]);
        header.truncate(4096);
        header[20..24].copy_from_slice(&rings.to_le_bytes());
        let sparse = self::memory(&header, SealFlags::empty());
        ftruncate(&sparse, bytes as u64).expect("a length");
        fcntl_add_seals(&sparse, SEALS).expect("seals");
        let segment = HandedSegment {
            kind: SegmentKind::Rings,
            number,
            bytes: bytes as u64,
            descriptor: sparse,
        };
        memory.keep(segment).expect("a sealed memory");
    }
    let (_left, commands) = commands(memory);
    // Two segments too many, and a record of zeroes in the first.
    let [ProcessCommand::Change(Change::Refuse { anomaly, count, .. })] = commands.as_slice()
    else {
        panic!("{commands:?}");
    };
    assert_eq!((*anomaly, *count), (Anomaly::Malformed, 3));
}

/// Eight full rings of a million zeros each are more than anybody reads.
#[test]
fn what_is_read_of_one_process_has_a_bound() {
    let slots: u64 = 1 << 20;
    let segment_bytes = 4096 + 8 * slots * 64;
    let sparse = memory(&[], SealFlags::empty());
    ftruncate(&sparse, segment_bytes).expect("a length");
    let mut header = rings(0, 0, slots, &[]);
    header.truncate(4096);
    header[24..28].copy_from_slice(&(1_u32 << 20).to_le_bytes());
    for ring in 0..8 {
        let at = 2048 + 256 * ring;
        header[at..at + 8].copy_from_slice(&slots.to_le_bytes());
    }
    let file = File::from(sparse.try_clone().expect("a second descriptor"));
    file.write_all_at(&header, 0).expect("room");
    fcntl_add_seals(&sparse, SEALS).expect("seals");
    let mut memory = HandedMemory::default();
    let segment = HandedSegment {
        kind: SegmentKind::Rings,
        number: 0,
        bytes: segment_bytes,
        descriptor: sparse,
    };
    memory.keep(segment).expect("a sealed memory");
    let (_left, commands) = commands(memory);
    let [
        ProcessCommand::Lost { gone_events, .. },
        ProcessCommand::Change(Change::Refuse { count, .. }),
    ] = commands.as_slice()
    else {
        panic!("{commands:?}");
    };
    assert_eq!((*gone_events, *count), (7 * slots, slots));
}
