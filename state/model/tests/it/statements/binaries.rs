//! "Can We Track Application Kernels in Fast Dispatch?".

use crate::account::Account;
use crate::rig::{MATMUL_CBS, MATMUL_TEXT, Rig, add_reader, count, grid};
use ttmem_event::catalogue::{BoardKind, DispatchCores};
use ttmem_event::{BinaryStatus, Class, CoreType, Direction, DispatchPath, EventKind, KernelKind};
use ttmem_model::runtime::RuntimeOptions;

/// Pages of 2,048 bytes for each binary of a matmul: reader, writer, three for compute.
const PACKED_MATMUL: u64 = 5 * 4_096;

#[test]
fn binaries_are_sent_once_at_the_first_run_and_reused_from_then_on() {
    let mut rig = Rig::n150();
    let workload = rig.matmul(&grid(8, 8));
    rig.run(workload);
    let sent = rig.account.news();
    assert_eq!(count(&sent, "BinarySent"), 1);
    for _run in 0..3 {
        rig.run_cached(workload);
    }
    let events = rig.account.news();
    assert_eq!(count(&events, "BinarySent"), 0);
    let on = rig.account.on_device("matmul", 0);
    assert_eq!((on.dispatches, on.binary_reuses), (4, 3));
    assert_eq!(on.sent_bytes, Some(PACKED_MATMUL));
}

#[test]
fn kernels_are_compiled_only_if_they_are_not_on_disk() {
    let mut rig = Rig::n150();
    let first = rig.matmul(&grid(8, 8));
    rig.run(first);
    let compiled = rig.runtime.counts().jit_disk_misses;
    // Another program with the same sources, on other cores.
    let second = rig.matmul(&grid(2, 2));
    rig.run(second);
    let counts = rig.runtime.counts();
    assert_eq!(counts.jit_disk_misses, compiled);
    assert_eq!(counts.jit_disk_hits, 3);
    let caches = rig.account.caches(0);
    assert_eq!(
        (caches.jit_disk_hits, caches.jit_disk_misses),
        (3, compiled)
    );
}

#[test]
fn commands_are_generated_at_the_first_run_only() {
    let mut rig = Rig::n150();
    let workload = rig.matmul(&grid(8, 8));
    for runs in 1..=3 {
        rig.run(workload);
        let events = rig.account.news();
        assert_eq!(count(&events, "CommandsCached"), usize::from(runs == 1));
        assert_eq!(count(&events, "JitDiskLookup") > 0, runs == 1);
    }
}

#[test]
fn binaries_lie_in_one_dram_buffer_taken_from_the_top_on_every_device() {
    let mut rig = Rig::dp_4();
    let tensor = rig.interleaved(Class::Dram, 1024);
    let workload = rig.matmul(&grid(8, 8));
    rig.run(workload);
    let buffers = rig.account.buffers();
    let [tensor_row, binaries] = buffers[..] else {
        panic!("{buffers:?}");
    };
    assert_eq!(tensor_row.address, rig.address(tensor));
    assert_eq!(binaries.class, Class::Dram);
    assert_eq!(binaries.direction, Direction::TopDown);
    assert_eq!(binaries.requested_bytes, PACKED_MATMUL);
    // Ten pages of 2,048 bytes over twelve banks: one page of each.
    assert_eq!(binaries.per_bank_bytes, 2_048);
    let dram = rig.runtime.capacities().dram;
    assert_eq!(binaries.address, dram.end() - binaries.per_bank_bytes);
    for chip in 0..4 {
        assert_eq!(rig.account.totals(chip).class(Class::Dram).buffers, 2);
    }
}

