//! The free list by example, and against a map of every byte.

use proptest::collection::vec;
use proptest::prelude::*;
use ttmem_event::Direction::{BottomUp, TopDown};

use super::*;

const BASE: u64 = 1000;

fn list(size: u64, alignment: u64) -> FreeList {
    FreeList::new(BASE, size, alignment)
}

/// Takes `count` blocks of one size from below; returns their addresses.
fn fill(list: &mut FreeList, count: usize, size: u64) -> Vec<u64> {
    let mut take = || list.allocate(size, BottomUp).unwrap();
    (0..count).map(|_| take()).collect()
}

#[test]
fn both_ends_grow_towards_each_other() {
    let mut list = list(100, 10);
    assert_eq!(list.allocate(10, BottomUp), Some(1000));
    assert_eq!(list.allocate(10, TopDown), Some(1090));
    assert_eq!(list.allocate(10, BottomUp), Some(1010));
    assert_eq!(list.allocate(10, TopDown), Some(1080));
    assert_eq!(
        list.statistics(),
        Statistics {
            total: 100,
            allocated: 40,
            free: 60,
            largest_free: 60
        }
    );
}

#[test]
fn sizes_are_rounded_up_and_nothing_takes_a_unit() {
    let mut list = list(128, 32);
    assert_eq!(list.allocate(33, BottomUp), Some(1000));
    assert_eq!(list.allocate(0, BottomUp), Some(1064));
    assert_eq!(list.statistics().allocated, 96);
    assert_eq!(list.free(1000), Some(64));
    assert_eq!(list.free(1064), Some(32));
}

#[test]
fn the_nearest_hole_is_taken_and_not_the_best() {
    let mut list = list(100, 1);
    let blocks = fill(&mut list, 10, 10);
    // Holes of 30 at 1010 and of 10 at 1060.
    for at in [1, 2, 3, 6] {
        list.free(blocks[at]);
    }
    assert_eq!(list.allocate(10, BottomUp), Some(1010));
    assert_eq!(list.allocate(20, TopDown), Some(1020));
    assert_eq!(list.allocate(10, TopDown), Some(1060));
}

#[test]
fn a_hole_too_small_is_passed_over_though_bytes_suffice() {
    let mut list = list(100, 1);
    for at in fill(&mut list, 10, 10).into_iter().step_by(2) {
        list.free(at);
    }
    assert_eq!(list.allocate(11, BottomUp), None);
    assert_eq!(list.allocate(11, TopDown), None);
    let statistics = list.statistics();
    assert_eq!((statistics.free, statistics.largest_free), (50, 10));
}

#[test]
fn neighbours_coalesce_on_both_sides() {
    let mut list = list(30, 10);
    let blocks = fill(&mut list, 3, 10);
    list.free(blocks[0]);
    list.free(blocks[2]);
    assert_eq!(list.blocks().count(), 3);
    list.free(blocks[1]);
    let whole = Block {
        address: BASE,
        size: 30,
        allocated: false,
    };
    assert_eq!(list.blocks().collect::<Vec<_>>(), [whole]);
}

#[test]
fn only_what_is_taken_can_be_given_back() {
    let mut list = list(100, 10);
    let at = list.allocate(20, BottomUp).unwrap();
    for wrong in [0, at - 1, at + 10, at + 20, u64::MAX] {
        assert_eq!(list.free(wrong), None);
    }
    assert_eq!(list.free(at), Some(20));
    assert_eq!(list.free(at), None);
}

#[test]
fn the_lowest_taken_address_is_known() {
    let mut list = list(100, 10);
    assert_eq!(list.lowest_occupied(), None);
    list.allocate(10, TopDown);
    list.allocate(10, TopDown);
    assert_eq!(list.lowest_occupied(), Some(1080));
    list.free(1080);
    assert_eq!(list.lowest_occupied(), Some(1090));
    list.allocate(10, BottomUp);
    assert_eq!(list.lowest_occupied(), Some(1000));
}

