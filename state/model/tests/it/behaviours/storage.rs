//! Per-core storage of every kind, and what changes it.

use crate::rig::{L1_BASE, Rig, TILE, add_cb, add_global_cb, add_reader, count, grid};
use ttmem_event::{CacheResult, CbKind, Class};
use ttmem_model::program::{CbPlace, StorageKind, StorageSpec};

#[test]
fn a_global_circular_buffer_that_moves_is_told_and_the_layout_stays() {
    for mut rig in Rig::dp_4_on_both_paths() {
        let cores = grid(8, 8);
        let tensors = [(); 2].map(|()| rig.sharded(&cores, 4 * TILE));
        let place = rig.inside(tensors[0]);
        let program = rig.program("moving", |program| {
            add_cb(program, 0, &cores, TILE);
            add_global_cb(program, 1, &cores, 4 * TILE, place);
        });
        let workload = rig.workload(program);
        rig.run(workload);
        let target = rig.address(tensors[1]);
        let program = rig.runtime.program_mut(workload, 0);
        let program = program.expect("it is the only one");
        let moved = program.update_cb_address(1, target, 4 * TILE);
        moved.expect("it fits the other buffer");
        rig.run_cached(workload);
        for chip in 0..4 {
            let on = rig.account.on_device("moving", chip);
            let addresses: Vec<u64> = on.cbs().iter().map(|cb| cb.address).collect();
            assert_eq!(addresses, [L1_BASE, target]);
            assert_eq!(rig.account.cb_bytes(chip), 5 * TILE * 64);
        }
    }
}

#[test]
fn remote_circular_buffers_are_shown_as_global_and_may_not_meet_local_indices() {
    let mut rig = Rig::n150();
    let cores = grid(8, 8);
    let tensor = rig.sharded(&cores, 16 * TILE);
    let place = CbPlace::Remote {
        address: rig.address(tensor),
        bank_bytes: 16 * TILE,
    };
    let program = rig.program("receiver", |program| {
        add_reader(program, "receiver.cpp", &cores, 1_000);
        add_cb(program, 0, &cores, TILE);
        add_global_cb(program, 31, &cores, 8 * TILE, place);
    });
    let workload = rig.workload(program);
    rig.run(workload);
    assert_eq!(rig.account.cb_bytes_of(0, CbKind::Global), 8 * TILE * 64);
    assert_eq!(rig.account.cb_bytes_of(0, CbKind::Local), TILE * 64);
    let program = rig.program("crossed", |program| {
        add_reader(program, "receiver.cpp", &cores, 1_000);
        add_cb(program, 16, &cores, TILE);
        add_global_cb(program, 8, &cores, 8 * TILE, place);
    });
    let workload = rig.workload(program);
    let refused = rig.try_run(workload, CacheResult::Miss);
    assert_eq!(
        refused.expect_err("8 is below 16").to_string(),
        "Circular buffer indices overlap for KernelGroup 0 on programmable core type 0. Local end \
         index 17, Remote start index 8"
    );
}

#[test]
fn dataflow_buffers_and_scratchpads_are_tracked_by_their_kind() {
    for mut rig in Rig::dp_4_on_both_paths() {
        let cores = grid(8, 8);
        let tensor = rig.sharded(&cores, 4 * TILE);
        let address = rig.address(tensor);
        let program = rig.program("dataflow", |program| {
            let kinds = [
                StorageKind::Dataflow,
                StorageKind::DataflowBorrowed { address },
                StorageKind::Scratchpad,
            ];
            for kind in kinds {
                let cores = cores.clone();
                let size = TILE;
                let added = program.add_storage(StorageSpec { kind, cores, size });
                added.expect("a slot is free");
            }
        });
        let workload = rig.workload(program);
        rig.run(workload);
        for chip in 0..4 {
            for kind in [
                CbKind::Dataflow,
                CbKind::DataflowBorrowed,
                CbKind::Scratchpad,
            ] {
                assert_eq!(rig.account.cb_bytes_of(chip, kind), TILE * 64, "{kind:?}");
            }
        }
        rig.destroy(workload);
        assert_eq!(rig.account.totals(3).cb.count, 0);
    }
}

#[test]
fn a_first_run_tells_each_device_and_later_ones_nobody() {
    for mut rig in Rig::dp_4_on_both_paths() {
        let workload = rig.matmul(&grid(8, 8));
        rig.account.news();
        for told in [12, 0, 0] {
            rig.run(workload);
            assert_eq!(count(&rig.account.news(), "CbAllocated"), told);
        }
    }
}

#[test]
fn storage_of_the_last_program_is_resident_and_that_of_the_others_registered() {
    let mut rig = Rig::n150();
    let all = rig.matmul(&grid(8, 8));
    let some = rig.matmul(&grid(4, 8));
    rig.run(all);
    rig.run(some);
    let per_core = 6 * TILE;
    assert_eq!(rig.account.cb_bytes(0), per_core * (64 + 32));
    let resident = rig.account.geometry(0).cb_resident_bytes;
    assert_eq!(resident, Some(per_core * 64));
    rig.destroy(some);
    let resident = rig.account.geometry(0).cb_resident_bytes;
    assert_eq!(resident, Some(per_core * 32));
    assert_eq!(rig.account.charged(0, Class::L1), 0);
}
