//! Bringing intervals into the order of their addresses, and joining those that touch.
//!
//! A reader does this with every live buffer of an allocator, up to a million of
//! them, so it is most of what a snapshot costs, and every pass over them counts.
//! Addresses lie within one bank and are multiples of its alignment: after taking
//! both away, start and length fit one word together, and sorting words is twice
//! as fast as sorting pairs.

use crate::intervals::Interval;

const HALF_BITS: u32 = u64::BITS / 2;

/// Below this many, packing does not pay.
const PACK_FROM: usize = 1024;

/// What was seen of some intervals while they were looked through.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Order {
    /// No interval begins below this.
    base: u64,
    /// Every bit that is set in any offset from the base or any length.
    bits: u64,
    last_start: u64,
    is_sorted: bool,
}

impl Order {
    /// Nothing seen yet; all intervals will begin at `base` or above.
    pub(crate) fn new(base: u64) -> Self {
        Self {
            base,
            bits: 0,
            last_start: 0,
            is_sorted: true,
        }
    }

    /// Takes note of the next interval.
    pub(crate) fn see(&mut self, part: Interval) {
        self.bits |= part.start.wrapping_sub(self.base) | part.len();
        self.is_sorted &= part.start >= self.last_start;
        self.last_start = part.start;
    }

    /// The intervals that were seen, in order, those that touch joined.
    pub(crate) fn merge(self, mut parts: Vec<Interval>) -> Vec<Interval> {
        if self.is_sorted {
            join(&mut parts);
        } else if let Some(packing) = self.packing().filter(|_fits| parts.len() >= PACK_FROM) {
            let mut words: Vec<u64> = parts.iter().map(|part| packing.pack(*part)).collect();
            let (left, right) = sort_in_halves(&mut words);
            parts.clear();
            for word in merged(left, right) {
                let part = packing.unpack(word);
                match parts.last_mut() {
                    Some(last) if part.start <= last.end => last.end = last.end.max(part.end),
                    _gap => parts.push(part),
                }
            }
        } else {
            parts.sort_unstable_by_key(|part| part.start);
            join(&mut parts);
        }
        parts
    }

    /// How to write each into one word, if start and length fit half a word each.
    fn packing(self) -> Option<Packing> {
        let alignment_bits = self.bits.trailing_zeros().min(u64::BITS - 1);
        let fits = self.bits >> alignment_bits < 1 << HALF_BITS;
        fits.then_some(Packing {
            base: self.base,
            alignment_bits,
        })
    }
}

/// From here on a second core is worth waking.
const HALVE_FROM: usize = 1 << 17;

/// Sorts words as two halves, each in a thread of its own where that pays.
fn sort_in_halves(words: &mut [u64]) -> (&[u64], &[u64]) {
    let half = if words.len() < HALVE_FROM {
        0
    } else {
        words.len() / 2
    };
    let (left, right) = words.split_at_mut(half);
    if !left.is_empty() {
        std::thread::scope(|scope| {
            let helper = std::thread::Builder::new();
            // Without a thread to be had, the left half is sorted below.
            let _sorting = helper.spawn_scoped(scope, || left.sort_unstable());
            right.sort_unstable();
        });
        if !left.is_sorted() {
            left.sort_unstable();
        }
    } else {
        right.sort_unstable();
    }
    (left, right)
}

/// The words of two sorted halves, in order.
fn merged(left: &[u64], right: &[u64]) -> impl Iterator<Item = u64> {
    let mut left = left.iter().copied().peekable();
    let mut right = right.iter().copied().peekable();
    std::iter::from_fn(move || match (left.peek(), right.peek()) {
        (Some(one), Some(other)) if one <= other => left.next(),
        (Some(_), None) => left.next(),
        _right => right.next(),
    })
}

/// Joins sorted intervals that touch.
fn join(parts: &mut Vec<Interval>) {
    parts.dedup_by(|next, last| {
        let touches = next.start <= last.end;
        if touches {
            last.end = last.end.max(next.end);
        }
        touches
    });
}

/// How intervals of some bank are written into one word each.
#[derive(Clone, Copy)]
struct Packing {
    base: u64,
    alignment_bits: u32,
}

impl Packing {
    fn pack(self, part: Interval) -> u64 {
        let start = (part.start - self.base) >> self.alignment_bits;
        (start << HALF_BITS) | (part.len() >> self.alignment_bits)
    }

    fn unpack(self, word: u64) -> Interval {
        let start = self.base + ((word >> HALF_BITS) << self.alignment_bits);
        let length = (word & ((1 << HALF_BITS) - 1)) << self.alignment_bits;
        Interval::new(start, length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn so_many_that_two_cores_sort_them_are_joined_alike() {
        let count = 2 * HALVE_FROM as u64;
        // A step that shares no factor with the count visits every place once, out of order.
        let parts: Vec<Interval> = (0..count)
            .map(|number| Interval::new(number * 7919 % count * 64, 32))
            .collect();
        let mut order = Order::new(0);
        for part in &parts {
            order.see(*part);
        }
        let in_order = (0..count).map(|number| Interval::new(number * 64, 32));
        assert!(order.merge(parts).into_iter().eq(in_order));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        /// In banks of any size, at any base and alignment, also where packing cannot be.
        #[test]
        fn many_intervals_are_joined_as_comparing_joins_them(
            seed in any::<u64>(),
            count in 2..3 * PACK_FROM,
            base in prop_oneof![Just(0), Just(1_048_640), Just(u64::MAX >> 1)],
            alignment in prop_oneof![Just(1), Just(32), Just(2048)],
            span_bits in 1_u32..50,
        ) {
            let mut state = seed | 1;
            let mut draw = |bits: u32| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> (u64::BITS - bits)) * alignment
            };
            let parts: Vec<Interval> = (0..count)
                .map(|_| Interval::new(base + draw(span_bits), draw(span_bits.min(20))))
                .collect();
            let mut order = Order::new(base);
            for part in &parts {
                order.see(*part);
            }
            let mut compared = parts.clone();
            compared.sort_unstable();
            join(&mut compared);
            prop_assert_eq!(order.merge(parts), compared);
        }
    }
}
