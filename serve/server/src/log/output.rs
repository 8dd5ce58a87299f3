//! Where log text ends up: an inherited stream, or a file of bounded size, which is `path`,
//! `path.1`, `path.2` and so on, the oldest falling off.
//!
//! Owned by one thread of the log, which is the only one to write through it. Blocking is allowed
//! here, losing count of what was written is not. It never follows a link at `path`, and it renames
//! `path` only while that is the file it writes, so that a log moved away by the administrator
//! stays untouched. The log has texts of all processes: it belongs to the server's user, who alone may read it, and its
//! files are found by the descriptor of their folder, which no other user may change.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::kept_folder::{OpenFolderError, open_for_log};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{AtFlags, Mode, OFlags, openat, renameat, statat, unlinkat};
use rustix::io::Errno;
use rustix::process::geteuid;

pub const DEFAULT_MAX_BYTES: u64 = 64 << 20;

pub const DEFAULT_MAX_FILES: u32 = 4;

/// The mode of a log, whatever the file mode mask is: its owner alone reads it.
const PRIVATE: u32 = 0o600;
const PERMISSIONS: u32 = 0o7777;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFileOptions {
    /// The file being written; rotated ones have `.1`, `.2`, … appended.
    pub path: PathBuf,
    /// Size that a file reaches before it is rotated.
    ///
    /// A batch of lines is never split, so an otherwise empty file may exceed it by one batch.
    pub max_bytes: u64,
    /// Files kept, the one being written included; 0 counts as 1.
    pub max_files: u32,
}

impl LogFileOptions {
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            max_bytes: DEFAULT_MAX_BYTES,
            max_files: DEFAULT_MAX_FILES,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum OpenLogFileError {
    /// The system refused; a symbolic link at the path counts as that.
    #[error("cannot open the log file {}", path.display())]
    Open { path: PathBuf, source: io::Error },
    /// The path names a directory, device, pipe or socket.
    #[error("the log file {} exists and is not a regular file", path.display())]
    NotRegular { path: PathBuf },
    #[error(
        "the log file {} belongs to uid {uid}, who could read it: remove it, or name another file",
        path.display()
    )]
    OtherOwner { path: PathBuf, uid: u32 },
    #[error("the log is not written to {}", path.display())]
    Folder {
        path: PathBuf,
        source: OpenFolderError,
    },
}

#[derive(Debug)]
pub(super) struct Output {
    file: File,
    size_bytes: u64,
    /// Of the destination, for messages.
    pub(super) name: String,
    /// Set for a file of our own.
    place: Option<Place>,
}

/// Where a file of our own is.
#[derive(Debug)]
struct Place {
    options: LogFileOptions,
    folder: OwnedFd,
    name: OsString,
}

impl Output {
    /// A pipe, terminal or file that the server was started with.
    pub(super) fn stream(fd: impl Into<OwnedFd>, name: &str) -> Self {
        Self {
            file: File::from(fd.into()),
            size_bytes: 0,
            name: name.to_owned(),
            place: None,
        }
    }

    /// Opens a file of our own for appending, creating it if need be.
    pub(super) fn open(options: LogFileOptions) -> Result<Self, OpenLogFileError> {
        let name = options.path.display().to_string();
        let place = Place::open(options)?;
        let (file, size_bytes) = place.open_for_append()?;
        Ok(Self {
            file,
            size_bytes,
            name,
            place: Some(place),
        })
    }

    /// Reopens a file by its path, as after an external rotation; keeps the old one if that
    /// fails. A stream stays what it is.
    pub(super) fn reopen(&mut self) -> io::Result<()> {
        if let Some(place) = &mut self.place {
            // The folder may have been moved away as well.
            let opened = Place::open(place.options.clone()).and_then(|new| {
                let opened = new.open_for_append()?;
                Ok((new, opened))
            });
            (*place, (self.file, self.size_bytes)) = opened.map_err(io::Error::other)?;
        }
        Ok(())
    }

    /// Appends complete lines, rotating first if they would exceed the size.
    ///
    /// A failed rotation is a failed write: growing without bound would trade a gap in the log
    /// for a full disk.
    pub(super) fn write_all(&mut self, text: &[u8]) -> Result<(), WriteFailure> {
        let length = u64::try_from(text.len()).unwrap_or(u64::MAX);
        if let Some(place) = &self.place
            && self.size_bytes > 0
            && self.size_bytes.saturating_add(length) > place.options.max_bytes
        {
            place
                .rotate(&self.file)
                .and_then(|()| self.reopen())
                .map_err(|source| WriteFailure { written: 0, source })?;
        }
        let result = write_all(self.file.as_fd(), text);
        let written = match &result {
            Ok(()) => length,
            Err(failure) => u64::try_from(failure.written).unwrap_or(u64::MAX),
        };
        self.size_bytes = self.size_bytes.saturating_add(written);
        result
    }
}

