//! Accounting defects of the predecessor, each with what is right now.
//!
//! The numbers are those of `docs/defects.md`. Each test would fail on the
//! behaviour described there.

use crate::world::{Board, World, buffer, capacity, capacity_of};
use ttmem_event::{CbKind, Class, CoreSet, CoreType, EventKind, KernelKind, MeshId, ProgramId};
use ttmem_ledger::{Anomaly, Departure, EffectKind, Released};

const APPLICATION: (KernelKind, CoreType) = (KernelKind::Application, CoreType::Tensix);
const MIB: u64 = 1 << 20;

#[test]
fn defect_13_a_process_that_is_gone_holds_nothing_and_what_it_held_is_listed() {
    let (mut world, model) = World::n150();
    world
        .by(model)
        .cores(1, CoreSet::grid(8, 8))
        .alloc(1, Class::Dram, 1_048_640, 1000)
        .cb(1, 0, 105_824, 4096, 1)
        .kernel(1, 7, APPLICATION, 500, 1);
    let exit = world.depart(model, Departure::Ended);
    let released = Released {
        buffers: 1,
        buffer_bytes: 12_000,
        cbs: 1,
        cb_bytes: 4096 * 64,
        kernels: 1,
        kernel_bytes: 500 * 64,
    };
    assert_eq!(exit.released, released);
    assert_eq!(world.charged(0, Class::Dram), 0);
    assert_eq!((world.cb_bytes(0), world.kernel_bytes(0)), (0, 0));
    assert_eq!(world.view().departed[0].exit, exit);
}

#[test]
fn defect_14_a_process_that_sends_its_state_anew_may_free_what_it_held_before() {
    let (mut world, model) = World::n150();
    world.resync(
        model,
        &[
            crate::world::device(0, None, &Board::N150),
            crate::world::mesh(0, &[0]),
        ],
        &[buffer(MeshId(0), 5, Class::Dram, 1_048_640, 100, 100)],
        (0, 0),
    );
    world.by(model).free(5);
    assert_eq!(world.charged(0, Class::Dram), 0);
    assert_eq!(world.all_anomalies(), 0);
}

#[test]
fn defect_20_frees_lost_at_teardown_leave_no_kernels_behind() {
    let mut world = World::new();
    let old = world.old_sender("old");
    world
        .by(old)
        .old_kernel(0, KernelKind::Fabric, 1, 57_344)
        .old_kernel(0, KernelKind::Dispatch, 2, 47_104);
    world.depart(old, Departure::Ended);
    assert_eq!(world.kernel_bytes(0), 0);
}

#[test]
fn defect_21_equal_addresses_in_two_classes_or_two_processes_are_different_buffers() {
    let mut world = World::new();
    let (one, two) = (world.old_sender("one"), world.old_sender("two"));
    world
        .by(one)
        .old_alloc(0, Class::Dram, 4096, 100)
        .old_alloc(0, Class::L1, 4096, 10);
    world.by(two).old_alloc(0, Class::Dram, 4096, 7);
    assert_eq!(world.charged(0, Class::Dram), 107);
    assert_eq!(world.charged(0, Class::L1), 10);
    assert_eq!(world.totals(0).class(Class::Dram).buffers, 2);
    assert_eq!(world.all_anomalies(), 0);
}

#[test]
fn defect_22_another_size_at_a_live_address_replaces_it_and_is_counted() {
    let mut world = World::new();
    let old = world.old_sender("old");
    world
        .by(old)
        .old_alloc(0, Class::L1, 4096, 100)
        .old_alloc(0, Class::L1, 4096, 250);
    assert_eq!(world.charged(0, Class::L1), 250);
    assert_eq!(world.anomalies(old, Anomaly::SizeChanged), 1);
    world.by(old).old_free(0, 4096);
    assert_eq!(world.charged(0, Class::L1), 0);
}

#[test]
fn defect_23_only_the_owner_can_free() {
    let mut world = World::new();
    let (owner, other) = (world.old_sender("owner"), world.old_sender("other"));
    world.by(owner).old_alloc(0, Class::Dram, 4096, 100);
    world
        .by(other)
        .expecting(Anomaly::UnknownFree)
        .old_free(0, 4096);
    assert_eq!(world.charged(0, Class::Dram), 100);
    assert_eq!(world.anomalies(other, Anomaly::UnknownFree), 1);
    assert_eq!(world.anomalies(owner, Anomaly::UnknownFree), 0);
    // Whoever writes the log learns who sent it.
    let senders: Vec<u32> = world.effects.iter().map(|effect| effect.process).collect();
    assert_eq!(senders, [other.0]);
}

