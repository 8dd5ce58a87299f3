//! DRAM banks of the first device: a thousand blocks and the holes between them.

use super::super::{NOW, World, ago};
use super::l1::sizes;
use std::cmp::Reverse;
use ttmem_report::{Block, BlockMap, DeviceKey, HexId, MemoryClass, SCHEMA, Stretch};

const CELLS: u64 = 4096;
/// Where the runtime's own part of a bank ends.
const BASE: u64 = 0x8_0000;
const HOLES: u64 = 23;
/// A hole lies behind every so many blocks.
const BLOCKS_PER_HOLE: usize = 55;
const LISTED: usize = 64;

impl World {
    pub(super) fn blocks_of_dram(self) -> Option<(DeviceKey, BlockMap)> {
        if self.devices == 0 {
            return None;
        }
        let device = self.device(0);
        let banks = device.dram.banks?;
        let per_bank = device.dram.capacity_bytes? / u64::from(banks);
        let taken = device.dram.charged_bytes / u64::from(banks);
        let largest = device.dram.largest_free_bytes_per_bank?;
        let mut holes = sizes(per_bank - taken - largest, HOLES);
        holes.insert(holes.len() / 2, largest);
        let mut blocks = Vec::new();
        let mut free = Vec::new();
        let mut address = BASE;
        let mut holes = holes.into_iter();
        for (place, size_bytes) in (0..).zip(sizes(taken, device.dram.buffers)) {
            if place % BLOCKS_PER_HOLE == 1 {
                let hole = holes.next().unwrap_or(0);
                free.push(stretch(address, hole));
                address += hole;
            }
            blocks.push(self.dram_block(place, address, size_bytes));
            address += size_bytes;
        }
        let rest: u64 = holes.sum();
        free.push(stretch(address, rest));
        free.retain(|hole| hole.size_bytes > 0);
        let cells = (0..CELLS)
            .map(|cell| taken_between(&blocks, edge(per_bank, cell), edge(per_bank, cell + 1)));
        let cells = cells.collect();
        let free_count = u64::try_from(free.len()).expect("few");
        free.sort_by_key(|hole| Reverse(hole.size_bytes));
        blocks.sort_by_key(|block| Reverse(block.size_bytes));
        blocks.truncate(LISTED);
        let map = BlockMap {
            schema: SCHEMA,
            time: NOW,
            device: device.id,
            class: MemoryClass::Dram,
            banks: Some(banks),
            base: Some(BASE),
            per_bank_bytes: Some(per_bank),
            cells,
            largest: blocks,
            free,
            free_count,
            free_bytes: Some(per_bank - taken),
        };
        Some((device.key(), map))
    }

    fn dram_block(self, place: usize, address: u64, size_bytes: u64) -> Block {
        let number = u32::try_from(place).expect("few");
        let usual = ["ttnn::from_torch", "ttnn::embedding", "ttnn::matmul"];
        Block {
            address,
            size_bytes,
            class: MemoryClass::Dram,
            pid: Some(70_100),
            mesh: Some(1),
            buffer: HexId(0x6600_0000 + u64::from(number)),
            operation: Some(self.name(usual[place % 3], number)),
            line: None,
            time: Some(ago(5 + u64::from(number) * 3)),
        }
    }
}

fn stretch(address: u64, size_bytes: u64) -> Stretch {
    Stretch {
        address,
        size_bytes,
    }
}

fn edge(per_bank: u64, cell: u64) -> u64 {
    BASE + per_bank * cell / CELLS
}

fn taken_between(blocks: &[Block], from: u64, to: u64) -> u64 {
    let end = |block: &Block| block.address + block.size_bytes;
    let first = blocks.partition_point(|block| end(block) <= from);
    let reaching = blocks[first..]
        .iter()
        .take_while(|block| block.address < to);
    let inside = |block: &Block| end(block).min(to) - block.address.max(from);
    reaching.map(inside).sum()
}

#[cfg(test)]
mod tests {
    use crate::testing::world::all;

    #[test]
    fn cells_and_holes_add_up_to_the_bank() {
        for (world, data) in all() {
            let Some(map) = &data.blocks else { continue };
            let map = &map.document.1;
            let taken: u64 = map.cells.iter().sum();
            let free: u64 = map.free.iter().map(|hole| hole.size_bytes).sum();
            assert_eq!(Some(free), map.free_bytes, "{world}");
            assert_eq!(Some(taken + free), map.per_bank_bytes, "{world}");
            assert_eq!(
                map.free.first().map(|hole| hole.size_bytes),
                data.devices()[0].dram.largest_free_bytes_per_bank,
                "{world}"
            );
        }
    }
}
