//! The events that were applied: one store for streams, for the log, and for the question what a
//! process did last.
//!
//! The ledger thread owns the [`Journal`] and adds every batch that it applied. A batch is kept
//! once and listed twice: among the newest of all processes, which readers see, and
//! among the last of its own process. Nobody is waited for: what falls off the end is gone for
//! readers that are slow. Events keep the ids of their process; [`Names`] has what they stand for.

mod names;

pub(crate) use names::Names;

use crate::lock;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use tokio::sync::watch;
use ttmem_event::Event;
use ttmem_ledger::{Anomaly, ProcessRef, View};
use ttmem_report::{LastEvent, LastEvents, SCHEMA, StreamEvent, Timestamp};

/// Events that are kept: more than half a second of a very busy machine, four megabytes.
const KEPT_EVENTS: usize = 65_536;

/// Batches that are kept, however small: each costs as much as two events by itself.
const KEPT_BATCHES: usize = 8192;

/// Events that are kept of each process, however long ago they were.
const KEPT_OF_PROCESS: usize = 256;

/// Departed processes whose events are kept.
const KEPT_DEPARTED: usize = 64;

/// Events of one process that were applied together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Batch {
    /// The id of the first event, given by the journal; the others follow.
    pub(crate) first_id: u64,
    /// The ledger's slot of the process, and its pid: slots are used again.
    pub(crate) slot: u32,
    pub(crate) pid: Option<u32>,
    /// When, in nanoseconds since the epoch.
    pub(crate) applied: u64,
    /// Whether they were read from the memory of a dead process.
    pub(crate) recovered: bool,
    pub(crate) events: Arc<Vec<Event>>,
    /// What was wrong with events, by their index in the batch; sorted.
    pub(crate) anomalies: Vec<(usize, Anomaly)>,
}

impl Batch {
    /// The indices of the events after an id.
    pub(crate) fn behind(&self, id: u64) -> Range<usize> {
        let known = id.saturating_add(1).saturating_sub(self.first_id);
        let known = usize::try_from(known).unwrap_or(usize::MAX);
        known.min(self.events.len())..self.events.len()
    }

    pub(crate) fn anomaly(&self, index: usize) -> Option<Anomaly> {
        let found = self.anomalies.binary_search_by_key(&index, |(at, _)| *at);
        found.ok().map(|at| self.anomalies[at].1)
    }

    pub(crate) fn event(&self, index: usize, names: &Names) -> StreamEvent {
        let event = &self.events[index];
        StreamEvent {
            id: self.first_id + index as u64,
            applied: Timestamp::from_unix_nanos(self.applied),
            event: LastEvent {
                time: Timestamp::from_unix_nanos(event.time),
                pid: self.pid,
                process: names.process.clone(),
                recovered: self.recovered,
                event: event.kind.json_name(),
                fields: names.fields(&event.kind, self.anomaly(index)),
            },
        }
    }

    fn last(&self, count: usize) -> Self {
        let from = self.events.len().saturating_sub(count);
        let anomalies = self.anomalies.iter();
        let anomalies =
            anomalies.filter_map(|(at, anomaly)| Some((at.checked_sub(from)?, *anomaly)));
        Self {
            first_id: self.first_id + from as u64,
            events: Arc::new(self.events[from..].to_vec()),
            anomalies: anomalies.collect(),
            slot: self.slot,
            pid: self.pid,
            applied: self.applied,
            recovered: self.recovered,
        }
    }
}

/// A batch with what its ids stand for: its process may be gone when it is read.
#[derive(Clone, Debug)]
pub(crate) struct NamedBatch {
    pub(crate) batch: Arc<Batch>,
    pub(crate) names: Names,
}

/// The last events of one process: at most [`KEPT_OF_PROCESS`], and the rest of the oldest batch.
#[derive(Clone, Debug, Default)]
struct History {
    batches: VecDeque<Arc<Batch>>,
    events: usize,
}

impl History {
    fn push(&mut self, batch: Arc<Batch>) {
        self.events += batch.events.len();
        self.batches.push_back(batch);
        while let Some(oldest) = self.batches.front()
            && self.events - oldest.events.len() >= KEPT_OF_PROCESS
        {
            self.events -= oldest.events.len();
            self.batches.pop_front();
        }
    }

    fn pid(&self) -> Option<u32> {
        self.batches.back().and_then(|batch| batch.pid)
    }

    /// Drops the rest of the oldest batch, which may be large.
    fn trim(&mut self) {
        let excess = self.events.saturating_sub(KEPT_OF_PROCESS);
        if let Some(oldest) = self.batches.front_mut()
            && excess > 0
        {
            self.events -= excess;
            *oldest = Arc::new(oldest.last(oldest.events.len() - excess));
        }
    }

    /// The batches with the last `count` events.
    fn last(&self, count: usize) -> Self {
        let mut last = Self::default();
        for batch in self.batches.iter().rev() {
            if last.events >= count {
                break;
            }
            last.events += batch.events.len();
            last.batches.push_front(Arc::clone(batch));
        }
        last
    }

    /// The last `count` events, each by its batch and its index in there.
    fn places(&self, count: usize) -> impl Iterator<Item = (&Batch, usize)> {
        let skipped = self.events.saturating_sub(count.min(KEPT_OF_PROCESS));
        let batches = self.batches.iter();
        let places =
            batches.flat_map(|batch| (0..batch.events.len()).map(move |at| (&**batch, at)));
        places.skip(skipped)
    }

    fn names(
        &self,
        count: usize,
        process: ProcessRef<'_>,
        logical_id: impl Fn(u32) -> Option<u32>,
    ) -> Names {
        let events = self.places(count).map(|(batch, at)| &batch.events[at]);
        Names::of(process, logical_id, events)
    }
}

