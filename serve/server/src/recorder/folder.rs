//! A folder of recordings that follow each other, bounded in bytes and in time.
//!
//! Files with a failure stay longer than others, with the one before and the one behind: half of the
//! bytes are theirs at most. Only files that are named like ours and are recordings are counted or removed.

use super::Destination;
use super::files::{OpenRecordingError, lock_file, open_at};
use crate::kept_folder;
use rustix::fs::{AtFlags, Dir, OFlags, unlinkat};
use rustix::io::Errno;
use std::io::{self, BufReader, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};
use ttmem_record::{OpenError, Recording, Summary};
use ttmem_report::Timestamp;

/// Files with a failure, and those beside them, that are kept beyond the others.
const MAX_KEPT_FILES: usize = 64;

/// Names that are looked at when a folder is opened.
const MAX_NAMES: usize = 100_000;

/// The file of an hour that nobody wants any more can go when the hours are a part of the whole time.
const FILES_PER_AGE: u32 = 12;

/// How long after a failure the next file is tried: a full disk may have room then.
const RETRY_AFTER: Duration = Duration::from_secs(30);

const PREFIX: &str = "ttmem-";
pub(crate) const EXTENSION: &str = "ttrec";
const SUFFIX: &str = ".ttrec";

/// A folder to record to.
#[derive(Clone, Debug)]
pub struct RecordFolder {
    pub path: PathBuf,
    /// The next file begins at this size.
    pub max_file_bytes: u64,
    /// Files that ended longer ago are removed.
    pub max_age: Duration,
    /// The most that all files have together.
    pub max_bytes: u64,
}

/// A file that is finished, or was left by an earlier server.
#[derive(Debug)]
struct Recorded {
    name: String,
    bytes: u64,
    /// When it ended, in nanoseconds since the epoch.
    end: u64,
    has_failure: bool,
}

#[derive(Debug)]
pub(super) struct Folder {
    options: RecordFolder,
    folder: Arc<OwnedFd>,
    /// Oldest first.
    recorded: Vec<Recorded>,
    /// The file that is being written.
    current: Option<String>,
}

impl Folder {
    /// Opens a folder, makes it if it is not there, and looks for what is in it.
    pub(super) fn open(options: RecordFolder) -> Result<Self, OpenRecordingError> {
        let path = options.path.clone();
        let failed = |errno: Errno| OpenRecordingError::Open {
            path: path.clone(),
            source: errno.into(),
        };
        let folder = kept_folder::open_for_files(&path)?;
        lock_file(folder.as_fd(), &path)?;
        let entries = Dir::read_from(&folder).map_err(failed)?;
        let mut opened = Self {
            options,
            folder: Arc::new(folder),
            recorded: Vec::new(),
            current: None,
        };
        for entry in entries.take(MAX_NAMES) {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().to_str().ok();
            let name = name.filter(|name| is_our_name(name));
            opened
                .recorded
                .extend(name.and_then(|name| opened.look_at(name)));
        }
        // Their names have their times.
        opened
            .recorded
            .sort_by(|one, other| one.name.cmp(&other.name));
        opened.remove_old(crate::clock::unix_nanos(), false, 0);
        Ok(opened)
    }

    /// What is known of a file that an earlier server left; none if it is none of ours.
    fn look_at(&self, name: &str) -> Option<Recorded> {
        let shown = self.options.path.join(name);
        let file = open_at(self.folder.as_fd(), name.as_ref(), &shown, OFlags::RDONLY).ok()?;
        let facts = file.metadata().ok()?;
        let has_failure = match Recording::open(BufReader::new(file)) {
            Ok(recording) => !recording.summary().failures.is_empty(),
            // One that ended as soon as it began.
            Err(OpenError::NotARecording) if facts.len() == 0 => false,
            Err(OpenError::NotARecording | OpenError::Io(_) | OpenError::Gone) => return None,
            Err(OpenError::Version(_) | OpenError::Damaged(_) | OpenError::OverBudget(_)) => false,
        };
        let end = facts.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
        Some(Recorded {
            name: name.to_owned(),
            bytes: facts.len(),
            end: u64::try_from(end.as_nanos()).unwrap_or(u64::MAX),
            has_failure,
        })
    }

