//! Finding frames in a stream that is cut anywhere.

use super::{DecodeFrameError, Frame};

/// Bytes before a payload: its length (4), the kind (1), three zeros.
pub const FRAME_HEADER_BYTES: usize = 8;

/// The longest payload: a batch of sixteen thousand events and some.
pub const MAX_FRAME_BYTES: u32 = 1 << 20;

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

    /// Bytes of a frame that is not complete yet.
    #[must_use]
    pub fn pending_bytes(&self) -> usize {
        self.buffer.len() - self.consumed
    }
}
