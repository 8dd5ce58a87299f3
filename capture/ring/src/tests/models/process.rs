//! What the threads of a process agree on: who does the work, and what the pump is asked for.

use super::{ALL, outcomes, push, read, ring};
use crate::flush::{Doorbell, Flush};
use crate::page::{FIRST_GENERATION, Page, Rival};
use crate::published::Published;
use crate::sync::{AtomicU32, Ordering, UnsafeCell, fence};
use loom::sync::{Arc, Mutex};
use loom::thread;

/// Something that is complete before it is published: the checker reports a read that races.
#[derive(Debug)]
struct Complete(UnsafeCell<u32>);

// SAFETY: what the models below are about; the checker reports an access that races.
#[expect(unsafe_code, reason = "shares what a reference makes known")]
unsafe impl Sync for Complete {}

impl Complete {
    fn leak() -> &'static Self {
        let complete = Box::leak(Box::new(Self(UnsafeCell::new(0))));
        complete.0.with_mut(|value| {
            // SAFETY: nobody else has it yet.
            #[expect(unsafe_code, reason = "completes it")]
            unsafe {
                *value = 7;
            }
        });
        complete
    }

    fn read(&self) -> u32 {
        self.0.with(|value| {
            // SAFETY: the checker panics before a pointer that races is handed out.
            #[expect(unsafe_code, reason = "reads what was published")]
            unsafe {
                *value
            }
        })
    }
}

#[test]
fn who_sees_a_reference_sees_what_it_refers_to() {
    let seen = outcomes(ALL, || {
        let published = Arc::new(Published::unset());
        let setting = {
            let published = Arc::clone(&published);
            thread::spawn(move || published.set(Complete::leak()))
        };
        let getting = thread::spawn(move || published.get().map(Complete::read));
        setting.join().unwrap();
        getting.join().unwrap()
    });
    assert_eq!(seen, [None, Some(7)].into());
}

/// Two threads start a client, and a third looks at the word in that way.
fn decide(look: fn(&Page<Complete>) -> u32) -> Vec<bool> {
    let seen = outcomes(ALL, move || {
        let page = Arc::new(Page::undecided());
        let starting = [0, 1].map(|_thread| {
            let page = Arc::clone(&page);
            thread::spawn(move || {
                let begun = page.begin_start();
                if begun {
                    page.set_client(Complete::leak());
                    page.decide(FIRST_GENERATION);
                }
                begun
            })
        });
        let looking = thread::spawn(move || {
            let decided = look(&page) == FIRST_GENERATION;
            if decided {
                let client = page.client().expect("decided without a client");
                assert_eq!(client.read(), 7);
            }
            decided
        });
        let started = starting.map(|thread| thread.join().unwrap());
        assert!(started[0] != started[1], "one of the two starts it");
        looking.join().unwrap()
    });
    seen.into_iter().collect()
}

#[test]
fn who_sees_the_decision_sees_the_client() {
    assert_eq!(decide(Page::settled_word), [false, true]);
}

#[test]
#[should_panic(expected = "decided without a client")]
fn the_word_of_the_record_path_is_not_enough_to_use_the_client() {
    decide(Page::word);
}

/// How a copy of the library goes on after it looked at the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Start {
    Leads,
    Forwards,
    /// Looks again until the other has withdrawn or leads.
    Waits,
    Withdraws,
}

/// Two copies of the library, each with a page of its own, start at the same time; `claim` is how
/// they say so. The first goes first.
fn start_both(claim: fn(&Page<Complete>)) -> Vec<[Start; 2]> {
    let seen = outcomes(ALL, move || {
        let pages = [0, 1].map(|_copy| Arc::new(Page::undecided()));
        let starting = [0, 1].map(|copy| {
            let (own, other) = (Arc::clone(&pages[copy]), Arc::clone(&pages[1 - copy]));
            thread::spawn(move || {
                claim(&own);
                match other.as_rival() {
                    Rival::Leader => Start::Forwards,
                    Rival::Candidate if copy == 0 => Start::Waits,
                    Rival::Candidate => {
                        own.withdraw();
                        Start::Withdraws
                    }
                    Rival::None => {
                        own.lead();
                        Start::Leads
                    }
                }
            })
        });
        let started = starting.map(|thread| thread.join().unwrap());
        assert_ne!(started, [Start::Leads; 2], "both lead");
        started
    });
    seen.into_iter().collect()
}