impl Place {
    fn open(options: LogFileOptions) -> Result<Self, OpenLogFileError> {
        let path = || options.path.clone();
        let name = options.path.file_name().map(OsStr::to_owned);
        let name = name.ok_or_else(|| OpenLogFileError::NotRegular { path: path() })?;
        let folder = options.path.parent().unwrap_or(Path::new("."));
        let folder = open_for_log(folder).map_err(|error| match error {
            OpenFolderError::Open { source, .. } => OpenLogFileError::Open {
                path: path(),
                source,
            },
            source => OpenLogFileError::Folder {
                path: path(),
                source,
            },
        })?;
        Ok(Self {
            options,
            folder,
            name,
        })
    }

    /// Moves the files on, if the path still names the one that is open.
    fn rotate(&self, file: &File) -> io::Result<()> {
        if !self.is_at(file)? {
            return Ok(());
        }
        let max_files = self.options.max_files;
        if max_files <= 1 {
            unlinkat(&self.folder, &self.name, AtFlags::empty())?;
        }
        // The rename onto the last number drops what was there.
        for number in (1..max_files).rev() {
            let (from, to) = (self.numbered(number - 1), self.numbered(number));
            match renameat(&self.folder, from, &self.folder, to) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    fn is_at(&self, file: &File) -> io::Result<bool> {
        let open = file.metadata()?;
        match statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => Ok((found.st_dev, found.st_ino) == (open.dev(), open.ino())),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    /// The name with `.number` appended; the file being written has number 0 and no suffix.
    fn numbered(&self, number: u32) -> OsString {
        let mut name = self.name.clone();
        if number > 0 {
            name.push(format!(".{number}"));
        }
        name
    }

    /// Opens a regular file of this user's without following a link; with its length.
    fn open_for_append(&self) -> Result<(File, u64), OpenLogFileError> {
        let path = || self.options.path.clone();
        let failed = |source| OpenLogFileError::Open {
            path: path(),
            source,
        };
        let not_regular = || OpenLogFileError::NotRegular { path: path() };
        // NONBLOCK has no effect on a regular file; it keeps a pipe at the path from hanging us.
        let flags = OFlags::WRONLY
            | OFlags::APPEND
            | OFlags::CREATE
            | OFlags::CLOEXEC
            | OFlags::NOFOLLOW
            | OFlags::NOCTTY
            | OFlags::NONBLOCK;
        let mode = Mode::RUSR | Mode::WUSR;
        let fd = openat(&self.folder, &self.name, flags, mode).map_err(|errno| match errno {
            Errno::NXIO | Errno::ISDIR => not_regular(),
            errno => failed(errno.into()),
        })?;
        let file = File::from(fd);
        let metadata = file.metadata().map_err(failed)?;
        if !metadata.is_file() {
            return Err(not_regular());
        }
        let uid = metadata.uid();
        if uid != geteuid().as_raw() {
            return Err(OpenLogFileError::OtherOwner { path: path(), uid });
        }
        if metadata.mode() & PERMISSIONS != PRIVATE {
            let mode = Permissions::from_mode(PRIVATE);
            file.set_permissions(mode).map_err(failed)?;
        }
        Ok((file, metadata.len()))
    }
}

#[derive(Debug)]
pub(super) struct WriteFailure {
    pub(super) written: usize,
    pub(super) source: io::Error,
}

/// Writes all of `bytes`, through interruptions, short writes and non-blocking descriptors.
fn write_all(fd: BorrowedFd<'_>, bytes: &[u8]) -> Result<(), WriteFailure> {
    let mut written = 0;
    while written < bytes.len() {
        let outcome = match rustix::io::write(fd, &bytes[written..]) {
            Ok(0) => Err(Errno::IO),
            // Another process that shares the stream may have made it non-blocking.
            Err(Errno::AGAIN) => poll(&mut [PollFd::new(&fd, PollFlags::OUT)], None).map(|_| 0),
            outcome => outcome,
        };
        match outcome {
            Ok(count) => written += count,
            Err(Errno::INTR) => {}
            Err(errno) => {
                let source = errno.into();
                return Err(WriteFailure { written, source });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn numbered(path: &Path, number: u32) -> PathBuf {
        PathBuf::from(format!("{}.{number}", path.display()))
    }

    fn small(path: &Path, max_files: u32) -> Output {
        Output::open(LogFileOptions {
            path: path.to_owned(),
            max_bytes: 10,
            max_files,
        })
        .unwrap()
    }

    fn read(path: &Path) -> Option<String> {
        fs::read_to_string(path).ok()
    }

    #[test]
    fn keeps_the_newest_files_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut file = small(&path, 3);
        for line in [
            "one\n",
            "two\n",
            "three\n",
            "four\n",
            "five\n",
            "six\n",
            "a longer line\n",
        ] {
            file.write_all(line.as_bytes()).unwrap();
        }
        assert_eq!(read(&path).as_deref(), Some("a longer line\n"));
        assert_eq!(read(&numbered(&path, 1)).as_deref(), Some("six\n"));
        assert_eq!(read(&numbered(&path, 2)).as_deref(), Some("four\nfive\n"));
        assert_eq!(read(&numbered(&path, 3)), None);
    }

    #[test]
    fn a_log_is_for_its_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mode = || fs::metadata(&path).unwrap().permissions().mode() & PERMISSIONS;
        fs::write(&path, "older\n").unwrap();
        for before in [0o644, 0o666, 0o640, 0o400] {
            fs::set_permissions(&path, Permissions::from_mode(before)).unwrap();
            if before & 0o200 == 0 && !geteuid().is_root() {
                continue;
            }
            drop(small(&path, 2));
            assert_eq!(mode(), PRIVATE, "{before:o}");
        }
        fs::remove_file(&path).unwrap();
        let mut file = small(&path, 2);
        assert_eq!(mode(), PRIVATE);
        file.write_all(b"12345678\n").unwrap();
        file.write_all(b"next\n").unwrap();
        assert_eq!(mode(), PRIVATE, "and after a rotation");
        if geteuid().is_root() {
            std::os::unix::fs::chown(&path, Some(12_345), None).unwrap();
            let opened = Output::open(LogFileOptions::new(&path));
            assert!(matches!(
                opened,
                Err(OpenLogFileError::OtherOwner { uid: 12_345, .. })
            ));
        }
    }

    #[test]
    fn a_single_file_starts_over() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut file = small(&path, 0);
        file.write_all(b"12345678\n").unwrap();
        file.write_all(b"next\n").unwrap();
        assert_eq!(read(&path).as_deref(), Some("next\n"));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn counts_what_an_earlier_run_wrote() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        fs::write(&path, "12345678\n").unwrap();
        let mut file = small(&path, 2);
        file.write_all(b"next\n").unwrap();
        assert_eq!(read(&path).as_deref(), Some("next\n"));
        assert_eq!(read(&numbered(&path, 1)).as_deref(), Some("12345678\n"));
    }

    #[test]
    fn leaves_a_file_alone_that_it_does_not_write() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut file = small(&path, 3);
        file.write_all(b"12345678\n").unwrap();
        fs::rename(&path, dir.path().join("archived")).unwrap();
        fs::write(&path, "foreign\n").unwrap();
        file.write_all(b"ours\n").unwrap();
        assert_eq!(read(&path).as_deref(), Some("foreign\nours\n"));
        assert_eq!(
            read(&dir.path().join("archived")).as_deref(),
            Some("12345678\n")
        );
        assert_eq!(read(&numbered(&path, 1)), None);
    }

    #[test]
    fn reopens_after_being_moved() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut file = small(&path, 3);
        file.write_all(b"old\n").unwrap();
        fs::rename(&path, dir.path().join("archived")).unwrap();
        file.reopen().unwrap();
        file.write_all(b"new\n").unwrap();
        assert_eq!(read(&path).as_deref(), Some("new\n"));
        assert_eq!(read(&dir.path().join("archived")).as_deref(), Some("old\n"));
    }

    #[test]
    fn a_failed_rotation_writes_nothing_and_recovers() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut file = small(&path, 2);
        file.write_all(b"12345678\n").unwrap();
        fs::create_dir(numbered(&path, 1)).unwrap();
        assert_eq!(file.write_all(b"next\n").unwrap_err().written, 0);
        assert_eq!(read(&path).as_deref(), Some("12345678\n"));
        fs::remove_dir(numbered(&path, 1)).unwrap();
        file.write_all(b"next\n").unwrap();
        assert_eq!(read(&path).as_deref(), Some("next\n"));
    }

    #[test]
    fn refuses_links_and_special_files() {
        let dir = tempfile::tempdir().unwrap();
        let open = |path: &Path| Output::open(LogFileOptions::new(path));
        let link = dir.path().join("link");
        symlink(dir.path().join("victim"), &link).unwrap();
        assert!(matches!(open(&link), Err(OpenLogFileError::Open { .. })));
        assert!(!dir.path().join("victim").exists());
        assert!(matches!(
            open(dir.path()),
            Err(OpenLogFileError::NotRegular { .. })
        ));
        assert!(matches!(
            open(Path::new("/dev/null")),
            Err(OpenLogFileError::NotRegular { .. })
        ));
        let fifo = dir.path().join("fifo");
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, Mode::RWXU).unwrap();
        assert!(matches!(
            open(&fifo),
            Err(OpenLogFileError::NotRegular { .. })
        ));
    }
}
