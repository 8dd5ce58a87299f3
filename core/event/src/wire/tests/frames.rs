//! Preamble, clock, and what frames promise beyond their bytes.

use super::super::{Clock, Hello, OLDEST_VERSION, Preamble, RefusalCode, RingPosition, VERSION};
use super::*;
use crate::event::LAYOUT_HASH;
use crate::{Definition, Event, EventKind, Source, TextId};

fn saying(version: u16, oldest: u16, layout_hash: u64) -> Preamble {
    Preamble {
        version,
        oldest,
        layout_hash,
    }
}

#[test]
fn ends_agree_on_the_lower_of_their_versions() {
    assert_eq!(Preamble::OURS.agree(), Ok(VERSION));
    let newer = saying(VERSION + 1, VERSION, 0);
    assert_eq!(newer.agree(), Ok(VERSION), "its hash is of another table");
    let newest = saying(u16::MAX, 0, 0);
    assert_eq!(newest.agree(), Ok(VERSION));
}

#[test]
fn a_version_nobody_shares_is_refused_with_both_ranges() {
    let cases = [
        saying(9, 7, LAYOUT_HASH),
        saying(OLDEST_VERSION - 1, 0, LAYOUT_HASH),
        // Turned round: it speaks nothing.
        saying(VERSION, VERSION + 1, LAYOUT_HASH),
    ];
    for preamble in cases {
        let error = preamble.agree().unwrap_err();
        let (version, oldest) = (preamble.version, preamble.oldest);
        assert_eq!(error, DecodeFrameError::Version { version, oldest });
        let theirs = format!("versions {oldest} to {version}");
        let ours = format!("this end {OLDEST_VERSION} to {VERSION}");
        let text = error.to_string();
        assert!(text.contains(&theirs) && text.contains(&ours), "{text}");
    }
}

#[test]
fn another_event_table_is_refused_with_both_fingerprints() {
    let theirs = LAYOUT_HASH ^ 1;
    let error = saying(VERSION, OLDEST_VERSION, theirs).agree().unwrap_err();
    let ours = LAYOUT_HASH;
    assert_eq!(error, DecodeFrameError::Layout { theirs, ours });
    let text = error.to_string();
    assert!(text.contains(&format!("{theirs:#018x}")), "{text}");
    assert!(text.contains(&format!("{ours:#018x}")), "{text}");
}

#[test]
fn every_byte_of_the_magic_counts() {
    for at in 0..8 {
        let mut bytes = Preamble::OURS.encode();
        bytes[at] ^= 0x20;
        assert_eq!(Preamble::decode(&bytes), Err(DecodeFrameError::NotTtmem));
    }
}

#[test]
fn unix_nanoseconds_are_themselves() {
    for ticks in [0, 1, 1_763_000_000_123_456_789, u64::MAX] {
        assert_eq!(Clock::UNIX_NANOS.unix_nanos_at(ticks), ticks);
    }
}

#[test]
fn a_clock_counts_both_ways_from_its_reading() {
    // 2.5 ns per tick.
    let clock = Clock {
        ticks: 1_000,
        unix_nanos: 1_000_000,
        nanos_per_tick_q32: 5 << 31,
    };
    assert_eq!(clock.unix_nanos_at(1_000), 1_000_000);
    assert_eq!(clock.unix_nanos_at(1_004), 1_000_010);
    assert_eq!(clock.unix_nanos_at(996), 999_990);
    assert_eq!(clock.unix_nanos_at(1_001), 1_000_002);
}

#[test]
fn a_clock_saturates_at_both_ends() {
    let fast = Clock {
        ticks: 1 << 63,
        unix_nanos: 1 << 63,
        nanos_per_tick_q32: u64::MAX,
    };
    assert_eq!(fast.unix_nanos_at(u64::MAX), u64::MAX);
    assert_eq!(fast.unix_nanos_at(0), 0);
    let stopped = Clock {
        nanos_per_tick_q32: 0,
        ..fast
    };
    for ticks in [0, 1 << 63, u64::MAX] {
        assert_eq!(stopped.unix_nanos_at(ticks), 1 << 63);
    }
}

#[test]
fn unknown_kinds_are_passed_over_by_their_length() {
    let mut stream = raw_frame(0x7F, &[0xFF; 1000]);
    stream.extend(raw_frame(0xFE, &[]));
    stream.extend(raw_frame(0, &[1]));
    Frame::put_ack(&mut stream, 7);
    let mut reader = FrameReader::default();
    reader.push(&stream);
    for kind in [0x7F, 0xFE, 0] {
        assert_eq!(reader.next_frame(), Ok(Some(Frame::Unknown(kind))));
    }
    assert_eq!(
        reader.next_frame(),
        Ok(Some(Frame::Ack { next_sequence: 7 }))
    );
    assert_eq!(reader.next_frame(), Ok(None));
    assert_eq!(reader.pending_bytes(), 0);
}

#[test]
fn unknown_definitions_are_passed_over_by_their_length() {
    let text = Definition::Text {
        id: TextId(1),
        text: String::new(),
    };
    let mut payload = vec![99, 3, 0, 0xFF, 0xFF, 0xFF];
    text.encode(&mut payload);
    payload.extend([0, 0, 0]);
    let Ok(Frame::Define(mut definitions)) = Frame::decode(2, &payload) else {
        panic!("no define frame");
    };
    assert_eq!(definitions.next(), Some(Ok(text)));
    assert_eq!(definitions.next(), None);
}

