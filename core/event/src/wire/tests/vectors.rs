//! The golden vectors, encoded and decoded.

use std::collections::BTreeSet;

use super::super::{
    Clock, Goodbye, Hello, PREAMBLE_BYTES, Preamble, RefusalCode, ResyncEnd, RingPosition, Welcome,
};
use super::*;
use crate::catalogue::Arch;
use crate::event::kinds::LAYOUT;
use crate::{
    BufferId, CoreRange, CoreSet, CoresId, Definition, DeviceDefinition, DeviceId, Event,
    EventKind, MeshDefinition, MeshId, MeshKind, Source, TextId,
};

/// One line of the vector file.
struct Vector {
    group: &'static str,
    name: &'static str,
    /// `field=value` words, of events only.
    fields: Vec<&'static str>,
    bytes: Vec<u8>,
}

impl Vector {
    fn parse(line: &'static str) -> Self {
        let words: Vec<&str> = line.split(' ').collect();
        let [group, name, fields @ .., hex] = words.as_slice() else {
            panic!("too few words: {line}");
        };
        let (pairs, []) = hex.as_bytes().as_chunks::<2>() else {
            panic!("odd hex: {line}")
        };
        let byte = |pair: &[u8; 2]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
        Self {
            group,
            name,
            fields: fields.to_vec(),
            bytes: pairs.iter().map(byte).collect(),
        }
    }
}

fn vectors(group: &str) -> Vec<Vector> {
    include_str!("../../../tests/data/wire_vectors.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(Vector::parse)
        .filter(|vector| vector.group == group)
        .collect()
}

fn definition(name: &str) -> Definition {
    match name {
        "text" => Definition::Text {
            id: TextId(0x0102_0304),
            text: "softmax ½".to_owned(),
        },
        "cores" => {
            let column = CoreRange {
                x_first: 9,
                y_first: 5,
                x_last: 9,
                y_last: 31,
            };
            Definition::Cores {
                id: CoresId(0x1112_1314),
                cores: CoreSet::from_ranges([CoreRange::grid(8, 4), column]).unwrap(),
            }
        }
        "device" => Definition::Device(DeviceDefinition {
            id: DeviceId(0x2122_2324),
            logical_id: 5,
            unique_id: Some(0x3132_3334_3536_3738),
            arch: Arch::Blackhole,
            board: TextId(0x0102_0304),
            remote: Some(false),
            grid_columns: 13,
            grid_rows: 10,
            l1_bytes_per_core: 1_572_864,
            l1_reserved_bytes: 106_496,
        }),
        "device-little-known" => Definition::Device(DeviceDefinition {
            id: DeviceId(0x2122_2325),
            logical_id: 6,
            unique_id: None,
            arch: Arch::Unknown(77),
            board: TextId::NONE,
            remote: None,
            grid_columns: 0,
            grid_rows: 0,
            l1_bytes_per_core: 0,
            l1_reserved_bytes: 0,
        }),
        "mesh" => Definition::Mesh(MeshDefinition {
            id: MeshId(0x4142_4344),
            kind: MeshKind::Chip,
            handle: 0x5152_5354_5556_5758,
            rows: 2,
            columns: 4,
            devices: vec![DeviceId(0x2122_2325), DeviceId(0x2122_2324), DeviceId(7)],
        }),
        other => panic!("no definition {other}"),
    }
}

fn events() -> Vec<Event> {
    let freed = EventKind::BufferFreed {
        mesh: MeshId(0x4142_4344),
        buffer: BufferId(0x6162_6364_6566_6768),
    };
    let marked = EventKind::Marked {
        name: TextId(0x0102_0304),
        number: 9,
    };
    vec![
        Event {
            time: 100,
            kind: freed,
        },
        Event {
            time: 101,
            kind: marked,
        },
    ]
}

/// The frame of that name, where it has fields of its own.
fn frame(name: &str) -> Frame<'static> {
    match name {
        "hello" => Frame::Hello(Hello {
            instance: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
            pid: 4242,
            source: Source::Client,
            name: "python3",
            visible_devices: "0,2",
            labels: vec![],
        }),
        "hello-with-labels" => Frame::Hello(Hello {
            instance: [0xA0; 16],
            pid: 7,
            source: Source::Attached,
            name: "",
            visible_devices: "",
            labels: vec![("job", "91"), ("rank", "")],
        }),
        "clock" => Frame::Clock(Clock {
            ticks: 0x0102_0304_0506_0708,
            unix_nanos: 1_763_000_000_123_456_789,
            nanos_per_tick_q32: 0x5555_5555,
        }),
        "resync-begin" => Frame::ResyncBegin,
        "resync-end" => Frame::ResyncEnd(ResyncEnd {
            next_sequence: 0x1112_1314_1516_1719,
            lost_events: 3,
            elided_events: 70_000,
        }),
        "state" => Frame::State(&[1, 2, 3, 0xFE]),
        "flush" => Frame::Flush,
        "goodbye" => Frame::Goodbye(Goodbye {
            next_sequence: 0x1112_1314_1516_171a,
        }),
        "handover" => Frame::Handover {
            ring_bytes: 0x0040_1000,
            dictionary_bytes: 0,
        },
        "handover-dictionary" => Frame::Handover {
            ring_bytes: 0,
            dictionary_bytes: 0x0080_0000,
        },
        "drained" => Frame::Drained(vec![
            RingPosition {
                ring: 0x0102_0304,
                position: 0x1112_1314_1516_1718,
            },
            RingPosition {
                ring: 9,
                position: 8192,
            },
        ]),
        "welcome" => Frame::Welcome(Welcome {
            version: 1,
            needs_resync: true,
            server_instance: 0x8182_8384_8586_8788,
            next_sequence: 0x1112_1314_1516_1718,
        }),
        "refused" => Frame::Refused {
            code: RefusalCode::Version,
            reason: "versions 2 to 3, here 1",
        },
        "ack" => Frame::Ack {
            next_sequence: 0x1112_1314_1516_171b,
        },
        other => panic!("no frame {other}"),
    }
}

