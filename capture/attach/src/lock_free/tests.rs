//! The lock-free code under the model checker, which tries interleavings and stale reads.
//!
//! Compiled and run by `cargo xtask loom` only. The models run the code itself; those that must
//! panic run it without an ordering, and show that its lack would be found. `membarrier` is
//! modelled by what it does: a fence of every thread, which each passes where it may be caught
//! by the system's, between announcing and looking.

use super::address_map::{AddressMap, Slot as MapSlot};
use super::gate::{Gate, Member, Slot};
use super::patient_lock::PatientLock;
use super::per_process::PerProcess;
use super::sync::atomic::{AtomicU32, Ordering, fence};
use super::thread;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

/// Runs a model in every interleaving; gives its outcomes.
fn outcomes<O: Ord + Send + 'static>(model: impl Fn() -> O + Send + Sync + 'static) -> BTreeSet<O> {
    let seen = Arc::new(Mutex::new(BTreeSet::new()));
    let inside = Arc::clone(&seen);
    loom::model(move || {
        let outcome = model();
        let mut seen = inside.lock().expect("no model fails inside");
        seen.insert(outcome);
    });
    let mut seen = seen.lock().expect("no model fails inside");
    std::mem::take(&mut *seen)
}

/// Something that threads of a model share; its memory is left behind.
fn shared<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

fn gate<const SLOTS: usize>() -> &'static Gate<SLOTS> {
    shared(Gate::new(std::array::from_fn(|_slot| Slot::new())))
}

fn fence_passed() {
    fence(Ordering::SeqCst);
}

/// What a moment has found: none, or both words of a change as they were then.
fn look<const SLOTS: usize>(gate: &Gate<SLOTS>, words: &[AtomicU32; 2]) -> Option<[u32; 2]> {
    let (moment, is_moment) = gate.close(|| true)?;
    let seen = is_moment.then(|| words.each_ref().map(|word| word.load(Ordering::Relaxed)));
    gate.open(moment);
    seen
}

/// Changes two words, unless a moment is in the way, which the thread would wait for.
fn change<const SLOTS: usize>(
    gate: &Gate<SLOTS>,
    member: Member,
    words: &[AtomicU32; 2],
    fence_passed: fn(),
) {
    if gate.begin(member, fence_passed) == 0 {
        for word in words {
            word.store(1, Ordering::Relaxed);
        }
    }
    gate.end(member);
}

/// A change and a look at it; whatever is found is whole.
fn change_and_look<const SLOTS: usize>(fence_passed: fn()) -> Option<[u32; 2]> {
    let gate = gate::<SLOTS>();
    let words = shared([AtomicU32::new(0), AtomicU32::new(0)]);
    let member = gate.join();
    let changing = thread::spawn(move || change(gate, member, words, fence_passed));
    let seen = look(gate, words);
    changing.join().expect("it does not panic");
    if let Some([one, other]) = seen {
        assert_eq!(one, other, "half of a change is seen");
    }
    seen
}

#[test]
fn a_moment_has_all_of_a_change_or_nothing() {
    let seen = outcomes(|| change_and_look::<1>(fence_passed));
    assert_eq!(seen, BTreeSet::from([None, Some([0, 0]), Some([1, 1])]));
}

#[test]
fn a_change_without_a_slot_is_whole_as_well() {
    let seen = outcomes(|| change_and_look::<0>(fence_passed));
    assert_eq!(seen, BTreeSet::from([None, Some([0, 0]), Some([1, 1])]));
}

#[test]
#[should_panic(expected = "half of a change is seen")]
fn without_a_fence_of_the_thread_half_of_a_change_is_seen() {
    outcomes(|| change_and_look::<1>(|| ()));
}

#[test]
fn what_waits_for_a_moment_comes_after_it() {
    let seen = outcomes(|| {
        let gate = gate::<1>();
        let looked = shared(AtomicU32::new(0));
        let looking = thread::spawn(move || {
            if let Some((moment, _is_moment)) = gate.close(|| true) {
                looked.store(1, Ordering::Relaxed);
                gate.open(moment);
            }
        });
        let member = gate.join();
        let had_to_wait = gate.begin(member, fence_passed) != 0;
        let is_over = gate.closed_for() == 0;
        let seen = looked.load(Ordering::Relaxed);
        gate.end(member);
        looking.join().expect("it does not panic");
        if had_to_wait && is_over {
            assert_eq!(seen, 1, "the moment is over, and what it did is not seen");
        }
        (had_to_wait, is_over)
    });
    assert!(seen.contains(&(true, true)) && seen.contains(&(false, true)));
}

#[test]
fn a_slot_has_one_thread_at_a_time() {
    outcomes(|| {
        let gate = gate::<1>();
        let other = thread::spawn(move || gate.join());
        let own = gate.join();
        let other = other.join().expect("it does not panic");
        assert_ne!(own, other);
        assert!([own, other].contains(&Some(0)));
        gate.leave(0);
        assert_eq!(gate.join(), Some(0));
    });
}

#[test]
fn whoever_finds_a_key_finds_its_value() {
    let seen = outcomes(|| {
        let slots = std::array::from_fn(|_slot| MapSlot::new());
        let map: &AddressMap<AtomicU32, 2> = shared(AddressMap::new(slots));
        let reading = thread::spawn(move || {
            let value = map.get(0x100);
            value.map(|value| value.load(Ordering::Relaxed))
        });
        let value = shared(AtomicU32::new(0));
        value.store(7, Ordering::Relaxed);
        assert!(map.insert(0x100, value));
        let found = reading.join().expect("it does not panic");
        found
    });
    assert_eq!(seen, BTreeSet::from([None, Some(7)]));
}

#[test]
fn what_is_done_under_the_lock_is_seen_by_the_next_who_has_it() {
    let seen = outcomes(|| {
        let (lock, word) = (shared(PatientLock::new()), shared(AtomicU32::new(0)));
        let add = move || {
            let held = lock.try_lock();
            if held.is_some() {
                let sum = word.load(Ordering::Relaxed) + 1;
                word.store(sum, Ordering::Relaxed);
            }
            u32::from(held.is_some())
        };
        let other = thread::spawn(add);
        let own = add();
        let had_it = own + other.join().expect("it does not panic");
        assert_eq!(
            word.load(Ordering::Relaxed),
            had_it,
            "one overwrote the other"
        );
        had_it
    });
    assert_eq!(seen, BTreeSet::from([1, 2]));
}

#[test]
fn two_threads_make_one_table() {
    outcomes(|| {
        let table: &PerProcess<Vec<u32>> = shared(PerProcess::new());
        let other = thread::spawn(move || table.lock().push(1));
        table.lock().push(2);
        other.join().expect("it does not panic");
        assert_eq!(table.lock().len(), 2, "what one has put there is lost");
    });
}
