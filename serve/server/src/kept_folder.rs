//! Folders in which a server keeps files: opened so that no other user decides what is in them.
//!
//! A path is walked one name at a time, each folder by the descriptor of the one before it. Whoever may write to a folder
//! on the way may put another one in the place of the next, so all of them have to belong to this user or to root, and
//! be closed to other writers. A sticky folder, such as `/tmp`, keeps its entries for their owners. Links are followed
//! if this user or root made them. In a user namespace root may have no number: the owner of `/` is trusted as root is.

use rustix::fs::{CWD, Mode, OFlags, fstat, mkdirat, openat, readlinkat};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

/// Links on the way: as many as the kernel follows.
const MAX_LINKS: usize = 40;

const ROOT: u32 = 0;
const OTHER_WRITERS: u32 = 0o022;
const GROUP_WRITES: u32 = 0o020;
const STICKY: u32 = 0o1000;
const PERMISSIONS: u32 = 0o7777;

/// What a folder is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// It leads to the folder that is used.
    Way,
    /// Files in it are made, read and removed by their names.
    Files,
    /// A log is in it, or it leads there: root may give `/var/log` to a group.
    Log,
}

/// Why a folder is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Objection {
    Owner,
    Writers,
}

/// The users who decide what is in a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FolderTrust {
    own: u32,
    /// The owner of `/`, who decides what every path leads to: root, or in a user namespace the number of all users who
    /// have none there.
    system: u32,
}

impl FolderTrust {
    fn has(self, uid: u32) -> bool {
        [self.own, self.system, ROOT].contains(&uid)
    }
}

/// Owner and mode of a folder, or of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Standing {
    uid: u32,
    mode: u32,
}

impl Standing {
    fn of(file: impl AsFd) -> rustix::io::Result<(rustix::fs::FileType, Self)> {
        let stat = fstat(file)?;
        let kind = rustix::fs::FileType::from_raw_mode(stat.st_mode);
        let standing = Self {
            uid: stat.st_uid,
            mode: stat.st_mode & PERMISSIONS,
        };
        Ok((kind, standing))
    }

    /// Whether another user than those that are trusted could put something else into the folder.
    fn objection(self, trusted: FolderTrust, purpose: Purpose) -> Option<Objection> {
        if !trusted.has(self.uid) {
            return Some(Objection::Owner);
        }
        let writers = match purpose {
            Purpose::Log if self.uid == trusted.system => OTHER_WRITERS & !GROUP_WRITES,
            Purpose::Way | Purpose::Files | Purpose::Log => OTHER_WRITERS,
        };
        let keeps_entries = purpose != Purpose::Files && self.mode & STICKY != 0;
        (self.mode & writers != 0 && !keeps_entries).then_some(Objection::Writers)
    }
}

/// Why files are not kept in a folder.
#[derive(Debug, thiserror::Error)]
pub enum OpenFolderError {
    #[error("cannot open {}", path.display())]
    Open { path: PathBuf, source: io::Error },
    #[error("{} is not a folder", path.display())]
    NotAFolder { path: PathBuf },
    #[error(
        "{} belongs to uid {uid}, who could replace the files: use a folder of your own (mkdir -m 700)",
        path.display()
    )]
    OtherOwner { path: PathBuf, uid: u32 },
    #[error(
        "{} can be written to by other users (mode {mode:04o}), who could replace the files: chmod go-w {}",
        path.display(), path.display()
    )]
    Writable { path: PathBuf, mode: u32 },
    #[error("{} is a link of uid {uid}, who could change it: name the folder itself", path.display())]
    Link { path: PathBuf, uid: u32 },
}

impl OpenFolderError {
    fn open(path: &Path) -> impl FnOnce(Errno) -> Self {
        let path = path.to_owned();
        |errno| Self::Open {
            path,
            source: errno.into(),
        }
    }
}

/// Opens a folder in which files are kept and removed by their names; makes it, for this user alone, if it is not there.
///
/// # Errors
/// When another user could replace it or what is in it.
pub(crate) fn open_for_files(path: &Path) -> Result<OwnedFd, OpenFolderError> {
    let path = absolute(path)?;
    if let (Some(parent), Some(name)) = (path.parent(), path.file_name()) {
        make(&walk(parent, Purpose::Way, Purpose::Way)?, name, &path)?;
    }
    readable(walk(&path, Purpose::Way, Purpose::Files)?, &path)
}

/// Opens the folder of a log file.
///
/// # Errors
/// When another user could replace it or the log.
pub(crate) fn open_for_log(path: &Path) -> Result<OwnedFd, OpenFolderError> {
    walk(&absolute(path)?, Purpose::Log, Purpose::Log)
}

