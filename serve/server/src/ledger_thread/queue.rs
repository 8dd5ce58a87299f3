//! The queue between those who have commands and the ledger thread.
//!
//! Nobody waits for room: who pushes learns that a lane is full, reads no more for it, and is
//! woken when there is room again. So a sender waits for what it sent itself, and for nobody else.

use super::command::{Command, ProcessNumber, SessionNumber};
use super::latency::LatencyCounts;
use super::turns::{Class, Turns};
use crate::lock;
use crossbeam_channel::Sender;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use ttmem_ledger::Holder;

/// Whose commands are done in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Lane {
    /// Readers and signals.
    Control,
    /// All connections of a process.
    Process(ProcessNumber),
    /// Connections of a process that has reported nothing: it only asks.
    Asker(u32),
    /// A connection whose process cannot be seen, and that has reported nothing.
    Session(SessionNumber),
}

impl Lane {
    fn class(self) -> Class {
        match self {
            Self::Control => Class::Control,
            Self::Process(_) | Self::Asker(_) | Self::Session(_) => Class::Living,
        }
    }
}

/// What became of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Pushed {
    Queued,
    /// Queued, but nothing more should be read for its lane until it is [resumed](Feedback).
    Full,
    /// The ledger thread has ended.
    Ended,
}

/// What the ledger thread did that concerns those who push.
#[derive(Debug, Default)]
pub(crate) struct Feedback {
    /// Lanes that were full and have room again.
    pub(crate) resumed: Vec<Lane>,
    /// Segments of dead processes that are closed.
    pub(crate) closed_segments: Vec<(Holder, usize)>,
}

/// A command in its lane, and since when it is there.
#[derive(Debug)]
struct Waiting {
    command: Command,
    since: Option<Instant>,
}

#[derive(Debug, Default)]
struct State {
    turns: Turns<Lane, Waiting>,
    /// Since when the command in hand waited, if it is of a process.
    in_hand: Option<Instant>,
    latency: LatencyCounts,
    feedback: Feedback,
    /// A reader waits for a view: the thread looks for that by itself while it is busy.
    view_requested: bool,
    stopping: bool,
    ended: bool,
    /// Whether the thread waits: waking it costs a system call.
    is_waiting: bool,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    /// Wakes those who read for lanes.
    wake: Arc<OwnedFd>,
}

/// The end of those who have commands.
#[derive(Clone, Debug)]
pub(crate) struct Commands(Arc<Shared>);

/// The ledger thread's end; when it is dropped the others find that it has ended.
#[derive(Debug)]
pub(crate) struct Queue(Arc<Shared>);

pub(crate) fn queue(wake: Arc<OwnedFd>) -> (Commands, Queue) {
    let shared = Arc::new(Shared {
        state: Mutex::default(),
        changed: Condvar::new(),
        wake,
    });
    (Commands(Arc::clone(&shared)), Queue(shared))
}

impl Commands {
    pub(super) fn push(&self, lane: Lane, command: Command) -> Pushed {
        let mut state = lock(&self.0.state);
        if state.ended || state.stopping {
            return Pushed::Ended;
        }
        let full = state.push(lane, command);
        self.notify(state);
        if full { Pushed::Full } else { Pushed::Queued }
    }

    /// Replies when all that waits in any lane is done; false when the thread has ended.
    pub(super) fn push_to_all(&self, reply: Sender<()>) -> bool {
        let mut state = lock(&self.0.state);
        if state.ended || state.stopping {
            return false;
        }
        let reply = Arc::new(reply);
        for lane in state.turns.active() {
            state.push(lane, Command::Pass(Arc::clone(&reply)));
        }
        // At least one: it replies when nothing else is to do.
        state.push(Lane::Control, Command::Pass(reply));
        self.notify(state);
        true
    }

    pub(super) fn room(&self, lane: Lane) -> usize {
        lock(&self.0.state).turns.room(lane)
    }

    pub(super) fn retire(&self, lane: Lane) {
        lock(&self.0.state).turns.retire(lane);
    }

    pub(super) fn request_view(&self) {
        let mut state = lock(&self.0.state);
        state.view_requested = true;
        self.notify(state);
    }

    pub(super) fn stop(&self) {
        let mut state = lock(&self.0.state);
        state.stopping = true;
        self.notify(state);
    }

    fn notify(&self, state: MutexGuard<'_, State>) {
        let is_waiting = state.is_waiting;
        drop(state);
        if is_waiting {
            self.0.changed.notify_one();
        }
    }

    pub(super) fn latency(&self) -> LatencyCounts {
        lock(&self.0.state).latency
    }

    pub(super) fn take_feedback(&self) -> Feedback {
        std::mem::take(&mut lock(&self.0.state).feedback)
    }
}

impl State {
    fn push(&mut self, lane: Lane, command: Command) -> bool {
        let bytes = command.memory_bytes();
        // Only processes end by being told to: that they are gone is known.
        let ends = !matches!(lane, Lane::Process(_));
        let since = matches!(command, Command::Process(..)).then(Instant::now);
        let waiting = Waiting { command, since };
        self.turns.push(lane, lane.class(), ends, waiting, bytes)
    }
}

impl Queue {
    /// The next command of whose turn it is, and how many units it may use before it gives way.
    pub(crate) fn next(&self) -> Option<(Command, u64)> {
        let mut state = lock(&self.0.state);
        let (_lane, Waiting { command, since }, budget) = state.turns.next()?;
        state.in_hand = since;
        Some((command, budget))
    }

    /// The command in hand cost so much; what is left of it is done in its lane's next turn.
    ///
    /// True if somebody is to be woken.
    pub(crate) fn done(&self, units: u64, rest: Option<Command>) -> bool {
        let mut state = lock(&self.0.state);
        let since = state.in_hand.take();
        if let (Some(since), None) = (since, &rest) {
            state.latency.add(since.elapsed());
        }
        let rest = rest.map(|command| Waiting { command, since });
        let resumed = state.turns.done(units, rest);
        state.feedback.resumed.extend(resumed);
        resumed.is_some()
    }

    pub(super) fn close_segments(&self, holder: Holder, count: usize) {
        let closed = (holder, count);
        lock(&self.0.state).feedback.closed_segments.push(closed);
    }

    /// Waits until there may be something to do.
    pub(crate) fn wait(&self) {
        let mut state = lock(&self.0.state);
        state.is_waiting = true;
        while state.is_idle() {
            state = wait(&self.0.changed, state);
        }
        state.is_waiting = false;
        state.view_requested = false;
    }

    pub(crate) fn is_stopping(&self) -> bool {
        lock(&self.0.state).stopping
    }

    pub(crate) fn wake(&self) {
        // The counter of an eventfd cannot fill up by ones; a failure means it is closed.
        let _closed = rustix::io::write(self.0.wake.as_ref(), &1_u64.to_ne_bytes());
    }

    /// Reports that still wait, and of how many processes.
    pub(super) fn left_over(&self) -> (usize, usize) {
        let state = lock(&self.0.state);
        let mut reports = 0;
        let mut processes = std::collections::HashSet::new();
        for (lane, waiting) in state.turns.waiting() {
            let count = waiting.command.reports();
            reports += count;
            if count > 0 {
                processes.insert(lane);
            }
        }
        (reports, processes.len())
    }
}

impl State {
    fn is_idle(&self) -> bool {
        !self.view_requested && !self.stopping && self.turns.is_idle()
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.ended = true;
        // Who waits for a reply finds that there is none.
        state.turns = Turns::default();
    }
}

fn wait<'a>(changed: &Condvar, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
    changed.wait(state).unwrap_or_else(PoisonError::into_inner)
}
