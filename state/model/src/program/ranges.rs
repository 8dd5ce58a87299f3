//! Core ranges in the shape and order in which the runtime keeps them.
//!
//! Where storage lies depends on which rectangles its cores were cut into, so sets of cores are
//! not enough for a program. Owned by kernels, circular buffers and semaphores; what is tracked
//! is the [`CoreSet`] of them.

use std::fmt;
use ttmem_event::core::InvalidCoreRange;
use ttmem_event::{CoreRange, CoreSet};

/// Rectangles of cores that do not overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CoreRanges(Vec<CoreRange>);

impl CoreRanges {
    /// The ranges, merged as the runtime does: runs of a row, joined downwards while they repeat.
    ///
    /// A single range stays as it is.
    ///
    /// # Errors
    /// When a range is turned round or leaves the addressable grid.
    pub fn from_ranges(
        ranges: impl IntoIterator<Item = CoreRange>,
    ) -> Result<Self, InvalidCoreRange> {
        let mut merged = CoreSet::from_ranges(ranges)?.ranges();
        // The runtime's set of ranges is ordered by corner, columns first.
        merged.sort_unstable_by_key(|r| (r.x_first, r.y_first, r.x_last, r.y_last));
        Ok(Self(merged))
    }

    /// One range; no core at all if it is turned round or leaves the addressable grid.
    #[must_use]
    pub fn of(range: CoreRange) -> Self {
        Self::from_ranges([range]).unwrap_or_default()
    }

    #[must_use]
    pub fn core(x: u16, y: u16) -> Self {
        Self::of(CoreRange {
            x_first: x,
            y_first: y,
            x_last: x,
            y_last: y,
        })
    }

    /// The rectangle of `columns` × `rows` at the origin; no core at all if it has no extent or
    /// leaves the addressable grid.
    #[must_use]
    pub fn grid(columns: u16, rows: u16) -> Self {
        if columns == 0 || rows == 0 {
            return Self::default();
        }
        Self::of(CoreRange::grid(columns, rows))
    }

    /// The ranges in the runtime's order.
    pub fn iter(&self) -> impl Iterator<Item = CoreRange> + '_ {
        self.0.iter().copied()
    }

    /// The cores as a set.
    #[must_use]
    pub fn set(&self) -> CoreSet {
        CoreSet::from_ranges(self.iter()).expect("only valid ranges get in")
    }

    /// Whether there is no core.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The cores one by one as `(x, y)`, range by range, columns first: the runtime's own walk.
    pub(super) fn cores(&self) -> impl Iterator<Item = (u16, u16)> + '_ {
        self.iter().flat_map(|range| {
            (range.x_first..=range.x_last)
                .flat_map(move |x| (range.y_first..=range.y_last).map(move |y| (x, y)))
        })
    }
}

impl fmt::Display for CoreRanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (place, range) in self.iter().enumerate() {
            let comma = if place == 0 { "" } else { ", " };
            write!(f, "{comma}{}", RangeText(range))?;
        }
        f.write_str("}")
    }
}

/// A range as the runtime prints it: `[0-0 - 7-7]`.
#[derive(Clone, Copy, Debug)]
pub struct RangeText(pub CoreRange);

impl fmt::Display for RangeText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = CoreText(self.0.x_first, self.0.y_first);
        let last = CoreText(self.0.x_last, self.0.y_last);
        write!(f, "[{first} - {last}]")
    }
}

/// A core as the runtime prints it: `0-7`.
#[derive(Clone, Copy, Debug)]
pub(super) struct CoreText(pub(super) u16, pub(super) u16);

impl fmt::Display for CoreText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.0, self.1)
    }
}

/// Whether the two rectangles have a core in common.
pub(super) const fn intersect(a: CoreRange, b: CoreRange) -> bool {
    a.x_first <= b.x_last && b.x_first <= a.x_last && a.y_first <= b.y_last && b.y_first <= a.y_last
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(x_first: u16, y_first: u16, x_last: u16, y_last: u16) -> CoreRange {
        CoreRange {
            x_first,
            y_first,
            x_last,
            y_last,
        }
    }

    #[test]
    fn a_single_range_and_the_empty_set_print_as_the_runtime_does() {
        assert_eq!(RangeText(CoreRange::grid(8, 8)).to_string(), "[0-0 - 7-7]");
        assert_eq!(CoreRanges::grid(8, 8).to_string(), "{[0-0 - 7-7]}");
        assert_eq!(CoreRanges::default().to_string(), "{}");
    }

    #[test]
    fn neighbours_merge_into_one_rectangle() {
        let merged =
            CoreRanges::from_ranges([range(4, 0, 7, 3), range(0, 0, 3, 3), range(0, 4, 7, 7)]);
        assert_eq!(merged, Ok(CoreRanges::grid(8, 8)));
    }

    #[test]
    fn what_cannot_merge_is_cut_by_rows_and_ordered_by_column() {
        // A full top row and a single core below its right end, given in the other order.
        let ranges = CoreRanges::from_ranges([range(0, 1, 4, 1), range(0, 0, 7, 0)]).unwrap();
        assert_eq!(ranges.to_string(), "{[0-0 - 7-0], [0-1 - 4-1]}");
        let columns = CoreRanges::from_ranges([range(5, 0, 5, 0), range(2, 3, 2, 4)]).unwrap();
        assert_eq!(
            columns.iter().collect::<Vec<_>>(),
            [range(2, 3, 2, 4), range(5, 0, 5, 0)]
        );
    }

    #[test]
    fn an_l_shape_is_cut_where_the_row_changes() {
        let ranges = CoreRanges::from_ranges([range(0, 0, 0, 3), range(1, 2, 3, 3)]).unwrap();
        assert_eq!(
            ranges.iter().collect::<Vec<_>>(),
            [range(0, 0, 0, 1), range(0, 2, 3, 3)]
        );
        assert_eq!(ranges.set().len(), 10);
    }

    #[test]
    fn a_range_that_is_none_has_no_cores() {
        for nonsense in [
            range(3, 0, 2, 0),
            range(0, 0, 32, 0),
            range(0, 0, 0, u16::MAX),
        ] {
            assert!(CoreRanges::of(nonsense).is_empty());
            assert_eq!(
                CoreRanges::from_ranges([nonsense]),
                Err(InvalidCoreRange(nonsense))
            );
        }
        assert!(CoreRanges::grid(0, 8).is_empty());
        assert!(CoreRanges::grid(33, 1).is_empty());
        assert!(CoreRanges::grid(8, 0).set().is_empty());
    }

    #[test]
    fn cores_are_walked_columns_first() {
        let ranges = CoreRanges::grid(2, 2);
        assert_eq!(
            ranges.cores().collect::<Vec<_>>(),
            [(0, 0), (0, 1), (1, 0), (1, 1)]
        );
        assert_eq!(CoreRanges::core(3, 1).cores().collect::<Vec<_>>(), [(3, 1)]);
    }

    #[test]
    fn rectangles_that_only_touch_do_not_intersect() {
        assert!(!intersect(range(0, 0, 3, 3), range(4, 0, 7, 3)));
        assert!(!intersect(range(0, 0, 3, 3), range(0, 4, 3, 7)));
        assert!(intersect(range(0, 0, 4, 4), range(4, 4, 7, 7)));
    }
}
