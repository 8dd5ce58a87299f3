//! The same disorder in every run.

/// A small generator of numbers (SplitMix64): the streams must not differ between runs.
#[derive(Debug)]
pub(crate) struct Shuffle(u64);

impl Shuffle {
    /// The disorder of this number.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Puts the items in disorder.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let bound = u64::try_from(last + 1).expect("a length fits 64 bits");
            let other = usize::try_from(self.next() % bound).expect("not above `last`");
            items.swap(last, other);
        }
    }

    /// The numbers of a range in disorder.
    pub(crate) fn order(&mut self, range: std::ops::Range<u64>) -> Vec<u64> {
        let mut items: Vec<u64> = range.collect();
        self.shuffle(&mut items);
        items
    }
}
