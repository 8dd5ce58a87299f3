//! The thread that writes a recording.

use super::queue::Item;
use super::{Destination, OpenRecordingError, PreparedRecorder, Shared};
use crate::clock::unix_nanos;
use crate::lock;
use crate::log::{LogHandle, with_causes};
use nix::sys::signal::{SigSet, Signal};
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};
use ttmem_record::{Finished, WriteError, Writer, WriterOptions};

/// How often it looks while changes come, unless many do.
const TICK: Duration = Duration::from_millis(100);

/// What was collected is written after this: a crash of the server loses no more.
const FLUSH_AFTER: Duration = Duration::from_millis(800);

/// How often old files are looked for.
const TIDY_AFTER: Duration = Duration::from_mins(1);

#[derive(Debug, thiserror::Error)]
enum RecordError {
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error(transparent)]
    Open(#[from] OpenRecordingError),
}

type Sink = Box<dyn Write + Send>;

pub(super) struct RecorderThread {
    shared: Arc<Shared>,
    destination: Box<dyn Destination>,
    options: WriterOptions,
    log: Option<LogHandle>,
    wake: Box<dyn Fn() + Send>,
    writer: Option<Writer<Sink>>,
    /// What the file began with: a state, which may be large.
    first_bytes: u64,
    /// Since when something is collected that is not written.
    unwritten_since: Option<Instant>,
    /// Nothing can be written.
    broken: Option<Broken>,
    tidied: Instant,
}

/// A recording that cannot be written, and goes on in the next file when one can be.
#[derive(Debug)]
struct Broken {
    missing_events: u64,
    retry_at: Instant,
}

impl RecorderThread {
    pub(super) fn new(
        prepared: PreparedRecorder,
        log: Option<LogHandle>,
        wake: Box<dyn Fn() + Send>,
    ) -> Self {
        Self {
            shared: prepared.shared,
            destination: prepared.destination,
            options: prepared.options,
            log,
            wake,
            writer: None,
            first_bytes: 0,
            unwritten_since: None,
            broken: None,
            tidied: Instant::now(),
        }
    }

    pub(super) fn run(mut self) {
        // Also when this thread panics: nobody may wait for it then.
        let _closing = Closing(Arc::clone(&self.shared));
        // A file that may not grow is a write that fails, and no reason to die.
        let _unchanged = SigSet::from(Signal::SIGXFSZ).thread_block();
        if let Err(error) = self.record() {
            let path = self.destination.path().display();
            self.tell(format!(
                "the recording to {path} has ended: {}",
                with_causes(&error)
            ));
        }
    }

    fn record(&mut self) -> Result<(), RecordError> {
        // It begins with a state, for which the ledger thread may have to be woken.
        let mut has_gap = true;
        loop {
            let is_busy = self.unwritten_since.is_some() || has_gap;
            let most = match &self.broken {
                _ if is_busy => TICK,
                Some(broken) => broken.retry_at.saturating_duration_since(Instant::now()),
                None => TIDY_AFTER,
            };
            let taken = self.shared.queue.take(is_busy, most);
            for item in taken.items {
                match self.write(item) {
                    Err(RecordError::Write(WriteError::Full)) if self.writer.is_some() => {
                        return self.finish_full();
                    }
                    Err(error) => self.interrupt(error)?,
                    Ok(()) => {}
                }
            }
            if self.writer.as_ref().is_some_and(Writer::is_over) {
                return self.finish();
            }
            let is_due = |since: Instant| since.elapsed() >= FLUSH_AFTER;
            if self.unwritten_since.is_some_and(is_due) {
                match self.flush() {
                    Err(RecordError::Write(WriteError::Full)) => return self.finish_full(),
                    Err(error) => self.interrupt(error)?,
                    Ok(()) => {}
                }
            }
            if self.tidied.elapsed() >= TIDY_AFTER {
                self.tidy();
            }
            if taken.ended {
                return self.finish();
            }
            let now = Instant::now();
            let tries = self.broken.as_ref().is_some_and(|it| now >= it.retry_at);
            let wants_state = tries || self.writer.as_ref().is_some_and(Writer::wants_state);
            if wants_state {
                self.shared.queue.request_state();
            }
            has_gap = taken.has_gap || wants_state;
            if has_gap {
                (self.wake)();
            }
        }
    }

    /// Nothing can be written any more: for good, or until the next file can be.
    fn interrupt(&mut self, error: RecordError) -> Result<(), RecordError> {
        let Some(retry_after) = self.destination.retry_after() else {
            return Err(error);
        };
        let mut missing_events = 0;
        if let Some(writer) = self.writer.take() {
            missing_events = writer.unwritten_events();
            self.destination.ended(writer.summary(), writer.bytes());
        } else {
            self.destination.abandon();
        }
        self.unwritten_since = None;
        let retry_at = Instant::now() + retry_after;
        let is_new = self.broken.is_none();
        let broken = self.broken.get_or_insert(Broken {
            missing_events: 0,
            retry_at,
        });
        broken.missing_events += missing_events;
        broken.retry_at = retry_at;
        if is_new {
            let path = self.destination.path().display();
            let causes = with_causes(&error);
            self.tell(format!(
                "the recording to {path} is interrupted, and goes on when it can: {causes}"
            ));
        }
        self.show_files();
        Ok(())
    }

