//! The reading ends of all rings, merged by time stamp.
//!
//! The order matters where one event depends on another: a buffer is freed after
//! it was allocated, by whichever thread. An event depends only on calls that had
//! returned when its own began, so on events that were published, with an older
//! stamp. The horizon is read before the heads of the rings are: whatever is
//! stamped up to it and depends on something finds that in the rings, too. Later
//! ones wait for the next turn. A thread that is stopped inside a call holds up
//! nobody: nothing depends on its event yet.

use super::history::History;
use crate::client::Client;
use crate::clock::Instant;
use crate::{futex, host};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;
use ttmem_ring::ring::Consumer;
use ttmem_ring::segment::RingSegment;

/// A stamp this far beyond the horizon is no time of this clock: the machine was suspended or
/// moved. In ticks; some seconds for every counter there is.
const IMPLAUSIBLE_SKEW_TICKS: u64 = 1 << 34;

/// How long a ring that no thread owns keeps its memory, for the next thread to find.
const UNOWNED_GRACE: Duration = Duration::from_secs(1);

/// Rings whose memory is given back in one turn: some milliseconds.
const MAX_RINGS_FREED_PER_TURN: usize = 1024;

/// All rings of the process.
#[derive(Debug, Default)]
pub(super) struct Rings {
    readers: Vec<Reader>,
    segments: usize,
    lost: u64,
    /// The time of the next event of every ring that has one, while they are merged.
    next: BinaryHeap<Reverse<(u64, usize)>>,
    has_warned: bool,
}

/// The reading end of one ring.
#[derive(Debug)]
struct Reader {
    consumer: Consumer<'static>,
    segment: &'static RingSegment,
    /// Its number in the segment.
    ring: usize,
    /// Since when no thread owns it while it has memory to give back.
    unowned: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Merged {
    pub(super) events: u64,
    /// Whether everything up to the horizon was taken.
    pub(super) complete: bool,
}

impl Reader {
    /// When its next event comes among the others; `None` if it has none up to the horizon.
    fn next_time(&self, horizon: u64) -> Option<u64> {
        let time = self.consumer.peek_time()?;
        match time.checked_sub(horizon) {
            Some(1..IMPLAUSIBLE_SKEW_TICKS) => None,
            Some(IMPLAUSIBLE_SKEW_TICKS..) => Some(0),
            Some(0) | None => Some(time),
        }
    }

    /// Takes its next event, and those after it up to a time and about so many in all.
    fn take_until(&mut self, limit: u64, most: u64, ring: usize, history: &mut History) -> u64 {
        let mut events = 0;
        let ring = u16::try_from(ring).ok();
        while let Some(record) = self.consumer.peek() {
            history.push(&record, ring);
            self.consumer.advance();
            events += 1;
            let next = self.consumer.peek_time();
            if events >= most || next.is_none_or(|time| time > limit) {
                break;
            }
        }
        events
    }

    /// Frees the slots whose events are sent, and unsent ones too if the ring is over half full.
    fn free(&mut self, delivered: u64, now: Instant) {
        let consumer = &mut self.consumer;
        let crowded = consumer.used_slots() > consumer.ring().capacity() / 2;
        if !consumer.ring().is_free() {
            self.unowned = None;
        } else if self.segment.gives_back() {
            self.unowned.get_or_insert(now);
        }
        let until = if crowded || self.is_due(now) {
            self.consumer.position()
        } else {
            delivered
        };
        let consumer = &mut self.consumer;
        if consumer.free(until) && consumer.take_waiter() {
            futex::wake_all(consumer.ring().waiting());
        }
    }

    /// Whether its memory has waited long enough for another thread.
    fn is_due(&self, now: Instant) -> bool {
        let waited = |since: Instant| now.saturating_duration_since(since) >= UNOWNED_GRACE;
        self.unowned.is_some_and(waited)
    }

