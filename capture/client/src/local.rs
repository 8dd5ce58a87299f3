//! The record path: one event into the calling thread's ring.
//!
//! No lock, no allocation, no system call, no panic. Everything that is not
//! "there is room in my ring" is in functions marked cold: starting the client,
//! claiming a ring, waiting for room.

use crate::client::{Client, PAGE};
use crate::clock::Instant;
use crate::{clock, forward, host, start};
use std::cell::Cell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering, compiler_fence};
use std::time::Duration;
use ttmem_event::event::{EVENT_BYTES, TIME_AT};
use ttmem_event::{Event, EventKind};
use ttmem_ring::heap::Heap;
use ttmem_ring::page::{FIRST_GENERATION, FORWARDING, OFF, STARTING, UNDECIDED};
use ttmem_ring::ring::Producer;
use ttmem_ring::thread_exit::ThreadExit;

/// How long a thread does without a ring after it was refused one.
const REFUSED: Duration = Duration::from_secs(1);

/// What a thread knows of its tracking.
#[derive(Debug)]
struct Local {
    /// Which client the ring belongs to; after a fork it is another's.
    generation: Cell<u32>,
    /// Set while the thread is inside: a signal handler may interrupt it and come here too.
    inside: AtomicBool,
    /// Set when the thread is ending: it no longer keeps a ring.
    ending: Cell<bool>,
    producer: Producer<'static>,
    /// When it was last refused a ring, and by which client.
    refused: Cell<Option<(u32, Instant)>>,
    /// Set when it has waited in vain for room: it does not wait again before there is some.
    gave_up: Cell<bool>,
}

/// Gives the ring back when the thread ends.
static ENDING: ThreadExit = ThreadExit::new(end);

thread_local! {
    static LOCAL: Local = const {
        Local {
            generation: Cell::new(0),
            inside: AtomicBool::new(false),
            ending: Cell::new(false),
            producer: Producer::vacant(),
            refused: Cell::new(None),
            gave_up: Cell::new(false),
        }
    };
}

extern "C" fn end(_value: *mut c_void) {
    Heap::note_thread_end();
    LOCAL.with(|local| {
        local.ending.set(true);
        // In a child of a fork the ring is not there any more.
        if local.generation.replace(0) == PAGE.word() {
            local.producer.release();
        }
    });
}

/// What this thread knows, and whether its ring can be written to; `None` when tracking is off.
#[inline(always)]
fn current() -> Option<(&'static Local, bool)> {
    let word = PAGE.word();
    if word == OFF {
        return None;
    }
    let local = LOCAL.with(std::ptr::from_ref);
    // SAFETY: of this thread, which is here, and without a destructor: it outlives every call.
    #[expect(unsafe_code, reason = "a closure would keep the kind from being known")]
    let local = unsafe { &*local };
    let ready = local.generation.get() == word && !local.inside.load(Ordering::Relaxed);
    Some((local, ready))
}

/// Records an event.
///
/// Inlined for good: where the event is written down its kind is known, and writing it becomes a
/// row of stores instead of a choice between forty layouts.
#[inline(always)]
pub(crate) fn record(event: &EventKind) {
    let Some((local, ready)) = current() else {
        return;
    };
    if !(ready && local.push(event)) {
        let (time, kind) = (0, *event);
        record_slowly(local, &Event { time, kind }.encode());
    } else if PAGE.must_wake_pump() {
        wake_pump();
    }
}

/// Records several events of one moment: together if there is room for all, else one by one.
#[inline(always)]
pub(crate) fn record_together<const COUNT: usize>(all: &[EventKind; COUNT]) {
    let Some((local, ready)) = current() else {
        return;
    };
    if !(ready && local.push_together(all)) {
        record_one_by_one(local, all);
    } else if PAGE.must_wake_pump() {
        wake_pump();
    }
}

/// Wakes the pump, which sleeps because nothing was recorded for long.
#[cold]
#[inline(never)]
fn wake_pump() {
    if let Some(client) = PAGE.client() {
        client.wake_pump();
    }
}

#[cold]
#[inline(never)]
fn record_one_by_one(local: &Local, all: &[EventKind]) {
    for &kind in all {
        record_slowly(local, &Event { time: 0, kind }.encode());
    }
}

/// Records an event that another copy of this library encoded.
pub(crate) fn record_encoded(record: &[u8; EVENT_BYTES]) {
    if PAGE.word() != OFF {
        LOCAL.with(|local| record_slowly(local, record));
    }
}