    /// Says what became of the recording, once, and in every snapshot.
    fn tell(&self, reason: String) {
        if let Some(log) = &self.log {
            log.error(reason.clone());
        }
        *lock(&self.shared.failure) = Some(reason);
    }

    fn write(&mut self, item: Item) -> Result<(), RecordError> {
        if let (Some(broken), Item::Change(_time, change)) = (&mut self.broken, &item) {
            broken.missing_events += change.event_count() as u64;
            return Ok(());
        }
        match item {
            Item::Change(time, change) => {
                // Nothing comes before the first state.
                let Some(writer) = &mut self.writer else {
                    return Ok(());
                };
                writer.append(time, &change)?;
                self.unwritten_since.get_or_insert_with(Instant::now);
                self.rotate_if_full(time)
            }
            Item::State {
                time,
                missing_events,
                state,
            } => {
                match &mut self.writer {
                    Some(writer) => {
                        writer.gap(time, missing_events, &state)?;
                        writer.flush()?;
                    }
                    None => {
                        let out = self.begin(time)?;
                        let options = self.options.clone();
                        let mut writer = Writer::from_state(out, options, time, &state)?;
                        if let Some(broken) = &self.broken {
                            let missing = broken.missing_events + missing_events;
                            writer.note_missing(missing)?;
                        }
                        writer.flush()?;
                        self.first_bytes = writer.bytes();
                        self.writer = Some(writer);
                        self.mended();
                    }
                }
                Ok(())
            }
            Item::Flush(request) => {
                let flushed = self.flush();
                self.shared.queue.note_flushed(request);
                flushed
            }
        }
    }

    /// What was interrupted goes on.
    fn mended(&mut self) {
        let Some(broken) = self.broken.take() else {
            return;
        };
        *lock(&self.shared.failure) = None;
        if let Some(log) = &self.log {
            let (path, missing) = (self.destination.path().display(), broken.missing_events);
            log.error(format!(
                "the recording to {path} goes on; {missing} events are missing"
            ));
        }
    }

    fn flush(&mut self) -> Result<(), RecordError> {
        self.unwritten_since = None;
        if let Some(writer) = &mut self.writer {
            writer.flush()?;
        }
        Ok(())
    }

    fn begin(&mut self, time: u64) -> Result<Sink, RecordError> {
        let out = self.destination.begin(time)?;
        self.show_files();
        Ok(out)
    }

    fn rotate_if_full(&mut self, time: u64) -> Result<(), RecordError> {
        let Some(writer) = &self.writer else {
            return Ok(());
        };
        let age = Duration::from_nanos(time.saturating_sub(writer.summary().from));
        // Not for its state alone, which the next file begins with as well.
        let has_grown = writer.bytes() >= 2 * self.first_bytes;
        let is_full = has_grown && self.destination.is_full(writer.bytes(), age);
        if !is_full || !writer.ledger().can_save() {
            return Ok(());
        }
        // What is collected is written first: an error leaves the writer where its figures are found.
        self.flush()?;
        let Some(writer) = self.writer.take() else {
            return Ok(());
        };
        let (summary, bytes) = (writer.summary().clone(), writer.bytes());
        let finished = writer.finish();
        let bytes = finished.as_ref().map_or(bytes, |finished| finished.bytes);
        self.destination.ended(&summary, bytes);
        let finished = finished?;
        let out = self.begin(time)?;
        let options = self.options.clone();
        let writer = Writer::after(out, options, time, finished)?;
        self.first_bytes = writer.bytes();
        self.writer = Some(writer);
        self.unwritten_since = None;
        self.tidy();
        Ok(())
    }

    fn tidy(&mut self) {
        let current = self.writer.as_ref();
        let current = current.map(|writer| (writer.summary(), writer.bytes()));
        self.destination.tidy(unix_nanos(), current);
        self.tidied = Instant::now();
        self.show_files();
    }

    fn show_files(&self) {
        *lock(&self.shared.files) = self.destination.files();
    }

    fn finish(&mut self) -> Result<(), RecordError> {
        match self.flush() {
            Err(RecordError::Write(WriteError::Full)) => self.end_with(Writer::finish_full),
            flushed => {
                flushed?;
                self.end_with(Writer::finish)
            }
        }
    }

    /// Ends a recording that has as many bytes as it may have.
    fn finish_full(&mut self) -> Result<(), RecordError> {
        self.end_with(Writer::finish_full)
    }

    fn end_with(
        &mut self,
        finish: fn(Writer<Sink>) -> Result<Finished<Sink>, WriteError>,
    ) -> Result<(), RecordError> {
        if let Some(writer) = self.writer.take() {
            let finished = finish(writer)?;
            self.destination.ended(&finished.summary, finished.bytes);
        }
        Ok(())
    }
}

/// Closes the queue when the thread ends.
struct Closing(Arc<Shared>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.queue.close();
    }
}
