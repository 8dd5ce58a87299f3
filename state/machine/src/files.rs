//! Reading small files that may fail, lie or hang.
//!
//! A file of sysfs is answered by a driver, and a driver may wait for firmware that no longer runs.
//! So a thread of its own reads, and who asks waits for a deadline only: a read that hangs is left
//! behind with its thread, what comes after it is read by another, and until the first comes back its
//! file is not asked for again. How many may hang is bounded, and those that anybody can make leave room for the driver's.

use crate::shm::{Listing, ReadFile, read_file};
use rustix::fs::{FileType, Mode, OFlags, fstat, open, openat};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// A value, or why there is none.
pub type Reading<T> = Result<T, Unread>;

/// How long one file may take: files of sysfs take microseconds.
const DEADLINE: Duration = Duration::from_millis(200);

/// How many reads may hang at once; then nothing is read until one of them comes back.
const MOST_STUCK: usize = 16;

/// The same of files that anybody can make.
const MOST_STUCK_OF_ANYBODY: usize = 8;

/// No file that is read here is longer: one that is would be a part, which says too little.
const LONGEST_TEXT: usize = 1 << 20;

/// No folder that is listed here has more entries: some of them would say too little.
pub(crate) const MOST_NAMES: usize = 1 << 16;

/// A value of sysfs is shorter: what is not is cut.
const LONGEST_VALUE: usize = 4096;

/// Why there is no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unread {
    /// There is no such file: the firmware, or this version of the driver, does not report it (yet).
    Missing,
    /// This user may not read it.
    Denied,
    /// The device went away (ENODEV).
    Detached,
    /// The hardware has not reported it (ENODATA).
    NoData,
    /// It did not come in time.
    Hung,
    /// Something else than a file, or than a value of its kind.
    Malformed(String),
    /// Any other error of the system.
    Failed(i32),
}

impl fmt::Display for Unread {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => formatter.write_str("not reported"),
            Self::Denied => formatter.write_str("permission denied"),
            Self::Detached => formatter.write_str("the device is detached"),
            Self::NoData => formatter.write_str("no data from the hardware"),
            Self::Hung => formatter.write_str("reading it hangs"),
            Self::Malformed(found) => write!(formatter, "not understood: {found}"),
            Self::Failed(code) => {
                write!(formatter, "{}", io::Error::from_raw_os_error(*code))
            }
        }
    }
}

impl From<io::Error> for Unread {
    fn from(error: io::Error) -> Self {
        match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::NOENT) => Self::Missing,
            Some(Errno::ACCESS | Errno::PERM) => Self::Denied,
            Some(Errno::NODEV | Errno::NXIO) => Self::Detached,
            Some(Errno::NODATA) => Self::NoData,
            Some(other) => Self::Failed(other.raw_os_error()),
            None => Self::Malformed(error.to_string()),
        }
    }
}

/// A folder that stays open, so that the way to its files is not searched again and again.
#[derive(Clone, Debug)]
pub(crate) struct Folder {
    path: Arc<Path>,
    handle: Arc<OwnedFd>,
}

impl Folder {
    /// Opens it without reading: nothing can hang there.
    pub(crate) fn open(path: &Path) -> Reading<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = open(path, flags, Mode::empty()).map_err(io::Error::from)?;
        Ok(Self {
            path: path.into(),
            handle: Arc::new(handle),
        })
    }
}

impl PartialEq for Folder {
    fn eq(&self, other: &Self) -> bool {
        self.path == other.path
    }
}

impl Eq for Folder {}

/// One thing to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    Text(PathBuf),
    /// One value in a folder of sysfs.
    Value(Folder, &'static str),
    Names(PathBuf),
    Link(PathBuf),
    /// Who a file or folder belongs to.
    Owner(PathBuf),
    /// TT-Metal's counters in a folder, but for those of some numbers.
    Counters(PathBuf, BTreeSet<u64>),
    /// One of these files, by its number.
    Region(PathBuf, u64),
}

