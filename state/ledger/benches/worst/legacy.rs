//! Old senders: much at one address, and much of everything.

use crate::shuffle::Shuffle;
use crate::world::{World, narrow};
use crate::{Case, Growth, Work};
use ttmem_event::{Class, EventKind, KernelKind};

const AT_ONE_ADDRESS: &[u64] = &[10, 100, 1_000, 10_000, 65_536];

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "legacy_buffer",
        beside: "live buffers",
        sizes: &[1_000, 10_000, 100_000],
        unit: "event",
        growth: Growth::Flat,
        prepare: buffers,
    },
    Case {
        name: "legacy_cb_sizes",
        beside: "at the address, each of its own size; the oldest goes",
        sizes: AT_ONE_ADDRESS,
        unit: "event",
        growth: Growth::Flat,
        prepare: oldest_cb,
    },
    Case {
        name: "legacy_cb_one_size",
        beside: "at the address, all of one size",
        sizes: AT_ONE_ADDRESS,
        unit: "event",
        growth: Growth::Flat,
        prepare: cb_of_one_size,
    },
    Case {
        name: "legacy_cb_unsized",
        beside: "at the address; frees without a size",
        sizes: AT_ONE_ADDRESS,
        unit: "event",
        growth: Growth::Flat,
        prepare: unsized_cb,
    },
    Case {
        name: "legacy_kernel",
        beside: "live kernels",
        sizes: &[100, 1_000, 10_000, 100_000],
        unit: "event",
        growth: Growth::Flat,
        prepare: kernels,
    },
];

const EVENTS: u64 = 2_000;
const DEVICE: i32 = 0;

fn allocated(id: u64) -> EventKind {
    EventKind::LegacyAllocated {
        device: DEVICE,
        class: Class::L1,
        size_bytes: 64,
        id: id * 64,
    }
}

fn buffers(size: u64) -> Work {
    let mut world = World::of_old_sender();
    let order = Shuffle::new(1).order(0..size);
    world.apply_all(order.iter().map(|id| allocated(*id)));
    let mut events = Vec::new();
    for id in Shuffle::new(2)
        .order(0..size)
        .into_iter()
        .take(narrow(EVENTS))
    {
        let freed = EventKind::LegacyFreed {
            device: DEVICE,
            id: id * 64,
        };
        events.extend([freed, allocated(id)]);
    }
    world.cycle(events)
}

fn cb(size_bytes: u64) -> EventKind {
    EventKind::LegacyCbAllocated {
        device: DEVICE,
        size_bytes,
        id: 7,
    }
}

fn cb_freed(size_bytes: u64) -> EventKind {
    EventKind::LegacyCbFreed {
        device: DEVICE,
        size_bytes,
        id: 7,
    }
}

/// What is freed lies at the far end of a list by age, wherever that begins.
fn oldest_cb(size: u64) -> Work {
    let mut world = World::of_old_sender();
    world.apply_all((1..=size).map(cb));
    let mut events = Vec::new();
    for of in (1..=size)
        .cycle()
        .take(narrow(EVENTS.div_ceil(size) * size))
    {
        events.extend([cb_freed(of), cb(of)]);
    }
    events.truncate(20_000);
    world.cycle(events)
}

fn cb_of_one_size(size: u64) -> Work {
    let mut world = World::of_old_sender();
    world.apply_all((0..size).map(|_each| cb(64)));
    let events = (0..EVENTS).flat_map(|_each| [cb_freed(64), cb(64)]);
    world.cycle(events.collect())
}

fn unsized_cb(size: u64) -> Work {
    let mut world = World::of_old_sender();
    world.apply_all(Shuffle::new(3).order(1..size + 1).into_iter().map(cb));
    let events = (0..EVENTS).flat_map(|_each| [cb_freed(0), cb(64)]);
    world.cycle(events.collect())
}

fn kernel(id: u64) -> EventKind {
    EventKind::LegacyKernelLoaded {
        device: DEVICE,
        kind: KernelKind::Application,
        size_bytes: 64,
        id,
    }
}

fn kernels(size: u64) -> Work {
    let mut world = World::of_old_sender();
    world.apply_all((1..=size).map(kernel));
    let order = Shuffle::new(4).order(1..size + 1);
    let mut events = Vec::new();
    for id in order.into_iter().cycle().take(narrow(EVENTS)) {
        let unloaded = EventKind::LegacyKernelUnloaded { device: DEVICE, id };
        events.extend([kernel(id), unloaded, kernel(id)]);
    }
    world.cycle(events)
}
