//! "Fast Dispatch CB and Kernel Tracking Fix".

use crate::rig::{
    L1_BASE, MATMUL_CBS, MATMUL_TEXT, Rig, TILE, add_cb, add_global_cb, add_reader, count,
    fill_matmul, grid, steps,
};
use ttmem_event::{CbKind, Class, EventKind, KernelKind};
use ttmem_model::program::ConfigLayout;
use ttmem_model::runtime::DeviceRange;

#[test]
fn under_fast_dispatch_circular_buffers_and_kernels_appear_beside_buffers() {
    let mut rig = Rig::n150();
    rig.interleaved(Class::Dram, 1024);
    let workload = rig.matmul(&grid(8, 8));
    let before = rig.account.kernel_bytes(0);
    rig.run(workload);
    assert_eq!(rig.account.cb_bytes(0), MATMUL_CBS * 64);
    assert_eq!(rig.account.kernel_bytes(0) - before, MATMUL_TEXT * 64);
    assert!(rig.account.charged(0, Class::Dram) > 1024 * TILE);
}

#[test]
fn circular_buffers_inside_of_l1_buffers_are_tracked_and_not_skipped() {
    for mut rig in Rig::on_both_paths() {
        let cores = grid(8, 8);
        let tensor = rig.sharded(&cores, 16 * TILE);
        let place = rig.inside(tensor);
        let program = rig.program("sharded", |program| {
            fill_matmul(program, &cores);
            add_global_cb(program, 2, &cores, 16 * TILE, place);
        });
        let workload = rig.workload(program);
        rig.run(workload);
        let global = rig.account.cb_bytes_of(0, CbKind::Global);
        assert_eq!(global, 16 * TILE * 64);
        assert_eq!(rig.account.cb_bytes(0), global + MATMUL_CBS * 64);
    }
}

#[test]
fn a_program_with_nothing_but_global_circular_buffers_shows_them_all() {
    for mut rig in Rig::dp_4_on_both_paths() {
        let cores = grid(8, 8);
        let tensor = rig.sharded(&cores, 16 * TILE);
        let place = rig.inside(tensor);
        let program = rig.program("in place", |program| {
            add_reader(program, "copy.cpp", &cores, 2_000);
            add_global_cb(program, 0, &cores, 16 * TILE, place);
            add_global_cb(program, 1, &cores, 4 * TILE, place);
        });
        let workload = rig.workload(program);
        rig.run(workload);
        for chip in 0..4 {
            assert_eq!(rig.account.totals(chip).cb.count, 2);
            let global = rig.account.cb_bytes_of(chip, CbKind::Global);
            assert_eq!(global, 20 * TILE * 64);
            assert_eq!(rig.account.cb_bytes_of(chip, CbKind::Local), 0);
        }
    }
}

#[test]
fn a_global_circular_buffer_has_the_address_that_the_allocator_gave() {
    let mut rig = Rig::n150();
    let cores = grid(8, 8);
    let tensor = rig.sharded(&cores, 16 * TILE);
    let place = rig.inside(tensor);
    let program = rig.program("sharded", |program| {
        add_global_cb(program, 0, &cores, 4 * TILE, place);
        add_cb(program, 1, &cores, TILE);
    });
    let workload = rig.workload(program);
    rig.run(workload);
    let on = rig.account.on_device("sharded", 0);
    let addresses: Vec<u64> = on.cbs().iter().map(|cb| cb.address).collect();
    assert_eq!(addresses, [rig.address(tensor), L1_BASE]);
    assert!(rig.address(tensor) > L1_BASE);
}

