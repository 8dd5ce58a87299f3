//! The thread that turns entries, notes and views into text for the log.
//!
//! The ledger thread and the sessions hand over figures through one bounded queue, so that the
//! log keeps their order, and never wait for it: what finds no room is counted, and the count
//! takes its place in the log. Dumps are never lost, but of each kind only the newest is kept
//! waiting: a view holds on to a copy of everything, and one must be enough.

use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, TryRecvError, TrySendError, bounded};
use ttmem_ledger::View;

use super::dumps::{DumpKind, render};
use super::entry::{LogEntry, Note, is_error, is_routine};
use super::format::LogFormat;
use super::json::{self, OwnLine};
use super::sink::LogHandle;
use super::{note, plain};
use crate::clock::unix_nanos;
use crate::journal::NamedBatch;

/// Text collected before it goes to the log although more is waiting, in bytes.
const BATCH_BYTES: usize = 64 << 10;

/// Batches of entries, notes and dumps that may wait.
const QUEUE_MESSAGES: usize = 4096;

/// Entries that may wait: some 16 megabytes, and a tenth of a second of a busy server.
const QUEUE_ENTRIES: usize = 1 << 17;

const NANOS_PER_MILLI: u64 = 1_000_000;

/// How a log looks and what it leaves out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ScribeOptions {
    /// How its lines look.
    pub format: LogFormat,
    /// Leave out events; errors, dumps and summaries stay.
    pub quiet: bool,
    /// Also show what programs and caches do all the time.
    pub verbose: bool,
}

/// A running scribe; closing or dropping it writes down what is queued.
#[derive(Debug)]
pub struct Scribe {
    handle: ScribeHandle,
    thread: Option<JoinHandle<()>>,
}

/// The way to the scribe, for any thread.
#[derive(Debug, Clone)]
pub struct ScribeHandle {
    sender: Sender<Message>,
    shared: Arc<Shared>,
}

/// What bypasses the queue, which may be full.
///
/// The counters are relaxed: each stands for itself, and the queue orders the entries.
#[derive(Debug, Default)]
struct Shared {
    queued_entries: AtomicUsize,
    /// Entries that found no room and that no line has mentioned yet.
    unmentioned: AtomicU64,
    /// Entries that found no room, over the scribe's life.
    elided: AtomicU64,
    dumps: Mutex<PendingDumps>,
}

/// The newest view of each kind of dump that was asked for and not printed yet.
#[derive(Debug, Default)]
struct PendingDumps {
    last_request: u64,
    views: [Option<(u64, View)>; DumpKind::ALL.len()],
}

#[derive(Debug)]
struct Message {
    /// Entries lost since the message before this one.
    lost_before: u64,
    body: Body,
}

#[derive(Debug)]
enum Body {
    Entries(Vec<LogEntry>),
    Batches {
        batches: Vec<NamedBatch>,
        /// Events in them.
        count: usize,
    },
    Note {
        time_nanos: u64,
        note: Note,
    },
    /// The place of a dump; a newer request of its kind takes its view away.
    Dump {
        kind: DumpKind,
        request: u64,
    },
    /// Nothing but a reason to look at [`Shared`].
    Wake,
    Close,
}

impl Scribe {
    /// Starts the thread, which writes to `log`.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub fn start(log: LogHandle, options: ScribeOptions) -> io::Result<Self> {
        let (handle, writer) = pair(log, options);
        let thread = std::thread::Builder::new()
            .name("log-scribe".to_owned())
            .spawn(move || writer.run())?;
        Ok(Self {
            handle,
            thread: Some(thread),
        })
    }

    /// A handle to give to a thread.
    #[must_use]
    pub fn handle(&self) -> ScribeHandle {
        self.handle.clone()
    }

    /// Hands everything that is queued to the log and ends the thread.
    ///
    /// Handles may outlive this: what they bring is counted.
    pub fn close(self) {
        drop(self);
    }
}

impl Drop for Scribe {
    fn drop(&mut self) {
        let message = Message {
            lost_before: 0,
            body: Body::Close,
        };
        // Waits only for the thread itself, which waits for nobody; it cannot have ended before.
        self.handle.sender.send(message).ok();
        if let Some(thread) = self.thread.take() {
            // A panic was reported by the thread itself.
            thread.join().ok();
        }
    }
}

