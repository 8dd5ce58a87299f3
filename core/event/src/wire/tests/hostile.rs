//! Bytes that no honest peer sends: refused by name, without a panic.

use super::super::MAX_MESH_DEVICES;
use super::*;
use crate::Definition;

/// A define frame's payload with one definition of this kind and body.
fn definition(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut payload = vec![kind];
    payload.extend(u16::try_from(body.len()).unwrap().to_le_bytes());
    payload.extend(body);
    payload
}

/// The first definition of a payload; after an error nothing may follow.
fn first_definition(payload: &[u8]) -> Result<Definition, DecodeFrameError> {
    let Ok(Frame::Define(mut definitions)) = Frame::decode(2, payload) else {
        panic!("no define frame");
    };
    let first = definitions.next().expect("something is there");
    assert!(first.is_ok() || definitions.next().is_none(), "it went on");
    first
}

fn refusal(payload: &[u8]) -> DecodeFrameError {
    first_definition(payload).expect_err("no peer may define this")
}

fn invalid(frame: &'static str, field: &'static str) -> DecodeFrameError {
    DecodeFrameError::Invalid { frame, field }
}

fn truncated(frame: &'static str, at: usize, len: usize) -> DecodeFrameError {
    DecodeFrameError::Truncated { frame, at, len }
}

fn words(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|n| n.to_le_bytes()).collect()
}

#[test]
fn a_frame_above_the_limit_is_refused_and_stays_refused() {
    for len in [MAX_FRAME_BYTES + 1, u32::MAX] {
        let mut reader = FrameReader::default();
        let mut stream = len.to_le_bytes().to_vec();
        stream.extend([FrameKind::Events as u8, 0, 0, 0]);
        reader.push(&stream);
        assert_eq!(reader.next_frame(), Err(DecodeFrameError::TooLong(len)));
        let pending = reader.pending_bytes();
        reader.push(&[0; 4096]);
        assert_eq!(reader.pending_bytes(), pending, "it keeps a dead stream");
        assert_eq!(reader.next_frame(), Err(DecodeFrameError::TooLong(len)));
    }
}

#[test]
fn a_stream_is_dead_after_a_bad_payload() {
    let mut stream = raw_frame(FrameKind::Clock as u8, &[0; 23]);
    Frame::put_ack(&mut stream, 1);
    let mut reader = FrameReader::default();
    reader.push(&stream);
    let error = truncated("clock", 16, 23);
    assert_eq!(
        error.to_string(),
        "a clock frame of 23 bytes ends inside the field at byte 16"
    );
    assert_eq!(reader.next_frame(), Err(error.clone()));
    assert_eq!(reader.next_frame(), Err(error));
}

#[test]
fn a_fixed_payload_cut_anywhere_is_refused() {
    let sizes = [
        (FrameKind::Clock, 24),
        (FrameKind::ResyncEnd, 24),
        (FrameKind::Goodbye, 8),
        (FrameKind::Handover, 16),
        (FrameKind::Welcome, 24),
        (FrameKind::Ack, 8),
    ];
    for (kind, size) in sizes {
        let payload = vec![0; size];
        for len in 0..size {
            let error = Frame::decode(kind as u8, &payload[..len]).unwrap_err();
            assert!(
                matches!(error, DecodeFrameError::Truncated { at, len: all, .. } if at <= len && all == len),
                "{kind:?} of {len}: {error}"
            );
        }
        assert!(Frame::decode(kind as u8, &payload).is_ok(), "{kind:?}");
    }
}

#[test]
fn entries_must_be_whole() {
    for len in 1..200 {
        let payload = vec![0; len];
        let whole = |frame: FrameKind| Frame::decode(frame as u8, &payload).is_ok();
        assert_eq!(
            whole(FrameKind::Drained),
            len % 16 == 0,
            "{len} bytes of positions"
        );
        assert_eq!(
            whole(FrameKind::Events),
            len % 64 == 8,
            "{len} bytes of events"
        );
    }
}

#[test]
fn codes_out_of_range_are_refused_by_their_field() {
    let mut hello = [0; 28];
    hello[20] = 5;
    assert_eq!(Frame::decode(1, &hello), Err(invalid("hello", "source")));
    let mut welcome = [0; 24];
    welcome[2] = 2;
    assert_eq!(
        Frame::decode(0x81, &welcome),
        Err(invalid("welcome", "resync flag"))
    );
    let uneven = invalid("events", "length: not a whole number of records");
    assert_eq!(Frame::decode(4, &[0; 73]), Err(uneven));
}

