//! Tests of the protocol as a whole.

mod corpus;
mod document;
mod frames;
mod hostile;
mod properties;
mod vectors;

use super::{DecodeFrameError, FRAME_HEADER_BYTES, Frame, FrameKind, FrameReader, MAX_FRAME_BYTES};

/// A frame's bytes with whatever payload, also one that no encoder writes.
fn raw_frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let len = u32::try_from(payload.len()).unwrap();
    let mut bytes = len.to_le_bytes().to_vec();
    bytes.extend_from_slice(&[kind, 0, 0, 0]);
    bytes.extend_from_slice(payload);
    bytes
}

/// The kind and the payload of each frame in `stream`, found without the reader.
fn split_frames(mut stream: &[u8]) -> Vec<(u8, &[u8])> {
    let mut frames = Vec::new();
    while let Some((header, rest)) = stream.split_first_chunk::<FRAME_HEADER_BYTES>() {
        let len = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
        let (payload, rest) = rest.split_at(usize::try_from(len).unwrap());
        frames.push((header[4], payload));
        stream = rest;
    }
    assert!(stream.is_empty(), "{} bytes after the last", stream.len());
    frames
}

/// Appends the frame that was read; the inverse of reading.
fn put(out: &mut Vec<u8>, frame: &Frame<'_>) {
    match frame {
        Frame::Hello(hello) => Frame::put_hello(out, hello),
        Frame::Define(definitions) => {
            let definitions: Vec<_> = definitions.clone().map(Result::unwrap).collect();
            Frame::put_define(out, &definitions);
        }
        Frame::Clock(clock) => Frame::put_clock(out, clock),
        Frame::Events {
            first_sequence,
            records,
        } => {
            let events: Vec<_> = Frame::events(records).map(Result::unwrap).collect();
            Frame::put_events(out, *first_sequence, &events);
        }
        Frame::ResyncBegin => Frame::put(out, FrameKind::ResyncBegin, |_| {}),
        Frame::ResyncEnd(end) => Frame::put_resync_end(out, end),
        Frame::State(records) => {
            Frame::put(out, FrameKind::State, |out| out.extend_from_slice(records));
        }
        Frame::Flush => Frame::put(out, FrameKind::Flush, |_| {}),
        Frame::Goodbye(goodbye) => Frame::put_goodbye(out, goodbye),
        Frame::Handover {
            ring_bytes,
            dictionary_bytes,
        } => Frame::put_handover(out, *ring_bytes, *dictionary_bytes),
        Frame::Drained(positions) => Frame::put_drained(out, positions),
        Frame::Welcome(welcome) => Frame::put_welcome(out, welcome),
        Frame::Refused { code, reason } => Frame::put_refused(out, *code, reason),
        Frame::Ack { next_sequence } => Frame::put_ack(out, *next_sequence),
        Frame::Unknown(kind) => panic!("kind {kind} cannot be written"),
    }
}
