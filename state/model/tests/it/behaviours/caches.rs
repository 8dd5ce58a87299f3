//! The caches of dispatch, and whether the account counts as the model does.

use crate::rig::{Rig, add_reader, count, grid};
use ttmem_event::catalogue::BoardKind;
use ttmem_event::{Class, CoreType, EventKind};
use ttmem_ledger::CacheCounters;
use ttmem_model::program::CoreRanges;
use ttmem_model::runtime::RuntimeOptions;

/// An n300 dispatches on Ethernet cores, which have 67 KiB for the prefetcher's cache.
fn small_prefetcher() -> Rig {
    Rig::open(RuntimeOptions::of(BoardKind::N300), 1, 1)
}

#[test]
fn a_workload_that_the_prefetcher_has_is_a_hit_and_a_new_one_evicts() {
    let mut rig = small_prefetcher();
    let workloads = ["one", "two"].map(|name| rig.one_kernel(name, &grid(8, 8), 40_000));
    for workload in workloads {
        rig.run(workload);
        rig.run_cached(workload);
    }
    let prefetcher = rig.account.prefetcher();
    assert_eq!(prefetcher.size_bytes, 67 * 1024);
    assert_eq!((prefetcher.hits, prefetcher.misses), (2, 2));
    assert_eq!(prefetcher.evictions, 1);
    let held: Vec<_> = prefetcher.entries.values().collect();
    assert_eq!(held.len(), 1);
    assert_eq!(prefetcher.used_bytes, 40_960);
    let counts = rig.runtime.counts();
    assert_eq!((counts.prefetch_hits, counts.prefetch_misses), (2, 2));
}

#[test]
fn a_workload_larger_than_the_prefetchers_cache_empties_it() {
    let mut rig = small_prefetcher();
    let small = rig.one_kernel("small", &grid(8, 8), 1_000);
    rig.run(small);
    assert!(rig.account.prefetcher().used_bytes > 0);
    // Each core runs half of it, but the binaries of both halves are fetched.
    let program = rig.program("large", |program| {
        add_reader(program, "left.cpp", &CoreRanges::core(0, 0), 60_000);
        add_reader(program, "right.cpp", &CoreRanges::core(1, 0), 60_000);
    });
    let large = rig.workload(program);
    rig.run(large);
    let prefetcher = rig.account.prefetcher();
    assert_eq!((prefetcher.used_bytes, prefetcher.resets), (0, 1));
}

#[test]
fn a_first_run_waits_for_everything_before_it_and_a_cached_one_does_not() {
    let mut rig = Rig::n150();
    let workloads = ["one", "two", "three"].map(|name| rig.one_kernel(name, &grid(8, 8), 1_000));
    for workload in workloads {
        rig.run(workload);
    }
    let ring = rig.account.ring(CoreType::Tensix);
    assert_eq!(
        (ring.reserves, ring.stalls, ring.entries().len()),
        (3, 2, 1)
    );
    rig.account.news();
    for workload in workloads {
        rig.run_cached(workload);
    }
    let ring = rig.account.ring(CoreType::Tensix);
    assert_eq!(
        (ring.reserves, ring.stalls, ring.entries().len()),
        (6, 2, 4)
    );
    assert_eq!(rig.runtime.counts().ring_stalls, 2);
}

#[test]
fn a_ring_without_room_waits_for_the_oldest_and_frees_it() {
    let mut rig = Rig::n150();
    let workloads = ["one", "two"].map(|name| rig.one_kernel(name, &grid(8, 8), 40_000));
    for workload in workloads {
        rig.run(workload);
    }
    rig.account.news();
    // The other one lies where it must go.
    rig.run_cached(workloads[0]);
    let events = rig.account.news();
    let stalled = events
        .iter()
        .any(|event| matches!(event, EventKind::ConfigRingReserved { stalled, .. } if *stalled));
    assert!(stalled);
    // What is waited for leaves the rings of every kind of core.
    assert_eq!(count(&events, "ConfigRingFreed"), 3);
    let ring = rig.account.ring(CoreType::Tensix);
    assert_eq!((ring.entries().len(), ring.used_bytes), (1, 40_000));
}

#[test]
fn seven_launches_may_be_under_way_and_the_eighth_waits() {
    let mut rig = Rig::n150();
    let workload = rig.one_kernel("tiny", &grid(8, 8), 16);
    rig.run(workload);
    let stalls = |rig: &mut Rig| rig.account.ring(CoreType::Tensix).stalls;
    for _launch in 2..=7 {
        rig.run_cached(workload);
    }
    assert_eq!(stalls(&mut rig), 0);
    rig.run_cached(workload);
    assert_eq!(stalls(&mut rig), 1);
}

#[test]
fn the_account_counts_what_the_model_counts() {
    for mut rig in Rig::dp_4_on_both_paths() {
        let workloads = [3, 5, 7].map(|side| rig.matmul(&grid(side, side)));
        for workload in workloads {
            rig.run(workload);
        }
        for _round in 0..20 {
            for workload in workloads {
                rig.run_cached(workload);
            }
        }
        rig.interleaved(Class::Dram, 1);
        let counts = *rig.runtime.counts();
        assert_eq!(rig.account.view().events, counts.events);
        let sum = |rig: &mut Rig, figure: fn(&CacheCounters) -> u64| {
            (0..4)
                .map(|chip| figure(&rig.account.caches(chip)))
                .sum::<u64>()
        };
        assert_eq!(sum(&mut rig, |caches| caches.dispatches), counts.dispatches);
        assert_eq!(
            sum(&mut rig, |caches| caches.program_cache_hits),
            counts.program_cache_hits
        );
        assert_eq!(counts.program_cache_hits, 4 * 60);
        let caches = rig.account.caches(0);
        assert_eq!(caches.jit_disk_hits, counts.jit_disk_hits);
        assert_eq!(caches.prefetch_hits, counts.prefetch_hits);
        let rings = (counts.ring_wraps, counts.ring_stalls);
        assert_eq!(rig.account.wraps_and_stalls(), rings);
        let prefetchers = rig.account.facts().prefetchers;
        let misses: u64 = prefetchers.values().map(|cache| cache.misses).sum();
        assert_eq!(misses, counts.prefetch_misses);
    }
}