#[test]
fn a_global_circular_buffer_is_shown_but_takes_no_memory_beside_its_buffer() {
    let mut rig = Rig::n150();
    let cores = grid(8, 8);
    let tensor = rig.sharded(&cores, 16 * TILE);
    let place = rig.inside(tensor);
    let before = rig.account.geometry(0).occupied_bytes;
    let program = rig.program("in place", |program| {
        add_global_cb(program, 0, &cores, 16 * TILE, place);
    });
    let workload = rig.workload(program);
    rig.run(workload);
    let geometry = rig.account.geometry(0);
    assert_eq!(geometry.cb_resident_bytes, Some(16 * TILE * 64));
    assert_eq!(geometry.occupied_bytes, before);
    assert_eq!(before, Some((L1_BASE + 16 * TILE) * 64));
    // A local one of the same size does take memory.
    let program = rig.program("local", |program| {
        add_cb(program, 0, &cores, 16 * TILE);
    });
    let workload = rig.workload(program);
    rig.run(workload);
    let occupied = rig.account.geometry(0).occupied_bytes;
    assert_eq!(occupied, Some((L1_BASE + 32 * TILE) * 64));
}

#[test]
fn under_fast_dispatch_the_kernels_of_every_program_of_a_workload_are_tracked() {
    let mut rig = Rig::dp_4();
    let left = rig.program("left", |program| {
        add_reader(program, "left.cpp", &grid(2, 2), 1_000);
    });
    let right = rig.program("right", |program| {
        add_reader(program, "right.cpp", &grid(4, 4), 5_000);
    });
    let halves = |column| DeviceRange::Part {
        row: 0,
        column,
        rows: 1,
        columns: 2,
    };
    let workload = rig.workload_of(vec![(halves(0), left), (halves(2), right)]);
    rig.run(workload);
    let application =
        |rig: &mut Rig, chip| rig.account.kernel_bytes_of(chip, KernelKind::Application);
    assert_eq!([0, 1].map(|chip| application(&mut rig, chip)), [4_000; 2]);
    assert_eq!([2, 3].map(|chip| application(&mut rig, chip)), [80_000; 2]);
}

#[test]
fn a_program_without_kernel_code_reports_no_kernel() {
    for mut rig in Rig::on_both_paths() {
        rig.account.news();
        let program = rig.program("storage only", |program| {
            add_cb(program, 0, &grid(8, 8), TILE);
        });
        let workload = rig.workload(program);
        rig.run(workload);
        let events = rig.account.news();
        assert_eq!(count(&events, "KernelLoaded"), 0);
        assert_eq!(count(&events, "BinarySent"), 0);
        assert_eq!(count(&events, "CbAllocated"), 1);
    }
}

#[test]
fn single_devices_and_mesh_devices_are_tracked_alike() {
    let mut single = Rig::n150();
    let workload = single.matmul(&grid(8, 8));
    single.run(workload);
    for mut rig in Rig::dp_4_on_both_paths() {
        let workload = rig.matmul(&grid(8, 8));
        rig.run(workload);
        for chip in 0..4 {
            assert_eq!(rig.account.cb_bytes(chip), single.account.cb_bytes(0));
            let application = KernelKind::Application;
            assert_eq!(
                rig.account.kernel_bytes_of(chip, application),
                single.account.kernel_bytes_of(0, application)
            );
        }
    }
}

#[test]
fn configuration_text_and_packed_binary_are_three_sizes() {
    let mut rig = Rig::n150();
    let workload = rig.matmul(&grid(8, 8));
    rig.run(workload);
    let program = &rig.account.programs("matmul")[0];
    let sizes = program.finalized.expect("it ran");
    // Text is aligned to 16 bytes in the ring, binary by binary.
    assert_eq!(sizes.text_bytes, 3_008 + 2_608 + 3 * 3_008);
    // In DRAM each binary begins a page of 2,048 bytes.
    assert_eq!(sizes.binary_bytes, 2 * 4_096 + 3 * 4_096);
    // 17 circular buffer slots of 16 bytes: the highest index is 16.
    assert_eq!(sizes.config_bytes, 17 * 16);
}

