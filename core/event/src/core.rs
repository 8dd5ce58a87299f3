//! Cores of one device: coordinates, ranges, and sets of them.
//!
//! A [`CoreSet`] is a bitmap over logical coordinates below [`GRID_SIDE`], which
//! is twice the side of the largest grid built so far. Counting, intersecting
//! and walking a set are then a few words of arithmetic, and overlapping ranges
//! from outside cannot be counted twice.

/// Logical coordinates run from 0 to this, exclusive, in both directions.
pub const GRID_SIDE: u16 = 32;

const ROWS: usize = GRID_SIDE as usize;

/// The kinds of programmable cores of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum CoreType {
    Tensix = 0,
    /// Ethernet cores with a trained link.
    ActiveEth = 1,
    /// Ethernet cores without a link, free for dispatch.
    IdleEth = 2,
    /// Cores of the DRAM controllers.
    Dram = 3,
}

impl CoreType {
    /// Every core type, in the order of its number.
    pub const ALL: [Self; 4] = [Self::Tensix, Self::ActiveEth, Self::IdleEth, Self::Dram];

    /// Every core type with its number.
    pub(crate) const VALUES: &'static [(u8, &'static str)] = &[
        (Self::Tensix as u8, Self::Tensix.name()),
        (Self::ActiveEth as u8, Self::ActiveEth.name()),
        (Self::IdleEth as u8, Self::IdleEth.name()),
        (Self::Dram as u8, Self::Dram.name()),
    ];

    /// The name used in JSON and in text.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tensix => "tensix",
            Self::ActiveEth => "active_eth",
            Self::IdleEth => "idle_eth",
            Self::Dram => "dram",
        }
    }
}

/// A rectangle of cores, both corners included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CoreRange {
    pub x_first: u16,
    pub y_first: u16,
    pub x_last: u16,
    pub y_last: u16,
}

impl CoreRange {
    /// The rectangle of `columns` × `rows` cores at the origin.
    #[must_use]
    pub const fn grid(columns: u16, rows: u16) -> Self {
        Self {
            x_first: 0,
            y_first: 0,
            x_last: columns.saturating_sub(1),
            y_last: rows.saturating_sub(1),
        }
    }

    const fn is_valid(self) -> bool {
        self.x_first <= self.x_last
            && self.y_first <= self.y_last
            && self.x_last < GRID_SIDE
            && self.y_last < GRID_SIDE
    }

    fn row_mask(self) -> u32 {
        let width = u32::from(self.x_last - self.x_first) + 1;
        let ones = if width >= 32 {
            u32::MAX
        } else {
            (1 << width) - 1
        };
        ones << self.x_first
    }
}

/// A core range that lies outside the addressable grid or is turned round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "core range [{}-{}, {}-{}] is empty or reaches beyond {GRID_SIDE} × {GRID_SIDE}",
    .0.x_first, .0.y_first, .0.x_last, .0.y_last
)]
pub struct InvalidCoreRange(pub CoreRange);

/// A set of cores of one device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CoreSet {
    rows: [u32; ROWS],
}

impl CoreSet {
    /// The union of `ranges`.
    pub fn from_ranges(
        ranges: impl IntoIterator<Item = CoreRange>,
    ) -> Result<Self, InvalidCoreRange> {
        let mut set = Self::default();
        for range in ranges {
            if !range.is_valid() {
                return Err(InvalidCoreRange(range));
            }
            let mask = range.row_mask();
            for row in &mut set.rows[usize::from(range.y_first)..=usize::from(range.y_last)] {
                *row |= mask;
            }
        }
        Ok(set)
    }

    /// The full rectangle of `columns` × `rows`, cut at the edge of the grid.
    #[must_use]
    pub fn grid(columns: u16, rows: u16) -> Self {
        if columns == 0 || rows == 0 {
            return Self::default();
        }
        let range = CoreRange::grid(columns.min(GRID_SIDE), rows.min(GRID_SIDE));
        let mask = range.row_mask();
        let mut set = Self::default();
        for row in &mut set.rows[..=usize::from(range.y_last)] {
            *row = mask;
        }
        set
    }

