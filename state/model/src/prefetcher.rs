//! What the prefetcher keeps of kernel binaries: a ring over its own L1.
//!
//! Owns which workloads' binaries are there, and where. Fast dispatch asks it for
//! every workload it sends: a hit saves the read from DRAM. It moves no bytes and
//! counts nothing beyond its entries.
//!
//! The runtime also bounds the number of entries (at most one per 512 bytes or
//! 1024, whichever is less, and growing). That bound is not modelled: binaries are
//! padded to 2048 bytes, so the bytes always run out first.

use std::collections::{HashMap, VecDeque};

/// Which binaries the prefetcher has.
#[derive(Clone, Debug)]
pub struct PrefetcherCache {
    /// All that follows is counted in blocks of this many bytes.
    block: u64,
    size: u64,
    /// Oldest first.
    entries: VecDeque<Entry>,
    offsets: HashMap<u64, u64>,
    /// Behind the newest entry; 0 again when that ends the cache.
    next: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    workload: u64,
    offset: u64,
    length: u64,
}

/// What the cache did for a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheLookup {
    /// The binaries were there already.
    pub hit: bool,
    /// Where they are now: bytes from the start of the cache.
    pub offset: u64,
    /// The workloads whose binaries had to go, oldest first.
    pub evicted: Vec<u64>,
}

impl PrefetcherCache {
    /// An empty cache of `size` bytes, managed in blocks of `block` bytes.
    #[must_use]
    pub fn new(size: u64, block: u64) -> Self {
        let block = block.max(1);
        Self {
            block,
            size: size / block,
            entries: VecDeque::new(),
            offsets: HashMap::new(),
            next: 0,
        }
    }

    /// Finds the binaries of a workload, or makes room for their `size` bytes.
    ///
    /// The size of a workload is fixed when it is first sent, so it only matters then.
    /// `None` if it is larger than the cache, which is then empty: the read past it
    /// overwrites all of it.
    pub fn look_up(&mut self, workload: u64, size: u64) -> Option<CacheLookup> {
        let length = size.div_ceil(self.block);
        if length > self.size {
            self.reset();
            return None;
        }
        let (hit, offset, evicted) = if let Some(offset) = self.offsets.get(&workload) {
            (true, *offset, Vec::new())
        } else {
            let mut evicted = Vec::new();
            let offset = self.make_room(length, &mut evicted);
            self.insert(Entry {
                workload,
                offset,
                length,
            });
            (false, offset, evicted)
        };
        Some(CacheLookup {
            hit,
            offset: offset.saturating_mul(self.block),
            evicted,
        })
    }

    pub fn reset(&mut self) {
        self.entries.clear();
        self.offsets.clear();
        self.next = 0;
    }

    /// Bytes taken by the entries, in whole blocks.
    #[must_use]
    pub fn used(&self) -> u64 {
        let blocks: u64 = self.entries.iter().map(|entry| entry.length).sum();
        blocks.saturating_mul(self.block)
    }

    /// Evicts what lies where the next `length` blocks go, and says where that is.
    fn make_room(&mut self, length: u64, evicted: &mut Vec<u64>) -> u64 {
        let Some(oldest) = self.entries.front() else {
            return self.next;
        };
        let fits_before_end = self.size - self.next >= length;
        if self.next > oldest.offset {
            // The entries are one piece that ends at `next`.
            if fits_before_end {
                return self.next;
            }
        } else {
            // The newest entries are below the oldest.
            if fits_before_end {
                self.evict_from(self.next, length, evicted);
                return self.next;
            }
            while self.entries.front().is_some_and(|e| e.offset >= self.next) {
                self.evict_oldest(evicted);
            }
        }
        self.evict_from(0, length, evicted);
        0
    }

    /// Evicts the oldest entries until `length` blocks from `offset` are free.
    ///
    /// As in the runtime, the gap that a wrap left at the end of the cache does not
    /// count as room, so one entry more than needed may go.
    fn evict_from(&mut self, offset: u64, length: u64, evicted: &mut Vec<u64>) {
        let Some(oldest) = self.entries.front() else {
            return;
        };
        let mut free = oldest.offset.saturating_sub(offset);
        while free < length {
            let Some(blocks) = self.evict_oldest(evicted) else {
                return;
            };
            free += blocks;
        }
    }

    fn evict_oldest(&mut self, evicted: &mut Vec<u64>) -> Option<u64> {
        let oldest = self.entries.pop_front()?;
        self.offsets.remove(&oldest.workload);
        evicted.push(oldest.workload);
        Some(oldest.length)
    }

    fn insert(&mut self, entry: Entry) {
        if entry.length == 0 {
            // Nothing to keep, and an entry without blocks would confuse the order.
            return;
        }
        let end = entry.offset + entry.length;
        self.next = if end == self.size { 0 } else { end };
        self.offsets.insert(entry.workload, entry.offset);
        self.entries.push_back(entry);
    }
}

#[cfg(test)]
mod tests;
