//! Where a program's per-core storage ends, and why the runtime refuses it.
//!
//! The runtime keeps the end of storage for each range of cores that storage was asked
//! for on. When it checks them, in the order in which they were first asked for, it
//! refuses the first that ends above the lowest buffer of L1 or above L1 itself; so its
//! figures are those of that range, which need not be the one that ends highest.

use ttmem_event::{ClashKind, CoreRange, CoreSet};
use ttmem_ring::heap::Heap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Clash {
    pub(crate) kind: ClashKind,
    pub(crate) cores: CoreSet,
    pub(crate) region_end: u64,
    pub(crate) limit: u64,
}

/// The storage of a program: ranges of cores with the end of what lies on them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Regions {
    storage: Vec<(CoreRange, u64)>,
}

impl Regions {
    /// Begins anew: the program places its storage again.
    pub(crate) fn clear(&mut self) {
        self.storage.clear();
    }

    /// Adds storage on ranges of cores; the same on another device changes nothing.
    pub(crate) fn add(&mut self, ranges: &[CoreRange], end: u64) {
        for &range in ranges {
            if self.storage.contains(&(range, end)) {
                continue;
            }
            if self.storage.try_reserve(1).is_err() {
                return Heap::exhaust();
            }
            self.storage.push((range, end));
        }
    }

    /// Where the storage on a range of cores ends.
    fn end_on(&self, range: CoreRange) -> u64 {
        let touching = self.storage.iter().filter(|(other, _)| meet(range, *other));
        touching.map(|(_, end)| *end).max().unwrap_or_default()
    }

    /// The first range that meets the lowest buffer or the end of L1; none if each fits.
    pub(crate) fn first_clash(&self, lowest: Option<u64>, l1_end: u64) -> Option<Clash> {
        self.storage.iter().find_map(|&(range, _)| {
            let region_end = self.end_on(range);
            let (kind, limit) = if region_end > l1_end {
                (ClashKind::BeyondL1, l1_end)
            } else {
                let lowest = lowest.filter(|lowest| *lowest < region_end)?;
                (ClashKind::L1Buffer, lowest)
            };
            clash(kind, range, region_end, limit)
        })
    }

    /// The first range with cores outside of a grid; none if all are inside.
    pub(crate) fn first_outside(&self, columns: u64, rows: u64, l1_end: u64) -> Option<Clash> {
        self.storage.iter().find_map(|&(range, _)| {
            let outside = u64::from(range.x_last) >= columns || u64::from(range.y_last) >= rows;
            let region_end = self.end_on(range);
            let clash = clash(ClashKind::OutsideGrid, range, region_end, l1_end);
            clash.filter(|_clash| outside)
        })
    }
}

fn clash(kind: ClashKind, range: CoreRange, region_end: u64, limit: u64) -> Option<Clash> {
    Some(Clash {
        kind,
        cores: CoreSet::from_ranges([range]).ok()?,
        region_end,
        limit,
    })
}

fn meet(one: CoreRange, other: CoreRange) -> bool {
    one.x_first <= other.x_last
        && other.x_first <= one.x_last
        && one.y_first <= other.y_last
        && other.y_first <= one.y_last
}

#[cfg(test)]
mod tests {
    use super::*;

    const L1_END: u64 = 1_499_136;

    fn range(x_first: u16, y_first: u16, x_last: u16, y_last: u16) -> CoreRange {
        CoreRange {
            x_first,
            y_first,
            x_last,
            y_last,
        }
    }

    fn found(clash: Option<Clash>) -> Option<(ClashKind, Vec<CoreRange>, u64, u64)> {
        let as_tuple = |clash: Clash| {
            (
                clash.kind,
                clash.cores.ranges(),
                clash.region_end,
                clash.limit,
            )
        };
        clash.map(as_tuple)
    }

    #[test]
    fn storage_that_fits_is_no_clash() {
        let mut regions = Regions::default();
        regions.add(&[range(0, 0, 7, 7)], 300_000);
        assert_eq!(regions.first_clash(Some(300_000), L1_END), None);
        assert_eq!(regions.first_clash(None, 300_000), None);
        assert_eq!(regions.first_outside(8, 8, L1_END), None);
    }

    #[test]
    fn the_first_range_that_does_not_fit_counts_not_the_one_that_ends_highest() {
        let mut regions = Regions::default();
        let (small, low, high) = (range(0, 0, 0, 0), range(1, 0, 3, 0), range(4, 0, 7, 0));
        regions.add(&[small], 150_000);
        regions.add(&[low, high], 250_000);
        regions.add(&[high], 400_000);
        let clash = found(regions.first_clash(Some(200_000), L1_END));
        let expected = (ClashKind::L1Buffer, vec![low], 250_000, 200_000);
        assert_eq!(clash, Some(expected));
        let clash = found(regions.first_clash(None, 300_000));
        let expected = (ClashKind::BeyondL1, vec![high], 400_000, 300_000);
        assert_eq!(clash, Some(expected));
    }

    #[test]
    fn storage_on_cores_of_a_range_raises_its_end() {
        let mut regions = Regions::default();
        let (all, one) = (range(0, 0, 7, 7), range(2, 2, 2, 2));
        regions.add(&[all], 110_000);
        regions.add(&[one], 120_000);
        let clash = found(regions.first_clash(Some(115_000), L1_END));
        let expected = (ClashKind::L1Buffer, vec![all], 120_000, 115_000);
        assert_eq!(clash, Some(expected));
        regions.clear();
        assert_eq!(regions.first_clash(Some(0), L1_END), None);
    }

    #[test]
    fn cores_outside_of_the_grid_are_found() {
        let mut regions = Regions::default();
        let outside = range(7, 7, 7, 8);
        regions.add(&[range(0, 0, 7, 7), outside], 110_000);
        let clash = found(regions.first_outside(8, 8, L1_END));
        let expected = (ClashKind::OutsideGrid, vec![outside], 110_000, L1_END);
        assert_eq!(clash, Some(expected));
    }
}
