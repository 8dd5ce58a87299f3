//! What the fuzz target and the corpus test both do with a byte string.

use super::{Frame, FrameReader};

/// Reads `data` as a stream of frames, once whole and once cut in pieces.
///
/// # Panics
/// When the two readings differ: that is the property under test.
pub fn frames(data: &[u8]) {
    let (cut, stream) = match data.split_first() {
        Some((cut, stream)) => (usize::from(*cut).max(1), stream),
        None => return,
    };
    let whole = read_all(std::iter::once(stream));
    let pieces = read_all(stream.chunks(cut));
    assert_eq!(whole, pieces, "cutting the stream changed what was read");
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
                Ok(Some(Frame::Define(definitions))) => {
                    seen.extend(definitions.map(|definition| format!("{definition:?}")));
                }
                Ok(Some(Frame::Events {
                    first_sequence,
                    records,
                })) => {
                    seen.push(format!("events from {first_sequence}"));
                    seen.extend(Frame::events(records).map(|event| format!("{event:?}")));
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