#[test]
fn defect_24_l1_is_that_of_the_compute_cores_and_not_of_the_noc_grid() {
    let (world, _model) = World::n150();
    let view = world.view();
    let compute = view.devices[0].facts.compute.expect("the grid is known");
    assert_eq!(compute.physical_bytes(), 64 * 1_499_136);
    let noc_grid = 10 * 12 * 1_499_136;
    assert!(compute.physical_bytes() < noc_grid);
    let l1 = world.class_geometry(0, Class::L1).capacity;
    assert_eq!(l1.map(|l1| l1.total_bytes()), Some(64 * 1_360_544));
}

#[test]
fn defect_25_a_bank_of_4_gib_is_not_0() {
    let (mut world, model) = World::n150();
    world
        .by(model)
        .tell(capacity(MeshId(0), Class::Dram, 8, 0, 4 << 30))
        .alloc(1, Class::Dram, 0, 4 << 30);
    let dram = world.class_geometry(0, Class::Dram);
    assert_eq!(dram.capacity.map(|dram| dram.total_bytes()), Some(32 << 30));
    assert_eq!(dram.union_bytes, 32 << 30);
}

#[test]
fn defect_26_there_can_be_more_than_8_devices() {
    let mut world = World::new();
    let (model, old) = (world.process("model"), world.old_sender("old"));
    let galaxy: Vec<u32> = (0..32).collect();
    let mut says = world.by(model);
    for id in &galaxy {
        says.device(*id, Some(1000 + u64::from(*id)), &Board::N150);
    }
    says.mesh(0, &galaxy, &Board::N150)
        .alloc(1, Class::Dram, 1_048_640, 10);
    for device in 0..32 {
        assert_eq!(world.charged(device, Class::Dram), 120);
    }
    world.by(old).old_alloc(31, Class::Dram, 4096, 5);
    assert_eq!(world.held(old, 0).class(Class::Dram).charged.bytes(), 5);
    assert_eq!(world.view().devices.len(), 33);
}

#[test]
fn defect_27_cbs_at_one_address_are_each_booked_and_none_outlives_its_process() {
    let mut world = World::new();
    let old = world.old_sender("old");
    world
        .by(old)
        .old_cb(0, 105_824, 100)
        .old_cb(0, 105_824, 200)
        .old_cb(0, 105_824, 300);
    assert_eq!((world.cb_bytes(0), world.totals(0).cb.count), (600, 3));
    world.depart(old, Departure::Ended);
    assert_eq!((world.cb_bytes(0), world.totals(0).cb.count), (0, 0));
}

#[test]
fn defect_28_a_cb_free_gives_back_what_was_booked_whatever_it_says() {
    let mut world = World::new();
    let old = world.old_sender("old");
    world
        .by(old)
        .expecting(Anomaly::UnknownFree)
        .old_cb_free(0, 105_824, 4096)
        .old_cb(0, 105_824, 100)
        .old_cb_free(0, 105_824, u64::MAX)
        .expecting(Anomaly::UnknownFree)
        .old_cb_free(0, 105_824, 100);
    assert_eq!(world.cb_bytes(0), 0);
    assert_eq!(world.anomalies(old, Anomaly::UnknownFree), 2);
}

#[test]
fn defect_29_one_program_frees_its_cbs_on_all_its_devices_and_no_other_programs() {
    let mut world = World::new();
    let model = world.process("model");
    world
        .by(model)
        .device(0, Some(1), &Board::N150)
        .device(1, Some(2), &Board::N150)
        .mesh(0, &[0, 1], &Board::N150)
        .cores(1, CoreSet::grid(8, 8))
        .cb(1, 0, 105_824, 100, 1)
        .cb(2, 0, 105_824, 1000, 1);
    for device in 0..2 {
        assert_eq!(world.cb_bytes(device), 1100 * 64);
    }
    world.by(model).free_cb(1, None);
    for device in 0..2 {
        assert_eq!(world.cb_bytes(device), 1000 * 64);
    }
}

