//! Devices and meshes that close beside others; processes that come and go; marks.

use crate::world::{
    MESH, ONE_CORE, World, buffer, cb, chip, created, dispatched, kernel, mesh_of, narrow,
};
use crate::{Case, Growth, Work};
use std::sync::Arc;
use ttmem_event::{DeviceId, EventKind, MeshId};
use ttmem_ledger::testing::TestLedger;
use ttmem_ledger::{ApplyLimits, Change};

const AROUND: &[u64] = &[10, 100, 1_000, 10_000];

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "close_mesh_held",
        beside: "buffers of the mesh",
        sizes: AROUND,
        unit: "buffer",
        growth: Growth::Flat,
        prepare: close_mesh_held,
    },
    Case {
        name: "close_mesh_beside",
        beside: "meshes of another device, each with a buffer",
        sizes: AROUND,
        unit: "buffer",
        growth: Growth::Flat,
        prepare: close_mesh_beside,
    },
    Case {
        name: "close_device_held",
        beside: "programs of the device, and as many meshes with a buffer each",
        sizes: AROUND,
        unit: "thing",
        growth: Growth::Flat,
        prepare: close_device_held,
    },
    Case {
        name: "close_device_beside",
        beside: "programs and buffers of another device, and as many meshes",
        sizes: AROUND,
        unit: "thing",
        growth: Growth::Flat,
        prepare: close_device_beside,
    },
    Case {
        name: "define_mesh",
        beside: "devices",
        sizes: &[1, 10, 100, 1_000],
        unit: "definition and device",
        growth: Growth::Flat,
        prepare: define_mesh,
    },
    Case {
        name: "join_depart",
        beside: "processes on the device",
        sizes: AROUND,
        unit: "life",
        growth: Growth::Flat,
        prepare: join_depart,
    },
    Case {
        name: "depart_devices",
        beside: "devices, over which 1,000 programs are spread",
        sizes: &[1, 10, 100, 1_000],
        unit: "program",
        growth: Growth::Linear(
            "each device on which a program ran notes its cores as left, in 16 KiB",
        ),
        prepare: depart_devices,
    },
    Case {
        name: "mark",
        beside: "processes, each on one device",
        sizes: AROUND,
        unit: "mark",
        growth: Growth::Linear(
            "a stretch of peaks begins in every gauge: devices and processes are walked",
        ),
        prepare: mark,
    },
];

/// What is closed in a case about what stands around it.
const OWN: u64 = 100;

fn closed(mesh: MeshId) -> EventKind {
    EventKind::MeshClosed { mesh }
}

fn other_mesh(number: u64) -> MeshId {
    MeshId(narrow(10_000 + number))
}

fn close_mesh_held(size: u64) -> Work {
    let mut world = World::with_devices(1);
    world.apply_all((0..size).map(|id| buffer(MESH, id)));
    world.once_of(vec![closed(MESH)], narrow(size))
}

fn with_others(size: u64) -> World {
    let mut world = World::with_devices(2);
    for number in 0..size {
        world.define_mesh(other_mesh(number), 1..2);
        world.apply(buffer(other_mesh(number), OWN + number));
        world.apply_all(program(other_mesh(number), OWN + number));
    }
    world.apply_all((0..OWN).map(|id| buffer(chip(0), id)));
    world
}

fn program(mesh: MeshId, number: u64) -> [EventKind; 4] {
    [
        created(number),
        cb(mesh, number, 0, ONE_CORE),
        kernel(mesh, number, number, ONE_CORE),
        dispatched(mesh, number),
    ]
}

fn close_mesh_beside(size: u64) -> Work {
    with_others(size).once_of(vec![closed(chip(0))], narrow(OWN))
}

fn close_device_held(size: u64) -> Work {
    let mut world = World::with_devices(1);
    for number in 0..size {
        world.define_mesh(other_mesh(number), 0..1);
        world.apply(buffer(other_mesh(number), number));
        world.apply_all(program(MESH, number));
    }
    let device = DeviceId(0);
    world.once_of(vec![EventKind::DeviceClosed { device }], narrow(2 * size))
}

fn close_device_beside(size: u64) -> Work {
    let mut world = with_others(size);
    world.apply_all((0..OWN).flat_map(|number| program(chip(0), number)));
    let device = DeviceId(0);
    world.once_of(vec![EventKind::DeviceClosed { device }], narrow(2 * OWN))
}

fn define_mesh(size: u64) -> Work {
    let mut world = World::with_devices(narrow(size));
    let changes: Vec<_> = (0..10)
        .map(|number| Change::Define {
            process: world.process,
            definitions: Arc::new(vec![mesh_of(other_mesh(number), 0..narrow(size))]),
        })
        .collect();
    Work::new(changes.len() * narrow::<usize>(size), move || {
        for change in &changes {
            let defined = world.ledger.apply(change, ApplyLimits::NONE, None);
            assert_eq!(defined.refused, None, "these meshes are new");
        }
    })
}

fn crowd(size: u64) -> World {
    let mut world = World::with_devices(1);
    for pid in 2..2 + narrow::<u32>(size) {
        world.join_with_buffer(pid);
    }
    world
}

fn join_depart(size: u64) -> Work {
    const LIVES: u32 = 200;
    let mut world = crowd(size);
    let mut live = move || {
        for pid in 0..LIVES {
            world.join_with_buffer(1_000_000 + pid);
            world.depart();
        }
    };
    live();
    Work::new(narrow(u64::from(LIVES)), live)
}

fn depart_devices(size: u64) -> Work {
    const PROGRAMS: u64 = 1_000;
    let mut world = World::with_devices(narrow(size));
    for number in 0..PROGRAMS {
        let mesh = if size == 1 {
            MESH
        } else {
            chip(narrow(number % size))
        };
        world.apply_all(program(mesh, number));
    }
    world.assert_sound();
    Work::new(narrow(PROGRAMS), move || world.depart())
}

fn mark(size: u64) -> Work {
    const MARKS: usize = 10;
    let mut world = crowd(size);
    let name: Arc<str> = Arc::from("step");
    Work::new(MARKS, move || {
        for number in 0..10 {
            world.ledger.make(Change::SetMark {
                user: 0,
                time: 1_000_000 + number,
                name: Arc::clone(&name),
                number,
            });
        }
    })
}
