//! The ways of handing events over that are compared.

use super::clock::{Clock, CyclesAfterLoads};
use crossbeam_channel::{Receiver, Sender, TrySendError};
use std::marker::PhantomData;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use ttmem_event::event::{EVENT_BYTES, TIME_AT};
use ttmem_ring::ring::{Consumer, DEFAULT_SLOTS, Producer};
use ttmem_ring::segment::{RingSegment, Shape};

/// Producers at once, at the most.
pub(crate) const THREADS: usize = 2;

/// An event record, as words.
type Words = [u64; EVENT_BYTES / 8];

/// A way of handing events over.
pub(crate) trait Way: Send + Sync {
    type Sending<'w>: Send
    where
        Self: 'w;
    type Receiving<'w>: Send
    where
        Self: 'w;
    fn senders(&self) -> [Self::Sending<'_>; THREADS];
    fn receiver(&self) -> Self::Receiving<'_>;
    fn send(sender: &Self::Sending<'_>, value: u64);
    /// Takes all there is; says how many.
    fn take(receiver: &mut Self::Receiving<'_>) -> u64;
}

/// An event: a stamp, and something that differs from word to word.
#[inline]
fn event<C: Clock>(value: u64) -> Words {
    let mut words: Words = std::array::from_fn(|word| value.wrapping_add(word as u64));
    words[TIME_AT / 8] = C::now();
    words
}

/// A ring for each thread.
pub(crate) struct Rings<C> {
    segment: RingSegment,
    clock: PhantomData<C>,
}

impl<C> Rings<C> {
    pub(crate) fn new() -> Self {
        let shape = Shape::of(0, DEFAULT_SLOTS).expect("the first is there");
        Self {
            segment: RingSegment::create(shape).expect("there is room for one segment"),
            clock: PhantomData,
        }
    }
}

impl<C: Clock> Way for Rings<C> {
    type Sending<'w> = Producer<'static>;
    type Receiving<'w> = Vec<Consumer<'static>>;

    fn senders(&self) -> [Producer<'static>; THREADS] {
        let mut rings = self.segment.rings();
        std::array::from_fn(|_thread| {
            let producer = rings.next().and_then(|ring| ring.claim());
            producer.expect("a new segment has more rings")
        })
    }

    fn receiver(&self) -> Vec<Consumer<'static>> {
        let rings = self.segment.rings().take(THREADS);
        rings
            .map(|ring| ring.consumer().expect("nobody else reads it"))
            .collect()
    }

    #[inline]
    fn send(producer: &Producer<'static>, value: u64) {
        let push = || {
            let mut record = [0; EVENT_BYTES];
            let (bytes, _rest) = record.as_chunks_mut::<8>();
            for (bytes, word) in bytes.iter_mut().zip(event::<C>(value)) {
                *bytes = word.to_le_bytes();
            }
            producer.push(&record)
        };
        while !push() {
            producer.look_for_room();
        }
    }

    fn take(consumers: &mut Vec<Consumer<'static>>) -> u64 {
        let mut taken = 0;
        for consumer in consumers {
            consumer.look();
            while let Some(record) = consumer.peek() {
                std::hint::black_box(record);
                consumer.advance();
                taken += 1;
            }
            consumer.free(consumer.position());
        }
        taken
    }
}

/// One ring for all: a ticket for each event, and a sequence number in each slot.
pub(crate) struct Ticketed {
    ticket: Line<AtomicU64>,
    slots: Vec<TicketSlot>,
}

#[repr(align(128))]
struct Line<T>(T);

/// Atomic words, so that this file needs no unsafe code: relaxed ones cost what plain ones do.
#[repr(align(128))]
struct TicketSlot {
    /// The ticket that may write here, and one more when it has.
    sequence: AtomicU64,
    words: [AtomicU64; EVENT_BYTES / 8],
}

/// Slots of what all threads share: as many as they would have of their own.
const SHARED_SLOTS: u64 = (THREADS * DEFAULT_SLOTS) as u64;

impl Ticketed {
    pub(crate) fn new() -> Self {
        let slot = |sequence| TicketSlot {
            sequence: AtomicU64::new(sequence),
            words: [const { AtomicU64::new(0) }; EVENT_BYTES / 8],
        };
        Self {
            ticket: Line(AtomicU64::new(0)),
            slots: (0..SHARED_SLOTS).map(slot).collect(),
        }
    }

    #[inline]
    fn slot(&self, ticket: u64) -> &TicketSlot {
        &self.slots[usize::try_from(ticket % SHARED_SLOTS).unwrap_or(0)]
    }
}

impl Way for Ticketed {
    type Sending<'w> = &'w Self;
    type Receiving<'w> = (&'w Self, u64);

    fn senders(&self) -> [&Self; THREADS] {
        [self; THREADS]
    }

    fn receiver(&self) -> (&Self, u64) {
        (self, 0)
    }

    #[inline]
    fn send(ring: &&Self, value: u64) {
        let ticket = ring.ticket.0.fetch_add(1, Ordering::Relaxed);
        let slot = ring.slot(ticket);
        while slot.sequence.load(Ordering::Acquire) != ticket {
            std::hint::spin_loop();
        }
        for (word, value) in slot.words.iter().zip(event::<CyclesAfterLoads>(value)) {
            word.store(value, Ordering::Relaxed);
        }
        slot.sequence.store(ticket + 1, Ordering::Release);
    }

    fn take((ring, next): &mut (&Self, u64)) -> u64 {
        let first = *next;
        loop {
            let slot = ring.slot(*next);
            if slot.sequence.load(Ordering::Acquire) != *next + 1 {
                return *next - first;
            }
            for word in &slot.words {
                std::hint::black_box(word.load(Ordering::Relaxed));
            }
            slot.sequence.store(*next + SHARED_SLOTS, Ordering::Release);
            *next += 1;
        }
    }
}

/// A locked vector, exchanged for an empty one by the consumer.
pub(crate) struct Locked(Mutex<Vec<Words>>);

impl Locked {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Vec::with_capacity(THREADS * DEFAULT_SLOTS)))
    }
}