fn absolute(path: &Path) -> Result<PathBuf, OpenFolderError> {
    let path = if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    };
    std::path::absolute(path).map_err(|source| OpenFolderError::Open {
        path: path.to_owned(),
        source,
    })
}

fn make(parent: &OwnedFd, name: &OsStr, path: &Path) -> Result<(), OpenFolderError> {
    match mkdirat(parent, name, Mode::RWXU) {
        // The file mode mask may have taken rights of its owner away.
        Ok(()) => rustix::fs::chmodat(parent, name, Mode::RWXU, rustix::fs::AtFlags::empty())
            .map_err(OpenFolderError::open(path)),
        Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(OpenFolderError::open(path)(errno)),
    }
}

/// The same folder, to be listed and locked.
fn readable(folder: OwnedFd, path: &Path) -> Result<OwnedFd, OpenFolderError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat(&folder, ".", flags, Mode::empty()).map_err(OpenFolderError::open(path))
}

/// Opens the folder that an absolute path leads to, if no other user could make it lead elsewhere.
fn walk(path: &Path, way: Purpose, end: Purpose) -> Result<OwnedFd, OpenFolderError> {
    let mut names = names_of(path);
    let mut shown = PathBuf::from("/");
    let mut folder = open_root()?;
    let (_kind, standing) = Standing::of(&folder).map_err(OpenFolderError::open(&shown))?;
    let trusted = FolderTrust {
        own: geteuid().as_raw(),
        system: standing.uid,
    };
    let purpose = |names: &VecDeque<OsString>| if names.is_empty() { end } else { way };
    judge(&folder, &shown, trusted, purpose(&names))?;
    let mut links = 0;
    while let Some(name) = names.pop_front() {
        let before = shown.clone();
        if name == ".." {
            shown.pop();
        } else {
            shown.push(&name);
        }
        let failed = || OpenFolderError::open(&shown);
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let next = openat(&folder, &name, flags, Mode::empty()).map_err(failed())?;
        let (kind, standing) = Standing::of(&next).map_err(failed())?;
        if kind.is_symlink() {
            links += 1;
            if links > MAX_LINKS {
                return Err(failed()(Errno::LOOP));
            }
            if !trusted.has(standing.uid) {
                let uid = standing.uid;
                return Err(OpenFolderError::Link { path: shown, uid });
            }
            let target = readlinkat(&next, "", Vec::new()).map_err(failed())?;
            let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
            if target.is_absolute() {
                folder = open_root()?;
                shown = PathBuf::from("/");
            } else {
                shown = before;
            }
            let mut ahead = names_of(&target);
            ahead.append(&mut names);
            names = ahead;
            // A link to the root or to its own folder leads to nothing further.
            judge(&folder, &shown, trusted, purpose(&names))?;
            continue;
        }
        folder = next;
        judge(&folder, &shown, trusted, purpose(&names))?;
    }
    Ok(folder)
}

fn open_root() -> Result<OwnedFd, OpenFolderError> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat(CWD, "/", flags, Mode::empty()).map_err(OpenFolderError::open(Path::new("/")))
}

/// The names of a path, without those that lead nowhere.
fn names_of(path: &Path) -> VecDeque<OsString> {
    let components = path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    components.collect()
}

