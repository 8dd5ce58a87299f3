//! "Real-Time Kernel Dispatch Tracking".

use crate::rig::{
    MATMUL_CBS, MATMUL_TEXT, Rig, TILE, add_reader, count, ethernet, fill_matmul, grid, steps,
};
use ttmem_event::catalogue::BoardKind;
use ttmem_event::{Class, CoreType, DispatchPath, EventKind, KernelKind};
use ttmem_model::buffer::BufferSpec;
use ttmem_model::program::KernelSpec;
use ttmem_model::runtime::{DeviceRange, RuntimeOptions, Target};

#[test]
fn kernels_are_tracked_when_their_program_is_first_dispatched() {
    for mut rig in Rig::on_both_paths() {
        let workload = rig.matmul(&grid(8, 8));
        let application = KernelKind::Application;
        assert_eq!(rig.account.kernel_bytes_of(0, application), 0);
        rig.run(workload);
        let bytes = rig.account.kernel_bytes_of(0, application);
        assert_eq!(bytes, MATMUL_TEXT * 64);
    }
}

#[test]
fn every_run_is_an_event_and_only_the_first_loads_kernels() {
    for mut rig in Rig::on_both_paths() {
        let workload = rig.matmul(&grid(8, 8));
        rig.account.news();
        rig.run(workload);
        assert_eq!(count(&rig.account.news(), "KernelLoaded"), 3);
        for _run in 0..5 {
            rig.run_cached(workload);
        }
        let events = rig.account.news();
        assert_eq!(count(&events, "KernelLoaded"), 0);
        assert_eq!(count(&events, "Dispatched"), 5);
    }
}

#[test]
fn each_device_of_a_mesh_is_tracked_separately() {
    for mut rig in Rig::dp_4_on_both_paths() {
        let program = rig.program("second", |program| fill_matmul(program, &grid(8, 8)));
        let workload = rig.workload_of(vec![(DeviceRange::one(0, 1), program)]);
        rig.run(workload);
        let kernels =
            [0, 1, 2, 3].map(|chip| rig.account.kernel_bytes_of(chip, KernelKind::Application));
        assert_eq!(kernels, [0, MATMUL_TEXT * 64, 0, 0]);
        assert_eq!(rig.account.caches(1).dispatches, 1 + system_runs(&rig));
        assert_eq!(rig.account.caches(2).dispatches, system_runs(&rig));
    }
}

/// The fabric's and the dispatcher's own runs on a chip.
fn system_runs(rig: &Rig) -> u64 {
    if rig.runtime.options().fabric { 2 } else { 0 }
}

#[test]
fn the_dram_buffer_of_the_binaries_is_dram_and_not_kernel_memory() {
    let mut rig = Rig::n150();
    let workload = rig.matmul(&grid(8, 8));
    rig.run(workload);
    // One page of 2,048 bytes in each of twelve banks.
    assert_eq!(rig.account.charged(0, Class::Dram), 2_048 * 12);
    assert_eq!(rig.account.charged(0, Class::L1), 0);
    let kernels = rig.account.kernel_bytes_of(0, KernelKind::Application);
    assert_eq!(kernels, MATMUL_TEXT * 64);
}

#[test]
fn what_has_no_text_is_not_reported() {
    for mut rig in Rig::on_both_paths() {
        let workload = rig.one_kernel("empty", &grid(8, 8), 0);
        rig.account.news();
        rig.run(workload);
        let events = rig.account.news();
        assert_eq!(count(&events, "KernelLoaded"), 0);
        assert_eq!(count(&events, "Dispatched"), 1);
    }
    // A mock device places no text at all.
    let options = RuntimeOptions {
        target: Target::Mock,
        ..RuntimeOptions::of(BoardKind::N150)
    };
    let mut rig = Rig::open(options, 1, 1);
    let workload = rig.matmul(&grid(8, 8));
    rig.run(workload);
    assert_eq!(rig.account.kernel_bytes(0), 0);
    assert_eq!(rig.account.cb_bytes(0), MATMUL_CBS * 64);
    assert_eq!(rig.account.buffers(), []);
}

#[test]
fn the_runtimes_id_changes_with_every_run_and_the_identity_does_not() {
    let mut rig = Rig::n150();
    let workload = rig.matmul(&grid(8, 8));
    rig.run(workload);
    let first = rig.account.programs("matmul")[0].clone();
    rig.run_cached(workload);
    let second = rig.account.programs("matmul")[0].clone();
    assert_ne!(second.runtime_id, first.runtime_id);
    assert_eq!(second.id, first.id);
    assert_eq!(rig.account.programs("matmul").len(), 1);
}

