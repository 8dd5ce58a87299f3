//! Finds an entry of the dictionary by a hash of its content, without a lock.
//!
//! A table of words that only ever go from empty to filled; one writer at a time
//! fills them. A table that becomes crowded is replaced by a larger one; readers
//! of the old one miss at worst what came later, and then ask the writer. Old
//! tables are kept: all of them together are smaller than the current one.

use crate::sync::{AtomicPtr, AtomicU64, Ordering};

/// Bits of a word that say where the entry lies; the others are of its hash.
const PLACE_BITS: u32 = 26;
const PLACE_MASK: u64 = (1 << PLACE_BITS) - 1;

pub(crate) const PLACES: usize = (1 << PLACE_BITS) - 1;

#[cfg(not(loom))]
const FIRST_WORDS: usize = 1024;
#[cfg(loom)]
const FIRST_WORDS: usize = 2;

type Table = Box<[AtomicU64]>;

/// The table that readers use, and those that it replaced.
#[derive(Debug)]
pub(crate) struct Index {
    current: AtomicPtr<Table>,
}

/// What the writer knows of the index.
#[derive(Debug)]
pub(crate) struct IndexWriter {
    filled: usize,
    /// Every table there was, the current one last; a reader may still look at any of them.
    tables: Vec<*mut Table>,
}

// SAFETY: the pointers are to tables that nobody frees; only the writer, which is behind a lock,
// uses this list.
#[expect(unsafe_code, reason = "moves between threads with the lock around it")]
unsafe impl Send for IndexWriter {}

fn table(words: usize) -> *mut Table {
    Box::into_raw(Box::new(
        (0..words).map(|_word| AtomicU64::new(0)).collect(),
    ))
}

impl Index {
    pub(crate) fn new() -> (Self, IndexWriter) {
        let first = table(FIRST_WORDS);
        let index = Self {
            current: AtomicPtr::new(first),
        };
        let writer = IndexWriter {
            filled: 0,
            tables: vec![first],
        };
        (index, writer)
    }

    /// The place of the entry with this hash that `is_it` recognises.
    pub(crate) fn find(&self, hash: u64, is_it: impl Fn(usize) -> bool) -> Option<usize> {
        // SYNC(table): the words of the new table are as they were filled.
        let current = self.current.load(Ordering::Acquire);
        // SAFETY: tables are freed only with the index, whose writer outlives every reader.
        #[expect(unsafe_code, reason = "tables stay")]
        let words = unsafe { &**current };
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

    /// Adds an entry that is complete and not there yet.
    pub(crate) fn insert(&self, writer: &mut IndexWriter, hash: u64, place: usize) {
        let Some(current) = writer.tables.last().copied() else {
            return;
        };
        // SAFETY: as in `find`.
        #[expect(unsafe_code, reason = "tables stay")]
        let words = unsafe { &**current };
        let place = u64::try_from(place + 1).unwrap_or(u64::MAX) & PLACE_MASK;
        let word = (hash & !PLACE_MASK) | place;
        if (writer.filled + 1) * 2 <= words.len() {
            put(words, hash, word);
        } else {
            let larger = table(words.len() * 2);
            // SAFETY: the table was made just now.
            #[expect(unsafe_code, reason = "tables stay")]
            let larger_words = unsafe { &**larger };
            for old in words {
                let old = old.load(Ordering::Relaxed);
                if old != 0 {
                    // The bits of the hash that a word keeps are those that choose its start.
                    put(larger_words, old, old);
                }
            }
            put(larger_words, hash, word);
            writer.tables.push(larger);
            // SYNC(table): whoever sees this table sees its words.
            self.current.store(larger, Ordering::Release);
        }
        writer.filled += 1;
    }
}

impl Drop for IndexWriter {
    fn drop(&mut self) {
        for table in self.tables.drain(..) {
            // SAFETY: each came from `Box::into_raw` and is in this list once; the dictionary that
            // owns index and writer is going, so nobody reads any more.
            #[expect(unsafe_code, reason = "gives the tables back")]
            drop(unsafe { Box::from_raw(table) });
        }
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
        let (index, mut writer) = Index::new();
        let hash = |place: usize| (place as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        for place in 0..20_000 {
            assert_eq!(index.find(hash(place), |found| found == place), None);
            index.insert(&mut writer, hash(place), place);
        }
        for place in 0..20_000 {
            let found = index.find(hash(place), |found| found == place);
            assert_eq!(found, Some(place));
        }
        assert!(writer.tables.len() > 4);
    }

    #[test]
    fn equal_hashes_are_told_apart_by_their_entries() {
        let (index, mut writer) = Index::new();
        for place in [3, 5, 8] {
            index.insert(&mut writer, 77, place);
        }
        assert_eq!(index.find(77, |place| place == 8), Some(8));
        assert_eq!(index.find(77, |place| place == 4), None);
    }
}
