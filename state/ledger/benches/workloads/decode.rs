//! Both codecs, from bytes as they arrive to events.

use super::{EVENTS_PER_BATCH, Runner, buffers};
use std::hint::black_box;
use ttmem_event::event::EVENT_BYTES;
use ttmem_event::legacy::{Framer, Generation, Request, RequestKind};
use ttmem_event::wire::{FRAME_HEADER_BYTES, Frame, FrameKind};

/// Records of one read: about 64 KiB of the newest generation.
const RECORDS_PER_READ: u64 = 455;
/// The kind of frame that carries events.
const KIND: u8 = FrameKind::Events as u8;

/// Records of the newest generation, in reads of whole records.
pub(crate) fn legacy_records() -> Runner {
    let generation = Generation::G4;
    let record_bytes = generation.record_bytes();
    let mut stream = Vec::new();
    for number in 0..RECORDS_PER_READ {
        let request = Request {
            kind: if number.is_multiple_of(2) {
                RequestKind::Alloc
            } else {
                RequestKind::Free
            },
            device_id: 0,
            size: 2048,
            buffer_type: 1,
            process_id: 4242,
            buffer_id: 0x10_0000 + number / 2 * 2048,
            timestamp: number,
        };
        request.encode(generation, &mut stream);
    }
    let mut framer = Framer::new();
    Box::new(move |records| {
        let (mut left, mut decoded) = (records, 0);
        while left > 0 {
            let read = left.min(RECORDS_PER_READ);
            left -= read;
            framer
                .push(
                    &stream[..bytes_of(read, record_bytes)],
                    &mut |generation, request| {
                        decoded += 1;
                        black_box((generation, request));
                    },
                )
                .expect("the stream is well-formed");
        }
        // The first record of a connection is held until it is certain how long it is.
        assert!(records - decoded <= 1, "records were lost");
    })
}

/// Batches of buffer events: frames first, then their events.
pub(crate) fn wire_batches() -> Runner {
    let (_world, cycle) = buffers::churn(1);
    let batches: Vec<Vec<u8>> = cycle
        .chunks(EVENTS_PER_BATCH)
        .filter(|batch| batch.len() == EVENTS_PER_BATCH)
        .map(|batch| {
            let mut frame = Vec::new();
            Frame::put_events(&mut frame, 0, batch);
            frame.split_off(FRAME_HEADER_BYTES)
        })
        .collect();
    Box::new(move |events| {
        let mut left = events;
        for batch in batches.iter().cycle() {
            if left == 0 {
                break;
            }
            let Ok(Frame::Events { records, .. }) = Frame::decode(KIND, batch) else {
                break;
            };
            let records = &records[..records.len().min(bytes_of(left, EVENT_BYTES))];
            for event in Frame::events(records).flatten() {
                left -= 1;
                black_box(event);
            }
        }
        assert_eq!(left, 0, "events were lost");
    })
}

fn bytes_of(count: u64, each: usize) -> usize {
    usize::try_from(count).map_or(usize::MAX, |count| count.saturating_mul(each))
}
