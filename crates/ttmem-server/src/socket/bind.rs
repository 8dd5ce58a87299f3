//! Putting the listening socket in place, and taking it away again.
//!
//! The socket is made under a temporary name, given its mode and group, made to listen, and only
//! then moved to its path, in one step that also replaces a dead server's socket. That step
//! exchanges the two names where the file system can: whatever turns up at the path at the last
//! moment is put back instead of being destroyed.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use nix::unistd::Gid;
use rustix::fs::{
    AtFlags, Mode, RenameFlags, chmodat, chownat, linkat, renameat, renameat_with, unlinkat,
};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, listen, socket_with};

use super::error::BindSocketError;
use super::lock::LockFile;
use super::place::{FileId, Occupant, Place, file_id_at, temporary_name};

/// Connections that may wait to be accepted; the kernel lowers it to `net.core.somaxconn`.
///
/// Hundreds of processes of one job connect at the same moment, and old clients do not try again.
const BACKLOG: i32 = 4096;

/// How often the place is looked at anew after it changed under our hands.
const ATTEMPTS: usize = 16;

/// Where to listen and who may connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BindOptions {
    pub path: PathBuf,
    /// Permission bits of the socket; connecting takes write permission.
    pub mode: u32,
    /// Group to give the socket to; the process's own if none.
    pub group: Option<Gid>,
}

/// A listening socket at its path; dropping it takes it away.
///
/// The file is removed only if it is still ours. Descriptors cloned from the listener do not keep
/// it, but keep the connections that wait.
#[derive(Debug)]
pub struct BoundSocket {
    place: Place,
    id: FileId,
    listener: UnixListener,
    // After the listener, so that whoever gets the lock next finds nobody listening.
    _lock: LockFile,
}

impl BoundSocket {
    /// The listener, non-blocking.
    #[must_use]
    pub fn listener(&self) -> &UnixListener {
        &self.listener
    }

    /// A second descriptor of the listener, for an event loop that wants to own one.
    pub fn try_clone_listener(&self) -> io::Result<UnixListener> {
        self.listener.try_clone()
    }

    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.place.path()
    }
}

impl Drop for BoundSocket {
    fn drop(&mut self) {
        // The open listener keeps its file's number from being given to another file.
        remove_if_same(&self.place, &self.place.name, self.id);
    }
}

/// Binds the listening socket, unless someone serves the path or something else lies there.
pub fn bind(options: &BindOptions) -> Result<BoundSocket, BindSocketError> {
    let place = Place::open(&options.path)?;
    // Before the lock, since its file may be impossible to make for a reason that matters less
    // to the user than a running server.
    place.inspect()?;
    let lock = place.lock()?;
    let (listener, id) = Prepared::new(&place, options)?.move_into_place()?;
    Ok(BoundSocket {
        place,
        id,
        listener,
        _lock: lock,
    })
}

/// A socket that listens under a temporary name.
#[derive(Debug)]
struct Prepared<'a> {
    temporary: TemporaryName<'a>,
    listener: UnixListener,
}

/// The name of a new socket; dropping it removes the socket from there if it is still there.
#[derive(Debug)]
struct TemporaryName<'a> {
    place: &'a Place,
    name: OsString,
    id: FileId,
}

impl Drop for TemporaryName<'_> {
    fn drop(&mut self) {
        remove_if_same(self.place, &self.name, self.id);
    }
}

impl<'a> Prepared<'a> {
    fn new(place: &'a Place, options: &BindOptions) -> Result<Self, BindSocketError> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
            .map_err(failed(place, "make the socket for"))?;
        let name = bind_to_free_name(place, &socket)
            .map_err(failed(place, "make a temporary socket beside"))?;
        let id = file_id_at(place.dir.as_fd(), &name)
            .and_then(|id| id.ok_or(Errno::NOENT))
            .map_err(failed(place, "find the temporary socket beside"))?;
        let temporary = TemporaryName { place, name, id };

        let (dir, name) = (&place.dir, &temporary.name);
        if let Some(gid) = options.group {
            let group = Some(rustix::fs::Gid::from_raw(gid.as_raw()));
            chownat(dir, name, None, group, AtFlags::SYMLINK_NOFOLLOW).map_err(|errno| {
                let gid = gid.as_raw();
                BindSocketError::Group {
                    path: place.path(),
                    gid,
                    source: errno.into(),
                }
            })?;
        }
        let mode = Mode::from_raw_mode(options.mode & 0o777);
        chmodat(dir, name, mode, AtFlags::empty()).map_err(failed(place, "set the mode of"))?;
        listen(&socket, BACKLOG).map_err(failed(place, "listen on"))?;
        Ok(Self {
            temporary,
            listener: UnixListener::from(socket),
        })
    }

