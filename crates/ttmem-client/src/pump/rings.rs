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
    readers: Vec<Reader>,
    segments: usize,
    lost: u64,
}

#[derive(Debug)]
struct Reader {
    consumer: Consumer<'static>,
    /// Up to here slots were given back.
    freed: u64,
}

/// What merging came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Merged {
    /// How many events.
    pub(super) events: u64,
    /// Whether everything up to the horizon was taken.
    pub(super) complete: bool,
}

impl Rings {
    /// Events that fit into one ring.
    pub(super) fn capacity(&self) -> u64 {
        let first = self.readers.first();
        first.map_or(u64::MAX, |reader| reader.consumer.ring().capacity())
    }

    /// Events lost so far.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }

    /// Looks what was published, in rings old and new.
    pub(super) fn look(&mut self, client: &Client) {
        for segment in client.segments().skip(self.segments) {
            self.segments += 1;
            // Nobody else reads: there is one pump.
            let consumers = segment.rings().filter_map(|ring| ring.consumer());
            self.readers
                .extend(consumers.map(|consumer| Reader { consumer, freed: 0 }));
        }
        for reader in &mut self.readers {
            reader.consumer.look();
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
        let mut events = 0;
        while events < most {
            let Some((oldest, limit)) = self.oldest(horizon) else {
                return Merged {
                    events,
                    complete: true,
                };
            };
            // All of this ring's events up to the oldest of any other come next.
            let Some(reader) = self.readers.get_mut(oldest) else {
                break;
            };
            let ring = u16::try_from(oldest).ok();
            while let Some(record) = reader.consumer.peek() {
                history.push(&record, ring);
                reader.consumer.advance();
                events += 1;
                let next = reader.consumer.peek_time();
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
        for (index, reader) in self.readers.iter().enumerate() {
            let Some(time) = reader.consumer.peek_time() else {
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
        for (index, reader) in self.readers.iter_mut().enumerate() {
            let consumer = &mut reader.consumer;
            let crowded = consumer.taken() > consumer.ring().capacity() / 2;
            let until = if crowded {
                consumer.position()
            } else {
                history.delivered(index)
            };
            if until > reader.freed {
                reader.freed = until;
                consumer.free(until);
                if consumer.take_waiter() {
                    futex::wake_all(consumer.ring().waiting());
                }
            }
        }
    }
}