#[test]
fn defect_30_cbs_of_cached_programs_are_registered_but_only_the_last_one_is_resident() {
    let (mut world, model) = World::n150();
    let mut says = world.by(model);
    says.cores(1, CoreSet::grid(8, 8));
    for program in 1..=10 {
        says.cb(program, 0, 105_824, 10_000, 1).dispatch(program);
    }
    let geometry = world.geometry(0);
    assert_eq!(world.cb_bytes(0), 10 * 10_000 * 64);
    assert_eq!(geometry.cb_resident_bytes, Some(10_000 * 64));
    assert_eq!(geometry.occupied_bytes, Some((105_824 + 10_000) * 64));
}

#[test]
fn defect_31_a_kernel_is_loaded_once_unloaded_as_booked_and_never_unclassified() {
    let mut world = World::new();
    let old = world.old_sender("old");
    world
        .by(old)
        .old_kernel(0, KernelKind::Application, 1, 1000)
        .old_kernel(0, KernelKind::Application, 1, 1000);
    assert_eq!(world.kernel_bytes(0), 1000);
    world.by(old).old_kernel(0, KernelKind::Unknown, 2, 30);
    let kernel = world.totals(0).kernel;
    assert_eq!(kernel.by_kind[KernelKind::Unknown as usize], 30);
    assert_eq!(kernel.by_kind.iter().sum::<u64>(), 1030);
    world.by(old).old_unload(0, 1).old_unload(0, 2);
    assert_eq!(world.kernel_bytes(0), 0);

    let (mut world, model) = World::n150();
    world
        .by(model)
        .cores(1, CoreSet::grid(8, 8))
        .kernel(1, 9, APPLICATION, 1000, 1)
        .kernel(1, 9, APPLICATION, 1000, 1);
    assert_eq!(world.kernel_bytes(0), 64_000);
    assert_eq!(world.anomalies(model, Anomaly::KernelChanged), 0);
}

#[test]
fn defect_32_kernels_are_no_l1_use_and_the_ring_they_lie_in_is_shown_by_itself() {
    let (mut world, model) = World::n150();
    world
        .by(model)
        .cores(1, CoreSet::grid(8, 8))
        .create(1)
        .kernel(1, 9, APPLICATION, 20_000, 1)
        .dispatch(1);
    let before = world.geometry(0);
    assert_eq!(before.occupied_bytes, Some(105_824 * 64));
    assert_eq!(before.kernel_resident_bytes, Some(20_000 * 64));
    assert_eq!(world.charged(0, Class::L1), 0);

    let mesh = MeshId(0);
    let (sub_device, core_type) = (0, CoreType::Tensix);
    let place = |program, address, sync| EventKind::ConfigRingAllocated {
        mesh,
        sub_device,
        core_type,
        program: ProgramId(program),
        address,
        size_bytes: 40_000,
        sync,
    };
    world
        .by(model)
        .tell(EventKind::ConfigRingOpened {
            mesh,
            sub_device,
            core_type,
            base: 32_000,
            size_bytes: 70_656,
        })
        .tell(place(1, 32_000, 1))
        .tell(place(2, 32_000, 2));
    let process = world.process_view(model);
    let ring = &process.account.config_rings[&(0, 0, CoreType::Tensix)];
    assert_eq!((ring.used_bytes, ring.size_bytes), (40_000, 70_656));
    assert_eq!(
        (
            ring.evictions,
            ring.entries().next().map(|entry| entry.program)
        ),
        (1, Some(ProgramId(2)))
    );
    assert_eq!(world.geometry(0), before);
}

#[test]
fn defect_34_host_memory_is_a_class_of_its_own() {
    let mut world = World::new();
    let old = world.old_sender("old");
    world.by(old).old_alloc(0, Class::System, 4096, 777);
    let totals = world.totals(0);
    for class in Class::ALL {
        let expected = if *class == Class::System { 777 } else { 0 };
        assert_eq!(totals.class(*class).charged.bytes(), expected, "{class:?}");
    }
}

