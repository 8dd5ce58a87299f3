//! What fails: with the runtime's own words, on the account, and leaving nothing behind.

use crate::rig::{L1_BASE, Rig, TILE, add_cb, add_reader, count, fill_matmul, grid};
use ttmem_event::{CacheResult, ClashKind, Class, EventKind};
use ttmem_model::buffer::BufferSpec;
use ttmem_model::runtime::{FailureKind, RuntimeError, Workload};

fn fails(rig: &mut Rig, workload: Workload) -> RuntimeError {
    let ran = rig.try_run(workload, CacheResult::Miss);
    ran.expect_err("it does not fit")
}

/// Kind, end of the region, and what it met, of the only clash that was reported.
fn only_clash(events: &[EventKind]) -> (ClashKind, u64, u64) {
    assert_eq!(count(events, "Clashed"), 1);
    let clash = events.iter().find_map(|event| match event {
        EventKind::Clashed {
            kind,
            region_end,
            limit,
            ..
        } => Some((*kind, *region_end, *limit)),
        _other => None,
    });
    clash.expect("it was counted")
}

#[test]
fn circular_buffers_that_reach_into_an_l1_buffer_clash() {
    for mut rig in Rig::on_both_paths() {
        let cores = grid(8, 8);
        let tensor = rig.sharded(&cores, 600 * TILE);
        let program = rig.program("too much", |program| {
            add_cb(program, 0, &cores, 100 * TILE);
        });
        let id = program.id().0;
        let workload = rig.workload(program);
        rig.account.news();
        let error = fails(&mut rig, workload);
        assert_eq!(error.kind(), FailureKind::Clash);
        let (end, lowest) = (L1_BASE + 100 * TILE, rig.address(tensor));
        assert_eq!(
            error.to_string(),
            format!(
                "Statically allocated circular buffers in program {id} clash with L1 buffers on \
                 core range [0-0 - 7-7]. L1 buffer allocated at {lowest} and static \
                 circular buffer region ends at {end}"
            )
        );
        let events = rig.account.news();
        assert_eq!(only_clash(&events), (ClashKind::L1Buffer, end, lowest));
        assert_eq!(count(&events, "Dispatched"), 0);
    }
}

#[test]
fn a_program_that_ran_clashes_with_a_buffer_that_came_later() {
    let mut rig = Rig::n150();
    let cores = grid(8, 8);
    let program = rig.program("grown", |program| {
        add_cb(program, 0, &cores, 100 * TILE);
    });
    let workload = rig.workload(program);
    rig.run(workload);
    let tensor = rig.sharded(&cores, 600 * TILE);
    assert_eq!(fails(&mut rig, workload).kind(), FailureKind::Clash);
    rig.runtime.free(tensor).expect("it is live");
    rig.run(workload);
    assert_eq!(rig.account.on_device("grown", 0).dispatches, 2);
}

#[test]
fn circular_buffers_that_grow_beyond_l1_are_refused() {
    for mut rig in Rig::on_both_paths() {
        let program = rig.program("huge", |program| {
            add_cb(program, 0, &grid(8, 8), 700 * TILE);
        });
        let workload = rig.workload(program);
        rig.account.news();
        let error = fails(&mut rig, workload);
        assert_eq!(error.kind(), FailureKind::BeyondL1);
        assert_eq!(
            error.to_string(),
            "Statically allocated circular buffers on core range [0-0 - 7-7] grow to \
             1539424 B which is beyond max L1 size of 1499136 B"
        );
        let clash = only_clash(&rig.account.news());
        assert_eq!(clash, (ClashKind::BeyondL1, 1_539_424, 1_499_136));
    }
}

#[test]
fn circular_buffers_outside_of_the_compute_grid_are_refused() {
    let mut rig = Rig::n150();
    let program = rig.program("wide", |program| {
        add_cb(program, 0, &grid(8, 9), TILE);
    });
    let workload = rig.workload(program);
    let error = fails(&mut rig, workload);
    assert_eq!(error.kind(), FailureKind::Refused);
    assert!(
        error
            .to_string()
            .contains("exceeds device compute grid (8x8)")
    );
}

