//! Sorting intervals by where they begin.
//!
//! A reader sorts every live buffer of an allocator, up to a million of them, so
//! this is most of what a snapshot costs. Addresses lie within one bank and are
//! multiples of its alignment: after taking both away, start and length fit one
//! word together, and sorting words is more than twice as fast as sorting pairs.

use crate::intervals::Interval;

const HALF_BITS: u32 = u64::BITS / 2;

/// Below this many, packing does not pay.
const PACK_FROM: usize = 1024;

/// Sorts by start. The order of equal starts does not matter to a union.
pub(crate) fn sort_by_start(parts: &mut [Interval]) {
    if parts.is_sorted_by_key(|part| part.start) {
        return;
    }
    match Packing::of(parts).filter(|_packing| parts.len() >= PACK_FROM) {
        Some(packing) => {
            let mut words: Vec<u64> = parts.iter().map(|part| packing.pack(*part)).collect();
            words.sort_unstable();
            for (part, word) in parts.iter_mut().zip(words) {
                *part = packing.unpack(word);
            }
        }
        None => parts.sort_unstable_by_key(|part| part.start),
    }
}

/// How intervals of some bank are written into one word each.
#[derive(Clone, Copy)]
struct Packing {
    lowest: u64,
    alignment_bits: u32,
}

impl Packing {
    /// A packing for these intervals, if start and length fit half a word each.
    fn of(parts: &[Interval]) -> Option<Self> {
        let lowest = parts.iter().map(|part| part.start).min()?;
        let bits = parts
            .iter()
            .fold(0, |bits, part| bits | (part.start - lowest) | part.len());
        let alignment_bits = bits.trailing_zeros().min(u64::BITS - 1);
        let fits = bits >> alignment_bits < 1 << HALF_BITS;
        fits.then_some(Self {
            lowest,
            alignment_bits,
        })
    }

    fn pack(self, part: Interval) -> u64 {
        let start = (part.start - self.lowest) >> self.alignment_bits;
        start << HALF_BITS | part.len() >> self.alignment_bits
    }

    fn unpack(self, word: u64) -> Interval {
        let start = self.lowest + (word >> HALF_BITS << self.alignment_bits);
        let length = (word & ((1 << HALF_BITS) - 1)) << self.alignment_bits;
        Interval::new(start, length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// In banks of any size, at any base and alignment, also where packing cannot be.
        #[test]
        fn many_intervals_are_sorted_as_comparing_sorts_them(
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
            let mut parts: Vec<Interval> = (0..count)
                .map(|_| Interval::new(base + draw(span_bits), draw(span_bits.min(20))))
                .collect();
            let mut compared = parts.clone();
            compared.sort_unstable();
            sort_by_start(&mut parts);
            prop_assert!(parts.is_sorted_by_key(|part| part.start));
            parts.sort_unstable();
            prop_assert_eq!(parts, compared);
        }
    }
}