#[test]
fn a_program_pointer_is_used_again_but_its_identity_is_not() {
    let mut rig = Rig::n150();
    let first = rig.matmul(&grid(8, 8));
    rig.run(first);
    let old = rig.account.programs("matmul")[0].clone();
    rig.destroy(first);
    let second = rig.matmul(&grid(1, 1));
    rig.run(second);
    let new = rig.account.programs("matmul")[0].clone();
    assert_eq!(new.pointer, old.pointer);
    assert_ne!(new.id, old.id);
    assert_eq!(rig.account.cb_bytes(0), MATMUL_CBS);
}

#[test]
fn a_kernel_that_is_reported_twice_counts_once() {
    for mut rig in Rig::on_both_paths() {
        let workload = rig.matmul(&grid(8, 8));
        rig.account.news();
        rig.run(workload);
        let events = rig.account.news();
        let before = rig.account.kernel_bytes(0);
        for event in events {
            if matches!(event, EventKind::KernelLoaded { .. }) {
                rig.account.repeat(event);
            }
        }
        assert_eq!(rig.account.kernel_bytes(0), before);
        rig.runtime.close();
        rig.account.assert_nothing_left();
    }
}

#[test]
fn fast_dispatch_compiles_places_finalizes_loads_and_then_generates_commands() {
    let mut rig = Rig::dp_4();
    let workload = rig.matmul(&grid(8, 8));
    rig.account.news();
    rig.run(workload);
    let events = rig.account.news();
    let order = [
        "JitDiskLookup",
        "CbAllocated",
        "ProgramFinalized",
        "KernelLoaded",
        "BufferAllocated",
        "BinarySent",
        "BinaryStatusChanged",
        "CommandsCached",
        "ConfigRingReserved",
        "ConfigRingAllocated",
        "Prefetched",
        "Dispatched",
        "BinaryStatusChanged",
    ];
    assert_eq!(steps(&events), order);
    // Circular buffers are reported for each chip, everything else once for the mesh.
    assert_eq!(count(&events, "CbAllocated"), 4 * 3);
    assert_eq!(count(&events, "Dispatched"), 1);
}

#[test]
fn tracking_works_on_all_devices_of_a_mesh_workload() {
    let mut rig = Rig::dp_4();
    let workload = rig.matmul(&grid(8, 8));
    rig.run(workload);
    for chip in 0..4 {
        assert_eq!(rig.account.totals(chip).cb.count, 3);
        assert_eq!(rig.account.cb_bytes(chip), MATMUL_CBS * 64);
        let on = rig.account.on_device("matmul", chip);
        assert_eq!(on.kernels().len(), 3);
        assert_eq!(on.dispatches, 1);
    }
}

#[test]
fn the_programs_of_a_workload_are_finalized_together_and_get_equal_offsets() {
    let mut rig = Rig::dp_4();
    let small = rig.program("small", |program| {
        add_reader(program, "small.cpp", &grid(1, 1), 1_000);
    });
    let large = rig.program("large", |program| fill_matmul(program, &grid(8, 8)));
    let workload = rig.workload_of(vec![
        (DeviceRange::one(0, 0), small),
        (DeviceRange::one(0, 1), large),
    ]);
    rig.run(workload);
    let layout = |rig: &mut Rig, index| -> ConfigLayout {
        let program = rig.runtime.program_mut(workload, index);
        *program
            .and_then(|program| program.config())
            .expect("it ran")
    };
    let (small, large) = (layout(&mut rig, 0), layout(&mut rig, 1));
    assert_eq!(small, large);
    // Alone, the small one would have no circular buffers before its text.
    let alone = rig.one_kernel("small", &grid(1, 1), 1_000);
    rig.run(alone);
    let program = rig.runtime.program_mut(alone, 0);
    let alone = *program
        .and_then(|program| program.config())
        .expect("it ran");
    assert!(alone.per_core_type[0].text_at < small.per_core_type[0].text_at);
}
