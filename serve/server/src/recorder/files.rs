//! Files of recordings: opened for their user alone, and never over something else.

use super::Destination;
use crate::kept_folder::OpenFolderError;
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::fs::{File, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use ttmem_record::{Summary, is_recording};

/// The mode of a recording: its owner alone reads it.
const PRIVATE: u32 = 0o600;

/// Why nothing can be recorded to a place.
#[derive(Debug, thiserror::Error)]
pub enum OpenRecordingError {
    #[error("cannot record to {}", path.display())]
    Open { path: PathBuf, source: io::Error },
    #[error("cannot record to {}: it is a link", path.display())]
    Link { path: PathBuf },
    #[error("cannot record to {}: it is no regular file", path.display())]
    NotRegular { path: PathBuf },
    #[error("{} is no recording, and is not overwritten", path.display())]
    NotARecording { path: PathBuf },
    #[error(
        "{} belongs to uid {uid}, who could read the recording: remove it, or record to another file",
        path.display()
    )]
    OtherOwner { path: PathBuf, uid: u32 },
    #[error(transparent)]
    Folder(#[from] OpenFolderError),
    #[error("another program records to {} now", path.display())]
    Busy { path: PathBuf },
}

impl OpenRecordingError {
    /// As an error of reading; whether a file is there stays known.
    pub(super) fn into_io(self) -> io::Error {
        match self {
            Self::Open { source, .. } => source,
            other => io::Error::other(other),
        }
    }
}

/// Opens a file to record to, empty. What was there must have been a recording; links are not followed,
/// and only the user may read it.
///
/// # Errors
/// When it cannot be, or another program records to it.
pub fn open_recording(path: &Path) -> Result<File, OpenRecordingError> {
    let failed = |source| OpenRecordingError::Open {
        path: path.to_owned(),
        source,
    };
    let mut file = open_at(rustix::fs::CWD, path, path, OFlags::RDWR | OFlags::CREATE)?;
    let mut beginning = Vec::new();
    (&mut file)
        .take(8)
        .read_to_end(&mut beginning)
        .map_err(failed)?;
    let path = path.to_owned();
    if !beginning.is_empty() && !is_recording(&beginning) {
        return Err(OpenRecordingError::NotARecording { path });
    }
    lock_file(file.as_fd(), &path)?;
    let failed = |source| OpenRecordingError::Open { path, source };
    let empty = |mut file: File| {
        file.set_permissions(Permissions::from_mode(PRIVATE))?;
        file.set_len(0)?;
        io::Seek::rewind(&mut file)?;
        Ok(file)
    };
    empty(file).map_err(failed)
}

/// Opens a regular file of this user's in a folder without following a link; `shown` is its path for messages.
pub(super) fn open_at(
    folder: BorrowedFd<'_>,
    name: &Path,
    shown: &Path,
    how: OFlags,
) -> Result<File, OpenRecordingError> {
    let path = || shown.to_owned();
    // NONBLOCK has no effect on a regular file; it keeps a pipe at the path from hanging us.
    let flags = how | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::NONBLOCK;
    let fd = rustix::fs::openat(folder, name, flags, Mode::RUSR | Mode::WUSR);
    let fd = fd.map_err(|errno| match errno {
        Errno::LOOP => OpenRecordingError::Link { path: path() },
        Errno::NXIO | Errno::ISDIR => OpenRecordingError::NotRegular { path: path() },
        errno => OpenRecordingError::Open {
            path: path(),
            source: errno.into(),
        },
    })?;
    let file = File::from(fd);
    let failed = |source| OpenRecordingError::Open {
        path: path(),
        source,
    };
    let facts = file.metadata().map_err(failed)?;
    if !facts.is_file() {
        return Err(OpenRecordingError::NotRegular { path: path() });
    }
    let uid = facts.uid();
    if uid != geteuid().as_raw() {
        return Err(OpenRecordingError::OtherOwner { path: path(), uid });
    }
    if how.contains(OFlags::CREATE | OFlags::EXCL) {
        // Whatever the file mode mask says.
        let mode = Permissions::from_mode(PRIVATE);
        file.set_permissions(mode).map_err(failed)?;
    }
    Ok(file)
}

/// Keeps others of us away from a file or a folder for as long as it is open.
pub(super) fn lock_file(fd: BorrowedFd<'_>, path: &Path) -> Result<(), OpenRecordingError> {
    let path = path.to_owned();
    flock(fd, FlockOperation::NonBlockingLockExclusive).map_err(|errno| match errno {
        Errno::WOULDBLOCK => OpenRecordingError::Busy { path },
        errno => OpenRecordingError::Open {
            path,
            source: errno.into(),
        },
    })
}

/// A recording that is one file from its beginning to its end.
#[derive(Debug)]
pub(super) struct SingleFile {
    path: PathBuf,
    /// Until it is begun.
    file: Option<File>,
}

impl SingleFile {
    pub(super) fn open(path: &Path) -> Result<Self, OpenRecordingError> {
        Ok(Self {
            path: path.to_owned(),
            file: Some(open_recording(path)?),
        })
    }
}

impl Destination for SingleFile {
    fn begin(&mut self, _time: u64) -> Result<Box<dyn Write + Send>, OpenRecordingError> {
        match self.file.take() {
            Some(file) => Ok(Box::new(file)),
            None => Ok(Box::new(open_recording(&self.path)?)),
        }
    }

    fn is_full(&self, _bytes: u64, _age: Duration) -> bool {
        false
    }

    fn ended(&mut self, _summary: &Summary, _bytes: u64) {}

    fn tidy(&mut self, _now: u64, _current: Option<(&Summary, u64)>) {}

    fn files(&self) -> Vec<PathBuf> {
        vec![self.path.clone()]
    }

    fn path(&self) -> &Path {
        &self.path
    }
}
