//! The live buffers of one process.
//!
//! Rows are threaded into one list per allocator, so that closing a mesh or a
//! process costs what it held and nothing else.

use crate::footprint::Footprint;
use crate::pages::Pages;
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use std::hash::BuildHasher;
use ttmem_event::{Class, CoresId, Direction, Layout, TextId};

/// No row: the end of a list.
pub(crate) const NIL: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferRow {
    /// Its identity; from old senders, the address.
    pub id: u64,
    /// Its address in every bank.
    pub address: u64,
    pub requested_bytes: u64,
    /// What each bank gives up.
    pub per_bank_bytes: u64,
    pub time: u64,
    /// The event that placed it, in the order of the process's events.
    pub order: u64,
    /// The mesh of its allocator, as the process counts them.
    pub mesh: u32,
    pub operation: TextId,
    /// The call stack that it was placed under, if it was recorded.
    pub stack: TextId,
    pub page_bytes: u32,
    /// The cores whose banks it takes; none = every bank.
    pub cores_id: CoresId,
    /// How often an old sender booked it.
    pub references: u32,
    pub banks: u16,
    pub class: Class,
    pub layout: Layout,
    /// Which end of the bank it was taken from.
    pub direction: Direction,
    pub(crate) next: u32,
    pub(crate) previous: u32,
}

/// There are a million of them on a busy machine: what is added must fit into the padding.
const _: () = assert!(size_of::<Option<BufferRow>>() == 88);

impl BufferRow {
    /// A row with the given place, everything else unknown.
    pub(crate) fn new(mesh: u32, class: Class, id: u64) -> Self {
        Self {
            id,
            address: id,
            requested_bytes: 0,
            per_bank_bytes: 0,
            time: 0,
            order: 0,
            mesh,
            operation: TextId::NONE,
            stack: TextId::NONE,
            page_bytes: 0,
            cores_id: CoresId::NONE,
            references: 1,
            banks: 1,
            class,
            layout: Layout::Unknown,
            direction: Direction::BottomUp,
            next: NIL,
            previous: NIL,
        }
    }

    /// What the allocator takes over all banks.
    #[must_use]
    pub fn charged_bytes(&self) -> u64 {
        self.per_bank_bytes.saturating_mul(u64::from(self.banks))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BufferKey {
    Id(u64),
    /// An old sender's address: only unique within a device and a class.
    Address {
        mesh: u32,
        class: Class,
        address: u64,
    },
}

impl BufferKey {
    fn of(row: &BufferRow, by_address: bool) -> Self {
        if by_address {
            Self::Address {
                mesh: row.mesh,
                class: row.class,
                address: row.id,
            }
        } else {
            Self::Id(row.id)
        }
    }

    fn hash(self, hasher: &RandomState) -> u64 {
        match self {
            Self::Id(id) => hasher.hash_one(id),
            Self::Address {
                mesh,
                class,
                address,
            } => hasher.hash_one((address, u64::from(mesh) << 8 | u64::from(class.code()))),
        }
    }

    fn matches(self, row: &BufferRow) -> bool {
        match self {
            Self::Id(id) => row.id == id,
            Self::Address {
                mesh,
                class,
                address,
            } => row.id == address && row.mesh == mesh && row.class == class,
        }
    }
}

/// The first row of an allocator's list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BufferList {
    first: u32,
}

impl Default for BufferList {
    fn default() -> Self {
        Self { first: NIL }
    }
}

impl BufferList {
    pub(crate) fn first(self) -> Option<u32> {
        (self.first != NIL).then_some(self.first)
    }
}

/// Entries from which on an index is in parts.
const SPLIT_AT: usize = 8192;

/// As many as the values of the byte of a hash that chooses one.
const PARTS: usize = 256;

/// Where rows are, by the hashes of their keys.
///
/// A table that grows moves all that it has. A large index is in parts that grow each by
/// itself, so that no event waits until a million entries are moved. The last part gets twice as
/// much as the first, and those between accordingly: equal ones would all grow at once.
#[derive(Clone, Debug)]
struct SlotIndex {
    parts: Vec<HashTable<u32>>,
}

impl Default for SlotIndex {
    fn default() -> Self {
        Self {
            parts: vec![HashTable::new()],
        }
    }
}

impl SlotIndex {
    #[inline]
    fn place(&self, hash: u64) -> usize {
        // Not the lowest bytes nor the highest: a table has its own use for those.
        let [_, _, _, one, other, third, _, _] = hash.to_le_bytes();
        let place = if third < u8::MAX / 3 {
            one.max(other)
        } else {
            one
        };
        usize::from(place) & (self.parts.len() - 1)
    }

    fn find(&self, hash: u64, matches: impl FnMut(&u32) -> bool) -> Option<u32> {
        let part = &self.parts[self.place(hash)];
        part.find(hash, matches).copied()
    }

    #[inline]
    fn insert(&mut self, hash: u64, slot: u32, hash_of: impl Fn(&u32) -> u64) {
        if self.parts.len() == 1 && self.parts[0].len() == SPLIT_AT {
            self.split(&hash_of);
        }
        let place = self.place(hash);
        self.parts[place].insert_unique(hash, slot, hash_of);
    }