#[test]
fn the_preamble_matches_the_golden_bytes() {
    let vectors = vectors("preamble");
    assert_eq!(vectors.len(), 1);
    assert_eq!(Preamble::OURS.encode().as_slice(), vectors[0].bytes);
    let bytes: [u8; PREAMBLE_BYTES] = vectors[0].bytes.as_slice().try_into().unwrap();
    assert_eq!(Preamble::decode(&bytes), Ok(Preamble::OURS));
}

#[test]
fn frames_match_the_golden_bytes() {
    let mut kinds = BTreeSet::new();
    for vector in vectors("frame") {
        let mut reader = FrameReader::default();
        reader.push(&vector.bytes);
        let read = reader.next_frame().unwrap().expect(vector.name);
        match &read {
            Frame::Define(definitions) => {
                let read: Vec<_> = definitions.clone().map(Result::unwrap).collect();
                assert_eq!(read, ["text", "cores"].map(definition));
            }
            Frame::Events {
                first_sequence,
                records,
            } => {
                assert_eq!(*first_sequence, 0x1112_1314_1516_1718);
                let read: Vec<_> = Frame::events(records).map(Result::unwrap).collect();
                assert_eq!(read, events());
            }
            other => assert_eq!(*other, frame(vector.name)),
        }
        let mut written = Vec::new();
        put(&mut written, &read);
        assert_eq!(written, vector.bytes, "{}", vector.name);
        kinds.insert(vector.bytes[4]);
    }
    let known =
        (0..=u8::MAX).filter(|kind| !matches!(Frame::decode(*kind, &[]), Ok(Frame::Unknown(_))));
    assert_eq!(kinds, known.collect(), "a frame has no vector");
}

#[test]
fn definitions_match_the_golden_bytes() {
    let mut kinds = BTreeSet::new();
    for vector in vectors("definition") {
        let expected = definition(vector.name);
        let mut written = Vec::new();
        expected.encode(&mut written);
        assert_eq!(written, vector.bytes, "{}", vector.name);
        let Ok(Frame::Define(mut read)) = Frame::decode(2, &vector.bytes) else {
            panic!("no define frame");
        };
        assert_eq!(read.next(), Some(Ok(expected)));
        assert_eq!(read.next(), None);
        kinds.insert(vector.bytes[0]);
    }
    assert_eq!(kinds, BTreeSet::from([1, 2, 3, 4]));
}

/// An event as the vector file writes it: `time=…` and each field in the order of its place.
fn written_out(event: &Event) -> Vec<String> {
    let text = format!("{:?}", event.kind);
    let fields = text
        .split_once(" { ")
        .unwrap()
        .1
        .strip_suffix(" }")
        .unwrap();
    let value = |name: &str| {
        let found = fields
            .split(", ")
            .filter_map(|field| field.split_once(": "));
        let (_, value) = found.into_iter().find(|field| field.0 == name).unwrap();
        // `Some(KernelId(7))` is 7.
        value
            .rsplit('(')
            .next()
            .unwrap()
            .trim_end_matches(')')
            .to_owned()
    };
    let row = LAYOUT.iter().find(|row| row.kind == event.kind.kind());
    let mut places = row.unwrap().fields.to_vec();
    places.sort_by_key(|field| field.offset);
    let fields = places
        .iter()
        .map(|field| format!("{}={}", field.name, value(field.name)));
    [format!("time={}", event.time)]
        .into_iter()
        .chain(fields)
        .collect()
}

#[test]
fn events_match_the_golden_bytes() {
    let mut kinds = BTreeSet::new();
    for vector in vectors("event") {
        let record = vector.bytes.as_slice().try_into().expect("64 bytes");
        let event = Event::decode(record).unwrap();
        assert_eq!(event.kind.name(), vector.name);
        assert_eq!(written_out(&event), vector.fields, "{}", vector.name);
        assert_eq!(event.encode().as_slice(), vector.bytes, "{}", vector.name);
        kinds.insert(event.kind.kind());
    }
    let known = LAYOUT.iter().map(|event| event.kind);
    assert_eq!(kinds, known.collect(), "an event has no vector");
}