#[test]
fn the_bottom_goes_and_comes_back() {
    let mut list = list(100, 10);
    assert!(list.shrink_bottom(30));
    assert_eq!(list.statistics().total, 70);
    assert_eq!(list.allocate(10, BottomUp), Some(1030));
    assert!(!list.shrink_bottom(10));
    assert!(list.shrink_bottom(0));
    list.grow_bottom(1000);
    assert_eq!(list.statistics().total, 100);
    assert_eq!(list.allocate(30, BottomUp), Some(1000));
    assert_eq!(list.allocate(60, BottomUp), Some(1040));
}

#[test]
fn a_list_can_vanish_and_return() {
    let mut list = list(100, 10);
    assert!(list.shrink_bottom(100));
    assert_eq!(list.statistics(), Statistics::default());
    assert_eq!(list.allocate(1, TopDown), None);
    assert!(!list.shrink_bottom(1));
    list.grow_bottom(100);
    assert_eq!(list.allocate(100, TopDown), Some(BASE));
}

#[test]
fn odd_ranges_do_no_harm() {
    let mut empty = FreeList::new(BASE, 0, 32);
    assert_eq!(empty.allocate(0, BottomUp), None);
    assert_eq!(empty.blocks().count(), 0);
    let mut end = FreeList::new(u64::MAX - 64, u64::MAX, 0);
    assert_eq!(end.allocate(64, TopDown), Some(u64::MAX - 64));
    assert_eq!(list(100, 32).allocate(u64::MAX, BottomUp), None);
}

#[test]
fn thousands_of_blocks_stay_in_order() {
    let mut list = list(100_000, 10);
    let blocks = fill(&mut list, 10_000, 10);
    assert!(list.blocks.audit() > 100);
    assert_eq!(list.allocate(1, BottomUp), None);
    let (even, odd): (Vec<_>, Vec<_>) = blocks.iter().partition(|at| **at % 20 == 0);
    for at in &even {
        assert_eq!(list.free(*at), Some(10));
    }
    list.blocks.audit();
    assert_eq!(list.allocate(20, TopDown), None);
    for at in &odd {
        assert_eq!(list.free(*at), Some(10));
    }
    assert_eq!(list.blocks.audit(), 1);
    assert_eq!(list.statistics().largest_free, 100_000);
}

/// The owner of every byte; 0 is nobody.
struct ByteMap {
    owners: Vec<u64>,
    next_owner: u64,
    cut: usize,
}

impl ByteMap {
    fn new(size: u16) -> Self {
        Self {
            owners: vec![0; size.into()],
            next_owner: 1,
            cut: 0,
        }
    }

    fn address(place: usize) -> u64 {
        BASE + u64::try_from(place).unwrap()
    }

    fn allocate(&mut self, size: u64, direction: Direction) -> Option<u64> {
        let size = usize::try_from(size).unwrap();
        let fits = |start: &usize| self.owners[*start..start + size].iter().all(|o| *o == 0);
        let mut starts = self.cut..(self.owners.len() + 1).saturating_sub(size).max(self.cut);
        let start = match direction {
            BottomUp => starts.find(fits),
            TopDown => starts.rev().find(fits),
        }?;
        self.owners[start..start + size].fill(self.next_owner);
        self.next_owner += 1;
        Some(Self::address(start))
    }

    fn blocks(&self) -> Vec<Block> {
        let mut blocks = Vec::new();
        let mut start = self.cut;
        for same in self.owners[self.cut..].chunk_by(|a, b| a == b) {
            blocks.push(Block {
                address: Self::address(start),
                size: u64::try_from(same.len()).unwrap(),
                allocated: same[0] != 0,
            });
            start += same.len();
        }
        blocks
    }

