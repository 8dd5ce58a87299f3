//! The bounded queues of the log, and the handle that fills them.
//!
//! Each output has one queue, so that a stalled reader of events does not delay errors. The ledger
//! thread and the sessions hand over figures and never wait: what finds no room is counted, and
//! the count takes its place in the log. Dumps are never lost, but of each kind only the newest is
//! kept waiting: a view holds on to a copy of everything, and one must be enough.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crossbeam_channel::{Receiver, Sender, bounded};
use ttmem_ledger::View;

use super::dumps::DumpKind;
use super::entry::{LogEntry, Note, is_error_at};
use super::threads::LogOptions;
use crate::clock::unix_nanos;
use crate::journal::NamedBatch;
use crate::lock;

#[derive(Debug, Clone, Copy)]
pub(super) struct QueueLimits {
    pub(super) messages: usize,
    /// Entries above which no further batch is accepted.
    pub(super) entries: usize,
}

/// The way into the log, for any thread.
#[derive(Debug, Clone)]
pub struct LogHandle {
    pub(super) events: Queue,
    pub(super) errors: Queue,
    pub(super) errors_in_events: bool,
    pub(crate) options: LogOptions,
}

#[derive(Debug, Clone)]
pub(super) struct Queue {
    max_entries: usize,
    pub(super) sender: Sender<Message>,
    pub(super) shared: Arc<Shared>,
}

/// What bypasses the queue, which may be full.
///
/// All accesses are relaxed: each field stands for itself, and the queue orders the messages.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) queued_entries: AtomicUsize,
    /// Lines that found no room and that no line has reported yet.
    pub(super) unreported: AtomicU64,
    /// Lines that were not written, since the start.
    pub(super) lost: AtomicU64,
    pub(super) reopen: AtomicBool,
    /// The thread waits for its output.
    pub(super) is_writing: AtomicBool,
    dumps: Mutex<PendingDumps>,
}

/// The newest view of each kind of dump that was asked for and not printed yet.
#[derive(Debug, Default)]
struct PendingDumps {
    last_request: u64,
    views: [Option<(u64, View)>; DumpKind::ALL.len()],
}

/// With the number of lines that were lost since the message before it.
pub(super) type Message = (u64, Body);

#[derive(Debug)]
pub(super) enum Body {
    Entries(Vec<LogEntry>),
    /// With how many of their events are to be written.
    Batches(Vec<NamedBatch>, usize),
    /// With its time in nanoseconds since the epoch.
    Note(u64, Note),
    /// The place of a dump, and its request; a newer one of its kind takes its view away.
    Dump(DumpKind, u64),
    /// Nothing but a reason to look at [`Shared`].
    Wake,
    Close,
}

impl Body {
    pub(super) fn entries(&self) -> usize {
        match self {
            Self::Entries(entries) => entries.len(),
            Self::Batches(_, count) => *count,
            Self::Note(..) | Self::Dump(..) | Self::Wake | Self::Close => 0,
        }
    }
}

impl LogHandle {
    /// Takes entries in their order, or counts them; never waits.
    pub fn entries(&self, entries: Vec<LogEntry>) {
        let errors = entries.iter().filter(|entry| entry.is_error());
        let errors: Vec<LogEntry> = errors.copied().collect();
        if !errors.is_empty() {
            self.errors.push(Body::Entries(errors));
        }
        self.events.push(Body::Entries(entries));
    }

    /// Takes batches with `count` events in their order, or counts them; never waits.
    pub(crate) fn batches(&self, batches: Vec<NamedBatch>, count: usize) {
        let errors = |named: &NamedBatch| {
            let anomalies = named.batch.anomalies.iter();
            let errors = anomalies.filter(|(index, _)| is_error_at(&named.batch, *index));
            errors.count()
        };
        let error_count = batches.iter().map(errors).sum();
        if error_count > 0 {
            let wrong = batches.iter().filter(|named| errors(named) > 0);
            let wrong = Body::Batches(wrong.cloned().collect(), error_count);
            self.errors.push(wrong);
        }
        self.events.push(Body::Batches(batches, count));
    }

