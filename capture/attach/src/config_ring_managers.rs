//! The runtime's managers of config rings, and what each was last asked for.
//!
//! A mesh has one manager for each sub-device it may have. A manager places every program
//! that is sent in several rings: one for each kind of core, then two of launch messages,
//! which hold no memory and are not reported. The runtime asks it in three steps, under a
//! lock of its own: find room, up to three times, give back what may go, take the room. Only
//! the last of these is looked at; what came before is a note among the thread's own words.

use crate::mesh_objects::MeshObjects;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use ttmem_event::CoreType;

/// Kinds of cores that can have a ring.
const KINDS: usize = CoreType::ALL.len();

/// Rings of launch messages, behind those of the kinds of cores.
const LAUNCH_RINGS: usize = 2;

/// The managers: eight for each of twice as many meshes as a machine has devices.
pub(crate) static MANAGERS: MeshObjects<Manager, 1024> = MeshObjects::new();

/// A range of addresses on each core of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Space {
    pub(crate) base: u32,
    pub(crate) size_bytes: u32,
}

impl Space {
    #[inline]
    fn contains(self, inner: Self) -> bool {
        let end = |space: Self| u64::from(space.base) + u64::from(space.size_bytes);
        self.base <= inner.base && end(inner) <= end(self)
    }
}

/// The same as one word, the size above the base.
#[derive(Debug, Default)]
struct SharedSpace(AtomicU64);

impl SharedSpace {
    #[inline]
    fn get(&self) -> Space {
        let word = self.0.load(Relaxed);
        let half = |word: u64| u32::try_from(word & u64::from(u32::MAX)).unwrap_or_default();
        Space {
            base: half(word),
            size_bytes: half(word >> 32),
        }
    }

    #[inline]
    fn set(&self, space: Space) {
        let word = u64::from(space.size_bytes) << 32 | u64::from(space.base);
        self.0.store(word, Relaxed);
    }
}

/// A `WorkerConfigBufferMgr`.
#[derive(Debug, Default)]
pub(crate) struct Manager {
    sub_device: AtomicU8,
    kinds: AtomicUsize,
    spaces: [SharedSpace; KINDS],
    /// Rings in which something was placed, or which were filled: a bit each.
    used: AtomicU32,
}

/// An entry of what a manager has found, for each of its rings: an address, a size, and when it
/// may go.
pub(crate) type Entry = [u32; 3];

/// What a program takes in the rings of a sub-device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken<'e> {
    entries: &'e [Entry],
    /// Kinds of cores in whose rings it takes room: a bit each.
    placed: u32,
    pub(crate) waits_for: Option<u32>,
    /// Kinds of cores whose rings can hold what may go: a bit each.
    pub(crate) used: u32,
}

impl Taken<'_> {
    /// Where it takes room, if no ring of any other kind of cores is concerned.
    #[inline]
    pub(crate) fn only_place(&self) -> Option<(CoreType, Space)> {
        let is_only = self.placed == self.used && self.used.is_power_of_two();
        let index = usize::try_from(self.used.trailing_zeros()).ok()?;
        let (core_type, entry) = (CoreType::ALL.get(index)?, self.entries.get(index)?);
        is_only.then_some((*core_type, space_of(*entry)))
    }

    pub(crate) fn places(&self) -> impl Iterator<Item = (CoreType, Space)> {
        let entries = CoreType::ALL.into_iter().zip(self.entries);
        let placed = entries.filter(|(_core_type, [_base, size_bytes, _sync])| *size_bytes != 0);
        placed.map(|(core_type, entry)| (core_type, space_of(*entry)))
    }
}

#[inline]
fn space_of([base, size_bytes, _sync]: Entry) -> Space {
    Space { base, size_bytes }
}

impl Manager {
    /// It begins anew with these rings, of which those of launch messages are the last.
    pub(crate) fn reset(&self, sub_device: u8, rings: &[Space]) -> bool {
        let Some(kinds) = rings.len().checked_sub(LAUNCH_RINGS) else {
            return false;
        };
        if kinds > KINDS {
            return false;
        }
        for (space, ring) in self.spaces.iter().zip(&rings[..kinds]) {
            space.set(*ring);
        }
        self.sub_device.store(sub_device, Relaxed);
        self.kinds.store(kinds, Relaxed);
        self.used.store(0, Relaxed);
        true
    }

    pub(crate) fn sub_device(&self) -> u8 {
        self.sub_device.load(Relaxed)
    }

