//! The directory entry at which the socket shall appear, and what is there now.
//!
//! The directory is opened once, so that every look and every change concerns the same one even
//! if a part of the path is renamed meanwhile.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawMode, Stat, open, statat};
use rustix::io::Errno;

use super::error::BindSocketError;
use super::lock::{AcquireLockError, LockFile};
use super::probe::{Holder, Probe, probe};

/// Bytes of a socket's path that fit its address with the NUL that C programs need behind it.
const MAX_PATH_BYTES: usize = 107;

/// Length of the names made by [`temporary_name`].
const TEMPORARY_NAME_BYTES: usize = 8;

/// A file as opposed to its name.
///
/// Comparable only as long as one of the two is kept from being freed, here by the descriptor of
/// the listening socket or of the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    pub(super) fn of(stat: &Stat) -> Self {
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
        }
    }
}

/// The file that `name` in `dir` stands for, links not followed; none if there is none.
pub(super) fn file_id_at(dir: BorrowedFd<'_>, name: &OsStr) -> Result<Option<FileId>, Errno> {
    match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(FileId::of(&stat))),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// What kind of file something is, in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    Regular,
    Directory,
    /// A symbolic link, wherever it leads.
    Link,
    Pipe,
    /// A block or character device.
    Device,
    Socket,
    /// None of those.
    Unknown,
}

impl FileKind {
    pub(super) fn of_mode(mode: RawMode) -> Self {
        match FileType::from_raw_mode(mode) {
            FileType::RegularFile => Self::Regular,
            FileType::Directory => Self::Directory,
            FileType::Symlink => Self::Link,
            FileType::Fifo => Self::Pipe,
            FileType::BlockDevice | FileType::CharacterDevice => Self::Device,
            FileType::Socket => Self::Socket,
            _ => Self::Unknown,
        }
    }
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Regular => "a regular file",
            Self::Directory => "a directory",
            Self::Link => "a symbolic link",
            Self::Pipe => "a pipe",
            Self::Device => "a device",
            Self::Socket => "a socket",
            Self::Unknown => "a file of unknown kind",
        })
    }
}

/// Where the socket shall be.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) dir: OwnedFd,
    pub(super) dir_path: PathBuf,
    pub(super) name: OsString,
}

/// What is at the place, if it does not forbid to put a socket there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Occupant {
    None,
    /// The socket of a server that is gone.
    Stale {
        uid: u32,
    },
}

impl Place {
    /// Opens the directory of `path` and checks that the address of a socket can hold the path.
    pub(super) fn open(path: &Path) -> Result<Self, BindSocketError> {
        let name = path
            .file_name()
            .ok_or_else(|| BindSocketError::NoFileName {
                path: path.to_owned(),
            })?
            .to_owned();
        let dir_path = match path.parent() {
            Some(parent) if parent != Path::new("") => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        // The temporary name in the same directory must fit as well.
        let limit = MAX_PATH_BYTES - TEMPORARY_NAME_BYTES.saturating_sub(name.len());
        let length = dir_path.join(&name).as_os_str().len();
        if length > limit {
            return Err(BindSocketError::PathTooLong {
                path: path.to_owned(),
                length,
                limit,
            });
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match open(&dir_path, flags, Mode::empty()) {
            Ok(dir) => Ok(Self {
                dir,
                dir_path,
                name,
            }),
            Err(Errno::NOENT) => Err(BindSocketError::MissingDirectory {
                directory: dir_path,
            }),
            Err(errno) => Err(BindSocketError::Io {
                action: "open the directory",
                path: dir_path,
                source: errno.into(),
            }),
        }
    }

    /// The path of the socket.
    pub(super) fn path(&self) -> PathBuf {
        self.dir_path.join(&self.name)
    }

    /// The path of the lock file.
    pub(super) fn lock_path(&self) -> PathBuf {
        self.dir_path.join(self.lock_name())
    }

    fn lock_name(&self) -> OsString {
        let mut name = self.name.clone();
        name.push(".lock");
        name
    }

    /// Takes the lock that goes with the socket.
    pub(super) fn lock(&self) -> Result<LockFile, BindSocketError> {
        LockFile::acquire(self.dir.as_fd(), &self.lock_name()).map_err(|error| {
            let lock = self.lock_path();
            match error {
                AcquireLockError::Busy(pid) => {
                    // Whoever answers on the socket is the better witness, if anyone does.
                    let holder = match probe(&self.path()) {
                        Probe::Served(Some(credentials)) => Holder::of_credentials(credentials),
                        _ => Holder::of_pid(pid),
                    };
                    BindSocketError::Served {
                        path: self.path(),
                        holder,
                    }
                }
                AcquireLockError::NotRegular(kind) => {
                    BindSocketError::LockNotRegular { lock, kind }
                }
                AcquireLockError::OtherOwner(uid) => BindSocketError::LockOfOtherUser { lock, uid },
                AcquireLockError::Io(source) => BindSocketError::Lock { lock, source },
            }
        })
    }

    /// Looks at the place itself.
    pub(super) fn inspect(&self) -> Result<Occupant, BindSocketError> {
        self.inspect_name(&self.name)
    }

    /// Looks at `name` in the same directory: nothing and a stale socket are fine.
    pub(super) fn inspect_name(&self, name: &OsStr) -> Result<Occupant, BindSocketError> {
        let path = self.dir_path.join(name);
        let stat = match statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(Occupant::None),
            Err(errno) => {
                return Err(BindSocketError::Io {
                    action: "look at",
                    path,
                    source: errno.into(),
                });
            }
        };
        let uid = stat.st_uid;
        match FileKind::of_mode(stat.st_mode) {
            FileKind::Socket => {}
            kind => return Err(BindSocketError::NotASocket { path, kind }),
        }
        match probe(&path) {
            Probe::Stale => Ok(Occupant::Stale { uid }),
            Probe::Missing => Ok(Occupant::None),
            Probe::Served(credentials) => {
                let holder = match credentials {
                    Some(credentials) => Holder::of_credentials(credentials),
                    None => Holder::of_pid(None),
                };
                Err(BindSocketError::Served { path, holder })
            }
            Probe::Unclear(source) => Err(BindSocketError::Unclear { path, uid, source }),
        }
    }
}

/// A name of [`TEMPORARY_NAME_BYTES`] bytes that nobody can foresee.
pub(super) fn temporary_name() -> OsString {
    use std::hash::{BuildHasher, Hasher, RandomState};

    const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let mut random = RandomState::new().build_hasher().finish();
    let mut name = *b".t......";
    for slot in &mut name[2..] {
        *slot = ALPHABET[usize::try_from(random % 32).unwrap_or(0)];
        random /= 32;
    }
    const { assert!(".t......".len() == TEMPORARY_NAME_BYTES) };
    OsStr::from_bytes(&name).to_owned()
}
