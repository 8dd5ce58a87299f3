//! What can keep a server from its socket, worded so that the user knows what to do.

use std::io;
use std::path::PathBuf;

use super::probe::Holder;

#[derive(Debug, thiserror::Error)]
pub enum BindSocketError {
    #[error("{} does not name a file", path.display())]
    NoFileName { path: PathBuf },
    #[error(
        "the socket path {} has {length} bytes and may have {limit}; choose a shorter --socket",
        path.display()
    )]
    PathTooLong {
        path: PathBuf,
        length: usize,
        /// The longest that is possible with this file name.
        limit: usize,
    },
    #[error("the directory {} for the socket does not exist", directory.display())]
    MissingDirectory { directory: PathBuf },
    #[error("{} is served by {holder}; stop it or choose another --socket", path.display())]
    Served { path: PathBuf, holder: Holder },
    /// Something that no server made is at the path; it is left alone.
    #[error("{} is {kind}, not a socket; remove it or choose another --socket", path.display())]
    NotASocket { path: PathBuf, kind: &'static str },
    /// A socket is at the path, and whether it is in use cannot be found out.
    #[error(
        "cannot tell whether {}, which belongs to uid {uid}, is in use; choose another --socket",
        path.display()
    )]
    Unclear {
        path: PathBuf,
        uid: u32,
        source: io::Error,
    },
    /// A dead server's socket is at the path, and the directory protects it from us.
    #[error(
        "{} was left behind by a server of uid {uid} and can only be removed by that user or by \
         the superuser; choose another --socket",
        path.display()
    )]
    StaleOfOtherUser { path: PathBuf, uid: u32 },
    #[error("the lock file {} is {kind}, not a regular file; remove it", lock.display())]
    LockNotRegular { lock: PathBuf, kind: &'static str },
    #[error(
        "the lock file {} belongs to uid {uid}; have it removed or choose another --socket",
        lock.display()
    )]
    LockOfOtherUser { lock: PathBuf, uid: u32 },
    #[error("cannot lock {}", lock.display())]
    Lock { lock: PathBuf, source: io::Error },
    #[error("cannot give {} to group {gid}", path.display())]
    Group {
        path: PathBuf,
        gid: u32,
        source: io::Error,
    },
    #[error("{} keeps changing; is another server being started?", path.display())]
    Contended { path: PathBuf },
    #[error("cannot {action} {}", path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
}
