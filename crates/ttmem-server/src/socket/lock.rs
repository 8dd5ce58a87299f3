//! The lock file beside the socket: one server per path, even while the socket is not there yet.
//!
//! The lock is `flock` on an open file, so it ends with the process however that ends. The file
//! is removed by its holder, which makes the lock worth nothing to whoever opened it before; so a
//! lock counts only if, once taken, the name still leads to the locked file.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, flock, fstat, openat, unlinkat};
use rustix::io::Errno;

use super::place::{FileId, FileKind, file_id_at};

/// How often a lock is sought whose file is being removed and made anew at the same time.
const ATTEMPTS: usize = 100;

/// A lock that is held; dropping it removes the file.
#[derive(Debug)]
pub(super) struct LockFile {
    dir: OwnedFd,
    name: OsString,
    file: File,
    id: FileId,
}

/// Why the lock could not be taken.
#[derive(Debug)]
pub(super) enum AcquireLockError {
    /// Another process holds it, maybe the one with this pid.
    Busy(Option<u32>),
    /// The file is of a kind that we never make.
    NotRegular(FileKind),
    /// The file belongs to a user whom we do not trust with it.
    OtherOwner(u32),
    Io(io::Error),
}

impl From<Errno> for AcquireLockError {
    fn from(errno: Errno) -> Self {
        Self::Io(errno.into())
    }
}

impl LockFile {
    /// Takes the lock `name` in `dir` and writes our pid into it; never waits.
    pub(super) fn acquire(dir: BorrowedFd<'_>, name: &OsStr) -> Result<Self, AcquireLockError> {
        for _ in 0..ATTEMPTS {
            let Some(file) = open(dir, name)? else {
                continue;
            };
            let stat = fstat(&file)?;
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => {}
                _ => {
                    return Err(AcquireLockError::NotRegular(FileKind::of_mode(
                        stat.st_mode,
                    )));
                }
            }
            if ![0, rustix::process::geteuid().as_raw()].contains(&stat.st_uid) {
                return Err(AcquireLockError::OtherOwner(stat.st_uid));
            }
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => return Err(AcquireLockError::Busy(read_pid(&file))),
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno.into()),
            }
            let id = FileId::of(&stat);
            if file_id_at(dir, name)? != Some(id) {
                continue;
            }
            // The pid serves only to name us to others: on a full disk the lock still holds.
            write_pid(&file).ok();
            let dir = dir.try_clone_to_owned().map_err(AcquireLockError::Io)?;
            return Ok(Self {
                dir,
                name: name.to_owned(),
                file,
                id,
            });
        }
        Err(AcquireLockError::Io(io::ErrorKind::ResourceBusy.into()))
    }
}

impl Drop for LockFile {
    fn drop(&mut self) {
        // Still under the lock: nobody else may have taken it over. What fails here is left
        // behind, and harmless, since the lock itself goes with the descriptor.
        if file_id_at(self.dir.as_fd(), &self.name).is_ok_and(|found| found == Some(self.id)) {
            unlinkat(&self.dir, &self.name, AtFlags::empty()).ok();
        }
        // Other descriptors of the same open file, inherited by a child, must not keep it.
        flock(&self.file, FlockOperation::Unlock).ok();
    }
}

/// Opens the lock file, creating it if need be; none if it came or went meanwhile.
fn open(dir: BorrowedFd<'_>, name: &OsStr) -> Result<Option<File>, AcquireLockError> {
    // NONBLOCK, because something other than a regular file may be there.
    let flags =
        OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    match openat(dir, name, flags, Mode::empty()) {
        Ok(fd) => return Ok(Some(File::from(fd))),
        Err(Errno::NOENT) => {}
        Err(errno) => return Err(explain(dir, name, errno)),
    }
    // Exclusively: in a sticky directory the kernel may refuse to create what another user has
    // created in between, and that refusal would look like our own lack of permission.
    let flags = flags | OFlags::CREATE | OFlags::EXCL;
    match openat(dir, name, flags, Mode::RUSR | Mode::WUSR) {
        Ok(fd) => Ok(Some(File::from(fd))),
        Err(Errno::EXIST) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// Why an existing lock file could not be opened.
fn explain(dir: BorrowedFd<'_>, name: &OsStr, errno: Errno) -> AcquireLockError {
    match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile => {
            AcquireLockError::NotRegular(FileKind::of_mode(stat.st_mode))
        }
        Ok(stat) if stat.st_uid != rustix::process::geteuid().as_raw() => {
            AcquireLockError::OtherOwner(stat.st_uid)
        }
        _ => errno.into(),
    }
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

    fn open_dir(path: &Path) -> OwnedFd {
        rustix::fs::open(path, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap()
    }

    fn acquire(path: &Path) -> Result<LockFile, AcquireLockError> {
        LockFile::acquire(open_dir(path).as_fd(), OsStr::new("lock"))
    }

    #[test]
    fn is_exclusive_names_its_holder_and_goes_away() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let held = acquire(dir.path()).unwrap();
        let metadata = std::fs::metadata(&path).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
        match acquire(dir.path()) {
            Err(AcquireLockError::Busy(pid)) => assert_eq!(pid, Some(std::process::id())),
            other => panic!("{other:?}"),
        }
        drop(held);
        assert!(!path.exists());
        drop(acquire(dir.path()).unwrap());
    }

    #[test]
    fn takes_over_what_a_crash_left() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("lock"), "999999999999\n and more").unwrap();
        let held = acquire(dir.path()).unwrap();
        let content = std::fs::read_to_string(dir.path().join("lock")).unwrap();
        assert_eq!(content, format!("{}\n", std::process::id()));
        drop(held);
    }

    #[test]
    fn keeps_away_from_what_is_not_a_lock_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let victim = dir.path().join("victim");
        std::fs::write(&victim, "precious").unwrap();
        symlink(&victim, &path).unwrap();
        assert!(matches!(
            acquire(dir.path()),
            Err(AcquireLockError::NotRegular(FileKind::Link))
        ));
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(matches!(
            acquire(dir.path()),
            Err(AcquireLockError::NotRegular(FileKind::Directory))
        ));
        std::fs::remove_dir(&path).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, Mode::RWXU).unwrap();
        assert!(matches!(
            acquire(dir.path()),
            Err(AcquireLockError::NotRegular(FileKind::Pipe))
        ));
        // Only the superuser can set this up.
        if rustix::process::geteuid().is_root() {
            std::fs::remove_file(&path).unwrap();
            std::fs::write(&path, "").unwrap();
            chown(&path, Some(12_345), None).unwrap();
            assert!(matches!(
                acquire(dir.path()),
                Err(AcquireLockError::OtherOwner(12_345))
            ));
        }
    }

    #[test]
    fn leaves_a_file_that_took_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let held = acquire(dir.path()).unwrap();
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "foreign").unwrap();
        drop(held);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "foreign");
    }

    #[test]
    fn never_has_two_holders_while_it_is_removed_and_made_anew() {
        let dir = tempfile::tempdir().unwrap();
        let fd = open_dir(dir.path());
        let held = AtomicBool::new(false);
        let successes = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        if let Ok(lock) = LockFile::acquire(fd.as_fd(), OsStr::new("lock")) {
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
