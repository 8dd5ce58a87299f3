//! Where a program's storage lies in the L1 of its cores.
//!
//! The runtime keeps one stack per distinct core range, made when the range is first seen. A
//! buffer lies at one address on all of its cores: above the stacks of its own ranges, and it
//! raises every stack whose range it meets, so that ranges which partly overlap leave gaps.

use super::error::ProgramError;
use super::ranges::{CoreRanges, intersect};
use ttmem_event::CoreRange;

/// The storage of the cores of one range, from the base upwards.
#[derive(Debug)]
struct Stack {
    range: CoreRange,
    /// `(first, end)`, ascending; the first begins at the base and may be empty.
    regions: Vec<(u64, u64)>,
}

impl Stack {
    fn end(&self) -> u64 {
        self.regions.last().map_or(0, |region| region.1)
    }

    /// Puts a buffer on top, next to the last region or above it.
    fn mark(&mut self, address: u64, size: u64, base: u64) -> Result<(), ProgramError> {
        if self.regions.is_empty() {
            self.regions.push((base, base));
        }
        let after = address.saturating_add(size);
        match self.regions.last_mut() {
            Some((first, end)) if address < *end => Err(ProgramError::BelowLastRegion {
                address,
                first: *first,
                end: *end,
            }),
            Some((_, end)) if address == *end => {
                *end = after;
                Ok(())
            }
            _ => {
                self.regions.push((address, after));
                Ok(())
            }
        }
    }
}

/// From where, and how finely, buffers are placed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ground {
    pub(super) base: u64,
    pub(super) alignment: u64,
}

impl Ground {
    /// The first address a buffer may have above stacks that end there.
    ///
    /// Saturates: such storage is then refused as beyond L1.
    fn above(self, ends: impl Iterator<Item = u64>) -> u64 {
        ends.fold(self.base, u64::max)
            .checked_next_multiple_of(self.alignment)
            .unwrap_or(u64::MAX)
    }
}

/// The stacks of a program, in the order in which their ranges were first seen.
#[derive(Debug, Default)]
pub(super) struct Layout {
    stacks: Vec<Stack>,
}

impl Layout {
    /// Makes the stacks of ranges that have none yet.
    pub(super) fn cover(&mut self, cores: &CoreRanges) {
        for range in cores.iter() {
            if self.stacks.iter().all(|stack| stack.range != range) {
                self.stacks.push(Stack {
                    range,
                    regions: Vec::new(),
                });
            }
        }
    }

    /// Places a circular or dataflow buffer; its ranges are covered.
    pub(super) fn place_buffer(
        &mut self,
        cores: &CoreRanges,
        size: u64,
        ground: Ground,
    ) -> Result<u64, ProgramError> {
        let own = |stack: &&Stack| cores.iter().any(|range| range == stack.range);
        let address = ground.above(self.stacks.iter().filter(own).map(Stack::end));
        for range in cores.iter() {
            for stack in &mut self.stacks {
                if !intersect(stack.range, range) {
                    continue;
                }
                // A neighbour may have been raised further already, by this buffer's other ranges
                // or by a buffer that does not meet them.
                if stack.range != range && address < stack.end() {
                    continue;
                }
                stack.mark(address, size, ground.base)?;
            }
        }
        Ok(address)
    }

    /// Places a scratchpad: above every stack it meets, not only above those of its own ranges.
    pub(super) fn place_scratchpad(
        &mut self,
        cores: &CoreRanges,
        size: u64,
        ground: Ground,
    ) -> Result<u64, ProgramError> {
        let meets = |stack: &Stack| cores.iter().any(|range| intersect(stack.range, range));
        let touched = self.stacks.iter().filter(|stack| meets(stack));
        let address = ground.above(touched.map(Stack::end));
        for stack in self.stacks.iter_mut().filter(|stack| meets(stack)) {
            stack.mark(address, size, ground.base)?;
        }
        Ok(address)
    }

    /// Empties the stacks; their ranges stay.
    pub(super) fn reset(&mut self) {
        for stack in &mut self.stacks {
            stack.regions.clear();
        }
    }

    /// Each range that has storage, with the end of it.
    pub(super) fn ends(&self) -> impl Iterator<Item = (CoreRange, u64)> + '_ {
        self.stacks
            .iter()
            .filter(|stack| !stack.regions.is_empty())
            .map(|stack| (stack.range, stack.end()))
    }

    /// The end of the storage on exactly that range; 0 if there is none.
    pub(super) fn end_of(&self, range: CoreRange) -> u64 {
        self.stacks
            .iter()
            .find(|stack| stack.range == range)
            .map_or(0, Stack::end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No order of buffers leads here, since a buffer begins above the stacks of its own ranges;
    /// the runtime checks it nevertheless, and so does the model.
    #[test]
    fn a_stack_only_grows() {
        let mut stack = Stack {
            range: CoreRange::grid(8, 8),
            regions: Vec::new(),
        };
        stack.mark(1024, 512, 1000).unwrap();
        stack.mark(1536, 64, 1000).unwrap();
        assert_eq!(stack.regions, [(1000, 1000), (1024, 1600)]);
        assert_eq!(
            stack.mark(1568, 32, 1000).unwrap_err().to_string(),
            "Local buffer address 1568 has to append to last L1 region [1024, 1600) \
             or be at a higher address"
        );
        assert_eq!(stack.end(), 1600);
    }

    #[test]
    fn addresses_beyond_all_memory_saturate() {
        let ground = Ground {
            base: 64,
            alignment: 64,
        };
        let cores = CoreRanges::grid(1, 1);
        let mut layout = Layout::default();
        layout.cover(&cores);
        assert_eq!(layout.place_buffer(&cores, u64::MAX, ground), Ok(64));
        assert_eq!(layout.place_buffer(&cores, 1, ground), Ok(u64::MAX));
        assert_eq!(layout.place_scratchpad(&cores, 1, ground), Ok(u64::MAX));
        assert_eq!(layout.end_of(CoreRange::grid(1, 1)), u64::MAX);
    }
}