    /// Gives the memory back; the bytes that this has freed.
    fn give_back(&mut self, now: Instant) -> usize {
        match self.segment.give_back(self.ring, &mut self.consumer) {
            Some(true) => {
                self.unowned = None;
                self.segment.shape().ring_bytes()
            }
            // The system refuses, or a thread was faster: another time.
            Some(false) | None => {
                self.unowned = Some(now);
                0
            }
        }
    }
}

impl Rings {
    /// Events that fit into one ring of the first threads.
    pub(super) fn capacity(&self) -> u64 {
        let first = self.readers.first();
        first.map_or(u64::MAX, |reader| reader.consumer.ring().capacity())
    }

    pub(super) fn lost(&self) -> u64 {
        self.lost
    }

    /// Reads how far each ring is published, those added since included.
    pub(super) fn refresh(&mut self, client: &Client) {
        for segment in client.segments().skip(self.segments) {
            self.segments += 1;
            self.add(segment);
        }
        for reader in &mut self.readers {
            reader.consumer.look();
        }
        if let (Some(refusal), false) = (client.refusal(), self.has_warned) {
            self.has_warned = true;
            host::complain(&format!(
                "events of some threads are lost, there are no rings for them: {refusal}"
            ));
        }
    }

    fn add(&mut self, segment: &'static RingSegment) {
        for (number, ring) in segment.rings().enumerate() {
            // Nobody else reads: there is one pump.
            self.readers.extend(ring.consumer().map(|consumer| Reader {
                consumer,
                segment,
                ring: number,
                unowned: None,
            }));
        }
    }

    /// Events lost since the last time.
    pub(super) fn take_lost(&mut self) -> u64 {
        let lost = self
            .readers
            .iter()
            .map(|reader| reader.consumer.ring().lost());
        let lost = lost.sum();
        let before = std::mem::replace(&mut self.lost, lost);
        lost - before
    }

    /// Takes the events up to the horizon, oldest first, and about `most` of them.
    pub(super) fn merge(&mut self, horizon: u64, most: u64, history: &mut History) -> Merged {
        let mut next = std::mem::take(&mut self.next);
        next.clear();
        let times = self.readers.iter().enumerate();
        next.extend(
            times.filter_map(|(ring, reader)| Some(Reverse((reader.next_time(horizon)?, ring)))),
        );
        let mut events = 0;
        while events < most
            && let Some(Reverse((_oldest, ring))) = next.pop()
        {
            // All of this ring's events up to the oldest of any other come next.
            let limit = next.peek().map_or(horizon, |Reverse((time, _ring))| *time);
            let Some(reader) = self.readers.get_mut(ring) else {
                break;
            };
            events += reader.take_until(limit, most - events, ring, history);
            if let Some(time) = reader.next_time(horizon) {
                next.push(Reverse((time, ring)));
            }
        }
        let complete = next.is_empty();
        self.next = next;
        Merged { events, complete }
    }

