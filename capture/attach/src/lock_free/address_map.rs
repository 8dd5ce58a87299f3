//! A map from the runtime's objects to what we know of them, read without a lock.
//!
//! Keys are addresses of live objects of the runtime: an address is inserted when the
//! object appears and removed before it is gone. Every hook looks up, hardly any
//! inserts: readers take no lock, and the cost does not grow with what is in the map.

#![expect(unsafe_code, reason = "values are kept by their address")]

use super::patient_lock::PatientLock;
use super::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

const EMPTY: usize = 0;
/// A slot whose object is gone: searches go on behind it.
const GONE: usize = 1;

#[derive(Debug)]
pub(crate) struct Slot<T: 'static> {
    key: AtomicUsize,
    /// Not null where there is a key, and never freed.
    value: AtomicPtr<T>,
}

impl<T> Slot<T> {
    super::const_where_possible! {
        pub(crate) fn new() -> Self {
            Self {
                key: AtomicUsize::new(EMPTY),
                value: AtomicPtr::new(std::ptr::null_mut()),
            }
        }
    }

    /// The value of a slot in which a key was seen (`SYNC(key)`).
    #[inline]
    fn value(&self) -> Option<&'static T> {
        let value = self.value.load(Ordering::Relaxed);
        // SAFETY: only `AddressMap::insert` stores here, references that are valid for ever.
        unsafe { value.as_ref() }
    }
}

/// A map of at most `SLOTS` addresses to values that are never freed.
#[derive(Debug)]
pub(crate) struct AddressMap<T: 'static, const SLOTS: usize> {
    slots: [Slot<T>; SLOTS],
    /// Held while the map is changed.
    changing: PatientLock,
}

impl<T: Sync, const SLOTS: usize> AddressMap<T, SLOTS> {
    super::const_where_possible! {
        pub(crate) fn new(slots: [Slot<T>; SLOTS]) -> Self {
            Self {
                slots,
                changing: PatientLock::new(),
            }
        }
    }

    /// Where to begin to look for a key.
    #[inline]
    fn start(key: usize) -> usize {
        // Objects are aligned: their low bits say nothing.
        (key >> 4).wrapping_mul(0x9E37_79B9) % SLOTS
    }

    /// The slots in which the key may be, in the order to look at.
    fn path(&self, key: usize) -> impl Iterator<Item = &Slot<T>> {
        let start = Self::start(key);
        self.slots[start..].iter().chain(&self.slots[..start])
    }

    #[inline]
    pub(crate) fn get(&self, key: usize) -> Option<&'static T> {
        // Nearly always it is the first; a key that stands for a state is no object's.
        let first = &self.slots[Self::start(key)];
        // SYNC(key): the value of the key is written.
        if first.key.load(Ordering::Acquire) == key && key > GONE {
            return first.value();
        }
        self.search(key)
    }

    #[cold]
    fn search(&self, key: usize) -> Option<&'static T> {
        for slot in self.path(key) {
            // SYNC(key): the value of the key is written.
            match slot.key.load(Ordering::Acquire) {
                EMPTY => return None,
                found if found == key => return slot.value(),
                _other => {}
            }
        }
        None
    }

    /// Every value, in no order; one that is inserted or removed meanwhile may be missing.
    pub(crate) fn values(&self) -> impl Iterator<Item = &'static T> {
        self.slots.iter().filter_map(|slot| {
            // SYNC(key): the value of the key is written.
            let is_there = slot.key.load(Ordering::Acquire) > GONE;
            is_there.then(|| slot.value()).flatten()
        })
    }

    /// The slot of a key, for who has the lock.
    fn slot_of(&self, key: usize) -> Option<&Slot<T>> {
        self.path(key)
            .take_while(|slot| slot.key.load(Ordering::Relaxed) != EMPTY)
            .find(|slot| slot.key.load(Ordering::Relaxed) == key)
    }

    /// Sets the value of a key; false when the map is full or cannot be changed.
    pub(crate) fn insert(&self, key: usize, value: &'static T) -> bool {
        if key <= GONE {
            return false;
        }
        let Some(_changing) = self.changing.lock() else {
            return false;
        };
        let free = |slot: &&Slot<T>| slot.key.load(Ordering::Relaxed) <= GONE;
        let slot = self.slot_of(key).or_else(|| self.path(key).find(free));
        let Some(slot) = slot else {
            return false;
        };
        slot.value
            .store((&raw const *value).cast_mut(), Ordering::Relaxed);
        // SYNC(key): whoever finds the key finds its value.
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
    pub(crate) fn remove(&self, key: usize) -> Option<&'static T> {
        if key <= GONE {
            return None;
        }
        let _changing = self.changing.lock()?;
        let slot = self.slot_of(key)?;
        slot.key.store(GONE, Ordering::Relaxed);
        slot.value()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn map<const SLOTS: usize>() -> AddressMap<usize, SLOTS> {
        AddressMap::new([const { Slot::new() }; SLOTS])
    }

    /// Inserts a value of its own; whether there was room.
    fn insert<const SLOTS: usize>(
        map: &AddressMap<usize, SLOTS>,
        key: usize,
        value: usize,
    ) -> bool {
        map.insert(key, Box::leak(Box::new(value)))
    }

    #[test]
    fn what_was_inserted_is_found_until_it_is_removed() {
        let map = map::<8>();
        assert_eq!(map.get(0x1000), None);
        assert!(insert(&map, 0x1000, 7));
        assert!(insert(&map, 0x2000, 8));
        assert!(insert(&map, 0x1000, 9));
        assert_eq!(map.get(0x1000), Some(&9));
        assert_eq!(map.remove(0x1000), Some(&9));
        assert_eq!(map.remove(0x1000), None);
        assert_eq!((map.get(0x1000), map.get(0x2000)), (None, Some(&8)));
        assert_eq!(map.values().collect::<Vec<_>>(), [&8]);
    }

    #[test]
    fn keys_that_collide_survive_the_removal_of_one_before_them() {
        let map = map::<4>();
        let keys = [0x10, 0x50, 0x90, 0xd0];
        for key in keys {
            assert!(insert(&map, key, key + 1));
        }
        assert!(!insert(&map, 0x110, 1), "the map is full");
        for gone in keys {
            assert_eq!(map.remove(gone), Some(&(gone + 1)));
            assert!(insert(&map, gone + 0x1000, 3));
            assert_eq!(map.remove(gone + 0x1000), Some(&3));
            assert!(insert(&map, gone, gone + 1));
            for key in keys {
                assert_eq!(map.get(key), Some(&(key + 1)));
            }
        }
    }

    #[test]
    fn nothing_is_found_after_it_was_forgotten() {
        let map = map::<4>();
        assert!(insert(&map, 0x10, 1) && insert(&map, 0x20, 2));
        let held = map.changing.lock();
        map.forget();
        assert_eq!((map.get(0x10), map.get(0x20)), (None, None));
        assert!(insert(&map, 0x10, 3), "the lock was forgotten as well");
        drop(held);
        assert_eq!(map.get(0x10), Some(&3));
    }

    #[test]
    fn an_address_that_is_none_is_refused() {
        let map = map::<4>();
        assert!(!insert(&map, 0, 1));
        assert_eq!((map.get(0), map.remove(0)), (None, None));
    }
}
