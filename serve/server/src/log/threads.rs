//! The log's outputs and the threads that write them.
//!
//! Events go to standard output or to a log file; errors go to standard error and, if there is
//! one, to the log file as well. `main` starts and closes the [`Log`]; every thread that
//! logs holds a [`LogHandle`].

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};

use super::output::{LogFileOptions, OpenLogFileError, Output};
use super::queue::{Body, LogHandle, Queue, QueueLimits};
use super::writer::{Filter, Writer};

/// How long closing waits for a slow reader at most.
const CLOSE_WAIT: Duration = Duration::from_secs(2);

/// Some 16 megabytes: a burst of a busy server while a terminal scrolls.
pub(super) const EVENT_LIMITS: QueueLimits = QueueLimits {
    messages: 4096,
    entries: 1 << 17,
};

/// Errors are rare; a flood of them is one error repeated.
const ERROR_LIMITS: QueueLimits = QueueLimits {
    messages: 1024,
    entries: 1 << 13,
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogTarget {
    Stdout,
    File(LogFileOptions),
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Lines for people, as the old server wrote them.
    #[default]
    Plain,
    Json,
}

/// How a log looks and what it leaves out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogOptions {
    pub format: LogFormat,
    /// Leave out events; errors, dumps and summaries stay.
    pub quiet: bool,
    /// Also show what programs and caches do all the time.
    pub verbose: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum StartLogError {
    #[error(transparent)]
    File(#[from] OpenLogFileError),
    #[error("cannot duplicate {name}")]
    Stream {
        name: &'static str,
        source: io::Error,
    },
    #[error("cannot start the log's thread")]
    Thread(#[source] io::Error),
}

/// A running log; dropping it writes out what is queued, waiting `CLOSE_WAIT` at most.
///
/// Handles may outlive it: what they bring is counted.
/// Standard output that breaks off must not kill the process, so `SIGPIPE` has to be ignored,
/// which Rust's runtime does before `main`.
#[derive(Debug)]
pub struct Log {
    handle: LogHandle,
    /// Disconnected by the end of the thread that writes events; nothing is ever sent.
    events_end: Receiver<()>,
    /// The same of the thread that writes errors.
    errors_end: Receiver<()>,
    close_wait: Duration,
}

impl Log {
    /// Opens the target and starts the threads.
    pub fn start(target: LogTarget, options: LogOptions) -> Result<Self, StartLogError> {
        let (events, is_file) = match target {
            LogTarget::Stdout => (stream(io::stdout().as_fd(), "standard output")?, false),
            LogTarget::File(options) => (Output::open(options)?, true),
        };
        let errors = stream(io::stderr().as_fd(), "standard error")?;
        Self::with_outputs((events, is_file), errors, CLOSE_WAIT, options)
            .map_err(StartLogError::Thread)
    }

    /// Starts the threads; `errors_in_events`: whether errors are written there as well.
    pub(super) fn with_outputs(
        (events, errors_in_events): (Output, bool),
        errors: Output,
        close_wait: Duration,
        options: LogOptions,
    ) -> io::Result<Self> {
        let (error_queue, received) = Queue::new(ERROR_LIMITS);
        let writer = (&error_queue, received);
        let writer = Writer::new(writer, errors, Filter::Errors, options, None);
        let errors_end = spawn("log-errors", writer)?;
        let (event_queue, received) = Queue::new(EVENT_LIMITS);
        let filter = if errors_in_events {
            Filter::Everything
        } else {
            Filter::Events
        };
        let writer = (&event_queue, received);
        let writer = Writer::new(writer, events, filter, options, Some(error_queue.clone()));
        let events_end = spawn("log-events", writer)?;
        let handle = LogHandle {
            events: event_queue,
            errors: error_queue,
            errors_in_events,
            options,
        };
        Ok(Self {
            handle,
            events_end,
            errors_end,
            close_wait,
        })
    }

    pub fn handle(&self) -> LogHandle {
        self.handle.clone()
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // Events first: their failure is reported through the errors.
        end(&self.handle.events, &self.events_end, self.close_wait);
        end(&self.handle.errors, &self.errors_end, self.close_wait);
    }
}

/// Has everything written that was queued before, then ends the thread.
///
/// A thread that is stuck in its output after `wait` is left behind: it cannot be stopped, and the
/// server's end must not depend on it. One that is still making text is waited for.
pub(super) fn end(queue: &Queue, ended: &Receiver<()>, wait: Duration) {
    let message = (0, Body::Close);
    if queue.sender.send_timeout(message, wait).is_err() {
        return;
    }
    while ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
        if queue.shared.is_writing.load(Ordering::Relaxed) {
            return;
        }
    }
}

/// Starts a thread; what it returns is disconnected by the thread's end.
pub(super) fn spawn(name: &str, writer: Writer) -> io::Result<Receiver<()>> {
    let (running, ended) = bounded(0);
    let thread = std::thread::Builder::new().name(name.to_owned());
    thread.spawn(move || {
        writer.run();
        drop(running);
    })?;
    Ok(ended)
}

fn stream(fd: BorrowedFd<'_>, name: &'static str) -> Result<Output, StartLogError> {
    let fd = fd.try_clone_to_owned();
    let fd = fd.map_err(|source| StartLogError::Stream { name, source })?;
    Ok(Output::stream(fd, name))
}

#[cfg(test)]
mod tests;