#[test]
fn the_state_of_a_binary_goes_from_not_sent_over_in_flight_to_committed() {
    let mut rig = Rig::n150();
    let workload = rig.matmul(&grid(8, 8));
    rig.account.news();
    rig.run(workload);
    let states = |events: &[EventKind]| -> Vec<BinaryStatus> {
        let state = |event: &EventKind| match event {
            EventKind::BinaryStatusChanged { status, .. } => Some(*status),
            _other => None,
        };
        events.iter().filter_map(state).collect()
    };
    let events = rig.account.news();
    let (in_flight, committed) = (BinaryStatus::InFlight, BinaryStatus::Committed);
    assert_eq!(states(&events), [in_flight, committed]);
    assert_eq!(rig.account.on_device("matmul", 0).binary_status, committed);
    rig.run_cached(workload);
    assert_eq!(states(&rig.account.news()), []);
}

#[test]
fn later_runs_send_only_launch_messages_and_add_no_memory() {
    let mut rig = Rig::dp_4();
    let workload = rig.matmul(&grid(8, 8));
    rig.run(workload);
    rig.account.news();
    let held: Vec<_> = (0..4).map(|chip| held_on(&mut rig, chip)).collect();
    rig.run_cached(workload);
    let events = rig.account.news();
    let new_memory = |event: &EventKind| {
        matches!(
            event,
            EventKind::BufferAllocated { .. }
                | EventKind::CbAllocated { .. }
                | EventKind::KernelLoaded { .. }
                | EventKind::BinarySent { .. }
        )
    };
    assert!(!events.iter().any(new_memory), "{events:?}");
    assert_eq!(count(&events, "Dispatched"), 1);
    let again: Vec<_> = (0..4).map(|chip| held_on(&mut rig, chip)).collect();
    assert_eq!(again, held);
}

/// Everything that a chip's memory is used for.
fn held_on(rig: &mut Rig, chip: u32) -> [u64; 4] {
    [
        rig.account.charged(chip, Class::Dram),
        rig.account.charged(chip, Class::L1),
        rig.account.cb_bytes(chip),
        rig.account.kernel_bytes(chip),
    ]
}

#[test]
fn system_kernels_are_written_by_the_host_at_opening_and_persist_until_closing() {
    let mut rig = Rig::dp_4();
    let events = rig.account.news();
    let paths: Vec<DispatchPath> = events
        .iter()
        .filter_map(|event| match event {
            EventKind::Dispatched { path, .. } => Some(*path),
            _other => None,
        })
        .collect();
    // Fabric and dispatcher on each of four chips.
    assert_eq!(paths, [DispatchPath::Slow; 8]);
    let before = rig.account.kernel_bytes(0);
    let workload = rig.matmul(&grid(8, 8));
    rig.run(workload);
    rig.destroy(workload);
    assert_eq!(rig.account.kernel_bytes(0), before);
    assert_eq!(count(&rig.account.news(), "KernelUnloaded"), 0);
    rig.runtime.close();
    rig.account.assert_nothing_left();
}

#[test]
fn offsets_are_finalized_once() {
    for mut rig in Rig::dp_4_on_both_paths() {
        let workload = rig.matmul(&grid(8, 8));
        rig.account.news();
        for _run in 0..3 {
            rig.run(workload);
        }
        assert_eq!(count(&rig.account.news(), "ProgramFinalized"), 1);
    }
}

#[test]
fn clearing_the_kernel_cache_forces_compilation() {
    let mut rig = Rig::n150();
    let first = rig.matmul(&grid(8, 8));
    rig.run(first);
    let compiled = rig.runtime.counts().jit_disk_misses;
    rig.runtime.kernel_cache().clear();
    let second = rig.matmul(&grid(8, 8));
    rig.run(second);
    assert_eq!(rig.runtime.counts().jit_disk_misses, compiled + 3);
    assert_eq!(rig.runtime.counts().jit_disk_hits, 0);
    // Compiled or found: the memory is the same.
    let bytes = rig.account.kernel_bytes_of(0, KernelKind::Application);
    assert_eq!(bytes, 2 * MATMUL_TEXT * 64);
}