#[test]
fn of_two_copies_that_start_at_once_at_most_one_leads() {
    use Start::{Forwards, Leads, Waits, Withdraws};
    assert_eq!(
        start_both(Page::claim),
        [
            [Leads, Forwards],
            [Leads, Withdraws],
            [Forwards, Leads],
            [Waits, Leads],
            [Waits, Withdraws],
        ]
    );
}

#[test]
#[should_panic(expected = "both lead")]
fn a_claim_without_its_fence_may_be_overlooked() {
    start_both(Page::claim_unfenced);
}

/// In which order the pump looks.
#[derive(Clone, Copy, Debug)]
enum Order {
    RequestsFirst,
    RingsFirst,
}

#[test]
fn who_sees_a_flush_done_sees_its_figures() {
    let seen = outcomes(ALL, || {
        let (flush, figures) = (Arc::new(Flush::default()), Arc::new(AtomicU32::new(0)));
        let number = flush.request();
        let pump = {
            let (flush, figures) = (Arc::clone(&flush), Arc::clone(&figures));
            thread::spawn(move || {
                figures.store(1, Ordering::Relaxed);
                flush.complete(number, false);
            })
        };
        let is_done = flush.progress().has_done(number);
        let figure = figures.load(Ordering::Relaxed);
        pump.join().unwrap();
        is_done.then_some(figure)
    });
    assert_eq!(seen, [None, Some(1)].into());
}

/// A thread records and asks for a flush with which the pump is to end; gives whether the pump saw
/// the request, and how many events.
fn flush(order: Order) -> Vec<(bool, usize)> {
    let seen = outcomes(ALL, move || {
        let flush = Arc::new(Flush::default());
        let ring = ring(1);
        let producer = ring.claim().unwrap();
        let recording = {
            let flush = Arc::clone(&flush);
            thread::spawn(move || {
                push(&producer, 0, 1);
                flush.request_close()
            })
        };
        let pumping = {
            let flush = Arc::clone(&flush);
            thread::spawn(move || {
                let early = match order {
                    Order::RequestsFirst => None,
                    Order::RingsFirst => Some(read(&mut ring.consumer().unwrap())),
                };
                let requested = flush.requested();
                let seen = early.unwrap_or_else(|| read(&mut ring.consumer().unwrap()));
                if requested == 1 {
                    assert_eq!(seen, [1], "an event is missing");
                    assert!(flush.is_last(requested), "the end is missing");
                    flush.complete(requested, true);
                }
                (requested == 1, seen.len())
            })
        };
        let number = recording.join().unwrap();
        let seen = pumping.join().unwrap();
        let progress = flush.progress();
        assert_eq!(
            (progress.has_done(number), progress.has_ended()),
            (seen.0, seen.0)
        );
        seen
    });
    seen.into_iter().collect()
}

#[test]
fn a_flush_is_for_every_event_recorded_before_it() {
    assert_eq!(
        flush(Order::RequestsFirst),
        [(false, 0), (false, 1), (true, 1)]
    );
}

#[test]
#[should_panic(expected = "an event is missing")]
fn rings_read_before_the_requests_may_be_too_old() {
    flush(Order::RingsFirst);
}

