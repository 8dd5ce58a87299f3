//! Traces: captured, ended, replayed, given up.

use crate::world::{
    MESH, ONE_CORE, World, cb, chip, created, destroyed, dispatched, kernel, narrow,
};
use crate::{Case, Growth, Work};
use ttmem_event::{EventKind, MeshId, TraceId};

/// Up to the most that a trace can have.
const CAPTURED: &[u64] = &[10, 100, 1_000, 10_000, 65_536];

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "trace_capture",
        beside: "captured programs",
        sizes: CAPTURED,
        unit: "run",
        growth: Growth::Flat,
        prepare: capture,
    },
    Case {
        name: "trace_end",
        beside: "captured programs",
        sizes: CAPTURED,
        unit: "event",
        growth: Growth::Flat,
        prepare: end,
    },
    Case {
        name: "trace_replay",
        beside: "captured programs",
        sizes: CAPTURED,
        unit: "replay",
        growth: Growth::Flat,
        prepare: replay,
    },
    Case {
        name: "trace_release",
        beside: "captured programs that still live",
        sizes: CAPTURED,
        unit: "captured run",
        growth: Growth::Flat,
        prepare: release,
    },
    Case {
        name: "trace_release_gone",
        beside: "captured programs that are gone",
        sizes: CAPTURED,
        unit: "captured run",
        growth: Growth::Flat,
        prepare: release_gone,
    },
    Case {
        name: "trace_capture_parts",
        beside: "meshes of 64 devices that capture, of whom the last has the program's",
        sizes: &[1, 10, 100, 250],
        unit: "run",
        growth: Growth::Linear(
            "each mesh that captures is asked whether it has the devices, and there are 256 at most",
        ),
        prepare: capture_parts,
    },
];

const EVENTS: usize = 2_000;
const TRACE: TraceId = TraceId(1);

fn began(mesh: MeshId) -> EventKind {
    EventKind::TraceBegan { mesh, trace: TRACE }
}

const ENDED: EventKind = EventKind::TraceEnded {
    mesh: MESH,
    trace: TRACE,
    bytes: 1,
};
const REPLAYED: EventKind = EventKind::TraceReplayed {
    mesh: MESH,
    trace: TRACE,
};
const RELEASED: EventKind = EventKind::TraceReleased {
    mesh: MESH,
    trace: TRACE,
};

/// So many programs, all captured.
fn captured(size: u64) -> World {
    let mut world = World::with_devices(1);
    for program in 0..size {
        world.apply_all([
            created(program),
            cb(MESH, program, 0, ONE_CORE),
            kernel(MESH, program, program, ONE_CORE),
        ]);
    }
    world.apply(began(MESH));
    world.apply_all((0..size).map(|program| dispatched(MESH, program)));
    world
}

fn capture(size: u64) -> Work {
    let runs = (0..size).cycle().take(EVENTS);
    captured(size).cycle(runs.map(|program| dispatched(MESH, program)).collect())
}

fn end(size: u64) -> Work {
    captured(size).once_of(vec![ENDED], 1)
}

fn replay(size: u64) -> Work {
    let mut world = captured(size);
    world.apply(ENDED);
    world.cycle(vec![REPLAYED; EVENTS])
}

fn release(size: u64) -> Work {
    let mut world = captured(size);
    world.apply_all([ENDED, REPLAYED]);
    world.once_of(vec![RELEASED], narrow(size))
}

fn release_gone(size: u64) -> Work {
    let mut world = captured(size);
    world.apply_all([ENDED, REPLAYED]);
    world.apply_all((0..size).map(destroyed));
    world.once_of(vec![RELEASED], narrow(size))
}

/// A program runs on devices that only the last of the capturing meshes has.
fn capture_parts(size: u64) -> Work {
    let mut world = World::with_devices(129);
    world.apply_all([created(0), cb(chip(128), 0, 0, ONE_CORE)]);
    let mesh = |number: u64| MeshId(narrow(10_000 + number));
    for number in 0..size {
        world.define_mesh(mesh(number), 0..64);
        world.apply(began(mesh(number)));
    }
    world.define_mesh(mesh(size), 65..129);
    world.apply(began(mesh(size)));
    world.cycle(vec![dispatched(chip(128), 0); EVENTS])
}
