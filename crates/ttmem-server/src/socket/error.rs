//! What can keep a server from its socket, told so that the user knows what to do.

use std::io;
use std::path::PathBuf;

use super::place::FileKind;
use super::probe::Holder;

/// Why the listening socket could not be bound.
#[derive(Debug, thiserror::Error)]
pub enum BindSocketError {
    /// The path ends in nothing that could be a file's name.
    #[error("{} does not name a file", path.display())]
    NoFileName { path: PathBuf },
    /// The system's addresses cannot hold the path.
    #[error(
        "the socket path {} has {length} bytes and may have {limit}; choose a shorter --socket",
        path.display()
    )]
    PathTooLong {
        path: PathBuf,
        /// Its length in bytes.
        length: usize,
        /// The longest that is possible with this file name.
        limit: usize,
    },
    /// The directory of the socket is not there.
    #[error("the directory {} for the socket does not exist", directory.display())]
    MissingDirectory { directory: PathBuf },
    /// A server runs on this path.
    #[error("{} is served by {holder}; stop it or choose another --socket", path.display())]
    Served { path: PathBuf, holder: Holder },
    /// Something that no server made is at the path; it is left alone.
    #[error("{} is {kind}, not a socket; remove it or choose another --socket", path.display())]
    NotASocket { path: PathBuf, kind: FileKind },
    /// A socket is at the path, and whether it is in use cannot be found out.
    #[error(
        "cannot tell whether {}, which belongs to uid {uid}, is in use; choose another --socket",
        path.display()
    )]
    Unclear {
        path: PathBuf,
        uid: u32,
        /// What the attempt to connect said.
        source: io::Error,
    },
    /// A dead server's socket is at the path, and the directory protects it from us.
    #[error(
        "{} was left behind by a server of uid {uid} and can only be removed by that user or by \
         the superuser; choose another --socket",
        path.display()
    )]
    StaleOfOtherUser { path: PathBuf, uid: u32 },
    /// The lock file's name is taken by something else.
    #[error("the lock file {} is {kind}, not a regular file; remove it", lock.display())]
    LockNotRegular {
        /// The lock file's path.
        lock: PathBuf,
        kind: FileKind,
    },
    /// The lock file is another user's.
    #[error(
        "the lock file {} belongs to uid {uid}; have it removed or choose another --socket",
        lock.display()
    )]
    LockOfOtherUser {
        /// The lock file's path.
        lock: PathBuf,
        uid: u32,
    },
    /// The lock file cannot be created or locked.
    #[error("cannot lock {}", lock.display())]
    Lock {
        /// The lock file's path.
        lock: PathBuf,
        source: io::Error,
    },
    /// The socket cannot be given to the group asked for.
    #[error("cannot give {} to group {gid}", path.display())]
    Group {
        path: PathBuf,
        gid: u32,
        source: io::Error,
    },
    /// Others kept changing what is at the path.
    #[error("{} keeps changing; is another server being started?", path.display())]
    Contended { path: PathBuf },
    /// The system refused a step.
    #[error("cannot {action} {}", path.display())]
    Io {
        action: &'static str,
        /// What it was done to.
        path: PathBuf,
        source: io::Error,
    },
}