    /// Moves the socket to its path, under the lock.
    fn move_into_place(self) -> Result<(UnixListener, FileId), BindSocketError> {
        let place = self.temporary.place;
        for _ in 0..ATTEMPTS {
            let moved = match place.inspect()? {
                Occupant::None => self.move_to_free_name()?,
                Occupant::Stale { uid } => self.replace_stale(uid)?,
            };
            if moved {
                return Ok((self.listener, self.temporary.id));
            }
        }
        Err(BindSocketError::Contended { path: place.path() })
    }

    /// Moves the socket to its path if nothing is there; false if something has appeared.
    fn move_to_free_name(&self) -> Result<bool, BindSocketError> {
        let TemporaryName { place, name, id } = &self.temporary;
        let (dir, to) = (&place.dir, &place.name);
        let moved = match renameat_with(dir, name, dir, to, RenameFlags::NOREPLACE) {
            // Not every file system knows the flag; a second link never replaces either.
            Err(Errno::INVAL | Errno::NOSYS) => linkat(dir, name, dir, to, AtFlags::empty())
                .map(|()| remove_if_same(place, name, *id)),
            result => result,
        };
        match moved {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(errno) => Err(failed(place, MOVE)(errno)),
        }
    }

    /// Moves the socket to its path in place of a stale one; false if that has changed.
    fn replace_stale(&self, uid: u32) -> Result<bool, BindSocketError> {
        let TemporaryName { place, name, .. } = &self.temporary;
        let (dir, to) = (&place.dir, &place.name);
        let exchange = || renameat_with(dir, name, dir, to, RenameFlags::EXCHANGE);
        match exchange() {
            Ok(()) => match place.inspect_name(name) {
                Ok(Occupant::Stale { .. }) => {
                    // At worst, a dead socket with an odd name stays behind.
                    unlinkat(dir, name, AtFlags::empty()).ok();
                    Ok(true)
                }
                Ok(Occupant::None) => Ok(true),
                // Something else took the stale socket's place before we did: give it back.
                Err(_) => exchange().map(|()| false).map_err(failed(place, MOVE)),
            },
            Err(Errno::NOENT) => Ok(false),
            Err(Errno::PERM | Errno::ACCESS) if uid != rustix::process::geteuid().as_raw() => {
                Err(BindSocketError::StaleOfOtherUser {
                    path: place.path(),
                    uid,
                })
            }
            // Not every file system can exchange. The path was looked at just before, and other
            // servers of ours respect the lock.
            Err(Errno::INVAL | Errno::NOSYS) => renameat(dir, name, dir, to)
                .map(|()| true)
                .map_err(failed(place, MOVE)),
            Err(errno) => Err(failed(place, MOVE)(errno)),
        }
    }
}

const MOVE: &str = "move the new socket to";

/// What turns a refusal of the system into an error about `place`.
fn failed(place: &Place, action: &'static str) -> impl FnOnce(Errno) -> BindSocketError {
    let path = place.path();
    move |errno| BindSocketError::Io {
        action,
        path,
        source: errno.into(),
    }
}

/// Binds `socket` to a name of its directory that nothing had before.
fn bind_to_free_name(place: &Place, socket: &OwnedFd) -> Result<OsString, Errno> {
    for _ in 0..ATTEMPTS {
        let name = temporary_name();
        let address = SocketAddrUnix::new(place.dir_path.join(&name))?;
        match rustix::net::bind(socket, &address) {
            Ok(()) => return Ok(name),
            Err(Errno::ADDRINUSE) => {}
            Err(errno) => return Err(errno),
        }
    }
    Err(Errno::ADDRINUSE)
}

/// Removes `name` if it stands for the file `id`; what fails is left behind.
fn remove_if_same(place: &Place, name: &OsStr, id: FileId) {
    if file_id_at(place.dir.as_fd(), name).is_ok_and(|found| found == Some(id)) {
        unlinkat(&place.dir, name, AtFlags::empty()).ok();
    }
}

#[cfg(test)]
mod tests;
