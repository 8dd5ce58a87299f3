//! A ring of one slot with the orderings as arguments: the real ones hold, weaker ones do not.
//!
//! Says of the checker that it can fail, and of each ordering in the ring that it is needed.

use super::{ALL, outcomes};
use crate::sync::{AtomicU32, AtomicU64, Ordering, UnsafeCell};
use loom::sync::Arc;
use loom::thread;

/// The orderings of the three words, each at its releasing end.
#[derive(Clone, Copy, Debug)]
struct Orderings {
    publish: Ordering,
    free: Ordering,
    own: Ordering,
}

const REAL: Orderings = Orderings {
    publish: Ordering::Release,
    free: Ordering::Release,
    own: Ordering::Release,
};

#[derive(Debug)]
struct Words {
    head: AtomicU64,
    tail: AtomicU64,
    owned: AtomicU32,
    slot: UnsafeCell<u64>,
}

// SAFETY: what the models below are about; the checker reports an access that races.
#[expect(unsafe_code, reason = "shares the slot as the ring does")]
unsafe impl Sync for Words {}

impl Words {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            head: AtomicU64::new(0),
            tail: AtomicU64::new(0),
            owned: AtomicU32::new(0),
            slot: UnsafeCell::new(0),
        })
    }

    fn write(&self, value: u64) {
        self.slot.with_mut(|slot| {
            // SAFETY: the checker panics before a pointer that races is handed out.
            #[expect(unsafe_code, reason = "writes the slot as the ring does")]
            unsafe {
                *slot = value;
            }
        });
    }

    fn read(&self) -> u64 {
        self.slot.with(|slot| {
            // SAFETY: the checker panics before a pointer that races is handed out.
            #[expect(unsafe_code, reason = "reads the slot as the ring does")]
            unsafe {
                *slot
            }
        })
    }
}

/// Two events through the slot, the second only if it was given back in time.
fn hand_over(orderings: Orderings) {
    let read = outcomes(ALL, move || {
        let words = Words::new();
        let producing = {
            let words = Arc::clone(&words);
            thread::spawn(move || {
                words.write(1);
                words.head.store(1, orderings.publish);
                if words.tail.load(Ordering::Acquire) == 1 {
                    words.write(2);
                    words.head.store(2, orderings.publish);
                }
            })
        };
        let consuming = thread::spawn(move || {
            let published = words.head.load(Ordering::Acquire);
            let read = (published > 0).then(|| words.read());
            words.tail.store(published, orderings.free);
            read
        });
        producing.join().unwrap();
        consuming.join().unwrap()
    });
    assert_eq!(read, [None, Some(1)].into());
}

/// Two owners, one after the other or only one.
fn pass_on(orderings: Orderings) {
    let owners = outcomes(ALL, move || {
        let words = Words::new();
        let threads = [1, 2].map(|value| {
            let words = Arc::clone(&words);
            thread::spawn(move || {
                let (success, failure) = (Ordering::Acquire, Ordering::Relaxed);
                let claimed = words.owned.compare_exchange(0, 1, success, failure);
                if claimed.is_ok() {
                    words.write(value);
                    words.owned.store(0, orderings.own);
                }
                claimed.is_ok()
            })
        });
        threads.map(|thread| thread.join().unwrap())
    });
    assert!(owners.contains(&[true, true]) && owners.len() == 3);
}

#[test]
fn the_orderings_of_the_ring_are_enough() {
    hand_over(REAL);
    pass_on(REAL);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_relaxed_publication_races() {
    hand_over(Orderings {
        publish: Ordering::Relaxed,
        ..REAL
    });
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_relaxed_giving_back_races() {
    hand_over(Orderings {
        free: Ordering::Relaxed,
        ..REAL
    });
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_relaxed_giving_up_races() {
    pass_on(Orderings {
        own: Ordering::Relaxed,
        ..REAL
    });
}
