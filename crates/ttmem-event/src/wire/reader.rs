//! Finding frames in a stream that is cut anywhere.

use super::{DecodeFrameError, Frame};

/// Bytes before a payload: its length (4), the kind (1), three zeros.
pub const FRAME_HEADER_BYTES: usize = 8;

/// The longest payload: a batch of sixteen thousand events and some.
pub const MAX_FRAME_BYTES: u32 = 1 << 20;

/// Collects bytes and hands out whole frames.
///
/// Holds at most one partial frame beyond what was pushed, so its memory is
/// bounded by [`MAX_FRAME_BYTES`] and the size of a push.
#[derive(Debug, Default)]
pub struct FrameReader {
    buffer: Vec<u8>,
    consumed: usize,
}

impl FrameReader {
    /// Takes bytes from the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.consumed > 0 {
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
        let rest = &self.buffer[self.consumed..];
        let Some((header, rest)) = rest.split_at_checked(FRAME_HEADER_BYTES) else {
            return Ok(None);
        };
        let len = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
        if len > MAX_FRAME_BYTES {
            return Err(DecodeFrameError::TooLong(len));
        }
        let len = usize::try_from(len).expect("a length below 2^20 fits");
        if rest.len() < len {
            return Ok(None);
        }
        let kind = header[4];
        self.consumed += FRAME_HEADER_BYTES + len;
        let end = self.consumed;
        Frame::decode(kind, &self.buffer[end - len..end]).map(Some)
    }

    /// Bytes of a frame that is not complete yet.
    #[must_use]
    pub fn pending_bytes(&self) -> usize {
        self.buffer.len() - self.consumed
    }
}
