//! One free list over the address range of a bank.
//!
//! All banks of a class hold the same addresses, so one list stands for all of
//! them. Called by the allocator; knows nothing of classes, pages or buffers.
//!
//! The runtime keeps its holes in size classes, but searches all classes that
//! can fit and takes the lowest hole among them (the highest when allocating
//! downwards). That is the lowest or highest fit over all holes, which is what
//! this list does.

use ttmem_event::Direction;

use super::block_list::BlockList;

/// A free list over one address range.
#[derive(Clone, Debug)]
pub struct FreeList {
    /// First address, also while the bottom is cut off.
    base: u64,
    /// Bytes with nothing cut off.
    size: u64,
    alignment: u64,
    /// Bytes cut off at the bottom.
    cut: u64,
    allocated: u64,
    blocks: BlockList,
}

/// A part of the address range that is wholly free or wholly taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// First address.
    pub address: u64,
    /// Bytes; never 0.
    pub size: u64,
    pub allocated: bool,
}

/// Bytes per bank, as the runtime's allocator reports them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    pub total: u64,
    pub allocated: u64,
    /// What is not, in all holes together.
    pub free: u64,
    /// The largest hole: what a single buffer can still get.
    pub largest_free: u64,
}

impl FreeList {
    /// A list whose range is all free.
    ///
    /// A range that would leave the address space ends there; an alignment of 0 is 1.
    #[must_use]
    pub fn new(base: u64, size: u64, alignment: u64) -> Self {
        let size = size.min(u64::MAX - base);
        Self {
            base,
            size,
            alignment: alignment.max(1),
            cut: 0,
            allocated: 0,
            blocks: BlockList::new(Block {
                address: base,
                size,
                allocated: false,
            }),
        }
    }

    /// Takes `size` bytes, rounded up to the alignment; at least one unit of it.
    ///
    /// Bottom-up takes the low end of the lowest hole that fits, top-down the
    /// high end of the highest. `None` if no hole fits.
    pub fn allocate(&mut self, size: u64, direction: Direction) -> Option<u64> {
        let size = size.max(1).checked_next_multiple_of(self.alignment)?;
        let address = match direction {
            Direction::BottomUp => {
                let hole = self.blocks.lowest_fit(size)?;
                self.blocks.take_low(hole, size)
            }
            Direction::TopDown => {
                let hole = self.blocks.highest_fit(size)?;
                self.blocks.take_high(hole, size)
            }
        };
        self.allocated += size;
        Some(address)
    }

    /// Gives back the block at `address` and returns its bytes; `None` if none is taken there.
    pub fn free(&mut self, address: u64) -> Option<u64> {
        let at = self.blocks.find(address)?;
        let block = self.blocks.get(at);
        if !block.allocated {
            return None;
        }
        self.blocks.release(at);
        self.allocated -= block.size;
        Some(block.size)
    }

    /// How full the range is.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let total = self.size - self.cut;
        Statistics {
            total,
            allocated: self.allocated,
            free: total - self.allocated,
            largest_free: self.blocks.largest_free(),
        }
    }

    /// The lowest address that is taken.
    #[must_use]
    pub fn lowest_occupied(&self) -> Option<u64> {
        // Holes never touch, so it is the first block or the second.
        let taken = self.blocks().find(|block| block.allocated)?;
        Some(taken.address)
    }

    /// All blocks in address order, free and taken.
    pub fn blocks(&self) -> impl Iterator<Item = Block> {
        self.blocks.iter()
    }

    /// Takes the lowest `bytes` out of the range; false, and unchanged, if anything lies there.
    pub fn shrink_bottom(&mut self, bytes: u64) -> bool {
        if bytes == 0 {
            return true;
        }
        let cut = self.blocks.cut_front(bytes);
        if cut {
            self.cut += bytes;
        }
        cut
    }

    /// Puts back the lowest `bytes`, at most what was taken out.
    pub fn grow_bottom(&mut self, bytes: u64) {
        let bytes = bytes.min(self.cut);
        self.cut -= bytes;
        self.blocks.push_front(Block {
            address: self.base + self.cut,
            size: bytes,
            allocated: false,
        });
    }
}

#[cfg(test)]
mod tests;
