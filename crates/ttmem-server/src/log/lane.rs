//! A bounded queue of log text and the thread that writes it out.
//!
//! The log has two lanes, events and errors, so that a stalled reader of the one does not delay
//! the other. Any thread may push; none ever waits for the reader behind the output. Text that
//! finds the queue full, or that the output refuses, is counted by line, and a notice with the
//! count takes its place as soon as text gets through again.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};

use super::format::LogFormat;
use super::output::Output;

/// Text collected before it is written although more is waiting, in bytes.
const BATCH_BYTES: usize = 64 << 10;

/// What a queue holds at most.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Blocks of text.
    pub(super) blocks: usize,
    /// Bytes of text above which no further block is taken.
    pub(super) bytes: usize,
}

/// The sending side of a lane.
#[derive(Debug, Clone)]
pub(super) struct Lane {
    sender: Sender<Message>,
    shared: Arc<Shared>,
}

/// The right to end a lane.
#[derive(Debug)]
pub(super) struct LaneThread {
    lane: Lane,
    /// Disconnected by the thread's end; nothing is ever sent.
    finished: Receiver<()>,
}

/// What became of pushed text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pushed {
    /// It is queued.
    Queued,
    /// It was counted instead: the queue is full.
    Counted,
    /// It was counted instead: the lane was closed before.
    Closed,
}

/// Counters and requests that bypass the queue, which may be full.
///
/// All accesses are relaxed: each field stands for itself, and the queue orders the text.
#[derive(Debug)]
struct Shared {
    limits: Limits,
    queued_bytes: AtomicUsize,
    /// Lines that found no room and that no notice has mentioned yet.
    unmentioned_lines: AtomicU64,
    /// Lines that were not written, over the lane's life.
    lost_lines: AtomicU64,
    reopen_requested: AtomicBool,
}

#[derive(Debug)]
enum Message {
    Text {
        /// Lines lost since the text before this one.
        lost_before: u64,
        text: String,
    },
    /// Nothing but a reason to look at [`Shared`].
    Wake,
    Flush(Sender<()>),
    Close,
}

/// Starts a lane's thread; `report` receives the one-line account of each new output failure.
pub(super) fn start(
    thread_name: &str,
    limits: Limits,
    output: Output,
    format: LogFormat,
    report: impl Fn(String) + Send + 'static,
) -> io::Result<LaneThread> {
    let (sender, receiver) = bounded(limits.blocks);
    let (finish, finished) = bounded(0);
    let shared = Arc::new(Shared {
        limits,
        queued_bytes: AtomicUsize::new(0),
        unmentioned_lines: AtomicU64::new(0),
        lost_lines: AtomicU64::new(0),
        reopen_requested: AtomicBool::new(false),
    });
    let writer = Writer {
        receiver,
        shared: Arc::clone(&shared),
        output,
        format,
        report,
        batch: String::new(),
        flushers: Vec::new(),
        closing: false,
        failure: None,
    };
    std::thread::Builder::new()
        .name(thread_name.to_owned())
        .spawn(move || {
            writer.run();
            drop(finish);
        })?;
    Ok(LaneThread {
        lane: Lane { sender, shared },
        finished,
    })
}

impl Lane {
    /// Queues complete lines, or counts them; never waits.
    pub(super) fn push(&self, mut text: String) -> Pushed {
        if text.is_empty() {
            return Pushed::Queued;
        }
        if !text.ends_with('\n') {
            text.push('\n');
        }
        let shared = &*self.shared;
        if shared.queued_bytes.load(Ordering::Relaxed) >= shared.limits.bytes {
            self.count(0, &text);
            return Pushed::Counted;
        }
        // Reading before swapping keeps the usual case, no loss, from writing a shared line.
        let lost_before = match shared.unmentioned_lines.load(Ordering::Relaxed) {
            0 => 0,
            _ => shared.unmentioned_lines.swap(0, Ordering::Relaxed),
        };
        let length = text.len();
        shared.queued_bytes.fetch_add(length, Ordering::Relaxed);
        let (refused, outcome) = match self.sender.try_send(Message::Text { lost_before, text }) {
            Ok(()) => return Pushed::Queued,
            Err(TrySendError::Full(refused)) => (refused, Pushed::Counted),
            Err(TrySendError::Disconnected(refused)) => (refused, Pushed::Closed),
        };
        shared.queued_bytes.fetch_sub(length, Ordering::Relaxed);
        if let Message::Text { lost_before, text } = refused {
            self.count(lost_before, &text);
        }
        outcome
    }

    #[cold]
    fn count(&self, lost_before: u64, text: &str) {
        let lines = line_count(text.as_bytes());
        self.shared.lost_lines.fetch_add(lines, Ordering::Relaxed);
        self.shared
            .unmentioned_lines
            .fetch_add(lines + lost_before, Ordering::Relaxed);
        // The writer may have emptied the queue meanwhile and gone to sleep.
        self.wake();
    }

    /// Makes the writer look at the shared fields; a full queue makes it do so anyway.
    fn wake(&self) {
        self.sender.try_send(Message::Wake).ok();
    }

    /// Asks for the output to be opened anew, before anything else is written.
    pub(super) fn reopen(&self) {
        self.shared.reopen_requested.store(true, Ordering::Relaxed);
        self.wake();
    }

