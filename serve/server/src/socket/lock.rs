//! The lock file beside the socket: one server per path, even while the socket is not there yet.
//!
//! The lock is `flock` on an open file, so it ends with the process however that ends. The file
//! is removed by its holder, which makes the lock worthless to a process that opened it before; so a
//! lock counts only if the name still leads to the locked file afterwards.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use rustix::fs::{
    AtFlags, FileType, FlockOperation, Mode, OFlags, Stat, flock, fstat, openat, statat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::error::BindSocketError;
use super::path::{FileId, SocketPath, file_kind};

/// Attempts at a lock whose file is being removed and recreated at the same time.
const ATTEMPTS: usize = 100;

/// A lock that is held; dropping it removes the file.
#[derive(Debug)]
pub(super) struct LockFile {
    socket: Arc<SocketPath>,
    file: File,
    id: FileId,
}

impl LockFile {
    /// Takes the lock of a socket's path and writes our pid into it; never waits.
    pub(super) fn acquire(socket: &Arc<SocketPath>) -> Result<Self, BindSocketError> {
        let failed = |errno: Errno| failed(socket, errno.into());
        for _ in 0..ATTEMPTS {
            let Some(file) = open(socket)? else {
                continue;
            };
            let stat = fstat(&file).map_err(failed)?;
            check(socket, &stat, &[0, geteuid().as_raw()])?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => {
                    return Err(socket.served_by_lock_holder(read_pid(&file)));
                }
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(failed(errno)),
            }
            let id = (stat.st_dev, stat.st_ino);
            if socket.file_id(&socket.lock_name()).map_err(failed)? != Some(id) {
                continue;
            }
            // The pid serves only to name us to others: on a full disk the lock still holds.
            write_pid(&file).ok();
            let socket = Arc::clone(socket);
            return Ok(Self { socket, file, id });
        }
        Err(failed(Errno::BUSY))
    }
}

impl Drop for LockFile {
    fn drop(&mut self) {
        // Still under the lock: nobody else may have taken it over. What fails here is left
        // behind, and harmless, since the lock itself goes with the descriptor.
        let name = self.socket.lock_name();
        self.socket.remove_if_same(&name, self.id);
        // Other descriptors of the same open file, inherited by a child, must not keep it.
        flock(&self.file, FlockOperation::Unlock).ok();
    }
}

/// Opens the lock file, creating it if need be; none if it came or went meanwhile.
fn open(socket: &SocketPath) -> Result<Option<File>, BindSocketError> {
    let (dir, name) = (&socket.dir, &socket.lock_name());
    // NONBLOCK, because something other than a regular file may be there.
    let flags =
        OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    match openat(dir, name, flags, Mode::empty()) {
        Ok(fd) => return Ok(Some(File::from(fd))),
        Err(Errno::NOENT) => {}
        Err(errno) => {
            if let Ok(stat) = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
                check(socket, &stat, &[geteuid().as_raw()])?;
            }
            return Err(failed(socket, errno.into()));
        }
    }
    // Exclusively: in a sticky directory the kernel may refuse to create what another user has
    // created in between, and that refusal would look like our own lack of permission.
    let flags = flags | OFlags::CREATE | OFlags::EXCL;
    match openat(dir, name, flags, Mode::RUSR | Mode::WUSR) {
        Ok(fd) => Ok(Some(File::from(fd))),
        Err(Errno::EXIST) => Ok(None),
        Err(errno) => Err(failed(socket, errno.into())),
    }
}

/// Whether a lock file is one that we would make, of a user whom we trust with it.
fn check(socket: &SocketPath, stat: &Stat, trusted: &[u32]) -> Result<(), BindSocketError> {
    let (lock, uid) = (socket.lock_path(), stat.st_uid);
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        let kind = file_kind(stat.st_mode);
        return Err(BindSocketError::LockNotRegular { lock, kind });
    }
    if !trusted.contains(&uid) {
        return Err(BindSocketError::LockOfOtherUser { lock, uid });
    }
    Ok(())
}

