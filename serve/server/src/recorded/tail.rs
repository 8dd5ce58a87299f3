//! The last events before an instant, in the form in which a live server keeps them.

use super::error::RecordedError;
use super::files::KnownFile;
use super::moment::Moment;
use super::players::Players;
use crate::journal::{Batch, Journal};
use std::sync::Arc;
use ttmem_ledger::{Change, Ledger};
use ttmem_record::{Follow, Played, Turn, Until};

/// Events before an instant that are read again.
const EVENTS: u64 = 4096;

/// Events of one process that are kept together at most.
const BATCH: usize = 256;

/// Reads the last events before a moment.
pub(super) fn read(
    file: &KnownFile,
    (players, turn): (&mut Players, Turn),
    moment: &Moment,
) -> Result<Journal, RecordedError> {
    // Where it was, if it was there last: it comes back by what follows.
    let player = players.of(file, moment.time, turn)?;
    player.seek_event(moment.view.events.saturating_sub(EVENTS))?;
    let mut tail = Tail::default();
    player.follow(Until::Time(moment.time), &mut tail)?;
    tail.flush();
    Ok(tail.journal)
}

#[derive(Default)]
struct Tail {
    journal: Journal,
    /// Events of one process that came one after the other.
    batch: Batch,
}

impl Tail {
    fn flush(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        self.journal.push(batch);
    }
}

impl Follow for Tail {
    fn before(&mut self, ledger: &Ledger, change: &Change) {
        if let Change::Depart { process, .. } = change
            && let Some(leaving) = ledger.process(*process)
        {
            self.flush();
            let logical_id = |device| ledger.logical_id(device);
            self.journal.depart(*process, leaving, logical_id);
        }
    }

    fn after(&mut self, ledger: &Ledger, time: u64, played: Played<'_>) {
        let Played::Event {
            process,
            event,
            recovered,
            refused,
            ..
        } = played
        else {
            if matches!(played, Played::Start) {
                // Its processes are others.
                *self = Self::default();
            }
            return;
        };
        let goes_on = self.batch.slot == process && self.batch.recovered == recovered;
        if !goes_on || self.batch.events.len() >= BATCH {
            self.flush();
        }
        if self.batch.events.is_empty() {
            self.batch.slot = process;
            self.batch.recovered = recovered;
            self.batch.pid = ledger.identity(process).and_then(|known| known.pid);
        }
        self.batch.applied = time;
        let index = self.batch.events.len();
        Arc::make_mut(&mut self.batch.events).push(*event);
        let refused = refused.map(|anomaly| (index, anomaly));
        self.batch.anomalies.extend(refused);
    }
}
