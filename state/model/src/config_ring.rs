//! The rings that hold the configuration of programs in flight, of one sub-device.
//!
//! Owns where the next program's runtime arguments, semaphores, CB configuration
//! and kernel text go on each kind of core, and which earlier program must have
//! finished before that space may be overwritten. Fast dispatch asks it for every
//! workload. It counts bytes and sync values only: it does not know programs, and
//! it never waits itself.
//!
//! Behind the rings of the core types come two rings of launch messages. They
//! follow the same rules with slots in the place of bytes.

use std::collections::VecDeque;

/// Rows of a ring's table; one row is always the next one to fill.
const TABLE_ROWS: usize = 8;

/// Launch messages a Tensix core can hold ahead of the program it runs.
///
/// Cores have 8, but the one before the current stays readable for the watcher.
pub const MULTICAST_SLOTS: u64 = 7;

/// Launch messages an Ethernet core can hold: its kernels lie at a fixed address.
pub const UNICAST_SLOTS: u64 = 1;

/// The address range of one ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfigRingSpace {
    /// First address.
    pub base: u64,
    /// Bytes.
    pub size: u64,
    /// Every program starts at the base, so only one at a time is there (active Ethernet cores).
    pub always_base: bool,
}

impl ConfigRingSpace {
    const fn end(&self) -> u64 {
        self.base.saturating_add(self.size)
    }
}

/// Where a program would go, and what must finish first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reservation {
    /// One address per ring; for a size of 0 the next free one, which stays free.
    pub addresses: Vec<u64>,
    /// Wait until this sync value is reached, and [`free`](ConfigRings::free) up to it.
    pub sync: Option<u64>,
}

/// What one program occupies in one ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    address: u64,
    size: u64,
    /// The entry may be overwritten once this value is reached.
    sync: u64,
}

impl Entry {
    const fn end(&self) -> u64 {
        self.address.saturating_add(self.size)
    }
}

/// Room found in one ring.
struct Room {
    address: u64,
    sync: Option<u64>,
}

#[derive(Clone, Debug)]
struct Ring {
    space: ConfigRingSpace,
    /// Programs that may still run, oldest first.
    live: VecDeque<Entry>,
    /// Address behind the newest entry; kept when the ring runs empty.
    next: u64,
}

impl Ring {
    fn new(space: ConfigRingSpace) -> Self {
        Self {
            space,
            live: VecDeque::with_capacity(TABLE_ROWS),
            next: space.base,
        }
    }

    fn reserve(&self, size: u64) -> Room {
        let at = |address, sync| Room { address, sync };
        let Some(oldest) = self.live.front() else {
            let address = if size == 0 {
                self.next
            } else {
                self.space.base
            };
            return at(address, None);
        };
        if size == 0 {
            return at(self.next, None);
        }
        if self.space.always_base {
            return at(self.space.base, Some(oldest.sync));
        }
        let (address, sync) = self.find(size);
        at(address, sync)
    }

    /// Room for `size` bytes, and up to where the oldest entries have to finish for it.
    fn find(&self, size: u64) -> (u64, Option<u64>) {
        let ring_end = self.space.end();
        let mut sync = None;
        let mut entries = self.live.iter().peekable();
        while let Some(oldest) = entries.next() {
            let mut address = self.next;
            let mut end = if address >= oldest.end() {
                ring_end
            } else {
                oldest.address
            };
            if address.saturating_add(size) > end && end == ring_end {
                address = self.space.base;
                end = oldest.address;
            }
            if address.saturating_add(size) <= end {
                let table_full = self.live.len() + 1 >= TABLE_ROWS;
                return (address, sync.or(table_full.then_some(oldest.sync)));
            }
            sync = Some(oldest.sync);
            let freed_end = match entries.peek() {
                Some(second) if address < second.address => second.address,
                Some(_) => ring_end,
                // The ring runs empty.
                None => break,
            };
            if address.saturating_add(size) <= freed_end {
                return (address, sync);
            }
        }
        (self.space.base, sync)
    }

    fn alloc(&mut self, address: u64, size: u64, sync: u64) {
        if size == 0 {
            return;
        }
        if self.live.len() + 1 == TABLE_ROWS {
            // Only if the caller did not wait as it was told: the table has no more rows.
            self.live.pop_front();
        }
        let entry = Entry {
            address,
            size,
            sync,
        };
        self.next = entry.end();
        self.live.push_back(entry);
    }

    fn free(&mut self, sync: u64) {
        while self.live.front().is_some_and(|oldest| oldest.sync <= sync) {
            self.live.pop_front();
        }
    }

    fn mark_completely_full(&mut self, sync: u64) {
        self.live.clear();
        self.alloc(self.space.base, self.space.size, sync);
    }
}

/// The configuration rings of one sub-device, and its launch messages.
#[derive(Clone, Debug)]
pub struct ConfigRings {
    rings: Vec<Ring>,
}

impl ConfigRings {
    /// Empty rings for the core types, in their order; the two of launch messages are added.
    #[must_use]
    pub fn new(rings: &[ConfigRingSpace]) -> Self {
        let slots = [MULTICAST_SLOTS, UNICAST_SLOTS].map(|size| ConfigRingSpace {
            base: 0,
            size,
            always_base: false,
        });
        Self {
            rings: rings.iter().copied().chain(slots).map(Ring::new).collect(),
        }
    }

    /// Finds room for one program, without taking it.
    ///
    /// `sizes` has one number per ring: the bytes on each core type, then how many
    /// multicast and unicast launch messages (0 or 1). Numbers left out count as 0.
    /// A size beyond the ring gets the base once everything finished; programs of
    /// that size are refused when their offsets are fixed.
    #[must_use]
    pub fn reserve(&self, sizes: &[u64]) -> Reservation {
        let mut reservation = Reservation::default();
        for (ring, size) in self.rings.iter().zip(all_sizes(sizes)) {
            let room = ring.reserve(size);
            reservation.addresses.push(room.address);
            reservation.sync = reservation.sync.max(room.sync);
        }
        reservation
    }

    /// Gives back what may be overwritten now that `sync` is reached.
    pub fn free(&mut self, sync: u64) {
        for ring in &mut self.rings {
            ring.free(sync);
        }
    }

    /// Takes the reserved room until `sync` is reached.
    pub fn alloc(&mut self, reservation: &Reservation, sizes: &[u64], sync: u64) {
        let wanted = reservation.addresses.iter().zip(all_sizes(sizes));
        for (ring, (address, size)) in self.rings.iter_mut().zip(wanted) {
            ring.alloc(*address, size, sync);
        }
    }

    /// Declares every ring taken from end to end until `sync` is reached.
    ///
    /// A replayed trace wrote where it pleased, so nothing is known any more.
    pub fn mark_completely_full(&mut self, sync: u64) {
        for ring in &mut self.rings {
            ring.mark_completely_full(sync);
        }
    }
}

/// The sizes, and zeros behind them.
fn all_sizes(sizes: &[u64]) -> impl Iterator<Item = u64> {
    sizes.iter().copied().chain(std::iter::repeat(0))
}

#[cfg(test)]
mod tests;