impl Local {
    #[inline(always)]
    fn push(&self, event: &EventKind) -> bool {
        self.enter();
        let time = clock::ticks();
        let pushed = self.producer.push(&Event { time, kind: *event }.encode());
        self.leave();
        pushed
    }

    #[inline(always)]
    fn push_together<const COUNT: usize>(&self, all: &[EventKind; COUNT]) -> bool {
        self.enter();
        let time = clock::ticks();
        let records = all.map(|event| Event { time, kind: event }.encode());
        let pushed = self.producer.push_together(&records);
        self.leave();
        pushed
    }

    /// Pushes an encoded event; the caller has entered.
    fn put_encoded(&self, record: &[u8; EVENT_BYTES]) -> bool {
        let mut record = *record;
        record[TIME_AT..TIME_AT + 8].copy_from_slice(&clock::ticks().to_le_bytes());
        self.producer.push(&record)
    }

    // Only this thread and its own signal handlers look: keeping the compiler's order is enough.
    // The model checker knows no signals.
    #[inline]
    fn enter(&self) {
        self.inside.store(true, Ordering::Relaxed);
        // SYNC(signal): a handler that finds the ring half changed finds this set.
        compiler_fence(Ordering::SeqCst);
    }

    #[inline]
    fn leave(&self) {
        // SYNC(signal): a handler that does not find it set finds the ring as it should be.
        compiler_fence(Ordering::SeqCst);
        self.inside.store(false, Ordering::Relaxed);
    }
}

#[cold]
#[inline(never)]
fn record_slowly(local: &Local, record: &[u8; EVENT_BYTES]) {
    loop {
        match PAGE.settled_word() {
            OFF => return,
            UNDECIDED | STARTING => start::start(),
            FORWARDING => return forward::record(record),
            generation => {
                let Some(client) = PAGE.client() else {
                    return;
                };
                if client.generation == generation {
                    return record_with(client, local, record);
                }
            }
        }
    }
}

fn record_with(client: &'static Client, local: &Local, record: &[u8; EVENT_BYTES]) {
    if local.generation.get() == client.generation {
        if local.inside.load(Ordering::Relaxed) {
            // A signal handler in the middle of this thread's own event: nothing can be waited for.
            return client.count_lost_without_ring();
        }
    } else if !claim(client, local) {
        return client.count_lost_without_ring();
    }
    push_when_there_is_room(client, local, record);
    if local.ending.get() && local.generation.replace(0) >= FIRST_GENERATION {
        local.producer.release();
    }
}

/// Gets the thread a ring of this client; false when it has to do without.
fn claim(client: &'static Client, local: &Local) -> bool {
    let refused = local.refused.get();
    let refused = refused.filter(|(generation, _when)| *generation == client.generation);
    if refused.is_some_and(|(_generation, when)| when.elapsed() < REFUSED) {
        return false;
    }
    // It has waited for one before, if it was refused.
    let longest = refused.map_or(client.first_ring_wait(), |_refused| Duration::ZERO);
    // A handler in between would claim a second ring, or wait for its own thread; a thread that
    // ended here would leave others waiting.
    let _uninterrupted = host::SignalsBlocked::begin();
    let _uncancelled = host::Uncancelled::begin();
    if local.generation.get() == client.generation {
        // One that came just before has claimed a ring for this thread.
        return true;
    }
    local.inside.store(false, Ordering::Relaxed);
    let Some(producer) = client.claim_ring(longest) else {
        local.refused.set(Some((client.generation, Instant::now())));
        return false;
    };
    local.producer.become_owner(&producer);
    local.generation.set(client.generation);
    local.gave_up.set(false);
    if !local.ending.get() {
        // Where its end would go by unnoticed, it keeps no ring.
        local.ending.set(!ENDING.arm());
    }
    local.producer.look_for_room();
    true
}

fn push_when_there_is_room(client: &Client, local: &Local, record: &[u8; EVENT_BYTES]) {
    let Some(ring) = local.producer.ring() else {
        return client.count_lost_without_ring();
    };
    let producer = &local.producer;
    // From the first try to the last: a signal handler that pushed while this looks for room would
    // take the head beyond what is then thought to be free.
    local.enter();
    let has_room = || {
        producer.look_for_room() || (!local.gave_up.get() && client.wait_for_room(producer, &ring))
    };
    let pushed = local.put_encoded(record) || (has_room() && local.put_encoded(record));
    local.leave();
    local.gave_up.set(!pushed);
    if !pushed {
        ring.count_lost();
    }
    if PAGE.must_wake_pump() {
        client.wake_pump();
    }
}
