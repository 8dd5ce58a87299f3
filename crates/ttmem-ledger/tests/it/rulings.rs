//! Cases where two readings are possible, and the one that holds.

use crate::world::{Board, World, buffer, capacity, device, mesh};
use ttmem_event::wire::{PeakRecord, ProgramCounters};
use ttmem_event::{
    BufferId, CbKind, Class, CoreRange, CoreSet, CoreType, CoresId, Definition, DeviceId,
    KernelKind, MeshId, ProgramId, Source, TextId, What,
};
use ttmem_ledger::{
    Anomaly, Capacity, Carried, Departure, DeviceFacts, DeviceKey, Limits, Peak, ProcessState,
    Released,
};

const APPLICATION: (KernelKind, CoreType) = (KernelKind::Application, CoreType::Tensix);
const DRAM_BASE: u64 = 1_048_640;
const DRAM_BANK: u64 = 1_071_988_672;
const L1_BASE: u64 = 105_824;

/// Rows `first..=last` of an 8-wide grid.
fn rows(first: u16, last: u16) -> CoreSet {
    let range = CoreRange {
        x_first: 0,
        y_first: first,
        x_last: 7,
        y_last: last,
    };
    CoreSet::from_ranges([range]).expect("inside the grid")
}

#[test]
fn a_parent_mesh_and_a_sub_mesh_overlap_and_percent_is_of_the_union() {
    let mut world = World::new();
    let model = world.process("model");
    let mut says = world.by(model);
    for id in 0..8 {
        says.device(id, Some(u64::from(id)), &Board::N150);
    }
    // Both hand out the first address of the bank: 117 % of it together.
    let part = DRAM_BANK * 585 / 1000;
    says.mesh(0, &[4, 0, 2, 6, 5, 1, 3, 7], &Board::N150)
        .alloc(1, Class::Dram, DRAM_BASE, part)
        .mesh(1, &[4, 0, 2, 6], &Board::N150)
        .alloc(2, Class::Dram, DRAM_BASE, part);
    for device in [0, 2, 4, 6] {
        assert_eq!(world.charged(device, Class::Dram), 2 * part * 12);
        let dram = world.class_geometry(device, Class::Dram);
        assert_eq!((dram.union_bytes, dram.overlap_bytes), (part * 12, part * 12));
        assert_eq!(dram.largest_free_bytes, Some(DRAM_BANK - part));
        assert!(dram.union_bytes <= dram.capacity.expect("reported").total_bytes());
    }
    for device in [1, 3, 5, 7] {
        let dram = world.class_geometry(device, Class::Dram);
        assert_eq!((dram.union_bytes, dram.overlap_bytes), (part * 12, 0));
    }
    let process = world.process_view(model);
    for mesh in &process.facts.meshes {
        assert_eq!(mesh.allocators[Class::Dram.index()].charged_bytes, part * 12);
    }
}

#[test]
fn two_processes_that_fill_one_chip_never_show_more_than_there_is() {
    let mut world = World::new();
    for name in ["one", "two", "three"] {
        let process = world.process(name);
        world
            .by(process)
            .device(0, Some(7), &Board::N150)
            .mesh(0, &[0], &Board::N150)
            .alloc(1, Class::Dram, DRAM_BASE, DRAM_BANK);
    }
    let dram = world.class_geometry(0, Class::Dram);
    assert_eq!(dram.union_bytes, DRAM_BANK * 12);
    assert_eq!(dram.overlap_bytes, 2 * DRAM_BANK * 12);
    assert_eq!(dram.largest_free_bytes, Some(0));
}

#[test]
fn an_allocator_never_holds_more_than_its_capacity() {
    let (mut world, model) = World::n150();
    world
        .by(model)
        .alloc(1, Class::L1Small, 1_466_368, 32_000)
        .expecting(Anomaly::BeyondCapacity)
        .alloc(2, Class::L1Small, 1_466_368, 1000)
        .expecting(Anomaly::AbsurdSize)
        .alloc(3, Class::L1Small, 1_466_368, 32_769)
        .expecting(Anomaly::CapacityConflict)
        .tell(capacity(MeshId(0), Class::L1Small, 64, 1_466_368, 31_999));
    assert_eq!(world.charged(0, Class::L1Small), 32_000 * 64);
}

