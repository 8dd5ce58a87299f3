//! The thread of one output: it turns entries, notes and views into text and writes that.
//!
//! Text that the output refuses is counted by line, and a notice with the count takes its place as
//! soon as text gets through again.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crossbeam_channel::Receiver;
use ttmem_ledger::View;

use super::dumps::{DUMP_LIMIT, DumpKind, render};
use super::entry::{LogEntry, Note, is_error_at, is_routine};
use super::output::Output;
use super::queue::{Body, Message, Queue, Shared};
use super::threads::{LogFormat, LogOptions};
use super::{json, note, plain};
use crate::clock::unix_nanos;
use crate::journal::NamedBatch;

/// Text collected before it is written although more is waiting, in bytes.
const BATCH_BYTES: usize = 64 << 10;

const NANOS_PER_MILLI: u64 = 1_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Filter {
    Everything,
    Events,
    Errors,
}

pub(super) struct Writer {
    receiver: Receiver<Message>,
    shared: Arc<Shared>,
    pub(super) output: Output,
    filter: Filter,
    options: LogOptions,
    /// Where failures of the output are reported; those of the error stream have no such place.
    reports: Option<Queue>,
    started_nanos: u64,
    batch: String,
    failure: Option<Failure>,
}

/// An output that refused text and has not accepted any since.
struct Failure {
    reason: String,
    lost_lines: u64,
    /// The last line that got out lacks its end.
    inside_line: bool,
}

impl Writer {
    pub(super) fn new(
        (queue, receiver): (&Queue, Receiver<Message>),
        output: Output,
        filter: Filter,
        options: LogOptions,
        reports: Option<Queue>,
    ) -> Self {
        Self {
            receiver,
            shared: Arc::clone(&queue.shared),
            output,
            filter,
            options,
            reports,
            started_nanos: unix_nanos(),
            batch: String::new(),
            failure: None,
        }
    }

    pub(super) fn run(mut self) {
        // Without a sender there is nobody left to close either.
        while let Ok(message) = self.receiver.recv() {
            if !self.write_batch(message) {
                break;
            }
        }
        self.catch_up();
        self.write_out();
    }

    /// Writes down a message and what else is waiting, up to a batch; false if one is the last.
    pub(super) fn write_batch(&mut self, message: Message) -> bool {
        let mut is_open = self.handle(message);
        while is_open && self.batch.len() < BATCH_BYTES {
            let Ok(message) = self.receiver.try_recv() else {
                self.catch_up();
                break;
            };
            is_open = self.handle(message);
        }
        self.write_out();
        is_open
    }

    fn handle(&mut self, (lost_before, body): Message) -> bool {
        self.write_lost(lost_before);
        let queued = &self.shared.queued_entries;
        queued.fetch_sub(body.entries(), Ordering::Relaxed);
        match body {
            Body::Entries(entries) => entries.iter().for_each(|entry| self.write_entry(entry)),
            Body::Batches(batches, _count) => {
                batches.iter().for_each(|batch| self.write_events(batch));
            }
            Body::Note(time_nanos, note) => self.write_note(time_nanos, &note),
            Body::Dump(kind, request) => {
                if let Some(view) = self.shared.take_dump(kind, Some(request)) {
                    self.write_dump(kind, &view);
                }
            }
            Body::Wake => {}
            Body::Close => return false,
        }
        true
    }

    /// Prints what found no place in the queue.
    fn catch_up(&mut self) {
        let lost = self.shared.unreported.swap(0, Ordering::Relaxed);
        self.write_lost(lost);
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
        for (index, event) in batch.events.iter().enumerate() {
            let is_shown = self.options.verbose || !is_routine(&event.kind);
            if is_shown || batch.anomaly(index).is_some() {
                self.write(is_error_at(batch, index), |out| {
                    json::write_line(out, &batch.event(index, names));
                });
            }
        }
    }