/// Both ends of the queue.
fn pair(log: LogHandle, options: ScribeOptions) -> (ScribeHandle, Writer) {
    let (sender, receiver) = bounded(QUEUE_MESSAGES);
    let shared = Arc::new(Shared::default());
    let writer = Writer {
        receiver,
        shared: Arc::clone(&shared),
        log,
        options,
        started_nanos: unix_nanos(),
        batch: String::new(),
    };
    (ScribeHandle { sender, shared }, writer)
}

impl ScribeHandle {
    /// Takes entries in their order, or counts them; never waits.
    pub fn entries(&self, entries: Vec<LogEntry>) {
        self.queue(entries.len(), Body::Entries(entries));
    }

    /// Takes batches with `count` events in their order, or counts them; never waits.
    pub(crate) fn batches(&self, batches: Vec<NamedBatch>, count: usize) {
        self.queue(count, Body::Batches { batches, count });
    }

    fn queue(&self, count: usize, body: Body) {
        let queued = &self.shared.queued_entries;
        if queued.load(Ordering::Relaxed) >= QUEUE_ENTRIES {
            self.left_out(count as u64);
            return;
        }
        queued.fetch_add(count, Ordering::Relaxed);
        if !self.send(body) {
            queued.fetch_sub(count, Ordering::Relaxed);
            self.left_out(count as u64);
        }
    }

    /// Takes a note, or counts it; never waits.
    pub fn note(&self, note: Note) {
        let time_nanos = unix_nanos();
        if !self.send(Body::Note { time_nanos, note }) {
            self.left_out(1);
        }
    }

    /// Has a dump printed, in place of an earlier one of its kind that is still waiting.
    pub fn dump(&self, kind: DumpKind, view: View) {
        let (request, superseded) = {
            let mut dumps = self.shared.dumps();
            dumps.last_request += 1;
            let request = dumps.last_request;
            (request, dumps.views[kind as usize].replace((request, view)))
        };
        // Letting a large view go takes time: not under the lock.
        drop(superseded);
        if !self.send(Body::Dump { kind, request }) {
            // It lost its place in the order, and is printed when the queue is empty.
            self.wake();
        }
    }

    /// Entries and notes that were left out so far.
    #[must_use]
    pub fn elided(&self) -> u64 {
        self.shared.elided.load(Ordering::Relaxed)
    }

    /// Queues a message; false if there is no room.
    fn send(&self, body: Body) -> bool {
        let unmentioned = &self.shared.unmentioned;
        // Reading before swapping keeps the usual case, no loss, from writing a shared line.
        let lost_before = match unmentioned.load(Ordering::Relaxed) {
            0 => 0,
            _ => unmentioned.swap(0, Ordering::Relaxed),
        };
        match self.sender.try_send(Message { lost_before, body }) {
            Ok(()) => true,
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                unmentioned.fetch_add(lost_before, Ordering::Relaxed);
                false
            }
        }
    }

    /// Counts entries that will never be written; the log says so where they are missing.
    #[cold]
    pub fn left_out(&self, count: u64) {
        self.shared.elided.fetch_add(count, Ordering::Relaxed);
        self.shared.unmentioned.fetch_add(count, Ordering::Relaxed);
        self.wake();
    }

    /// Makes the thread look at the shared fields, which it may have done just too early.
    fn wake(&self) {
        let message = Message {
            lost_before: 0,
            body: Body::Wake,
        };
        self.sender.try_send(message).ok();
    }
}

impl Shared {
    fn dumps(&self) -> MutexGuard<'_, PendingDumps> {
        // Nothing under the lock can leave it half changed.
        self.dumps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The waiting view of a kind; of one request only, if one is given.
    fn take_dump(&self, kind: DumpKind, request: Option<u64>) -> Option<View> {
        let mut dumps = self.dumps();
        let pending = &mut dumps.views[kind as usize];
        let wanted =
            pending.take_if(|(newest, _)| request.is_none_or(|request| request == *newest));
        wanted.map(|(_, view)| view)
    }
}

/// What the scribe's thread owns.
struct Writer {
    receiver: Receiver<Message>,
    shared: Arc<Shared>,
    log: LogHandle,
    options: ScribeOptions,
    started_nanos: u64,
    batch: String,
}

impl Writer {
    fn run(mut self) {
        let mut is_open = true;
        while is_open {
            // Without a sender there is nobody left to close either.
            let Ok(message) = self.receiver.recv() else {
                break;
            };
            is_open = self.take(message);
            while is_open && self.batch.len() < BATCH_BYTES {
                match self.receiver.try_recv() {
                    Ok(message) => is_open = self.take(message),
                    Err(TryRecvError::Empty | TryRecvError::Disconnected) => {
                        self.catch_up();
                        break;
                    }
                }
            }
            self.hand_over();
        }
        self.catch_up();
        self.hand_over();
    }

