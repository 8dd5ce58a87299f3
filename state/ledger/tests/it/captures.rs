//! What a trace captures on its mesh and on parts of it, and where a replay puts it.

use crate::world::{Board, Process, World};
use ttmem_event::{CoreSet, CoreType, EventKind, MeshId, TraceId};
use ttmem_ledger::Anomaly;

const L1_BASE: u64 = 105_824;
const TRACE: u32 = 7;

/// Both chips, each alone, and one again under the highest id.
const BOTH: u32 = 5;
const FIRST: u32 = 0;
const SECOND: u32 = 1;
const FIRST_AGAIN: u32 = 9;

/// Four programs with storage on every core of both chips.
fn world() -> (World, Process) {
    let mut world = World::new();
    let model = world.process("model");
    let board = &Board::N150;
    world
        .by(model)
        .device(0, None, board)
        .device(1, None, board)
        .mesh(FIRST, &[0], board)
        .mesh(SECOND, &[1], board)
        .mesh(FIRST_AGAIN, &[0], board)
        .mesh(BOTH, &[1, 0], board)
        .cores(1, CoreSet::grid(8, 8))
        .cores(2, CoreSet::grid(2, 8))
        .on(BOTH);
    for program in 1..=4 {
        world
            .by(model)
            .create(program)
            .on(BOTH)
            .cb(program, 0, L1_BASE, 64, 1);
    }
    (world, model)
}

fn began(mesh: u32) -> EventKind {
    EventKind::TraceBegan {
        mesh: MeshId(mesh),
        trace: TraceId(TRACE),
    }
}

fn ended(mesh: u32) -> EventKind {
    EventKind::TraceEnded {
        mesh: MeshId(mesh),
        trace: TraceId(TRACE),
        bytes: 4096,
    }
}

fn released(mesh: u32) -> EventKind {
    EventKind::TraceReleased {
        mesh: MeshId(mesh),
        trace: TraceId(TRACE),
    }
}

/// The programs on the compute cores of a device and on how many each is.
fn on_cores(world: &World, process: Process, device: usize) -> Vec<(u64, u32)> {
    let programs = world.process_view(process).rows.programs;
    let residents = world.view().residents();
    let owned = &residents[device][CoreType::Tensix as usize];
    let id = |slot| programs.get(slot).map_or(0, |program| program.id.0);
    let mut owned: Vec<_> = owned
        .iter()
        .map(|(owner, cores)| (id(owner.program), cores.len()))
        .collect();
    owned.sort_unstable();
    owned
}

#[test]
fn what_is_dispatched_on_one_chip_of_a_captured_mesh_runs_there_with_the_trace() {
    let (mut world, model) = world();
    world.by(model).on(BOTH).dispatch(4).tell(began(BOTH));
    world.by(model).on(FIRST).dispatch(1).on(SECOND).dispatch(2);
    // Captured is not run.
    assert_eq!(on_cores(&world, model, 0), [(4, 64)]);
    world.by(model).tell(ended(BOTH));
    assert_eq!(on_cores(&world, model, 1), [(4, 64)]);
    world.by(model).on(BOTH).replay(TRACE);
    assert_eq!(on_cores(&world, model, 0), [(1, 64)]);
    assert_eq!(on_cores(&world, model, 1), [(2, 64)]);
    assert_eq!(world.all_anomalies(), 0);
}

#[test]
fn the_last_captured_on_each_chip_has_its_cores_wherever_it_was_dispatched() {
    let (mut world, model) = world();
    world
        .by(model)
        .on(SECOND)
        .free_cb(3, None)
        .cb(3, 0, L1_BASE, 64, 2)
        .tell(began(BOTH))
        .on(FIRST)
        .dispatch(1)
        .on(BOTH)
        .dispatch(2)
        .on(SECOND)
        .dispatch(3)
        .tell(ended(BOTH))
        .on(BOTH)
        .replay(TRACE);
    assert_eq!(on_cores(&world, model, 0), [(2, 64)]);
    assert_eq!(on_cores(&world, model, 1), [(2, 48), (3, 16)]);
}