#[test]
fn what_the_runtime_reports_beats_the_catalogue() {
    let mut world = World::new();
    let mut capacities = [None; Class::COUNT];
    capacities[Class::Dram.index()] = Some(Capacity {
        banks: 12,
        base: 0,
        per_bank_bytes: 1 << 30,
    });
    world.ledger.configure_device(DeviceFacts {
        capacities,
        ..DeviceFacts::default()
    });
    let dram = |world: &World| world.class_geometry(0, Class::Dram).capacity;
    assert_eq!(dram(&world).map(|dram| dram.per_bank_bytes), Some(1 << 30));
    let model = world.process("model");
    world.by(model).chip(0, &Board::N150);
    assert_eq!(world.view().devices.len(), 1);
    assert_eq!(dram(&world).map(|dram| dram.per_bank_bytes), Some(DRAM_BANK));
}

#[test]
fn the_largest_free_block_of_a_class_knows_nothing_of_its_neighbours() {
    let (mut world, model) = World::n150();
    world
        .by(model)
        .alloc(1, Class::Trace, 1_073_037_312, 704_512)
        .alloc(2, Class::L1Small, 1_466_368, 32_768);
    let largest = |class| world.allocator(model, 0, class).largest_free_bytes;
    assert_eq!(largest(Class::Dram), Some(DRAM_BANK));
    assert_eq!(largest(Class::L1), Some(1_360_544));
    assert_eq!(largest(Class::Trace), Some(0));
    assert_eq!(largest(Class::L1Small), Some(0));
    // No capacity was reported for host memory, so it has no largest block.
    assert_eq!(world.class_geometry(0, Class::System).largest_free_bytes, None);
}

#[test]
fn resident_ends_on_the_cores_where_another_program_runs() {
    let (mut world, model) = World::n150();
    world
        .by(model)
        .cores(1, CoreSet::grid(8, 8))
        .cores(2, rows(0, 3))
        .cb(1, 0, L1_BASE, 1000, 1)
        .kernel(1, 5, APPLICATION, 100, 1)
        .cb(2, 0, L1_BASE, 10, 2)
        .kernel(2, 6, APPLICATION, 1, 2)
        .dispatch(1);
    let resident = |world: &World| {
        let geometry = world.geometry(0);
        (geometry.cb_resident_bytes, geometry.kernel_resident_bytes)
    };
    assert_eq!(resident(&world), (Some(64_000), Some(6400)));
    world.by(model).dispatch(2);
    let mixed = (Some(32_000 + 320), Some(3200 + 32));
    assert_eq!(resident(&world), mixed);
    let occupied = L1_BASE * 64 + 32_000 + 320;
    assert_eq!(world.geometry(0).occupied_bytes, Some(occupied));
}

#[test]
fn resident_ends_when_the_program_is_destroyed_or_the_device_closes() {
    let (mut world, model) = World::n150();
    world
        .by(model)
        .cores(1, CoreSet::grid(8, 8))
        .cb(1, 0, L1_BASE, 1000, 1)
        .cb(2, 0, L1_BASE, 10, 1)
        .dispatch(1)
        .destroy(1);
    assert_eq!(world.geometry(0).cb_resident_bytes, Some(0));
    assert_eq!(world.cb_bytes(0), 640);
    world.by(model).dispatch(2).close_mesh();
    assert_eq!(world.geometry(0).cb_resident_bytes, Some(640));
    world.by(model).close_device(0);
    assert_eq!(world.geometry(0).cb_resident_bytes, Some(0));
    assert_eq!(world.cb_bytes(0), 0);
}

#[test]
fn a_program_that_another_process_ran_over_is_not_resident() {
    let mut world = World::new();
    let (one, two) = (world.process("one"), world.process("two"));
    for (process, size) in [(one, 1000), (two, 10)] {
        world
            .by(process)
            .chip(0, &Board::N150)
            .cores(1, CoreSet::grid(8, 8))
            .cb(1, 0, L1_BASE, size, 1)
            .dispatch(1);
    }
    assert_eq!(world.geometry(0).cb_resident_bytes, Some(640));
    world.depart(two, Departure::Died);
    assert_eq!(world.geometry(0).cb_resident_bytes, Some(0));
}

