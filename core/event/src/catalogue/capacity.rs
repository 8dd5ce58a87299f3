//! What the allocator of one chip has to give: banks, bytes and bases per class.
//!
//! L1 is counted over the cores compute may use. Counting the whole NOC grid,
//! with its DRAM, Ethernet and PCIe nodes, overstates L1 by half or more and
//! makes every percentage too low.

use super::board::BoardKind;
use super::dispatch::{DispatchCores, Grid};
use super::memory_map::MemoryMap;

/// The parameters of an opened device that change its capacities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeviceOptions {
    pub dispatch: DispatchCores,
    /// Device parameter `l1_small_size`: bytes per core.
    pub l1_small_size: u64,
    /// Device parameter `trace_region_size`: bytes over all DRAM banks.
    pub trace_region_size: u64,
}

impl DeviceOptions {
    /// The runtime's defaults for that board.
    #[must_use]
    pub const fn default_of(board: BoardKind) -> Self {
        Self {
            dispatch: board.default_dispatch(),
            l1_small_size: 0,
            trace_region_size: 0,
        }
    }
}

/// The same address range in each of a number of banks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BankedRegion {
    pub banks: u32,
    /// First address in each bank.
    pub base: u64,
    pub bytes_per_bank: u64,
}

impl BankedRegion {
    /// Bytes over all banks.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.bytes_per_bank.saturating_mul(u64::from(self.banks))
    }

    /// First address behind the region.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.base.saturating_add(self.bytes_per_bank)
    }
}

/// The allocator's regions of one chip, and the memory they lie in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Capacities {
    /// The cores whose L1 the allocator manages.
    pub compute_grid: Grid,
    /// DRAM without the trace region.
    pub dram: BankedRegion,
    /// L1 without L1_SMALL and without what is reserved.
    pub l1: BankedRegion,
    /// L1_SMALL, at the top of each core's L1.
    pub l1_small: BankedRegion,
    /// The trace region, at the top of each DRAM bank.
    pub trace: BankedRegion,
    /// All L1 of one core.
    pub l1_bytes_per_core: u64,
    /// What lies below the allocator's base in the L1 of one core.
    pub l1_reserved_bytes_per_core: u64,
    /// Size of one DRAM bank as built.
    pub dram_bank_bytes: u64,
}

impl Capacities {
    pub(super) fn of(
        map: &MemoryMap,
        compute_grid: Grid,
        dram_banks: u32,
        options: &DeviceOptions,
    ) -> Option<Self> {
        let adjacent = |banks, base, [lower, upper]: [u64; 2]| {
            let region = |base, bytes_per_bank| BankedRegion {
                banks,
                base,
                bytes_per_bank,
            };
            (region(base, lower), region(base + lower, upper))
        };
        let dram = map.dram_bytes_per_bank(options.trace_region_size, dram_banks)?;
        let (dram, trace) = adjacent(dram_banks, map.dram_unreserved_base, dram);
        let l1 = map.l1_bytes_per_bank(options.l1_small_size)?;
        let (l1, l1_small) = adjacent(compute_grid.cores(), map.l1_unreserved_base, l1);
        Some(Self {
            compute_grid,
            dram,
            l1,
            l1_small,
            trace,
            l1_bytes_per_core: map.tensix.l1_bytes,
            l1_reserved_bytes_per_core: map.l1_unreserved_base,
            dram_bank_bytes: map.dram_bank_bytes,
        })
    }

    /// All L1 of the compute cores.
    #[must_use]
    pub fn physical_l1_bytes(&self) -> u64 {
        self.l1_bytes_per_core
            .saturating_mul(u64::from(self.compute_grid.cores()))
    }