#[test]
fn defect_35_trace_buffers_are_measured_against_their_part_of_dram() {
    let (mut world, model) = World::n150();
    world
        .by(model)
        .alloc(1, Class::Trace, 1_073_037_312, 704_512 / 2);
    let trace = world.class_geometry(0, Class::Trace);
    let capacity = trace.capacity.expect("reported").total_bytes();
    assert_eq!(trace.union_bytes * 2, capacity);
    assert_eq!(world.charged(0, Class::L1), 0);
    // L1 in use is one sum: reserved, L1, L1_SMALL and resident CBs; nothing else.
    assert_eq!(world.geometry(0).occupied_bytes, Some(105_824 * 64));
}

#[test]
fn defect_36_several_owners_of_one_allocation_are_one_record() {
    let mut world = World::new();
    let old = world.old_sender("old");
    for _alias in 0..3 {
        world.by(old).old_alloc(0, Class::Dram, 4096, 100);
    }
    assert_eq!(world.charged(0, Class::Dram), 100);
    assert_eq!(world.totals(0).class(Class::Dram).buffers, 1);
    world.by(old).old_free(0, 4096).old_free(0, 4096);
    assert_eq!(world.charged(0, Class::Dram), 100);
    world.by(old).old_free(0, 4096);
    assert_eq!(world.charged(0, Class::Dram), 0);
    assert_eq!(world.all_anomalies(), 0);

    // A mesh buffer is one allocation: the same on every chip, and said once.
    let mut world = World::new();
    let model = world.process("model");
    world
        .by(model)
        .device(0, Some(1), &Board::N150)
        .device(1, Some(2), &Board::N150)
        .mesh(0, &[0, 1], &Board::N150)
        .alloc(1, Class::Dram, 1_048_640, 100)
        .alloc(1, Class::Dram, 1_048_640, 100);
    for device in 0..2 {
        let dram = *world.totals(device).class(Class::Dram);
        assert_eq!((dram.buffers, dram.charged.bytes()), (1, 1200));
    }
}

#[test]
fn defect_37_what_no_event_tells_is_shown_as_reserved_or_found_by_the_allocators_statistics() {
    let (mut world, model) = World::n150();
    assert_eq!(world.geometry(0).occupied_bytes, Some(105_824 * 64));
    let statistics = |allocated_bytes| EventKind::StatisticsReported {
        mesh: MeshId(0),
        class: Class::Dram,
        allocated_bytes,
        largest_free_bytes: 0,
    };
    let verified = |world: &World| {
        world.process_view(model).account.meshes[0].allocators[Class::Dram.index()].verified
    };
    assert_eq!(verified(&world), None);
    world
        .by(model)
        .alloc(1, Class::Dram, 1_048_640, 1000)
        .tell(statistics(1000));
    assert_eq!(verified(&world), Some(true));
    world
        .by(model)
        .expecting(Anomaly::StatisticsDiffer)
        .tell(statistics(1500));
    assert_eq!(verified(&world), Some(false));
    assert_eq!(world.charged(0, Class::Dram), 12_000);
    world
        .by(model)
        .expecting(Anomaly::ZeroSize)
        .alloc(2, Class::Dram, 1_050_000, 0);
}

#[test]
fn defect_38_buffers_freed_in_bulk_do_not_pile_up_from_run_to_run() {
    let (mut world, model) = World::n150();
    for run in 0..3 {
        let mut says = world.by(model);
        for id in 0..10 {
            says.alloc(run * 10 + id, Class::Dram, 1_048_640 + id * MIB, MIB);
        }
        says.alloc(1000 + run, Class::L1, 1_000_000, 4096)
            .release_all(Some(Class::Dram));
        assert_eq!(world.charged(0, Class::Dram), 0);
        assert_eq!(world.charged(0, Class::L1), 4096 * 64);
        world.by(model).release_all(None);
        assert_eq!(world.charged(0, Class::L1), 0);
    }
    let leaks = world.process_view(model).account.leak_candidates;
    assert_eq!(leaks, Released::default());
}

#[test]
fn defect_39_every_process_shows_what_it_holds_on_each_device() {
    let mut world = World::new();
    let (one, two) = (world.process("one"), world.process("two"));
    for process in [one, two] {
        world
            .by(process)
            .device(0, Some(1), &Board::N150)
            .device(1, Some(2), &Board::N150)
            .mesh(0, &[0], &Board::N150)
            .mesh(1, &[1], &Board::N150);
    }
    world.by(one).on(0).alloc(1, Class::Dram, 1_048_640, 10);
    world.by(two).on(1).alloc(1, Class::Dram, 1_048_640, 20);
    let held = |process, device| {
        world
            .held(process, device)
            .class(Class::Dram)
            .charged
            .bytes()
    };
    assert_eq!((held(one, 0), held(one, 1)), (120, 0));
    assert_eq!((held(two, 0), held(two, 1)), (0, 240));
}