#[test]
fn a_trace_leaves_each_core_to_the_last_program_captured_on_it() {
    let (mut world, model) = World::n150();
    world
        .by(model)
        .cores(1, CoreSet::grid(8, 8))
        .cores(2, rows(0, 1))
        .cb(1, 0, L1_BASE, 1000, 1)
        .cb(2, 0, L1_BASE, 10, 2)
        .cb(3, 0, L1_BASE, 1, 1)
        .capture(1, &[1, 2]);
    // Capturing runs nothing.
    assert_eq!(world.geometry(0).cb_resident_bytes, Some(0));
    world.by(model).dispatch(3);
    assert_eq!(world.geometry(0).cb_resident_bytes, Some(64));
    world.by(model).replay(1);
    assert_eq!(
        world.geometry(0).cb_resident_bytes,
        Some(48 * 1000 + 16 * 10)
    );
    assert_eq!(world.view().devices[0].caches.trace_replays, 1);
    world.by(model).expecting(Anomaly::UnknownTrace).replay(2);
}

#[test]
fn a_trace_does_not_bring_back_a_program_that_is_gone() {
    let (mut world, model) = World::n150();
    world
        .by(model)
        .cores(1, CoreSet::grid(8, 8))
        .cb(1, 0, L1_BASE, 1000, 1)
        .capture(1, &[1])
        .destroy(1)
        .create(1)
        .replay(1)
        .destroy(1)
        // Whatever takes the place of the destroyed program ran nowhere yet.
        .cb(2, 0, L1_BASE, 10, 1);
    assert_eq!(world.geometry(0).cb_resident_bytes, Some(0));
}

#[test]
fn sharded_buffers_charge_every_bank_and_per_core_buffers_only_their_cores() {
    let (mut world, model) = World::n150();
    let mut sharded = buffer(MeshId(0), 1, Class::L1, 1_417_216, 16_384, 262_144);
    if let What::BufferAllocated { layout, banks, .. } = &mut sharded {
        *layout = ttmem_event::Layout::HeightSharded;
        *banks = 16;
    }
    world.by(model).tell(sharded);
    assert_eq!(world.charged(0, Class::L1), 16_384 * 64);
    assert_eq!(world.totals(0).class(Class::L1).requested_bytes, 262_144);

    world
        .by(model)
        .cores(1, CoreSet::grid(4, 4))
        .alloc_on_cores(2, Class::L1, 1_000_000, 1000, 1);
    assert_eq!(world.charged(0, Class::L1), 16_384 * 64 + 1000 * 16);
    let l1 = world.class_geometry(0, Class::L1);
    assert_eq!((l1.union_bytes, l1.overlap_bytes), (16_384 * 64 + 16_000, 0));
    let occupied = L1_BASE * 64 + 16_384 * 64 + 16_000;
    assert_eq!(world.geometry(0).occupied_bytes, Some(occupied));
}

#[test]
fn a_program_is_its_counter_and_neither_its_pointer_nor_its_runtime_id() {
    let (mut world, model) = World::n150();
    world.by(model).cores(1, CoreSet::grid(8, 8));
    for program in [1, 2] {
        world
            .by(model)
            .tell(What::ProgramCreated {
                program: ProgramId(program),
                name: TextId::NONE,
                runtime_id: 7,
                pointer: 0xABCD,
            })
            .cb(program, 0, L1_BASE, 100, 1);
    }
    assert_eq!(world.cb_bytes(0), 2 * 6400);
    let process = world.process_view(model);
    let attributes: Vec<(u64, u64, u64)> = process
        .programs
        .iter()
        .map(|(_slot, program)| (program.id.0, program.runtime_id, program.pointer))
        .collect();
    assert_eq!(attributes, [(1, 7, 0xABCD), (2, 7, 0xABCD)]);
    world.by(model).destroy(1);
    assert_eq!(world.cb_bytes(0), 6400);
}

#[test]
fn a_change_of_size_or_class_at_a_live_id_is_release_and_book_anew() {
    let (mut world, model) = World::n150();
    world
        .by(model)
        .alloc(1, Class::Dram, DRAM_BASE, 100)
        .alloc(1, Class::Dram, DRAM_BASE, 250);
    assert_eq!(world.charged(0, Class::Dram), 250 * 12);
    assert_eq!(world.anomalies(model, Anomaly::SizeChanged), 1);
    world.by(model).alloc(1, Class::L1, 1_000_000, 30);
    assert_eq!(world.charged(0, Class::Dram), 0);
    assert_eq!(world.charged(0, Class::L1), 30 * 64);
    assert_eq!(world.anomalies(model, Anomaly::ClassChanged), 1);
    assert_eq!(world.all_anomalies(), 2);
}