#[test]
fn slow_dispatch_compiles_places_finalizes_tracks_and_then_launches() {
    let mut rig = Rig::slow_n150();
    let workload = rig.matmul(&grid(1, 1));
    rig.account.news();
    rig.run(workload);
    let order = [
        "JitDiskLookup",
        "CbAllocated",
        "ProgramFinalized",
        "KernelLoaded",
        "Dispatched",
    ];
    assert_eq!(steps(&rig.account.news()), order);
}

#[test]
fn kernels_are_unloaded_when_their_program_is_destroyed() {
    for mut rig in Rig::dp_4_on_both_paths() {
        let before = rig.account.kernel_bytes(3);
        let workload = rig.matmul(&grid(8, 8));
        rig.run(workload);
        assert!(rig.account.kernel_bytes(3) > before);
        rig.account.news();
        rig.destroy(workload);
        let events = rig.account.news();
        assert!(count(&events, "KernelUnloaded") > 0);
        assert_eq!(rig.account.kernel_bytes(3), before);
    }
}

#[test]
fn which_programs_ran_how_often_and_when_is_known() {
    let mut rig = Rig::n150();
    let often = rig.one_kernel("often", &grid(8, 8), 1_000);
    let once = rig.one_kernel("once", &grid(8, 8), 1_000);
    rig.run(often);
    rig.run(once);
    rig.run_cached(often);
    let (often, once) = (
        rig.account.on_device("often", 0),
        rig.account.on_device("once", 0),
    );
    assert_eq!((often.dispatches, once.dispatches), (2, 1));
    assert!(often.first_dispatch < once.first_dispatch);
    assert!(often.last_dispatch > once.last_dispatch);
    assert_eq!(once.first_dispatch, once.last_dispatch);
}

#[test]
fn a_ring_that_wraps_evicts_the_oldest() {
    let mut rig = Rig::n150();
    // Three of these fill the ring of 70,656 bytes but for 10,656.
    let programs: Vec<_> = ["a", "b", "c", "d"]
        .into_iter()
        .map(|name| rig.one_kernel(name, &grid(8, 8), 20_000))
        .collect();
    for program in &programs {
        rig.run(*program);
    }
    let wraps = rig.account.ring(CoreType::Tensix).wraps;
    for program in &programs {
        rig.run_cached(*program);
    }
    let ring = rig.account.ring(CoreType::Tensix);
    assert_eq!(ring.wraps, wraps + 1);
    assert_eq!(ring.wraps, rig.runtime.counts().ring_wraps);
    let names = |rig: &mut Rig| -> Vec<_> {
        let ids = ring.entries().map(|entry| entry.program);
        let named = |id| {
            let names = ["a", "b", "c", "d"];
            names
                .into_iter()
                .find(|name| rig.account.programs(name)[0].id == id)
        };
        ids.filter_map(named).collect()
    };
    // The first run of d left it alone in the ring; a and b came behind it, c over it, d over a.
    assert_eq!(names(&mut rig), ["b", "c", "d"]);
    assert!(ring.used_bytes <= ring.size_bytes);
}

#[test]
fn reuse_of_what_is_cached_is_counted_for_every_cache() {
    let mut rig = Rig::n150();
    let workload = rig.matmul(&grid(8, 8));
    rig.run(workload);
    rig.run_cached(workload);
    rig.run_cached(workload);
    let again = rig.matmul(&grid(8, 8));
    rig.run(again);
    let caches = rig.account.caches(0);
    assert_eq!(caches.program_cache_hits, 2);
    assert_eq!(caches.binary_reuses, 2);
    assert_eq!(caches.prefetch_hits, 2);
    assert_eq!(caches.jit_disk_hits, 3);
}

#[test]
fn a_kernel_shared_by_programs_counts_once_where_each_is_counted_once() {
    let mut rig = Rig::n150();
    let before = rig.account.totals(0).kernel;
    let workloads = [(); 3].map(|()| rig.matmul(&grid(8, 8)));
    for workload in workloads {
        rig.run(workload);
    }
    let kernel = rig.account.totals(0).kernel;
    let registered = kernel.registered.bytes() - before.registered.bytes();
    assert_eq!(registered, 3 * MATMUL_TEXT * 64);
    assert_eq!(kernel.unique_bytes - before.unique_bytes, MATMUL_TEXT * 64);
    rig.destroy(workloads[0]);
    rig.destroy(workloads[1]);
    let kernel = rig.account.totals(0).kernel;
    assert_eq!(kernel.unique_bytes - before.unique_bytes, MATMUL_TEXT * 64);
}

