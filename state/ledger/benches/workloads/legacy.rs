//! What a sender of the old protocol reports.

use super::buffers::LIVE_PER_ALLOCATOR;
use super::shuffle::Shuffle;
use super::world::World;
use ttmem_event::{Class, Event, EventKind, KernelKind};

/// The device it speaks of.
const DEVICE: i32 = 0;
/// Programs: each has a circular buffer and a kernel.
const PROGRAMS: u64 = 1000;
/// Bytes of a buffer.
const BUFFER_BYTES: u64 = 2048;

/// Buffers come and go, circular buffers are placed anew, kernels are dispatched.
///
/// Of ten events six are buffers, two circular buffers and two kernels that are
/// loaded already, which is how this sender reports a dispatch. Now and then a
/// kernel is loaded and unloaded as well.
pub(crate) fn mix() -> (World, Vec<Event>) {
    let mut world = World::with_old_sender();
    let mut shuffle = Shuffle::new(3);
    let one = 0..LIVE_PER_ALLOCATOR;
    let other = LIVE_PER_ALLOCATOR..2 * LIVE_PER_ALLOCATOR;
    for place in shuffle.order(one.clone()) {
        world.apply(allocated(place));
    }
    for program in 0..PROGRAMS {
        world.apply(cb_allocated(program));
        world.apply(kernel_loaded(program));
    }
    let mut programs = (0..PROGRAMS).cycle();
    let mut cycle = Vec::new();
    for (leaving, coming) in [(one.clone(), other.clone()), (other, one)] {
        let pairs = shuffle
            .order(leaving)
            .into_iter()
            .zip(shuffle.order(coming));
        for (round, (leaving, coming)) in pairs.enumerate() {
            cycle.extend([freed(leaving), allocated(coming)]);
            let program = programs.next().unwrap_or(0);
            match round % 3 {
                0 => cycle.extend([cb_allocated(program), cb_freed(program)]),
                1 => cycle.extend([
                    kernel_loaded(program),
                    kernel_loaded((program + 1) % PROGRAMS),
                ]),
                _buffers_only => {}
            }
            if round % 48 == 1 {
                let passing = PROGRAMS + program;
                cycle.extend([kernel_loaded(passing), kernel_unloaded(passing)]);
            }
        }
    }
    let at = |event| Event {
        time: 2,
        kind: event,
    };
    (world, cycle.into_iter().map(at).collect())
}

/// The address of a buffer: those of one class do not overlap.
fn address(place: u64) -> u64 {
    0x10_0000 + place * BUFFER_BYTES
}

fn allocated(place: u64) -> EventKind {
    EventKind::LegacyAllocated {
        device: DEVICE,
        class: if place.is_multiple_of(2) {
            Class::Dram
        } else {
            Class::L1
        },
        size_bytes: BUFFER_BYTES,
        id: address(place),
    }
}

fn freed(place: u64) -> EventKind {
    EventKind::LegacyFreed {
        device: DEVICE,
        id: address(place),
    }
}

fn cb_allocated(program: u64) -> EventKind {
    EventKind::LegacyCbAllocated {
        device: DEVICE,
        size_bytes: 4096,
        id: 0x2_0000 + program * 64,
    }
}

fn cb_freed(program: u64) -> EventKind {
    EventKind::LegacyCbFreed {
        device: DEVICE,
        size_bytes: 4096,
        id: 0x2_0000 + program * 64,
    }
}

fn kernel_loaded(program: u64) -> EventKind {
    EventKind::LegacyKernelLoaded {
        device: DEVICE,
        kind: KernelKind::Application,
        size_bytes: 64 << 10,
        id: 0x7f00_0000_0000 + program * 4096,
    }
}

fn kernel_unloaded(program: u64) -> EventKind {
    EventKind::LegacyKernelUnloaded {
        device: DEVICE,
        id: 0x7f00_0000_0000 + program * 4096,
    }
}
