//! The newest events that were applied, each with an id that grows.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;
use ttmem_event::Event;

/// Events that are kept: more than half a second of a very busy machine, four megabytes.
const KEPT_EVENTS: usize = 65_536;

/// Batches that are kept, however small: each costs as much as two events by itself.
const KEPT_BATCHES: usize = 8192;

/// Events of one process that were applied together.
#[derive(Debug)]
pub(super) struct Batch {
    /// The id of the first; the others follow.
    pub(super) first_id: u64,
    /// The ledger's slot of the process, and its pid: slots are used again.
    pub(super) slot: u32,
    pub(super) pid: Option<u32>,
    /// When, in nanoseconds since the epoch.
    pub(super) applied: u64,
    /// Whether they were read from the memory of a dead process.
    pub(super) recovered: bool,
    pub(super) events: Vec<Event>,
}

/// The newest events.
#[derive(Clone, Debug)]
pub(crate) struct Tail {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    kept: Mutex<Kept>,
    /// The newest id; 0 before the first event.
    newest: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Kept {
    batches: VecDeque<Arc<Batch>>,
    events: usize,
    newest: u64,
}

/// Events behind an id.
#[derive(Debug)]
pub(super) struct Since {
    /// The id of the first event that is still kept, or of the next one.
    pub(super) oldest: u64,
    pub(super) batches: Vec<Arc<Batch>>,
}

impl Default for Tail {
    fn default() -> Self {
        let (newest, _nobody) = watch::channel(0);
        Self {
            shared: Arc::new(Shared {
                kept: Mutex::default(),
                newest,
            }),
        }
    }
}

impl Tail {
    /// Keeps events that were applied.
    pub(crate) fn push(
        &self,
        slot: u32,
        pid: Option<u32>,
        applied: u64,
        recovered: bool,
        mut events: Vec<Event>,
    ) {
        if events.is_empty() {
            return;
        }
        // Room for a full batch must not be kept for a single event.
        events.shrink_to_fit();
        let count = events.len();
        let mut dropped = Vec::new();
        let mut kept = self
            .shared
            .kept
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let first_id = kept.newest + 1;
        kept.newest += count as u64;
        kept.events += count;
        kept.batches.push_back(Arc::new(Batch {
            first_id,
            slot,
            pid,
            applied,
            recovered,
            events,
        }));
        while (kept.events > KEPT_EVENTS && kept.batches.len() > 1)
            || kept.batches.len() > KEPT_BATCHES
        {
            if let Some(oldest) = kept.batches.pop_front() {
                kept.events -= oldest.events.len();
                dropped.push(oldest);
            }
        }
        let newest = kept.newest;
        drop(kept);
        self.shared.newest.send_replace(newest);
    }

    /// The id of the newest event.
    pub(crate) fn newest(&self) -> u64 {
        *self.shared.newest.borrow()
    }

    /// Tells when there are newer events.
    pub(super) fn watch(&self) -> watch::Receiver<u64> {
        self.shared.newest.subscribe()
    }

    /// The events behind an id, about `count` of them.
    pub(super) fn since(&self, id: u64, count: usize) -> Since {
        let kept = self
            .shared
            .kept
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let oldest = kept
            .batches
            .front()
            .map_or(kept.newest + 1, |batch| batch.first_id);
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
