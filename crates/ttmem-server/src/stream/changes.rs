//! What changed, ten times a second, worked out once for all readers.

use super::{Reader, Waited, foreign_gap, gap, message};
use crate::clock::unix_nanos;
use crate::journal::JournalReader;
use crate::ledger_thread::LedgerHandle;
use crate::read::snapshot::device_scope;
use axum::body::Bytes;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use ttmem_api::{HexId, StreamChanges, StreamDevice, StreamMessage, Timestamp};
use ttmem_event::Class;
use ttmem_ledger::{Device, DeviceKey, View};

const TICK: Duration = Duration::from_millis(100);

/// Works out what changed while there is anybody to send it to.
#[derive(Clone, Debug)]
pub(super) struct Ticker {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    ledger: LedgerHandle,
    journal: JournalReader,
    /// Whether there is a task that ticks.
    ticking: Mutex<bool>,
    /// Everybody who reads has a receiver.
    ticks: watch::Sender<Arc<Tick>>,
    sent: Mutex<Sent>,
}

/// What was sent last.
#[derive(Debug, Default)]
struct Sent {
    /// The newest id that was sent.
    id: u64,
    number: u64,
    revision: u64,
    devices: Totals,
}

type Totals = BTreeMap<DeviceKey, StreamDevice>;

/// What there was to send at one moment.
#[derive(Debug, Default)]
struct Tick {
    /// Counts from 1.
    number: u64,
    /// The newest event that is in it.
    id: u64,
    /// What changed since the tick before.
    changed: Bytes,
    /// All devices, for who missed a tick.
    all: Bytes,
}

impl Ticker {
    pub(super) fn new(ledger: LedgerHandle, journal: JournalReader) -> Self {
        let (ticks, _nobody) = watch::channel(Arc::default());
        Self {
            shared: Arc::new(Shared {
                ledger,
                journal,
                ticking: Mutex::default(),
                ticks,
                sent: Mutex::default(),
            }),
        }
    }

    /// Serves a reader until it is gone or the server stops.
    ///
    /// Totals are sent whole, so that a reader that comes back misses nothing: it begins with all
    /// devices, as everybody does, whatever id it had reached.
    pub(super) async fn serve(self, reader: Reader, after: Option<u64>) {
        let mut ticks = self.shared.ticks.subscribe();
        let newest = self.shared.journal.newest();
        if let Some(after) = after.filter(|after| *after > newest)
            && !reader.send(foreign_gap(after, newest)).await
        {
            return;
        }
        self.start(&mut ticks);
        let mut last: Option<Arc<Tick>> = None;
        loop {
            match reader.wait(&mut ticks).await {
                Waited::News => {}
                Waited::Nothing => continue,
                Waited::Over => return,
            }
            let tick = Arc::clone(&ticks.borrow_and_update());
            let missed = last
                .as_ref()
                .filter(|last| tick.number != last.number + 1)
                .map(|last| gap(last.id, tick.id, "the reader was too slow"));
            let is_next = last.is_some() && missed.is_none();
            if let Some(gap) = missed
                && !reader.send(gap).await
            {
                return;
            }
            let text = if is_next { &tick.changed } else { &tick.all };
            if !reader.send(text.clone()).await {
                return;
            }
            last = Some(tick);
        }
    }

    /// The first reader starts the ticks, later ones begin with the newest.
    fn start(&self, ticks: &mut watch::Receiver<Arc<Tick>>) {
        if !std::mem::replace(&mut *self.shared.ticking(), true) {
            tokio::spawn(tick(Arc::clone(&self.shared)));
        } else if ticks.borrow().number > 0 {
            // It may be long until something happens.
            ticks.mark_changed();
        }
    }
}

/// Ticks until the last reader has gone.
async fn tick(shared: Arc<Shared>) {
    // Whoever started this waits for a tick, even if nothing happened since the last one.
    let mut is_awaited = true;
    while shared.is_anybody_there() {
        let looked = async {
            // Before the view: all that it counts is in the view.
            let id = shared.journal.newest();
            let view = shared.ledger.view().await?;
            let shared = Arc::clone(&shared);
            let work = move || shared.look(&view, id, is_awaited);
            tokio::task::spawn_blocking(work).await.ok()
        };
        match looked.await {
            Some(Some(tick)) => {
                shared.ticks.send_replace(Arc::new(tick));
            }
            Some(None) => {}
            None => {
                *shared.ticking() = false;
                return;
            }
        }
        is_awaited = false;
        tokio::time::sleep(TICK).await;
    }
}

impl Shared {
    fn ticking(&self) -> MutexGuard<'_, bool> {
        self.ticking.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether somebody reads; if not, who comes next has to start the ticks.
    fn is_anybody_there(&self) -> bool {
        let mut ticking = self.ticking();
        *ticking = self.ticks.receiver_count() > 0;
        *ticking
    }

    /// What there is to send of a view; nothing if nobody waits and it is what was sent last.
    fn look(&self, view: &View, id: u64, is_awaited: bool) -> Option<Tick> {
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        // What happened between the two is in the view and not in the id: then the id is sent next
        // time, though nothing else is new.
        if !is_awaited && sent.revision == view.revision && sent.id == id {
            return None;
        }
        let now = totals(view);
        let changed = now
            .iter()
            .filter(|(key, device)| sent.devices.get(*key) != Some(*device));
        let changed = changed.map(|(_key, device)| device.clone()).collect();
        let all = now.values().cloned().collect();
        sent.devices = now;
        sent.revision = view.revision;
        sent.id = id;
        sent.number += 1;
        let write = |devices| {
            message(&StreamMessage::Changes(StreamChanges {
                id,
                time: Timestamp::from_unix_nanos(unix_nanos()),
                events_applied: view.events,
                devices,
            }))
        };
        Some(Tick {
            number: sent.number,
            id,
            changed: write(changed),
            all: write(all),
        })
    }
}

fn totals(view: &View) -> Totals {
    let devices = view.devices.iter();
    devices
        .map(|device| (device.key.clone(), totals_of(device)))
        .collect()
}

fn totals_of(device: &Device) -> StreamDevice {
    let totals = &device.totals;
    let charged = |class: Class| totals.class(class).charged.bytes();
    StreamDevice {
        id: device.facts.logical_id,
        unique_id: device.facts.unique_id.map(HexId),
        scope: device_scope(device),
        dram_bytes: charged(Class::Dram),
        l1_bytes: charged(Class::L1),
        l1_small_bytes: charged(Class::L1Small),
        trace_bytes: charged(Class::Trace),
        cb_bytes: totals.cb.registered.bytes(),
        kernel_bytes: totals.kernel.registered.bytes(),
        buffers: totals.classes.iter().map(|class| class.buffers).sum(),
        dispatches: device.caches.dispatches,
    }
}
