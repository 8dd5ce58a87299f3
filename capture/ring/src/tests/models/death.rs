//! A process that dies at any step: what it sent and what it left are everything, once.

use super::dictionary::Names;
use super::{filled, outcomes, push, read, ring};
use crate::ring::Ring;
use loom::sync::Arc;
use loom::thread;
use std::collections::BTreeSet;

/// The steps of the pump, each of which may be its last.
#[derive(Clone, Copy, Debug)]
enum Step {
    Read,
    Send,
    Free,
}

/// Nothing is given back before the server has it.
const SENT_BEFORE_FREED: [Step; 6] = [
    Step::Read,
    Step::Send,
    Step::Free,
    Step::Read,
    Step::Send,
    Step::Free,
];

const FREED_BEFORE_SENT: [Step; 3] = [Step::Read, Step::Free, Step::Send];

/// What the server has of a ring.
#[derive(Debug, Default)]
struct Received {
    tags: Vec<u8>,
    position: u64,
}

/// Does these steps and stops.
fn pump(ring: Ring<'static>, steps: &[Step]) -> Received {
    let mut consumer = ring.consumer().unwrap();
    let mut received = Received::default();
    let mut batch = Vec::new();
    for step in steps {
        match step {
            Step::Read => batch.extend(read(&mut consumer)),
            // Events and position travel together, and count when all of it has arrived.
            Step::Send => {
                received.tags.append(&mut batch);
                received.position = consumer.position();
            }
            Step::Free => {
                consumer.free(consumer.position());
            }
        }
    }
    received
}

/// What a reader gets who knows how far the server had come.
fn recover(ring: Ring<'static>, received: &Received) -> Vec<u8> {
    let mut consumer = ring.consumer().unwrap();
    let known = received.position.saturating_sub(consumer.position());
    let left = read(&mut consumer).into_iter();
    left.skip(usize::try_from(known).unwrap()).collect()
}

/// A producer that dies while it writes its event after so many, and a pump that does these steps;
/// gives how many events the server had been sent.
fn die(events: u8, steps: &'static [Step]) -> BTreeSet<usize> {
    // Many deaths, each with all its interleavings: bounded to two forced switches.
    outcomes(Some(2), move || {
        let ring = ring(4);
        let names = Names::new::<32>();
        let producer = ring.claim().unwrap();
        let producing = {
            let names = Arc::clone(&names);
            thread::spawn(move || {
                for event in 0..events {
                    // Two events share a name: the second finds it without the lock.
                    let id = names.text(event / 2);
                    push(&producer, 0, u8::try_from(id).unwrap() * 10 + event);
                }
                producer.die_in_push(&filled(0, 99));
            })
        };
        let pumping = thread::spawn(move || pump(ring, steps));
        producing.join().unwrap();
        let received = pumping.join().unwrap();
        let mut all = received.tags.clone();
        all.extend(recover(ring, &received));
        let right: Vec<u8> = (0..events)
            .map(|event| (event / 2 + 1) * 10 + event)
            .collect();
        assert_eq!(all, right, "lost or twice");
        let defined = names.defined();
        assert!(all.iter().all(|tag| defined.contains(&u32::from(tag / 10))));
        received.tags.len()
    })
}

#[test]
fn what_was_sent_and_what_is_recovered_are_everything_once() {
    for events in 0..=3 {
        for done in 0..=SENT_BEFORE_FREED.len() {
            let sent = die(events, &SENT_BEFORE_FREED[..done]);
            let most = if done < 2 { 0 } else { usize::from(events) };
            assert_eq!(sent, (0..=most).collect());
        }
    }
}

#[test]
#[should_panic(expected = "lost or twice")]
fn giving_back_before_sending_loses_events() {
    die(2, &FREED_BEFORE_SENT[..2]);
}
