//! Segments that are added while threads look for rings, and rings that lose their memory.

use super::{ALL, outcomes, read, ring, try_push};
use crate::registry::Registry;
use crate::ring::{Consumer, Producer, Ring};
use crate::sync::UnsafeCell;
use loom::sync::{Arc, Mutex};
use loom::thread;

/// The memory of a ring's slots, or none.
#[derive(Debug)]
struct Pages(UnsafeCell<bool>);

// SAFETY: what the models below are about; the checker reports an access that races.
#[expect(unsafe_code, reason = "shared as the slots are")]
unsafe impl Sync for Pages {}

impl Pages {
    fn are_there(&self) -> bool {
        self.0.with(|there| {
            // SAFETY: the checker panics before a pointer that races is handed out.
            #[expect(unsafe_code, reason = "uses the memory as a push does")]
            unsafe {
                *there
            }
        })
    }

    fn set(&self, are_there: bool) {
        self.0.with_mut(|there| {
            // SAFETY: the checker panics before a pointer that races is handed out.
            #[expect(unsafe_code, reason = "changes the memory as the system does")]
            unsafe {
                *there = are_there;
            }
        });
    }
}

/// How a thread came to its ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Claimed {
    WithMemory,
    Empty,
    Not,
}

/// Claims a ring, allocates what it lacks, records an event, and ends.
fn record_and_end(ring: Ring<'static>, pages: &Pages, tag: u8) -> Claimed {
    let record = |producer: &Producer<'static>| {
        assert!(pages.are_there(), "written to memory that is gone");
        assert!(try_push(producer, 0, tag), "no room");
        producer.release();
    };
    if let Some(producer) = ring.claim() {
        record(&producer);
        return Claimed::WithMemory;
    }
    if let Some(producer) = ring.claim_empty() {
        assert!(!pages.are_there());
        pages.set(true);
        record(&producer);
        return Claimed::Empty;
    }
    Claimed::Not
}

/// A thread that comes while the memory of its ring is given back, in this way.
fn give_back(give_back: fn(&mut Consumer<'static>, &Pages) -> bool) -> Vec<(Claimed, bool)> {
    let outcomes = outcomes(ALL, move || {
        let ring = ring(2);
        let pages = Arc::new(Pages(UnsafeCell::new(true)));
        let recording = {
            let pages = Arc::clone(&pages);
            thread::spawn(move || record_and_end(ring, &pages, 1))
        };
        let pumping = {
            let pages = Arc::clone(&pages);
            thread::spawn(move || {
                let mut consumer = ring.consumer().unwrap();
                let mut seen = read(&mut consumer);
                consumer.free(consumer.position());
                let given_back = give_back(&mut consumer, &pages);
                seen.extend(read(&mut consumer));
                (consumer, seen, given_back)
            })
        };
        let claimed = recording.join().unwrap();
        let (mut consumer, mut seen, given_back) = pumping.join().unwrap();
        seen.extend(read(&mut consumer));
        let recorded = usize::from(claimed != Claimed::Not);
        assert_eq!(seen, vec![1; recorded], "lost or twice");
        // Whoever comes next has memory, or knows that it has not.
        consumer.free(consumer.position());
        assert_ne!(record_and_end(ring, &pages, 2), Claimed::Not);
        (claimed, given_back)
    });
    outcomes.into_iter().collect()
}

#[test]
fn memory_is_given_back_while_nobody_uses_it_and_allocated_before_the_next_use() {
    let seen = give_back(|consumer, pages| {
        consumer.give_back(|| {
            pages.set(false);
            true
        })
    });
    assert_eq!(
        seen,
        [
            // Before the thread came: it found that it had to allocate; or after it had left.
            (Claimed::WithMemory, false),
            (Claimed::WithMemory, true),
            (Claimed::Empty, true),
            // In the middle of it: it takes another ring.
            (Claimed::Not, true),
        ]
    );
}

#[test]
fn a_system_that_refuses_leaves_a_ring_as_it_was() {
    let seen = give_back(|consumer, _pages| consumer.give_back(|| false));
    assert_eq!(seen, [(Claimed::WithMemory, false), (Claimed::Not, false)]);
}

#[test]
#[should_panic]
fn giving_back_what_only_seems_free_takes_memory_from_a_thread() {
    give_back(|consumer, pages| {
        let is_free = consumer.ring().is_free() && consumer.used_slots() == 0;
        if is_free {
            pages.set(false);
        }
        is_free
    });
}

/// How a thread came to its segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Found {
    There,
    Added,
    /// Another thread was adding one.
    Waited,
}

/// The kernel's waiting on the word of attempts; as of a producer that waits for room.
#[derive(Debug, Default)]
struct Sleep {
    asleep: bool,
    woken: bool,
}

/// Finds a segment or adds one; whoever would have to sleep says so and ends.
fn find_or_add(registry: &Registry<u8>, futex: &Mutex<Sleep>) -> Found {
    let attempts = registry.attempts();
    if registry.segments().next().is_some() {
        return Found::There;
    }
    // Twice: an attempt that fails leaves the other thread what it has.
    let growing = registry.begin_growing();
    let Some(growing) = growing.or_else(|| registry.begin_growing()) else {
        let mut sleep = futex.lock().unwrap();
        sleep.asleep = registry.attempts() == attempts;
        return Found::Waited;
    };
    let is_first = growing.next_number() == 0;
    if is_first {
        assert!(growing.add(&7));
    }
    drop(growing);
    let mut sleep = futex.lock().unwrap();
    sleep.woken |= sleep.asleep;
    if is_first { Found::Added } else { Found::There }
}

#[test]
fn two_threads_that_need_a_segment_add_one_and_neither_is_left_waiting() {
    let seen = outcomes(ALL, || {
        let registry = Arc::new(Registry::default());
        let futex = Arc::new(Mutex::new(Sleep::default()));
        let threads = [0, 1].map(|_thread| {
            let (registry, futex) = (Arc::clone(&registry), Arc::clone(&futex));
            thread::spawn(move || find_or_add(&registry, &futex))
        });
        let mut found = threads.map(|thread| thread.join().unwrap());
        let sleep = futex.lock().unwrap();
        assert_eq!(sleep.asleep, sleep.woken, "sleeps for ever");
        let segments: Vec<u8> = registry.segments().copied().collect();
        assert_eq!(segments, [7]);
        // Whoever was woken, or did not fall asleep, looks again.
        assert!(registry.begin_growing().is_some(), "growing for ever");
        found.sort_unstable();
        found
    });
    assert_eq!(
        seen,
        [[Found::There, Found::Added], [Found::Added, Found::Waited]].into()
    );
}
