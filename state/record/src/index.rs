//! Where the blocks of a recording are.

use crate::bytes::{Cursor, put_number};
use crate::format::{BLOCK_HEADER_BYTES, BlockHeader, BlockKind};

/// A block and where it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockPlace {
    pub(crate) offset: u64,
    pub(crate) header: BlockHeader,
}

/// Inputs and states, in the order of the file; notes are read once.
#[derive(Debug, Default)]
pub(crate) struct Index {
    pub(crate) blocks: Vec<BlockPlace>,
}

impl Index {
    pub(crate) fn push(&mut self, block: BlockPlace) {
        if matches!(block.header.kind, BlockKind::Inputs | BlockKind::State) {
            self.blocks.push(block);
        }
    }

    /// The numbers of the states at or before a place in the order, given by `is_before`, the last first.
    pub(crate) fn states_before(
        &self,
        is_before: impl Fn(&BlockHeader) -> bool,
    ) -> impl Iterator<Item = usize> {
        // Times and events only grow, so those before are at the front.
        let end = self
            .blocks
            .partition_point(|block| is_before(&block.header));
        let states = (0..end).rev();
        states.filter(|number| self.blocks[*number].header.kind == BlockKind::State)
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        put_number(out, self.blocks.len() as u64);
        let mut before = 0;
        for block in &self.blocks {
            put_number(out, block.offset - before);
            before = block.offset;
            out.extend_from_slice(&block.header.encode());
        }
    }

    /// Reads an index of what lies in front of an offset; none if it is out of order or has more, which no
    /// writer's does.
    pub(crate) fn get(cursor: &mut Cursor<'_>, end: u64) -> Option<Self> {
        let mut offset = 0_u64;
        let most = end / BLOCK_HEADER_BYTES as u64;
        let blocks = cursor.list_up_to(most, |cursor| {
            offset = offset.checked_add(cursor.number()?)?;
            let header = cursor.take(BLOCK_HEADER_BYTES)?;
            let header = BlockHeader::decode(header.try_into().ok()?)?;
            let behind = offset.checked_add(header.bytes())?;
            (behind <= end).then_some(BlockPlace { offset, header })
        })?;
        let in_order = blocks.windows(2).all(|pair| follows(&pair[0], &pair[1]));
        in_order.then_some(Self { blocks })
    }
}

/// Whether a block can come after another.
pub(crate) fn follows(before: &BlockPlace, next: &BlockPlace) -> bool {
    let end = before.offset.checked_add(before.header.bytes());
    end.is_some_and(|end| next.offset >= end)
        && next.header.first_time >= before.header.last_time
        && (next.header.is_start || next.header.first_event >= before.header.last_event)
}
