//! Finds an entry of the dictionary by a hash of its content, without a lock.
//!
//! A table of words that only ever go from empty to filled; one writer at a time
//! fills them. A table that becomes crowded is replaced by a larger one; readers
//! of the old one miss at worst what came later, and then ask the writer. Old
//! tables are kept: all of them together are smaller than the current one.

use crate::published::Published;
use crate::sync::{AtomicU64, AtomicUsize, Ordering};

/// Bits of a word that say where the entry lies; the others are of its hash.
const PLACE_BITS: u32 = 26;
const PLACE_MASK: u64 = (1 << PLACE_BITS) - 1;

pub(crate) const PLACES: usize = (1 << PLACE_BITS) - 1;

#[cfg(not(loom))]
const FIRST_WORDS: usize = 1024;
#[cfg(loom)]
const FIRST_WORDS: usize = 2;

type Table = Box<[AtomicU64]>;

/// The table that readers use; those that it replaced are never freed.
#[derive(Debug)]
pub(crate) struct Index {
    current: Published<Table>,
    /// Entries, which only the writer counts.
    filled: AtomicUsize,
}

/// A table of so many words, if there is memory for it.
fn table(words: usize) -> Option<&'static Table> {
    let mut table = Vec::new();
    table.try_reserve_exact(words).ok()?;
    table.extend((0..words).map(|_word| AtomicU64::new(0)));
    Some(Box::leak(Box::new(table.into_boxed_slice())))
}

impl Index {
    pub(crate) fn new() -> Self {
        let current = Published::unset();
        if let Some(first) = table(FIRST_WORDS) {
            current.set(first);
        }
        Self {
            current,
            filled: AtomicUsize::new(0),
        }
    }

    /// The place of the entry with this hash that `is_it` recognises.
    pub(crate) fn find(&self, hash: u64, is_it: impl Fn(usize) -> bool) -> Option<usize> {
        let words = self.current.get()?;
        let mut at = start(hash, words.len());
        for _probe in 0..words.len() {
            // SYNC(entry): the entry at this place was written before.
            let word = words[at].load(Ordering::Acquire);
            if word == 0 {
                return None;
            }
            if word & !PLACE_MASK == hash & !PLACE_MASK {
                let place = usize::try_from(word & PLACE_MASK).unwrap_or(0) - 1;
                if is_it(place) {
                    return Some(place);
                }
            }
            at = (at + 1) & (words.len() - 1);
        }
        None
    }

    /// Adds an entry that is complete and not there yet; one thread at a time may.
    pub(crate) fn insert(&self, hash: u64, place: usize) {
        let Some(words) = self.current.get() else {
            return;
        };
        let place = u64::try_from(place + 1).unwrap_or(u64::MAX) & PLACE_MASK;
        let word = (hash & !PLACE_MASK) | place;
        let filled = self.filled.fetch_add(1, Ordering::Relaxed) + 1;
        if filled * 2 <= words.len() {
            return put(words, hash, word);
        }
        let Some(larger) = table(words.len() * 2) else {
            // It gets slower, and what has no place in it is defined anew each time.
            return put(words, hash, word);
        };
        for old in words {
            let old = old.load(Ordering::Relaxed);
            if old != 0 {
                // The bits of the hash that a word keeps are those that choose its start.
                put(larger, old, old);
            }
        }
        put(larger, hash, word);
        self.current.set(larger);
    }
}

/// Where to begin looking: the high bits, which every word keeps.
fn start(hash: u64, words: usize) -> usize {
    usize::try_from(hash >> PLACE_BITS).unwrap_or(0) & (words - 1)
}

fn put(words: &[AtomicU64], hash: u64, word: u64) {
    let mut at = start(hash, words.len());
    for _probe in 0..words.len() {
        if words[at].load(Ordering::Relaxed) == 0 {
            // SYNC(entry): the entry was written before.
            words[at].store(word, Ordering::Release);
            return;
        }
        at = (at + 1) & (words.len() - 1);
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn everything_is_found_again_however_often_the_table_grows() {
        let index = Index::new();
        let hash = |place: usize| (place as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        for place in 0..20_000 {
            assert_eq!(index.find(hash(place), |found| found == place), None);
            index.insert(hash(place), place);
        }
        for place in 0..20_000 {
            let found = index.find(hash(place), |found| found == place);
            assert_eq!(found, Some(place));
        }
        assert!(index.current.get().unwrap().len() > 16 * FIRST_WORDS);
    }

    #[test]
    fn equal_hashes_are_told_apart_by_their_entries() {
        let index = Index::new();
        for place in [3, 5, 8] {
            index.insert(77, place);
        }
        assert_eq!(index.find(77, |place| place == 8), Some(8));
        assert_eq!(index.find(77, |place| place == 4), None);
    }
}