    /// Frees slots whose events are sent, unsent ones too in rings over half full, and the memory
    /// of rings that no thread owns.
    ///
    /// An event that leaves its ring unsent dies with this process: that is the price when the
    /// server is slow or away and threads need the room.
    pub(super) fn free(&mut self, client: &Client, history: &History) {
        let now = Instant::now();
        let mut given_back = 0;
        for (index, reader) in self.readers.iter_mut().enumerate() {
            reader.free(history.delivered(index), now);
            if given_back < MAX_RINGS_FREED_PER_TURN && reader.is_due(now) {
                given_back += 1;
                client.room.give_back(reader.give_back(now));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ttmem_event::event::EVENT_BYTES;
    use ttmem_event::{BufferId, Event, EventKind, MeshId};
    use ttmem_ring::ring::Producer;
    use ttmem_ring::segment::Shape;

    /// Rings of eight slots with a producer each.
    fn rings(count: usize) -> (Rings, Vec<Producer<'static>>) {
        let segment = RingSegment::create(Shape::of(0, 8).unwrap()).unwrap();
        let segment = Box::leak(Box::new(segment));
        let mut rings = Rings::default();
        rings.add(segment);
        rings.readers.truncate(count);
        let producers = segment.rings().take(count).map(|ring| {
            let producer = ring.claim().unwrap();
            assert!(producer.look_for_room());
            producer
        });
        (rings, producers.collect())
    }

    fn free(rings: &mut Rings, history: &History) {
        for (index, reader) in rings.readers.iter_mut().enumerate() {
            reader.free(history.delivered(index), Instant::now());
        }
    }

    fn event(time: u64) -> [u8; EVENT_BYTES] {
        let (mesh, buffer) = (MeshId(1), BufferId(time));
        let kind = EventKind::BufferFreed { mesh, buffer };
        Event { time, kind }.encode()
    }

    /// The times of the events that are merged up to a horizon, in order.
    fn merged(rings: &mut Rings, horizon: u64, most: u64) -> (Vec<u64>, bool) {
        for reader in &mut rings.readers {
            reader.consumer.look();
        }
        let mut history = History::new(1000, false);
        let merged = rings.merge(horizon, most, &mut history);
        let batch = history.take_batch(1000);
        let records = batch
            .map(|batch| batch.records.concat())
            .unwrap_or_default();
        let (records, _none) = records.as_chunks::<EVENT_BYTES>();
        let times: Vec<u64> = records
            .iter()
            .map(|record| Event::decode(record).unwrap().time)
            .collect();
        assert_eq!(times.len() as u64, merged.events);
        (times, merged.complete)
    }

    #[test]
    fn events_come_in_the_order_of_their_stamps_whatever_ring_they_are_in() {
        let (mut rings, producers) = rings(3);
        for (producer, times) in producers.iter().zip([[1, 4, 5], [2, 3, 9], [6, 7, 8]]) {
            for time in times {
                assert!(producer.push(&event(time)));
            }
        }
        let (times, complete) = merged(&mut rings, 100, 100);
        assert_eq!(times, (1..=9).collect::<Vec<u64>>());
        assert!(complete);
    }

    #[test]
    fn what_is_stamped_after_the_horizon_waits() {
        let (mut rings, producers) = rings(2);
        assert!(producers[0].push(&event(5)));
        assert!(producers[0].push(&event(20)));
        assert!(producers[1].push(&event(11)));
        assert_eq!(merged(&mut rings, 10, 100), (vec![5], true));
        assert_eq!(merged(&mut rings, 19, 100), (vec![11], true));
        assert_eq!(merged(&mut rings, 20, 100), (vec![20], true));
    }

    #[test]
    fn a_stamp_that_is_no_time_of_this_clock_holds_up_nobody() {
        let (mut rings, producers) = rings(2);
        assert!(producers[0].push(&event(u64::MAX)));
        assert!(producers[0].push(&event(6)));
        assert!(producers[1].push(&event(5)));
        let (mut times, complete) = merged(&mut rings, 10, 100);
        times.sort_unstable();
        assert_eq!(times, [5, 6, u64::MAX]);
        assert!(complete);
    }

    #[test]
    fn no_more_are_taken_than_asked_for_and_the_rest_is_known_to_be_there() {
        let (mut rings, producers) = rings(1);
        for time in 1..=5 {
            assert!(producers[0].push(&event(time)));
        }
        assert_eq!(merged(&mut rings, 100, 2), (vec![1, 2], false));
        assert_eq!(merged(&mut rings, 100, 100), (vec![3, 4, 5], true));
    }

    #[test]
    fn a_crowded_ring_is_emptied_although_nothing_was_sent() {
        let (mut rings, producers) = rings(1);
        let mut history = History::new(1000, false);
        for time in 1..=3 {
            assert!(producers[0].push(&event(time)));
        }
        rings.readers[0].consumer.look();
        rings.merge(100, 100, &mut history);
        free(&mut rings, &history);
        assert_eq!(
            rings.readers[0].consumer.used_slots(),
            3,
            "kept until it is sent"
        );
        for time in 4..=8 {
            assert!(producers[0].push(&event(time)));
        }
        assert!(!producers[0].look_for_room());
        rings.readers[0].consumer.look();
        rings.merge(100, 100, &mut history);
        free(&mut rings, &history);
        assert!(producers[0].look_for_room());
        assert_eq!(history.end(), 8);
    }
}
