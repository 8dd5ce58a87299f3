//! Where the blocks of a recording are written to.

use crate::format::{BLOCK_HEADER_BYTES, BlockHeader, BlockKind, TRAILER_BYTES, most_unpacked};
use crate::index::{BlockPlace, Index};
use crate::writer::WriteError;
use std::io::Write;

/// A block in the index, and what the summary there has besides notes; those of peaks are of each device and
/// class once, however often they came.
const MAX_PLACE_BYTES: usize = BLOCK_HEADER_BYTES + 10;
const MAX_SUMMARY_BYTES: usize = 256;

const SKIPPED_FRAME: [u8; 4] = 0x184D_2A50_u32.to_le_bytes();

/// Packs blocks, and keeps where each begins.
pub(crate) struct Blocks<W> {
    pub(crate) out: W,
    pub(crate) bytes: u64,
    pub(crate) index: Index,
    /// The most of the whole file, and how many of them the notes in its index can take.
    max_bytes: Option<u64>,
    note_bytes: usize,
    packer: zstd::bulk::Compressor<'static>,
    packed: Vec<u8>,
}

impl<W: std::fmt::Debug> std::fmt::Debug for Blocks<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Blocks");
        shown.field("out", &self.out).field("bytes", &self.bytes);
        shown.finish_non_exhaustive()
    }
}

impl<W: Write> Blocks<W> {
    pub(crate) fn new(out: W, level: i32, max_bytes: Option<u64>) -> std::io::Result<Self> {
        Ok(Self {
            out,
            bytes: 0,
            index: Index::default(),
            max_bytes,
            note_bytes: 0,
            packer: zstd::bulk::Compressor::new(level)?,
            packed: Vec::new(),
        })
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.out.write_all(bytes)?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Makes what packed very well as long as readers want it for its length: no few bytes may cost
    /// them much memory.
    fn pad(&mut self, raw_bytes: u64) {
        let beyond = raw_bytes.saturating_sub(most_unpacked(0));
        let missing = beyond.div_ceil(most_unpacked(1) - most_unpacked(0));
        let missing = missing.saturating_sub(self.packed.len() as u64);
        if let Ok(missing @ 1..) = u32::try_from(missing) {
            // A frame that decoders skip.
            self.packed.extend_from_slice(&SKIPPED_FRAME);
            self.packed.extend_from_slice(&missing.to_le_bytes());
            let length = self.packed.len() + missing as usize;
            self.packed.resize(length, 0);
        }
    }

    /// What the index takes at most, with one more block in it.
    fn index_bytes(&self) -> u64 {
        let places = (self.index.blocks.len() + 2) * MAX_PLACE_BYTES;
        let raw = MAX_SUMMARY_BYTES + places + self.note_bytes;
        let packed = zstd::zstd_safe::compress_bound(raw);
        (BLOCK_HEADER_BYTES + packed + TRAILER_BYTES) as u64
    }

    pub(crate) fn block(&mut self, header: BlockHeader, payload: &[u8]) -> Result<(), WriteError> {
        self.packed.clear();
        self.packed
            .reserve(zstd::zstd_safe::compress_bound(payload.len()));
        self.packer.compress_to_buffer(payload, &mut self.packed)?;
        self.pad(payload.len() as u64);
        let too_large = |_overflow| WriteError::TooLarge(payload.len());
        let header = BlockHeader {
            stored_bytes: u32::try_from(self.packed.len()).map_err(too_large)?,
            raw_bytes: u32::try_from(payload.len()).map_err(too_large)?,
            payload_sum: crc32fast::hash(&self.packed),
            ..header
        };
        if header.kind != BlockKind::Index {
            if header.kind == BlockKind::Notes {
                self.note_bytes += payload.len();
            }
            let end = self.bytes + header.bytes() + self.index_bytes();
            if self.max_bytes.is_some_and(|most| end > most) {
                return Err(WriteError::Full);
            }
            self.index.push(BlockPlace {
                offset: self.bytes,
                header,
            });
        }
        self.put(&header.encode())?;
        let packed = std::mem::take(&mut self.packed);
        self.put(&packed)?;
        self.packed = packed;
        self.packed.shrink_to(16 << 20);
        Ok(())
    }
}
