//! Slots, rings and waiting: what passes between producers and the consumer of a ring.

use super::{ALL, outcomes, push, read, ring, try_push};
use crate::ring::Consumer;
use crate::sync::Ordering;
use loom::sync::{Arc, Mutex};
use loom::thread;

#[test]
fn a_consumer_that_sees_the_head_sees_whole_records() {
    let seen_at_first = outcomes(ALL, || {
        let ring = ring(2);
        let producer = ring.claim().unwrap();
        let producing = thread::spawn(move || {
            push(&producer, 1, 1);
            push(&producer, 2, 2);
        });
        let consuming = thread::spawn(move || {
            let mut consumer = ring.consumer().unwrap();
            let mut seen = read(&mut consumer);
            let at_first = seen.len();
            seen.extend(read(&mut consumer));
            assert!([1, 2].starts_with(&seen), "{seen:?}");
            (consumer, seen, at_first)
        });
        producing.join().unwrap();
        let (mut consumer, mut seen, at_first) = consuming.join().unwrap();
        seen.extend(read(&mut consumer));
        assert_eq!(seen, [1, 2]);
        at_first
    });
    assert_eq!(seen_at_first, [0, 1, 2].into());
}

#[test]
fn a_slot_is_not_used_again_while_it_is_read() {
    let pushed = outcomes(ALL, || {
        let ring = ring(1);
        let producer = ring.claim().unwrap();
        let producing = thread::spawn(move || {
            let tags = [1, 2, 3].into_iter();
            tags.filter(|tag| try_push(&producer, 0, *tag))
                .collect::<Vec<u8>>()
        });
        let consuming = thread::spawn(move || {
            let mut consumer = ring.consumer().unwrap();
            let mut seen = Vec::new();
            for _round in 0..2 {
                seen.extend(read(&mut consumer));
                consumer.free(consumer.position());
            }
            (consumer, seen)
        });
        let pushed = producing.join().unwrap();
        let (mut consumer, mut seen) = consuming.join().unwrap();
        seen.extend(read(&mut consumer));
        assert_eq!(seen, pushed);
        pushed
    });
    // The slot was used once, again by the second event, by the third, and by all of them.
    assert_eq!(
        pushed,
        [vec![1], vec![1, 2], vec![1, 2, 3], vec![1, 3]].into()
    );
}

#[test]
fn what_is_read_and_kept_is_not_overwritten() {
    let seen_at_first = outcomes(ALL, || {
        let ring = ring(1);
        let producer = ring.claim().unwrap();
        let producing = thread::spawn(move || {
            push(&producer, 0, 1);
            // The consumer may have read the event; it has given nothing back.
            assert!(!try_push(&producer, 0, 2));
        });
        let consuming = thread::spawn(move || {
            let mut consumer = ring.consumer().unwrap();
            let seen = read(&mut consumer);
            (consumer, seen)
        });
        producing.join().unwrap();
        let (mut consumer, mut seen) = consuming.join().unwrap();
        let at_first = seen.len();
        seen.extend(read(&mut consumer));
        assert_eq!(seen, [1]);
        at_first
    });
    assert_eq!(seen_at_first, [0, 1].into());
}

#[test]
fn a_ring_that_was_given_up_is_gone_on_with() {
    let orders = outcomes(ALL, || {
        let ring = ring(2);
        let threads = [1, 2].map(|tag| {
            thread::spawn(move || {
                let producer = ring.claim()?;
                push(&producer, 0, tag);
                producer.release();
                Some(tag)
            })
        });
        let pushed = threads.map(|thread| thread.join().unwrap());
        let seen = read(&mut ring.consumer().unwrap());
        // Somebody always gets it, and nothing is overwritten.
        assert!(!ring.is_taken());
        let mut sorted = seen.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, pushed.into_iter().flatten().collect::<Vec<u8>>());
        seen
    });
    assert_eq!(orders, [vec![1], vec![2], vec![1, 2], vec![2, 1]].into());
}

#[test]
fn a_consumer_sees_nothing_of_a_change_of_owners() {
    let seen_at_first = outcomes(ALL, || {
        let ring = ring(2);
        let first = ring.claim().unwrap();
        let leaving = thread::spawn(move || {
            push(&first, 0, 1);
            first.release();
        });
        let coming = thread::spawn(move || {
            if let Some(second) = ring.claim() {
                push(&second, 0, 2);
            }
        });
        let consuming = thread::spawn(move || {
            let mut consumer = ring.consumer().unwrap();
            let seen = read(&mut consumer);
            assert!([1, 2].starts_with(&seen), "{seen:?}");
            (consumer, seen.len())
        });
        leaving.join().unwrap();
        coming.join().unwrap();
        let (mut consumer, at_first) = consuming.join().unwrap();
        read(&mut consumer);
        (at_first, consumer.position())
    });
    assert_eq!(
        seen_at_first,
        [(0, 1), (0, 2), (1, 1), (1, 2), (2, 2)].into()
    );
}

/// The kernel's waiting on a word: looking at it and falling asleep are one step.
///
/// A thread that falls asleep ends; the model goes on for it once it has been woken.
#[derive(Debug, Default)]
struct Sleep {
    asleep: bool,
    woken: bool,
}

/// How a waiting producer came to its room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Room {
    SeenInTime,
    SeenBeforeSleeping,
    Woken,
}

/// A producer that waits without end while its ring is full.
fn wait_for_room(take_waiter: fn(&mut Consumer<'_>) -> bool) -> Vec<Room> {
    let rooms = outcomes(ALL, move || {
        let ring = ring(1);
        let futex = Arc::new(Mutex::new(Sleep::default()));
        let producer = ring.claim().unwrap();
        push(&producer, 0, 1);
        let producing = {
            let futex = Arc::clone(&futex);
            thread::spawn(move || {
                let mut room = Room::SeenInTime;
                if !producer.look_for_room() && producer.announce_waiting() {
                    let mut sleep = futex.lock().unwrap();
                    sleep.asleep = ring.waiting().load(Ordering::Relaxed) == 1;
                    room = if sleep.asleep {
                        Room::Woken
                    } else {
                        Room::SeenBeforeSleeping
                    };
                }
                (producer, room)
            })
        };
        let consuming = {
            let futex = Arc::clone(&futex);
            thread::spawn(move || {
                let mut consumer = ring.consumer().unwrap();
                assert_eq!(read(&mut consumer), [1]);
                consumer.free(consumer.position());
                if take_waiter(&mut consumer) {
                    let mut sleep = futex.lock().unwrap();
                    sleep.woken = sleep.asleep;
                }
            })
        };
        let (producer, room) = producing.join().unwrap();
        consuming.join().unwrap();
        assert!(
            (room == Room::Woken) == futex.lock().unwrap().woken,
            "sleeps for ever"
        );
        push(&producer, 0, 2);
        room
    });
    rooms.into_iter().collect()
}

#[test]
fn a_producer_that_waits_for_room_is_woken() {
    let rooms = wait_for_room(|consumer| consumer.take_waiter());
    assert_eq!(
        rooms,
        [Room::SeenInTime, Room::SeenBeforeSleeping, Room::Woken]
    );
}

#[test]
#[should_panic(expected = "sleeps for ever")]
fn without_the_fence_a_waiting_producer_is_missed() {
    wait_for_room(|consumer| {
        let word = consumer.ring().waiting();
        let waits = word.load(Ordering::Relaxed) != 0;
        if waits {
            word.store(0, Ordering::Relaxed);
        }
        waits
    });
}
