//! One bank by address: what is free, and what to release so that a request fits.

use crate::explain::moment::{BlockTable, Caller};
use crate::explain::{holders, words};
use crate::{HeldBlock, MapRow, Release};
use std::cmp::Reverse;
use std::ops::Range;

/// Blocks of a release that are listed; beyond, only their number is of use.
const MAX_RELEASED: usize = 64;

/// Blocks that are shown on either side of a release.
const NEIGHBOURS: usize = 2;

/// Rows that a map keeps on either side where it is cut.
const MAP_EDGE: usize = 6;

/// The blocks of a bank in the order of their addresses, none of them overlapping.
#[derive(Debug)]
pub(crate) struct Bank<'a> {
    base: u64,
    end: u64,
    blocks: Vec<&'a HeldBlock>,
}

impl<'a> Bank<'a> {
    /// Blocks that are empty, overlap another or lie outside the bank are left out: a table from
    /// outside can claim anything.
    pub(crate) fn new(table: &'a BlockTable) -> Self {
        let end = table.base.saturating_add(table.bank_bytes);
        let mut sorted: Vec<&HeldBlock> = table.blocks.iter().collect();
        sorted.sort_by_key(|block| (block.address, Reverse(block.size_bytes)));
        let mut free_from = table.base;
        sorted.retain(|block| {
            let fits = block.size_bytes > 0
                && block.address >= free_from
                && block.size_bytes <= end.saturating_sub(block.address);
            if fits {
                free_from = block.address + block.size_bytes;
            }
            fits
        });
        Self {
            base: table.base,
            end,
            blocks: sorted,
        }
    }

    pub(crate) fn blocks(&self) -> &[&'a HeldBlock] {
        &self.blocks
    }

    pub(crate) fn allocated_bytes(&self) -> u64 {
        self.blocks.iter().map(|block| block.size_bytes).sum()
    }

    pub(crate) fn free_bytes(&self) -> u64 {
        self.end - self.base - self.allocated_bytes()
    }

    pub(crate) fn largest_free_bytes(&self) -> u64 {
        let free = (0..=self.blocks.len()).map(|at| self.span(&(at..at)));
        free.map(|span| span.end - span.start).max().unwrap_or(0)
    }

    /// From the base to the end of the highest block.
    pub(crate) fn extent_upwards(&self) -> u64 {
        self.span(&(self.blocks.len()..self.blocks.len())).start - self.base
    }

    /// From the lowest block to the end of the bank.
    pub(crate) fn extent_downwards(&self) -> u64 {
        self.end - self.span(&(0..0)).end
    }

    /// What is free in one piece when a run of blocks is released.
    fn span(&self, run: &Range<usize>) -> Range<u64> {
        let before = run.start.checked_sub(1).map(|at| self.blocks[at]);
        let start = before.map_or(self.base, |block| block.address + block.size_bytes);
        let end = self
            .blocks
            .get(run.end)
            .map_or(self.end, |block| block.address);
        start..end
    }

    /// The run of neighbours with the fewest bytes, then the fewest blocks, whose release makes room
    /// for a request; an empty run where there is room already. No block that stays is in it.
    ///
    /// Of runs that are alike, that of the owners who hold most, then the youngest, then the lowest: a
    /// leak rather than an operand of the call that failed.
    ///
    /// A longer run never makes less room and a later start never makes more, so both ends of the
    /// window only move up.
    pub(crate) fn smallest_release(
        &self,
        need: u64,
        alignment: u64,
        stays: impl Fn(usize) -> bool,
    ) -> Option<Range<usize>> {
        let fits = |run: &Range<usize>| {
            let span = self.span(run);
            let start = span.start.checked_next_multiple_of(alignment.max(1));
            let end = start.and_then(|start| start.checked_add(need));
            end.is_some_and(|end| end <= span.end)
        };
        let ranks = Ranks::new(&self.blocks);
        let mut best = None;
        let mut run = 0..0;
        let mut bytes = 0;
        loop {
            while !fits(&run) {
                let Some(next) = self.blocks.get(run.end) else {
                    return best.map(|(_cost, run)| run);
                };
                run.end += 1;
                if stays(run.end - 1) {
                    run.start = run.end;
                    bytes = 0;
                } else {
                    bytes += next.size_bytes;
                }
            }
            let cost = (bytes, run.len(), Reverse(ranks.of(&run)));
            if best.as_ref().is_none_or(|(least, _run)| cost < *least) {
                best = Some((cost, run.clone()));
            }
            if run.start == self.blocks.len() {
                return best.map(|(_cost, run)| run);
            }
            if run.is_empty() {
                // Whether its next block stays or not, it is behind.
                run.end += 1;
            } else {
                bytes -= self.blocks[run.start].size_bytes;
            }
            run.start += 1;
        }
    }

