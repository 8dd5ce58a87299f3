//! The log as the rest of the server sees it: a handle that takes text and never waits.
//!
//! Events go to standard output or to a log file; errors go to standard error and, if there is
//! one, to the log file as well. `main` starts and closes the [`Log`]; every thread that has
//! something to say holds a [`LogHandle`]. Which events are worth a line is the caller's business.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use super::format::LogFormat;
use super::lane::{self, Lane, LaneThread, Limits, Pushed};
use super::output::Output;
use super::rotate::{LogFileOptions, OpenLogFileError, RotatingFile};

/// How long [`LogHandle::flush`] and [`Log::close`] wait for a slow reader at most.
pub const FLUSH_WAIT: Duration = Duration::from_secs(2);

/// Enough for a burst of a few hundred thousand lines while a terminal scrolls.
pub(super) const EVENT_LIMITS: Limits = Limits {
    blocks: 4096,
    bytes: 16 << 20,
};

/// Errors are rare; a flood of them is one error told often.
const ERROR_LIMITS: Limits = Limits {
    blocks: 1024,
    bytes: 1 << 20,
};

/// Where event lines go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogTarget {
    /// The server's standard output.
    Stdout,
    /// A rotating file.
    File(LogFileOptions),
}

/// Why the log could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartLogError {
    /// The log file cannot be used.
    #[error(transparent)]
    File(#[from] OpenLogFileError),
    /// No descriptor was left for a standard stream.
    #[error("cannot duplicate standard {stream}")]
    Stream {
        /// `output` or `error`.
        stream: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// No thread could be started.
    #[error("cannot start the log's thread")]
    Thread(#[source] io::Error),
}

/// A running log; closing or dropping it writes out what is queued.
///
/// Standard output that breaks off must not kill the process, so `SIGPIPE` has to be ignored,
/// which Rust's runtime does before `main`.
#[derive(Debug)]
pub struct Log {
    events: LaneThread,
    errors: LaneThread,
    handle: LogHandle,
    close_wait: Duration,
}

/// The way into the log, for any thread.
#[derive(Debug, Clone)]
pub struct LogHandle {
    events: Lane,
    errors: Lane,
    errors_in_events: bool,
}

impl Log {
    /// Opens the target and starts the writer threads.
    pub fn start(target: LogTarget, format: LogFormat) -> Result<Self, StartLogError> {
        let (events, is_file) = match target {
            LogTarget::Stdout => {
                let fd = io::stdout().as_fd().try_clone_to_owned();
                let fd = fd.map_err(|source| StartLogError::Stream {
                    stream: "output",
                    source,
                })?;
                (
                    Output::Stream {
                        fd,
                        name: "standard output",
                    },
                    false,
                )
            }
            LogTarget::File(options) => (Output::File(RotatingFile::open(options)?), true),
        };
        let fd = io::stderr().as_fd().try_clone_to_owned();
        let fd = fd.map_err(|source| StartLogError::Stream {
            stream: "error",
            source,
        })?;
        let errors = Output::Stream {
            fd,
            name: "standard error",
        };
        Self::with_outputs(events, is_file, EVENT_LIMITS, errors, FLUSH_WAIT, format)
            .map_err(StartLogError::Thread)
    }

    pub(super) fn with_outputs(
        events: Output,
        errors_in_events: bool,
        event_limits: Limits,
        errors: Output,
        close_wait: Duration,
        format: LogFormat,
    ) -> io::Result<Self> {
        // A failure of standard error has nowhere to be told; its lines stay counted.
        let errors = lane::start("log-errors", ERROR_LIMITS, errors, format, |_| {})?;
        let report_to = errors.lane().clone();
        let report = move |line| {
            report_to.push(format.failure(line));
        };
        let events = lane::start("log-events", event_limits, events, format, report)?;
        let handle = LogHandle {
            events: events.lane().clone(),
            errors: errors.lane().clone(),
            errors_in_events,
        };
        Ok(Self {
            events,
            errors,
            handle,
            close_wait,
        })
    }

    /// A handle to give to a thread.
    #[must_use]
    pub fn handle(&self) -> LogHandle {
        self.handle.clone()
    }

    /// Writes out what is queued and ends the writer threads, waiting [`FLUSH_WAIT`] at most.
    ///
    /// Handles may outlive this: their events are then counted, their errors go to standard error
    /// directly.
    pub fn close(self) {
        drop(self);
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // Events first: their failure is reported through the errors.
        self.events.close(self.close_wait);
        self.errors.close(self.close_wait);
    }
}

impl LogHandle {
    /// Takes complete event lines; they are counted instead if the log's reader is too slow.
    pub fn events(&self, text: String) {
        self.events.push(text);
    }

    /// Takes the line of an error, for standard error and for the log file if there is one.
    pub fn error(&self, line: String) {
        if self.errors_in_events {
            self.events.push(line.clone());
        }
        if self.errors.push(line.clone()) == Pushed::Closed {
            // Nothing is left to do about a failure here.
            writeln!(io::stderr(), "{}", line.trim_end_matches('\n')).ok();
        }
    }

    /// Has a log file opened anew by its path, as after an external rotation.
    pub fn reopen(&self) {
        self.events.reopen();
    }

    /// Waits until everything taken before is written or given up.
    ///
    /// False if that did not happen within [`FLUSH_WAIT`].
    pub fn flush(&self) -> bool {
        let deadline = Instant::now() + FLUSH_WAIT;
        // Events first, and errors in any case: a stuck event log must not hide them.
        let events = self.events.flush(deadline);
        self.errors
            .flush(deadline.max(Instant::now() + FLUSH_WAIT / 10))
            && events
    }

    /// Lines of events and errors that were not written, since the start.
    #[must_use]
    pub fn elided(&self) -> u64 {
        self.events.lost_lines() + self.errors.lost_lines()
    }
}

#[cfg(test)]
mod tests;