/// The last events of a process that is gone, with what it defined of them.
#[derive(Debug)]
struct Departed {
    pid: Option<u32>,
    history: History,
    names: Names,
}

/// The last events at one moment, for a reader to name in its own thread.
#[derive(Debug)]
pub(crate) struct Last {
    count: usize,
    live: Vec<(u32, History)>,
    departed: Vec<Arc<Departed>>,
}

impl Last {
    /// The events in the order of their times, with their names by a view that is not older.
    pub(crate) fn document(&self, view: &View) -> LastEvents {
        let count = self.count;
        let mut events = Vec::new();
        let mut add = |history: &History, names: &Names| {
            let places = history.places(count);
            events.extend(places.map(|(batch, place)| batch.event(place, names).event));
        };
        for gone in &self.departed {
            let names = gone.names.clone().for_audience(view.audience);
            add(&gone.history, &names);
        }
        for (slot, history) in &self.live {
            let process = view.process(*slot);
            let process = process.filter(|process| process.facts.identity.pid == history.pid());
            // Who departed in between took its definitions along.
            let names = process.map_or_else(Names::default, |process| {
                history.names(count, process.without_rows(), |id| view.logical_id(id))
            });
            add(history, &names);
        }
        events.sort_by_key(|event| event.time.unix_nanos());
        events.drain(..events.len().saturating_sub(count));
        LastEvents {
            schema: SCHEMA,
            events,
        }
    }
}

/// What is kept: the ledger thread adds to it, any thread may read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Journal {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    kept: Mutex<Kept>,
    /// The newest id; 0 before the first event.
    newest: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Kept {
    batches: VecDeque<Arc<Batch>>,
    events: usize,
    processes: Vec<History>,
    /// Oldest first.
    departed: VecDeque<Arc<Departed>>,
}

impl Kept {
    fn push(&mut self, batch: &Arc<Batch>) {
        let slot = batch.slot as usize;
        if slot >= self.processes.len() {
            self.processes.resize_with(slot + 1, History::default);
        }
        self.processes[slot].push(Arc::clone(batch));
        self.events += batch.events.len();
        self.batches.push_back(Arc::clone(batch));
        while (self.events > KEPT_EVENTS && self.batches.len() > 1)
            || self.batches.len() > KEPT_BATCHES
        {
            let Some(dropped) = self.batches.pop_front() else {
                break;
            };
            self.events -= dropped.events.len();
            let history = &mut self.processes[dropped.slot as usize];
            let oldest = history.batches.front();
            if oldest.is_some_and(|oldest| oldest.first_id == dropped.first_id) {
                history.trim();
            }
        }
    }
}

#[derive(Debug)]
pub(crate) struct Since {
    /// The id of the first event that is still kept, or of the first there will be.
    pub(crate) oldest: u64,
    pub(crate) batches: Vec<Arc<Batch>>,
}

impl Journal {
    /// Keeps events that were applied, and gives them their ids; nothing if there are none.
    pub(crate) fn push(&self, mut batch: Batch) -> Option<Arc<Batch>> {
        if batch.events.is_empty() {
            return None;
        }
        let before = self.newest();
        batch.first_id = before + 1;
        let newest = before + batch.events.len() as u64;
        let batch = Arc::new(batch);
        lock(&self.shared.kept).push(&batch);
        self.shared.newest.send_replace(newest);
        Some(batch)
    }

    /// The process in this slot is about to depart: what it defined goes with it, its names stay.
    pub(crate) fn depart(
        &self,
        slot: u32,
        process: ProcessRef<'_>,
        logical_id: impl Fn(u32) -> Option<u32>,
    ) {
        let mut kept = lock(&self.shared.kept);
        let history = kept.processes.get_mut(slot as usize);
        let mut history = history.map(std::mem::take).unwrap_or_default();
        if history.batches.is_empty() {
            return;
        }
        history.trim();
        if kept.departed.len() >= KEPT_DEPARTED {
            kept.departed.pop_front();
        }
        kept.departed.push_back(Arc::new(Departed {
            pid: process.facts.identity.pid,
            names: history.names(KEPT_OF_PROCESS, process, logical_id),
            history,
        }));
    }

    pub(crate) fn newest(&self) -> u64 {
        *self.shared.newest.borrow()
    }

    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.shared.newest.subscribe()
    }

    /// The last `count` events of a process, or of each: take a view after this to name them.
    pub(crate) fn last(&self, count: usize, pid: Option<u32>) -> Last {
        let kept = lock(&self.shared.kept);
        let wanted = |other: Option<u32>| pid.is_none() || other == pid;
        let live = kept.processes.iter().zip(0..);
        let live = live.filter(|(history, _slot)| wanted(history.pid()));
        // Only what can be asked for: there may be thousands of processes.
        let live = live.map(|(history, slot)| (slot, history.last(count)));
        let departed = kept.departed.iter();
        Last {
            count,
            live: live.collect(),
            departed: departed.filter(|gone| wanted(gone.pid)).cloned().collect(),
        }
    }

    /// The events after an id, about `count` of them.
    pub(crate) fn since(&self, id: u64, count: usize) -> Since {
        let kept = lock(&self.shared.kept);
        let oldest = kept.batches.front().map_or(1, |batch| batch.first_id);
        let first = kept.batches.partition_point(|batch| {
            batch.first_id + batch.events.len() as u64 <= id.saturating_add(1)
        });
        let mut so_far = 0;
        let batches = kept.batches.range(first..).take_while(|batch| {
            let wanted = so_far < count;
            so_far += batch.events.len();
            wanted
        });
        let batches = batches.cloned().collect();
        Since { oldest, batches }
    }
}

#[cfg(test)]
mod tests;