    /// Rows that have cores: the number of each, and its columns as bits, the first the lowest.
    pub fn rows(&self) -> impl Iterator<Item = (u8, u32)> + '_ {
        let rows = (0..).zip(self.rows);
        rows.filter(|(_y, columns)| *columns != 0)
    }

    /// Adds cores of a row; one beyond the grid has none.
    pub fn insert_row(&mut self, y: u8, columns: u32) {
        if let Some(row) = self.rows.get_mut(usize::from(y)) {
            *row |= columns;
        }
    }

    /// How many cores are in the set.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.rows.iter().map(|row| row.count_ones()).sum()
    }

    /// Whether no core is in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.iter().all(|row| *row == 0)
    }

    /// Whether the core at column `x`, row `y` is in the set.
    #[must_use]
    pub fn contains(&self, x: u16, y: u16) -> bool {
        x < GRID_SIDE
            && self
                .rows
                .get(usize::from(y))
                .is_some_and(|row| row & (1 << x) != 0)
    }

    /// Adds every core of `other`.
    pub fn insert_all(&mut self, other: &Self) {
        for (row, more) in self.rows.iter_mut().zip(other.rows) {
            *row |= more;
        }
    }

    /// The cores that are in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let mut both = *self;
        for (row, mask) in both.rows.iter_mut().zip(other.rows) {
            *row &= mask;
        }
        both
    }

    /// The cores that are not in `other`.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        let mut rest = *self;
        for (row, mask) in rest.rows.iter_mut().zip(other.rows) {
            *row &= !mask;
        }
        rest
    }

    /// Whether every core of this set is in `other`.
    #[must_use]
    pub fn is_subset(&self, other: &Self) -> bool {
        self.rows
            .iter()
            .zip(other.rows)
            .all(|(row, mask)| row & !mask == 0)
    }

    /// The place of each core in a row-major array of [`GRID_SIDE`] columns, ascending.
    pub fn indices(&self) -> impl Iterator<Item = usize> + '_ {
        self.rows.iter().enumerate().flat_map(|(y, row)| {
            let mut left = *row;
            std::iter::from_fn(move || {
                let x = left.trailing_zeros() as usize;
                left &= left.checked_sub(1)?;
                Some(y * ROWS + x)
            })
        })
    }

    /// Adds the core at a place of a row-major array of [`GRID_SIDE`] columns.
    ///
    /// A place beyond the grid is no core, and adds none.
    pub fn insert_index(&mut self, index: usize) {
        if let Some(row) = self.rows.get_mut(index / ROWS) {
            *row |= 1 << (index % ROWS);
        }
    }

    /// The set as rectangles: runs of a row, joined downwards while they repeat.
    #[must_use]
    pub fn ranges(&self) -> Vec<CoreRange> {
        let mut ranges: Vec<CoreRange> = Vec::new();
        for y in 0..GRID_SIDE {
            let mut row = self.rows[usize::from(y)];
            while row != 0 {
                let x_first = trailing_u16(row);
                let x_last = x_first + trailing_u16(!(row >> x_first)).min(GRID_SIDE) - 1;
                let run = CoreRange {
                    x_first,
                    y_first: y,
                    x_last,
                    y_last: y,
                };
                row &= !run.row_mask();
                let above = ranges.iter_mut().find(|range| {
                    range.x_first == x_first && range.x_last == x_last && range.y_last + 1 == y
                });
                match above {
                    Some(range) => range.y_last = y,
                    None => ranges.push(run),
                }
            }
        }
        ranges
    }
}

fn trailing_u16(bits: u32) -> u16 {
    u16::try_from(bits.trailing_zeros()).expect("a word has at most 32 trailing zeros")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_range() -> impl Strategy<Value = CoreRange> {
        (0..GRID_SIDE, 0..GRID_SIDE, 0..GRID_SIDE, 0..GRID_SIDE).prop_map(|(a, b, c, d)| {
            CoreRange {
                x_first: a.min(c),
                y_first: b.min(d),
                x_last: a.max(c),
                y_last: b.max(d),
            }
        })
    }

    #[test]
    fn overlapping_ranges_count_each_core_once() {
        let set = CoreSet::from_ranges([CoreRange::grid(8, 8), CoreRange::grid(4, 4)]).unwrap();
        assert_eq!(set.len(), 64);
        assert_eq!(set, CoreSet::grid(8, 8));
    }

    #[test]
    fn a_range_outside_the_grid_is_refused() {
        let wide = CoreRange {
            x_first: 0,
            y_first: 0,
            x_last: 32,
            y_last: 0,
        };
        assert_eq!(CoreSet::from_ranges([wide]), Err(InvalidCoreRange(wide)));
        let turned = CoreRange {
            x_first: 3,
            y_first: 0,
            x_last: 2,
            y_last: 0,
        };
        assert_eq!(
            CoreSet::from_ranges([turned]),
            Err(InvalidCoreRange(turned))
        );
    }

    proptest! {
        #[test]
        fn ranges_and_indices_describe_the_same_cores(
            ranges in proptest::collection::vec(any_range(), 0..6)
        ) {
            let set = CoreSet::from_ranges(ranges.iter().copied()).unwrap();
            prop_assert_eq!(CoreSet::from_ranges(set.ranges()).unwrap(), set);
            let mut again = CoreSet::default();
            set.indices().for_each(|index| again.insert_index(index));
            prop_assert_eq!(again, set);
            prop_assert_eq!(u32::try_from(set.indices().count()), Ok(set.len()));
            for index in set.indices() {
                let index = u16::try_from(index).unwrap();
                let (x, y) = (index % GRID_SIDE, index / GRID_SIDE);
                prop_assert!(set.contains(x, y));
                let covered = ranges.iter().any(|range| {
                    (range.x_first..=range.x_last).contains(&x)
                        && (range.y_first..=range.y_last).contains(&y)
                });
                prop_assert!(covered);
            }
        }
    }
}