    /// Removes what is too old or too much; the file that is written has the rest of the room, and more if it
    /// has so many bytes already, as with a state that is large.
    fn remove_old(&mut self, now: u64, current_has_failure: bool, current_bytes: u64) {
        let kept = self.kept(current_has_failure);
        let age = u64::try_from(self.options.max_age.as_nanos()).unwrap_or(u64::MAX);
        let room = self.options.max_bytes;
        let room = room.saturating_sub(self.options.max_file_bytes.max(current_bytes));
        let mut bytes: u64 = self.recorded.iter().map(|file| file.bytes).sum();
        let folder = self.folder.as_fd();
        let mut place = 0;
        self.recorded.retain(|file| {
            let is_kept = kept[place];
            place += 1;
            let is_old = now.saturating_sub(file.end) > age;
            if is_kept || !(is_old || bytes > room) {
                return true;
            }
            let removed = unlinkat(folder, &*file.name, AtFlags::empty());
            let is_gone = matches!(removed, Ok(()) | Err(Errno::NOENT));
            // What cannot be removed is looked at again the next time.
            if is_gone {
                bytes -= file.bytes;
            }
            !is_gone
        });
    }

    /// For each file, whether it is kept for a failure: the newest are, as far as there is room for them.
    fn kept(&self, current_has_failure: bool) -> Vec<bool> {
        let count = self.recorded.len();
        let fails = |place: usize| {
            let file = self.recorded.get(place);
            file.map_or(place == count && current_has_failure, |file| {
                file.has_failure
            })
        };
        let mut kept = vec![false; count];
        let (mut files, mut bytes) = (0, 0_u64);
        for place in (0..count).rev() {
            let before = place.checked_sub(1).is_some_and(fails);
            if !(fails(place) || before || fails(place + 1)) {
                continue;
            }
            files += 1;
            bytes = bytes.saturating_add(self.recorded[place].bytes);
            if files > MAX_KEPT_FILES || bytes > self.options.max_bytes / 2 {
                break;
            }
            kept[place] = true;
        }
        kept
    }
}

impl Destination for Folder {
    fn begin(&mut self, time: u64) -> Result<Box<dyn Write + Send>, OpenRecordingError> {
        let mut time = time;
        loop {
            let name = name_of(time);
            let shown = self.options.path.join(&name);
            let how = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
            match open_at(self.folder.as_fd(), name.as_ref(), &shown, how) {
                Err(OpenRecordingError::Open { source, .. })
                    if source.kind() == io::ErrorKind::AlreadyExists =>
                {
                    // The next millisecond.
                    time = time.saturating_add(1_000_000);
                }
                opened => {
                    let file = opened?;
                    self.current = Some(name);
                    return Ok(Box::new(file));
                }
            }
        }
    }

    fn is_full(&self, bytes: u64, age: Duration) -> bool {
        bytes >= self.options.max_file_bytes || age >= self.options.max_age / FILES_PER_AGE
    }

    fn ended(&mut self, summary: &Summary, bytes: u64) {
        self.recorded
            .extend(self.current.take().map(|name| Recorded {
                name,
                bytes,
                end: summary.to,
                has_failure: !summary.failures.is_empty(),
            }));
    }

    fn tidy(&mut self, now: u64, current: Option<(&Summary, u64)>) {
        let fails = current.is_some_and(|(summary, _bytes)| !summary.failures.is_empty());
        let bytes = current.map_or(0, |(_summary, bytes)| bytes);
        self.remove_old(now, fails, bytes);
    }

    fn files(&self) -> Vec<PathBuf> {
        let finished = self.recorded.iter().map(|file| &file.name);
        let names = finished.chain(&self.current);
        names.map(|name| self.options.path.join(name)).collect()
    }

    fn path(&self) -> &Path {
        &self.options.path
    }

    fn folder(&self) -> Option<Arc<OwnedFd>> {
        Some(Arc::clone(&self.folder))
    }

    fn retry_after(&self) -> Option<Duration> {
        Some(RETRY_AFTER)
    }

    fn abandon(&mut self) {
        if let Some(name) = self.current.take() {
            // What cannot be removed is found by the next server.
            let _left = unlinkat(self.folder.as_fd(), &*name, AtFlags::empty());
        }
    }
}

/// `ttmem-20261117T041354.123Z.ttrec`.
fn name_of(time: u64) -> String {
    let text = Timestamp::from_unix_nanos(time).to_string();
    let text: String = text.chars().filter(|c| !matches!(c, '-' | ':')).collect();
    // Without micro- and nanoseconds.
    let millis = text.get(..19).unwrap_or(&text);
    format!("{PREFIX}{millis}Z{SUFFIX}")
}

fn is_our_name(name: &str) -> bool {
    let time = name.strip_prefix(PREFIX);
    let Some(time) = time.and_then(|rest| rest.strip_suffix(SUFFIX)) else {
        return false;
    };
    time.len() == 20
        && time
            .bytes()
            .zip("00000000T000000.000Z".bytes())
            .all(|(byte, form)| {
                if form == b'0' {
                    byte.is_ascii_digit()
                } else {
                    byte == form
                }
            })
}