#[test]
fn an_allocation_that_fails_is_reported_with_the_allocators_figures() {
    let mut rig = Rig::n150();
    // 600 of the 680 tiles that a bank has room for.
    rig.interleaved(Class::L1, 600 * 64);
    rig.account.news();
    let before = rig.runtime.statistics(rig.mesh, Class::L1);
    let before = before.expect("the mesh is open");
    let spec = BufferSpec::interleaved(Class::L1, 100 * 64 * TILE, TILE);
    let error = rig.try_allocate(&spec).expect_err("it does not fit");
    assert_eq!(error.kind(), FailureKind::OutOfMemory);
    let (allocated, free) = (before.allocated, before.free);
    assert_eq!(allocated, 600 * TILE);
    assert_eq!(
        error.to_string(),
        format!(
            "Out of Memory: Not enough space to allocate 13107200 B L1 buffer across 64 banks, \
             where each bank needs to store 204800 B, but bank size is {} B \
             (allocated: {allocated} B, free: {free} B, largest free block: {free} B)",
            before.total
        )
    );
    let events = rig.account.news();
    let [
        EventKind::AllocationFailed {
            class,
            banks,
            requested_bytes,
            per_bank_bytes,
            free_bytes,
            largest_free_bytes,
            bank_bytes,
            ..
        },
    ] = events[..]
    else {
        panic!("{events:?}");
    };
    assert_eq!((class, banks), (Class::L1, 64));
    assert_eq!((requested_bytes, per_bank_bytes), (13_107_200, 204_800));
    assert_eq!((free_bytes, largest_free_bytes), (free, free));
    assert_eq!(bank_bytes, before.total);
    assert_eq!(rig.runtime.statistics(rig.mesh, Class::L1), Some(before));
}

#[test]
fn a_program_larger_than_the_ring_is_refused() {
    for mut rig in Rig::on_both_paths() {
        let workload = rig.one_kernel("large", &grid(8, 8), 80_000);
        let error = fails(&mut rig, workload);
        assert_eq!(error.kind(), FailureKind::ProgramTooLarge);
        assert_eq!(
            error.to_string(),
            "Program size (80000) too large for kernel config buffer (70656) on TENSIX"
        );
    }
}

#[test]
fn binaries_that_find_no_room_in_dram_fail_the_run() {
    let mut rig = Rig::n150();
    let free = rig.runtime.statistics(rig.mesh, Class::Dram);
    let tiles = free.expect("the mesh is open").free / TILE;
    let all = rig.interleaved(Class::Dram, tiles * 12);
    let workload = rig.matmul(&grid(8, 8));
    assert_eq!(fails(&mut rig, workload).kind(), FailureKind::OutOfMemory);
    // With room it goes on where it was: the kernels are known, the binary is sent now.
    rig.runtime.free(all).expect("it is live");
    rig.account.news();
    rig.run(workload);
    let events = rig.account.news();
    assert_eq!(count(&events, "KernelLoaded"), 0);
    assert_eq!(count(&events, "BinarySent"), 1);
}

#[test]
fn a_workload_that_failed_leaves_nothing_once_it_is_destroyed() {
    for mut rig in Rig::dp_4_on_both_paths() {
        let before: Vec<u64> = (0..4).map(|chip| rig.account.kernel_bytes(chip)).collect();
        let cores = grid(8, 8);
        let clashing = rig.program("clashing", |program| {
            fill_matmul(program, &cores);
            add_cb(program, 2, &cores, 700 * TILE);
        });
        let too_large = rig.program("too large", |program| {
            add_cb(program, 0, &cores, TILE);
            add_reader(program, "large.cpp", &cores, 80_000);
        });
        for program in [clashing, too_large] {
            let workload = rig.workload(program);
            fails(&mut rig, workload);
            rig.destroy(workload);
        }
        for chip in 0..4 {
            assert_eq!(rig.account.cb_bytes(chip), 0);
            assert_eq!(rig.account.charged(chip, Class::Dram), 0);
        }
        let after: Vec<u64> = (0..4).map(|chip| rig.account.kernel_bytes(chip)).collect();
        assert_eq!(after, before);
        rig.runtime.close();
        rig.account.assert_nothing_left();
    }
}
