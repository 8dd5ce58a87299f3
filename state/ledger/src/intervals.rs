//! Arithmetic on sets of address intervals: union, measure, largest gap.
//!
//! Everything is half-open, `[start, end)`, and saturates: no interval from
//! outside can overflow a sum.

use crate::address_order::Order;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Interval {
    pub(crate) start: u64,
    /// First address that is not in it.
    pub(crate) end: u64,
}

impl Interval {
    /// `len` bytes from `start`.
    #[must_use]
    pub(crate) fn new(start: u64, len: u64) -> Self {
        Self {
            start,
            end: start.saturating_add(len),
        }
    }

    fn clipped(self, bounds: Self) -> Option<Self> {
        let start = self.start.max(bounds.start);
        let end = self.end.min(bounds.end);
        (start < end).then_some(Self { start, end })
    }

    #[must_use]
    pub(crate) fn len(self) -> u64 {
        self.end.saturating_sub(self.start)
    }
}

/// Disjoint intervals in ascending order: a set of addresses inside some bounds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct IntervalSet {
    parts: Vec<Interval>,
}

impl IntervalSet {
    /// The union of `intervals`, cut to `bounds`.
    #[must_use]
    pub(crate) fn union_within(
        bounds: Interval,
        intervals: impl IntoIterator<Item = Interval>,
    ) -> Self {
        // Of a vector, this is the vector: a million intervals are not copied.
        let mut parts: Vec<Interval> = intervals.into_iter().collect();
        let mut order = Order::new(bounds.start);
        parts.retain_mut(|part| match part.clipped(bounds) {
            Some(inside) => {
                *part = inside;
                order.see(inside);
                true
            }
            None => false,
        });
        Self {
            parts: order.merge(parts),
        }
    }

    #[must_use]
    pub(crate) fn len(&self) -> u64 {
        self.parts.iter().map(|part| part.len()).sum()
    }

    #[must_use]
    pub(crate) fn parts(&self) -> &[Interval] {
        &self.parts
    }

    /// The longest stretch of `bounds` that is not in the set.
    #[must_use]
    pub(crate) fn largest_gap(&self, bounds: Interval) -> u64 {
        let mut from = bounds.start;
        let mut largest = 0;
        for part in &self.parts {
            largest = largest.max(part.start.min(bounds.end).saturating_sub(from));
            from = from.max(part.end);
        }
        largest.max(bounds.end.saturating_sub(from))
    }

    /// Bytes of `other` that are not in this set.
    #[must_use]
    pub(crate) fn missing_from(&self, other: &Self) -> u64 {
        other
            .parts
            .iter()
            .map(|part| part.len() - self.overlap(*part))
            .sum()
    }

    /// Bytes that the set shares with one interval.
    fn overlap(&self, interval: Interval) -> u64 {
        let first = self
            .parts
            .partition_point(|part| part.end <= interval.start);
        self.parts[first..]
            .iter()
            .take_while(|part| part.start < interval.end)
            .map(|part| part.end.min(interval.end) - part.start.max(interval.start))
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BOUNDS: Interval = Interval {
        start: 10,
        end: 200,
    };

    fn any_interval() -> impl Strategy<Value = Interval> {
        (0_u64..250, 0_u64..60).prop_map(|(start, len)| Interval::new(start, len))
    }

    /// The set, one flag per address.
    fn by_hand(intervals: &[Interval]) -> Vec<bool> {
        (0..256_u64)
            .map(|at| {
                (BOUNDS.start..BOUNDS.end).contains(&at)
                    && intervals
                        .iter()
                        .any(|part| (part.start..part.end).contains(&at))
            })
            .collect()
    }

    proptest! {
        #[test]
        fn union_gap_and_difference_agree_with_counting_addresses(
            one in proptest::collection::vec(any_interval(), 0..12),
            two in proptest::collection::vec(any_interval(), 0..12),
        ) {
            let (flags, others) = (by_hand(&one), by_hand(&two));
            let set = IntervalSet::union_within(BOUNDS, one);
            let other = IntervalSet::union_within(BOUNDS, two);
            prop_assert_eq!(set.len(), flags.iter().filter(|flag| **flag).count() as u64);
            let gap = flags[10..200].split(|flag| *flag).map(<[bool]>::len).max().unwrap_or(0);
            prop_assert_eq!(set.largest_gap(BOUNDS), gap as u64);
            let missing = flags.iter().zip(&others).filter(|(mine, its)| !**mine && **its).count();
            prop_assert_eq!(set.missing_from(&other), missing as u64);
        }
    }

    #[test]
    fn the_end_of_the_address_space_does_not_overflow() {
        let far = Interval::new(u64::MAX - 1, u64::MAX);
        let set = IntervalSet::union_within(Interval::new(0, u64::MAX), [far]);
        assert_eq!(set.len(), 1);
    }
}
