//! The directory entry at which the socket shall appear, and what is there now.
//!
//! The directory is opened once, so that every look and every change concerns the same one even
//! if a part of the path is renamed meanwhile.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawMode, open, statat, unlinkat};
use rustix::io::Errno;

use super::error::BindSocketError;
use super::probe::{Holder, Probe, probe};

/// Bytes of a socket's path that fit its address with the NUL that C programs need behind it.
const MAX_PATH_BYTES: usize = 107;

const TEMPORARY_NAME_BYTES: usize = 8;

/// A file as opposed to its name: its device and inode.
///
/// Comparable only as long as one of the two is kept from being freed, here by the descriptor of
/// the listening socket or of the lock.
pub(super) type FileId = (u64, u64);

pub(super) fn file_kind(mode: RawMode) -> &'static str {
    match FileType::from_raw_mode(mode) {
        FileType::RegularFile => "a regular file",
        FileType::Directory => "a directory",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a pipe",
        FileType::BlockDevice | FileType::CharacterDevice => "a device",
        FileType::Socket => "a socket",
        _ => "a file of unknown kind",
    }
}

#[derive(Debug)]
pub(super) struct SocketPath {
    pub(super) dir: OwnedFd,
    pub(super) dir_path: PathBuf,
    pub(super) name: OsString,
}

impl SocketPath {
    /// Opens the directory of `path` and checks that the address of a socket can hold the path.
    pub(super) fn open(path: &Path) -> Result<Self, BindSocketError> {
        let Some(name) = path.file_name().map(OsStr::to_owned) else {
            let path = path.to_owned();
            return Err(BindSocketError::NoFileName { path });
        };
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

    pub(super) fn path(&self) -> PathBuf {
        self.dir_path.join(&self.name)
    }

    pub(super) fn lock_path(&self) -> PathBuf {
        self.dir_path.join(self.lock_name())
    }

    pub(super) fn lock_name(&self) -> OsString {
        let mut name = self.name.clone();
        name.push(".lock");
        name
    }

    /// The error for a path whose lock is held, maybe by the process with this pid.
    pub(super) fn served_by_lock_holder(&self, pid: Option<u32>) -> BindSocketError {
        let path = self.path();
        let holder = match probe(&path) {
            Probe::Served(Some(credentials)) => Holder::of_credentials(credentials),
            _ => Holder::of_pid(pid),
        };
        BindSocketError::Served { path, holder }
    }

    /// The file that `name` in the directory stands for, links not followed.
    pub(super) fn file_id(&self, name: &OsStr) -> Result<Option<FileId>, Errno> {
        match statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some((stat.st_dev, stat.st_ino))),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Removes `name` if it stands for the file `id`; what fails is left behind.
    pub(super) fn remove_if_same(&self, name: &OsStr, id: FileId) {
        if self.file_id(name) == Ok(Some(id)) {
            unlinkat(&self.dir, name, AtFlags::empty()).ok();
        }
    }

    /// Looks at `name` in the directory; the owner's uid if a dead server's socket is there.
    ///
    /// # Errors
    /// When something else is there, which must be left alone.
    pub(super) fn find_stale(&self, name: &OsStr) -> Result<Option<u32>, BindSocketError> {
        let path = self.dir_path.join(name);
        let stat = match statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => {
                return Err(BindSocketError::Io {
                    action: "look at",
                    path,
                    source: errno.into(),
                });
            }
        };
        if FileType::from_raw_mode(stat.st_mode) != FileType::Socket {
            let kind = file_kind(stat.st_mode);
            return Err(BindSocketError::NotASocket { path, kind });
        }
        let uid = stat.st_uid;
        match probe(&path) {
            Probe::Stale => Ok(Some(uid)),
            Probe::Missing => Ok(None),
            Probe::Served(credentials) => {
                let holder = credentials.map(Holder::of_credentials);
                let holder = holder.unwrap_or_else(|| Holder::of_pid(None));
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
