//! The blocks of a bank in address order, searchable by size from both ends.
//!
//! Owns the tiling: blocks follow each other without gaps and no two free ones
//! touch. The free list above it decides what to take and give back.
//!
//! The blocks lie in short runs, each of which knows its largest hole. A search
//! looks at one number per run and then into one run, so it stays cheap among
//! thousands of holes that are all a little too small: neither a map by address
//! nor one by size alone can find the lowest or highest hole that fits without
//! visiting them one by one.

use super::free_list::Block;

/// A run is split in two when it grows beyond this many blocks.
///
/// Small enough to scan within a few cache lines, large enough that a few
/// thousand blocks make fewer than a hundred runs.
const RUN_BLOCKS: usize = 64;

/// Blocks in address order.
#[derive(Clone, Debug, Default)]
pub(super) struct BlockList {
    runs: Vec<Run>,
}

/// Neighbouring blocks; never empty.
#[derive(Clone, Debug)]
struct Run {
    blocks: Vec<Block>,
    largest_free: u64,
}

/// Where a block is. Valid until the list changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    run: usize,
    index: usize,
}

impl Run {
    fn new(blocks: Vec<Block>) -> Self {
        let mut run = Self {
            blocks,
            largest_free: 0,
        };
        run.measure();
        run
    }

    fn measure(&mut self) {
        let hole = |block: &Block| if block.allocated { 0 } else { block.size };
        self.largest_free = self.blocks.iter().map(hole).max().unwrap_or(0);
    }
}

fn fits(block: &Block, size: u64) -> bool {
    !block.allocated && block.size >= size
}

