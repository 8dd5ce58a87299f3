//! Reading and writing the parts of a payload.

use super::DecodeFrameError;

/// Reads a payload front to back; every read is checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cursor<'a> {
    frame: &'static str,
    payload: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(frame: &'static str, payload: &'a [u8]) -> Self {
        Self {
            frame,
            payload,
            at: 0,
        }
    }

    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeFrameError> {
        let rest = &self.payload[self.at..];
        let Some(taken) = rest.get(..count) else {
            return Err(DecodeFrameError::Truncated {
                frame: self.frame,
                at: self.at,
                len: self.payload.len(),
            });
        };
        self.at += count;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeFrameError> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.take(N)?);
        Ok(bytes)
    }

    pub(super) fn u8(&mut self) -> Result<u8, DecodeFrameError> {
        Ok(self.array::<1>()?[0])
    }

    pub(super) fn u16(&mut self) -> Result<u16, DecodeFrameError> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, DecodeFrameError> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, DecodeFrameError> {
        self.array().map(u64::from_le_bytes)
    }

    /// A byte that is 0 or 1.
    pub(super) fn flag(&mut self, field: &'static str) -> Result<bool, DecodeFrameError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _other => Err(self.invalid(field)),
        }
    }

    /// A text: its length in two bytes, then UTF-8.
    pub(super) fn text(&mut self, field: &'static str) -> Result<&'a str, DecodeFrameError> {
        let len = usize::from(self.u16()?);
        let text = self.take(len)?;
        std::str::from_utf8(text).map_err(|_not_utf8| self.invalid(field))
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        &self.payload[self.at..]
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.at == self.payload.len()
    }

    pub(super) fn invalid(&self, field: &'static str) -> DecodeFrameError {
        DecodeFrameError::Invalid {
            frame: self.frame,
            field,
        }
    }
}

/// The longest beginning of `text` that has at most `max` bytes and ends at a character.
pub(super) fn cut(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

/// Appends a text; one longer than a length field can say is cut.
pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    let text = cut(text, usize::from(u16::MAX));
    let len = u16::try_from(text.len()).expect("cut to at most u16::MAX");
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}