#[test]
fn defect_40_a_device_that_holds_only_cbs_is_there_with_them() {
    let mut world = World::new();
    let old = world.old_sender("old");
    world.by(old).old_cb(6, 105_824, 4096);
    let view = world.view();
    assert_eq!(view.devices.len(), 1);
    assert_eq!(view.devices[0].facts.logical_id, 6);
    assert_eq!(view.devices[0].totals.cb.registered.bytes(), 4096);
}

#[test]
fn defect_42_peaks_and_free_blocks_are_kept() {
    let (mut world, model) = World::n150();
    let bank = capacity_of(&Board::N150, Class::L1);
    world
        .by(model)
        .at(100)
        .alloc(1, Class::L1, bank.base, 400_000)
        .at(200)
        .alloc(2, Class::L1, bank.base + 600_000, 400_000)
        .at(300)
        .free(1);
    let peak = world.totals(0).class(Class::L1).charged.peak();
    assert_eq!((peak.bytes, peak.time), (800_000 * 64, 200));
    let allocator = world.allocator(model, 0, Class::L1);
    assert_eq!(allocator.largest_free_bytes, Some(600_000));
}

#[test]
fn defect_42_a_new_l1_peak_is_told_in_whole_steps() {
    let (mut world, model) = World::n150();
    let mut told = Vec::new();
    for id in 0..100_u64 {
        world
            .by(model)
            .alloc(id, Class::L1, 105_824 + id * 4096, 4096);
        told.extend(world.effects.iter().filter_map(|effect| match effect.kind {
            EffectKind::L1Peak { bytes, .. } => Some(bytes),
            _other => None,
        }));
    }
    // Each buffer takes 256 KiB: every fourth makes a step of 1 MiB.
    assert_eq!(told.len(), 25);
    assert!(told.windows(2).all(|pair| pair[1] == pair[0] + MIB));
}

#[test]
fn defect_46_nobodys_figure_replaces_anothers() {
    let mut world = World::new();
    let (one, two) = (world.process("one"), world.process("two"));
    for (process, size) in [(one, 100), (two, 1000)] {
        world
            .by(process)
            .chip(0, &Board::N150)
            .cores(1, CoreSet::grid(8, 8))
            .storage(CbKind::Dataflow, 1, 0, 105_824, size, 1);
    }
    assert_eq!(world.cb_bytes(0), 1100 * 64);
    world.depart(two, Departure::Exited);
    assert_eq!(world.cb_bytes(0), 100 * 64);
}

#[test]
fn defect_53_this_list_names_tests_that_exist() {
    let list = include_str!("../../../../docs/defects.md");
    let sources = [
        ("defects", include_str!("defects.rs")),
        ("geometry", include_str!("geometry.rs")),
        ("seeds", include_str!("seeds.rs")),
        ("rulings::accounting", include_str!("rulings/accounting.rs")),
        (
            "rulings::old_senders",
            include_str!("rulings/old_senders.rs"),
        ),
        ("rulings::processes", include_str!("rulings/processes.rs")),
    ];
    let mut named = Vec::new();
    for path in list.split('`').filter_map(|code| code.strip_prefix("it::")) {
        let Some((module, test)) = path.rsplit_once("::") else {
            continue;
        };
        let source = sources.iter().find(|(name, _text)| *name == module);
        let (_name, text) = source.expect("a module with tests");
        assert!(text.contains(&format!("#[test]\nfn {test}()")), "{path}");
        named.push(test);
    }
    // And every test that carries a number is in the list.
    for line in sources[0].1.lines() {
        if let Some(test) = line.strip_prefix("fn defect_") {
            let test = format!("defect_{}", test.trim_end_matches("() {"));
            assert!(named.contains(&&*test), "{test} is not in the list");
        }
    }
    for number in 1..=53 {
        assert!(list.contains(&format!("\n| {number} | ")), "{number}");
    }
}
