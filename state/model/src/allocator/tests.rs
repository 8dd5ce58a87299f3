//! Classes, banks and texts; the addresses themselves are the free list's tests.

use ttmem_event::CoreSet;
use ttmem_event::catalogue::{BoardKind, DeviceOptions};

use super::*;

const PAGE: u64 = 2048;

/// An n150 with an L1_SMALL of 32 KiB and a trace region of 8 MiB.
fn n150() -> Allocator {
    let board = BoardKind::N150;
    let options = DeviceOptions {
        l1_small_size: 32_768,
        trace_region_size: 8_388_608,
        ..DeviceOptions::default_of(board)
    };
    let capacities = board.capacities(&options).unwrap();
    Allocator::new(&capacities, board.memory_map().dram_alignment)
}

fn pages(class: Class, count: u64) -> BufferSpec {
    BufferSpec::interleaved(class, count * PAGE, PAGE)
}

#[test]
fn each_class_has_its_banks_and_its_range() {
    let n150 = n150();
    let seen = [Class::Dram, Class::L1, Class::L1Small, Class::Trace].map(|class| {
        let total = n150.statistics(class).total;
        (n150.banks(class), n150.base(class), total)
    });
    assert_eq!(
        seen,
        [
            (12, 1_048_640, 1_071_988_672),
            (64, 105_824, 1_360_544),
            (64, 1_466_368, 32_768),
            (12, 1_073_037_312, 704_512),
        ]
    );
    assert_eq!(n150.alignment(), 32);
}

#[test]
fn dram_is_placed_upwards_and_l1_downwards() {
    let mut n150 = n150();
    let mut place = |class| n150.allocate(&pages(class, 1024)).unwrap();
    assert_eq!(
        place(Class::Dram),
        Placement {
            address: 1_048_640,
            per_bank: 176_128,
            banks: 12
        }
    );
    assert_eq!(
        place(Class::L1),
        Placement {
            address: 1_433_600,
            per_bank: 32_768,
            banks: 64
        }
    );
    assert_eq!(place(Class::Dram).address, 1_048_640 + 176_128);
    assert_eq!(place(Class::Trace).address, 1_073_037_312);
    let from_above = pages(Class::Dram, 12).top_down();
    let address = n150.allocate(&from_above).unwrap().address;
    assert_eq!(address, 1_073_037_312 - PAGE);
}

#[test]
fn a_shard_takes_its_range_from_every_bank() {
    let mut n150 = n150();
    let spec = BufferSpec::sharded(Class::L1, CoreSet::grid(4, 4), 8 * PAGE, PAGE);
    let placement = n150.allocate(&spec).unwrap();
    assert_eq!((placement.per_bank, placement.banks), (8 * PAGE, 16));
    assert_eq!(n150.statistics(Class::L1).allocated, 8 * PAGE);
    assert_eq!(n150.lowest_l1(), Some(placement.address));
    assert_eq!(n150.free(Class::L1, placement.address), Some(8 * PAGE));
    assert_eq!(n150.lowest_l1(), None);
}

#[test]
fn out_of_memory_speaks_as_the_runtime_does() {
    let mut n150 = n150();
    n150.allocate(&pages(Class::L1, 64)).unwrap();
    let error = n150.allocate(&pages(Class::L1, 64 * 1000)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Out of Memory: Not enough space to allocate 131072000 B L1 buffer across 64 banks, \
         where each bank needs to store 2048000 B, but bank size is 1360544 B \
         (allocated: 2048 B, free: 1358496 B, largest free block: 1358496 B)"
    );
    let too_much = BufferSpec::sharded(Class::L1Small, CoreSet::grid(2, 1), 32_832, 32);
    let error = n150.allocate(&too_much).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Out of Memory: Not enough space to allocate 65664 B L1_SMALL buffer across 2 banks, \
         where each bank needs to store 32832 B, but bank size is 32768 B \
         (allocated: 0 B, free: 32768 B, largest free block: 32768 B)"
    );
}

#[test]
fn what_was_asked_for_counts_in_aligned_pages() {
    let mut n150 = n150();
    let rows = BufferSpec::interleaved(Class::Trace, 200 * 120_000, 200);
    let error = n150.allocate(&rows).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("Out of Memory: Not enough space to allocate 26880000 B TRACE buffer")
    );
}

#[test]
fn requests_that_no_allocator_could_serve() {
    let mut n150 = n150();
    let mut refuse = |spec| n150.allocate(&spec).unwrap_err();
    assert_eq!(
        refuse(pages(Class::System, 1)),
        AllocateError::NoBanks {
            class: Class::System
        }
    );
    assert_eq!(
        refuse(pages(Class::L1Small, 1)),
        AllocateError::InterleavedL1Small
    );
    let shards = BufferSpec::sharded(Class::Dram, CoreSet::grid(13, 1), PAGE, PAGE);
    assert_eq!(
        refuse(shards).to_string(),
        "13 shards do not fit into the 12 banks of DRAM"
    );
    for (size, page) in [
        (0, 0),
        (0, PAGE),
        (PAGE, 0),
        (PAGE + 1, PAGE),
        (u64::MAX, 1),
    ] {
        let spec = BufferSpec::interleaved(Class::Dram, size, page);
        assert_eq!(
            refuse(spec),
            AllocateError::Pages {
                class: Class::Dram,
                size,
                page
            }
        );
    }
    for class in [Class::Dram, Class::L1, Class::L1Small] {
        assert_eq!(n150.statistics(class).allocated, 0, "{class:?}");
    }
}

#[test]
fn the_host_has_nothing_to_report() {
    let mut n150 = n150();
    assert_eq!(n150.banks(Class::System), 0);
    assert_eq!(n150.statistics(Class::System), Statistics::default());
    assert!(n150.list(Class::System).is_none());
    assert_eq!(n150.free(Class::System, 0), None);
}

#[test]
fn sub_devices_take_the_bottom_of_l1() {
    let mut n150 = n150();
    let total = n150.statistics(Class::L1).total;
    assert!(n150.shrink_l1(65_536));
    assert_eq!(n150.statistics(Class::L1).total, total - 65_536);
    // What remains is given out to its last byte, and not below.
    let rest = BufferSpec::sharded(Class::L1, CoreSet::grid(1, 1), total - 65_536, 32);
    let placement = n150.allocate(&rest).unwrap();
    assert_eq!(placement.address, n150.base(Class::L1) + 65_536);
    assert!(!n150.shrink_l1(32));
    n150.grow_l1(65_536);
    let statistics = n150.statistics(Class::L1);
    assert_eq!((statistics.total, statistics.largest_free), (total, 65_536));
}
