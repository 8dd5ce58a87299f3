use proptest::prelude::*;

use super::*;

fn miss(offset: u64, evicted: &[u64]) -> Option<CacheLookup> {
    Some(CacheLookup {
        hit: false,
        offset,
        evicted: evicted.to_vec(),
    })
}

fn hit(offset: u64) -> Option<CacheLookup> {
    Some(CacheLookup {
        hit: true,
        offset,
        evicted: Vec::new(),
    })
}

/// Ten blocks of 32 bytes.
fn ten_blocks() -> PrefetcherCache {
    PrefetcherCache::new(320, 32)
}

#[test]
fn binaries_are_found_where_they_were_put() {
    let mut cache = ten_blocks();
    assert_eq!(cache.look_up(7, 33), miss(0, &[]));
    assert_eq!(cache.look_up(8, 32), miss(64, &[]));
    assert_eq!(cache.look_up(7, 33), hit(0));
    assert_eq!(cache.look_up(8, 32), hit(64));
    assert_eq!(cache.used(), 96, "whole blocks");
}

#[test]
fn a_full_cache_goes_on_at_its_start_over_the_oldest() {
    let mut cache = ten_blocks();
    for workload in 0..5 {
        assert_eq!(cache.look_up(workload, 64), miss(workload * 64, &[]));
    }
    assert_eq!(cache.used(), 320);
    assert_eq!(cache.look_up(5, 32), miss(0, &[0]));
    assert_eq!(
        cache.look_up(6, 32),
        miss(32, &[]),
        "the rest of the evicted one is free"
    );
    assert_eq!(cache.look_up(1, 64), hit(64), "the others stay");
    assert_eq!(cache.look_up(7, 128), miss(64, &[1, 2]));
    assert_eq!(cache.look_up(0, 64), miss(192, &[3]));
}

#[test]
fn what_does_not_fit_before_the_end_wraps() {
    let mut cache = ten_blocks();
    cache.look_up(1, 128);
    cache.look_up(2, 128);
    assert_eq!(cache.look_up(3, 96), miss(0, &[1]), "two blocks are left");
    // The newest is below the oldest, and neither side has room for six blocks.
    cache.look_up(4, 32);
    assert_eq!(cache.look_up(5, 192), miss(128, &[2, 3]));
    assert_eq!(cache.look_up(4, 32), hit(96));
    assert_eq!(cache.used(), 224);
}

#[test]
fn a_wrap_over_wrapped_entries_evicts_what_is_above_and_then_below() {
    let mut cache = ten_blocks();
    cache.look_up(1, 192);
    cache.look_up(2, 128);
    assert_eq!(cache.look_up(3, 160), miss(0, &[1]));
    // 5 blocks are taken at the start, 2 lies at 6..10: 7 blocks fit neither behind 3 nor before it.
    assert_eq!(cache.look_up(4, 224), miss(0, &[2, 3]));
    assert_eq!(cache.used(), 224);
}

#[test]
fn what_is_larger_than_the_cache_empties_it() {
    let mut cache = ten_blocks();
    cache.look_up(1, 64);
    assert_eq!(cache.look_up(2, 321), None);
    assert_eq!(cache.used(), 0);
    assert_eq!(cache.look_up(1, 64), miss(0, &[]));
    assert_eq!(
        cache.look_up(2, 320),
        miss(0, &[1]),
        "all of it is not too much"
    );
}

#[test]
fn a_reset_forgets() {
    let mut cache = ten_blocks();
    cache.look_up(1, 64);
    cache.reset();
    assert_eq!(cache.used(), 0);
    assert_eq!(cache.look_up(2, 64), miss(0, &[]));
    assert_eq!(cache.look_up(1, 64), miss(64, &[]));
}

#[test]
fn odd_sizes_are_values() {
    assert_eq!(PrefetcherCache::new(0, 0).look_up(1, 1), None);
    let mut cache = ten_blocks();
    assert_eq!(cache.look_up(1, 0), miss(0, &[]));
    assert_eq!(cache.used(), 0);
    assert_eq!(cache.look_up(2, u64::MAX), None);
}

proptest! {
    /// Entries never overlap, and a miss evicts exactly what is then missing.
    #[test]
    fn the_cache_holds_what_it_says(
        steps in prop::collection::vec((0_u64..40, 1_u64..=12), 1..300),
    ) {
        let mut cache = PrefetcherCache::new(12 * 64, 64);
        let mut sizes = HashMap::new();
        let mut held: Vec<(u64, u64, u64)> = Vec::new();
        for (workload, blocks) in steps {
            let blocks = *sizes.entry(workload).or_insert(blocks);
            let found = cache.look_up(workload, blocks * 64).expect("it fits");
            let before = held.iter().find(|(id, ..)| *id == workload).copied();
            prop_assert_eq!(found.hit, before.is_some());
            match before {
                Some((_, offset, _)) => prop_assert_eq!(found.offset, offset),
                None => {
                    held.retain(|(id, ..)| !found.evicted.contains(id));
                    let end = found.offset + blocks * 64;
                    prop_assert!(end <= 12 * 64);
                    for (id, offset, size) in &held {
                        prop_assert!(end <= *offset || offset + size <= found.offset, "over {id}");
                    }
                    held.push((workload, found.offset, blocks * 64));
                }
            }
            prop_assert_eq!(cache.used(), held.iter().map(|(.., size)| size).sum::<u64>());
        }
    }
}
