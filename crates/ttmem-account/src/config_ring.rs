//! The kernel config ring and the prefetcher cache of a mesh.
//!
//! Both are small rings that the runtime manages itself: entries are placed one
//! after the other and overwrite the oldest. The ledger follows the places that
//! are reported; what a new entry lies upon is evicted.

use std::collections::BTreeMap;
use ttmem_event::ProgramId;

/// More entries than any ring of the runtime has.
const MAX_ENTRIES: usize = 8192;

/// An entry of a config ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfigRingEntry {
    pub program: ProgramId,
    /// Its first address.
    pub address: u64,
    /// Its bytes per core.
    pub size_bytes: u64,
    /// It may go when this number of completions is reached.
    pub sync: u64,
}

/// A kernel config ring: one kind of core, one sub-device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigRing {
    /// First address.
    pub base: u64,
    /// Bytes per core.
    pub size_bytes: u64,
    /// Entries by age: the lowest number is the oldest.
    entries: BTreeMap<u64, ConfigRingEntry>,
    /// Numbers of the entries by address; those of size 0 lie nowhere.
    places: BTreeMap<u64, u64>,
    next_number: u64,
    /// Bytes of the entries.
    pub used_bytes: u64,
    /// Where the last entry was placed, whether or not it is still there.
    pub last_address: Option<u64>,
    /// Whether it was marked full, so that no entry can be trusted to be there.
    pub filled: bool,
    /// The number of completions that ends its being marked full.
    pub filled_until: u64,
    /// Times an entry was placed below the one before.
    pub wraps: u64,
    /// Entries that had to go.
    pub evictions: u64,
    /// Reservations that had to wait.
    pub stalls: u64,
    pub reserves: u64,
}

impl ConfigRing {
    pub(crate) fn new(base: u64, size_bytes: u64) -> Self {
        Self {
            base,
            size_bytes,
            ..Self::default()
        }
    }

    /// Entries, oldest first.
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = &ConfigRingEntry> + ExactSizeIterator {
        self.entries.values()
    }

    /// Places an entry; false when it does not lie inside the ring.
    pub(crate) fn place(&mut self, entry: ConfigRingEntry) -> bool {
        let end = entry.address.checked_add(entry.size_bytes);
        let ring_end = self.base.saturating_add(self.size_bytes);
        let Some(end) = end.filter(|end| entry.address >= self.base && *end <= ring_end) else {
            return false;
        };
        let before = self.last_address.replace(entry.address);
        self.wraps += u64::from(before.is_some_and(|before| entry.address < before));
        // Entries are disjoint, so of those below only the nearest can reach into it.
        let below = self.places.range(..entry.address).next_back();
        let below = below.map(|(_address, number)| *number);
        let reaches = |old: &ConfigRingEntry| old.address + old.size_bytes > entry.address;
        if let Some(number) = below.filter(|number| self.entries.get(number).is_some_and(reaches)) {
            self.evict(number);
        }
        while let Some((_address, number)) = self.places.range(entry.address..end).next() {
            let number = *number;
            self.evict(number);
        }
        if self.entries.len() == MAX_ENTRIES {
            self.evict_oldest();
        }
        self.filled = false;
        self.insert(entry);
        true
    }

    /// Lets the oldest entries go up to a number of completions, and what filled the ring.
    pub(crate) fn free(&mut self, sync: u64) {
        while let Some((_number, oldest)) = self.entries.first_key_value()
            && oldest.sync <= sync
        {
            self.evict_oldest();
        }
        self.filled &= self.filled_until > sync;
    }

    /// Forgets every entry: up to a number of completions the ring holds something else.
    pub(crate) fn fill(&mut self, sync: u64) {
        self.evictions += self.entries.len() as u64;
        self.entries.clear();
        self.places.clear();
        self.used_bytes = 0;
        self.filled = true;
        self.filled_until = sync;
    }

    fn insert(&mut self, entry: ConfigRingEntry) {
        let number = self.next_number;
        self.next_number += 1;
        self.used_bytes += entry.size_bytes;
        if entry.size_bytes > 0 {
            self.places.insert(entry.address, number);
        }
        self.entries.insert(number, entry);
    }

    fn evict_oldest(&mut self) {
        if let Some((number, _oldest)) = self.entries.first_key_value() {
            let number = *number;
            self.evict(number);
        }
    }

    fn evict(&mut self, number: u64) {
        if let Some(gone) = self.entries.remove(&number) {
            self.used_bytes -= gone.size_bytes;
            self.evictions += 1;
            if gone.size_bytes > 0 {
                self.places.remove(&gone.address);
            }
        }
    }
}

/// A workload in the prefetcher cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CachedWorkload {
    pub workload: u64,
    /// Its bytes.
    pub size_bytes: u64,
}

/// The prefetcher cache of a mesh.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prefetcher {
    /// Bytes.
    pub size_bytes: u64,
    pub entries: BTreeMap<u64, CachedWorkload>,
    /// Bytes of the workloads.
    pub used_bytes: u64,
    pub hits: u64,
    pub misses: u64,
    /// Workloads that had to go.
    pub evictions: u64,
    pub resets: u64,
}

