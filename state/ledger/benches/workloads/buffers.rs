//! Allocations and frees of a client.

use super::shuffle::Shuffle;
use super::world::{World, banks};
use ttmem_event::catalogue::BankedRegion;
use ttmem_event::{BufferId, Class, CoresId, Direction, Event, EventKind, Layout};

/// Live buffers of each allocator while a workload runs.
pub(crate) const LIVE_PER_ALLOCATOR: u64 = 10_000;

/// A class whose bank is divided into equal places, one for each buffer there will ever be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BufferSpace {
    class: Class,
    region: BankedRegion,
    place_bytes: u64,
}

impl BufferSpace {
    /// The class with so many places in a bank.
    pub(crate) fn new(class: Class, places: u64) -> Self {
        let capacities = World::capacities();
        let region = if class == Class::L1 {
            capacities.l1
        } else {
            capacities.dram
        };
        let place_bytes = region.bytes_per_bank / places / 32 * 32;
        assert!(place_bytes > 0, "the bank has too few bytes for the places");
        Self {
            class,
            region,
            place_bytes,
        }
    }

    /// The identity of the buffer at a place: classes alternate.
    fn buffer(&self, place: u64) -> BufferId {
        BufferId(2 * place + u64::from(self.class == Class::L1))
    }

    /// The buffer at a place is allocated. It leaves a gap behind it at every second place.
    pub(crate) fn allocated(&self, place: u64) -> EventKind {
        let per_bank_bytes = self.place_bytes - 32 * (place % 2).min(self.place_bytes / 64);
        EventKind::BufferAllocated {
            mesh: World::MESH,
            buffer: self.buffer(place),
            class: self.class,
            layout: Layout::Interleaved,
            direction: Direction::BottomUp,
            address: self.region.base + place * self.place_bytes,
            requested_bytes: per_bank_bytes * u64::from(self.region.banks),
            per_bank_bytes,
            page_bytes: 2048,
            cores: CoresId::NONE,
            operation: World::OPERATION,
            banks: banks(&self.region),
        }
    }

    /// The buffer at a place is freed.
    pub(crate) fn freed(&self, place: u64) -> EventKind {
        EventKind::BufferFreed {
            mesh: World::MESH,
            buffer: self.buffer(place),
        }
    }
}

/// DRAM and L1 in turn: one buffer goes, another one comes.
///
/// Each allocator has twice as many buffers as are live. The first half of the
/// cycle replaces one half of them by the other in no order, the second half
/// brings them back; so a free is never followed by the allocation of the same.
pub(crate) fn churn(devices: u16) -> (World, Vec<Event>) {
    let mut world = World::with_mesh(devices);
    let spaces =
        [Class::Dram, Class::L1].map(|class| BufferSpace::new(class, 2 * LIVE_PER_ALLOCATOR));
    let mut shuffle = Shuffle::new(1);
    let one = 0..LIVE_PER_ALLOCATOR;
    let other = LIVE_PER_ALLOCATOR..2 * LIVE_PER_ALLOCATOR;
    for place in shuffle.order(one.clone()) {
        for space in &spaces {
            world.apply(space.allocated(place));
        }
    }
    let mut cycle = Vec::new();
    for (leaving, coming) in [(one.clone(), other.clone()), (other, one)] {
        let (leaving, coming) = (shuffle.order(leaving), shuffle.order(coming));
        for (leaving, coming) in leaving.into_iter().zip(coming) {
            for space in &spaces {
                for event in [space.freed(leaving), space.allocated(coming)] {
                    cycle.push(Event {
                        time: 2,
                        kind: event,
                    });
                }
            }
        }
    }
    (world, cycle)
}
