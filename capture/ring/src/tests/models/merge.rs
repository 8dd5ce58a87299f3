//! Merging rings by time stamp: what depends on a finished call never comes before it.
//!
//! The processor's counter is a word that every stamp raises. The orderings of
//! the accesses to it say no more than the instructions do: a stamp that waits
//! for earlier loads passes on what its thread has seen (release), but not what
//! the thread itself stored, which may still be on its way; so a thread that has
//! seen nothing stamps relaxed. A horizon that later loads wait for is an acquire.

use super::{filled, outcomes, push, ring, tag};
use crate::ring::{Consumer, Ring};
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use loom::sync::Arc;
use loom::thread;

/// Three threads: bounded to so many forced switches.
const PREEMPTIONS: Option<usize> = Some(2);

#[derive(Debug)]
struct Counter(AtomicU64);

impl Counter {
    fn new() -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(0)))
    }

    fn stamp(&self, ordering: Ordering) -> u64 {
        self.0.fetch_add(1, ordering) + 1
    }
}

/// The calls of the two threads.
const ALLOCATE: u8 = 1;
const FREE: u8 = 2;

/// When the second thread takes its stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stamp {
    /// After what it depends on was loaded.
    Ordered,
    /// Before: the processor did not wait for the load.
    Early,
}

/// When the consumer takes its horizon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Horizon {
    /// Before it looks at the heads.
    First,
    /// Before, but the processor does not wait with the loads of the heads.
    Unordered,
    /// After it has looked at the heads.
    Late,
    /// Never: whatever is there is taken.
    Never,
}

/// One round of the consumer: what it takes, in its order.
fn round(counter: &Counter, consumers: &mut [Consumer<'_>], horizon: Horizon) -> Vec<u8> {
    let early = match horizon {
        Horizon::First => Some(counter.0.load(Ordering::Acquire)),
        Horizon::Unordered => Some(counter.0.load(Ordering::Relaxed)),
        Horizon::Never => Some(u64::MAX),
        Horizon::Late => None,
    };
    for consumer in consumers.iter_mut() {
        consumer.look();
    }
    let horizon = early.unwrap_or_else(|| counter.0.load(Ordering::Acquire));
    let mut taken = Vec::new();
    loop {
        let next = consumers
            .iter_mut()
            .filter_map(|consumer| Some((consumer.peek_time()?, consumer)))
            .filter(|(time, _consumer)| *time <= horizon)
            .min_by_key(|(time, _consumer)| *time);
        let Some((_time, consumer)) = next else {
            return taken;
        };
        taken.extend(consumer.peek().as_ref().map(tag));
        consumer.advance();
    }
}

/// A consumer that does one round, and everything that is left when the others have ended.
fn consume(
    rings: [Ring<'static>; 2],
    counter: &Arc<Counter>,
    horizon: Horizon,
    producing: [thread::JoinHandle<()>; 2],
) -> [Vec<u8>; 2] {
    let consuming = {
        let counter = Arc::clone(counter);
        thread::spawn(move || {
            let mut consumers = rings.map(|ring| ring.consumer().unwrap());
            let taken = round(&counter, &mut consumers, horizon);
            (consumers, taken)
        })
    };
    for thread in producing {
        thread.join().unwrap();
    }
    let (mut consumers, taken) = consuming.join().unwrap();
    let rest = round(counter, &mut consumers, horizon);
    [taken, rest]
}

/// One thread allocates; another, if it sees that this call has returned, frees.
fn dependent_calls(stamp: Stamp, horizon: Horizon) -> Vec<[Vec<u8>; 2]> {
    let taken = outcomes(PREEMPTIONS, move || {
        let counter = Counter::new();
        let returned = Arc::new(AtomicU32::new(0));
        let rings = [ring(1), ring(1)];
        let [allocator, freer] = rings.map(|ring| ring.claim().unwrap());
        let allocating = {
            let (counter, returned) = (Arc::clone(&counter), Arc::clone(&returned));
            thread::spawn(move || {
                push(&allocator, counter.stamp(Ordering::Relaxed), ALLOCATE);
                returned.store(1, Ordering::Release);
            })
        };
        let freeing = {
            let counter = Arc::clone(&counter);
            thread::spawn(move || {
                let early = (stamp == Stamp::Early).then(|| counter.stamp(Ordering::Relaxed));
                if returned.load(Ordering::Acquire) == 1 {
                    let ordered = || counter.stamp(Ordering::Release);
                    push(&freer, early.unwrap_or_else(ordered), FREE);
                }
            })
        };
        let taken = consume(rings, &counter, horizon, [allocating, freeing]);
        let right: [&[u8]; 2] = [&[ALLOCATE], &[ALLOCATE, FREE]];
        assert!(
            right.contains(&taken.concat().as_slice()),
            "out of order: {taken:?}"
        );
        taken
    });
    taken.into_iter().collect()
}

#[test]
fn what_depends_on_a_finished_call_comes_after_it() {
    let none = Vec::new;
    let came = [
        [none(), vec![ALLOCATE]],
        [none(), vec![ALLOCATE, FREE]],
        [vec![ALLOCATE], none()],
        [vec![ALLOCATE], vec![FREE]],
        [vec![ALLOCATE, FREE], none()],
    ];
    assert_eq!(dependent_calls(Stamp::Ordered, Horizon::First), came);
}

#[test]
#[should_panic(expected = "out of order")]
fn without_a_horizon_the_order_breaks() {
    dependent_calls(Stamp::Ordered, Horizon::Never);
}

#[test]
#[should_panic(expected = "out of order")]
fn a_horizon_taken_after_the_heads_is_none() {
    dependent_calls(Stamp::Ordered, Horizon::Late);
}

#[test]
#[should_panic(expected = "out of order")]
fn a_horizon_that_loads_do_not_wait_for_is_none() {
    dependent_calls(Stamp::Ordered, Horizon::Unordered);
}

#[test]
#[should_panic(expected = "out of order")]
fn a_stamp_taken_before_the_load_breaks_the_order() {
    dependent_calls(Stamp::Early, Horizon::First);
}

#[test]
fn a_producer_that_stops_in_the_middle_of_a_call_holds_up_nobody() {
    let taken = outcomes(PREEMPTIONS, || {
        let counter = Counter::new();
        let rings = [ring(2), ring(2)];
        let [stopper, other] = rings.map(|ring| ring.claim().unwrap());
        let stopping = {
            let counter = Arc::clone(&counter);
            thread::spawn(move || {
                push(&stopper, counter.stamp(Ordering::Relaxed), 1);
                let time = counter.stamp(Ordering::Relaxed);
                stopper.die_in_push(&filled(time, 2));
            })
        };
        let going_on = {
            let counter = Arc::clone(&counter);
            thread::spawn(move || {
                for tag in [10, 11] {
                    push(&other, counter.stamp(Ordering::Relaxed), tag);
                }
            })
        };
        let taken = consume(rings, &counter, Horizon::First, [stopping, going_on]);
        let all = taken.concat();
        let (of_other, of_stopper): (Vec<u8>, Vec<u8>) = all.iter().partition(|tag| **tag >= 10);
        assert_eq!(of_other, [10, 11]);
        assert_eq!(of_stopper, [1]);
        taken[0].len()
    });
    assert_eq!(taken, [0, 1, 2, 3].into());
}
