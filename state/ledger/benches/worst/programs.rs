//! Programs: what they cover, what they hold, and how many there are.

use crate::shuffle::Shuffle;
use crate::world::{
    MESH, ONE_CORE, World, cb, cb_freed, cores, created, destroyed, dispatched, kernel, narrow,
    sized_kernel, unloaded,
};
use crate::{Case, Growth, Work};
use ttmem_event::{CoreSet, CoresId, EventKind, KernelId, ProgramId, TextId};

/// Up to the most cores that a set can have.
const CORES: &[u64] = &[1, 10, 100, 1_000];
/// Up to the most entries that a program can have on a device.
const ENTRIES: &[u64] = &[1, 10, 100, 1_000];
const PROGRAMS: &[u64] = &[100, 1_000, 10_000, 100_000];

const BY_CORE: Growth =
    Growth::Linear("each core that is left is written, and there are 1,024 at most");
const BY_ENTRY: Growth = Growth::Linear(
    "the entries of a program on a device stand in order: those behind are moved, 1,024 at most",
);
const BY_SET: Growth = Growth::Linear(
    "the cover of a run is the core sets its entries named then: a copy of at most 2,048 ids",
);

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "dispatch_cores",
        beside: "cores of the program",
        sizes: CORES,
        unit: "event",
        growth: Growth::Flat,
        prepare: dispatch_cores,
    },
    Case {
        name: "dispatch_programs",
        beside: "live programs",
        sizes: PROGRAMS,
        unit: "event",
        growth: Growth::Flat,
        prepare: dispatch_programs,
    },
    Case {
        name: "dispatch_mesh",
        beside: "devices",
        sizes: &[1, 8, 32, 256],
        unit: "event and device",
        growth: Growth::Flat,
        prepare: dispatch_mesh,
    },
    Case {
        name: "dispatch_elsewhere",
        beside: "cores that the program leaves",
        sizes: CORES,
        unit: "event",
        growth: BY_CORE,
        prepare: dispatch_elsewhere,
    },
    Case {
        name: "program_life",
        beside: "live programs",
        sizes: PROGRAMS,
        unit: "event",
        growth: Growth::Flat,
        prepare: program_life,
    },
    Case {
        name: "program_destroyed",
        beside: "cores of the program",
        sizes: CORES,
        unit: "event",
        growth: BY_CORE,
        prepare: program_destroyed,
    },
    Case {
        name: "cb",
        beside: "entries of the program",
        sizes: ENTRIES,
        unit: "event",
        growth: BY_ENTRY,
        prepare: cb_churn,
    },
    Case {
        name: "cb_mesh",
        beside: "devices",
        sizes: &[1, 8, 32, 256],
        unit: "event and device",
        growth: Growth::Flat,
        prepare: cb_mesh,
    },
    Case {
        name: "cb_sets",
        beside: "core sets of the program",
        sizes: ENTRIES,
        unit: "event",
        growth: BY_ENTRY,
        prepare: cb_sets,
    },
    Case {
        name: "cb_sets_dispatched",
        beside: "core sets of the program, which runs after each change",
        sizes: ENTRIES,
        unit: "event",
        growth: BY_SET,
        prepare: cb_sets_dispatched,
    },
    Case {
        name: "kernel",
        beside: "entries of the program",
        sizes: ENTRIES,
        unit: "event",
        growth: BY_ENTRY,
        prepare: kernel_churn,
    },
    Case {
        name: "kernel_shared",
        beside: "programs that share the kernel",
        sizes: PROGRAMS,
        unit: "event",
        growth: Growth::Flat,
        prepare: kernel_shared,
    },
    Case {
        name: "kernel_sizes",
        beside: "sizes that one kernel was loaded with",
        sizes: PROGRAMS,
        unit: "event",
        growth: Growth::Flat,
        prepare: kernel_sizes,
    },
    Case {
        name: "jit_lookup",
        beside: "devices",
        sizes: &[1, 8, 32, 256],
        unit: "event and device",
        growth: Growth::Flat,
        prepare: jit_lookup,
    },
];

const EVENTS: u64 = 2_000;
/// The whole grid, or as much of it as a case asks for.
const MANY: CoresId = CoresId(2);
/// One core elsewhere.
const OTHER: CoresId = CoresId(3);

fn repeated(round: &[EventKind]) -> Vec<EventKind> {
    let events = round.iter().copied().cycle();
    let rounds = narrow::<usize>(EVENTS).div_ceil(round.len());
    events.take(rounds * round.len()).collect()
}

fn on_cores(size: u64) -> World {
    let mut world = World::with_devices(1);
    world.define_cores(MANY, cores(size));
    let mut other = CoreSet::default();
    other.insert_index(1023);
    world.define_cores(OTHER, other);
    world
}

fn dispatch_cores(size: u64) -> Work {
    let mut world = on_cores(size);
    for program in 0..4 {
        world.apply_all([
            created(program),
            cb(MESH, program, 0, MANY),
            kernel(MESH, program, program, MANY),
        ]);
    }
    world.cycle(repeated(
        &[0, 1, 2, 3].map(|program| dispatched(MESH, program)),
    ))
}

fn live(devices: u32, programs: u64) -> World {
    let mut world = World::with_devices(devices);
    for program in 0..programs {
        world.apply_all([
            created(program),
            cb(MESH, program, 0, ONE_CORE),
            kernel(MESH, program, program, ONE_CORE),
            dispatched(MESH, program),
        ]);
    }
    world
}

