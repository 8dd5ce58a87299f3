//! Where log text ends up: an inherited stream, or a file of bounded size, which is `path`,
//! `path.1`, `path.2` and so on, the oldest falling off.
//!
//! Owned by one thread of the log, which is the only one to write through it. Blocking is allowed
//! here, losing count of what was written is not. It never follows a link at `path`, and it renames
//! `path` only while that is the file it writes, so that a log moved away by the administrator
//! stays untouched.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

pub const DEFAULT_MAX_BYTES: u64 = 64 << 20;

pub const DEFAULT_MAX_FILES: u32 = 4;

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
}

#[derive(Debug)]
pub(super) struct Output {
    file: File,
    size_bytes: u64,
    /// Of the destination, for messages.
    pub(super) name: String,
    /// Set for a file of our own.
    options: Option<LogFileOptions>,
}

impl Output {
    /// A pipe, terminal or file that the server was started with.
    pub(super) fn stream(fd: impl Into<OwnedFd>, name: &str) -> Self {
        Self {
            file: File::from(fd.into()),
            size_bytes: 0,
            name: name.to_owned(),
            options: None,
        }
    }

    /// Opens a file of our own for appending, creating it if need be.
    pub(super) fn open(options: LogFileOptions) -> Result<Self, OpenLogFileError> {
        let (file, size_bytes) = open_for_append(&options.path)?;
        Ok(Self {
            file,
            size_bytes,
            name: options.path.display().to_string(),
            options: Some(options),
        })
    }

    /// Reopens a file by its path, as after an external rotation; keeps the old one if that
    /// fails. A stream stays what it is.
    pub(super) fn reopen(&mut self) -> io::Result<()> {
        if let Some(options) = &self.options {
            let opened = open_for_append(&options.path).map_err(io::Error::other)?;
            (self.file, self.size_bytes) = opened;
        }
        Ok(())
    }

    /// Appends complete lines, rotating first if they would exceed the size.
    ///
    /// A failed rotation is a failed write: growing without bound would trade a gap in the log
    /// for a full disk.
    pub(super) fn write_all(&mut self, text: &[u8]) -> Result<(), WriteFailure> {
        let length = u64::try_from(text.len()).unwrap_or(u64::MAX);
        if let Some(options) = &self.options
            && self.size_bytes > 0
            && self.size_bytes.saturating_add(length) > options.max_bytes
        {
            let (path, max_files) = (options.path.clone(), options.max_files);
            self.rotate(&path, max_files)
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

    fn rotate(&mut self, path: &Path, max_files: u32) -> io::Result<()> {
        if self.is_at(path)? {
            if max_files <= 1 {
                fs::remove_file(path)?;
            }
            // The rename onto the last number drops what was there.
            for number in (1..max_files).rev() {
                match fs::rename(numbered(path, number - 1), numbered(path, number)) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
        }
        self.reopen()
    }

    /// Whether the path still names the file that is open.
    fn is_at(&self, path: &Path) -> io::Result<bool> {
        let open = self.file.metadata()?;
        match fs::symlink_metadata(path) {
            Ok(found) => Ok((found.dev(), found.ino()) == (open.dev(), open.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// `path` with `.number` appended; the file being written has number 0 and no suffix.
fn numbered(path: &Path, number: u32) -> PathBuf {
    if number == 0 {
        return path.to_owned();
    }
    let mut name = OsString::from(path);
    name.push(format!(".{number}"));
    PathBuf::from(name)
}

/// Opens a regular file without following a link; with its length.
fn open_for_append(path: &Path) -> Result<(File, u64), OpenLogFileError> {
    let failed = |source| OpenLogFileError::Open {
        path: path.to_owned(),
        source,
    };
    let not_regular = || OpenLogFileError::NotRegular {
        path: path.to_owned(),
    };
    // NONBLOCK has no effect on a regular file; it keeps a pipe at the path from hanging us.
    let flags = OFlags::WRONLY
        | OFlags::APPEND
        | OFlags::CREATE
        | OFlags::CLOEXEC
        | OFlags::NOFOLLOW
        | OFlags::NOCTTY
        | OFlags::NONBLOCK;
    let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP;
    let fd = rustix::fs::open(path, flags, mode).map_err(|errno| match errno {
        Errno::NXIO | Errno::ISDIR => not_regular(),
        errno => failed(errno.into()),
    })?;
    let file = File::from(fd);
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(not_regular());
    }
    Ok((file, metadata.len()))
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
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

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
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777 & !0o640,
            0
        );
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