#[test]
fn kernel_memory_is_broken_down_by_kind_of_core() {
    let mut rig = Rig::open(RuntimeOptions::of(BoardKind::N300), 1, 1);
    let before = rig.account.totals(0).kernel.by_core_type;
    let program = rig.program("all gather", |program| {
        add_reader(program, "reader.cpp", &grid(8, 8), 1_000);
        let link = ethernet(&[8]);
        let sender = KernelSpec::ethernet("erisc_sender.cpp", CoreType::ActiveEth, link);
        let added = program.add_kernel(sender.with_text_bytes(5_000));
        added.expect("Ethernet cores have that processor");
    });
    let workload = rig.workload(program);
    rig.run(workload);
    let after = rig.account.totals(0).kernel.by_core_type;
    let added = |core_type: CoreType| after[core_type as usize] - before[core_type as usize];
    assert_eq!(added(CoreType::Tensix), 64_000);
    assert_eq!(added(CoreType::ActiveEth), 5_000);
    assert_eq!(added(CoreType::IdleEth), 0);
}

#[test]
fn cached_kernels_still_count() {
    let mut rig = Rig::n150();
    let kept = rig.matmul(&grid(8, 8));
    rig.run(kept);
    let other = rig.one_kernel("other", &grid(8, 8), 60_000);
    rig.run(other);
    // Its text has left the ring, but it is registered: the program may run at any time.
    let ring = rig.account.ring(CoreType::Tensix);
    let kept = rig.account.programs("matmul")[0].id;
    assert!(ring.entries().all(|entry| entry.program != kept));
    let registered = rig.account.kernel_bytes_of(0, KernelKind::Application);
    assert_eq!(registered, (MATMUL_TEXT + 60_000) * 64);
}

#[test]
fn a_single_core_matmul_under_slow_dispatch_shows_its_kernels_and_circular_buffers() {
    let mut rig = Rig::slow_n150();
    let inputs = [(); 2].map(|()| rig.interleaved(Class::Dram, 400));
    let output = rig.interleaved(Class::Dram, 400);
    let workload = rig.matmul(&grid(1, 1));
    rig.account.news();
    rig.run(workload);
    let events = rig.account.news();
    let path = events.iter().find_map(|event| match event {
        EventKind::Dispatched { path, .. } => Some(*path),
        _other => None,
    });
    assert_eq!(path, Some(DispatchPath::Slow));
    assert_eq!(rig.account.kernel_bytes(0), MATMUL_TEXT);
    assert_eq!(rig.account.cb_bytes(0), MATMUL_CBS);
    // Three tensors and no binary: the host writes the text to the core itself.
    assert_eq!(rig.account.buffers().len(), 3);
    rig.destroy(workload);
    for buffer in inputs.into_iter().chain([output]) {
        rig.runtime.free(buffer).expect("it is live");
    }
    rig.account.assert_nothing_left();
}

#[test]
fn all_four_devices_of_dp_4_show_kernels() {
    let mut rig = Rig::dp_4();
    let workload = rig.matmul(&grid(8, 8));
    rig.run(workload);
    for chip in 0..4 {
        let kernels = rig.account.kernel_bytes_of(chip, KernelKind::Application);
        assert_eq!(kernels, MATMUL_TEXT * 64);
    }
    assert_eq!(rig.account.view().devices.len(), 4);
}

#[test]
fn one_account_has_all_kinds_of_memory() {
    let options = RuntimeOptions {
        l1_small_size: 32_768,
        trace_region_size: 1 << 20,
        ..RuntimeOptions::of(BoardKind::N150)
    };
    let mut rig = Rig::open(options, 1, 1);
    rig.interleaved(Class::Dram, 1);
    rig.interleaved(Class::L1, 1);
    rig.interleaved(Class::Trace, 1);
    let small = BufferSpec::sharded(Class::L1Small, grid(8, 8).set(), TILE, TILE);
    rig.try_allocate(&small).expect("there is room");
    let workload = rig.matmul(&grid(8, 8));
    rig.run(workload);
    for class in [Class::Dram, Class::L1, Class::L1Small, Class::Trace] {
        assert!(rig.account.charged(0, class) > 0, "{class:?}");
    }
    assert!(rig.account.cb_bytes(0) > 0);
    for kind in [KernelKind::Application, KernelKind::Dispatch] {
        assert!(rig.account.kernel_bytes_of(0, kind) > 0, "{kind:?}");
    }
}