    #[cold]
    fn split(&mut self, hash_of: &impl Fn(&u32) -> u64) {
        let whole = std::mem::take(&mut self.parts[0]);
        self.parts.resize_with(PARTS, HashTable::new);
        for slot in whole {
            let hash = hash_of(&slot);
            let place = self.place(hash);
            self.parts[place].insert_unique(hash, slot, hash_of);
        }
    }

    #[inline]
    fn remove(&mut self, hash: u64, matches: impl FnMut(&u32) -> bool) -> Option<u32> {
        let place = self.place(hash);
        let found = self.parts[place].find_entry(hash, matches);
        Some(found.ok()?.remove().0)
    }
}

/// The live buffers of one process, found by identity or by an old sender's address.
#[derive(Clone, Debug, Default)]
pub(crate) struct BufferBook {
    pub(crate) rows: Pages<BufferRow>,
    index: SlotIndex,
    hasher: RandomState,
    by_address: bool,
}

impl Footprint for BufferBook {
    fn heap_bytes(&self) -> u64 {
        let parts = self.index.parts.iter();
        let tables = parts.map(|part| part.allocation_size() + size_of::<HashTable<u32>>());
        self.rows.heap_bytes() + tables.sum::<usize>() as u64
    }
}

impl BufferBook {
    /// A book whose rows are found by address if they come from an old sender.
    pub(crate) fn new(by_address: bool) -> Self {
        Self {
            by_address,
            ..Self::default()
        }
    }

    pub(crate) fn key_of(&self, row: &BufferRow) -> BufferKey {
        BufferKey::of(row, self.by_address)
    }

    pub(crate) fn find(&self, key: BufferKey) -> Option<u32> {
        let matches = |slot: &u32| self.rows.get(*slot).is_some_and(|row| key.matches(row));
        self.index.find(key.hash(&self.hasher), matches)
    }

    /// Adds a row at the head of its allocator's list; `None` when there is no room.
    #[inline]
    pub(crate) fn insert(&mut self, list: &mut BufferList, mut row: BufferRow) -> Option<u32> {
        row.next = list.first;
        row.previous = NIL;
        let hash = self.key_of(&row).hash(&self.hasher);
        let slot = self.rows.insert(row)?;
        if let Some(next) = list.first().and_then(|next| self.rows.get_mut(next)) {
            next.previous = slot;
        }
        list.first = slot;
        let (rows, hasher, by_address) = (&self.rows, &self.hasher, self.by_address);
        self.index.insert(hash, slot, |slot| {
            // A row without a key cannot be: every slot in the index is live.
            rows.get(*slot)
                .map_or(0, |row| BufferKey::of(row, by_address).hash(hasher))
        });
        Some(slot)
    }

    /// Takes a live row out of the index: it is [removed](Self::remove) next.
    #[inline]
    pub(crate) fn forget(&mut self, slot: u32) {
        if let Some(row) = self.rows.get(slot) {
            let hash = self.key_of(row).hash(&self.hasher);
            self.index.remove(hash, |other| *other == slot);
        }
    }

    /// Finds a live row and takes it out of the index: it is [removed](Self::remove) next.
    #[inline]
    pub(crate) fn find_and_forget(&mut self, key: BufferKey) -> Option<u32> {
        let rows = &self.rows;
        let matches = |slot: &u32| rows.get(*slot).is_some_and(|row| key.matches(row));
        self.index.remove(key.hash(&self.hasher), matches)
    }

    /// Takes a row that the index no longer has out of its allocator's list.
    #[inline]
    pub(crate) fn remove(&mut self, list: &mut BufferList, slot: u32) -> Option<BufferRow> {
        let row = self.rows.remove(slot)?;
        match self.rows.get_mut(row.previous) {
            Some(previous) => previous.next = row.next,
            None => list.first = row.next,
        }
        if let Some(next) = self.rows.get_mut(row.next) {
            next.previous = row.previous;
        }
        Some(row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Entries that growing tables move, at most, while so many others are added.
    fn most_moved(added: usize, during: usize) -> usize {
        let (mut index, hasher) = (SlotIndex::default(), RandomState::default());
        let mut moved = vec![0; added / during + 1];
        for slot in 0..u32::try_from(added).unwrap() {
            let hash = hasher.hash_one(u64::from(slot));
            let place = index.place(hash);
            let (entries, room) = (index.parts[place].len(), index.parts[place].capacity());
            index.insert(hash, slot, |slot| hasher.hash_one(u64::from(*slot)));
            if entries > 0
                && index
                    .parts
                    .get(place)
                    .is_some_and(|part| part.capacity() > room)
            {
                moved[slot as usize / during] += entries;
            }
        }
        moved.into_iter().max().unwrap_or(0)
    }

    #[test]
    fn the_parts_of_a_large_index_do_not_grow_at_once() {
        let most = most_moved(1 << 20, 512);
        assert!(
            most < 3 * 8192,
            "{most} entries were moved during 512 events"
        );
    }
}
