//! Allocators, capacities, residents, peaks.

use super::{DRAM_BANK, DRAM_BASE, L1_BASE, configured};
use crate::world::{Board, World, buffer, capacity};
use ttmem_event::{
    BufferId, Class, CoreRange, CoreSet, CoreType, EventKind, KernelKind, Layout, MeshId,
    ProgramId, TextId,
};
use ttmem_ledger::testing::TestLedger;
use ttmem_ledger::{Anomaly, Change, Departure, Peak};

const APPLICATION: (KernelKind, CoreType) = (KernelKind::Application, CoreType::Tensix);

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
        assert_eq!(
            (dram.union_bytes, dram.overlap_bytes),
            (part * 12, part * 12)
        );
        assert_eq!(dram.largest_free_bytes, Some(DRAM_BANK - part));
        assert!(dram.union_bytes <= dram.capacity.expect("reported").total_bytes());
    }
    for device in [1, 3, 5, 7] {
        let dram = world.class_geometry(device, Class::Dram);
        assert_eq!((dram.union_bytes, dram.overlap_bytes), (part * 12, 0));
    }
    let process = world.process_view(model);
    for mesh in &process.account.meshes {
        assert_eq!(
            mesh.allocators[Class::Dram.index()].charged_bytes,
            part * 12
        );
    }
}

#[test]
fn a_call_stack_is_kept_as_long_as_its_buffer_and_changes_nothing_else() {
    let mut world = World::new();
    let model = world.process("model");
    let noted = |buffer, stack| EventKind::StackNoted {
        mesh: MeshId(0),
        buffer: BufferId(buffer),
        program: ProgramId(0),
        stack: TextId(stack),
    };
    let stacks = |world: &mut World| -> Vec<(u64, u32)> {
        let process = world.process_view(model);
        let rows = process.rows.buffers.iter();
        let mut stacks: Vec<_> = rows.map(|(_slot, row)| (row.id, row.stack.0)).collect();
        stacks.sort_unstable();
        stacks
    };
    world
        .by(model)
        .device(0, Some(7), &Board::N150)
        .mesh(0, &[0], &Board::N150)
        .alloc(1, Class::Dram, DRAM_BASE, 64)
        .alloc(2, Class::Dram, DRAM_BASE + 64, 64)
        .tell(noted(2, 5))
        // Of a refusal or a kernel, and of a buffer that is not there.
        .tell(noted(0, 6))
        .tell(noted(9, 6));
    assert_eq!(stacks(&mut world), [(1, 0), (2, 5)]);
    assert_eq!(world.charged(0, Class::Dram), 2 * 64 * 12);
    assert_eq!(world.process_view(model).account.anomalies.total(), 0);
    // The same id anew: the old stack is not the new one's.
    world
        .by(model)
        .free(2)
        .alloc(2, Class::Dram, DRAM_BASE + 64, 64);
    assert_eq!(stacks(&mut world), [(1, 0), (2, 0)]);
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
    world
        .ledger
        .get_mut()
        .make(Change::ConfigureDevice(Box::new(configured(1 << 30))));
    let dram = |world: &World| world.class_geometry(0, Class::Dram).capacity;
    assert_eq!(dram(&world).map(|dram| dram.per_bank_bytes), Some(1 << 30));
    let model = world.process("model");
    world.by(model).chip(0, &Board::N150);
    assert_eq!(world.view().devices.len(), 1);
    assert_eq!(
        dram(&world).map(|dram| dram.per_bank_bytes),
        Some(DRAM_BANK)
    );
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
    assert_eq!(
        world.class_geometry(0, Class::System).largest_free_bytes,
        None
    );
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
    world.depart(two, Departure::Ended);
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
    if let EventKind::BufferAllocated { layout, banks, .. } = &mut sharded {
        *layout = Layout::HeightSharded;
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
    assert_eq!(
        (l1.union_bytes, l1.overlap_bytes),
        (16_384 * 64 + 16_000, 0)
    );
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
            .tell(EventKind::ProgramCreated {
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
        .rows
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
    world.by(one).at(70).mark(2, 9);
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
        [
            ("warm", 0, peak(60 * 12, 50)),
            ("steady", 9, peak(50 * 12, 70))
        ]
    );
}