#[test]
fn the_three_points_at_which_a_kernel_is_known_come_in_order_and_once() {
    let mut rig = Rig::n150();
    let workload = rig.matmul(&grid(8, 8));
    rig.account.news();
    rig.run(workload);
    rig.run_cached(workload);
    let events = rig.account.news();
    let places: Vec<usize> = ["ProgramFinalized", "BinarySent", "CommandsCached"]
        .iter()
        .map(|name| {
            assert_eq!(count(&events, name), 1, "{name}");
            let place = events.iter().position(|event| event.name() == *name);
            place.expect("it was counted")
        })
        .collect();
    assert!(places.is_sorted(), "{places:?}");
    assert_eq!(rig.account.on_device("matmul", 0).kernels().len(), 3);
}

#[test]
fn a_kernel_is_known_when_its_binary_is_sent() {
    let mut rig = Rig::n150();
    let workload = rig.matmul(&grid(8, 8));
    rig.run(workload);
    let sent: Vec<u64> = rig
        .account
        .news()
        .iter()
        .filter_map(|event| match event {
            EventKind::BinarySent { bytes, .. } => Some(*bytes),
            _other => None,
        })
        .collect();
    assert_eq!(sent, [PACKED_MATMUL]);
}

#[test]
fn commands_are_cached_once_for_each_program() {
    let mut rig = Rig::n150();
    for runs in [1, 2, 3] {
        let workload = rig.one_kernel("one", &grid(4, 4), 1_000);
        for _run in 0..runs {
            rig.run(workload);
        }
    }
    let events = rig.account.news();
    assert_eq!(count(&events, "CommandsCached"), 3);
    // The dispatcher's own run, and 1 + 2 + 3.
    assert_eq!(count(&events, "Dispatched"), 7);
}

#[test]
fn a_hundred_cached_runs_are_a_hundred_dispatches_and_no_more_memory() {
    let mut rig = Rig::n150();
    let workload = rig.matmul(&grid(8, 8));
    rig.run(workload);
    let before = (held_on(&mut rig, 0), rig.account.geometry(0));
    for _run in 0..100 {
        rig.run_cached(workload);
    }
    assert_eq!((held_on(&mut rig, 0), rig.account.geometry(0)), before);
    let on = rig.account.on_device("matmul", 0);
    assert_eq!((on.dispatches, on.program_cache_hits), (101, 100));
}

#[test]
fn the_ring_is_there_from_the_opening_and_all_programs_share_it() {
    let mut rig = Rig::n150();
    let opened = rig.account.ring(CoreType::Tensix);
    assert_eq!((opened.base, opened.size_bytes), (35_168, 70_656));
    assert_eq!(opened.entries().len(), 0);
    let first = rig.one_kernel("first", &grid(8, 8), 1_000);
    let second = rig.one_kernel("second", &grid(8, 8), 1_000);
    rig.run(first);
    rig.run(second);
    // First runs wait for everything; the next ones lie side by side.
    rig.run_cached(first);
    rig.run_cached(second);
    let ring = rig.account.ring(CoreType::Tensix);
    let ids: Vec<_> = ring.entries().map(|entry| entry.program).collect();
    let one = |rig: &mut Rig, name| rig.account.programs(name)[0].id;
    let (first, second) = (one(&mut rig, "first"), one(&mut rig, "second"));
    assert_eq!(ids, [second, first, second]);
    assert_eq!(rig.account.news().len(), 0);
}

#[test]
fn reserved_l1_is_under_7_mb_and_the_ring_within_it_is_tracked() {
    let mut rig = Rig::n150();
    let compute = rig.account.device(0).facts.compute;
    let compute = compute.expect("the model tells the grid");
    assert_eq!(compute.reserved_bytes, 105_824);
    let reserved = compute.reserved_bytes * u64::from(compute.cores.len());
    assert_eq!(reserved, 6_772_736);
    let ring = rig.account.ring(CoreType::Tensix);
    assert_eq!(ring.base + ring.size_bytes, compute.reserved_bytes);
    let workload = rig.matmul(&grid(8, 8));
    rig.run(workload);
    let ring = rig.account.ring(CoreType::Tensix);
    // 17 circular buffer slots of 16 bytes, then the text.
    assert_eq!(ring.used_bytes, 272 + 14_640);
}