    fn free(&mut self, address: u64) -> Option<u64> {
        let block = self
            .blocks()
            .into_iter()
            .find(|b| b.allocated && b.address == address)?;
        let start = usize::try_from(address - BASE).unwrap();
        let size = usize::try_from(block.size).unwrap();
        self.owners[start..start + size].fill(0);
        Some(block.size)
    }

    fn shrink(&mut self, bytes: usize) -> bool {
        let end = self.cut + bytes;
        let free = end <= self.owners.len() && self.owners[self.cut..end].iter().all(|o| *o == 0);
        if free {
            self.cut = end;
        }
        free
    }

    fn statistics(&self) -> Statistics {
        let blocks = self.blocks();
        let sum = |taken| {
            let matching = blocks.iter().filter(|b| b.allocated == taken);
            matching.map(|b| b.size).sum::<u64>()
        };
        let holes = blocks.iter().filter(|b| !b.allocated);
        Statistics {
            total: sum(true) + sum(false),
            allocated: sum(true),
            free: sum(false),
            largest_free: holes.map(|b| b.size).max().unwrap_or(0),
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Allocate(u64, Direction),
    /// One of the live blocks, counted from the oldest.
    Free(prop::sample::Index),
    /// Any address, mostly a wrong one.
    FreeAt(u64),
    Shrink(u16),
    Grow(u16),
}

fn step() -> impl Strategy<Value = Step> {
    let direction = prop_oneof![Just(BottomUp), Just(TopDown)];
    prop_oneof![
        12 => (0..24_u64, direction.clone()).prop_map(|(size, to)| Step::Allocate(size, to)),
        1 => (0..600_u64, direction).prop_map(|(size, to)| Step::Allocate(size, to)),
        8 => any::<prop::sample::Index>().prop_map(Step::Free),
        1 => (BASE - 10..BASE + 2100).prop_map(Step::FreeAt),
        1 => (0..40_u16).prop_map(Step::Shrink),
        1 => (0..80_u16).prop_map(Step::Grow),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn agrees_with_a_map_of_every_byte(
        size in 0..2048_u16,
        alignment in prop_oneof![Just(1_u64), Just(8), Just(32)],
        steps in vec(step(), 0..500),
    ) {
        let mut list = list(size.into(), alignment);
        let mut map = ByteMap::new(size);
        let mut live = Vec::new();
        for step in steps {
            match step {
                Step::Allocate(size, direction) => {
                    let address = list.allocate(size, direction);
                    let rounded = size.max(1).next_multiple_of(alignment);
                    prop_assert_eq!(address, map.allocate(rounded, direction));
                    live.extend(address);
                }
                Step::Free(which) if !live.is_empty() => {
                    let address = live.swap_remove(which.index(live.len()));
                    let freed = list.free(address);
                    prop_assert!(freed.is_some());
                    prop_assert_eq!(freed, map.free(address));
                }
                Step::Free(_) => {}
                Step::FreeAt(address) => {
                    prop_assert_eq!(list.free(address), map.free(address));
                    live.retain(|at| *at != address);
                }
                Step::Shrink(bytes) => {
                    prop_assert_eq!(list.shrink_bottom(bytes.into()), map.shrink(bytes.into()));
                }
                Step::Grow(bytes) => {
                    list.grow_bottom(bytes.into());
                    map.cut = map.cut.saturating_sub(bytes.into());
                }
            }
            list.blocks.audit();
            prop_assert_eq!(list.statistics(), map.statistics());
            prop_assert_eq!(list.blocks().collect::<Vec<_>>(), map.blocks());
            prop_assert_eq!(list.lowest_occupied(), live.iter().min().copied());
        }
        for address in live {
            prop_assert!(list.free(address).is_some());
        }
        list.grow_bottom(u64::MAX);
        let statistics = list.statistics();
        prop_assert_eq!(statistics.largest_free, u64::from(size));
        prop_assert_eq!(statistics.free, statistics.total);
    }
}
