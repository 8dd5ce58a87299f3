//! The first bytes of a client: who speaks, which version, which event table.

use super::DecodeFrameError;
use super::bytes::Cursor;
use crate::event::LAYOUT_HASH;

/// The bytes that tell a ttmem client from every other peer.
///
/// The first is above every old message type and every HTTP letter, and with the
/// second it is no UTF-8; the line end shows up a transport that changes bytes.
pub const MAGIC: [u8; 8] = [0xF4, b'T', b'T', b'M', b'E', b'M', b'\r', b'\n'];

/// The version that this build speaks.
pub const VERSION: u16 = 2;

/// The oldest version that this build still speaks.
pub const OLDEST_VERSION: u16 = 2;
pub const PREAMBLE_BYTES: usize = 24;

/// What a client sends before its first frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preamble {
    pub version: u16,
    /// The oldest version the client speaks.
    pub oldest: u16,
    /// The fingerprint of the client's event table.
    pub layout_hash: u64,
}

impl Preamble {
    /// What this build says of itself.
    pub const OURS: Self = Self {
        version: VERSION,
        oldest: OLDEST_VERSION,
        layout_hash: LAYOUT_HASH,
    };
    #[must_use]
    pub fn encode(&self) -> [u8; PREAMBLE_BYTES] {
        let mut bytes = [0; PREAMBLE_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..10].copy_from_slice(&self.version.to_le_bytes());
        bytes[10..12].copy_from_slice(&self.oldest.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.layout_hash.to_le_bytes());
        bytes
    }

    /// Reads a preamble.
    pub fn decode(bytes: &[u8; PREAMBLE_BYTES]) -> Result<Self, DecodeFrameError> {
        let mut cursor = Cursor::new("preamble", bytes);
        if cursor.take(MAGIC.len())? != MAGIC {
            return Err(DecodeFrameError::NotTtmem);
        }
        let version = cursor.u16()?;
        let oldest = cursor.u16()?;
        let _reserved = cursor.u32()?;
        Ok(Self {
            version,
            oldest,
            layout_hash: cursor.u64()?,
        })
    }

    /// The version both ends speak.
    pub fn agree(&self) -> Result<u16, DecodeFrameError> {
        let version = self.version.min(VERSION);
        if version < self.oldest || version < OLDEST_VERSION {
            return Err(DecodeFrameError::Version {
                version: self.version,
                oldest: self.oldest,
            });
        }
        // The table of another version has another fingerprint; there the version decides.
        if self.version == VERSION && self.layout_hash != LAYOUT_HASH {
            return Err(DecodeFrameError::Layout {
                theirs: self.layout_hash,
                ours: LAYOUT_HASH,
            });
        }
        Ok(version)
    }
}
