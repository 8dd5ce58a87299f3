//! Buffers beside many others, on many devices, and after a peak.

use crate::shuffle::Shuffle;
use crate::world::{BUFFER_BYTES, MESH, World, buffer, buffer_freed, narrow};
use crate::{Case, Growth, Work};
use ttmem_event::EventKind;

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "buffer",
        beside: "live buffers",
        sizes: &[1_000, 10_000, 100_000, 1_000_000],
        unit: "event",
        growth: Growth::Flat,
        prepare: churn,
    },
    Case {
        name: "buffer_free_after_peak",
        beside: "buffers of the peak",
        sizes: &[1_000, 10_000, 100_000, 1_000_000],
        unit: "free",
        growth: Growth::Flat,
        prepare: free_after_peak,
    },
    Case {
        name: "buffer_after_second_peak",
        beside: "kept buffers of the first peak",
        sizes: &[1_000, 10_000, 100_000, 1_000_000],
        unit: "event",
        growth: Growth::Flat,
        prepare: after_second_peak,
    },
    Case {
        name: "buffer_mesh",
        beside: "devices",
        sizes: &[1, 8, 32, 256],
        unit: "event and device",
        growth: Growth::Flat,
        prepare: on_mesh,
    },
];

const EVENTS: u64 = 4_000;

fn live(devices: u32, count: u64) -> World {
    let mut world = World::with_devices(devices);
    let order = Shuffle::new(1).order(0..count);
    world.apply_all(order.into_iter().map(|id| buffer(MESH, id)));
    world
}

/// Of the live ones a few go in no order, others come, and back.
fn exchange(live: u64) -> Vec<EventKind> {
    let count = live.min(EVENTS / 4);
    let mut shuffle = Shuffle::new(2);
    let going = &shuffle.order(0..live)[..narrow(count)];
    let coming = shuffle.order(live..live + count);
    let mut events = Vec::new();
    for (going, coming) in going.iter().zip(&coming) {
        events.extend([buffer_freed(MESH, *going), buffer(MESH, *coming)]);
    }
    for (going, coming) in going.iter().zip(&coming) {
        events.extend([buffer_freed(MESH, *coming), buffer(MESH, *going)]);
    }
    events
}

fn churn(size: u64) -> Work {
    live(1, size).cycle(exchange(size))
}

/// Everything that was live at the peak is kept when it is freed.
fn free_after_peak(size: u64) -> Work {
    let order = Shuffle::new(3).order(0..size);
    let frees: Vec<EventKind> = order.iter().map(|id| buffer_freed(MESH, *id)).collect();
    let units = frees.len();
    live(1, size).once_of(frees, units)
}

/// A higher peak comes, and what was kept for the first must go, a little with each event.
fn after_second_peak(size: u64) -> Work {
    let mut world = live(1, size);
    world.apply_all((0..size).map(|id| buffer_freed(MESH, id)));
    let mut huge = buffer(MESH, size);
    if let EventKind::BufferAllocated { per_bank_bytes, .. } = &mut huge {
        *per_bank_bytes = 2 * BUFFER_BYTES * size;
    }
    world.apply(huge);
    world.apply(buffer_freed(MESH, size));
    let mut events = Vec::new();
    for id in 0..EVENTS / 2 {
        events.extend([buffer(MESH, id), buffer_freed(MESH, id)]);
    }
    let units = events.len();
    world.once_of(events, units)
}

fn on_mesh(size: u64) -> Work {
    let events = exchange(1_000);
    let units = events.len() * narrow::<usize>(size);
    live(narrow(size), 1_000).cycle_of(events, units)
}
