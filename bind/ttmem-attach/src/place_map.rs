//! A map from the runtime's objects to what we know of them, read without a lock.
//!
//! Keys are addresses of live objects of the runtime: an address is inserted when the
//! object appears and removed before it is gone. Every hook looks up, hardly any
//! inserts: readers take no lock, and the cost does not grow with what is in the map.

use crate::patient_lock::PatientLock;
use std::sync::atomic::{AtomicUsize, Ordering};

const EMPTY: usize = 0;
/// A slot whose object is gone: searches go on behind it.
const GONE: usize = 1;

#[derive(Debug)]
struct Slot {
    key: AtomicUsize,
    value: AtomicUsize,
}

/// A map of at most `SLOTS` addresses to words.
#[derive(Debug)]
pub(crate) struct PlaceMap<const SLOTS: usize> {
    slots: [Slot; SLOTS],
    /// Held while the map is changed.
    changing: PatientLock,
}

impl<const SLOTS: usize> PlaceMap<SLOTS> {
    pub(crate) const fn new() -> Self {
        Self {
            slots: [const {
                Slot {
                    key: AtomicUsize::new(EMPTY),
                    value: AtomicUsize::new(0),
                }
            }; SLOTS],
            changing: PatientLock::new(),
        }
    }

    /// Where to begin to look for a key.
    #[inline]
    fn start(key: usize) -> usize {
        // Objects are aligned: their low bits say nothing.
        (key >> 4).wrapping_mul(0x9E37_79B9) % SLOTS
    }

    /// The slots in which the key may be, in the order to look at.
    fn path(&self, key: usize) -> impl Iterator<Item = &Slot> {
        let start = Self::start(key);
        self.slots[start..].iter().chain(&self.slots[..start])
    }

    /// The value of a key.
    #[inline]
    pub(crate) fn get(&self, key: usize) -> Option<usize> {
        // Nearly always it is the first; a key that stands for a state is no object's.
        let first = &self.slots[Self::start(key)];
        // SYNC(place): pairs with the store of the key behind its value.
        if first.key.load(Ordering::Acquire) == key && key > GONE {
            return Some(first.value.load(Ordering::Relaxed));
        }
        self.search(key)
    }

    #[cold]
    fn search(&self, key: usize) -> Option<usize> {
        for slot in self.path(key) {
            // SYNC(place): pairs with the store of the key behind its value.
            match slot.key.load(Ordering::Acquire) {
                EMPTY => return None,
                found if found == key => return Some(slot.value.load(Ordering::Relaxed)),
                _other => {}
            }
        }
        None
    }

    /// Every value, in no order; one that is inserted or removed meanwhile may be missing.
    pub(crate) fn values(&self) -> impl Iterator<Item = usize> {
        self.slots.iter().filter_map(|slot| {
            // SYNC(place): pairs with the store of the key behind its value.
            let is_there = slot.key.load(Ordering::Acquire) > GONE;
            is_there.then(|| slot.value.load(Ordering::Relaxed))
        })
    }

    /// Sets the value of a key; false when the map is full or cannot be changed.
    pub(crate) fn insert(&self, key: usize, value: usize) -> bool {
        if key <= GONE {
            return false;
        }
        let Some(_changing) = self.changing.lock() else {
            return false;
        };
        let place = self
            .path(key)
            .take_while(|slot| slot.key.load(Ordering::Relaxed) != EMPTY)
            .find(|slot| slot.key.load(Ordering::Relaxed) == key);
        let place = place.or_else(|| {
            self.path(key)
                .find(|slot| slot.key.load(Ordering::Relaxed) <= GONE)
        });
        let Some(slot) = place else {
            return false;
        };
        slot.value.store(value, Ordering::Relaxed);
        // SYNC(place): who finds the key finds its value.
        slot.key.store(key, Ordering::Release);
        true
    }

    /// Forgets everything, in a child in which nobody else uses it.
    pub(crate) fn forget(&self) {
        for slot in &self.slots {
            slot.key.store(EMPTY, Ordering::Relaxed);
        }
        self.changing.reset();
    }

    /// Removes a key; its value.
    pub(crate) fn remove(&self, key: usize) -> Option<usize> {
        if key <= GONE {
            return None;
        }
        let _changing = self.changing.lock()?;
        let slot = self
            .path(key)
            .take_while(|slot| slot.key.load(Ordering::Relaxed) != EMPTY)
            .find(|slot| slot.key.load(Ordering::Relaxed) == key)?;
        slot.key.store(GONE, Ordering::Relaxed);
        Some(slot.value.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_inserted_is_found_until_it_is_removed() {
        let map = PlaceMap::<8>::new();
        assert_eq!(map.get(0x1000), None);
        assert!(map.insert(0x1000, 7));
        assert!(map.insert(0x2000, 8));
        assert!(map.insert(0x1000, 9));
        assert_eq!(map.get(0x1000), Some(9));
        assert_eq!(map.remove(0x1000), Some(9));
        assert_eq!(map.remove(0x1000), None);
        assert_eq!((map.get(0x1000), map.get(0x2000)), (None, Some(8)));
        assert_eq!(map.values().collect::<Vec<_>>(), [8]);
    }

    #[test]
    fn keys_that_collide_survive_the_removal_of_one_before_them() {
        let map = PlaceMap::<4>::new();
        let keys = [0x10, 0x50, 0x90, 0xd0];
        for key in keys {
            assert!(map.insert(key, key + 1));
        }
        assert!(!map.insert(0x110, 1), "the map is full");
        for gone in keys {
            assert_eq!(map.remove(gone), Some(gone + 1));
            assert!(map.insert(gone + 0x1000, 3));
            assert_eq!(map.remove(gone + 0x1000), Some(3));
            assert!(map.insert(gone, gone + 1));
            for key in keys {
                assert_eq!(map.get(key), Some(key + 1));
            }
        }
    }

    #[test]
    fn nothing_is_found_after_it_was_forgotten() {
        let map = PlaceMap::<4>::new();
        assert!(map.insert(0x10, 1) && map.insert(0x20, 2));
        let held = map.changing.lock();
        map.forget();
        assert_eq!((map.get(0x10), map.get(0x20)), (None, None));
        assert!(map.insert(0x10, 3), "the lock was forgotten as well");
        drop(held);
        assert_eq!(map.get(0x10), Some(3));
    }

    #[test]
    fn an_address_that_is_none_is_refused() {
        let map = PlaceMap::<4>::new();
        assert!(!map.insert(0, 1));
        assert_eq!((map.get(0), map.remove(0)), (None, None));
    }
}
