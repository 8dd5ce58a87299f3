//! The frame of a recording: its header, its blocks, its trailer.
//!
//! All numbers are little-endian. Nothing here is believed before its checksum is right, and no length
//! is used before it was held against what can be; `docs/protocol.md` has the byte tables.

use ttmem_event::event::LAYOUT_HASH;

/// The format that is written, and the oldest that is read.
pub const VERSION: u16 = 3;
pub const OLDEST_VERSION: u16 = 3;

pub(crate) const HEADER_BYTES: usize = 64;
pub(crate) const BLOCK_HEADER_BYTES: usize = 64;
pub(crate) const TRAILER_BYTES: usize = 32;

const FILE_MAGIC: [u8; 8] = *b"TTMEMREC";
const BLOCK_MAGIC: [u8; 4] = *b"TTRB";
const TRAILER_MAGIC: [u8; 8] = *b"TTRECEND";

/// Whether bytes begin as every recording does.
#[must_use]
pub fn is_recording(beginning: &[u8]) -> bool {
    beginning.starts_with(&FILE_MAGIC)
}

/// Names and paths were left out.
const REDACTED: u32 = 1;

/// Events of one block: a batch that has more goes on in the next.
pub(crate) const MAX_BLOCK_EVENTS: usize = 1 << 17;

/// Changes of one block.
pub(crate) const MAX_BLOCK_ENTRIES: u32 = 1 << 16;

/// The most that so many stored bytes may unpack to: far above what real ones do.
pub(crate) const fn most_unpacked(stored_bytes: u64) -> u64 {
    (1 << 20) + 1024 * stored_bytes
}

/// The header of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileHeader {
    pub(crate) version: u16,
    pub(crate) redacted: bool,
    /// The event table of the writer; its records are read by what they say themselves.
    pub(crate) layout: u64,
    pub(crate) time: u64,
}

impl FileHeader {
    pub(crate) fn new(redacted: bool, time: u64) -> Self {
        Self {
            version: VERSION,
            redacted,
            layout: LAYOUT_HASH,
            time,
        }
    }

    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&FILE_MAGIC);
        bytes[8..10].copy_from_slice(&self.version.to_le_bytes());
        let flags = if self.redacted { REDACTED } else { 0 };
        bytes[12..16].copy_from_slice(&flags.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.layout.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.time.to_le_bytes());
        seal(&mut bytes);
        bytes
    }

    /// Reads a header; none if it is not one of ours.
    pub(crate) fn decode(bytes: &[u8; HEADER_BYTES]) -> Option<Self> {
        let is_ours = bytes[..8] == FILE_MAGIC && is_sealed(bytes);
        is_ours.then(|| Self {
            version: u16::from_le_bytes([bytes[8], bytes[9]]),
            redacted: u32_at(bytes, 12) & REDACTED != 0,
            layout: u64_at(bytes, 16),
            time: u64_at(bytes, 24),
        })
    }
}

/// What a block has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockKind {
    /// Changes of the ledger.
    Inputs,
    /// The whole state of the ledger after everything before it.
    State,
    /// Marks, failures and peaks since the last such block.
    Notes,
    /// Where all blocks are, and all notes.
    Index,
}

impl BlockKind {
    fn from_code(code: u8) -> Option<Self> {
        [Self::Inputs, Self::State, Self::Notes, Self::Index]
            .into_iter()
            .find(|kind| *kind as u8 == code)
    }

    /// The most that a payload may be once it is unpacked.
    pub(crate) fn most_bytes(self) -> u64 {
        match self {
            Self::Inputs | Self::Index | Self::Notes => 256 << 20,
            Self::State => 1 << 30,
        }
    }
}

/// The header of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockHeader {
    pub(crate) kind: BlockKind,
    /// Of a state: the changes before it do not lead to it.
    pub(crate) is_start: bool,
    /// Bytes of the payload as it is stored, and unpacked.
    pub(crate) stored_bytes: u32,
    pub(crate) raw_bytes: u32,
    pub(crate) entries: u32,
    pub(crate) events: u32,
    /// The instants that it is about; the first is that of the end of the block before.
    pub(crate) first_time: u64,
    pub(crate) last_time: u64,
    /// Events of the ledger before it, and after it.
    pub(crate) first_event: u64,
    pub(crate) last_event: u64,
    pub(crate) payload_sum: u32,
}