impl Ask {
    /// What is asked for.
    pub(crate) fn path(&self) -> PathBuf {
        match self {
            Self::Value(folder, name) => folder.path.join(name),
            Self::Text(path)
            | Self::Names(path)
            | Self::Link(path)
            | Self::Owner(path)
            | Self::Counters(path, _)
            | Self::Region(path, _) => path.clone(),
        }
    }

    /// How many reads may hang before it is not even asked for.
    fn most_stuck(&self) -> usize {
        match self {
            Self::Counters(..) | Self::Region(..) => MOST_STUCK_OF_ANYBODY,
            _of_the_system => MOST_STUCK,
        }
    }
}

/// What was read.
#[derive(Debug)]
pub(crate) enum Found {
    /// One text, one target, or many names.
    Texts(Vec<String>),
    Counters(Listing),
    Region(Box<ReadFile>),
}

type Answer = io::Result<Found>;

/// Who is asked; tests have one that fails in every way.
pub(crate) trait Source: Send + Sync {
    fn ask(&self, ask: &Ask) -> Answer;
}

/// The files themselves.
pub(crate) struct Kernel;

impl Source for Kernel {
    fn ask(&self, ask: &Ask) -> Answer {
        let texts = match ask {
            Ask::Text(path) => vec![text(path)?],
            Ask::Value(folder, name) => vec![value(folder, name)?],
            Ask::Link(path) => {
                let target = std::fs::read_link(path)?;
                vec![target.to_string_lossy().into_owned()]
            }
            Ask::Owner(path) => vec![rustix::fs::lstat(path)?.st_uid.to_string()],
            Ask::Names(path) => {
                let mut names = Vec::new();
                for entry in std::fs::read_dir(path)?.take(MOST_NAMES + 1) {
                    names.push(entry?.file_name().to_string_lossy().into_owned());
                }
                if names.len() > MOST_NAMES {
                    return Err(too_much(MOST_NAMES, "entries"));
                }
                names
            }
            Ask::Counters(folder, but) => {
                return Listing::of(folder, but).map(Found::Counters);
            }
            Ask::Region(path, id) => return Ok(Found::Region(Box::new(read_file(path, *id)))),
        };
        Ok(Found::Texts(texts))
    }
}

/// The text of a regular file.
fn text(path: &Path) -> io::Result<String> {
    let (bytes, _owner) = bytes(path, OFlags::empty(), LONGEST_TEXT + 1)?;
    if bytes.len() > LONGEST_TEXT {
        return Err(too_much(LONGEST_TEXT, "bytes"));
    }
    Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned())
}

fn too_much(most: usize, what: &str) -> io::Error {
    io::Error::other(format!("more than {most} {what}"))
}

/// A value of sysfs, which the kernel gives at once.
fn value(folder: &Folder, name: &str) -> io::Result<String> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat(&folder.handle, name, flags, Mode::empty())?;
    let mut room = [0; LONGEST_VALUE];
    let count = loop {
        match rustix::io::read(&file, &mut room) {
            Err(Errno::INTR) => {}
            read => break read?,
        }
    };
    let text = String::from_utf8_lossy(&room[..count]);
    Ok(text.trim_end().to_owned())
}

