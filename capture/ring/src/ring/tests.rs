//! A ring against a queue, step by step, and both ends at full speed.

use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;
use ttmem_event::event::TIME_AT;

/// What can be done to a ring, by either end.
#[derive(Clone, Debug)]
enum Step {
    Claim,
    Release,
    MoveProducer,
    LookForRoom,
    Push(u8),
    PushTogether([u8; 3]),
    Look,
    Advance,
    /// To a position this far from the tail, also one that makes no sense.
    Free(i8),
    Wait,
    Wake,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => Just(Step::Claim),
        1 => Just(Step::Release),
        1 => Just(Step::MoveProducer),
        4 => Just(Step::LookForRoom),
        8 => any::<u8>().prop_map(Step::Push),
        2 => any::<[u8; 3]>().prop_map(Step::PushTogether),
        4 => Just(Step::Look),
        6 => Just(Step::Advance),
        4 => (-3..12_i8).prop_map(Step::Free),
        1 => Just(Step::Wait),
        1 => Just(Step::Wake),
    ]
}

/// What a ring should be: a queue, and what each end knows of it.
#[derive(Debug, Default)]
struct Model {
    capacity: usize,
    tail: u64,
    /// Published and not given back.
    queue: VecDeque<u8>,
    /// How many of them the consumer knows of, and has read.
    looked: usize,
    read: usize,
    /// How many more the producer knows to fit.
    room: usize,
    is_owned: bool,
    waits: bool,
}

impl Model {
    fn look_for_room(&mut self) -> bool {
        if self.is_owned {
            self.room = self.capacity - self.queue.len();
        }
        self.is_owned && self.room > 0
    }

    fn free(&mut self, position: u64) {
        let count = position.saturating_sub(self.tail).min(self.read as u64);
        self.tail += count;
        for _slot in 0..count {
            self.queue.pop_front();
            self.looked -= 1;
            self.read -= 1;
        }
    }
}

fn record(tag: u8) -> [u8; EVENT_BYTES] {
    let mut record = [tag; EVENT_BYTES];
    record[TIME_AT..TIME_AT + 8].copy_from_slice(&(u64::from(tag) << 40).to_le_bytes());
    record
}

proptest! {
    #[test]
    fn a_ring_is_a_queue(bits in 0..4_u32, steps in prop::collection::vec(step(), 0..200)) {
        let capacity = 1 << bits;
        let control = RingControl::new();
        let slots: Vec<Slot> = (0..capacity).map(|_slot| Slot::new()).collect();
        let ring = Ring::new(&control, &slots).unwrap();
        let mut producer = Producer::vacant();
        let mut consumer = ring.consumer().unwrap();
        let mut model = Model { capacity, ..Model::default() };
        for step in steps {
            match step {
                Step::Claim => {
                    let claimed = ring.claim();
                    prop_assert_eq!(claimed.is_some(), !model.is_owned);
                    if let Some(claimed) = claimed {
                        producer = claimed;
                        model.is_owned = true;
                        model.room = 0;
                    }
                }
                Step::Release => {
                    producer.release();
                    model.is_owned = false;
                    model.room = 0;
                }
                Step::MoveProducer => {
                    let other = Producer::vacant();
                    other.become_owner(&producer);
                    let pushed = producer.push(&[0; EVENT_BYTES]);
                    prop_assert!(!pushed, "it has no ring any more");
                    producer = other;
                }
                Step::LookForRoom => {
                    prop_assert_eq!(producer.look_for_room(), model.look_for_room());
                }
                Step::Push(tag) => {
                    let fits = model.is_owned && model.room > 0;
                    prop_assert_eq!(producer.push(&record(tag)), fits);
                    if fits {
                        model.queue.push_back(tag);
                        model.room -= 1;
                    }
                }
                Step::PushTogether(tags) => {
                    let fit = model.is_owned && model.room >= tags.len();
                    prop_assert_eq!(producer.push_together(&tags.map(record)), fit);
                    if fit {
                        model.queue.extend(tags);
                        model.room -= tags.len();
                    }
                }
                Step::Look => {
                    consumer.look();
                    model.looked = model.queue.len();
                }
                Step::Advance => {
                    consumer.advance();
                    model.read = model.looked.min(model.read + 1);
                }
                Step::Free(offset) => {
                    let position = model.tail.saturating_add_signed(offset.into());
                    consumer.free(position);
                    model.free(position);
                }
                Step::Wait => {
                    let announced = model.is_owned && !model.look_for_room();
                    prop_assert_eq!(producer.announce_waiting(), announced);
                    model.waits |= model.is_owned;
                }
                Step::Wake => {
                    prop_assert_eq!(consumer.take_waiter(), model.waits);
                    model.waits = false;
                }
            }
            prop_assert_eq!(ring.is_taken(), model.is_owned);
            prop_assert_eq!(consumer.position(), model.tail + model.read as u64);
            prop_assert_eq!(consumer.available(), (model.looked - model.read) as u64);
            prop_assert_eq!(consumer.used_slots(), model.looked as u64);
            let next = (model.read < model.looked).then(|| model.queue[model.read]);
            prop_assert_eq!(consumer.peek(), next.map(record));
            prop_assert_eq!(consumer.peek_time(), next.map(|tag| u64::from(tag) << 40));
        }
    }
}

#[test]
fn the_number_of_slots_is_a_power_of_two() {
    let control = RingControl::new();
    let slots: Vec<Slot> = (0..8).map(|_slot| Slot::new()).collect();
    let fits = |count: usize| Ring::new(&control, &slots[..count]).is_some();
    let powers: Vec<usize> = (0..=8).filter(|count| fits(*count)).collect();
    assert_eq!(powers, [1, 2, 4, 8]);
}

#[test]
fn what_could_not_be_recorded_is_counted_by_anybody() {
    let control = RingControl::new();
    let slots = [Slot::new()];
    let ring = Ring::new(&control, &slots).unwrap();
    std::thread::scope(|scope| {
        for _thread in 0..2 {
            scope.spawn(|| (0..1000).for_each(|_event| ring.count_lost()));
        }
    });
    assert_eq!(ring.lost(), 2000);
}

#[test]
fn a_producer_and_a_consumer_at_full_speed_agree() {
    const EVENTS: u64 = 200_000;
    let control = RingControl::new();
    let slots: Vec<Slot> = (0..64).map(|_slot| Slot::new()).collect();
    let ring = Ring::new(&control, &slots).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let producer = ring.claim().unwrap();
            for event in 0..EVENTS {
                let [low, ..] = event.to_le_bytes();
                let mut record = [low; EVENT_BYTES];
                record[TIME_AT..TIME_AT + 8].copy_from_slice(&event.to_le_bytes());
                while !producer.push(&record) {
                    if !producer.look_for_room() {
                        std::thread::yield_now();
                    }
                }
            }
        });
        let mut consumer = ring.consumer().unwrap();
        while consumer.position() < EVENTS {
            consumer.look();
            if consumer.available() == 0 {
                std::thread::yield_now();
            }
            while let Some(time) = consumer.peek_time() {
                assert_eq!(time, consumer.position());
                let [low, ..] = time.to_le_bytes();
                let record = consumer.peek().unwrap();
                assert!(record[TIME_AT + 8..].iter().all(|byte| *byte == low));
                consumer.advance();
            }
            consumer.free(consumer.position());
        }
    });
}
