//! Config rings and prefetcher caches: the entries that are there now.
//!
//! Entries are followed as in the ledger: a new one evicts what it lies upon.
//! What was evicted, and how often a ring wrapped or stalled, is history and is
//! not told again. Where the last entry was placed is not: it decides whether the
//! next one is a wrap, so a ring that lost it tells it with what took it away.

use super::meshes::Meshes;
use super::{MAX_HELD_BYTES, Told};
use std::collections::{BTreeMap, VecDeque};
use ttmem_event::{CoreType, What};

/// More entries than any ring of the runtime has.
const MAX_ENTRIES: usize = 8192;

/// An entry with the addresses it lies at.
#[derive(Clone, Copy, Debug)]
struct Entry {
    told: Told,
    start: u64,
    end: u64,
    sync: u64,
}

#[derive(Clone, Debug)]
struct Ring {
    opened: Told,
    base: u64,
    end: u64,
    entries: VecDeque<Entry>,
    /// The last entry, once it is gone. No other is left then: entries go oldest first.
    gone: Option<Told>,
    /// Since the last entry was placed: what emptied, filled and freed the ring, in order.
    ended: Vec<Told>,
    /// The completions that end its being filled.
    filled: Option<u64>,
}

#[derive(Clone, Debug)]
struct Prefetcher {
    opened: Told,
    size_bytes: u64,
    entries: BTreeMap<u64, Entry>,
}

/// The rings and caches of every mesh.
#[derive(Clone, Debug, Default)]
pub(super) struct Caches {
    rings: BTreeMap<(u32, u8, CoreType), Ring>,
    prefetchers: BTreeMap<u32, Prefetcher>,
}

impl Caches {
    pub(super) fn apply(&mut self, meshes: &Meshes, told: Told) {
        match told.event.what {
            What::RingOpened {
                mesh,
                sub_device,
                core_type,
                base,
                size_bytes,
            } => {
                let plausible = size_bytes <= MAX_HELD_BYTES && base <= MAX_HELD_BYTES;
                if plausible && meshes.is_mesh(mesh.0) {
                    let ring = Ring {
                        opened: told,
                        base,
                        end: base.saturating_add(size_bytes),
                        entries: VecDeque::new(),
                        gone: None,
                        ended: Vec::new(),
                        filled: None,
                    };
                    if sub_device == 0 {
                        // A new division of the mesh: the others are opened anew after this.
                        self.rings
                            .retain(|key, _ring| key.0 != mesh.0 || key.1 == 0);
                    }
                    self.rings.insert((mesh.0, sub_device, core_type), ring);
                }
            }
            What::RingAllocated {
                mesh,
                sub_device,
                core_type,
                address,
                size_bytes,
                sync,
                ..
            } => {
                let ring = self.rings.get_mut(&(mesh.0, sub_device, core_type));
                let end = address.checked_add(size_bytes);
                if let (Some(ring), Some(end)) = (ring, end) {
                    ring.place(Entry {
                        told,
                        start: address,
                        end,
                        sync,
                    });
                }
            }
            What::RingFreed {
                mesh,
                sub_device,
                core_type,
                sync,
            } => {
                if let Some(ring) = self.rings.get_mut(&(mesh.0, sub_device, core_type)) {
                    ring.free(told, sync);
                }
            }
            What::RingFilled {
                mesh,
                sub_device,
                core_type,
                sync,
            } => {
                if let Some(ring) = self.rings.get_mut(&(mesh.0, sub_device, core_type)) {
                    ring.fill(told, sync);
                }
            }
            What::PrefetchOpened { mesh, size_bytes }
                if size_bytes <= MAX_HELD_BYTES && meshes.is_mesh(mesh.0) =>
            {
                let cache = Prefetcher {
                    opened: told,
                    size_bytes,
                    entries: BTreeMap::new(),
                };
                self.prefetchers.insert(mesh.0, cache);
            }
            What::Prefetched {
                mesh,
                offset,
                size_bytes,
                hit: false,
                ..
            } => {
                let cache = self.prefetchers.get_mut(&mesh.0);
                let end = offset.checked_add(size_bytes);
                if let (Some(cache), Some(end)) = (cache, end) {
                    cache.place(Entry {
                        told,
                        start: offset,
                        end,
                        sync: 0,
                    });
                }
            }
            What::PrefetchReset { mesh } => {
                if let Some(cache) = self.prefetchers.get_mut(&mesh.0) {
                    cache.entries.clear();
                }
            }
            _without_entries => {}
        }
    }

    /// A mesh was closed: its rings and its cache are gone.
    pub(super) fn close(&mut self, mesh: u32) {
        self.rings.retain(|key, _ring| key.0 != mesh);
        self.prefetchers.remove(&mesh);
    }

    pub(super) fn tell(&self, told: &mut Vec<Told>) {
        for ring in self.rings.values() {
            told.push(ring.opened);
            told.extend(ring.entries.iter().map(|entry| entry.told));
            told.extend(ring.gone);
            told.extend(&ring.ended);
        }
        for cache in self.prefetchers.values() {
            told.push(cache.opened);
            told.extend(cache.entries.values().map(|entry| entry.told));
        }
    }
}

impl Ring {
    fn place(&mut self, entry: Entry) {
        if entry.start < self.base || entry.end > self.end {
            return;
        }
        self.entries
            .retain(|old| old.start >= entry.end || entry.start >= old.end);
        if self.entries.len() == MAX_ENTRIES {
            self.entries.pop_front();
        }
        self.gone = None;
        self.ended.clear();
        self.filled = None;
        self.entries.push_back(entry);
    }

    fn free(&mut self, told: Told, sync: u64) {
        let freed = self.entries.iter().take_while(|entry| entry.sync <= sync);
        let freed = freed.count();
        let newest = self.entries.drain(..freed).next_back();
        if let Some(newest) = newest
            && self.entries.is_empty()
        {
            self.gone = Some(newest.told);
            self.ended.push(told);
        }
        if self.filled.take_if(|filled| *filled <= sync).is_some() {
            self.ended.push(told);
        }
    }

    fn fill(&mut self, told: Told, sync: u64) {
        if let Some(last) = self.entries.pop_back() {
            self.entries.clear();
            self.gone = Some(last.told);
        }
        // Whatever came before, it empties the ring.
        self.ended = vec![told];
        self.filled = Some(sync);
    }
}

impl Prefetcher {
    fn place(&mut self, entry: Entry) {
        let full = self.entries.len() == MAX_ENTRIES;
        if entry.end > self.size_bytes || entry.end == entry.start || full {
            return;
        }
        // Entries are disjoint, so only the one before can reach into the new one.
        let before = self.entries.range(..entry.start).next_back();
        let first = before
            .filter(|(_start, old)| old.end > entry.start)
            .map_or(entry.start, |(start, _old)| *start);
        while let Some((start, _old)) = self.entries.range(first..entry.end).next() {
            let start = *start;
            self.entries.remove(&start);
        }
        self.entries.insert(entry.start, entry);
    }
}