fn judge(
    folder: &OwnedFd,
    shown: &Path,
    trusted: FolderTrust,
    purpose: Purpose,
) -> Result<(), OpenFolderError> {
    let (kind, standing) = Standing::of(folder).map_err(OpenFolderError::open(shown))?;
    let path = shown.to_owned();
    if !kind.is_dir() {
        return Err(OpenFolderError::NotAFolder { path });
    }
    let Standing { uid, mode } = standing;
    match standing.objection(trusted, purpose) {
        None => Ok(()),
        Some(Objection::Owner) => Err(OpenFolderError::OtherOwner { path, uid }),
        Some(Objection::Writers) => Err(OpenFolderError::Writable { path, mode }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};

    const OWN: u32 = 1000;
    const OTHER: u32 = 1001;

    #[test]
    fn owners_and_modes_decide() {
        use Objection::{Owner, Writers};
        use Purpose::{Files, Log, Way};
        for (uid, mode, way, files, log) in [
            (OWN, 0o700, None, None, None),
            (OWN, 0o755, None, None, None),
            (ROOT, 0o755, None, None, None),
            (ROOT, 0o1777, None, Some(Writers), None),
            (OWN, 0o1777, None, Some(Writers), None),
            (OWN, 0o775, Some(Writers), Some(Writers), Some(Writers)),
            (OWN, 0o2770, Some(Writers), Some(Writers), Some(Writers)),
            (ROOT, 0o775, Some(Writers), Some(Writers), None),
            (ROOT, 0o777, Some(Writers), Some(Writers), Some(Writers)),
            (OWN, 0o702, Some(Writers), Some(Writers), Some(Writers)),
            (OTHER, 0o700, Some(Owner), Some(Owner), Some(Owner)),
            (OTHER, 0o1777, Some(Owner), Some(Owner), Some(Owner)),
        ] {
            let folder = Standing { uid, mode };
            let trusted = |own, system| FolderTrust { own, system };
            let found = [Way, Files, Log];
            let found = found.map(|purpose| folder.objection(trusted(OWN, ROOT), purpose));
            assert_eq!(found, [way, files, log], "{folder:?}");
            // Root trusts nobody else, either.
            let of_root = folder.objection(trusted(ROOT, ROOT), Way);
            assert_eq!(of_root == Some(Owner), uid != ROOT, "{folder:?}");
            // Whoever owns / can replace everything anyway.
            let inside = folder.objection(trusted(OWN, OTHER), Way);
            assert_ne!(inside, Some(Owner), "{folder:?}");
        }
    }

    fn mode_of(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & PERMISSIONS
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_missing_folder_is_made_private() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("with spaces/../recordings");
        fs::create_dir(parent.path().join("with spaces")).unwrap();
        let opened = open_for_files(&path).unwrap();
        let made = parent.path().join("recordings");
        assert_eq!(mode_of(&made), 0o700);
        let inode = fstat(&opened).unwrap().st_ino;
        assert_eq!(inode, fs::metadata(&made).unwrap().ino());
        assert!(open_for_files(&path).is_ok(), "and found again");
        let missing = parent.path().join("missing/recordings");
        assert!(matches!(
            open_for_files(&missing),
            Err(OpenFolderError::Open { .. })
        ));
    }

    #[test]
    fn folders_that_others_write_to_are_refused() {
        let parent = tempfile::tempdir().unwrap();
        let way = parent.path().join("way");
        let path = way.join("recordings");
        fs::create_dir_all(&path).unwrap();
        for (place, mode, refused) in [
            (&path, 0o770, true),
            (&path, 0o1777, true),
            (&path, 0o755, false),
            (&way, 0o777, true),
            (&way, 0o775, true),
            (&way, 0o1777, false),
        ] {
            set_mode(&way, 0o700);
            set_mode(&path, 0o700);
            set_mode(place, mode);
            let opened = open_for_files(&path);
            let is_refused = matches!(
                &opened,
                Err(OpenFolderError::Writable { path, mode: found }) if path == place && *found == mode
            );
            assert_eq!(
                (is_refused, opened.is_ok()),
                (refused, !refused),
                "{place:?} {mode:o}"
            );
        }
        set_mode(&way, 0o777);
        let said = open_for_files(&path).unwrap_err().to_string();
        assert!(
            said.ends_with(&format!("chmod go-w {}", way.display())),
            "{said}"
        );
    }

    #[test]
    fn links_and_files_on_the_way() {
        let parent = tempfile::tempdir().unwrap();
        let real = parent.path().join("real");
        fs::create_dir(&real).unwrap();
        set_mode(&real, 0o700);
        let link = parent.path().join("link");
        symlink("real/../real", &link).unwrap();
        let opened = open_for_files(&link).unwrap();
        assert_eq!(
            fstat(&opened).unwrap().st_ino,
            fs::metadata(&real).unwrap().ino()
        );
        let round = parent.path().join("round");
        symlink("round", &round).unwrap();
        assert!(matches!(
            open_for_files(&round),
            Err(OpenFolderError::Open { .. })
        ));
        let file = parent.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(matches!(
            open_for_files(&file),
            Err(OpenFolderError::NotAFolder { .. })
        ));
        // A folder that a link leads to is judged like any other.
        set_mode(&real, 0o777);
        assert!(matches!(
            open_for_files(&link),
            Err(OpenFolderError::Writable { .. })
        ));
    }

    #[test]
    fn what_another_user_owns_is_refused() {
        if !geteuid().is_root() {
            // Only root gives files away.
            return;
        }
        let parent = tempfile::tempdir().unwrap();
        let theirs = parent.path().join("theirs");
        let inside = theirs.join("ours");
        fs::create_dir_all(&inside).unwrap();
        chown(&theirs, Some(OTHER), None).unwrap();
        for path in [&theirs, &inside] {
            assert!(matches!(
                open_for_files(path),
                Err(OpenFolderError::OtherOwner { uid: OTHER, .. })
            ));
        }
        assert!(open_for_log(&theirs).is_err());
        let link = parent.path().join("link");
        symlink(parent.path(), &link).unwrap();
        lchown(&link, Some(OTHER), None).unwrap();
        assert!(matches!(
            open_for_files(&link),
            Err(OpenFolderError::Link { uid: OTHER, .. })
        ));
    }
}
