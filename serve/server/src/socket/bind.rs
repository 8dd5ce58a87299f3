//! Putting the listening socket in place, and taking it away again.
//!
//! The socket is made under a temporary name, given its mode and group, made to listen, and only
//! then moved to its path, in one step that also replaces a dead server's socket. That step
//! exchanges the two names where the file system can: whatever turns up at the path at the last
//! moment is put back instead of being destroyed.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::{
    AtFlags, Gid, Mode, RenameFlags, chmodat, chownat, linkat, renameat, renameat_with, unlinkat,
};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, listen, socket_with};

use super::error::BindSocketError;
use super::lock::LockFile;
use super::path::{FileId, SocketPath, temporary_name};

/// Connections that may wait to be accepted; the kernel lowers it to `net.core.somaxconn`.
///
/// Hundreds of processes of one job connect at the same moment, and old clients do not try again. All users
/// share it, so it is as long as the system allows.
const BACKLOG: i32 = i32::MAX;

/// Attempts at a path that keeps changing.
const ATTEMPTS: usize = 16;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SocketConfig {
    pub path: PathBuf,
    /// Permission bits of the socket; connecting takes write permission.
    pub mode: u32,
    /// Group to give the socket to; the process's own if none.
    pub group: Option<u32>,
}

/// A listening socket at its path; dropping it takes it away.
///
/// The file is removed only if it is still ours. Descriptors cloned from the listener do not keep
/// it, but keep the connections that wait.
#[derive(Debug)]
pub struct BoundSocket {
    socket: Arc<SocketPath>,
    id: FileId,
    listener: UnixListener,
    // After the listener, so that the next holder of the lock finds nobody listening.
    _lock: LockFile,
}

impl BoundSocket {
    /// A second descriptor of the listener, for an event loop that wants to own one.
    pub fn try_clone_listener(&self) -> io::Result<UnixListener> {
        self.listener.try_clone()
    }

    pub fn path(&self) -> PathBuf {
        self.socket.path()
    }
}

impl Drop for BoundSocket {
    fn drop(&mut self) {
        // The open listener keeps its file's number from being given to another file.
        self.socket.remove_if_same(&self.socket.name, self.id);
    }
}

/// Binds the listening socket, unless someone serves the path or something else is there.
pub fn bind(config: &SocketConfig) -> Result<BoundSocket, BindSocketError> {
    let socket = Arc::new(SocketPath::open(&config.path)?);
    // Before the lock, since its file may be impossible to make for a reason that matters less
    // to the user than a running server.
    socket.find_stale(&socket.name)?;
    let lock = LockFile::acquire(&socket)?;
    let (temporary, listener) = TemporarySocket::listen(&socket, config)?;
    temporary.move_into_place()?;
    let id = temporary.id;
    drop(temporary);
    Ok(BoundSocket {
        socket,
        id,
        listener,
        _lock: lock,
    })
}

/// A new socket under a temporary name; dropping it removes the socket from there.
#[derive(Debug)]
struct TemporarySocket<'a> {
    socket: &'a SocketPath,
    name: OsString,
    id: FileId,
}

impl Drop for TemporarySocket<'_> {
    fn drop(&mut self) {
        self.socket.remove_if_same(&self.name, self.id);
    }
}

impl<'a> TemporarySocket<'a> {
    fn listen(
        socket: &'a SocketPath,
        config: &SocketConfig,
    ) -> Result<(Self, UnixListener), BindSocketError> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
            .map_err(failed(socket, "make the socket for"))?;
        let name = bind_to_free_name(socket, &fd)
            .map_err(failed(socket, "make a temporary socket beside"))?;
        let id = socket
            .file_id(&name)
            .and_then(|id| id.ok_or(Errno::NOENT))
            .map_err(failed(socket, "find the temporary socket beside"))?;
        let temporary = Self { socket, name, id };

