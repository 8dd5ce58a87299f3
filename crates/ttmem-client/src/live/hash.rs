//! A map for keys that the process itself hands out.
//!
//! Whoever chose ids that collide would only slow down its own pump; a
//! multiplication spreads them over the table at a fraction of what a hasher
//! for hostile keys costs.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map keyed by ids.
pub(super) type IdMap<K, V> = HashMap<K, V, BuildHasherDefault<IdHasher>>;

/// 2⁶⁴ divided by the golden ratio, odd: consecutive ids land far apart.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Multiplies; the table takes its bits from both ends, so the halves are folded.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u8(&mut self, number: u8) {
        self.write_u64(u64::from(number));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_i32(&mut self, number: i32) {
        self.write_u64(u64::from(number.cast_unsigned()));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(SPREAD);
    }
}

/// A map keyed by one counter: what is allocated together lies together.
pub(super) type CounterMap<V> = HashMap<u64, V, BuildHasherDefault<CounterHasher>>;

/// Keeps the low bits, which choose the place, and spreads only the high ones, which tell
/// neighbours apart; of addresses, which some use as ids, the low twelve bits may all be equal.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CounterHasher(u64);

impl Hasher for CounterHasher {
    fn finish(&self) -> u64 {
        let place = self.0 ^ (self.0 >> 12);
        place ^ (self.0.wrapping_mul(SPREAD) & !(u64::MAX >> 7))
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}