    /// Takes a note, or counts it; never waits.
    pub fn note(&self, note: Note) {
        let time_nanos = unix_nanos();
        if note.is_error() {
            self.errors.push(Body::Note(time_nanos, note.clone()));
        }
        if self.errors_in_events || !note.is_error() {
            self.events.push(Body::Note(time_nanos, note));
        }
    }

    /// Takes what went wrong with the server itself, as a note.
    pub fn error(&self, reason: String) {
        self.note(Note::ServerFailed { reason });
    }

    /// Has a dump printed, in place of an earlier one of its kind that is still waiting.
    pub fn dump(&self, kind: DumpKind, view: View) {
        let (request, superseded) = {
            let mut dumps = lock(&self.events.shared.dumps);
            dumps.last_request += 1;
            let request = dumps.last_request;
            (request, dumps.views[kind as usize].replace((request, view)))
        };
        // Letting a large view go takes time: not under the lock.
        drop(superseded);
        // One that finds no room loses its place, and is printed when the queue is empty.
        self.events.try_send(Body::Dump(kind, request));
    }

    /// Counts entries that will never be written; the log reports them where they are missing.
    pub fn count_lost(&self, count: u64) {
        self.events.count_lost(count);
    }

    /// Reopens a log file by its path, as after an external rotation.
    pub fn reopen(&self) {
        self.events.shared.reopen.store(true, Ordering::Relaxed);
        self.events.wake();
    }

    /// Lines of events and errors that were not written, since the start.
    pub fn elided(&self) -> u64 {
        self.events.lost() + self.errors.lost()
    }
}

impl Queue {
    pub(super) fn new(limits: QueueLimits) -> (Self, Receiver<Message>) {
        let (sender, receiver) = bounded(limits.messages);
        let queue = Self {
            max_entries: limits.entries,
            sender,
            shared: Arc::default(),
        };
        (queue, receiver)
    }

    /// Takes what has lines, or counts them; never waits.
    pub(super) fn push(&self, body: Body) {
        let entries = body.entries();
        let queued = &self.shared.queued_entries;
        if entries > 0 && queued.load(Ordering::Relaxed) >= self.max_entries {
            return self.count_lost(entries as u64);
        }
        queued.fetch_add(entries, Ordering::Relaxed);
        if !self.try_send(body) {
            queued.fetch_sub(entries, Ordering::Relaxed);
            self.count_lost(entries.max(1) as u64);
        }
    }

    /// Queues a message; false if there is no room.
    fn try_send(&self, body: Body) -> bool {
        let unreported = &self.shared.unreported;
        // Reading before swapping keeps the usual case, no loss, from writing a shared line.
        let lost_before = match unreported.load(Ordering::Relaxed) {
            0 => 0,
            _ => unreported.swap(0, Ordering::Relaxed),
        };
        let is_queued = self.sender.try_send((lost_before, body)).is_ok();
        if !is_queued {
            unreported.fetch_add(lost_before, Ordering::Relaxed);
            self.wake();
        }
        is_queued
    }

    #[cold]
    fn count_lost(&self, lines: u64) {
        self.shared.lost.fetch_add(lines, Ordering::Relaxed);
        self.shared.unreported.fetch_add(lines, Ordering::Relaxed);
        self.wake();
    }

    /// Makes the thread look at the shared fields, which it may have done just too early.
    fn wake(&self) {
        // A full queue makes it look anyway.
        self.sender.try_send((0, Body::Wake)).ok();
    }

    pub(super) fn lost(&self) -> u64 {
        self.shared.lost.load(Ordering::Relaxed)
    }
}

impl Shared {
    /// The waiting view of a kind; of one request only, if one is given.
    pub(super) fn take_dump(&self, kind: DumpKind, request: Option<u64>) -> Option<View> {
        let mut dumps = lock(&self.dumps);
        let pending = &mut dumps.views[kind as usize];
        let wanted =
            pending.take_if(|(newest, _)| request.is_none_or(|request| request == *newest));
        wanted.map(|(_, view)| view)
    }
}

#[cfg(test)]
mod tests;