#[test]
fn bytes_after_the_last_field_are_a_newer_peer() {
    let longer = [7, 0, 0, 0, 0, 0, 0, 0, 0xFF];
    let ack = Frame::decode(FrameKind::Ack as u8, &longer);
    assert_eq!(ack, Ok(Frame::Ack { next_sequence: 7 }));
    assert_eq!(
        Frame::decode(FrameKind::Flush as u8, &longer),
        Ok(Frame::Flush)
    );
}

#[test]
fn a_refusal_for_a_reason_unheard_of_is_still_readable() {
    let mut bytes = Vec::new();
    Frame::put_refused(&mut bytes, RefusalCode::Unknown(900), "the moon is full");
    let mut reader = FrameReader::default();
    reader.push(&bytes);
    let refused = Frame::Refused {
        code: RefusalCode::Unknown(900),
        reason: "the moon is full",
    };
    assert_eq!(reader.next_frame(), Ok(Some(refused)));
    for code in 0..=u16::MAX {
        assert_eq!(RefusalCode::from_code(code).code(), code);
    }
}

#[test]
fn long_texts_are_cut_at_a_character() {
    // 65,535 is no multiple of three, nor is what a definition has left of it.
    let long = "€".repeat(30_000);
    let hello = Hello {
        instance: [7; 16],
        pid: 1,
        source: Source::Model,
        name: &long,
        visible_devices: "",
        labels: vec![],
    };
    let mut bytes = Vec::new();
    Frame::put_hello(&mut bytes, &hello);
    let frames = split_frames(&bytes);
    let Ok(Frame::Hello(read)) = Frame::decode(frames[0].0, frames[0].1) else {
        panic!("no hello");
    };
    assert_eq!(read.name, "€".repeat(21_845));
    assert_eq!(read.visible_devices, "");

    let id = TextId(1);
    let mut payload = Vec::new();
    Definition::Text { id, text: long }.encode(&mut payload);
    let Ok(Frame::Define(mut read)) = Frame::decode(2, &payload) else {
        panic!("no define frame");
    };
    let text = "€".repeat(21_843);
    assert_eq!(read.next(), Some(Ok(Definition::Text { id, text })));
}

/// Checks that each frame is within the limit and returns how many there are.
fn count_legal_frames(stream: &[u8]) -> usize {
    let frames = split_frames(stream);
    let limit = usize::try_from(MAX_FRAME_BYTES).unwrap();
    assert!(frames.iter().all(|(_, payload)| payload.len() <= limit));
    frames.len()
}

#[test]
fn more_events_than_a_frame_holds_become_several_in_sequence() {
    let events: Vec<_> = (0..40_000)
        .map(|number| Event {
            time: number,
            kind: EventKind::EventsLost { count: number },
        })
        .collect();
    let mut stream = Vec::new();
    Frame::put_events(&mut stream, 5, &events[..16_383]);
    assert_eq!(count_legal_frames(&stream), 1);
    stream.clear();
    Frame::put_events(&mut stream, 5, &events);
    assert_eq!(count_legal_frames(&stream), 3);
    let mut read = Vec::new();
    for (kind, payload) in split_frames(&stream) {
        let Ok(Frame::Events {
            first_sequence,
            records,
        }) = Frame::decode(kind, payload)
        else {
            panic!("no events");
        };
        assert_eq!(first_sequence, 5 + u64::try_from(read.len()).unwrap());
        read.extend(Frame::events(records).map(Result::unwrap));
    }
    assert_eq!(read, events);
}

#[test]
fn more_of_anything_than_a_frame_holds_becomes_several() {
    let mut stream = Vec::new();
    let state: Vec<u8> = (0..=255)
        .cycle()
        .take(MAX_FRAME_BYTES as usize + 1)
        .collect();
    Frame::put_state(&mut stream, &state[1..]);
    assert_eq!(count_legal_frames(&stream), 16);
    stream.clear();
    Frame::put_state(&mut stream, &state);
    let frames = split_frames(&stream);
    assert_eq!(frames.len(), 17);
    let parts: Vec<&[u8]> = frames.iter().map(|(_kind, part)| *part).collect();
    assert_eq!(parts.concat(), state);

    stream.clear();
    let position = RingPosition {
        ring: 1,
        position: 2,
    };
    Frame::put_drained(&mut stream, &vec![position; 65_536]);
    assert_eq!(count_legal_frames(&stream), 1);
    Frame::put_drained(&mut stream, &vec![position; 65_537]);
    assert_eq!(count_legal_frames(&stream), 3);

    stream.clear();
    let texts: Vec<_> = (1..=40)
        .map(|id| Definition::Text {
            id: TextId(id),
            text: "x".repeat(65_531),
        })
        .collect();
    Frame::put_define(&mut stream, &texts);
    assert_eq!(count_legal_frames(&stream), 40);
    let mut read = Vec::new();
    for (kind, payload) in split_frames(&stream) {
        let Ok(Frame::Define(definitions)) = Frame::decode(kind, payload) else {
            panic!("no define frame");
        };
        read.extend(definitions.map(Result::unwrap));
    }
    assert_eq!(read, texts);
}

#[test]
fn nothing_to_say_is_no_frame() {
    let mut stream = Vec::new();
    Frame::put_define(&mut stream, &[]);
    Frame::put_events(&mut stream, 9, &[]);
    Frame::put_state(&mut stream, &[]);
    Frame::put_drained(&mut stream, &[]);
    assert_eq!(stream, []);
}