    pub(crate) fn spaces(&self) -> impl Iterator<Item = (CoreType, Space)> {
        let kinds = self.kinds.load(Relaxed);
        let rings = CoreType::ALL.into_iter().zip(&self.spaces).take(kinds);
        rings.map(|(core_type, space)| (core_type, space.get()))
    }

    /// Takes what was found for a program that waits for what was given back; 0 = for nothing.
    ///
    /// None when these are not entries of this manager's rings.
    #[inline]
    pub(crate) fn take<'e>(&self, entries: &'e [Entry], freed: u32) -> Option<Taken<'e>> {
        let kinds = self.kinds.load(Relaxed);
        if entries.len() != kinds + LAUNCH_RINGS {
            return None;
        }
        let (mut placed, mut are_inside) = (0, true);
        let entries = &entries[..kinds];
        for (kind, (space, entry)) in (0..).zip(self.spaces.iter().zip(entries)) {
            let [_base, size_bytes, _sync] = *entry;
            if size_bytes != 0 {
                placed |= 1 << kind;
                are_inside &= space.get().contains(space_of(*entry));
            }
        }
        if !are_inside {
            return None;
        }
        let used = self.used.load(Relaxed);
        self.used.store(used | placed, Relaxed);
        Some(Taken {
            entries,
            placed,
            waits_for: (freed != 0).then_some(freed),
            used,
        })
    }

    /// Rings in which there can be something: a bit each.
    pub(crate) fn used(&self) -> u32 {
        self.used.load(Relaxed)
    }

    /// Something lies in every ring from now on.
    pub(crate) fn fill(&self) {
        let kinds = self.kinds.load(Relaxed);
        self.used.store((1 << kinds) - 1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three kinds of cores, as on Wormhole.
    const RINGS: [Space; 5] = {
        const fn space(base: u32, size_bytes: u32) -> Space {
            Space { base, size_bytes }
        }
        [
            space(1000, 500),
            space(2000, 100),
            space(3000, 200),
            space(0, 7),
            space(0, 1),
        ]
    };

    fn manager() -> Manager {
        let manager = Manager::default();
        assert!(manager.reset(0, &RINGS));
        manager
    }

    fn entries(address: u32, size: u32) -> [[u32; 3]; 5] {
        [
            [address, size, 0],
            [2000, 0, 0],
            [3000, 0, 0],
            [1, 1, 0],
            [0, 0, 0],
        ]
    }

    #[test]
    fn rings_of_launch_messages_are_left_out() {
        let spaces: Vec<_> = manager().spaces().collect();
        let kinds = [CoreType::Tensix, CoreType::ActiveEth, CoreType::IdleEth];
        let expected: Vec<_> = kinds.into_iter().zip(RINGS).collect();
        assert_eq!(spaces, expected);
        assert!(!Manager::default().reset(0, &RINGS[..1]));
        assert!(!Manager::default().reset(0, &[Space::default(); 7]));
    }

    #[test]
    fn room_is_taken_for_who_waits_for_what_was_freed() {
        let manager = manager();
        let place = |base, size_bytes| (CoreType::Tensix, Space { base, size_bytes });
        let found = entries(1000, 40);
        let first = manager.take(&found, 0).expect("they are its entries");
        assert_eq!(first.places().collect::<Vec<_>>(), [place(1000, 40)]);
        assert_eq!((first.waits_for, first.used), (None, 0));
        assert_eq!(first.only_place(), None, "the ring was not used yet");
        let found = entries(1000, 60);
        let second = manager.take(&found, 64).expect("they are its entries");
        assert_eq!(second.places().collect::<Vec<_>>(), [place(1000, 60)]);
        assert_eq!((second.waits_for, second.used), (Some(64), 1));
        assert_eq!(second.only_place(), Some(place(1000, 60)));
    }

    #[test]
    fn entries_of_another_form_are_refused() {
        let manager = manager();
        for outside in [entries(999, 40), entries(1461, 40), entries(u32::MAX, 1)] {
            assert_eq!(manager.take(&outside, 0), None);
        }
        assert_eq!(manager.take(&entries(1000, 40)[..4], 0), None);
        assert_eq!(manager.used(), 0);
        assert!(manager.take(&entries(1460, 40), 0).is_some());
    }

    #[test]
    fn what_fills_a_manager_lies_in_every_ring() {
        let manager = manager();
        assert_eq!(manager.used(), 0);
        manager.fill();
        assert_eq!(manager.used(), 0b111);
        assert!(manager.reset(0, &RINGS));
        assert_eq!(manager.used(), 0);
    }
}