    /// Waits until what was pushed before is written or given up; false if that takes too long.
    pub(super) fn flush(&self, deadline: Instant) -> bool {
        let (done, written) = bounded(1);
        self.sender
            .send_deadline(Message::Flush(done), deadline)
            .is_ok()
            && written.recv_deadline(deadline).is_ok()
    }

    /// Lines that were not written so far.
    pub(super) fn lost_lines(&self) -> u64 {
        self.shared.lost_lines.load(Ordering::Relaxed)
    }
}

impl LaneThread {
    pub(super) fn lane(&self) -> &Lane {
        &self.lane
    }

    /// Has everything written that was pushed before, then ends the thread.
    ///
    /// A thread that is stuck in its output after `wait` is left behind: it cannot be stopped,
    /// and the server's end must not depend on it.
    pub(super) fn close(&self, wait: Duration) {
        let deadline = Instant::now() + wait;
        if self
            .lane
            .sender
            .send_deadline(Message::Close, deadline)
            .is_ok()
        {
            // An error either way: disconnected by the thread's end, or timed out.
            self.finished.recv_deadline(deadline).ok();
        }
    }
}

/// What the lane's thread owns.
struct Writer<R> {
    receiver: Receiver<Message>,
    shared: Arc<Shared>,
    output: Output,
    format: LogFormat,
    report: R,
    batch: String,
    flushers: Vec<Sender<()>>,
    closing: bool,
    failure: Option<Failure>,
}

/// An output that refused text and has not taken any since.
struct Failure {
    reason: String,
    lost_lines: u64,
    /// The last line that got out lacks its end.
    inside_line: bool,
}

impl<R: Fn(String)> Writer<R> {
    fn run(mut self) {
        loop {
            let message = if self.closing {
                self.receiver.try_recv().ok()
            } else {
                self.receiver.recv().ok()
            };
            let Some(message) = message else { return };
            self.take(message);
            self.collect();
            self.write_batch();
            for flusher in self.flushers.drain(..) {
                // Its sender may have stopped waiting.
                flusher.try_send(()).ok();
            }
        }
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Text { lost_before, text } => {
                self.shared
                    .queued_bytes
                    .fetch_sub(text.len(), Ordering::Relaxed);
                self.mention(lost_before);
                self.batch.push_str(&text);
            }
            Message::Wake => {}
            Message::Flush(done) => self.flushers.push(done),
            Message::Close => self.closing = true,
        }
    }

    /// Adds what else is waiting, up to the size of a batch.
    fn collect(&mut self) {
        while self.batch.len() < BATCH_BYTES {
            match self.receiver.try_recv() {
                Ok(message) => self.take(message),
                Err(_) => {
                    let lines = self.shared.unmentioned_lines.swap(0, Ordering::Relaxed);
                    self.mention(lines);
                    return;
                }
            }
        }
    }

    /// Puts the notice of a gap into the batch.
    fn mention(&mut self, lines: u64) {
        if lines > 0 {
            let reason = "the log's reader is too slow";
            self.format.write_gap(&mut self.batch, lines, reason);
        }
    }

    fn write_batch(&mut self) {
        if self.shared.reopen_requested.swap(false, Ordering::Relaxed)
            && let Err(error) = self.output.reopen()
        {
            (self.report)(format!("cannot reopen the log: {}", with_causes(&error)));
        }
        if self.batch.is_empty() {
            return;
        }
        let batch = std::mem::take(&mut self.batch);
        self.write(batch.as_bytes());
        self.batch = batch;
        self.batch.clear();
        // One huge block must not be paid for until the end.
        self.batch.shrink_to(2 * BATCH_BYTES);
    }

    fn write(&mut self, text: &[u8]) {
        if let Some(failure) = &mut self.failure {
            let mut notice = String::new();
            if failure.inside_line {
                notice.push('\n');
            }
            self.format
                .write_gap(&mut notice, failure.lost_lines, &failure.reason);
            if let Err(again) = self.output.write_all(notice.as_bytes()) {
                let lines = line_count(text);
                failure.lost_lines += lines;
                failure.inside_line |= again.written > 0;
                self.shared.lost_lines.fetch_add(lines, Ordering::Relaxed);
                return;
            }
            self.failure = None;
        }
        if let Err(new) = self.output.write_all(text) {
            let (written, rest) = text.split_at(new.written.min(text.len()));
            let lost_lines = line_count(rest);
            self.shared
                .lost_lines
                .fetch_add(lost_lines, Ordering::Relaxed);
            let reason = with_causes(&new.source);
            (self.report)(format!(
                "cannot write the log to {}: {reason}; lines are lost until that ends",
                self.output.name(),
            ));
            let inside_line = written.last().is_some_and(|&byte| byte != b'\n');
            self.failure = Some(Failure {
                reason,
                lost_lines,
                inside_line,
            });
        }
    }
}

fn line_count(text: &[u8]) -> u64 {
    let lines = text.iter().filter(|&&byte| byte == b'\n').count();
    u64::try_from(lines).unwrap_or(u64::MAX)
}

/// An error and what caused it, on one line.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests;
