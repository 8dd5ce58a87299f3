//! Buffers that lie on some cores only, each with an address of its own.
//!
//! With `TT_METAL_ALLOCATOR_MODE_HYBRID` every core has an allocator beside the one that
//! all banks share, and a sharded L1 buffer may ask for blocks of its cores' own. Such a
//! buffer says so, and has a table from its cores to their addresses.

#![expect(unsafe_code, reason = "reads objects of C++ by their layout")]

use super::{Object, accessors};
use crate::family::Doubt;
use crate::symbols;
use std::sync::LazyLock;
use ttmem_event::{CoreRange, CoreSet};

accessors! {
    /// What a buffer can be asked about its cores, in runtimes that have such buffers.
    struct PerCoreAccessors {
        is_per_core: fn(Object) -> bool = c"_ZN2tt8tt_metal12experimental19per_core_allocation22is_per_core_allocationERKNS0_6BufferE";
        addresses: fn(Object) -> *const Table = c"_ZN2tt8tt_metal12experimental19per_core_allocation22get_per_core_addressesERKNS0_6BufferE";
    }
}

/// The accessors of this process's runtime; without them it has no such buffers.
pub(crate) static ACCESSORS: LazyLock<Option<PerCoreAccessors>> = LazyLock::new(|| {
    // SAFETY: the loader gives the runtime's function of each name.
    unsafe { PerCoreAccessors::find_all(symbols::find) }.ok()
});

/// More cores than a chip has.
const MAX_CORES: usize = 1 << 12;

/// The beginning of a `std::unordered_map`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table {
    buckets: Object,
    bucket_count: usize,
    first: *const Entry,
    count: usize,
}

/// A core with its address, as the map keeps them; the map's own words follow.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Entry {
    next: *const Self,
    x: u64,
    y: u64,
    address: u64,
}

/// The part of a buffer that has the same address on some cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) address: u64,
    pub(crate) cores: CoreSet,
}

impl PerCoreAccessors {
    /// Whether a buffer takes blocks of its cores' own.
    ///
    /// # Safety
    /// `buffer` is a live `Buffer`.
    pub(crate) unsafe fn is_per_core(&self, buffer: Object) -> bool {
        // SAFETY: as the caller vouches.
        unsafe { (self.is_per_core)(buffer) }
    }

    /// The parts of such a buffer, always in the same order.
    ///
    /// # Safety
    /// `buffer` is a live `Buffer` for which that is so, and that is placed.
    pub(crate) unsafe fn parts(&self, buffer: Object) -> Result<Vec<Part>, Doubt> {
        // SAFETY: as the caller vouches.
        let table = unsafe { (self.addresses)(buffer) };
        // SAFETY: the table is a member of the buffer, which does not change while it is placed.
        let entries = unsafe { entries_of(table) };
        entries
            .and_then(|entries| parts_of(&entries))
            .ok_or(Doubt::Unexpected("a buffer's cores have no addresses"))
    }
}

/// What a table has, if it looks like one.
///
/// # Safety
/// The place is null or holds a map of cores to addresses that is not changed meanwhile.
unsafe fn entries_of(table: *const Table) -> Option<Vec<Entry>> {
    // SAFETY: as the caller vouches.
    let table = unsafe { table.as_ref() }?;
    if table.count == 0 || table.count > MAX_CORES || table.bucket_count == 0 {
        return None;
    }
    let mut entries = Vec::with_capacity(table.count);
    let mut next = table.first;
    while !next.is_null() {
        if entries.len() == table.count || !next.is_aligned() {
            return None;
        }
        // SAFETY: the entries of a map are a list that ends with null, and as many as it says.
        let entry = unsafe { next.read() };
        entries.push(entry);
        next = entry.next;
    }
    (entries.len() == table.count).then_some(entries)
}

/// The parts that make up a buffer: one for each address.
fn parts_of(entries: &[Entry]) -> Option<Vec<Part>> {
    let mut parts: Vec<Part> = Vec::new();
    let mut cores = 0;
    for entry in entries {
        let (x, y) = (u16::try_from(entry.x).ok()?, u16::try_from(entry.y).ok()?);
        let range = CoreRange {
            x_first: x,
            y_first: y,
            x_last: x,
            y_last: y,
        };
        let core = CoreSet::from_ranges([range]).ok()?;
        let address = entry.address;
        match parts.iter_mut().find(|part| part.address == address) {
            Some(part) => part.cores.insert_all(&core),
            None => parts.push(Part {
                address,
                cores: core,
            }),
        }
        cores += 1;
    }
    parts.sort_by_key(|part| part.address);
    let told: u32 = parts.iter().map(|part| part.cores.len()).sum();
    let are_real = parts.iter().all(|part| part.address != 0);
    (told == cores && are_real).then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(x: u64, y: u64, address: u64) -> Entry {
        Entry {
            next: std::ptr::null(),
            x,
            y,
            address,
        }
    }

    fn cores(cores: &[(u16, u16)]) -> CoreSet {
        let range = |&(x, y): &(u16, u16)| CoreRange {
            x_first: x,
            y_first: y,
            x_last: x,
            y_last: y,
        };
        CoreSet::from_ranges(cores.iter().map(range)).expect("they are on a grid")
    }

    #[test]
    fn cores_with_the_same_address_are_one_part() {
        let entries = [entry(0, 0, 4096), entry(1, 0, 2048), entry(2, 3, 4096)];
        let low = Part {
            address: 2048,
            cores: cores(&[(1, 0)]),
        };
        let high = Part {
            address: 4096,
            cores: cores(&[(0, 0), (2, 3)]),
        };
        assert_eq!(parts_of(&entries), Some(vec![low, high]));
        let turned: Vec<Entry> = entries.into_iter().rev().collect();
        assert_eq!(parts_of(&turned), Some(vec![low, high]));
    }

    #[test]
    fn what_cannot_be_cores_with_addresses_is_none() {
        assert_eq!(parts_of(&[entry(70_000, 0, 4096)]), None);
        assert_eq!(parts_of(&[entry(0, 0, 0)]), None);
        let twice = [entry(1, 1, 4096), entry(1, 1, 4096)];
        assert_eq!(parts_of(&twice), None);
    }

    #[test]
    fn a_table_is_read_only_if_it_is_as_long_as_it_says() {
        let last = entry(1, 0, 4096);
        let first = Entry {
            next: &raw const last,
            ..entry(0, 0, 4096)
        };
        let table = |count, first| Table {
            buckets: std::ptr::null(),
            bucket_count: 13,
            first,
            count,
        };
        let count_of = |table: Table| {
            // SAFETY: its entries are there, or must not be looked at.
            unsafe { entries_of(&raw const table) }.map(|entries| entries.len())
        };
        assert_eq!(count_of(table(2, &raw const first)), Some(2));
        assert_eq!(count_of(table(1, &raw const first)), None);
        assert_eq!(count_of(table(3, &raw const first)), None);
        assert_eq!(count_of(table(0, std::ptr::null())), None);
        assert_eq!(count_of(table(usize::MAX, &raw const first)), None);
        // SAFETY: null is none.
        assert!(unsafe { entries_of(std::ptr::null()) }.is_none());
    }
}