/// A caller stores what it wants and rings; the pump reads the count in that way, looks, and
/// sleeps unless the count has changed. Gives whether the pump saw it at once.
fn ring_for(read: fn(&Doorbell) -> u32) -> Vec<bool> {
    let seen = outcomes(ALL, move || {
        let doorbell = Arc::new(Doorbell::default());
        let wanted = Arc::new(AtomicU32::new(0));
        // The kernel looks at the word and puts a thread to sleep in one step.
        let asleep = Arc::new(Mutex::new(false));
        let ringing = {
            let (doorbell, wanted) = (Arc::clone(&doorbell), Arc::clone(&wanted));
            let asleep = Arc::clone(&asleep);
            thread::spawn(move || {
                wanted.store(1, Ordering::Relaxed);
                doorbell.ring();
                *asleep.lock().unwrap() = false;
            })
        };
        let pumping = {
            let (doorbell, asleep) = (Arc::clone(&doorbell), Arc::clone(&asleep));
            thread::spawn(move || {
                let count = read(&doorbell);
                let seen = wanted.load(Ordering::Relaxed) == 1;
                let mut asleep = asleep.lock().unwrap();
                *asleep = doorbell.count() == count;
                seen
            })
        };
        ringing.join().unwrap();
        let seen = pumping.join().unwrap();
        assert!(seen || !*asleep.lock().unwrap(), "sleeps through it");
        seen
    });
    seen.into_iter().collect()
}

#[test]
fn the_pump_does_not_sleep_through_a_ring() {
    assert_eq!(ring_for(Doorbell::read), [false, true]);
}

#[test]
#[should_panic(expected = "sleeps through it")]
fn a_count_read_relaxed_may_be_newer_than_what_it_stands_for() {
    ring_for(Doorbell::count);
}

/// What the pump does between saying that it sleeps and its last look at the rings.
#[derive(Clone, Copy, Debug)]
enum Barrier {
    /// Has every thread pass a fence, as the system call does.
    Membarrier,
    Missing,
}

/// How often two threads woke the pump, and whether it slept in the end.
type Woken = (usize, bool);

/// Two threads record one event each while the pump goes to sleep.
fn sleep(barrier: Barrier) -> Vec<Woken> {
    let seen = outcomes(Some(3), move || {
        let page = Arc::new(Page::<Complete>::undecided());
        let doorbell = Arc::new(Doorbell::default());
        // The kernel looks at the word and puts a thread to sleep in one step.
        let asleep = Arc::new(Mutex::new(false));
        let rings = [ring(1), ring(1)];
        let recording = rings.map(|ring| {
            let producer = ring.claim().unwrap();
            let (page, doorbell) = (Arc::clone(&page), Arc::clone(&doorbell));
            let asleep = Arc::clone(&asleep);
            thread::spawn(move || {
                push(&producer, 0, 1);
                let wakes = page.must_wake_pump() && page.take_sleeper();
                if wakes {
                    doorbell.ring();
                    *asleep.lock().unwrap() = false;
                }
                wakes
            })
        });
        let pumping = {
            let (doorbell, asleep) = (Arc::clone(&doorbell), Arc::clone(&asleep));
            thread::spawn(move || {
                let mut consumers = rings.map(|ring| ring.consumer().unwrap());
                page.announce_sleep();
                match barrier {
                    Barrier::Membarrier => fence(Ordering::SeqCst),
                    Barrier::Missing => {}
                }
                let count = doorbell.read();
                let seen: usize = consumers.iter_mut().map(|ring| read(ring).len()).sum();
                let mut asleep = asleep.lock().unwrap();
                *asleep = seen == 0 && page.is_pump_asleep() && doorbell.count() == count;
                seen
            })
        };
        let woken = recording.map(|thread| thread.join().unwrap());
        let seen = pumping.join().unwrap();
        let slept = *asleep.lock().unwrap();
        assert!(!slept, "sleeps through {} events", 2 - seen);
        (woken.iter().filter(|woke| **woke).count(), seen == 0)
    });
    seen.into_iter().collect()
}

#[test]
fn an_idle_pump_is_woken_once_by_the_first_event() {
    assert_eq!(
        sleep(Barrier::Membarrier),
        [(0, false), (1, false), (1, true)]
    );
}

#[test]
#[should_panic(expected = "sleeps through")]
fn without_the_barrier_a_pump_may_sleep_through_an_event() {
    sleep(Barrier::Missing);
}
