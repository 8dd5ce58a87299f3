//! Views taken after each event, and states that are sent anew.
//!
//! A view is held until the next one is taken, as a reader holds it: what the
//! ledger writes to meanwhile it must copy first.

use crate::world::{
    MESH, ONE_CORE, World, buffer, buffer_freed, cb, cb_freed, created, dispatched, kernel, narrow,
};
use crate::{Case, Growth, Work};
use std::sync::Arc;
use ttmem_event::{Definition, EventKind, MeshId, TextId, TraceId};
use ttmem_ledger::testing::TestLedger;

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "view_processes",
        beside: "processes",
        sizes: &[1, 10, 100, 1_000, 10_000],
        unit: "event and view",
        growth: Growth::Flat,
        prepare: processes,
    },
    Case {
        name: "view_buffers",
        beside: "live buffers",
        sizes: &[1_000, 10_000, 100_000, 1_000_000],
        unit: "event and view",
        growth: Growth::Linear("a view has the pages of its processes, of 256 rows each"),
        prepare: buffers,
    },
    Case {
        name: "view_programs",
        beside: "live programs",
        sizes: &[100, 1_000, 10_000, 100_000],
        unit: "event and view",
        growth: Growth::Linear("a view has the pages of its processes, of 256 rows each"),
        prepare: programs,
    },
    Case {
        name: "view_entries",
        beside: "entries of the program",
        sizes: &[1, 10, 100, 1_000],
        unit: "event and view",
        growth: Growth::Linear("what a program has on a device is copied in one, 1,024 at most"),
        prepare: entries,
    },
    Case {
        name: "view_meshes",
        beside: "meshes of the process",
        sizes: &[10, 100, 1_000, 10_000],
        unit: "event and view",
        growth: Growth::Linear(
            "a view has a copy of the mesh handles of who spoke, 16,384 at most",
        ),
        prepare: meshes,
    },
    Case {
        name: "view_definitions",
        beside: "texts of the process, to which one is added",
        sizes: &[100, 1_000, 10_000, 100_000],
        unit: "definition and view",
        growth: Growth::Flat,
        prepare: definitions,
    },
    Case {
        name: "view_captured",
        beside: "captured programs, to which one is added",
        // From a full page of programs on: one is copied.
        sizes: &[300, 1_000, 10_000],
        unit: "event and view",
        growth: Growth::Flat,
        prepare: captured,
    },
    Case {
        name: "resync",
        beside: "records",
        sizes: &[1_000, 10_000, 100_000, 1_000_000],
        unit: "record",
        growth: Growth::Flat,
        prepare: resync,
    },
    Case {
        name: "resync_beside",
        beside: "other processes on the device, of whose peaks one is new",
        sizes: &[10, 100, 1_000, 10_000],
        unit: "resync",
        growth: Growth::Linear("who else is on a device had no part in a peak that nobody saw"),
        prepare: resync_beside,
    },
];

const VIEWS: usize = 50;

/// An event, a view, another event, a view: as many as it takes.
fn viewed(mut world: World, round: Vec<EventKind>) -> Work {
    let mut held = world.view();
    let mut views = move || {
        for event in round.iter().cycle().take(VIEWS) {
            world.apply(*event);
            held = world.view();
        }
        assert_eq!(held.anomalies.total(), 0, "a case is at fault");
    };
    views();
    Work::new(VIEWS, views)
}

fn processes(size: u64) -> Work {
    let mut world = World::with_devices(1);
    for pid in 2..1 + narrow::<u32>(size) {
        world.join_with_buffer(pid);
    }
    let id = 1 << 40;
    viewed(world, vec![buffer(MESH, id), buffer_freed(MESH, id)])
}

fn buffers(size: u64) -> Work {
    let mut world = World::with_devices(1);
    world.apply_all((0..size).map(|id| buffer(MESH, id)));
    viewed(world, vec![buffer_freed(MESH, 7), buffer(MESH, 7)])
}

fn programs(size: u64) -> Work {
    let mut world = World::with_devices(1);
    for program in 0..size {
        world.apply_all([
            created(program),
            cb(MESH, program, 0, ONE_CORE),
            kernel(MESH, program, program, ONE_CORE),
        ]);
    }
    viewed(world, vec![dispatched(MESH, 7), dispatched(MESH, 8)])
}

fn entries(size: u64) -> Work {
    let mut world = World::with_devices(1);
    world.apply(created(0));
    world.apply_all((0..size).map(|number| cb(MESH, 0, number, ONE_CORE)));
    viewed(world, vec![cb_freed(MESH, 0, 0), cb(MESH, 0, 0, ONE_CORE)])
}

fn meshes(size: u64) -> Work {
    let mut world = World::with_devices(1);
    for number in 0..size {
        world.define_mesh(MeshId(narrow(10_000 + number)), 0..1);
    }
    viewed(world, vec![buffer(MESH, 7), buffer_freed(MESH, 7)])
}

fn definitions(size: u64) -> Work {
    let text = |id: u64| Definition::Text {
        id: TextId(narrow(1 + id)),
        text: "a text like others".to_owned(),
    };
    let mut world = World::with_devices(1);
    for id in 0..size {
        world.define(text(id));
    }
    let mut next = size;
    let mut held = world.view();
    let mut views = move || {
        for _view in 0..VIEWS {
            world.define(text(next));
            next += 1;
            held = world.view();
        }
        assert_eq!(held.anomalies.total(), 0, "a case is at fault");
    };
    views();
    Work::new(VIEWS, views)
}

fn captured(size: u64) -> Work {
    let mut world = World::with_devices(1);
    for program in 0..size {
        world.apply_all([created(program), cb(MESH, program, 0, ONE_CORE)]);
    }
    let trace = TraceId(1);
    world.apply(EventKind::TraceBegan { mesh: MESH, trace });
    world.apply_all((0..size).map(|program| dispatched(MESH, program)));
    viewed(world, vec![dispatched(MESH, 7), dispatched(MESH, 8)])
}

fn resync(size: u64) -> Work {
    let mut world = World::with_account(1);
    // A buffer is one entry, a program with what it has about four.
    world.apply_all((0..size / 2).map(|id| buffer(MESH, id)));
    for program in 0..size / 8 {
        world.apply_all([
            created(program),
            cb(MESH, program, 0, ONE_CORE),
            kernel(MESH, program, program, ONE_CORE),
            dispatched(MESH, program),
        ]);
    }
    let sent = Arc::new(world.resync());
    let process = world.process;
    let entries = usize::try_from(size).expect("as many as fit into memory");
    Work::new(entries, move || {
        world.ledger.resync(process, Arc::clone(&sent));
    })
}

/// Each time the process has reached a peak that the server never saw.
fn resync_beside(size: u64) -> Work {
    const RESYNCS: u64 = 10;
    let mut world = World::with_account(1);
    let mut states = Vec::new();
    for id in 1..=RESYNCS {
        let mut larger = buffer(MESH, id);
        if let EventKind::BufferAllocated { per_bank_bytes, .. } = &mut larger {
            *per_bank_bytes = id << 30;
        }
        world.apply(larger);
        world.apply(buffer_freed(MESH, id));
        states.push(Arc::new(world.resync()));
    }
    // The server of another world, which saw none of them.
    let mut world = World::with_devices(1);
    for pid in 2..2 + narrow::<u32>(size) {
        world.join_with_buffer(pid);
    }
    let process = world.process;
    Work::new(states.len(), move || {
        for sent in &states {
            world.ledger.resync(process, Arc::clone(sent));
        }
    })
}