/// What a regular file has, at most `longest`, and whose it is; opening it neither waits nor takes a terminal.
pub(crate) fn bytes(path: &Path, flags: OFlags, longest: usize) -> io::Result<(Vec<u8>, u32)> {
    let flags = flags | OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = open(path, flags, Mode::empty())?;
    let about = fstat(&file)?;
    if FileType::from_raw_mode(about.st_mode) != FileType::RegularFile {
        return Err(io::Error::other("no regular file"));
    }
    // Files of procfs say that they have none.
    let length = usize::try_from(about.st_size).unwrap_or(0);
    let mut found = Vec::new();
    let mut part = [0; 16 << 10];
    while found.len() < longest && (length == 0 || found.len() != length) {
        let room = part.len().min(longest - found.len());
        match rustix::io::read(&file, &mut part[..room]) {
            Ok(0) => break,
            Ok(count) => found.extend_from_slice(&part[..count]),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok((found, about.st_uid))
}

/// What a thread is asked for at once, and how far it is.
struct Batch {
    asks: Vec<Ask>,
    progress: Mutex<Progress>,
    finished: Condvar,
}

#[derive(Default)]
struct Progress {
    answers: Vec<Answer>,
    /// Nobody waits any more: somebody else reads the rest.
    is_left: bool,
}

impl Batch {
    fn new(asks: Vec<Ask>) -> Self {
        Self {
            asks,
            progress: Mutex::default(),
            finished: Condvar::new(),
        }
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads all of it; false if who asked went away meanwhile.
    fn read(&self, source: &dyn Source) -> bool {
        for ask in &self.asks {
            let answer = source.ask(ask);
            let mut progress = self.progress();
            if progress.is_left {
                return false;
            }
            progress.answers.push(answer);
        }
        self.finished.notify_one();
        true
    }

    /// The answers, all of them or those before the first that did not come within the deadline.
    fn wait(&self, deadline: Duration) -> Vec<Answer> {
        let mut progress = self.progress();
        while progress.answers.len() < self.asks.len() {
            let before = progress.answers.len();
            let waited = self.finished.wait_timeout(progress, deadline);
            let (now, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            progress = now;
            if timeout.timed_out() && progress.answers.len() == before {
                progress.is_left = true;
                break;
            }
        }
        std::mem::take(&mut progress.answers)
    }
}

/// A thread that reads.
struct Worker {
    batches: SyncSender<Arc<Batch>>,
    thread: JoinHandle<()>,
}

/// A read that has not come back.
struct Stuck {
    ask: Ask,
    thread: JoinHandle<()>,
}

/// Reads files, each within its deadline.
pub struct Reader {
    source: Arc<dyn Source>,
    deadline: Duration,
    worker: Option<Worker>,
    stuck: Vec<Stuck>,
}

impl fmt::Debug for Reader {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Reader");
        shown
            .field("stuck", &self.stuck.len())
            .finish_non_exhaustive()
    }
}

impl Default for Reader {
    fn default() -> Self {
        Self::with_deadline(DEADLINE)
    }
}

impl Reader {
    /// A reader that waits so long for one file.
    #[must_use]
    pub fn with_deadline(deadline: Duration) -> Self {
        Self::of(Arc::new(Kernel), deadline)
    }

    pub(crate) fn of(source: Arc<dyn Source>, deadline: Duration) -> Self {
        Self {
            source,
            deadline,
            worker: None,
            stuck: Vec::new(),
        }
    }

    /// The files whose reading hangs now.
    #[must_use]
    pub fn stuck(&self) -> Vec<PathBuf> {
        let hanging = self.stuck.iter();
        let hanging = hanging.filter(|stuck| !stuck.thread.is_finished());
        hanging.map(|stuck| stuck.ask.path()).collect()
    }

    /// A file without the space at its end.
    pub fn text(&mut self, path: PathBuf) -> Reading<String> {
        self.first(Ask::Text(path))
    }

    /// The texts of some files, in their order.
    pub fn texts(&mut self, paths: Vec<PathBuf>) -> Vec<Reading<String>> {
        let answers = self.all(paths.into_iter().map(Ask::Text).collect());
        answers.into_iter().map(only).collect()
    }

    /// Values in folders of sysfs and the texts of files, in their order.
    pub(crate) fn read(&mut self, asks: Vec<Ask>) -> Vec<Reading<String>> {
        self.all(asks).into_iter().map(only).collect()
    }

    /// Where a link leads.
    pub fn link(&mut self, path: PathBuf) -> Reading<String> {
        self.first(Ask::Link(path))
    }

    /// Where some links lead, in their order.
    pub fn links(&mut self, paths: Vec<PathBuf>) -> Vec<Reading<String>> {
        let answers = self.all(paths.into_iter().map(Ask::Link).collect());
        answers.into_iter().map(only).collect()
    }

    /// The users to whom some files belong, in their order.
    pub fn owners(&mut self, paths: Vec<PathBuf>) -> Vec<Reading<u32>> {
        let answers = self.all(paths.into_iter().map(Ask::Owner).collect());
        let number = |text: String| text.parse().map_err(|_none| Unread::Malformed(text));
        let owner = |answer| only(answer).and_then(number);
        answers.into_iter().map(owner).collect()
    }

    /// The names in a folder, sorted.
    pub fn names(&mut self, path: PathBuf) -> Reading<Vec<String>> {
        let mut answers = self.all(vec![Ask::Names(path)]);
        let mut names = texts(answers.pop().unwrap_or(Err(Unread::Hung)))?;
        names.sort();
        Ok(names)
    }

    fn first(&mut self, ask: Ask) -> Reading<String> {
        let mut answers = self.all(vec![ask]);
        answers.pop().map_or(Err(Unread::Hung), only)
    }

    /// The answers to all of them, in their order.
    pub(crate) fn all(&mut self, asks: Vec<Ask>) -> Vec<Reading<Found>> {
        self.stuck.retain(|stuck| !stuck.thread.is_finished());
        let mut answers = Vec::with_capacity(asks.len());
        while answers.len() < asks.len() {
            let rest = &asks[answers.len()..];
            let is_askable = |ask: &&Ask| {
                let hangs = self.stuck.iter().any(|stuck| stuck.ask == **ask);
                !hangs && self.stuck.len() < ask.most_stuck()
            };
            let askable = rest.iter().take_while(is_askable).count();
            if askable == 0 {
                answers.push(Err(Unread::Hung));
            } else {
                self.run(&rest[..askable], &mut answers);
            }
        }
        answers
    }

    /// Asks a worker for some of them, up to the first that hangs.
    fn run(&mut self, asks: &[Ask], answers: &mut Vec<Reading<Found>>) {
        let worker = match self.worker.take().map_or_else(|| self.hire(), Ok) {
            Ok(worker) => worker,
            Err(error) => {
                answers.push(Err(error.into()));
                return;
            }
        };
        let batch = Arc::new(Batch::new(asks.to_vec()));
        if worker.batches.send(Arc::clone(&batch)).is_err() {
            // It panicked, which nothing it does can make it: the next one starts anew.
            answers.push(Err(Unread::Malformed(
                "the reading thread ended".to_owned(),
            )));
            return;
        }
        let found = batch.wait(self.deadline);
        let hung = asks.get(found.len());
        answers.extend(found.into_iter().map(|answer| answer.map_err(Unread::from)));
        match hung {
            Some(ask) => {
                answers.push(Err(Unread::Hung));
                let (ask, thread) = (ask.clone(), worker.thread);
                self.stuck.push(Stuck { ask, thread });
            }
            None => self.worker = Some(worker),
        }
    }

    fn hire(&self) -> io::Result<Worker> {
        let (batches, todo) = sync_channel::<Arc<Batch>>(1);
        let source = Arc::clone(&self.source);
        let builder = thread::Builder::new().name("ttmem-files".to_owned());
        let thread = builder.spawn(move || {
            for batch in todo {
                if !batch.read(source.as_ref()) {
                    return;
                }
            }
        })?;
        Ok(Worker { batches, thread })
    }
}

fn texts(answer: Reading<Found>) -> Reading<Vec<String>> {
    match answer? {
        Found::Texts(texts) => Ok(texts),
        Found::Counters(_) | Found::Region(_) => Err(Unread::Missing),
    }
}

fn only(answer: Reading<Found>) -> Reading<String> {
    texts(answer)?.pop().ok_or(Unread::Missing)
}