fn failed(socket: &SocketPath, source: io::Error) -> BindSocketError {
    let lock = socket.lock_path();
    BindSocketError::Lock { lock, source }
}

fn write_pid(mut file: &File) -> io::Result<()> {
    file.set_len(0)?;
    file.write_all(format!("{}\n", std::process::id()).as_bytes())
}

fn read_pid(file: &File) -> Option<u32> {
    let mut bytes = [0; 16];
    let length = file.read_at(&mut bytes, 0).ok()?;
    let text = str::from_utf8(bytes.get(..length)?).ok()?;
    text.trim_end().parse().ok().filter(|&pid| pid != 0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown, symlink};
    use std::path::Path;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

    use super::*;

    fn socket_in(directory: &Path) -> Arc<SocketPath> {
        Arc::new(SocketPath::open(&directory.join("socket")).unwrap())
    }

    fn acquire(directory: &Path) -> Result<LockFile, BindSocketError> {
        LockFile::acquire(&socket_in(directory))
    }

    #[test]
    fn is_exclusive_names_its_holder_and_goes_away() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket.lock");
        let held = acquire(dir.path()).unwrap();
        let metadata = std::fs::metadata(&path).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
        match acquire(dir.path()) {
            Err(BindSocketError::Served { holder, .. }) => {
                assert_eq!(holder.pid, Some(std::process::id()));
            }
            other => panic!("{other:?}"),
        }
        drop(held);
        assert!(!path.exists());
        drop(acquire(dir.path()).unwrap());
    }

    #[test]
    fn takes_over_what_a_crash_left() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("socket.lock"), "999999999999\n and more").unwrap();
        let held = acquire(dir.path()).unwrap();
        let content = std::fs::read_to_string(dir.path().join("socket.lock")).unwrap();
        assert_eq!(content, format!("{}\n", std::process::id()));
        drop(held);
    }

    #[test]
    fn keeps_away_from_what_is_not_a_lock_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket.lock");
        let victim = dir.path().join("victim");
        std::fs::write(&victim, "precious").unwrap();
        symlink(&victim, &path).unwrap();
        assert!(matches!(
            acquire(dir.path()),
            Err(BindSocketError::LockNotRegular {
                kind: "a symbolic link",
                ..
            })
        ));
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(matches!(
            acquire(dir.path()),
            Err(BindSocketError::LockNotRegular {
                kind: "a directory",
                ..
            })
        ));
        std::fs::remove_dir(&path).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, Mode::RWXU).unwrap();
        assert!(matches!(
            acquire(dir.path()),
            Err(BindSocketError::LockNotRegular { kind: "a pipe", .. })
        ));
        // Only the superuser can set this up.
        if rustix::process::geteuid().is_root() {
            std::fs::remove_file(&path).unwrap();
            std::fs::write(&path, "").unwrap();
            chown(&path, Some(12_345), None).unwrap();
            assert!(matches!(
                acquire(dir.path()),
                Err(BindSocketError::LockOfOtherUser { uid: 12_345, .. })
            ));
        }
    }

    #[test]
    fn leaves_a_file_that_took_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket.lock");
        let held = acquire(dir.path()).unwrap();
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "foreign").unwrap();
        drop(held);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "foreign");
    }

    #[test]
    fn never_has_two_holders_while_it_is_removed_and_made_anew() {
        let dir = tempfile::tempdir().unwrap();
        let socket = socket_in(dir.path());
        let held = AtomicBool::new(false);
        let successes = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        if let Ok(lock) = LockFile::acquire(&socket) {
                            assert!(!held.swap(true, Ordering::SeqCst), "held twice");
                            successes.fetch_add(1, Ordering::Relaxed);
                            held.store(false, Ordering::SeqCst);
                            drop(lock);
                        }
                    }
                });
            }
        });
        assert!(successes.into_inner() > 0);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