    /// Writes down a message; false if it is the last one.
    fn take(&mut self, message: Message) -> bool {
        self.mention(message.lost_before);
        match message.body {
            Body::Entries(entries) => {
                self.unqueue(entries.len());
                for entry in &entries {
                    self.write_entry(entry);
                }
            }
            Body::Batches { batches, count } => {
                self.unqueue(count);
                for batch in &batches {
                    self.write_events(batch);
                }
            }
            Body::Note { time_nanos, note } => self.write_note(time_nanos, &note),
            Body::Dump { kind, request } => {
                if let Some(view) = self.shared.take_dump(kind, Some(request)) {
                    self.write_dump(kind, &view);
                }
            }
            Body::Wake => {}
            Body::Close => return false,
        }
        true
    }

    fn unqueue(&self, count: usize) {
        let queued = &self.shared.queued_entries;
        queued.fetch_sub(count, Ordering::Relaxed);
    }

    /// Prints what found no place in the queue.
    fn catch_up(&mut self) {
        let lost = self.shared.unmentioned.swap(0, Ordering::Relaxed);
        self.mention(lost);
        for kind in DumpKind::ALL {
            if let Some(view) = self.shared.take_dump(kind, None) {
                self.write_dump(kind, &view);
            }
        }
    }

    fn write_entry(&mut self, entry: &LogEntry) {
        let verbose = self.options.verbose;
        let uptime = entry.effect.time.saturating_sub(self.started_nanos);
        self.write(entry.is_error(), |out| {
            plain::write_entry(out, entry, uptime / NANOS_PER_MILLI, verbose);
        });
    }

    fn write_events(&mut self, NamedBatch { batch, names }: &NamedBatch) {
        for (place, event) in batch.events.iter().enumerate() {
            let anomaly = batch.anomaly(place);
            if anomaly.is_none() && !self.options.verbose && is_routine(&event.what) {
                continue;
            }
            let is_error = anomaly.is_some_and(|anomaly| is_error(anomaly, &event.what));
            let format = self.options.format;
            self.write(is_error, |out| match (format, anomaly) {
                (LogFormat::Json, _) => json::write_line(out, &batch.event(place, names)),
                (LogFormat::Plain, Some(anomaly)) => {
                    plain::write_refusal(out, batch.pid, anomaly, &event.what);
                }
                // Sound events come by their effects.
                (LogFormat::Plain, None) => {}
            });
        }
    }

    fn write_note(&mut self, time_nanos: u64, note: &Note) {
        let format = self.options.format;
        self.write(note.is_error(), |out| match format {
            LogFormat::Plain => note::write_note(out, note),
            LogFormat::Json => json::write_timed(out, time_nanos, note),
        });
    }

    /// Appends lines, unless they are to be left out; errors go their own way.
    fn write(&mut self, is_error: bool, write: impl FnOnce(&mut String)) {
        if is_error {
            self.hand_over();
            write(&mut self.batch);
            self.log.error(self.batch.as_str().to_owned());
            self.empty_batch();
        } else if !self.options.quiet {
            write(&mut self.batch);
            if self.batch.len() >= BATCH_BYTES {
                // One huge batch of entries becomes several of text.
                self.hand_over();
            }
        }
    }

    fn write_dump(&mut self, kind: DumpKind, view: &View) {
        let now = unix_nanos();
        let text = &render(kind, view, now);
        match self.options.format {
            LogFormat::Plain => self.batch.push_str(text),
            LogFormat::Json => {
                json::write_timed(&mut self.batch, now, &OwnLine::Dump { kind, text })
            }
        }
    }

    /// Says how much is missing here.
    fn mention(&mut self, entries: u64) {
        if entries == 0 {
            return;
        }
        let format = self.options.format;
        format.write_gap(&mut self.batch, entries, "the log cannot keep up");
    }

    fn hand_over(&mut self) {
        if !self.batch.is_empty() {
            // A copy of the right size: the log's queue counts text, not what buffers could hold.
            self.log.events(self.batch.as_str().to_owned());
            self.empty_batch();
        }
    }

    fn empty_batch(&mut self) {
        self.batch.clear();
        // One huge dump must not be paid for until the end.
        self.batch.shrink_to(2 * BATCH_BYTES);
    }
}

#[cfg(test)]
mod tests;