#[test]
fn peaks_are_kept_per_device_per_process_and_per_mark() {
    let mut world = World::new();
    let (one, two) = (world.process("one"), world.process("two"));
    for process in [one, two] {
        world.by(process).chip(0, &Board::N150);
    }
    world.by(one).text(1, "warm").text(2, "steady");
    world.by(one).at(10).alloc(1, Class::Dram, DRAM_BASE, 100);
    world.by(two).at(20).alloc(1, Class::Dram, DRAM_BASE, 50);
    world.by(one).at(30).free(1);
    world.by(one).at(40).mark(1, 0);
    world.by(two).at(50).alloc(2, Class::Dram, DRAM_BASE, 10);
    world.by(two).at(60).free(2);
    world.by(two).at(70).mark(2, 9);
    world.by(two).at(80).free(1);

    let peak = |bytes, time| Peak { bytes, time };
    let dram = Class::Dram.index();
    let on_device = *world.totals(0).class(Class::Dram);
    assert_eq!(on_device.charged.peak(), peak(150 * 12, 20));
    let charged = |process| world.held(process, 0).class(Class::Dram).charged;
    assert_eq!(charged(one).peak(), peak(100 * 12, 10));
    assert_eq!(charged(two).peak(), peak(60 * 12, 50));
    assert_eq!(charged(two).since_mark(), peak(50 * 12, 70));

    let view = world.view();
    let running = view.devices[0].totals.since_mark();
    let since: Vec<(&str, u64, Peak)> = view
        .marks
        .peaks_since(0, running)
        .map(|(mark, peaks)| (&*mark.name, mark.number, peaks.classes[dram]))
        .collect();
    assert_eq!(
        since,
        [("warm", 0, peak(60 * 12, 50)), ("steady", 9, peak(50 * 12, 70))]
    );
}

#[test]
fn an_old_free_with_two_classes_at_the_address_takes_the_newest_and_is_counted() {
    let mut world = World::new();
    let old = world.old_sender("old");
    world
        .by(old)
        .old_alloc(0, Class::L1, 4096, 10)
        .old_alloc(0, Class::Dram, 4096, 100)
        .old_free(0, 4096);
    assert_eq!(world.charged(0, Class::L1), 10);
    assert_eq!(world.charged(0, Class::Dram), 0);
    assert_eq!(world.anomalies(old, Anomaly::AmbiguousFree), 1);
    world.by(old).old_free(0, 4096);
    assert_eq!(world.charged(0, Class::L1), 0);
    assert_eq!(world.anomalies(old, Anomaly::AmbiguousFree), 1);
}

#[test]
fn old_reports_received_at_one_time_keep_their_order() {
    let mut world = World::new();
    let old = world.old_sender("old");
    world
        .by(old)
        .at(50)
        .old_alloc(0, Class::Dram, 4096, 100)
        .at(50)
        .old_alloc(0, Class::L1, 4096, 10)
        .at(50)
        .old_free(0, 4096);
    assert_eq!(world.charged(0, Class::Dram), 100);
    assert_eq!(world.charged(0, Class::L1), 0);
}

#[test]
fn old_cbs_are_a_multiset_and_a_free_prefers_the_equal_size() {
    let mut world = World::new();
    let old = world.old_sender("old");
    world
        .by(old)
        .old_cb(0, L1_BASE, 1)
        .old_cb(0, L1_BASE, 20)
        .old_cb(0, L1_BASE, 20)
        .old_cb(0, L1_BASE, 300)
        .old_cb_free(0, L1_BASE, 20);
    assert_eq!(world.cb_bytes(0), 321);
    // No such size: the newest goes.
    world.by(old).old_cb_free(0, L1_BASE, 0);
    assert_eq!(world.cb_bytes(0), 21);
    world
        .by(old)
        .old_cb_free(0, L1_BASE, 1)
        .old_cb_free(0, L1_BASE, 20)
        .expecting(Anomaly::UnknownFree)
        .old_cb_free(0, L1_BASE, 20);
    assert_eq!((world.cb_bytes(0), world.totals(0).cb.count), (0, 0));
}

#[test]
fn an_old_kernel_with_another_size_replaces_and_is_counted() {
    let mut world = World::new();
    let old = world.old_sender("old");
    world
        .by(old)
        .old_kernel(0, KernelKind::Application, 1, 100)
        .old_kernel(0, KernelKind::Application, 1, 70);
    assert_eq!(world.kernel_bytes(0), 70);
    assert_eq!(world.anomalies(old, Anomaly::KernelChanged), 1);
    world
        .by(old)
        .old_unload(0, 1)
        .expecting(Anomaly::UnknownUnload)
        .old_unload(0, 1);
    assert_eq!(world.kernel_bytes(0), 0);
}

