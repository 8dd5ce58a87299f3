//! The static memory layout of a chip, per architecture.
//!
//! Tensix and DRAM figures are those of ttnn 0.81.1 (a build without the Tracy
//! profiler, which would take more of each DRAM bank). The config rings of the
//! other core types come from upstream sources and have not been seen at run time.

use crate::core::CoreType;

/// A trace region takes a multiple of this from each DRAM bank: the largest trace page.
pub const TRACE_PAGE_BYTES: u64 = 8192;

/// The ring that holds kernel arguments, semaphores, CB configurations and kernel text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfigRing {
    /// Address in the core's L1.
    pub base: u64,
    pub size_bytes: u64,
    /// Whether kernel text goes into the ring, or to a fixed address outside it.
    pub holds_text: bool,
}

/// The memory of one core of some type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoreMemory {
    pub l1_bytes: u64,
    pub config_ring: ConfigRing,
}

/// The memory of one chip of an architecture, and the rules of the allocator over it.
#[derive(Debug, PartialEq, Eq)]
pub struct MemoryMap {
    pub tensix: CoreMemory,
    /// Ethernet cores with a trained link.
    pub active_eth: CoreMemory,
    /// Ethernet cores without one.
    pub idle_eth: CoreMemory,
    /// Cores of the DRAM controllers, where they are programmable.
    pub dram_core: Option<CoreMemory>,
    /// Where the allocator's part of a compute core's L1 begins; below it is reserved.
    pub l1_unreserved_base: u64,
    /// Alignment of L1 for the hardware.
    pub l1_alignment: u64,
    /// Alignment of DRAM, which the allocator uses for L1 buffers and CBs as well.
    pub dram_alignment: u64,
    /// Size of one DRAM bank as built.
    pub dram_bank_bytes: u64,
    /// Where the allocator's part of each DRAM bank begins.
    pub dram_unreserved_base: u64,
    /// How many circular buffers a core can have.
    pub max_circular_buffers: u32,
}

pub(super) const WORMHOLE: MemoryMap = MemoryMap {
    tensix: CoreMemory {
        l1_bytes: 1_499_136,
        config_ring: ConfigRing {
            base: 35_168,
            size_bytes: 70_656,
            holds_text: true,
        },
    },
    active_eth: CoreMemory {
        l1_bytes: 262_144,
        config_ring: ConfigRing {
            base: 258_336,
            size_bytes: 640,
            holds_text: false,
        },
    },
    idle_eth: CoreMemory {
        l1_bytes: 262_144,
        config_ring: ConfigRing {
            base: 32_240,
            size_bytes: 25_600,
            holds_text: true,
        },
    },
    dram_core: None,
    l1_unreserved_base: 105_824,
    l1_alignment: 16,
    dram_alignment: 32,
    dram_bank_bytes: 1_073_741_824,
    dram_unreserved_base: 1_048_640,
    max_circular_buffers: 32,
};

pub(super) const BLACKHOLE: MemoryMap = MemoryMap {
    tensix: CoreMemory {
        l1_bytes: 1_572_864,
        config_ring: ConfigRing {
            base: 41_088,
            size_bytes: 70_656,
            holds_text: true,
        },
    },
    active_eth: CoreMemory {
        l1_bytes: 524_288,
        config_ring: ConfigRing {
            base: 62_256,
            size_bytes: 26_624,
            holds_text: true,
        },
    },
    idle_eth: CoreMemory {
        l1_bytes: 524_288,
        config_ring: ConfigRing {
            base: 64_816,
            size_bytes: 26_624,
            holds_text: true,
        },
    },
    dram_core: Some(CoreMemory {
        l1_bytes: 131_072,
        config_ring: ConfigRing {
            base: 32_192,
            size_bytes: 2_048,
            holds_text: false,
        },
    }),
    l1_unreserved_base: 111_744,
    l1_alignment: 16,
    dram_alignment: 64,
    dram_bank_bytes: 4_278_190_080,
    dram_unreserved_base: 1_048_704,
    max_circular_buffers: 64,
};

impl MemoryMap {
    /// The memory of a core of that type; `None` where such cores are not programmable.
    #[must_use]
    pub const fn core(&self, core_type: CoreType) -> Option<&CoreMemory> {
        match core_type {
            CoreType::Tensix => Some(&self.tensix),
            CoreType::ActiveEth => Some(&self.active_eth),
            CoreType::IdleEth => Some(&self.idle_eth),
            CoreType::Dram => self.dram_core.as_ref(),
        }
    }

    /// What the allocator has in each L1 bank, and after it L1_SMALL: the device parameter, aligned
    /// as DRAM is.
    ///
    /// `None` when L1_SMALL does not leave the L1 bank a single byte.
    #[must_use]
    pub fn l1_bytes_per_bank(&self, l1_small_size: u64) -> Option<[u64; 2]> {
        let small = l1_small_size.checked_next_multiple_of(self.dram_alignment)?;
        let whole = self.tensix.l1_bytes - self.l1_unreserved_base;
        (small < whole).then(|| [whole - small, small])
    }

    /// What the allocator has in each of `banks` DRAM banks, and after it TRACE for that parameter,
    /// which is a total.
    ///
    /// `None` without banks, or when TRACE does not leave the DRAM bank a single byte.
    #[must_use]
    pub fn dram_bytes_per_bank(&self, trace_region_size: u64, banks: u32) -> Option<[u64; 2]> {
        if banks == 0 {
            return None;
        }
        let trace = trace_region_size
            .div_ceil(u64::from(banks))
            .checked_next_multiple_of(TRACE_PAGE_BYTES)?;
        let whole = self.dram_bank_bytes - self.dram_unreserved_base;
        (trace < whole).then(|| [whole - trace, trace])
    }
}