#[test]
fn a_run_is_counted_when_it_is_captured() {
    let (mut world, model) = world();
    world.by(model).tell(began(BOTH)).on(FIRST).dispatch(1);
    let programs = world.process_view(model).rows.programs;
    let (_slot, program) = programs.iter().next().expect("four were created");
    let dispatches: Vec<u64> = program.on.iter().map(|on| on.dispatches).collect();
    assert_eq!(dispatches, [1, 0]);
}

#[test]
fn a_mesh_captures_its_own_runs_before_any_that_contains_it() {
    let (mut world, model) = world();
    world
        .by(model)
        .tell(began(BOTH))
        .tell(began(FIRST))
        .on(FIRST)
        .dispatch(1)
        .tell(ended(FIRST))
        .dispatch(2)
        .tell(ended(BOTH))
        .on(FIRST)
        .replay(TRACE);
    assert_eq!(on_cores(&world, model, 0), [(1, 64)]);
    world.by(model).on(BOTH).replay(TRACE);
    assert_eq!(on_cores(&world, model, 0), [(2, 64)]);
}

#[test]
fn of_several_meshes_with_all_the_devices_the_lowest_id_captures() {
    let (mut world, model) = world();
    // The higher id was defined, and captures, first.
    world
        .by(model)
        .tell(began(FIRST_AGAIN))
        .tell(began(BOTH))
        .on(FIRST)
        .dispatch(1)
        .tell(ended(FIRST_AGAIN))
        .tell(ended(BOTH))
        .on(FIRST_AGAIN)
        .replay(TRACE);
    assert_eq!(on_cores(&world, model, 0), []);
    world.by(model).on(BOTH).replay(TRACE);
    assert_eq!(on_cores(&world, model, 0), [(1, 64)]);
}

#[test]
fn a_mesh_that_lacks_a_device_does_not_capture() {
    let (mut world, model) = world();
    world
        .by(model)
        .tell(began(FIRST))
        .on(BOTH)
        .dispatch(1)
        .on(SECOND)
        .dispatch(2);
    assert_eq!(on_cores(&world, model, 0), [(1, 64)]);
    assert_eq!(on_cores(&world, model, 1), [(2, 64)]);
    world.by(model).tell(ended(FIRST)).on(FIRST).replay(TRACE);
    assert_eq!(on_cores(&world, model, 0), [(1, 64)]);
}

#[test]
fn a_part_of_the_mesh_may_close_while_the_mesh_captures() {
    let (mut world, model) = world();
    world
        .by(model)
        .tell(began(BOTH))
        .on(FIRST)
        .dispatch(1)
        .close_mesh()
        .tell(ended(BOTH))
        .on(BOTH)
        .replay(TRACE);
    assert_eq!(on_cores(&world, model, 0), [(1, 64)]);
    assert_eq!(on_cores(&world, model, 1), []);
}

#[test]
fn a_trace_released_while_it_is_captured_captures_no_more() {
    let (mut world, model) = world();
    world
        .by(model)
        .tell(began(BOTH))
        .tell(released(BOTH))
        .on(FIRST)
        .dispatch(1)
        .on(BOTH)
        .expecting(Anomaly::UnknownTrace)
        .tell(ended(BOTH));
    assert_eq!(on_cores(&world, model, 0), [(1, 64)]);
    world
        .by(model)
        .on(BOTH)
        .expecting(Anomaly::UnknownTrace)
        .replay(TRACE);
    // Another trace that is released meanwhile ends nothing.
    let other = TraceId(TRACE + 1);
    let mesh = MeshId(BOTH);
    world
        .by(model)
        .on(BOTH)
        .capture(TRACE + 1, &[2])
        .tell(began(BOTH))
        .tell(EventKind::TraceReleased { mesh, trace: other })
        .on(SECOND)
        .dispatch(3);
    assert_eq!(on_cores(&world, model, 1), []);
}
