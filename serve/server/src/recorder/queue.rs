//! From the ledger thread to a recorder: a queue that is bounded in bytes, and never waited for.
//!
//! What finds no room is dropped and counted. The ledger thread then hands over the state that it has
//! come to, once there is room again, and goes on from there. So everything that the recorder gets is
//! exact, and what it does not get is a number.

use crate::clock::unix_nanos;
use crate::ledger_thread::definition_bytes;
use crate::lock;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use ttmem_event::Definition;
use ttmem_ledger::{Change, DeviceFacts};

/// Bytes that may wait: a second of a very busy machine. One change may go beyond it.
pub(super) const MAX_BYTES: usize = 64 << 20;

/// After a gap a state is saved when no more than this part of the room is taken.
const RESUME_PART: usize = 4;

/// Bytes for which the recorder is woken before its time: waking it costs a system call.
const WAKE_BYTES: usize = 1 << 20;

/// Bytes that the recorder takes at once.
const TAKEN_BYTES: usize = 1 << 20;

/// What a recorder is given.
#[derive(Debug)]
pub(super) enum Item {
    /// The recording begins here, or goes on after a gap.
    State {
        time: u64,
        missing_events: u64,
        state: Arc<Vec<u8>>,
    },
    Change(u64, Change),
    /// Somebody waits for all before it to be written.
    Flush(u64),
}

#[derive(Debug, Default)]
struct State {
    items: VecDeque<(Item, usize)>,
    /// Of those, and of what the recorder has in hand.
    bytes: usize,
    in_hand: usize,
    /// The recorder waits to be woken at so many bytes.
    wakes_at: Option<usize>,
    /// Changes are being dropped, or the recorder cannot go on without a state.
    has_gap: bool,
    /// Nothing more comes.
    ended: bool,
    /// Nobody takes anything any more.
    gone: bool,
    flush_requests: u64,
    flushed: u64,
}

impl State {
    /// Whether what is handed over is written.
    fn is_open(&self) -> bool {
        !self.gone && !self.ended
    }

    fn push(&mut self, item: Item, bytes: usize) {
        self.bytes += bytes;
        self.items.push_back((item, bytes));
    }
}

#[derive(Debug)]
pub(super) struct Queue {
    state: Mutex<State>,
    /// The recorder waits for items, others for what they want flushed or closed.
    arrived: Condvar,
    flushed: Condvar,
    max_bytes: usize,
    /// The recorder asks for a state.
    wants_state: AtomicBool,
}

/// What woke the recorder.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) items: Vec<Item>,
    /// Nothing more comes after these.
    pub(super) ended: bool,
    /// Changes are being dropped: the ledger thread is to save its state when it can.
    pub(super) has_gap: bool,
}

pub(super) fn queue(max_bytes: usize) -> (Tap, Arc<Queue>) {
    let queue = Arc::new(Queue {
        state: Mutex::new(State {
            // It begins with a state.
            has_gap: true,
            ..State::default()
        }),
        arrived: Condvar::new(),
        flushed: Condvar::new(),
        max_bytes,
        wants_state: AtomicBool::new(false),
    });
    let tap = Tap {
        queue: Arc::clone(&queue),
        missing: Some(0),
        is_open: true,
    };
    (tap, queue)
}

impl Queue {
    /// The next items: at once if `is_busy` is not set and there are any, else when there are many or the
    /// time has come; none for longer if there is none.
    pub(super) fn take(&self, is_busy: bool, most: Duration) -> Taken {
        let until = Instant::now() + most;
        let mut state = lock(&self.state);
        state.bytes -= std::mem::take(&mut state.in_hand);
        let wakes_at = if is_busy { WAKE_BYTES } else { 1 };
        while state.bytes < wakes_at && !state.ended && state.flushed == state.flush_requests {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state.wakes_at = Some(wakes_at);
            state = wait(&self.arrived, state, left);
        }
        state.wakes_at = None;
        let mut items = Vec::new();
        while state.in_hand < TAKEN_BYTES
            && let Some((item, bytes)) = state.items.pop_front()
        {
            state.in_hand += bytes;
            items.push(item);
        }
        Taken {
            items,
            ended: state.ended && state.items.is_empty(),
            has_gap: state.has_gap && state.bytes <= self.max_bytes / RESUME_PART,
        }
    }

    /// All before a request is written.
    pub(super) fn note_flushed(&self, request: u64) {
        let mut state = lock(&self.state);
        state.flushed = state.flushed.max(request);
        drop(state);
        self.flushed.notify_all();
    }

