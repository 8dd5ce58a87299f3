//! Buffers that lie on some cores only, each with an address of its own.
//!
//! With `TT_METAL_ALLOCATOR_MODE_HYBRID` every core has an allocator beside the one that
//! all banks share, and a sharded L1 buffer may ask for blocks of its cores' own. Such a
//! buffer says so, and has a map from its cores to their addresses.

#![expect(unsafe_code, reason = "reads objects of C++ by their layout")]

use super::unordered_map::{UnorderedMap, entries};
use super::vector::one_core;
use super::{Object, accessors};
use crate::family::Unsupported;
use ttmem_event::CoreSet;

accessors! {
    /// What a buffer can be asked about its cores; runtimes without them have no such buffers.
    struct PerCoreAccessors => ACCESSORS {
        is_per_core: fn(Object) -> bool = c"_ZN2tt8tt_metal12experimental19per_core_allocation22is_per_core_allocationERKNS0_6BufferE";
        /// Of such a buffer, once it is placed.
        addresses: fn(Object) -> *const UnorderedMap = c"_ZN2tt8tt_metal12experimental19per_core_allocation22get_per_core_addressesERKNS0_6BufferE";
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Entry {
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

/// The parts of a buffer that is placed and takes blocks of its cores' own, always in the same
/// order; none of any other.
pub(crate) fn parts(buffer: Object) -> Result<Option<Vec<Part>>, Unsupported> {
    let Ok(accessors) = &*ACCESSORS else {
        return Ok(None);
    };
    if !(accessors.is_per_core)(buffer) {
        return Ok(None);
    }
    // SAFETY: the map is a member of the buffer, which does not change while it is placed.
    let entries = unsafe { entries::<Entry>((accessors.addresses)(buffer)) };
    let parts = entries.and_then(|entries| parts_of(&entries));
    let odd = Unsupported::Unexpected("a buffer's cores have no addresses");
    parts.ok_or(odd).map(Some)
}

/// The parts that make up a buffer: one for each address.
fn parts_of(entries: &[Entry]) -> Option<Vec<Part>> {
    let mut parts: Vec<Part> = Vec::new();
    for &Entry { x, y, address } in entries {
        let core = one_core((u16::try_from(x).ok()?, u16::try_from(y).ok()?));
        let cores = CoreSet::from_ranges([core]).ok()?;
        match parts.iter_mut().find(|part| part.address == address) {
            Some(part) => part.cores.insert_all(&cores),
            None => parts.push(Part { address, cores }),
        }
    }
    parts.sort_by_key(|part| part.address);
    let cores: u32 = parts.iter().map(|part| part.cores.len()).sum();
    let is_each_once = usize::try_from(cores).ok()? == entries.len();
    let are_placed = parts.first()?.address != 0;
    (is_each_once && are_placed).then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(x: u64, y: u64, address: u64) -> Entry {
        Entry { x, y, address }
    }

    fn cores(cores: &[(u16, u16)]) -> CoreSet {
        CoreSet::from_ranges(cores.iter().copied().map(one_core)).expect("they are on a grid")
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
        assert_eq!(parts_of(&[]), None);
        let twice = [entry(1, 1, 4096), entry(1, 1, 4096)];
        assert_eq!(parts_of(&twice), None);
    }
}