    pub(crate) fn release(&self, run: &Range<usize>, caller: &Caller) -> Release {
        let span = self.span(run);
        let released = &self.blocks[run.clone()];
        let listed = released.iter().take(MAX_RELEASED);
        Release {
            address: span.start,
            free_bytes: span.end - span.start,
            buffers: released.len() as u64,
            bytes_per_bank: released.iter().map(|block| block.size_bytes).sum(),
            blocks: listed.map(|block| (*block).clone()).collect(),
            unless: words::unless(caller, released.len() as u64),
        }
    }

    /// The bank around a run: its blocks, their neighbours, and what is free between them; all that lies
    /// below, and all above, in one row.
    pub(crate) fn map(&self, run: &Range<usize>) -> Vec<MapRow> {
        let first = run.start.saturating_sub(NEIGHBOURS);
        let last = run.end.saturating_add(NEIGHBOURS).min(self.blocks.len());
        let mut rows = Vec::new();
        for at in first..=last {
            let free = self.span(&(at..at));
            if !free.is_empty() {
                rows.push(MapRow {
                    address: free.start,
                    size_bytes: free.end - free.start,
                    owner: None,
                    in_release: false,
                    stands_for: 1,
                });
            }
            if at < last {
                let block = self.blocks[at];
                rows.push(MapRow {
                    address: block.address,
                    size_bytes: block.size_bytes,
                    owner: Some(block.owner.clone()),
                    in_release: run.contains(&at),
                    stands_for: 1,
                });
            }
        }
        let mut map: Vec<MapRow> = self.left_out(0..first, 0..first).into_iter().collect();
        map.extend(shortened(rows));
        let count = self.blocks.len();
        map.extend(self.left_out(last..count, last + 1..count + 1));
        map
    }

    /// Blocks and the free stretches before blocks, in one row; none if there are none.
    fn left_out(&self, blocks: Range<usize>, gaps: Range<usize>) -> Option<MapRow> {
        let left_out = self.blocks.get(blocks)?;
        let block = left_out.first()?;
        let gaps = gaps.map(|at| self.span(&(at..at)));
        let gaps: Vec<Range<u64>> = gaps.filter(|gap| !gap.is_empty()).collect();
        let first_gap = gaps.first().map_or(u64::MAX, |gap| gap.start);
        let bytes = left_out.iter().map(|block| block.size_bytes).sum::<u64>()
            + gaps.iter().map(|gap| gap.end - gap.start).sum::<u64>();
        let stands_for = (left_out.len() + gaps.len()) as u64;
        Some(MapRow {
            address: block.address.min(first_gap),
            size_bytes: bytes,
            // One that stands for itself only is shown as it is.
            owner: Some(if stands_for == 1 {
                block.owner.clone()
            } else {
                crate::BlockOwner::default()
            }),
            in_release: false,
            stands_for,
        })
    }
}

/// How much the owners of a run's blocks hold, and since when they have them, summed up: runs that are
/// compared have as many blocks. Sums up to each block make a run's own a difference.
struct Ranks(Vec<(u128, u128)>);

impl Ranks {
    fn new(blocks: &[&HeldBlock]) -> Self {
        let held = holders::bytes_of_owners(blocks);
        let mut sums = vec![(0, 0)];
        let mut sum = (0, 0);
        for (block, held) in blocks.iter().zip(held) {
            let since = block.owner.since.map_or(0, |since| since.unix_nanos());
            sum = (sum.0 + u128::from(held), sum.1 + u128::from(since));
            sums.push(sum);
        }
        Self(sums)
    }

    fn of(&self, run: &Range<usize>) -> (u128, u128) {
        let (to, from) = (self.0[run.end], self.0[run.start]);
        (to.0 - from.0, to.1 - from.1)
    }
}

/// A long map with its middle in one row.
fn shortened(mut rows: Vec<MapRow>) -> Vec<MapRow> {
    if rows.len() <= 2 * MAP_EDGE + 1 {
        return rows;
    }
    let tail = rows.split_off(rows.len() - MAP_EDGE);
    let middle = rows.split_off(MAP_EDGE);
    rows.push(MapRow {
        address: middle[0].address,
        size_bytes: middle.iter().map(|row| row.size_bytes).sum(),
        owner: Some(crate::BlockOwner::default()),
        in_release: middle.iter().any(|row| row.in_release),
        stands_for: middle.len() as u64,
    });
    rows.extend(tail);
    rows
}

#[cfg(test)]
mod tests;
