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
use crate::futex;
use ttmem_ring::ring::Consumer;

/// A stamp this far beyond the horizon is no time of this clock: the machine was suspended or
/// moved. In ticks; some seconds for every counter there is.
const NO_TIME: u64 = 1 << 34;

/// All rings of the process.
#[derive(Debug, Default)]
pub(super) struct Rings {
    consumers: Vec<Consumer<'static>>,
    segments: usize,
    lost: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Merged {
    pub(super) events: u64,
    /// Whether everything up to the horizon was taken.
    pub(super) complete: bool,
}

impl Rings {
    /// Events that fit into one ring.
    pub(super) fn capacity(&self) -> u64 {
        let first = self.consumers.first();
        first.map_or(u64::MAX, |consumer| consumer.ring().capacity())
    }

    pub(super) fn lost(&self) -> u64 {
        self.lost
    }

    /// Looks what was published, in rings old and new.
    pub(super) fn look(&mut self, client: &Client) {
        for segment in client.segments().skip(self.segments) {
            self.segments += 1;
            // Nobody else reads: there is one pump.
            let consumers = segment.rings().filter_map(|ring| ring.consumer());
            self.consumers.extend(consumers);
        }
        for consumer in &mut self.consumers {
            consumer.look();
        }
    }

    /// Events lost since the last time.
    pub(super) fn take_lost(&mut self) -> u64 {
        let lost = self.consumers.iter().map(|consumer| consumer.ring().lost());
        let lost = lost.sum();
        let before = std::mem::replace(&mut self.lost, lost);
        lost - before
    }

    /// Takes the events up to the horizon, oldest first, and about `most` of them.
    pub(super) fn merge(&mut self, horizon: u64, most: u64, history: &mut History) -> Merged {
        let mut events = 0;
        while events < most {
            let Some((oldest, limit)) = self.oldest(horizon) else {
                return Merged {
                    events,
                    complete: true,
                };
            };
            // All of this ring's events up to the oldest of any other come next.
            let Some(consumer) = self.consumers.get_mut(oldest) else {
                break;
            };
            let ring = u16::try_from(oldest).ok();
            while let Some(record) = consumer.peek() {
                history.push(&record, ring);
                consumer.advance();
                events += 1;
                let next = consumer.peek_time();
                if events >= most || next.is_none_or(|time| time > limit) {
                    break;
                }
            }
        }
        Merged {
            events,
            complete: false,
        }
    }

    /// The ring with the oldest event up to the horizon, and until when it stays that.
    fn oldest(&self, horizon: u64) -> Option<(usize, u64)> {
        let mut oldest: Option<(usize, u64)> = None;
        let mut limit = horizon;
        for (index, consumer) in self.consumers.iter().enumerate() {
            let Some(time) = consumer.peek_time() else {
                continue;
            };
            if time > horizon {
                if time - horizon < NO_TIME {
                    continue;
                }
                return Some((index, horizon));
            }
            match oldest {
                Some((_index, best)) if best <= time => limit = limit.min(time),
                _older => {
                    if let Some((_index, best)) = oldest {
                        limit = limit.min(best);
                    }
                    oldest = Some((index, time));
                }
            }
        }
        oldest.map(|(index, _time)| (index, limit))
    }

    /// Gives back the slots whose events are sent, and of crowded rings those that are kept.
    ///
    /// What is given back unsent would die with this process; that is for when the server is slow
    /// or away, and the rings are needed.
    pub(super) fn free(&mut self, history: &History) {
        for (index, consumer) in self.consumers.iter_mut().enumerate() {
            let crowded = consumer.used_slots() > consumer.ring().capacity() / 2;
            let until = if crowded {
                consumer.position()
            } else {
                history.delivered(index)
            };
            if consumer.free(until) && consumer.take_waiter() {
                futex::wake_all(consumer.ring().waiting());
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
    use ttmem_ring::segment::RingSegment;

    /// Rings of eight slots with a producer each.
    fn rings(count: usize) -> (Rings, Vec<Producer<'static>>) {
        let segment = RingSegment::create(0, 8).unwrap();
        let mut rings = Rings::default();
        let mut producers = Vec::new();
        for ring in segment.rings().take(count) {
            rings.consumers.push(ring.consumer().unwrap());
            let producer = ring.claim().unwrap();
            assert!(producer.look_for_room());
            producers.push(producer);
        }
        (rings, producers)
    }

    fn event(time: u64) -> [u8; EVENT_BYTES] {
        let (mesh, buffer) = (MeshId(1), BufferId(time));
        let kind = EventKind::BufferFreed { mesh, buffer };
        Event { time, kind }.encode()
    }

    /// The times of the events that are merged up to a horizon, in order.
    fn merged(rings: &mut Rings, horizon: u64, most: u64) -> (Vec<u64>, bool) {
        for consumer in &mut rings.consumers {
            consumer.look();
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
        rings.consumers[0].look();
        rings.merge(100, 100, &mut history);
        rings.free(&history);
        assert_eq!(rings.consumers[0].used_slots(), 3, "kept until it is sent");
        for time in 4..=8 {
            assert!(producers[0].push(&event(time)));
        }
        assert!(!producers[0].look_for_room());
        rings.consumers[0].look();
        rings.merge(100, 100, &mut history);
        rings.free(&history);
        assert!(producers[0].look_for_room());
        assert_eq!(history.end(), 8);
    }
}
