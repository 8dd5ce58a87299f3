//! The last events of every process, kept for those who ask what it did.
//!
//! Owned by the ledger thread and no part of the ledger: nothing depends on it.
//! Of a live process the events themselves are kept and get their names when
//! somebody asks; when it departs they are given names at once, because what it
//! defined goes with it. See [`shown`] for how an event looks.

mod shown;

pub(crate) use shown::Shown;

use std::collections::VecDeque;
use std::sync::Arc;
use ttmem_api::{LastEvent, LastEvents, SCHEMA};
use ttmem_event::Event;
use ttmem_ledger::View;

/// Events that are kept of each process.
const KEPT_EVENTS: usize = 256;

/// Departed processes whose events are kept.
const KEPT_DEPARTED: usize = 64;

/// The last events of one process.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecentEvents {
    events: VecDeque<Event>,
    /// How many of them, the last ones, were read from the memory of a dead process.
    recovered: usize,
}

impl RecentEvents {
    /// Adds events that were applied; only the last ones cost anything.
    fn extend(&mut self, events: &[Event], recovered: bool) {
        let new = &events[events.len().saturating_sub(KEPT_EVENTS)..];
        let excess = (self.events.len() + new.len()).saturating_sub(KEPT_EVENTS);
        self.events.drain(..excess);
        self.events.extend(new);
        if recovered {
            self.recovered = KEPT_EVENTS.min(self.recovered + new.len());
        }
    }

    /// The last `count` events, and whether each was recovered.
    fn last(&self, count: usize) -> impl Iterator<Item = (&Event, bool)> {
        let recovered_from = self.events.len().saturating_sub(self.recovered);
        let from = self.events.len().saturating_sub(count);
        let events = self.events.iter().enumerate().skip(from);
        events.map(move |(place, event)| (event, place >= recovered_from))
    }
}

/// The events of a process that is gone, with their names.
#[derive(Clone, Debug)]
struct Departed {
    pid: Option<u32>,
    events: Arc<[LastEvent]>,
}

/// The last events of all processes.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    /// By the ledger's slot.
    live: Vec<RecentEvents>,
    /// Oldest first.
    departed: VecDeque<Departed>,
}

impl Recent {
    /// A process took this slot.
    pub(crate) fn join(&mut self, slot: u32) {
        let slot = slot as usize;
        if slot >= self.live.len() {
            self.live.resize_with(slot + 1, RecentEvents::default);
        }
        self.live[slot] = RecentEvents::default();
    }

    /// Events of the process in this slot were applied.
    pub(crate) fn extend(&mut self, slot: u32, events: &[Event], recovered: bool) {
        if let Some(recent) = self.live.get_mut(slot as usize) {
            recent.extend(events, recovered);
        }
    }

    /// The process in this slot is about to depart: its events get their names.
    pub(crate) fn depart(&mut self, slot: u32, shown: &Shown<'_>) {
        let Some(recent) = self.live.get_mut(slot as usize) else {
            return;
        };
        let recent = std::mem::take(recent);
        if recent.events.is_empty() {
            return;
        }
        if self.departed.len() >= KEPT_DEPARTED {
            self.departed.pop_front();
        }
        self.departed.push_back(Departed {
            pid: shown.pid(),
            events: named(&recent, KEPT_EVENTS, shown).collect(),
        });
    }

    /// What is needed to answer for the last `count` events; `view` is the ledger's now.
    pub(crate) fn last(&self, count: usize, pid: Option<u32>, view: View) -> LastView {
        let wanted = |other: Option<u32>| pid.is_none() || other == pid;
        let live = view.processes.iter().filter_map(|process| {
            let recent = self.live.get(process.index as usize)?;
            wanted(process.facts.identity.pid).then(|| {
                // Only what can be asked for: there may be thousands of processes.
                let events: VecDeque<Event> = recent.last(count).map(|(event, _)| *event).collect();
                let recovered = recent.recovered;
                (process.index, RecentEvents { events, recovered })
            })
        });
        let live = live.collect();
        let departed = self.departed.iter();
        let departed = departed.filter(|gone| wanted(gone.pid)).cloned().collect();
        LastView {
            count,
            live,
            departed,
            view,
        }
    }
}

/// The last events at one moment, for a reader to name in its own thread.
#[derive(Debug)]
pub struct LastView {
    count: usize,
    live: Vec<(u32, RecentEvents)>,
    departed: Vec<Departed>,
    view: View,
}

impl LastView {
    /// The events with their names, in the order of their times.
    pub(crate) fn document(&self) -> LastEvents {
        let mut events: Vec<LastEvent> = Vec::new();
        for gone in &self.departed {
            let from = gone.events.len().saturating_sub(self.count);
            events.extend_from_slice(&gone.events[from..]);
        }
        for (slot, recent) in &self.live {
            if let Some(process) = self.view.process(*slot) {
                let shown = Shown::new(&process.facts, &self.view.devices);
                events.extend(named(recent, self.count, &shown));
            }
        }
        events.sort_by_key(|event| event.time.unix_nanos());
        events.drain(..events.len().saturating_sub(self.count));
        let schema = SCHEMA;
        LastEvents { schema, events }
    }
}

fn named(
    recent: &RecentEvents,
    count: usize,
    shown: &Shown<'_>,
) -> impl Iterator<Item = LastEvent> {
    recent
        .last(count)
        .map(|(event, recovered)| shown.event(event, recovered))
}

#[cfg(test)]
mod tests;
