//! Recordings of what the ledger is given, while it runs.
//!
//! The ledger thread hands every change to a [`Tap`], the recorder's thread writes them. Nobody waits
//! for it: what it cannot take is counted in the recording ([`queue`]). An error ends the
//! recording and nothing else.

mod files;
mod folder;
mod queue;
mod stream;
mod thread;

pub use files::{OpenRecordingError, open_recording};
pub(crate) use folder::EXTENSION;
pub use folder::RecordFolder;
pub(crate) use queue::Tap;
pub(crate) use stream::{EndRecording, StreamedRecording, StreamedRecordings};

use crate::lock;
use crate::log::LogHandle;
use folder::Folder;
use queue::{MAX_BYTES, Queue, queue};
use rustix::fs::OFlags;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use thread::RecorderThread;
use ttmem_record::{Summary, WriterOptions};

/// How long a reader waits for the newest events to be written.
const FLUSH_WAIT: Duration = Duration::from_secs(2);

/// How long a server that ends waits for its recording.
const FINISH_WAIT: Duration = Duration::from_secs(30);

/// What is recorded, and where to.
#[derive(Clone, Debug)]
pub struct RecordConfig {
    pub target: RecordTarget,
    /// Leaves names, paths and command lines out.
    pub redact: bool,
}

#[derive(Clone, Debug)]
pub enum RecordTarget {
    /// Everything in one file.
    File(PathBuf),
    /// Files that follow each other; the oldest are removed.
    Folder(RecordFolder),
}

/// The recorded past, as files.
pub(crate) trait RecordedFiles: Send + Sync + std::fmt::Debug {
    /// Ends the block that is being collected, then names the files, oldest first; the last may
    /// still grow.
    fn flushed_files(&self) -> Vec<PathBuf>;

    /// Opens one of them.
    ///
    /// # Errors
    /// When it cannot be read.
    fn open(&self, path: &Path) -> io::Result<File>;
}

/// Where recordings are written to.
trait Destination: Send + std::fmt::Debug {
    /// A place for the next recording, which begins at this time.
    fn begin(&mut self, time: u64) -> Result<Box<dyn Write + Send>, OpenRecordingError>;

    /// Whether the recording is to end, and the next to begin.
    fn is_full(&self, bytes: u64, age: Duration) -> bool;

    /// A recording is finished.
    fn ended(&mut self, summary: &Summary, bytes: u64);

    /// Does what has to be done now and then; the recording that is written has so many bytes.
    fn tidy(&mut self, now: u64, current: Option<(&Summary, u64)>);

    /// The files, oldest first.
    fn files(&self) -> Vec<PathBuf>;

    /// For messages.
    fn path(&self) -> &Path;

    /// The folder that the files are in, by which they are read; `None` of one file, which is read by its path.
    fn folder(&self) -> Option<Arc<OwnedFd>> {
        None
    }

    /// After how long the next recording is tried when one cannot be written any more; `None` if the
    /// recording ends then.
    fn retry_after(&self) -> Option<Duration> {
        None
    }

    /// The recording that was begun comes to nothing.
    fn abandon(&mut self) {}
}

#[derive(Debug)]
struct Shared {
    queue: Arc<Queue>,
    files: Mutex<Vec<PathBuf>>,
    folder: Option<Arc<OwnedFd>>,
    failure: Mutex<Option<String>>,
}

impl RecordedFiles for Shared {
    fn open(&self, path: &Path) -> io::Result<File> {
        let file = match (&self.folder, path.file_name()) {
            (Some(folder), Some(name)) => {
                files::open_at(folder.as_fd(), name.as_ref(), path, OFlags::RDONLY)
            }
            _one_file => files::open_at(rustix::fs::CWD, path, path, OFlags::RDONLY),
        };
        file.map_err(OpenRecordingError::into_io)
    }

    fn flushed_files(&self) -> Vec<PathBuf> {
        self.queue.flush(FLUSH_WAIT);
        lock(&self.files).clone()
    }
}

/// What others may know of a recording.
#[derive(Clone, Debug)]
pub(crate) struct RecordingState(Arc<Shared>);

impl RecordingState {
    pub(crate) fn files(&self) -> Arc<dyn RecordedFiles> {
        Arc::clone(&self.0) as Arc<dyn RecordedFiles>
    }

    /// Why it has ended before its time, if it has.
    pub(crate) fn failure(&self) -> Option<String> {
        lock(&self.0.failure).clone()
    }
}

/// A recorder whose thread runs; it ends after its [`Tap`] is dropped.
#[derive(Debug)]
pub(crate) struct Recorder {
    shared: Arc<Shared>,
}

/// A recorder that is to be started.
#[derive(Debug)]
pub(crate) struct PreparedRecorder {
    shared: Arc<Shared>,
    destination: Box<dyn Destination>,
    options: WriterOptions,
}

impl PreparedRecorder {
    /// Opens the place that is recorded to; the tap is for the ledger thread.
    pub(crate) fn open(config: &RecordConfig) -> Result<(Self, Tap), OpenRecordingError> {
        Self::bounded(config, MAX_BYTES)
    }

    /// The same with so many bytes that may wait.
    pub(crate) fn bounded(
        config: &RecordConfig,
        max_bytes: usize,
    ) -> Result<(Self, Tap), OpenRecordingError> {
        let destination: Box<dyn Destination> = match &config.target {
            RecordTarget::File(path) => Box::new(files::SingleFile::open(path)?),
            RecordTarget::Folder(folder) => Box::new(Folder::open(folder.clone())?),
        };
        let options = WriterOptions {
            redact: config.redact,
            ..WriterOptions::default()
        };
        Ok(Self::new(destination, options, queue(max_bytes)))
    }

    fn new(
        destination: Box<dyn Destination>,
        options: WriterOptions,
        (tap, queue): (Tap, Arc<Queue>),
    ) -> (Self, Tap) {
        let shared = Arc::new(Shared {
            queue,
            files: Mutex::new(destination.files()),
            folder: destination.folder(),
            failure: Mutex::default(),
        });
        let prepared = Self {
            shared,
            destination,
            options,
        };
        (prepared, tap)
    }

    /// Starts the thread. `wake` has the ledger thread look whether a state is wanted; that the recording
    /// ended is told to the log, if there is one.
    pub(crate) fn start(
        self,
        log: Option<LogHandle>,
        wake: impl Fn() + Send + 'static,
    ) -> io::Result<Recorder> {
        let shared = Arc::clone(&self.shared);
        let thread = RecorderThread::new(self, log, Box::new(wake));
        let builder = std::thread::Builder::new().name("ttmem-record".to_owned());
        let _waited_for_by_its_queue = builder.spawn(move || thread.run())?;
        Ok(Recorder { shared })
    }
}

impl Recorder {
    pub(crate) fn state(&self) -> RecordingState {
        RecordingState(Arc::clone(&self.shared))
    }

    /// Waits until everything is written, after its [`Tap`] was dropped; false if that takes too long, as
    /// with a disk that does not answer.
    #[must_use]
    pub(crate) fn finish(self) -> bool {
        self.shared.queue.wait_until_closed(FINISH_WAIT)
    }
}

#[cfg(test)]
mod tests;
