//! Finding frames in a stream that is cut anywhere.

use super::{DecodeFrameError, Frame};

/// Bytes before a payload: its length (4), the kind (1), three zeros.
pub const FRAME_HEADER_BYTES: usize = 8;

/// The longest payload: a batch of sixteen thousand events and some.
pub const MAX_FRAME_BYTES: u32 = 1 << 20;

/// Room that is kept when all frames are taken: one of many connections that are idle now.
const KEPT_BYTES: usize = 64 << 10;

/// Collects bytes and hands out whole frames.
///
/// Room is made for bytes that came, never for bytes that a header announces. A
/// caller that takes every whole frame after each push leaves less than one frame
/// behind, so memory is bounded by a few times [`MAX_FRAME_BYTES`] and a push.
/// After an error no more bytes are kept and the error is said again.
#[derive(Debug, Default)]
pub struct FrameReader {
    buffer: Vec<u8>,
    consumed: usize,
    failure: Option<DecodeFrameError>,
}

impl FrameReader {
    /// Takes bytes from the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.failure.is_some() {
            return;
        }
        // Moving the rest down only when it is the smaller part costs each byte
        // one move at most, however few are pushed at a time.
        if self.consumed > self.buffer.len() / 2 {
            self.buffer.drain(..self.consumed);
            self.consumed = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole frame, or `None` until more bytes come.
    ///
    /// # Errors
    /// When the bytes are not a frame; the stream is of no use from there on.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, DecodeFrameError> {
        let Self {
            buffer,
            consumed,
            failure,
        } = self;
        if let Some(failure) = failure {
            return Err(failure.clone());
        }
        if *consumed == buffer.len() {
            *consumed = 0;
            buffer.clear();
            buffer.shrink_to(KEPT_BYTES);
        }
        let rest = &buffer[*consumed..];
        let Some((header, rest)) = rest.split_at_checked(FRAME_HEADER_BYTES) else {
            return Ok(None);
        };
        let len = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
        if len > MAX_FRAME_BYTES {
            return Err(failure.insert(DecodeFrameError::TooLong(len)).clone());
        }
        let len = usize::try_from(len).expect("a length up to 2^20 fits");
        let Some(payload) = rest.get(..len) else {
            return Ok(None);
        };
        *consumed += FRAME_HEADER_BYTES + len;
        Frame::decode(header[4], payload)
            .map(Some)
            .inspect_err(|error| *failure = Some(error.clone()))
    }

    /// The kind of the next frame, once its header is there.
    #[must_use]
    pub fn next_kind(&self) -> Option<u8> {
        let header = self
            .buffer
            .get(self.consumed..self.consumed + FRAME_HEADER_BYTES)?;
        Some(header[4])
    }

    /// Bytes of a frame that is not complete yet.
    #[must_use]
    pub fn pending_bytes(&self) -> usize {
        self.buffer.len() - self.consumed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::FrameKind;

    const MAX: usize = MAX_FRAME_BYTES as usize;

    #[test]
    fn a_header_alone_takes_no_room_for_what_it_announces() {
        let mut reader = FrameReader::default();
        let mut header = MAX_FRAME_BYTES.to_le_bytes().to_vec();
        header.extend([FrameKind::State as u8, 0, 0, 0]);
        reader.push(&header);
        assert_eq!(reader.next_frame(), Ok(None));
        assert!(reader.buffer.capacity() < 64);
        assert_eq!(reader.pending_bytes(), FRAME_HEADER_BYTES);
    }

    #[test]
    fn the_longest_frame_byte_by_byte_is_never_moved() {
        let mut reader = FrameReader::default();
        let mut stream = MAX_FRAME_BYTES.to_le_bytes().to_vec();
        stream.extend([0x7F, 0, 0, 0]);
        stream.resize(FRAME_HEADER_BYTES + MAX, 0xAA);
        let (last, before) = stream.split_last().expect("not empty");
        for (count, byte) in (1..).zip(before) {
            reader.push(&[*byte]);
            assert_eq!(reader.buffer.len(), count);
            assert_eq!(reader.next_frame(), Ok(None));
        }
        assert!(reader.buffer.capacity() <= 2 * stream.len());
        reader.push(&[*last]);
        assert_eq!(reader.next_frame(), Ok(Some(Frame::Unknown(0x7F))));
        assert_eq!(reader.pending_bytes(), 0);
    }

    /// A backlog of many small frames, of which one is taken at each push.
    #[test]
    fn moving_the_rest_down_costs_each_byte_one_move_at_most() {
        let mut reader = FrameReader::default();
        let mut frame = Vec::new();
        Frame::put_ack(&mut frame, 1);
        let frames = 4096;
        reader.push(&frame.repeat(frames));
        let mut moved = 0;
        for _ in 0..frames {
            assert!(matches!(reader.next_frame(), Ok(Some(Frame::Ack { .. }))));
            let (consumed, pending) = (reader.consumed, reader.pending_bytes());
            reader.push(&frame[..1]);
            if reader.consumed < consumed {
                moved += pending;
            }
        }
        assert!(moved <= frames * (frame.len() + 1), "{moved} bytes moved");
        assert!(moved > 0, "nothing was ever given up");
    }

    #[test]
    fn an_idle_reader_keeps_little_room() {
        let mut reader = FrameReader::default();
        let mut frame = Vec::new();
        Frame::put(&mut frame, FrameKind::State, |out| {
            out.resize(out.len() + MAX, 1)
        });
        reader.push(&frame);
        assert!(matches!(reader.next_frame(), Ok(Some(Frame::State(_)))));
        assert_eq!(reader.next_frame(), Ok(None));
        assert!(reader.buffer.capacity() <= KEPT_BYTES);
    }

    #[test]
    fn a_long_stream_is_not_kept() {
        let mut reader = FrameReader::default();
        let mut frame = Vec::new();
        Frame::put(&mut frame, FrameKind::Events, |out| {
            out.resize(out.len() + 8 + 64 * 100, 1)
        });
        for piece in frame.repeat(200).chunks(1000) {
            reader.push(piece);
            while reader.next_frame().expect("whole records").is_some() {}
        }
        assert_eq!(reader.pending_bytes(), 0);
        let bound = 2 * (2 * frame.len() + 1000);
        assert!(
            reader.buffer.capacity() <= bound,
            "{}",
            reader.buffer.capacity()
        );
    }
}