    fn write_note(&mut self, time_nanos: u64, note: &Note) {
        let format = self.options.format;
        self.write(note.is_error(), |out| {
            append_note(out, format, time_nanos, note);
        });
    }

    /// Appends lines, unless this output is to leave them out.
    fn write(&mut self, is_error: bool, write: impl FnOnce(&mut String)) {
        let is_wanted = match self.filter {
            Filter::Everything => is_error || !self.options.quiet,
            Filter::Events => !is_error && !self.options.quiet,
            Filter::Errors => is_error,
        };
        if is_wanted {
            write(&mut self.batch);
            if self.batch.len() >= BATCH_BYTES {
                // One huge batch of entries becomes several of text.
                self.write_out();
            }
        }
    }

    fn write_dump(&mut self, kind: DumpKind, view: &View) {
        let now = unix_nanos();
        let text = render(kind, view, now, DUMP_LIMIT);
        let dump = Note::Dump { kind, text };
        append_note(&mut self.batch, self.options.format, now, &dump);
    }

    /// Reports how much is missing here.
    fn write_lost(&mut self, lines: u64) {
        if lines > 0 {
            let reason = "they came faster than they could be written";
            append_gap(&mut self.batch, self.options.format, lines, reason);
        }
    }

    fn write_out(&mut self) {
        if self.shared.reopen.swap(false, Ordering::Relaxed)
            && let Err(error) = self.output.reopen()
        {
            self.report(format!("cannot reopen the log: {}", with_causes(&error)));
        }
        if self.batch.is_empty() {
            return;
        }
        let batch = std::mem::take(&mut self.batch);
        self.shared.is_writing.store(true, Ordering::Relaxed);
        self.write_text(batch.as_bytes());
        self.shared.is_writing.store(false, Ordering::Relaxed);
        self.batch = batch;
        self.batch.clear();
        // One huge dump must not be paid for until the end.
        self.batch.shrink_to(2 * BATCH_BYTES);
    }

    fn write_text(&mut self, text: &[u8]) {
        if let Some(failure) = &mut self.failure {
            let mut notice = String::new();
            if failure.inside_line {
                notice.push('\n');
            }
            let format = self.options.format;
            append_gap(&mut notice, format, failure.lost_lines, &failure.reason);
            if let Err(again) = self.output.write_all(notice.as_bytes()) {
                let lines = line_count(text);
                failure.lost_lines += lines;
                failure.inside_line |= again.written > 0;
                self.shared.lost.fetch_add(lines, Ordering::Relaxed);
                return;
            }
            self.failure = None;
        }
        if let Err(new) = self.output.write_all(text) {
            let (written, rest) = text.split_at(new.written.min(text.len()));
            let lost_lines = line_count(rest);
            self.shared.lost.fetch_add(lost_lines, Ordering::Relaxed);
            let reason = with_causes(&new.source);
            self.report(format!(
                "cannot write the log to {}: {reason}; lines are lost until that ends",
                self.output.name,
            ));
            let inside_line = written.last().is_some_and(|&byte| byte != b'\n');
            self.failure = Some(Failure {
                reason,
                lost_lines,
                inside_line,
            });
        }
    }

    fn report(&self, reason: String) {
        if let Some(reports) = &self.reports {
            reports.push(Body::Note(unix_nanos(), Note::LogFailed { reason }));
        }
    }
}

fn append_note(out: &mut String, format: LogFormat, time_nanos: u64, note: &Note) {
    match format {
        LogFormat::Plain => note::write_note(out, note),
        LogFormat::Json => json::write_note(out, time_nanos, note),
    }
}

fn append_gap(out: &mut String, format: LogFormat, lines: u64, reason: &str) {
    let reason = reason.to_owned();
    append_note(out, format, unix_nanos(), &Note::LogGap { lines, reason });
}

fn line_count(text: &[u8]) -> u64 {
    text.iter().filter(|&&byte| byte == b'\n').count() as u64
}

/// An error and what caused it, on one line.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
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