#[test]
fn what_old_senders_do_not_tell_is_unknown_and_not_guessed() {
    let mut world = World::new();
    let (model, old) = (world.process("model"), world.old_sender("old"));
    world.by(model).chip(0, &Board::N150);
    assert!(world.geometry(0).occupied_bytes.is_some());
    world
        .by(old)
        .old_alloc(0, Class::L1, 4096, 100)
        .old_cb(0, L1_BASE, 10)
        .old_kernel(0, KernelKind::Application, 1, 10);
    let view = world.view();
    assert_eq!(view.devices.len(), 1);
    let l1 = view.devices[0].totals.class(Class::L1);
    assert_eq!((l1.charged.bytes(), l1.requested_bytes), (100, 100));
    let geometry = world.geometry(0);
    assert_eq!(geometry.occupied_bytes, None);
    assert_eq!(geometry.cb_resident_bytes, None);
    assert_eq!(geometry.kernel_resident_bytes, None);
    let l1 = geometry.classes[Class::L1.index()];
    assert_eq!((l1.union_bytes, l1.largest_free_bytes), (100, None));
    // Of two sources the better one is named; alone, the old one is.
    assert_eq!(view.devices[0].source, Some(Source::Attached));
    world.depart(old, Departure::Died);
    assert_eq!(world.geometry(0).occupied_bytes, Some(L1_BASE * 64));
}

#[test]
fn old_device_numbers_and_sizes_have_bounds() {
    let mut world = World::new();
    let old = world.old_sender("old");
    world
        .by(old)
        .old_alloc(1023, Class::Dram, 1, 100 << 30)
        .expecting(Anomaly::AbsurdSize)
        .old_alloc(1023, Class::Dram, 2, (100 << 30) + 1)
        .expecting(Anomaly::InvalidDevice)
        .old_alloc(1024, Class::Dram, 1, 1)
        .expecting(Anomaly::InvalidDevice)
        .old_alloc(-1, Class::Dram, 1, 1)
        .expecting(Anomaly::ZeroSize)
        .old_alloc(0, Class::Dram, 1, 0);
    assert_eq!(world.view().devices[0].source, Some(Source::Legacy));
    assert_eq!(world.totals(0).class(Class::Dram).buffers, 1);
}

#[test]
fn an_old_size_above_a_configured_capacity_is_absurd_whatever_a_runtime_reports() {
    let mut world = World::new();
    let mut capacities = [None; Class::COUNT];
    capacities[Class::Dram.index()] = Some(Capacity {
        banks: 12,
        base: 0,
        per_bank_bytes: 100,
    });
    world.ledger.configure_device(DeviceFacts {
        capacities,
        ..DeviceFacts::default()
    });
    let (old, model) = (world.old_sender("old"), world.process("model"));
    world
        .by(old)
        .old_alloc(0, Class::Dram, 1, 1200)
        .expecting(Anomaly::AbsurdSize)
        .old_alloc(0, Class::Dram, 2, 1201);
    // Otherwise the order of two processes' events would decide what is live.
    world.by(model).chip(0, &Board::N150);
    world
        .by(old)
        .expecting(Anomaly::AbsurdSize)
        .old_alloc(0, Class::Dram, 2, 1201);
}

#[test]
fn a_fork_starts_empty_and_frees_of_its_parents_buffers_are_inherited() {
    let (mut world, parent) = World::n150();
    world.by(parent).alloc(7, Class::Dram, DRAM_BASE, 100);
    let child = world.process("child");
    let first_buffer = BufferId(8);
    world
        .by(child)
        .tell(What::Forked { first_buffer })
        .chip(0, &Board::N150)
        .free(7)
        .alloc(8, Class::Dram, DRAM_BASE, 10)
        .free(8)
        .expecting(Anomaly::UnknownFree)
        .free(8);
    assert_eq!(world.charged(0, Class::Dram), 1200);
    assert_eq!(world.process_view(child).facts.inherited_frees, 1);
    assert_eq!(world.all_anomalies(), 1);
    world.by(parent).free(7);
    assert_eq!(world.charged(0, Class::Dram), 0);
}