#[test]
fn system_kernels_run_on_cores_of_their_own_and_lie_in_no_ring() {
    let mut rig = Rig::dp_4();
    for core_type in [CoreType::Tensix, CoreType::ActiveEth, CoreType::IdleEth] {
        let ring = rig.account.ring(core_type);
        assert_eq!((ring.used_bytes, ring.reserves), (0, 0), "{core_type:?}");
    }
    let compute = rig.account.device(0).facts.compute.expect("known").cores;
    let facts = rig.account.facts();
    for program in rig.account.programs("dispatch") {
        for kernel in program.on[0].kernels() {
            let cores = facts.definitions.cores(kernel.cores_id);
            let cores = cores.expect("the model tells them");
            assert!(cores.intersection(&compute).is_empty());
        }
    }
    for program in rig.account.programs("fabric") {
        let kernel = &program.on[0].kernels()[0];
        assert_eq!(kernel.core_type, Some(CoreType::ActiveEth));
    }
}

#[test]
fn what_the_system_takes_depends_on_the_machine_and_is_not_540_kb() {
    let system = |options: RuntimeOptions| {
        let mut account = Account::new();
        let mut runtime = account.runtime(options);
        runtime.open_mesh(1, 1).expect("one chip");
        account.kernel_bytes(0)
    };
    let galaxy = RuntimeOptions::of(BoardKind::GalaxyWormhole);
    let fabric = true;
    assert_eq!(system(RuntimeOptions { fabric, ..galaxy }), 988 * 1024);
    assert_eq!(system(galaxy), 92 * 1024);
    assert_eq!(system(galaxy.slow()), 0);
    assert_eq!(system(RuntimeOptions::of(BoardKind::N150)), 92 * 1024);
    assert_eq!(galaxy.slow().dispatch, DispatchCores::Slow);
}

#[test]
fn system_first_run_cached_run_and_ring_are_tracked_each_in_its_way() {
    let mut rig = Rig::dp_4();
    // System: at opening.
    assert_eq!(rig.account.kernel_bytes(0), 988 * 1024);
    let workload = rig.matmul(&grid(8, 8));
    // Application, first run: kernels, circular buffers, a binary.
    rig.account.news();
    rig.run(workload);
    let first = rig.account.news();
    assert_eq!(count(&first, "KernelLoaded"), 3);
    assert_eq!(rig.account.cb_bytes(0), MATMUL_CBS * 64);
    // Application, cached: a run, nothing loaded.
    rig.run_cached(workload);
    let cached = rig.account.news();
    assert_eq!(count(&cached, "KernelLoaded"), 0);
    assert_eq!(count(&cached, "Dispatched"), 1);
    // The ring: tracked as well, and on top of nothing.
    let ring = rig.account.ring(CoreType::Tensix);
    assert_eq!(ring.entries().len(), 2);
    let geometry = rig.account.geometry(0);
    let cores = 8 * 9;
    assert_eq!(
        geometry.occupied_bytes,
        Some(105_824 * cores + MATMUL_CBS * 64)
    );
}

#[test]
fn kernels_that_were_finalized_early_are_still_on_the_account() {
    let mut rig = Rig::n150();
    let program = rig.program("warm-up", |program| {
        add_reader(program, "warm.cpp", &grid(8, 8), 1_000);
    });
    let workload = rig.workload(program);
    rig.run(workload);
    for _request in 0..1000 {
        rig.run_cached(workload);
    }
    assert_eq!(
        rig.account.kernel_bytes_of(0, KernelKind::Application),
        64_000
    );
}
