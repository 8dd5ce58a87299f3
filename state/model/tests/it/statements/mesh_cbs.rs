//! "CB Tracking Multi-Device Fix".

use crate::rig::{L1_BASE, MATMUL_CBS, Rig, TILE, add_cb, add_global_cb, count, fill_matmul, grid};
use ttmem_event::{CbKind, EventKind};
use ttmem_ledger::program::Cb;
use ttmem_model::runtime::DeviceRange;

const CHIPS: [u32; 4] = [0, 1, 2, 3];

#[test]
fn freeing_circular_buffers_gives_back_the_size_that_was_booked() {
    for mut rig in Rig::on_both_paths() {
        let kept = rig.matmul(&grid(2, 2));
        let gone = rig.matmul(&grid(8, 8));
        rig.run(kept);
        rig.run(gone);
        assert_eq!(rig.account.cb_bytes(0), MATMUL_CBS * (4 + 64));
        rig.destroy(gone);
        assert_eq!(rig.account.cb_bytes(0), MATMUL_CBS * 4);
        assert_eq!(rig.account.totals(0).cb.count, 3);
    }
}

#[test]
fn each_device_shows_its_circular_buffers() {
    for mut rig in Rig::dp_4_on_both_paths() {
        let workload = rig.matmul(&grid(8, 8));
        rig.account.news();
        rig.run(workload);
        assert_eq!(count(&rig.account.news(), "CbAllocated"), 4 * 3);
        for chip in CHIPS {
            assert_eq!(rig.account.cb_bytes(chip), MATMUL_CBS * 64);
        }
    }
}

#[test]
fn later_devices_show_theirs_though_the_layout_was_computed_for_the_first_only() {
    let mut rig = Rig::slow_dp_4();
    let cores = grid(8, 8);
    let tensor = rig.sharded(&cores, 4 * TILE);
    let place = rig.inside(tensor);
    let program = rig.program("matmul", |program| {
        fill_matmul(program, &cores);
        add_global_cb(program, 2, &cores, 4 * TILE, place);
    });
    let workload = rig.workload(program);
    rig.account.news();
    rig.run(workload);
    // The host goes from device to device; compilation and layout are those of the first.
    let mut devices = Vec::new();
    for event in rig.account.news() {
        if let EventKind::CbAllocated { mesh, .. } = event {
            devices.push(mesh);
        }
    }
    assert_eq!(devices.len(), 4 * 4);
    devices.dedup();
    assert_eq!(devices.len(), 4);
    for chip in CHIPS {
        assert_eq!(
            rig.account.cb_bytes_of(chip, CbKind::Local),
            MATMUL_CBS * 64
        );
        let global = rig.account.cb_bytes_of(chip, CbKind::Global);
        assert_eq!(global, 4 * TILE * 64);
    }
}

#[test]
fn circular_buffers_are_freed_on_all_devices() {
    for mut rig in Rig::dp_4_on_both_paths() {
        let workload = rig.matmul(&grid(8, 8));
        rig.run(workload);
        rig.account.news();
        rig.destroy(workload);
        assert_eq!(count(&rig.account.news(), "CbFreed"), 4);
        for chip in CHIPS {
            assert_eq!(rig.account.cb_bytes(chip), 0);
            assert_eq!(rig.account.totals(chip).cb.count, 0);
        }
    }
}

#[test]
fn l1_is_each_devices_own() {
    for mut rig in Rig::dp_4_on_both_paths() {
        let program = rig.program("matmul", |program| fill_matmul(program, &grid(8, 8)));
        let workload = rig.workload_of(vec![(DeviceRange::one(0, 2), program)]);
        rig.run(workload);
        let bytes = CHIPS.map(|chip| rig.account.cb_bytes(chip));
        assert_eq!(bytes, [0, 0, MATMUL_CBS * 64, 0]);
        let geometries = CHIPS.map(|chip| rig.account.geometry(chip).occupied_bytes);
        assert_eq!(geometries[0], geometries[3]);
        let more = geometries[0].map(|bytes| bytes + MATMUL_CBS * 64);
        assert_eq!(geometries[2], more);
    }
}

fn cbs_on(rig: &mut Rig, chip: u32) -> Vec<Cb> {
    rig.account.on_device("matmul", chip).cbs().to_vec()
}

#[test]
fn circular_buffers_have_the_same_addresses_on_all_devices() {
    for mut rig in Rig::dp_4_on_both_paths() {
        let workload = rig.matmul(&grid(8, 8));
        rig.run(workload);
        let addresses = [L1_BASE, L1_BASE + 2 * TILE, L1_BASE + 4 * TILE];
        for chip in CHIPS {
            let cbs = cbs_on(&mut rig, chip);
            assert!(cbs.iter().map(|cb| cb.address).eq(addresses), "{cbs:?}");
        }
    }
}

#[test]
fn circular_buffers_have_the_same_sizes_on_all_devices() {
    for mut rig in Rig::dp_4_on_both_paths() {
        let program = rig.program("matmul", |program| {
            add_cb(program, 0, &grid(8, 8), 4 * TILE);
            add_cb(program, 1, &grid(4, 8), TILE);
        });
        let workload = rig.workload(program);
        rig.run(workload);
        for chip in CHIPS {
            let sizes = cbs_on(&mut rig, chip);
            let sizes = sizes.iter().map(|cb| (cb.size_bytes, cb.core_count));
            assert!(sizes.eq([(4 * TILE, 64), (TILE, 32)]));
        }
    }
}

#[test]
fn telling_a_device_twice_does_not_count_twice() {
    for mut rig in Rig::dp_4_on_both_paths() {
        let workload = rig.matmul(&grid(8, 8));
        rig.account.news();
        rig.run(workload);
        for event in rig.account.news() {
            if matches!(event, EventKind::CbAllocated { .. }) {
                rig.account.repeat(event);
            }
        }
        // Nor does a device that runs the program again.
        rig.run(workload);
        for chip in CHIPS {
            assert_eq!(rig.account.cb_bytes(chip), MATMUL_CBS * 64);
            assert_eq!(rig.account.totals(chip).cb.count, 3);
        }
        rig.destroy(workload);
        rig.runtime.close();
        rig.account.assert_nothing_left();
    }
}

#[test]
fn a_size_that_changes_is_told_to_every_device_and_replaces_what_was_there() {
    for mut rig in Rig::dp_4_on_both_paths() {
        let workload = rig.matmul(&grid(8, 8));
        rig.run(workload);
        rig.account.news();
        let program = rig.runtime.program_mut(workload, 0);
        let program = program.expect("it is the only one");
        program.update_cb_size(0, 8 * TILE).expect("whole tiles");
        rig.run(workload);
        // The layout is void: every circular buffer is told again.
        assert_eq!(count(&rig.account.news(), "CbAllocated"), 4 * 3);
        for chip in CHIPS {
            let cbs = cbs_on(&mut rig, chip);
            let ends: Vec<u64> = cbs.iter().map(|cb| cb.address + cb.size_bytes).collect();
            let tiles = [8, 10, 12].map(|tiles| L1_BASE + tiles * TILE);
            assert_eq!(ends, tiles);
            assert_eq!(rig.account.cb_bytes(chip), 12 * TILE * 64);
        }
        rig.runtime.close();
        rig.account.assert_nothing_left();
    }
}
