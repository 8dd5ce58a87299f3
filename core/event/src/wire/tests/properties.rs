//! Properties that hold for every stream and every way to cut it.

use proptest::collection::{hash_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::super::{Clock, Goodbye, Hello, RefusalCode, ResyncEnd, RingPosition, Welcome};
use super::*;
use crate::catalogue::Arch;
use crate::core::{CoreRange, GRID_SIDE};
use crate::event::EVENT_BYTES;
use crate::event::kinds::LAYOUT;
use crate::fuzz::check_frames;
use crate::{
    CoreSet, CoresId, Definition, DeviceDefinition, DeviceId, Event, MeshDefinition, MeshId,
    MeshKind, Source, TextId,
};

prop_compose! {
    fn core_ranges()(a in 0..GRID_SIDE, b in 0..GRID_SIDE, c in 0..GRID_SIDE, d in 0..GRID_SIDE)
        -> CoreRange
    {
        CoreRange { x_first: a.min(c), y_first: b.min(d), x_last: a.max(c), y_last: b.max(d) }
    }
}

prop_compose! {
    fn devices()(
        ids in any::<(u32, u32, u32)>(),
        unique_id in option::of(any::<u64>()),
        arch in any::<u16>(),
        remote in option::of(any::<bool>()),
        grid in any::<(u16, u16)>(),
        l1 in any::<(u32, u32)>(),
    ) -> Definition {
        Definition::Device(DeviceDefinition {
            id: DeviceId(ids.0),
            logical_id: ids.1,
            unique_id,
            arch: Arch::from_code(arch),
            board: TextId(ids.2),
            remote,
            grid_columns: grid.0,
            grid_rows: grid.1,
            l1_bytes_per_core: l1.0,
            l1_reserved_bytes: l1.1,
        })
    }
}

prop_compose! {
    fn meshes()(
        id in any::<u32>(),
        kind in select(MeshKind::ALL),
        handle in any::<u64>(),
        shape in any::<(u16, u16)>(),
        devices in hash_set(any::<u32>(), 0..40),
    ) -> Definition {
        Definition::Mesh(MeshDefinition {
            id: MeshId(id),
            kind,
            handle,
            rows: shape.0,
            columns: shape.1,
            devices: devices.into_iter().map(DeviceId).collect(),
        })
    }
}

fn definitions() -> impl Strategy<Value = Definition> {
    let texts = (1..=u32::MAX, any::<String>()).prop_map(|(id, text)| Definition::Text {
        id: TextId(id),
        text,
    });
    let cores =
        (1..=u32::MAX, vec(core_ranges(), 0..8)).prop_map(|(id, ranges)| Definition::Cores {
            id: CoresId(id),
            cores: CoreSet::from_ranges(ranges).unwrap(),
        });
    prop_oneof![texts, cores, devices(), meshes()]
}

prop_compose! {
    /// Any event: a row of the table, random bytes, and its words brought into range.
    fn events()(
        row in select(LAYOUT),
        bytes in proptest::array::uniform32(any::<[u8; 2]>()),
    ) -> Event {
        let mut record = [0; EVENT_BYTES];
        record.copy_from_slice(bytes.as_flattened());
        record[0] = row.kind;
        for field in row.fields {
            let byte = &mut record[field.offset];
            if field.type_name == "bool" {
                *byte &= 1;
            } else if !field.values.is_empty() {
                *byte = field.values[usize::from(*byte) % field.values.len()].0;
            }
        }
        Event::decode(&record).expect("every word is in range")
    }
}

fn ring_positions() -> impl Strategy<Value = RingPosition> {
    any::<(u32, u64)>().prop_map(|(ring, position)| RingPosition { ring, position })
}

/// The bytes of one or a few frames of every kind.
fn streams() -> impl Strategy<Value = Vec<u8>> {
    fn put(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::new();
        write(&mut out);
        out
    }
    let hello = (
        any::<[u8; 16]>(),
        any::<u32>(),
        select(Source::ALL),
        any::<[String; 2]>(),
        proptest::collection::vec(any::<(String, String)>(), 0..4),
    );
    let hello = hello.prop_map(|(instance, pid, source, [name, visible_devices], labels)| {
        let labels = labels.iter().map(|(key, value)| (&**key, &**value));
        let hello = Hello {
            instance,
            pid,
            source,
            name: &name,
            visible_devices: &visible_devices,
            labels: labels.collect(),
        };
        put(|out| Frame::put_hello(out, &hello))
    });
    let fixed = any::<([u64; 3], u16, bool)>().prop_map(|([a, b, c], code, flag)| {
        put(|out| {
            let clock = Clock {
                ticks: a,
                unix_nanos: b,
                nanos_per_tick_q32: c,
            };
            let end = ResyncEnd {
                next_sequence: a,
                lost_events: b,
                elided_events: c,
            };
            let welcome = Welcome {
                version: code,
                needs_resync: flag,
                server_instance: b,
                next_sequence: c,
            };
            Frame::put_clock(out, &clock);
            Frame::put(out, FrameKind::ResyncBegin, |_| {});
            Frame::put_resync_end(out, &end);
            Frame::put(out, FrameKind::Flush, |_| {});
            Frame::put_goodbye(out, &Goodbye { next_sequence: a });
            Frame::put_handover(out, b, c);
            Frame::put_welcome(out, &welcome);
            Frame::put_refused(out, RefusalCode::from_code(code), "a reason");
            Frame::put_ack(out, a);
        })
    });
    prop_oneof![
        hello,
        fixed,
        vec(definitions(), 1..8).prop_map(|list| put(|out| Frame::put_define(out, &list))),
        (any::<u64>(), vec(events(), 1..8))
            .prop_map(|(first, list)| put(|out| Frame::put_events(out, first, &list))),
        vec(any::<u8>(), 1..200).prop_map(|state| put(|out| Frame::put_state(out, &state))),
        vec(ring_positions(), 1..8).prop_map(|list| put(|out| Frame::put_drained(out, &list))),
    ]
}

proptest! {
    #[test]
    fn definitions_come_back(list in vec(definitions(), 1..12)) {
        let mut stream = Vec::new();
        Frame::put_define(&mut stream, &list);
        let mut reader = FrameReader::default();
        reader.push(&stream);
        let Ok(Some(Frame::Define(read))) = reader.next_frame() else {
            panic!("no define frame");
        };
        let read: Result<Vec<_>, _> = read.collect();
        prop_assert_eq!(read, Ok(list));
    }

    #[test]
    fn events_come_back(first in any::<u64>(), list in vec(events(), 1..40)) {
        let mut stream = Vec::new();
        Frame::put_events(&mut stream, first, &list);
        let mut reader = FrameReader::default();
        reader.push(&stream);
        let Ok(Some(Frame::Events { first_sequence, records })) = reader.next_frame() else {
            panic!("no events");
        };
        prop_assert_eq!(first_sequence, first);
        prop_assert_eq!(Frame::events(records).len(), list.len());
        let read: Result<Vec<_>, _> = Frame::events(records).collect();
        prop_assert_eq!(read, Ok(list));
    }

    #[test]
    fn entries_come_back(
        state in vec(any::<u8>(), 1..200),
        positions in vec(ring_positions(), 1..20),
    ) {
        let mut stream = Vec::new();
        Frame::put_state(&mut stream, &state);
        Frame::put_drained(&mut stream, &positions);
        let mut reader = FrameReader::default();
        reader.push(&stream);
        prop_assert_eq!(reader.next_frame(), Ok(Some(Frame::State(&state))));
        prop_assert_eq!(reader.next_frame(), Ok(Some(Frame::Drained(positions))));
    }

    #[test]
    fn a_stream_cut_anywhere_is_written_again_the_same(
        parts in vec(streams(), 1..8),
        lengths in vec(1_usize..300, 1..8),
    ) {
        let stream = parts.concat();
        let mut reader = FrameReader::default();
        let mut written = Vec::new();
        let mut rest = stream.as_slice();
        for length in lengths.iter().cycle() {
            let (chunk, after) = rest.split_at((*length).min(rest.len()));
            rest = after;
            reader.push(chunk);
            while let Some(frame) = reader.next_frame().unwrap() {
                put(&mut written, &frame);
            }
            let taken = stream.len() - rest.len();
            prop_assert_eq!(written.len() + reader.pending_bytes(), taken);
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(reader.pending_bytes(), 0);
        prop_assert_eq!(written, stream);
    }

    #[test]
    fn a_stream_that_ends_early_has_only_its_whole_frames(
        parts in vec(streams(), 1..4),
        cut in any::<Index>(),
    ) {
        let stream = parts.concat();
        let end = cut.index(stream.len());
        let mut reader = FrameReader::default();
        reader.push(&stream[..end]);
        let mut written = Vec::new();
        while let Some(frame) = reader.next_frame().unwrap() {
            put(&mut written, &frame);
        }
        prop_assert_eq!(&written[..], &stream[..end - reader.pending_bytes()]);
    }

    #[test]
    fn a_clock_never_runs_backwards(
        words in any::<[u64; 3]>(),
        readings in any::<(u64, u64)>(),
    ) {
        let [ticks, unix_nanos, nanos_per_tick_q32] = words;
        let clock = Clock { ticks, unix_nanos, nanos_per_tick_q32 };
        let (early, late) = (readings.0.min(readings.1), readings.0.max(readings.1));
        prop_assert!(clock.unix_nanos_at(early) <= clock.unix_nanos_at(late));
        prop_assert_eq!(clock.unix_nanos_at(ticks), unix_nanos);
    }

    #[test]
    fn random_bytes_keep_every_promise(input in vec(any::<u8>(), 0..600)) {
        check_frames(&input);
    }

    #[test]
    fn random_payloads_keep_every_promise(
        frames in vec((prop_oneof![0_u8..13, 0x80_u8..0x84], vec(any::<u8>(), 0..200)), 1..4),
        cut in any::<u8>(),
    ) {
        let stream = frames.iter().map(|(kind, payload)| raw_frame(*kind, payload));
        check_frames(&[vec![cut], stream.collect::<Vec<_>>().concat()].concat());
    }

    #[test]
    fn damaged_streams_keep_every_promise(
        parts in vec(streams(), 1..4),
        cut in any::<u8>(),
        damage in vec((any::<Index>(), any::<u8>()), 1..4),
    ) {
        let mut input = parts.concat();
        for (at, byte) in damage {
            let at = at.index(input.len());
            input[at] = byte;
        }
        input.insert(0, cut);
        check_frames(&input);
    }
}
