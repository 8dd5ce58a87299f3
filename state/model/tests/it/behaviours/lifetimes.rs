//! What ends when: programs, buffers, meshes, devices.

use crate::rig::{Rig, TILE, count, grid};
use ttmem_event::catalogue::BoardKind;
use ttmem_event::{CacheResult, Class};
use ttmem_model::runtime::{RuntimeError, RuntimeOptions};

#[test]
fn buffers_that_live_when_their_mesh_closes_are_leak_candidates() {
    let mut rig = Rig::dp_4();
    let freed = rig.interleaved(Class::Dram, 12);
    rig.interleaved(Class::Dram, 12);
    rig.sharded(&grid(8, 8), 4 * TILE);
    let workload = rig.matmul(&grid(8, 8));
    rig.run(workload);
    rig.runtime.free(freed).expect("it is live");
    rig.runtime.close();
    let leaks = rig.account.facts().leak_candidates;
    assert_eq!(leaks.buffers, 2);
    // 64 cores hold data, but every bank gives up the bytes: 72 on this board.
    assert_eq!(leaks.buffer_bytes, 4 * (12 * TILE + 4 * TILE * 72));
    // What the program cache held is no leak, and nothing is live.
    assert_eq!((leaks.cbs, leaks.kernels), (0, 0));
    rig.account.assert_nothing_left();
}

#[test]
fn a_process_that_frees_everything_leaks_nothing() {
    for mut rig in Rig::dp_4_on_both_paths() {
        let tensor = rig.interleaved(Class::L1, 64);
        let workload = rig.matmul(&grid(4, 4));
        rig.run(workload);
        rig.runtime.free(tensor).expect("it is live");
        rig.runtime.close();
        assert_eq!(rig.account.facts().leak_candidates.buffers, 0);
        rig.account.assert_nothing_left();
    }
}

#[test]
fn the_account_agrees_with_the_allocators_own_statistics() {
    let options = RuntimeOptions {
        trace_region_size: 1 << 20,
        ..RuntimeOptions::of(BoardKind::P150)
    };
    let mut rig = Rig::open(options, 1, 1);
    assert_eq!(rig.account.allocator(Class::Dram).verified, None);
    for class in [Class::Dram, Class::L1, Class::Trace] {
        rig.interleaved(class, 33);
    }
    let hole = rig.interleaved(Class::L1, 500);
    rig.interleaved(Class::L1, 7);
    rig.runtime.free(hole).expect("it is live");
    rig.runtime.report_statistics(rig.mesh).expect("it is open");
    for class in [Class::Dram, Class::L1, Class::Trace] {
        let statistics = rig.runtime.statistics(rig.mesh, class);
        let statistics = statistics.expect("it is open");
        let account = rig.account.allocator(class);
        assert_eq!(account.verified, Some(true), "{class:?}");
        assert_eq!(account.per_bank_bytes, statistics.allocated);
        let geometry = rig.account.geometry(0).classes[class.index()];
        assert_eq!(geometry.largest_free_bytes, Some(statistics.largest_free));
    }
}

#[test]
fn closing_a_mesh_destroys_its_workloads_and_closes_chips_nobody_uses() {
    for mut rig in Rig::dp_4_on_both_paths() {
        let workloads = [(); 3].map(|()| rig.matmul(&grid(8, 8)));
        for workload in workloads {
            rig.run(workload);
        }
        rig.account.news();
        rig.runtime.close_mesh(rig.mesh).expect("it is open");
        let events = rig.account.news();
        assert_eq!(count(&events, "DeviceClosed"), 4);
        let system = if rig.runtime.options().fabric { 8 } else { 0 };
        assert_eq!(count(&events, "ProgramDestroyed"), 3 + system);
        rig.account.assert_nothing_left();
        assert_eq!(
            rig.runtime.destroy(workloads[0]),
            Err(RuntimeError::WorkloadGone)
        );
    }
}

#[test]
fn what_is_gone_cannot_be_used_again() {
    let mut rig = Rig::n150();
    let tensor = rig.interleaved(Class::Dram, 1);
    rig.runtime.free(tensor).expect("it is live");
    assert_eq!(rig.runtime.free(tensor), Err(RuntimeError::BufferFreed));
    let workload = rig.matmul(&grid(1, 1));
    rig.destroy(workload);
    let run = rig.try_run(workload, CacheResult::Miss);
    assert_eq!(run, Err(RuntimeError::WorkloadGone));
    rig.runtime.close();
    let closed = rig.runtime.report_statistics(rig.mesh);
    assert_eq!(closed, Err(RuntimeError::MeshClosed));
    rig.account.assert_nothing_left();
}

#[test]
fn devices_can_be_opened_again_and_hold_what_is_new() {
    let mut rig = Rig::n150();
    rig.interleaved(Class::Dram, 12);
    rig.runtime.close();
    rig.mesh = rig.runtime.open_mesh(1, 1).expect("the chip is free");
    assert_eq!(rig.account.charged(0, Class::Dram), 0);
    assert_eq!(rig.account.kernel_bytes(0), 92 * 1024);
    let workload = rig.matmul(&grid(8, 8));
    rig.run(workload);
    rig.runtime.close();
    rig.account.assert_nothing_left();
}