    /// Waits until everything that was handed over so far is written, but no longer than this.
    pub(super) fn flush(&self, most: Duration) {
        let until = Instant::now() + most;
        let mut state = lock(&self.state);
        if state.gone {
            return;
        }
        state.flush_requests += 1;
        let request = state.flush_requests;
        state.push(Item::Flush(request), 0);
        self.arrived.notify_one();
        while state.flushed < request && !state.gone {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = wait(&self.flushed, state, left);
        }
    }

    /// Waits until nobody takes anything any more; false if that takes longer than this.
    pub(super) fn wait_until_closed(&self, most: Duration) -> bool {
        let until = Instant::now() + most;
        let mut state = lock(&self.state);
        while !state.gone {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = wait(&self.flushed, state, left);
        }
        true
    }

    /// Has the ledger thread hand over its state, although nothing was dropped.
    pub(super) fn request_state(&self) {
        self.wants_state.store(true, Ordering::Relaxed);
        lock(&self.state).has_gap = true;
    }

    /// Ends the recording: nothing more is taken from the ledger thread.
    pub(super) fn end(&self) {
        lock(&self.state).ended = true;
        self.arrived.notify_one();
    }

    /// Nobody takes anything any more.
    pub(super) fn close(&self) {
        let mut state = lock(&self.state);
        state.gone = true;
        let dropped = std::mem::take(&mut state.items);
        drop(state);
        self.flushed.notify_all();
        drop(dropped);
    }
}

/// The ledger thread's end.
#[derive(Debug)]
pub(crate) struct Tap {
    queue: Arc<Queue>,
    /// Events that were dropped since the recording broke off; nothing is taken until the next state.
    missing: Option<u64>,
    is_open: bool,
}

impl Tap {
    /// Whether somebody still records.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    #[cfg(test)]
    pub(crate) fn is_missing(&self) -> bool {
        self.missing.is_some()
    }

    /// Takes a change that was applied, or counts it; never waits.
    pub(crate) fn push(&mut self, time: u64, change: Change) {
        if let Some(missing) = &mut self.missing {
            *missing += change.event_count() as u64;
            return;
        }
        let bytes = change_bytes(&change);
        let mut state = lock(&self.queue.state);
        self.is_open = state.is_open();
        if !self.is_open {
            return;
        }
        if state.bytes >= self.queue.max_bytes {
            state.has_gap = true;
            self.missing = Some(change.event_count() as u64);
            return;
        }
        state.push(Item::Change(time, change), bytes);
        self.wake(state);
    }

    /// Whether the recording waits for a state, at its beginning, after a gap and when it asks for one, and
    /// there is room for it; at the end there is.
    pub(crate) fn wants_state(&mut self, is_end: bool) -> bool {
        let is_asked = self.queue.wants_state.load(Ordering::Relaxed);
        if self.missing.is_none() && !is_asked {
            return false;
        }
        let state = lock(&self.queue.state);
        self.is_open = state.is_open();
        self.is_open && (is_end || state.bytes <= self.queue.max_bytes / RESUME_PART)
    }

    /// Hands over the state of the ledger to go on from.
    pub(crate) fn resume(&mut self, saved: &Arc<Vec<u8>>) {
        let missing_events = self.missing.take().unwrap_or(0);
        self.queue.wants_state.store(false, Ordering::Relaxed);
        let mut state = lock(&self.queue.state);
        state.has_gap = false;
        let item = Item::State {
            time: unix_nanos(),
            missing_events,
            state: Arc::clone(saved),
        };
        state.push(item, saved.len());
        self.wake(state);
    }

    fn wake(&self, mut state: MutexGuard<'_, State>) {
        let bytes = state.bytes;
        if state.wakes_at.take_if(|at| bytes >= *at).is_some() {
            drop(state);
            self.queue.arrived.notify_one();
        }
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.queue.end();
    }
}

/// About what a change takes while it waits.
fn change_bytes(change: &Change) -> usize {
    let definitions =
        |definitions: &[Definition]| definitions.iter().map(definition_bytes).sum::<usize>();
    let beside = match change {
        Change::Apply(batch) => size_of_val(batch.events()),
        Change::Define {
            definitions: them, ..
        } => definitions(them),
        Change::Resync { resync, .. } => resync.state.len() + definitions(&resync.definitions),
        Change::ConfigureDevice(_) => size_of::<DeviceFacts>(),
        Change::Join { identity, .. } => {
            identity.name.len() + identity.command.len() + identity.visible_devices.len()
        }
        _small => 0,
    };
    size_of::<Item>() + beside
}

fn wait<'a>(
    condition: &Condvar,
    state: MutexGuard<'a, State>,
    most: Duration,
) -> MutexGuard<'a, State> {
    let waited = condition.wait_timeout(state, most);
    waited.unwrap_or_else(PoisonError::into_inner).0
}
