//! Where the blocks of a recording are.

use crate::bytes::{Cursor, put_number};
use crate::format::{BlockHeader, BlockKind};

/// A block and where it begins.
#[derive(Clone, Copy, Debug)]
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

    /// The number of the last state at or before a place in the order, given by `is_before`.
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

    /// Reads an index; none if it is out of order, which no writer's is.
    pub(crate) fn get(cursor: &mut Cursor<'_>) -> Option<Self> {
        let mut offset = 0_u64;
        let blocks = cursor.list(|cursor| {
            offset = offset.checked_add(cursor.number()?)?;
            let header = BlockHeader::decode(cursor.take(64)?.try_into().ok()?)?;
            Some(BlockPlace { offset, header })
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
