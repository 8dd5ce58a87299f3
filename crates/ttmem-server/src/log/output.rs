//! One destination of log text: an inherited stream or a rotating file.
//!
//! Owned by one thread of the log, which is the only one to write through it. Blocking is allowed
//! here, losing count of what was written is not.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use super::rotate::RotatingFile;

/// Where text ends up.
#[derive(Debug)]
pub(super) enum Output {
    /// A pipe, terminal or file that the server was started with.
    Stream {
        /// The stream's descriptor.
        fd: OwnedFd,
        /// What messages call it.
        name: &'static str,
    },
    /// A file of our own.
    File(RotatingFile),
}

/// A write that ended early, and how far it came.
#[derive(Debug)]
pub(super) struct WriteFailure {
    /// Bytes that did get out.
    pub(super) written: usize,
    /// Why the next one did not.
    pub(super) source: io::Error,
}

impl Output {
    /// Writes all of `text`, in one call as far as the system allows.
    pub(super) fn write_all(&mut self, text: &[u8]) -> Result<(), WriteFailure> {
        match self {
            Self::Stream { fd, .. } => write_all(fd.as_fd(), text),
            Self::File(file) => file.write_all(text),
        }
    }

    /// Opens a file anew by its path; a stream stays what it is.
    pub(super) fn reopen(&mut self) -> io::Result<()> {
        match self {
            Self::Stream { .. } => Ok(()),
            Self::File(file) => file.reopen().map_err(io::Error::other),
        }
    }

    /// The name of the destination for messages.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Stream { name, .. } => (*name).to_owned(),
            Self::File(file) => file.path().display().to_string(),
        }
    }
}

/// Writes all of `bytes`, through interruptions, short writes and non-blocking descriptors.
pub(super) fn write_all(fd: BorrowedFd<'_>, bytes: &[u8]) -> Result<(), WriteFailure> {
    let mut written = 0;
    while written < bytes.len() {
        let errno = match rustix::io::write(fd, &bytes[written..]) {
            Ok(0) => {
                return Err(WriteFailure {
                    written,
                    source: io::ErrorKind::WriteZero.into(),
                });
            }
            Ok(count) => {
                written += count;
                continue;
            }
            Err(Errno::INTR) => continue,
            // Whoever shares the stream with us may have made it non-blocking.
            Err(Errno::AGAIN) => match poll(&mut [PollFd::new(&fd, PollFlags::OUT)], None) {
                Ok(_) | Err(Errno::INTR) => continue,
                Err(errno) => errno,
            },
            Err(errno) => errno,
        };
        return Err(WriteFailure {
            written,
            source: errno.into(),
        });
    }
    Ok(())
}
