//! The lock-free code under the model checker, which tries interleavings and stale reads.
//!
//! Compiled and run by `cargo xtask loom` only. The models run the code itself,
//! not a copy of it; the models that must panic run it in a wrong order, or a
//! copy with weaker orderings, and show that a mistake would be found.
//!
//! The checker is not complete: of the accesses to a word it remembers the last
//! one only, so a thread that loads a word and then stores to it hides who loaded
//! it before, and a thread that yields is not switched to. So rings are claimed
//! before the threads start, producers are spawned before who reads, nobody
//! spins, and every model says which outcomes it must have come across. Where
//! there are too many interleavings the forced switches between threads are
//! bounded, as the model says.

#![expect(
    clippy::unwrap_used,
    reason = "tests, which the linter knows by `cfg(test)` alone"
)]

mod death;
mod dictionary;
mod hand_over;
mod merge;
mod process;
mod segments;
mod weaker;

use crate::ring::{Consumer, Producer, Ring, RingControl, Slot};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use ttmem_event::event::{EVENT_BYTES, TIME_AT};

const ALL: Option<usize> = None;

/// Runs a model in every interleaving with at most so many forced switches; gives its outcomes.
fn outcomes<O: Ord + Send + 'static>(
    preemptions: Option<usize>,
    model: impl Fn() -> O + Send + Sync + 'static,
) -> BTreeSet<O> {
    let seen = Arc::new(Mutex::new(BTreeSet::new()));
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    let inside = Arc::clone(&seen);
    builder.check(move || {
        let outcome = model();
        inside.lock().unwrap().insert(outcome);
    });
    std::mem::take(&mut *seen.lock().unwrap())
}

/// A ring, in memory that is never freed: threads of a model borrow nothing.
fn ring(slots: usize) -> Ring<'static> {
    let control = Box::leak(Box::new(RingControl::new()));
    let slots = Vec::leak((0..slots).map(|_slot| Slot::new()).collect());
    Ring::new(control, slots).unwrap()
}

/// A record: its time, and the tag in every other byte.
fn filled(time: u64, tag: u8) -> [u8; EVENT_BYTES] {
    let mut record = [tag; EVENT_BYTES];
    record[TIME_AT..TIME_AT + 8].copy_from_slice(&time.to_le_bytes());
    record
}

/// The tag of a record, which must be whole.
fn tag(record: &[u8; EVENT_BYTES]) -> u8 {
    let (before, rest) = record.split_at(TIME_AT);
    let tag = before[0];
    let mut others = before.iter().chain(&rest[8..]);
    assert!(others.all(|byte| *byte == tag), "a torn record: {record:?}");
    tag
}

/// Publishes an event if there is room.
fn try_push(producer: &Producer<'_>, time: u64, tag: u8) -> bool {
    producer.look_for_room() && producer.push(&filled(time, tag))
}

/// Publishes an event where there is room for certain.
fn push(producer: &Producer<'_>, time: u64, tag: u8) {
    assert!(try_push(producer, time, tag), "no room");
}

/// Looks, and reads what that shows.
fn read(consumer: &mut Consumer<'_>) -> Vec<u8> {
    consumer.look();
    let mut tags = Vec::new();
    while let Some(record) = consumer.peek() {
        tags.push(tag(&record));
        consumer.advance();
    }
    tags
}