fn some_of(programs: u64) -> Vec<u64> {
    let mut order = Shuffle::new(1).order(0..programs);
    order.truncate(narrow(EVENTS));
    order
}

fn dispatch_programs(size: u64) -> Work {
    let dispatches = some_of(size).into_iter();
    let dispatches = dispatches.map(|program| dispatched(MESH, program));
    live(1, size).cycle(repeated(&dispatches.collect::<Vec<_>>()))
}

fn dispatch_mesh(size: u64) -> Work {
    let events = repeated(&[0, 1, 2, 3].map(|program| dispatched(MESH, program)));
    let units = events.len() * narrow::<usize>(size);
    live(narrow(size), 4).cycle_of(events, units)
}

/// Its storage is placed on one core and on many in turn, and it runs after each change.
fn dispatch_elsewhere(size: u64) -> Work {
    let mut world = on_cores(size);
    world.apply(created(0));
    let there = [cb(MESH, 0, 0, MANY), dispatched(MESH, 0)];
    let back = [cb(MESH, 0, 0, OTHER), dispatched(MESH, 0)];
    world.cycle(repeated(&[there, back].concat()))
}

fn life(program: u64, cores: CoresId) -> [EventKind; 5] {
    [
        created(program),
        cb(MESH, program, 0, cores),
        kernel(MESH, program, program, cores),
        dispatched(MESH, program),
        destroyed(program),
    ]
}

fn program_life(size: u64) -> Work {
    live(1, size).cycle(repeated(&life(size, ONE_CORE)))
}

fn program_destroyed(size: u64) -> Work {
    on_cores(size).cycle(repeated(&life(0, MANY)))
}

fn with_entries(size: u64, devices: u32) -> World {
    let mut world = World::with_devices(devices);
    world.apply(created(0));
    // The first of them are those that come and go: what lies behind must make room.
    world.apply_all((0..size).map(|number| cb(MESH, 0, number, ONE_CORE)));
    world
}

fn cb_churn(size: u64) -> Work {
    let round = [cb_freed(MESH, 0, 0), cb(MESH, 0, 0, ONE_CORE)];
    with_entries(size, 1).cycle(repeated(&round))
}

fn cb_mesh(size: u64) -> Work {
    let events = repeated(&[cb_freed(MESH, 0, 0), cb(MESH, 0, 0, ONE_CORE)]);
    let units = events.len() * narrow::<usize>(size);
    with_entries(8, narrow(size)).cycle_of(events, units)
}

/// A program whose entries lie on sets of their own: the lowest set comes and goes.
fn with_sets(size: u64) -> (World, [EventKind; 2]) {
    let mut world = World::with_devices(1);
    world.apply(created(0));
    let set = |number: u64| CoresId(narrow(10 + number));
    for number in 0..size {
        world.define_cores(set(number), cores(1 + number % 1000));
        world.apply(cb(MESH, 0, number, set(number)));
    }
    let round = [cb_freed(MESH, 0, 0), cb(MESH, 0, 0, set(0))];
    (world, round)
}

fn cb_sets(size: u64) -> Work {
    let (world, round) = with_sets(size);
    world.cycle(repeated(&round))
}

fn cb_sets_dispatched(size: u64) -> Work {
    let (world, [freed, placed]) = with_sets(size);
    let dispatched = dispatched(MESH, 0);
    world.cycle(repeated(&[freed, dispatched, placed, dispatched]))
}

fn kernel_churn(size: u64) -> Work {
    let mut world = World::with_devices(1);
    world.apply(created(0));
    world.apply_all((0..size).map(|number| kernel(MESH, 0, number, ONE_CORE)));
    let round = [unloaded(MESH, 0, 0), kernel(MESH, 0, 0, ONE_CORE)];
    world.cycle(repeated(&round))
}

fn kernel_shared(size: u64) -> Work {
    let mut world = World::with_devices(1);
    for program in 0..size {
        world.apply_all([created(program), kernel(MESH, program, 7, ONE_CORE)]);
    }
    let programs = some_of(size).into_iter();
    let events = programs.flat_map(|program| {
        [
            unloaded(MESH, program, 7),
            kernel(MESH, program, 7, ONE_CORE),
        ]
    });
    world.cycle(repeated(&events.collect::<Vec<_>>()))
}

/// The largest load goes and comes: the second largest must be found.
fn kernel_sizes(size: u64) -> Work {
    let mut world = World::with_devices(1);
    let load = |program: u64| sized_kernel(MESH, program, 7, ONE_CORE, 64 + program);
    for program in Shuffle::new(2).order(0..size) {
        world.apply_all([created(program), load(program)]);
    }
    let programs = some_of(size).into_iter();
    let events = programs.flat_map(|program| {
        let largest = size - 1;
        let other = (program != largest)
            .then(|| [unloaded(MESH, program, 7), load(program)])
            .into_iter()
            .flatten();
        [unloaded(MESH, largest, 7), load(largest)]
            .into_iter()
            .chain(other)
    });
    world.cycle(repeated(&events.collect::<Vec<_>>()))
}

fn jit_lookup(size: u64) -> Work {
    let lookup = EventKind::JitDiskLookup {
        program: ProgramId(0),
        kernel: KernelId(0),
        name: TextId::NONE,
        hit: true,
    };
    let events = repeated(&[lookup]);
    let units = events.len() * narrow::<usize>(size);
    live(narrow(size), 1).cycle_of(events, units)
}