#[test]
fn a_chip_is_its_unique_id_else_its_number_among_the_visible() {
    let mut world = World::new();
    let (one, two) = (world.process_seeing("one", "0,1"), world.process_seeing("two", "1"));
    // The same chip under two numbers.
    world.by(one).device(1, Some(99), &Board::N150);
    world.by(two).device(0, Some(99), &Board::N150);
    assert_eq!(world.view().devices.len(), 1);
    // The same number under two sets: who knows.
    world.by(one).device(5, None, &Board::N150);
    world.by(two).device(5, None, &Board::N150);
    let keys: Vec<DeviceKey> = world
        .view()
        .devices
        .iter()
        .map(|device| device.key.clone())
        .collect();
    let logical = |visible: &str, id| DeviceKey::Logical {
        visible: visible.into(),
        id,
    };
    assert_eq!(
        keys,
        [DeviceKey::Unique(99), logical("0,1", 5), logical("1", 5)]
    );
}

#[test]
fn mesh_ids_may_be_chip_ids_and_mesh_order_is_not_chip_order() {
    let mut world = World::new();
    let model = world.process("model");
    let mut says = world.by(model);
    for id in 0..3 {
        says.device(id, Some(u64::from(id)), &Board::N150);
    }
    says.mesh(0, &[2, 1], &Board::N150)
        .alloc(1, Class::Dram, DRAM_BASE, 100)
        .mesh(1, &[0], &Board::N150)
        .alloc(2, Class::Dram, DRAM_BASE, 7);
    let charged = [0, 1, 2].map(|device| world.charged(device, Class::Dram));
    assert_eq!(charged, [84, 1200, 1200]);
}

#[test]
fn a_refused_definition_leaves_no_device_behind() {
    let mut world = World::with_limits(Limits {
        devices_per_process: 2,
        ..Limits::default()
    });
    let model = world.process("model");
    world
        .by(model)
        .device(0, Some(1), &Board::N150)
        .device(1, Some(2), &Board::N150)
        .expecting(Anomaly::Redefined)
        .device(0, Some(3), &Board::N150)
        .expecting(Anomaly::LimitReached)
        .device(2, Some(4), &Board::N150);
    assert_eq!(world.view().devices.len(), 2);
}

#[test]
fn a_mesh_of_one_chip_under_two_ids_or_of_a_chip_nobody_defined_is_refused() {
    let (mut world, model) = World::n150();
    world
        .by(model)
        .device(1, Some(9), &Board::N150)
        .device(2, Some(9), &Board::N150)
        .expecting(Anomaly::Redefined)
        .define(&mesh(7, &[1, 2]))
        .expecting(Anomaly::Undefined)
        .define(&mesh(8, &[3]));
    assert_eq!(world.process_view(model).facts.meshes.len(), 1);
}

#[test]
fn core_set_0_and_text_0_stand_for_none_and_cannot_be_defined() {
    let (mut world, model) = World::n150();
    world
        .by(model)
        .expecting(Anomaly::Malformed)
        .cores(0, CoreSet::grid(1, 1))
        .expecting(Anomaly::Malformed)
        .text(0, "nothing")
        .expecting(Anomaly::Undefined)
        .cb(1, 0, L1_BASE, 10, 0);
}

/// Definitions of one n150 and of a full grid.
fn n150_definitions() -> Vec<Definition> {
    let (id, cores) = (CoresId(1), CoreSet::grid(8, 8));
    vec![
        device(0, None, &Board::N150),
        mesh(0, &[0]),
        Definition::Cores { id, cores },
    ]
}