        let (dir, name) = (&socket.dir, &temporary.name);
        if let Some(gid) = config.group {
            let group = Some(Gid::from_raw(gid));
            chownat(dir, name, None, group, AtFlags::SYMLINK_NOFOLLOW).map_err(|errno| {
                BindSocketError::Group {
                    path: socket.path(),
                    gid,
                    source: errno.into(),
                }
            })?;
        }
        let mode = Mode::from_raw_mode(config.mode & 0o777);
        chmodat(dir, name, mode, AtFlags::empty()).map_err(failed(socket, "set the mode of"))?;
        listen(&fd, BACKLOG).map_err(failed(socket, "listen on"))?;
        Ok((temporary, UnixListener::from(fd)))
    }

    /// Moves the socket to its path, under the lock.
    fn move_into_place(&self) -> Result<(), BindSocketError> {
        let socket = self.socket;
        for _ in 0..ATTEMPTS {
            let moved = match socket.find_stale(&socket.name)? {
                None => self.move_to_free_name()?,
                Some(uid) => self.replace_stale(uid)?,
            };
            if moved {
                return Ok(());
            }
        }
        let path = socket.path();
        Err(BindSocketError::Contended { path })
    }

    /// Moves the socket to its path if nothing is there; false if something has appeared.
    fn move_to_free_name(&self) -> Result<bool, BindSocketError> {
        let Self { socket, name, id } = self;
        let (dir, to) = (&socket.dir, &socket.name);
        let moved = match renameat_with(dir, name, dir, to, RenameFlags::NOREPLACE) {
            // Not every file system knows the flag; a second link never replaces either.
            Err(Errno::INVAL | Errno::NOSYS) => linkat(dir, name, dir, to, AtFlags::empty())
                .map(|()| socket.remove_if_same(name, *id)),
            result => result,
        };
        match moved {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(errno) => Err(failed(socket, MOVE)(errno)),
        }
    }

    /// Moves the socket to its path in place of a stale one; false if that has changed.
    fn replace_stale(&self, uid: u32) -> Result<bool, BindSocketError> {
        let Self { socket, name, .. } = self;
        let (dir, to) = (&socket.dir, &socket.name);
        let exchange = || renameat_with(dir, name, dir, to, RenameFlags::EXCHANGE);
        let moved = match exchange() {
            Ok(()) => match socket.find_stale(name) {
                Ok(Some(_uid)) => {
                    // At worst, a dead socket with an odd name stays behind.
                    unlinkat(dir, name, AtFlags::empty()).ok();
                    Ok(true)
                }
                Ok(None) => Ok(true),
                // Something else took the stale socket's place before we did: give it back.
                Err(_) => exchange().map(|()| false),
            },
            Err(Errno::NOENT) => Ok(false),
            Err(Errno::PERM | Errno::ACCESS) if uid != rustix::process::geteuid().as_raw() => {
                let path = socket.path();
                return Err(BindSocketError::StaleOfOtherUser { path, uid });
            }
            // Not every file system can exchange. The path was looked at just before, and other
            // servers of ours respect the lock.
            Err(Errno::INVAL | Errno::NOSYS) => renameat(dir, name, dir, to).map(|()| true),
            Err(errno) => Err(errno),
        };
        moved.map_err(failed(socket, MOVE))
    }
}

const MOVE: &str = "move the new socket to";

/// Turns a refusal of the system into an error about the path.
fn failed(socket: &SocketPath, action: &'static str) -> impl FnOnce(Errno) -> BindSocketError {
    let path = socket.path();
    move |errno| BindSocketError::Io {
        action,
        path,
        source: errno.into(),
    }
}

/// Binds `fd` to a name in the socket's directory that nothing had before.
fn bind_to_free_name(socket: &SocketPath, fd: &OwnedFd) -> Result<OsString, Errno> {
    for _ in 0..ATTEMPTS {
        let name = temporary_name();
        let address = SocketAddrUnix::new(socket.dir_path.join(&name))?;
        match rustix::net::bind(fd, &address) {
            Ok(()) => return Ok(name),
            Err(Errno::ADDRINUSE) => {}
            Err(errno) => return Err(errno),
        }
    }
    Err(Errno::ADDRINUSE)
}

#[cfg(test)]
mod tests;
