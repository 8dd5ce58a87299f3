//! Allocators: what they can hand out, and their own statistics.

#![expect(unsafe_code, reason = "calls the runtime's accessors")]

use super::vector::Vector;
use super::{Object, accessors};
use std::mem::MaybeUninit;
use ttmem_event::Class;

pub(crate) const CLASSES: [Class; 4] = [Class::Dram, Class::L1, Class::L1Small, Class::Trace];

/// What an allocator says of one class, in bytes per bank.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Statistics {
    pub(crate) total: u64,
    pub(crate) allocated: u64,
    pub(crate) free: u64,
    pub(crate) largest_free: u64,
}

/// `std::optional` of a 64-bit word, as it is returned in two registers.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct OptionalWord {
    value: u64,
    /// Only its lowest byte is set.
    has_value: u64,
}

/// The place for the result of `get_statistics`: before 0.70 a vector follows.
#[repr(C)]
#[derive(Debug)]
struct StatisticsPlace {
    statistics: Statistics,
    addresses: Vector,
    /// No runtime writes this far; if one did, it would not be beyond the place.
    spare: [u64; 9],
}

accessors! {
    /// What is asked of an allocator whose lock this thread does not hold.
    ///
    /// The result of `get_statistics` is larger than two words: its place is passed as a
    /// first argument. Classes are passed as 32-bit words, kinds of memory as bytes.
    struct AllocatorAccessors => ACCESSORS {
        num_banks: fn(Object, &u32) -> u32 = c"_ZNK2tt8tt_metal13AllocatorImpl13get_num_banksERKNS0_10BufferTypeE";
        alignment: fn(Object, u32) -> u32 = c"_ZNK2tt8tt_metal13AllocatorImpl13get_alignmentENS0_10BufferTypeE";
        base: fn(Object, &u8) -> u64 = c"_ZNK2tt8tt_metal13AllocatorImpl23get_base_allocator_addrERKNS0_10HalMemTypeE";
        statistics: fn(&mut MaybeUninit<StatisticsPlace>, Object, &u32) -> Object = c"_ZNK2tt8tt_metal13AllocatorImpl14get_statisticsERKNS0_10BufferTypeE";
        lowest_l1_address: fn(Object, u32) -> OptionalWord = c"_ZNK2tt8tt_metal13AllocatorImpl30get_lowest_occupied_l1_addressEj";
        delete: fn(Object) -> () = c"_ZdlPv";
    }
}

/// What an allocator can hand out of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Region {
    pub(crate) banks: u16,
    pub(crate) base: u64,
    pub(crate) per_bank_bytes: u64,
    pub(crate) alignment: u32,
}

pub(crate) type Regions = [Region; Class::COUNT];

/// The runtime's number for L1 among the kinds of memory.
const MEMORY_L1: u8 = 0;
/// The runtime's number for DRAM among the kinds of memory.
const MEMORY_DRAM: u8 = 1;

impl AllocatorAccessors {
    pub(crate) fn regions(&self, allocator: Object) -> Regions {
        let mut regions = Regions::default();
        for class in CLASSES {
            let code = u32::from(class.code());
            let banks = (self.num_banks)(allocator, &code);
            regions[class.index()] = Region {
                banks: u16::try_from(banks).unwrap_or(u16::MAX),
                base: 0,
                per_bank_bytes: self.statistics(allocator, class).total,
                alignment: (self.alignment)(allocator, code),
            };
        }
        // The small regions lie on top of the large ones.
        for (memory, large, small) in [
            (MEMORY_DRAM, Class::Dram, Class::Trace),
            (MEMORY_L1, Class::L1, Class::L1Small),
        ] {
            let base = (self.base)(allocator, &memory);
            regions[large.index()].base = base;
            let end = base.saturating_add(regions[large.index()].per_bank_bytes);
            regions[small.index()].base = end;
        }
        regions
    }

    pub(crate) fn statistics(&self, allocator: Object, class: Class) -> Statistics {
        let mut place = MaybeUninit::<StatisticsPlace>::zeroed();
        (self.statistics)(&mut place, allocator, &u32::from(class.code()));
        // SAFETY: zero is valid for each of its fields, and what the runtime writes are such fields.
        let place = unsafe { place.assume_init() };
        place.addresses.delete_by(self.delete);
        place.statistics
    }

    /// The lowest address of L1 that a buffer has.
    pub(crate) fn lowest_l1_address(&self, allocator: Object) -> Option<u64> {
        // Every allocator has a first bank.
        let lowest = (self.lowest_l1_address)(allocator, 0);
        (lowest.has_value & 0xff != 0).then_some(lowest.value)
    }
}