impl Way for Locked {
    type Sending<'w> = &'w Self;
    type Receiving<'w> = (&'w Self, Vec<Words>);

    fn senders(&self) -> [&Self; THREADS] {
        [self; THREADS]
    }

    fn receiver(&self) -> (&Self, Vec<Words>) {
        (self, Vec::with_capacity(THREADS * DEFAULT_SLOTS))
    }

    #[inline]
    fn send(locked: &&Self, value: u64) {
        let mut events = locked.0.lock().expect("nobody panics with it");
        events.push(event::<CyclesAfterLoads>(value));
    }

    fn take((locked, events): &mut (&Self, Vec<Words>)) -> u64 {
        std::mem::swap(
            events,
            &mut *locked.0.lock().expect("nobody panics with it"),
        );
        let taken = events.len() as u64;
        for event in events.drain(..) {
            std::hint::black_box(event);
        }
        taken
    }
}

pub(crate) struct Channel(Sender<Words>, Receiver<Words>);

impl Channel {
    pub(crate) fn new() -> Self {
        let (sender, receiver) = crossbeam_channel::bounded(THREADS * DEFAULT_SLOTS);
        Self(sender, receiver)
    }
}

impl Way for Channel {
    type Sending<'w> = &'w Sender<Words>;
    type Receiving<'w> = &'w Receiver<Words>;

    fn senders(&self) -> [&Sender<Words>; THREADS] {
        [&self.0; THREADS]
    }

    fn receiver(&self) -> &Receiver<Words> {
        &self.1
    }

    #[inline]
    fn send(sender: &&Sender<Words>, value: u64) {
        let mut event = event::<CyclesAfterLoads>(value);
        while let Err(TrySendError::Full(back)) = sender.try_send(event) {
            event = back;
        }
    }

    fn take(receiver: &mut &Receiver<Words>) -> u64 {
        receiver.try_iter().map(std::hint::black_box).count() as u64
    }
}
