//! The payload of a block: read, compared with its checksum and unpacked into memory that was drawn.

use crate::format::{BLOCK_HEADER_BYTES, BlockHeader};
use crate::index::BlockPlace;
use std::io::{Read, Seek, SeekFrom};
use ttmem_account::budget::{Budget, Charge, OverBudget, Turn, TurnEnd};

/// Work units for a block: finding it and reading its header.
pub(super) const BLOCK_WORK: u64 = 64;

/// Stored bytes, unpacked bytes, and bytes of a state that are read for one unit.
const STORED_BYTES_PER_UNIT: u64 = 32;
const RAW_BYTES_PER_UNIT: u64 = 16;
pub(super) const STATE_BYTES_PER_UNIT: u64 = 4;

pub(super) const CUT_BLOCK: &str = "the file ends in a block";
pub(super) const BAD_HEADER: &str = "the header of a block is damaged";
const BAD_SUM: &str = "a block has another checksum";
const BAD_PACKING: &str = "a block cannot be unpacked";

/// Why a block cannot be used.
#[derive(Debug)]
pub(super) enum Fault {
    Io(std::io::Error),
    Damaged(&'static str),
    /// Nothing to begin with.
    NoStart(super::Damage),
    End(TurnEnd),
}

impl From<std::io::Error> for Fault {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::UnexpectedEof => Self::Damaged(CUT_BLOCK),
            _other => Self::Io(error),
        }
    }
}

impl From<TurnEnd> for Fault {
    fn from(end: TurnEnd) -> Self {
        Self::End(end)
    }
}

impl From<OverBudget> for Fault {
    fn from(over: OverBudget) -> Self {
        Self::End(TurnEnd::OverBudget(over))
    }
}

/// Something decoded, and the memory that it takes.
#[derive(Debug)]
pub(super) struct Drawn<T> {
    pub(super) value: T,
    pub(super) charge: Charge,
}

/// The unpacked payload of a block, or what is wrong with it.
pub(super) fn payload(
    source: &mut (impl Read + Seek),
    block: &BlockPlace,
    (budget, turn): (&Budget, &mut Turn),
) -> Result<Drawn<Vec<u8>>, Fault> {
    let mut bytes = [0; BLOCK_HEADER_BYTES];
    source.seek(SeekFrom::Start(block.offset))?;
    source.read_exact(&mut bytes)?;
    if BlockHeader::decode(&bytes) != Some(block.header) {
        return Err(Fault::Damaged(BAD_HEADER));
    }
    let (stored, raw) = (block.header.stored_bytes, block.header.raw_bytes);
    let work = u64::from(stored) / STORED_BYTES_PER_UNIT + u64::from(raw) / RAW_BYTES_PER_UNIT;
    turn.spend(BLOCK_WORK + work)?;
    let (mut stored_charge, mut charge) = (budget.charge(), budget.charge());
    stored_charge.draw(stored.into())?;
    charge.draw(raw.into())?;
    let mut packed = Vec::with_capacity(stored as usize);
    let mut limited = source.by_ref().take(stored.into());
    limited.read_to_end(&mut packed)?;
    if packed.len() as u64 != u64::from(stored) {
        return Err(Fault::Damaged(CUT_BLOCK));
    }
    if crc32fast::hash(&packed) != block.header.payload_sum {
        return Err(Fault::Damaged(BAD_SUM));
    }
    let value = unpack(&packed, raw).ok_or(Fault::Damaged(BAD_PACKING))?;
    Ok(Drawn { value, charge })
}

/// Unpacks bytes that are to be so many; none if they are more, fewer or damaged.
fn unpack(packed: &[u8], raw_bytes: u32) -> Option<Vec<u8>> {
    // In one piece: frames that come in parts may ask for a window of any size.
    let mut raw = Vec::with_capacity(raw_bytes as usize);
    let mut decoder = zstd::bulk::Decompressor::new().ok()?;
    decoder.decompress_to_buffer(packed, &mut raw).ok()?;
    (raw.len() == raw_bytes as usize).then_some(raw)
}