// The functions above subtract these without a check.
const _: () = assert!(WORMHOLE.l1_unreserved_base < WORMHOLE.tensix.l1_bytes);
const _: () = assert!(BLACKHOLE.l1_unreserved_base < BLACKHOLE.tensix.l1_bytes);
const _: () = assert!(WORMHOLE.dram_unreserved_base < WORMHOLE.dram_bank_bytes);
const _: () = assert!(BLACKHOLE.dram_unreserved_base < BLACKHOLE.dram_bank_bytes);

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: [&MemoryMap; 2] = [&WORMHOLE, &BLACKHOLE];

    #[test]
    fn banks_without_optional_regions_are_those_the_allocator_reports() {
        let seen = MAPS.map(|map| (map.l1_bytes_per_bank(0), map.dram_bytes_per_bank(0, 8)));
        assert_eq!(
            seen,
            [
                (Some([1_393_312, 0]), Some([1_072_693_184, 0])),
                (Some([1_461_120, 0]), Some([4_277_141_376, 0])),
            ]
        );
    }

    #[test]
    fn the_tensix_ring_ends_where_the_allocator_begins() {
        for map in MAPS {
            let ring = map.tensix.config_ring;
            assert_eq!(ring.base + ring.size_bytes, map.l1_unreserved_base);
            assert_eq!(ring.size_bytes, 69 * 1024);
        }
    }

    #[test]
    fn every_ring_lies_inside_its_l1() {
        for map in MAPS {
            for memory in CoreType::ALL
                .into_iter()
                .filter_map(|core_type| map.core(core_type))
            {
                let ring = memory.config_ring;
                assert!(ring.base + ring.size_bytes <= memory.l1_bytes, "{memory:?}");
                assert_eq!(ring.base % map.l1_alignment, 0, "{memory:?}");
            }
            assert_eq!(map.l1_unreserved_base % map.dram_alignment, 0);
            assert_eq!(map.dram_unreserved_base % map.dram_alignment, 0);
        }
    }

    #[test]
    fn text_goes_into_the_ring_except_on_these() {
        let holds = |map: &MemoryMap| {
            CoreType::ALL.map(|core_type| map.core(core_type).map(|m| m.config_ring.holds_text))
        };
        assert_eq!(
            holds(&WORMHOLE),
            [Some(true), Some(false), Some(true), None]
        );
        assert_eq!(
            holds(&BLACKHOLE),
            [Some(true), Some(true), Some(true), Some(false)]
        );
    }

    #[test]
    fn ring_places_per_core_type() {
        let places = |map: &MemoryMap| {
            CoreType::ALL.map(|core_type| {
                map.core(core_type)
                    .map(|m| (m.config_ring.base, m.config_ring.size_bytes))
            })
        };
        assert_eq!(
            places(&WORMHOLE),
            [
                Some((35_168, 70_656)),
                Some((258_336, 640)),
                Some((32_240, 25_600)),
                None
            ]
        );
        assert_eq!(
            places(&BLACKHOLE),
            [
                Some((41_088, 70_656)),
                Some((62_256, 26_624)),
                Some((64_816, 26_624)),
                Some((32_192, 2_048)),
            ]
        );
    }

    #[test]
    fn l1_small_is_aligned_as_dram_is() {
        let small = |map: &MemoryMap, size| map.l1_bytes_per_bank(size).map(|[_l1, small]| small);
        assert_eq!(small(&WORMHOLE, 32_768), Some(32_768));
        assert_eq!(small(&WORMHOLE, 1), Some(32));
        assert_eq!(small(&BLACKHOLE, 1), Some(64));
        let both = WORMHOLE.l1_bytes_per_bank(33);
        assert_eq!(both, Some([1_393_312 - 64, 64]));
    }

    #[test]
    fn trace_is_shared_among_the_banks_in_whole_pages() {
        let trace = |map: &MemoryMap, size, banks| {
            let both = map.dram_bytes_per_bank(size, banks);
            both.map(|[_dram, trace]| trace)
        };
        assert_eq!(trace(&WORMHOLE, 8_388_608, 12), Some(704_512));
        assert_eq!(trace(&BLACKHOLE, 8_388_608, 8), Some(1_048_576));
        assert_eq!(trace(&WORMHOLE, 0, 12), Some(0));
        assert_eq!(trace(&WORMHOLE, 1, 12), Some(8192));
        assert_eq!(trace(&WORMHOLE, 12 * 8192 + 1, 12), Some(16_384));
    }

    #[test]
    fn a_region_that_does_not_fit_has_no_size() {
        for map in MAPS {
            let whole_l1 = map.tensix.l1_bytes - map.l1_unreserved_base;
            for size in [whole_l1, map.tensix.l1_bytes, u64::MAX] {
                assert_eq!(map.l1_bytes_per_bank(size), None);
            }
            let last = whole_l1 - map.dram_alignment;
            let both = Some([map.dram_alignment, last]);
            assert_eq!(map.l1_bytes_per_bank(last), both);
            for size in [map.dram_bank_bytes, u64::MAX] {
                assert_eq!(map.dram_bytes_per_bank(size, 1), None);
            }
            assert_eq!(map.dram_bytes_per_bank(4096, 0), None);
            assert_eq!(map.dram_bytes_per_bank(0, 0), None);
        }
    }
}