    /// All DRAM of the chip.
    #[must_use]
    pub fn physical_dram_bytes(&self) -> u64 {
        self.dram_bank_bytes
            .saturating_mul(u64::from(self.dram.banks))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::Arch;

    /// The parameters of the recorded runs of ttnn 0.81.1.
    fn recorded(board: BoardKind) -> Capacities {
        let options = DeviceOptions {
            l1_small_size: 32_768,
            trace_region_size: 8_388_608,
            ..DeviceOptions::default_of(board)
        };
        board.capacities(&options).unwrap()
    }

    fn untouched(board: BoardKind) -> Capacities {
        board.capacities(&DeviceOptions::default_of(board)).unwrap()
    }

    fn banks(region: BankedRegion) -> (u32, u64) {
        (region.banks, region.bytes_per_bank)
    }

    #[test]
    fn wormhole_runs_report_these_figures() {
        // n300 and T3000 dispatch on Ethernet cores by default,
        // hence as many L1 banks as n150 with one row of cores less.
        for board in [BoardKind::N150, BoardKind::N300, BoardKind::T3000] {
            let capacities = recorded(board);
            assert_eq!(banks(capacities.dram), (12, 1_071_988_672), "{board:?}");
            assert_eq!(banks(capacities.trace), (12, 704_512), "{board:?}");
            assert_eq!(banks(capacities.l1), (64, 1_360_544), "{board:?}");
            assert_eq!(banks(capacities.l1_small), (64, 32_768), "{board:?}");
            assert_eq!(capacities.l1.total_bytes(), 87_074_816, "{board:?}");
            assert_eq!(capacities.physical_l1_bytes(), 95_944_704, "{board:?}");
            assert_eq!(capacities.dram.base, 1_048_640, "{board:?}");
            assert_eq!(capacities.l1.base, 105_824, "{board:?}");
        }
    }

    #[test]
    fn a_blackhole_run_reports_these_figures() {
        let capacities = recorded(BoardKind::P150);
        assert_eq!(banks(capacities.dram), (8, 4_276_092_800));
        assert_eq!(banks(capacities.trace), (8, 1_048_576));
        assert_eq!(banks(capacities.l1), (110, 1_428_352));
        assert_eq!(banks(capacities.l1_small), (110, 32_768));
        assert_eq!(capacities.l1.total_bytes(), 157_118_720);
        assert_eq!(capacities.physical_l1_bytes(), 173_015_040);
        assert_eq!(capacities.dram.base, 1_048_704);
        assert_eq!(capacities.l1.base, 111_744);
    }

    #[test]
    fn without_optional_regions() {
        let n150 = untouched(BoardKind::N150);
        assert_eq!(banks(n150.dram), (12, 1_072_693_184));
        assert_eq!(banks(n150.l1), (64, 1_393_312));
        assert_eq!(
            (banks(n150.l1_small), banks(n150.trace)),
            ((64, 0), (12, 0))
        );
        let p150 = untouched(BoardKind::P150);
        assert_eq!(banks(p150.dram), (8, 4_277_141_376));
        assert_eq!(banks(p150.l1), (110, 1_461_120));
        let p100 = untouched(BoardKind::P100);
        assert_eq!(banks(p100.dram), (7, 4_277_141_376));
        assert_eq!(p150.physical_dram_bytes(), 8 * 4_278_190_080);
    }

    #[test]
    fn the_first_l1_buffer_of_a_run_lies_below_l1_small() {
        let n150 = recorded(BoardKind::N150);
        // 32768 B per bank, top down, were placed at 1433600.
        assert_eq!(n150.l1.end() - 32_768, 1_433_600);
        assert_eq!(n150.l1_small.base, n150.l1.end());
    }

    #[test]
    fn regions_tile_the_memory_on_every_board() {
        for board in BoardKind::ALL {
            for dispatch in DispatchCores::ALL {
                let options = DeviceOptions {
                    dispatch,
                    l1_small_size: 12_345,
                    trace_region_size: 1 << 24,
                };
                let Some(capacities) = board.capacities(&options) else {
                    assert_eq!(board.compute_grid(dispatch), None);
                    continue;
                };
                let Capacities {
                    dram,
                    l1,
                    l1_small,
                    trace,
                    ..
                } = capacities;
                assert_eq!(
                    capacities.l1_reserved_bytes_per_core
                        + l1.bytes_per_bank
                        + l1_small.bytes_per_bank,
                    capacities.l1_bytes_per_core
                );
                assert_eq!(l1_small.end(), capacities.l1_bytes_per_core);
                assert_eq!(dram.end(), trace.base);
                assert_eq!(trace.end(), capacities.dram_bank_bytes);
            }
        }
    }

    #[test]
    fn l1_counts_compute_cores_and_not_the_noc_grid() {
        // Nodes of the NOC grid times L1: the totals older tools showed.
        let noc_total = |arch| match arch {
            Arch::Wormhole => 120 * 1_499_136,
            _ => 204 * 1_572_864,
        };
        for board in BoardKind::ALL {
            for dispatch in DispatchCores::ALL {
                let options = DeviceOptions {
                    dispatch,
                    ..DeviceOptions::default_of(board)
                };
                let Some(capacities) = board.capacities(&options) else {
                    continue;
                };
                let cores = u64::from(board.compute_grid(dispatch).unwrap().cores());
                let physical = capacities.physical_l1_bytes();
                assert_eq!(
                    physical,
                    cores * board.memory_map().tensix.l1_bytes,
                    "{board:?}"
                );
                assert!(physical < noc_total(board.arch()), "{board:?}");
            }
        }
        assert_eq!(
            untouched(BoardKind::P150).physical_l1_bytes(),
            110 * 1_572_864
        );
        assert_eq!(
            untouched(BoardKind::N150).physical_l1_bytes(),
            64 * 1_499_136
        );
        assert_eq!(
            untouched(BoardKind::N150).l1_reserved_bytes_per_core,
            105_824
        );
    }

    #[test]
    fn slow_dispatch_gives_compute_the_whole_grid() {
        let options = DeviceOptions {
            dispatch: DispatchCores::Slow,
            ..DeviceOptions::default_of(BoardKind::N150)
        };
        assert_eq!(BoardKind::N150.capacities(&options).unwrap().l1.banks, 72);
    }

    #[test]
    fn impossible_options_have_no_capacities() {
        let default = DeviceOptions::default_of(BoardKind::P150);
        for options in [
            DeviceOptions {
                dispatch: DispatchCores::TensixRow,
                ..default
            },
            DeviceOptions {
                dispatch: DispatchCores::Ethernet,
                ..default
            },
            DeviceOptions {
                l1_small_size: 1_461_120,
                ..default
            },
            DeviceOptions {
                l1_small_size: u64::MAX,
                ..default
            },
            DeviceOptions {
                trace_region_size: u64::MAX,
                ..default
            },
        ] {
            assert_eq!(BoardKind::P150.capacities(&options), None, "{options:?}");
        }
    }
}
