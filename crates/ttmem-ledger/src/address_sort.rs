//! Sorting intervals by where they begin.
//!
//! A reader sorts every live buffer of an allocator, up to a million of them, so
//! this is most of what a snapshot costs. Addresses lie within one bank and are
//! multiples of its alignment: after taking both away few bits differ, and a few
//! passes over those beat comparing.

use crate::intervals::Interval;

/// Bits sorted in one pass: the counters then fit the innermost cache.
const DIGIT_BITS: u32 = 11;
const DIGITS: usize = 1 << DIGIT_BITS;

/// Below this many, comparing is faster.
const RADIX_FROM: usize = 4096;

/// Sorts by start. The order of equal starts does not matter to a union.
pub(crate) fn sort_by_start(parts: &mut Vec<Interval>) {
    if parts.is_sorted_by_key(|part| part.start) {
        return;
    }
    if parts.len() < RADIX_FROM {
        parts.sort_unstable_by_key(|part| part.start);
        return;
    }
    let lowest = parts.iter().map(|part| part.start).min().unwrap_or(0);
    let differing = parts
        .iter()
        .fold(0, |bits, part| bits | (part.start - lowest));
    let mut sorted = vec![Interval { start: 0, end: 0 }; parts.len()];
    let mut shift = differing.trailing_zeros();
    while shift < u64::BITS && differing >> shift != 0 {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "only the low bits are wanted"
        )]
        let digit = |part: &Interval| ((part.start - lowest) >> shift) as usize % DIGITS;
        let mut places = [0_usize; DIGITS];
        for part in &*parts {
            places[digit(part)] += 1;
        }
        let mut next = 0;
        for place in &mut places {
            next += std::mem::replace(place, next);
        }
        for part in &*parts {
            let place = &mut places[digit(part)];
            sorted[*place] = *part;
            *place += 1;
        }
        std::mem::swap(parts, &mut sorted);
        shift += DIGIT_BITS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn many_intervals_are_sorted_as_comparing_sorts_them(
            seed in any::<u64>(),
            count in RADIX_FROM..3 * RADIX_FROM,
            base in prop_oneof![Just(0), Just(1_048_640), Just(u64::MAX >> 1), any::<u64>()],
            alignment in prop_oneof![Just(1), Just(32), Just(2048)],
            span_bits in 1_u32..63,
        ) {
            let mut state = seed | 1;
            let mut parts: Vec<Interval> = (0..count).map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let offset = (state >> 1 >> (63 - span_bits)).wrapping_mul(alignment);
                Interval::new(base.wrapping_add(offset), 64)
            }).collect();
            let mut compared: Vec<u64> = parts.iter().map(|part| part.start).collect();
            compared.sort_unstable();
            sort_by_start(&mut parts);
            prop_assert!(parts.iter().map(|part| part.start).eq(compared));
            prop_assert!(parts.iter().all(|part| part.end == part.start.saturating_add(64)));
        }
    }
}
