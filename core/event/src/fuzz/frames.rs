//! The check of the fuzz target `wire_frames`.

use crate::event::Event;
use crate::wire::{DefinitionIter, Frame, FrameReader, PREAMBLE_BYTES, Preamble};

/// Reads `data` as a stream of frames, once whole and once cut in pieces.
///
/// The first byte is the length of a piece. What was read is also written and
/// read again.
///
/// # Panics
/// When two readings differ: that is the property under test.
pub fn check_frames(data: &[u8]) {
    let Some((cut, stream)) = data.split_first() else {
        return;
    };
    let whole = read_all(std::iter::once(stream));
    let pieces = read_all(stream.chunks(usize::from(*cut).max(1)));
    assert_eq!(whole, pieces, "cutting the stream changed what was read");
    if let Some(preamble) = stream.first_chunk::<PREAMBLE_BYTES>() {
        check_preamble(preamble);
    }
}

/// A text of every frame, with its definitions and events, up to the first error.
fn read_all<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Vec<String> {
    let mut reader = FrameReader::default();
    let mut seen = Vec::new();
    for piece in pieces {
        reader.push(piece);
        loop {
            match reader.next_frame() {
                Ok(None) => break,
                Ok(Some(Frame::Define(definitions))) => see_definitions(definitions, &mut seen),
                Ok(Some(Frame::Events {
                    first_sequence,
                    records,
                })) => {
                    seen.push(format!("events from {first_sequence}"));
                    see_events(records, &mut seen);
                }
                Ok(Some(frame)) => seen.push(format!("{frame:?}")),
                Err(error) => {
                    seen.push(error.to_string());
                    return seen;
                }
            }
        }
    }
    seen
}

fn see_definitions(definitions: DefinitionIter<'_>, seen: &mut Vec<String>) {
    for definition in definitions {
        seen.push(format!("{definition:?}"));
        if let Ok(definition) = definition {
            let mut again = Vec::new();
            definition.encode(&mut again);
            let mut again = DefinitionIter::new(&again);
            assert_eq!(again.next(), Some(Ok(definition)), "written otherwise");
            assert_eq!(again.next(), None, "more was written than was read");
        }
    }
}

fn see_events(records: &[u8], seen: &mut Vec<String>) {
    for event in Frame::events(records) {
        seen.push(format!("{event:?}"));
        if let Ok(event) = event {
            assert_eq!(Event::decode(&event.encode()), Ok(event));
        }
    }
}

fn check_preamble(bytes: &[u8; PREAMBLE_BYTES]) {
    if let Ok(preamble) = Preamble::decode(bytes) {
        assert_eq!(Preamble::decode(&preamble.encode()), Ok(preamble));
        if let Ok(version) = preamble.agree() {
            assert!((preamble.oldest..=preamble.version).contains(&version));
        }
    }
}