impl Prefetcher {
    pub(crate) fn new(size_bytes: u64) -> Self {
        Self {
            size_bytes,
            ..Self::default()
        }
    }

    /// Places a workload that was not there; false when it does not fit the cache.
    pub(crate) fn place(&mut self, offset: u64, workload: CachedWorkload) -> bool {
        let end = offset.checked_add(workload.size_bytes);
        let Some(end) = end.filter(|end| *end <= self.size_bytes) else {
            return false;
        };
        if workload.size_bytes == 0 || self.entries.len() == MAX_ENTRIES {
            return false;
        }
        // Entries are disjoint, so only the one before `offset` can reach into it.
        let before = self.entries.range(..offset).next_back();
        let first = before
            .filter(|(start, old)| *start + old.size_bytes > offset)
            .map_or(offset, |(start, _old)| *start);
        let gone: Vec<u64> = self
            .entries
            .range(first..end)
            .map(|(start, _old)| *start)
            .collect();
        for start in gone {
            if let Some(old) = self.entries.remove(&start) {
                self.used_bytes -= old.size_bytes;
                self.evictions += 1;
            }
        }
        self.used_bytes += workload.size_bytes;
        self.entries.insert(offset, workload);
        true
    }

    pub(crate) fn reset(&mut self) {
        self.entries.clear();
        self.used_bytes = 0;
        self.resets += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(program: u64, address: u64, size_bytes: u64, sync: u64) -> ConfigRingEntry {
        ConfigRingEntry {
            program: ProgramId(program),
            address,
            size_bytes,
            sync,
        }
    }

    #[test]
    fn a_ring_that_wraps_evicts_the_oldest() {
        let mut ring = ConfigRing::new(1000, 100);
        assert!(ring.place(entry(1, 1000, 40, 1)));
        assert!(ring.place(entry(2, 1040, 40, 2)));
        assert!(ring.place(entry(3, 1000, 30, 3)));
        let programs: Vec<u64> = ring.entries().map(|entry| entry.program.0).collect();
        assert_eq!(programs, [2, 3]);
        assert_eq!((ring.wraps, ring.evictions, ring.used_bytes), (1, 1, 70));
        ring.free(2);
        assert_eq!((ring.evictions, ring.used_bytes), (2, 30));
    }

    #[test]
    fn a_wrap_counts_whether_or_not_the_entry_before_is_still_there() {
        let mut ring = ConfigRing::new(1000, 100);
        assert!(ring.place(entry(1, 1060, 40, 1)));
        ring.free(1);
        assert!(ring.entries().len() == 0);
        assert!(ring.place(entry(2, 1000, 40, 2)));
        assert_eq!(ring.wraps, 1);
        ring.fill(3);
        assert!(ring.place(entry(3, 1040, 40, 4)));
        assert_eq!(ring.wraps, 1);
        // What was refused was placed nowhere.
        assert!(!ring.place(entry(4, 900, 40, 5)));
        assert!(ring.place(entry(5, 1040, 40, 5)));
        assert_eq!(ring.wraps, 1);
        assert_eq!(ring.last_address, Some(1040));
    }

    #[test]
    fn a_filled_ring_is_free_again_once_enough_completions_came() {
        let mut ring = ConfigRing::new(1000, 100);
        assert!(ring.place(entry(1, 1000, 40, 1)));
        ring.fill(7);
        assert_eq!((ring.filled, ring.used_bytes), (true, 0));
        ring.free(6);
        assert!(ring.filled);
        ring.free(7);
        assert!(!ring.filled);
        ring.fill(u64::MAX);
        assert!(ring.place(entry(2, 1000, 40, 8)));
        assert!(!ring.filled);
    }

    #[test]
    fn an_entry_outside_the_ring_is_refused() {
        let mut ring = ConfigRing::new(1000, 100);
        assert!(!ring.place(entry(1, 999, 10, 1)));
        assert!(!ring.place(entry(1, 1090, 11, 1)));
        assert!(!ring.place(entry(1, u64::MAX, 2, 1)));
        assert_eq!(ring, ConfigRing::new(1000, 100));
    }

    #[test]
    fn a_prefetched_workload_evicts_what_it_lies_upon() {
        let mut cache = Prefetcher::new(100);
        let workload = |workload, size_bytes| CachedWorkload {
            workload,
            size_bytes,
        };
        assert!(cache.place(0, workload(1, 40)));
        assert!(cache.place(40, workload(2, 40)));
        assert!(cache.place(30, workload(3, 20)));
        assert_eq!(
            (cache.evictions, cache.used_bytes, cache.entries.len()),
            (2, 20, 1)
        );
        assert!(!cache.place(90, workload(4, 11)));
        cache.reset();
        assert_eq!((cache.used_bytes, cache.resets), (0, 1));
    }
}