impl BlockList {
    /// A list of this one block; of none if it is empty.
    pub(super) fn new(block: Block) -> Self {
        let mut list = Self::default();
        list.push_front(block);
        list
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Block> {
        self.runs.iter().flat_map(|run| run.blocks.iter().copied())
    }

    pub(super) fn largest_free(&self) -> u64 {
        self.runs
            .iter()
            .map(|run| run.largest_free)
            .max()
            .unwrap_or(0)
    }

    /// The free block of at least `size` bytes at the lowest address.
    pub(super) fn lowest_fit(&self, size: u64) -> Option<Position> {
        let run = self.runs.iter().position(|run| run.largest_free >= size)?;
        let mut blocks = self.runs[run].blocks.iter();
        let index = blocks.position(|block| fits(block, size))?;
        Some(Position { run, index })
    }

    /// The free block of at least `size` bytes at the highest address.
    pub(super) fn highest_fit(&self, size: u64) -> Option<Position> {
        let run = self.runs.iter().rposition(|run| run.largest_free >= size)?;
        let mut blocks = self.runs[run].blocks.iter();
        let index = blocks.rposition(|block| fits(block, size))?;
        Some(Position { run, index })
    }

    /// The block that begins at `address`.
    pub(super) fn find(&self, address: u64) -> Option<Position> {
        let behind = |run: &Run| run.blocks.first().is_some_and(|b| b.address <= address);
        let run = self.runs.partition_point(behind).checked_sub(1)?;
        let blocks = &self.runs[run].blocks;
        let index = blocks
            .binary_search_by_key(&address, |block| block.address)
            .ok()?;
        Some(Position { run, index })
    }

    pub(super) fn get(&self, at: Position) -> Block {
        self.runs[at.run].blocks[at.index]
    }

    /// Takes the lowest `size` bytes of the free block at `at`; returns their address.
    pub(super) fn take_low(&mut self, at: Position, size: u64) -> u64 {
        let hole = self.get(at);
        let taken = Block {
            address: hole.address,
            size,
            allocated: true,
        };
        let rest = Block {
            address: hole.address + size,
            size: hole.size - size,
            allocated: false,
        };
        self.split(at, taken, rest);
        taken.address
    }

    /// Takes the highest `size` bytes of the free block at `at`; returns their address.
    pub(super) fn take_high(&mut self, at: Position, size: u64) -> u64 {
        let hole = self.get(at);
        let rest = Block {
            size: hole.size - size,
            ..hole
        };
        let taken = Block {
            address: hole.address + rest.size,
            size,
            allocated: true,
        };
        self.split(at, rest, taken);
        taken.address
    }

    /// Marks the block at `at` free and joins it with its free neighbours.
    pub(super) fn release(&mut self, at: Position) {
        let mut hole = Block {
            allocated: false,
            ..self.get(at)
        };
        let mut first = at;
        // The later neighbour goes first: that leaves the positions before it valid.
        if let Some(next) = self.next(at).filter(|next| !self.get(*next).allocated) {
            hole.size += self.get(next).size;
            self.runs[next.run].blocks.remove(next.index);
            self.runs[next.run].measure();
        }
        if let Some(previous) = self.previous(at).filter(|p| !self.get(*p).allocated) {
            let before = self.get(previous);
            hole.address = before.address;
            hole.size += before.size;
            self.runs[at.run].blocks.remove(at.index);
            self.runs[at.run].measure();
            first = previous;
        }
        let run = &mut self.runs[first.run];
        run.blocks[first.index] = hole;
        run.measure();
        self.compact(at.run);
    }

    /// Takes `bytes` off the front of the first block; false, and unchanged, unless it is
    /// free and has them.
    pub(super) fn cut_front(&mut self, bytes: u64) -> bool {
        let Some(run) = self.runs.first_mut() else {
            return false;
        };
        let first = &mut run.blocks[0];
        if !fits(first, bytes) {
            return false;
        }
        first.address += bytes;
        first.size -= bytes;
        if first.size == 0 {
            run.blocks.remove(0);
        }
        run.measure();
        self.compact(0);
        true
    }

    /// Puts a free block before all others, joined with the first if that is free too.
    pub(super) fn push_front(&mut self, block: Block) {
        if block.size == 0 {
            return;
        }
        let Some(run) = self.runs.first_mut() else {
            self.runs.push(Run::new(vec![block]));
            return;
        };
        let first = &mut run.blocks[0];
        if first.allocated {
            run.blocks.insert(0, block);
        } else {
            first.address = block.address;
            first.size += block.size;
        }
        run.measure();
        self.split_long(0);
    }

    /// Replaces the block at `at` by two, or by the one of them that is not empty.
    fn split(&mut self, at: Position, low: Block, high: Block) {
        let run = &mut self.runs[at.run];
        if low.size == 0 {
            run.blocks[at.index] = high;
        } else {
            run.blocks[at.index] = low;
            if high.size > 0 {
                run.blocks.insert(at.index + 1, high);
            }
        }
        run.measure();
        self.split_long(at.run);
    }

    fn next(&self, at: Position) -> Option<Position> {
        let next = if at.index + 1 < self.runs[at.run].blocks.len() {
            Position {
                index: at.index + 1,
                ..at
            }
        } else {
            Position {
                run: at.run + 1,
                index: 0,
            }
        };
        (next.run < self.runs.len()).then_some(next)
    }

    fn previous(&self, at: Position) -> Option<Position> {
        if let Some(index) = at.index.checked_sub(1) {
            return Some(Position { index, ..at });
        }
        let run = at.run.checked_sub(1)?;
        let index = self.runs[run].blocks.len().checked_sub(1)?;
        Some(Position { run, index })
    }

    fn split_long(&mut self, at: usize) {
        let blocks = &mut self.runs[at].blocks;
        if blocks.len() <= RUN_BLOCKS {
            return;
        }
        let upper = blocks.split_off(blocks.len() / 2);
        self.runs[at].measure();
        self.runs.insert(at + 1, Run::new(upper));
    }

    /// Drops empty runs and joins short ones, after blocks went away in run `at` or next to it.
    fn compact(&mut self, at: usize) {
        let first = at.saturating_sub(1);
        // From the back: what goes away must not move what is still to be looked at.
        for left in (first..=at + 1).rev() {
            if self.runs.get(left).is_some_and(|run| run.blocks.is_empty()) {
                self.runs.remove(left);
            }
        }
        for left in (first..=at + 1).rev() {
            let Some(right) = self.runs.get(left + 1) else {
                continue;
            };
            // Half full only: the next split must not come right away.
            if self.runs[left].blocks.len() + right.blocks.len() > RUN_BLOCKS / 2 {
                continue;
            }
            let right = self.runs.remove(left + 1);
            let run = &mut self.runs[left];
            run.blocks.extend(right.blocks);
            run.largest_free = run.largest_free.max(right.largest_free);
        }
    }
}

#[cfg(test)]
impl BlockList {
    /// Checks what every search relies on; returns how many runs there are.
    pub(super) fn audit(&self) -> usize {
        for run in &self.runs {
            assert!((1..=RUN_BLOCKS).contains(&run.blocks.len()), "{run:?}");
            let mut measured = run.clone();
            measured.measure();
            assert_eq!(measured.largest_free, run.largest_free, "{run:?}");
        }
        for (low, high) in self.iter().zip(self.iter().skip(1)) {
            assert_eq!(low.address + low.size, high.address, "{low:?} {high:?}");
            assert!(low.allocated || high.allocated, "{low:?} {high:?}");
        }
        for pair in self.runs.windows(2) {
            let blocks = pair[0].blocks.len() + pair[1].blocks.len();
            assert!(blocks > RUN_BLOCKS / 2, "two short runs side by side");
        }
        self.runs.len()
    }
}
