//! The runtime's managers of config rings, and what each was last asked for.
//!
//! A mesh has one manager for each sub-device it may have. A manager places every program
//! that is sent in several rings: one for each kind of core, then two of launch messages,
//! which hold no memory and are not reported. The runtime asks it in three steps, under a
//! lock of its own: find room, give back what may go, take the room.

use crate::mesh_objects::MeshObjects;
use std::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed,
};
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
    /// What was found and is not taken yet.
    found: [SharedSpace; KINDS],
    is_found: AtomicBool,
    /// Kinds of cores for which that is any room: a bit each.
    placed: AtomicU32,
    /// What was given back since room was found; 0 = nothing that anybody waits for.
    freed: AtomicU32,
    /// Rings in which something was placed, or which were filled: a bit each.
    used: AtomicU32,
}

/// What a program takes in the rings of a sub-device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    /// Kinds of cores in whose rings it takes room: a bit each. Where, [`Manager::place`] says.
    pub(crate) placed: u32,
    pub(crate) waits_for: Option<u32>,
    /// Kinds of cores whose rings can hold what may go: a bit each.
    pub(crate) used: u32,
}

impl Taken {
    /// The kind of cores, by its bit, if no ring of any other is concerned.
    #[inline]
    pub(crate) fn only_kind(&self) -> Option<u32> {
        (self.placed == self.used && self.used.is_power_of_two()).then_some(self.used)
    }
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
        self.is_found.store(false, Relaxed);
        self.freed.store(0, Relaxed);
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

    /// Room was found: an address and a size in every ring.
    ///
    /// False when these are not entries of this manager for such sizes.
    #[inline]
    pub(crate) fn find(&self, sizes: &[u32], entries: &[[u32; 3]]) -> bool {
        let kinds = self.kinds.load(Relaxed);
        if sizes.len() < kinds || entries.len() != kinds + LAUNCH_RINGS {
            return false;
        }
        let mut placed = 0;
        let mut is_wanted = true;
        let found = self.found.iter().zip(&entries[..kinds]);
        for (kind, ((found, &[base, size_bytes, _sync]), wanted)) in (0..).zip(found.zip(sizes)) {
            is_wanted &= size_bytes == *wanted;
            found.set(Space { base, size_bytes });
            placed |= u32::from(size_bytes != 0) << kind;
        }
        if !is_wanted {
            return false;
        }
        self.placed.store(placed, Relaxed);
        self.is_found.store(true, Relaxed);
        true
    }

    /// Something may go; false when that is no part of taking room.
    #[inline]
    pub(crate) fn free(&self, sync: u32) -> bool {
        let is_part = self.is_found.load(Relaxed);
        if is_part {
            self.freed.store(sync, Relaxed);
        }
        is_part
    }

    #[inline]
    pub(crate) fn take(&self) -> Option<Taken> {
        if !self.is_found.load(Relaxed) {
            return None;
        }
        self.is_found.store(false, Relaxed);
        let freed = self.freed.load(Relaxed);
        self.freed.store(0, Relaxed);
        let placed = self.placed.load(Relaxed);
        let used = self.used.load(Relaxed);
        self.used.store(used | placed, Relaxed);
        Some(Taken {
            placed,
            waits_for: (freed != 0).then_some(freed),
            used,
        })
    }

    /// Where the newest room of each kind of cores with one of these bits is.
    #[inline]
    pub(crate) fn places(&self, kinds: u32) -> impl Iterator<Item = (CoreType, Space)> {
        let found = CoreType::ALL.into_iter().zip(&self.found).zip(0..);
        let chosen = found.filter(move |(_found, kind)| kinds >> kind & 1 == 1);
        chosen.map(|((core_type, place), _kind)| (core_type, place.get()))
    }

    /// The same for one kind.
    #[inline]
    pub(crate) fn place(&self, kind: u32) -> Option<(CoreType, Space)> {
        let index = usize::try_from(kind.trailing_zeros()).ok()?;
        Some((*CoreType::ALL.get(index)?, self.found.get(index)?.get()))
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
    fn room_is_found_then_freed_then_taken() {
        let manager = manager();
        assert_eq!(manager.take(), None);
        assert!(!manager.free(3), "nobody took room");
        assert!(manager.find(&[40, 0, 0, 1, 0], &entries(1000, 40)));
        assert!(manager.free(0));
        let first = manager.take().expect("room was found");
        let places = |kinds| manager.places(kinds).collect::<Vec<_>>();
        let place = |base, size_bytes| (CoreType::Tensix, Space { base, size_bytes });
        assert_eq!(places(first.placed), [place(1000, 40)]);
        assert_eq!((first.waits_for, first.used), (None, 0));
        assert_eq!(first.only_kind(), None, "the ring was not used yet");
        // The runtime looks again with other sizes before it decides: the last counts.
        assert!(manager.find(&[60, 0, 0, 1, 0], &entries(1040, 60)));
        assert!(manager.find(&[60, 0, 0, 0, 0], &entries(1000, 60)));
        assert!(manager.free(64));
        let second = manager.take().expect("room was found");
        assert_eq!(places(second.placed), [place(1000, 60)]);
        assert_eq!((second.waits_for, second.used), (Some(64), 1));
        let only = second.only_kind().expect("it is in one ring");
        assert_eq!(manager.place(only), Some(place(1000, 60)));
        assert_eq!(manager.take(), None);
    }

    #[test]
    fn entries_of_another_form_are_refused() {
        let manager = manager();
        assert!(!manager.find(&[40, 0, 0, 1, 0], &entries(1000, 41)));
        assert!(!manager.find(&[40, 0, 0, 1, 0], &entries(1000, 40)[..4]));
        assert!(!manager.find(&[40], &entries(1000, 40)));
        assert_eq!(manager.take(), None);
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