#[test]
fn a_resync_swaps_the_whole_process_and_carries_peaks_and_counters() {
    let (mut world, model) = World::n150();
    let other = world.process("other");
    world.by(other).chip(0, &Board::N150);
    world.by(other).alloc(1, Class::Dram, DRAM_BASE, 5);
    world
        .by(model)
        .cores(1, CoreSet::grid(8, 8))
        .alloc(1, Class::Dram, DRAM_BASE, 100)
        .alloc(2, Class::L1, 1_000_000, 100)
        .cb(1, 0, L1_BASE, 10, 1)
        .dispatch(1)
        .expecting(Anomaly::UnknownFree)
        .free(77);
    world.ledger.set_resyncing(model.0, true);
    assert!(world.process_view(model).facts.resyncing);
    assert_eq!(world.charged(0, Class::Dram), 105 * 12);

    let storage = What::CbAllocated {
        mesh: MeshId(0),
        program: ProgramId(4),
        cb: 0,
        kind: CbKind::Local,
        address: L1_BASE,
        size_bytes: 3,
        cores: CoresId(1),
    };
    let carried = Carried {
        peaks: vec![PeakRecord {
            device: DeviceId(0),
            class: Class::Dram,
            bytes: 4444,
            time: 3,
        }],
        counters: vec![ProgramCounters {
            program: ProgramId(4),
            mesh: MeshId(0),
            dispatches: 12,
            program_cache_hits: 11,
            binary_reuses: 10,
            first_time: 1,
            last_time: 2,
        }],
        lost_events: 6,
        elided_events: 7,
    };
    let whats = [buffer(MeshId(0), 9, Class::Dram, DRAM_BASE, 40, 40), storage];
    world.resync(model, &n150_definitions(), &whats, &carried);

    // The resynced buffer was reported before any capacity: one bank.
    assert_eq!(world.charged(0, Class::Dram), 40 + 60);
    assert_eq!(world.charged(0, Class::L1), 0);
    assert_eq!(world.cb_bytes(0), 3 * 64);
    assert_eq!(world.geometry(0).cb_resident_bytes, Some(0));
    let process = world.process_view(model);
    assert!(!process.facts.resyncing);
    assert_eq!((process.facts.lost_events, process.facts.elided_events), (6, 7));
    assert_eq!(process.facts.anomalies.of(Anomaly::UnknownFree), 1);
    let ids: Vec<u64> = process.buffers.iter().map(|(_slot, row)| row.id).collect();
    assert_eq!(ids, [9]);
    let programs: Vec<(u64, u64)> = process
        .programs
        .iter()
        .map(|(_slot, program)| (program.id.0, program.on[0].dispatches))
        .collect();
    assert_eq!(programs, [(4, 12)]);
    let peak = world.held(model, 0).class(Class::Dram).charged.peak();
    assert_eq!((peak.bytes, peak.time), (4444, 3));
    // The other process is untouched.
    assert_eq!(world.held(other, 0).class(Class::Dram).charged.bytes(), 60);
}

#[test]
fn a_resync_keeps_what_only_the_server_knows_of_a_process() {
    let (mut world, parent) = World::n150();
    world.by(parent).alloc(7, Class::Dram, DRAM_BASE, 1);
    let child = world.process("child");
    let forked = What::Forked {
        first_buffer: BufferId(8),
    };
    world
        .by(child)
        .tell(forked)
        .chip(0, &Board::N150)
        .free(7)
        .alloc(8, Class::Dram, DRAM_BASE, 1)
        .close_mesh();
    world.ledger.set_claimed_pid(child.0, 1234);
    world.ledger.set_state(child.0, ProcessState::Detached);
    world.resync(child, &n150_definitions(), &[forked], &Carried::default());
    let facts = world.process_view(child).facts;
    let leaked = Released {
        buffers: 1,
        buffer_bytes: 12,
        ..Released::default()
    };
    assert_eq!(facts.leak_candidates, leaked);
    assert_eq!(facts.inherited_frees, 1);
    assert_eq!(facts.claimed_pid, Some(1234));
    assert_eq!(facts.state, ProcessState::Live);
}

#[test]
fn what_a_closed_mesh_still_held_is_a_leak_candidate() {
    let (mut world, model) = World::n150();
    world
        .by(model)
        .alloc(1, Class::Dram, DRAM_BASE, 100)
        .alloc(2, Class::L1, 1_000_000, 10)
        .free(2)
        .close_mesh();
    let leaked = Released {
        buffers: 1,
        buffer_bytes: 1200,
        ..Released::default()
    };
    assert_eq!(world.process_view(model).facts.leak_candidates, leaked);
    assert_eq!(world.charged(0, Class::Dram), 0);
}

#[test]
fn an_event_that_its_sender_may_not_send_changes_nothing() {
    let (mut world, model) = World::n150();
    let old = world.old_sender("old");
    world
        .by(model)
        .expecting(Anomaly::Malformed)
        .old_alloc(0, Class::Dram, 1, 1);
    world.by(old).expecting(Anomaly::Malformed).mark(0, 5);
    assert_eq!(world.charged(0, Class::Dram), 0);
    let view = world.view();
    let running = view.devices[0].totals.since_mark();
    assert_eq!(view.marks.peaks_since(0, running).count(), 0);
}