const IS_START: u8 = 1;

impl BlockHeader {
    pub(crate) fn encode(&self) -> [u8; BLOCK_HEADER_BYTES] {
        let mut bytes = [0; BLOCK_HEADER_BYTES];
        bytes[..4].copy_from_slice(&BLOCK_MAGIC);
        bytes[4] = self.kind as u8;
        bytes[5] = if self.is_start { IS_START } else { 0 };
        bytes[8..12].copy_from_slice(&self.stored_bytes.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.raw_bytes.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.entries.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.events.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.first_time.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.last_time.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.first_event.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.last_event.to_le_bytes());
        bytes[56..60].copy_from_slice(&self.payload_sum.to_le_bytes());
        seal(&mut bytes);
        bytes
    }

    /// Reads a header; none if it is not one of ours or says what cannot be.
    pub(crate) fn decode(bytes: &[u8; BLOCK_HEADER_BYTES]) -> Option<Self> {
        if bytes[..4] != BLOCK_MAGIC || !is_sealed(bytes) {
            return None;
        }
        let header = Self {
            kind: BlockKind::from_code(bytes[4])?,
            is_start: bytes[5] & IS_START != 0,
            stored_bytes: u32_at(bytes, 8),
            raw_bytes: u32_at(bytes, 12),
            entries: u32_at(bytes, 16),
            events: u32_at(bytes, 20),
            first_time: u64_at(bytes, 24),
            last_time: u64_at(bytes, 32),
            first_event: u64_at(bytes, 40),
            last_event: u64_at(bytes, 48),
            payload_sum: u32_at(bytes, 56),
        };
        let can_be = u64::from(header.raw_bytes) <= header.kind.most_bytes()
            // What cannot be packed is a little longer.
            && u64::from(header.stored_bytes) <= header.kind.most_bytes() + (1 << 20)
            && u64::from(header.raw_bytes) <= most_unpacked(header.stored_bytes.into())
            && header.events as usize <= MAX_BLOCK_EVENTS
            && header.entries <= MAX_BLOCK_ENTRIES
            && header.first_time <= header.last_time
            && header.first_event <= header.last_event;
        can_be.then_some(header)
    }

    /// Events that the ledger has more after it.
    pub(crate) fn counted_events(&self) -> u64 {
        self.last_event - self.first_event
    }

    /// Bytes of the whole block.
    pub(crate) fn bytes(&self) -> u64 {
        BLOCK_HEADER_BYTES as u64 + u64::from(self.stored_bytes)
    }
}

/// The last bytes of a recording that was finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trailer {
    pub(crate) index_offset: u64,
    /// Bytes of the whole file.
    pub(crate) file_bytes: u64,
}

impl Trailer {
    pub(crate) fn encode(&self) -> [u8; TRAILER_BYTES] {
        let mut bytes = [0; TRAILER_BYTES];
        bytes[..8].copy_from_slice(&TRAILER_MAGIC);
        bytes[8..16].copy_from_slice(&self.index_offset.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.file_bytes.to_le_bytes());
        seal(&mut bytes);
        bytes
    }

    pub(crate) fn decode(bytes: &[u8; TRAILER_BYTES]) -> Option<Self> {
        let is_ours = bytes[..8] == TRAILER_MAGIC && is_sealed(bytes);
        is_ours.then(|| Self {
            index_offset: u64_at(bytes, 8),
            file_bytes: u64_at(bytes, 16),
        })
    }
}

/// Puts the checksum of all other bytes into the last four.
fn seal(bytes: &mut [u8]) {
    let at = bytes.len() - 4;
    let sum = crc32fast::hash(&bytes[..at]);
    bytes[at..].copy_from_slice(&sum.to_le_bytes());
}

fn is_sealed(bytes: &[u8]) -> bool {
    let at = bytes.len() - 4;
    u32_at(bytes, at) == crc32fast::hash(&bytes[..at])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut number = [0; 4];
    number.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(number)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(number)
}
