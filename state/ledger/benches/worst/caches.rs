//! The config ring and the prefetcher cache, full of small entries.

use crate::world::{MESH, World, narrow};
use crate::{Case, Growth, Work};
use ttmem_event::{CoreType, EventKind, ProgramId};

/// Up to the most that a ring can have.
const ENTRIES: &[u64] = &[10, 100, 1_000, 8_192];

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "ring_place",
        beside: "entries of the ring",
        sizes: ENTRIES,
        unit: "event",
        growth: Growth::Flat,
        prepare: place,
    },
    Case {
        name: "ring_free",
        beside: "entries of the ring, all of which go",
        sizes: ENTRIES,
        unit: "entry",
        growth: Growth::Flat,
        prepare: free,
    },
    Case {
        name: "prefetch_place",
        beside: "workloads of the cache",
        sizes: ENTRIES,
        unit: "event",
        growth: Growth::Flat,
        prepare: prefetch,
    },
];

const EVENTS: u64 = 2_000;
const ENTRY_BYTES: u64 = 16;

fn placed(number: u64, size: u64) -> EventKind {
    EventKind::ConfigRingAllocated {
        mesh: MESH,
        sub_device: 0,
        core_type: CoreType::Tensix,
        program: ProgramId(number),
        address: number % size * ENTRY_BYTES,
        size_bytes: ENTRY_BYTES,
        sync: number,
    }
}

fn full_ring(size: u64) -> World {
    let mut world = World::with_devices(1);
    world.apply(EventKind::ConfigRingOpened {
        mesh: MESH,
        sub_device: 0,
        core_type: CoreType::Tensix,
        base: 0,
        size_bytes: size * ENTRY_BYTES,
    });
    world.apply_all((0..size).map(|number| placed(number, size)));
    world
}

/// Each entry lies upon the oldest.
fn place(size: u64) -> Work {
    let world = full_ring(size);
    let events = (size..size + EVENTS).map(|number| placed(number, size));
    world.once_of(events.collect(), narrow(EVENTS))
}

fn free(size: u64) -> Work {
    let freed = EventKind::ConfigRingFreed {
        mesh: MESH,
        sub_device: 0,
        core_type: CoreType::Tensix,
        sync: size,
    };
    full_ring(size).once_of(vec![freed], narrow(size))
}

fn prefetch(size: u64) -> Work {
    // A full cache takes no more: one entry is left out.
    let entries = size.min(8_191);
    let mut world = World::with_devices(1);
    world.apply(EventKind::PrefetchOpened {
        mesh: MESH,
        size_bytes: entries * ENTRY_BYTES,
    });
    let placed = |number: u64| EventKind::Prefetched {
        mesh: MESH,
        workload: number,
        offset: number % entries * ENTRY_BYTES,
        size_bytes: ENTRY_BYTES,
        hit: false,
    };
    world.apply_all((0..entries).map(placed));
    let events = (entries..entries + EVENTS).map(placed);
    world.once_of(events.collect(), narrow(EVENTS))
}
