//! Programs that run again and again.

use super::shuffle::Shuffle;
use super::world::World;
use ttmem_event::core::CoreType;
use ttmem_event::{
    CacheResult, CbKind, CoreSet, CoresId, DispatchPath, Event, EventKind, KernelId, KernelKind,
    ProgramId,
};

/// Programs in the program cache: a large model has about as many.
const PROGRAMS: u64 = 1000;
const CBS: u32 = 8;
/// A reader, a writer and a computation.
const KERNELS: u64 = 3;
/// Bytes of one circular buffer on each core.
const CB_BYTES: u64 = 4096;

/// Dispatches of cached programs, on the whole grid and on parts of it, in no order.
pub(crate) fn dispatches() -> (World, Vec<Event>) {
    let mut world = World::with_mesh(1);
    let grid = World::capacities().compute_grid;
    let shapes = [
        (grid.x, grid.y),
        (grid.x, grid.y / 2),
        (grid.x / 2, grid.y / 2),
        (1, 1),
    ];
    for (id, (columns, rows)) in (1..).zip(shapes) {
        world.define_cores(CoresId(id), CoreSet::grid(columns, rows));
    }
    for program in 0..PROGRAMS {
        for event in construction(program) {
            world.apply(event);
        }
        world.apply(dispatch(program, CacheResult::Miss));
    }
    let mut shuffle = Shuffle::new(2);
    let mut cycle = Vec::new();
    for _round in 0..8 {
        for program in shuffle.order(0..PROGRAMS) {
            let event = dispatch(program, CacheResult::Hit);
            cycle.push(Event {
                time: 2,
                kind: event,
            });
        }
    }
    (world, cycle)
}

/// A program is made: its storage and its kernels on one of the four shapes.
fn construction(number: u64) -> Vec<EventKind> {
    let (mesh, program) = (World::MESH, ProgramId(number));
    let cores = CoresId(u32::try_from(number % 4).expect("below four") + 1);
    let base = World::capacities().l1.base;
    let mut made = vec![EventKind::ProgramCreated {
        program,
        name: World::OPERATION,
        runtime_id: number,
        pointer: 0x7f00_0000_0000 + number * 4096,
    }];
    made.extend((0..CBS).map(|cb| EventKind::CbAllocated {
        mesh,
        program,
        cb,
        kind: CbKind::Local,
        address: base + u64::from(cb) * CB_BYTES,
        size_bytes: CB_BYTES,
        cores,
    }));
    made.extend((0..KERNELS).map(|kernel| EventKind::KernelLoaded {
        mesh,
        program,
        kernel: KernelId(number * KERNELS + kernel),
        name: World::OPERATION,
        binary_bytes: 2048,
        cores,
        core_count: 0,
        kind: KernelKind::Application,
        core_type: CoreType::Tensix,
    }));
    made
}

fn dispatch(program: u64, program_cache: CacheResult) -> EventKind {
    EventKind::Dispatched {
        mesh: World::MESH,
        program: ProgramId(program),
        runtime_id: program,
        operation: World::OPERATION,
        program_cache,
        binary_reused: program_cache == CacheResult::Hit,
        path: DispatchPath::Fast,
    }
}