#[test]
fn texts_longer_than_their_frame_are_refused() {
    let mut hello = vec![0; 24];
    hello.extend([0xFF, 0xFF, b'x']);
    assert_eq!(Frame::decode(1, &hello), Err(truncated("hello", 26, 27)));
    let refused = [3, 0, 2, 0, b'x'];
    assert_eq!(
        Frame::decode(0x82, &refused),
        Err(truncated("refused", 4, 5))
    );
}

#[test]
fn texts_that_are_not_utf_8_are_refused() {
    let refused = [3, 0, 1, 0, 0xFF];
    assert_eq!(
        Frame::decode(0x82, &refused),
        Err(invalid("refused", "reason"))
    );
    let mut hello = vec![0; 24];
    hello.extend([0, 0, 2, 0, 0xC3, b'x']);
    assert_eq!(
        Frame::decode(1, &hello),
        Err(invalid("hello", "visible devices"))
    );
    // A surrogate half and an overlong slash.
    for text in [&[0xED, 0xA0, 0x80][..], &[0xC0, 0xAF]] {
        let payload = definition(1, &[&[1, 0, 0, 0], text].concat());
        assert_eq!(refusal(&payload), invalid("define", "text"));
    }
}

#[test]
fn definitions_longer_than_their_frame_are_refused() {
    assert_eq!(refusal(&[1]), truncated("define", 1, 1));
    assert_eq!(refusal(&[1, 0xFF]), truncated("define", 1, 2));
    assert_eq!(refusal(&[1, 0xFF, 0xFF, 1]), truncated("define", 3, 4));
    // An unknown kind is skipped by its length only if that is there.
    assert_eq!(refusal(&[99, 1, 0]), truncated("define", 3, 3));
}

#[test]
fn definitions_with_too_short_a_body_are_refused() {
    for (kind, shortest) in [(1, 4), (2, 4), (3, 36), (4, 18)] {
        let mut body = vec![0; shortest];
        body[0] = 1;
        for len in 0..shortest {
            let error = refusal(&definition(kind, &body[..len]));
            assert!(
                matches!(error, DecodeFrameError::Truncated { .. }),
                "kind {kind} with {len} bytes: {error}"
            );
        }
        let whole = first_definition(&definition(kind, &body));
        assert!(whole.is_ok(), "kind {kind}: {whole:?}");
    }
}

#[test]
fn no_text_and_no_core_set_is_called_none() {
    let zero = [0; 4];
    assert_eq!(refusal(&definition(1, &zero)), invalid("define", "text id"));
    assert_eq!(
        refusal(&definition(2, &zero)),
        invalid("define", "core set id")
    );
}

#[test]
fn core_ranges_that_are_none_are_refused() {
    let ranges: [[u16; 4]; 5] = [
        [3, 0, 2, 0],
        [0, 3, 0, 2],
        [0, 0, 32, 0],
        [0, 0, 0, 32],
        [u16::MAX; 4],
    ];
    for range in ranges {
        let mut body = words(&[1]);
        body.extend(range.iter().flat_map(|corner| corner.to_le_bytes()));
        assert_eq!(
            refusal(&definition(2, &body)),
            invalid("define", "core range"),
            "{range:?}"
        );
    }
}

#[test]
fn flags_that_are_neither_are_refused() {
    for (at, field) in [(16, "unique id flag"), (17, "remote flag")] {
        let mut body = [0; 36];
        body[at] = 2;
        assert_eq!(refusal(&definition(3, &body)), invalid("define", field));
    }
}

#[test]
fn a_mesh_has_each_device_once_and_not_too_many() {
    let mesh = |devices: &[u32]| {
        let mut body = vec![0; 18];
        body.extend(words(devices));
        definition(4, &body)
    };
    let list = invalid("define", "device list");
    assert_eq!(refusal(&mesh(&[4, 0, 2, 6, 4])), list);
    let most = u32::try_from(MAX_MESH_DEVICES).unwrap();
    let many: Vec<u32> = (0..=most).collect();
    assert_eq!(refusal(&mesh(&many)), list);
    let most = first_definition(&mesh(&many[1..]));
    assert!(most.is_ok(), "as many as there may be: {most:?}");

    let mut body = [0; 18];
    body[12] = 2;
    assert_eq!(
        refusal(&definition(4, &body)),
        invalid("define", "mesh kind")
    );
}
