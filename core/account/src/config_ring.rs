//! The kernel config ring and the prefetcher cache of a mesh.
//!
//! Both are small and managed by the runtime itself: entries are placed one
//! after the other and overwrite the oldest. The account follows the places that
//! are reported; what a new entry lies upon is evicted.

use crate::anomaly::Anomaly;
use std::collections::BTreeMap;
use ttmem_event::ProgramId;

/// More entries than any config ring or cache of the runtime has.
const MAX_ENTRIES: usize = 8192;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfigRingEntry {
    pub program: ProgramId,
    pub address: u64,
    /// Its bytes per core.
    pub size_bytes: u64,
    /// It may go when this number of completions is reached.
    pub sync: u64,
}

/// A kernel config ring: one kind of core, one sub-device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigRing {
    pub base: u64,
    /// Bytes per core.
    pub size_bytes: u64,
    /// Entries by age: the lowest number is the oldest.
    pub(crate) entries: BTreeMap<u64, ConfigRingEntry>,
    /// Numbers of the entries by address; those of size 0 lie nowhere.
    pub(crate) places: BTreeMap<u64, u64>,
    pub(crate) next_number: u64,
    pub used_bytes: u64,
    /// Where the last entry was placed, whether or not it is still there.
    pub last_address: Option<u64>,
    /// Whether it was marked full, so that no entry can be trusted to be there.
    pub filled: bool,
    /// The number of completions that ends its being marked full.
    pub filled_until: u64,
    /// Times an entry was placed below the one before.
    pub wraps: u64,
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

    /// Places an entry, unless it lies outside.
    pub(crate) fn place(&mut self, entry: ConfigRingEntry) -> Result<(), Anomaly> {
        let end = entry.address.checked_add(entry.size_bytes);
        let last = self.base.saturating_add(self.size_bytes);
        let end = end.filter(|end| entry.address >= self.base && *end <= last);
        let end = end.ok_or(Anomaly::OutsideRing)?;
        let before = self.last_address.replace(entry.address);
        self.wraps += u64::from(before.is_some_and(|before| entry.address < before));
        let size = |number: &u64| self.entries.get(number).map_or(0, |old| old.size_bytes);
        for address in overlapping(&self.places, entry.address..end, size) {
            if let Some(number) = self.places.get(&address) {
                self.evict(*number);
            }
        }
        if self.entries.len() == MAX_ENTRIES {
            self.evict_oldest();
        }
        self.filled = false;
        let number = self.next_number;
        self.next_number += 1;
        self.used_bytes += entry.size_bytes;
        if entry.size_bytes > 0 {
            self.places.insert(entry.address, number);
        }
        self.entries.insert(number, entry);
        Ok(())
    }

    /// Lets the oldest entries go up to a number of completions, and what filled it.
    pub(crate) fn free(&mut self, sync: u64) {
        while let Some((_number, oldest)) = self.entries.first_key_value()
            && oldest.sync <= sync
        {
            self.evict_oldest();
        }
        self.filled &= self.filled_until > sync;
    }

    /// Forgets every entry: up to a number of completions it holds something else.
    pub(crate) fn fill(&mut self, sync: u64) {
        self.evictions += self.entries.len() as u64;
        self.entries.clear();
        self.places.clear();
        self.used_bytes = 0;
        self.filled = true;
        self.filled_until = sync;
    }

    /// Becomes the one that was saved, with those of its entries that can be.
    pub(crate) fn restore(
        &mut self,
        saved: Self,
        entries: Vec<ConfigRingEntry>,
    ) -> Result<(), Anomaly> {
        let refused = entries.into_iter().filter_map(|one| self.place(one).err());
        let refused = refused.last();
        *self = Self {
            entries: std::mem::take(&mut self.entries),
            places: std::mem::take(&mut self.places),
            next_number: self.next_number,
            used_bytes: self.used_bytes,
            ..saved
        };
        refused.map_or(Ok(()), Err)
    }

    fn evict_oldest(&mut self) {
        if let Some((number, _oldest)) = self.entries.first_key_value() {
            self.evict(*number);
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

/// The starts of those entries that a range lies upon; entries lie apart from each other.
fn overlapping<T>(
    entries: &BTreeMap<u64, T>,
    range: std::ops::Range<u64>,
    size_bytes: impl Fn(&T) -> u64,
) -> Vec<u64> {
    // Of those below only the nearest can reach into it.
    let below = entries.range(..range.start).next_back();
    let below = below.filter(|(start, entry)| *start + size_bytes(entry) > range.start);
    let inside = below.into_iter().chain(entries.range(range));
    inside.map(|(start, _entry)| *start).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CachedWorkload {
    pub workload: u64,
    pub size_bytes: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prefetcher {
    pub size_bytes: u64,
    pub entries: BTreeMap<u64, CachedWorkload>,
    pub used_bytes: u64,
    pub hits: u64,
    pub misses: u64,
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

    /// Places a workload that was not there, if it fits the cache.
    pub(crate) fn place(&mut self, offset: u64, workload: CachedWorkload) -> Result<(), Anomaly> {
        let end = offset.checked_add(workload.size_bytes);
        let end = end.filter(|end| *end <= self.size_bytes);
        let end = end.ok_or(Anomaly::OutsideRing)?;
        if workload.size_bytes == 0 || self.entries.len() == MAX_ENTRIES {
            return Err(Anomaly::OutsideRing);
        }
        for start in overlapping(&self.entries, offset..end, |old| old.size_bytes) {
            if let Some(old) = self.entries.remove(&start) {
                self.used_bytes -= old.size_bytes;
                self.evictions += 1;
            }
        }
        self.used_bytes += workload.size_bytes;
        self.entries.insert(offset, workload);
        Ok(())
    }

    pub(crate) fn reset(&mut self) {
        self.entries.clear();
        self.used_bytes = 0;
        self.resets += 1;
    }

    /// Becomes the one that was saved, with those of its entries that can be.
    pub(crate) fn restore(
        &mut self,
        saved: Self,
        entries: Vec<(u64, CachedWorkload)>,
    ) -> Result<(), Anomaly> {
        let refused = entries
            .into_iter()
            .filter_map(|(offset, one)| self.place(offset, one).err());
        let refused = refused.last();
        *self = Self {
            entries: std::mem::take(&mut self.entries),
            used_bytes: self.used_bytes,
            ..saved
        };
        refused.map_or(Ok(()), Err)
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
        assert!(ring.place(entry(1, 1000, 40, 1)).is_ok());
        assert!(ring.place(entry(2, 1040, 40, 2)).is_ok());
        assert!(ring.place(entry(3, 1000, 30, 3)).is_ok());
        let programs: Vec<u64> = ring.entries().map(|entry| entry.program.0).collect();
        assert_eq!(programs, [2, 3]);
        assert_eq!((ring.wraps, ring.evictions, ring.used_bytes), (1, 1, 70));
        ring.free(2);
        assert_eq!((ring.evictions, ring.used_bytes), (2, 30));
    }

    #[test]
    fn a_wrap_counts_whether_or_not_the_entry_before_is_still_there() {
        let mut ring = ConfigRing::new(1000, 100);
        assert!(ring.place(entry(1, 1060, 40, 1)).is_ok());
        ring.free(1);
        assert!(ring.entries().len() == 0);
        assert!(ring.place(entry(2, 1000, 40, 2)).is_ok());
        assert_eq!(ring.wraps, 1);
        ring.fill(3);
        assert!(ring.place(entry(3, 1040, 40, 4)).is_ok());
        assert_eq!(ring.wraps, 1);
        // What was refused was placed nowhere.
        assert!(ring.place(entry(4, 900, 40, 5)).is_err());
        assert!(ring.place(entry(5, 1040, 40, 5)).is_ok());
        assert_eq!(ring.wraps, 1);
        assert_eq!(ring.last_address, Some(1040));
    }

    #[test]
    fn a_filled_ring_is_free_again_once_enough_completions_came() {
        let mut ring = ConfigRing::new(1000, 100);
        assert!(ring.place(entry(1, 1000, 40, 1)).is_ok());
        ring.fill(7);
        assert_eq!((ring.filled, ring.used_bytes), (true, 0));
        ring.free(6);
        assert!(ring.filled);
        ring.free(7);
        assert!(!ring.filled);
        ring.fill(u64::MAX);
        assert!(ring.place(entry(2, 1000, 40, 8)).is_ok());
        assert!(!ring.filled);
    }

    #[test]
    fn an_entry_outside_the_ring_is_refused() {
        let mut ring = ConfigRing::new(1000, 100);
        assert!(ring.place(entry(1, 999, 10, 1)).is_err());
        assert!(ring.place(entry(1, 1090, 11, 1)).is_err());
        assert!(ring.place(entry(1, u64::MAX, 2, 1)).is_err());
        assert_eq!(ring, ConfigRing::new(1000, 100));
    }

    #[test]
    fn a_prefetched_workload_evicts_what_it_lies_upon() {
        let mut cache = Prefetcher::new(100);
        let workload = |workload, size_bytes| CachedWorkload {
            workload,
            size_bytes,
        };
        assert!(cache.place(0, workload(1, 40)).is_ok());
        assert!(cache.place(40, workload(2, 40)).is_ok());
        assert!(cache.place(30, workload(3, 20)).is_ok());
        assert_eq!(
            (cache.evictions, cache.used_bytes, cache.entries.len()),
            (2, 20, 1)
        );
        assert!(cache.place(90, workload(4, 11)).is_err());
        cache.reset();
        assert_eq!((cache.used_bytes, cache.resets), (0, 1));
    }
}
