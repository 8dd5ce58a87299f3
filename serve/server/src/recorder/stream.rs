//! Recordings that readers ask for while the server runs: each is a recorder of its own whose file is an answer.
//!
//! Nobody waits for such a reader. What it does not take in time waits in the queue of its recorder, which is
//! bounded; then changes are missing, and counted. A reader that takes nothing at all is given up.

use super::queue::{Queue, queue};
use super::{Destination, OpenRecordingError, PreparedRecorder, Shared};
use crate::ledger_thread::LedgerHandle;
use crate::lock;
use axum::body::Bytes;
use std::convert::Infallible;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use ttmem_record::{Summary, WriterOptions};

/// Bytes that may wait for one of these recorders: less than for the server's own, since there are several.
const MAX_BYTES: usize = 16 << 20;

/// What is handed over at once, and how many of these may wait to be sent.
const PIECE_BYTES: usize = 256 << 10;
const PIECES: usize = 8;

/// How often it is looked whether there is room again.
const LOOK: Duration = Duration::from_millis(5);

/// How long a server that ends waits for these recordings to be finished.
const FINISH_WAIT: Duration = Duration::from_secs(2);

/// Starts such recordings, and knows those that run.
#[derive(Clone, Debug)]
pub(crate) struct StreamedRecordings {
    ledger: LedgerHandle,
    running: Arc<Mutex<Vec<Weak<Queue>>>>,
}

/// What is recorded, and for how long its reader may take nothing.
#[derive(Debug)]
pub(crate) struct StreamedRecording {
    pub(crate) options: WriterOptions,
    pub(crate) timeout: Duration,
}

/// A recording that runs until this ends it, its reader is gone, or it is full.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) pieces: mpsc::Receiver<Bytes>,
    pub(crate) end: EndRecording,
    /// Closed when nothing more comes.
    pub(crate) ended: oneshot::Receiver<Infallible>,
    shared: Arc<Shared>,
}

impl Running {
    /// Why it has ended before its time, if it has.
    pub(crate) fn failure(&self) -> Option<String> {
        lock(&self.shared.failure).clone()
    }
}

/// Ends a recording in order: what was applied before is in it.
#[derive(Clone, Debug)]
pub(crate) struct EndRecording(Arc<Queue>);

impl EndRecording {
    pub(crate) fn end(&self) {
        self.0.end();
    }
}

impl StreamedRecordings {
    pub(crate) fn new(ledger: LedgerHandle) -> Self {
        Self {
            ledger,
            running: Arc::default(),
        }
    }

    /// Records what happens from now on; `held` is dropped when it has ended.
    pub(crate) fn start(
        &self,
        recording: StreamedRecording,
        held: impl Send + std::fmt::Debug + 'static,
    ) -> io::Result<Running> {
        let (sender, pieces) = mpsc::channel(PIECES);
        let (ends, ended) = oneshot::channel();
        let sink = Sink {
            sender,
            timeout: recording.timeout,
            collected: Vec::new(),
        };
        let destination = Box::new(Answer {
            sink: Some(sink),
            _held: Box::new(held),
            _ends: ends,
        });
        let way = queue(MAX_BYTES);
        let (prepared, tap) = PreparedRecorder::new(destination, recording.options, way);
        let shared = Arc::clone(&prepared.shared);
        let end = EndRecording(Arc::clone(&shared.queue));
        let ledger = self.ledger.clone();
        prepared.start(None, move || ledger.wake())?;
        let mut running = lock(&self.running);
        running.retain(|each| each.strong_count() > 0);
        running.push(Arc::downgrade(&shared.queue));
        drop(running);
        self.ledger.record(tap);
        Ok(Running {
            pieces,
            end,
            ended,
            shared,
        })
    }

    /// Ends all of them in order, for a server that ends: those who are sent the rest have a moment.
    pub(crate) fn end_all(&self) {
        let running: Vec<Arc<Queue>> = {
            let running = lock(&self.running);
            running.iter().filter_map(Weak::upgrade).collect()
        };
        running.iter().for_each(|queue| queue.end());
        let until = Instant::now() + FINISH_WAIT;
        for queue in running {
            let left = until.saturating_duration_since(Instant::now());
            // Who takes nothing has it cut off.
            let _late = queue.wait_until_closed(left);
        }
    }
}

/// The answer that a recording is.
#[derive(Debug)]
struct Answer {
    /// Until it is begun.
    sink: Option<Sink>,
    _held: Box<dyn std::fmt::Debug + Send>,
    _ends: oneshot::Sender<Infallible>,
}

impl Destination for Answer {
    fn begin(&mut self, _time: u64) -> Result<Box<dyn Write + Send>, OpenRecordingError> {
        match self.sink.take() {
            Some(sink) => Ok(Box::new(sink)),
            None => Err(OpenRecordingError::Open {
                path: self.path().to_owned(),
                source: io::ErrorKind::AlreadyExists.into(),
            }),
        }
    }

    fn is_full(&self, _bytes: u64, _age: Duration) -> bool {
        false
    }

    fn ended(&mut self, _summary: &Summary, _bytes: u64) {}

    fn tidy(&mut self, _now: u64, _current: Option<(&Summary, u64)>) {}

    fn files(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    fn path(&self) -> &Path {
        Path::new("a reader")
    }
}

/// Sends what is written, in pieces.
#[derive(Debug)]
struct Sink {
    sender: mpsc::Sender<Bytes>,
    timeout: Duration,
    collected: Vec<u8>,
}

impl Sink {
    fn send(&self, mut piece: Bytes) -> io::Result<()> {
        let until = Instant::now() + self.timeout;
        loop {
            piece = match self.sender.try_send(piece) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Closed(_piece)) => return Err(io::ErrorKind::BrokenPipe.into()),
                Err(TrySendError::Full(piece)) => piece,
            };
            if Instant::now() >= until {
                return Err(io::ErrorKind::TimedOut.into());
            }
            std::thread::sleep(LOOK);
        }
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = PIECE_BYTES - self.collected.len();
        let taken = bytes.len().min(room);
        self.collected.extend_from_slice(&bytes[..taken]);
        if self.collected.len() == PIECE_BYTES {
            self.flush()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.collected.is_empty() {
            return Ok(());
        }
        let piece = Bytes::from(std::mem::take(&mut self.collected));
        self.send(piece)
    }
}
