//! Where the socket is by default.

use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::path::file_kind;

/// The path that clients of the old protocol have compiled in.
pub const LEGACY_SOCKET_PATH: &str = "/tmp/tt_allocation_server.sock";

/// The path of the system's service.
///
/// Only root can make its folder, so that nobody else can listen there.
pub const SERVICE_SOCKET_PATH: &str = "/run/ttmem/ttmem.sock";

const SOCKET_NAME: &str = "ttmem.sock";

/// The socket's path for a server or client run by `uid`.
///
/// `xdg_runtime_dir` is the value of that environment variable; one that is not an absolute path
/// is ignored, as the specification of the variable demands.
pub fn default_socket_path(xdg_runtime_dir: Option<&OsStr>, uid: u32) -> PathBuf {
    let runtime_dir = xdg_runtime_dir.map(Path::new);
    match runtime_dir.filter(|path| path.is_absolute()) {
        Some(directory) => directory.join(SOCKET_NAME),
        None if uid == 0 => PathBuf::from(SERVICE_SOCKET_PATH),
        None => PathBuf::from(format!("/tmp/ttmem-{uid}")).join(SOCKET_NAME),
    }
}

#[derive(Debug, thiserror::Error)]
pub enum EnsureRuntimeDirError {
    #[error("cannot create the directory {}", path.display())]
    Create { path: PathBuf, source: io::Error },
    /// Something else has its name; a link is not followed.
    #[error("{} is {kind}, not a directory", path.display())]
    NotADirectory { path: PathBuf, kind: &'static str },
    /// Another user could replace the socket in it.
    #[error("the directory {} belongs to uid {uid}; choose another --socket", path.display())]
    OtherOwner { path: PathBuf, uid: u32 },
    /// Others could replace the socket in it.
    #[error("the directory {} can be written by others (mode {mode:03o}); chmod go-w", path.display())]
    Writable { path: PathBuf, mode: u32 },
}

/// Makes sure that `path` is a directory in which only we can put things.
///
/// A missing one is created with mode 0700; its parent must exist. An existing one is left as it
/// is, so that an administrator may open it to a group for reading.
pub fn ensure_runtime_dir(path: &Path) -> Result<(), EnsureRuntimeDirError> {
    let failed = |source| EnsureRuntimeDirError::Create {
        path: path.to_owned(),
        source,
    };
    match std::fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
        _ => {}
    }
    let found = std::fs::symlink_metadata(path).map_err(failed)?;
    let path = path.to_owned();
    let (kind, uid, mode) = (file_kind(found.mode()), found.uid(), found.mode() & 0o777);
    if !found.is_dir() {
        Err(EnsureRuntimeDirError::NotADirectory { path, kind })
    } else if uid != rustix::process::geteuid().as_raw() {
        Err(EnsureRuntimeDirError::OtherOwner { path, uid })
    } else if mode & 0o022 != 0 {
        Err(EnsureRuntimeDirError::Writable { path, mode })
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;

    #[test]
    fn the_default_follows_environment_and_user() {
        let path = |xdg: Option<&str>, uid| default_socket_path(xdg.map(OsStr::new), uid);
        assert_eq!(
            path(Some("/run/user/1000"), 1000),
            Path::new("/run/user/1000/ttmem.sock")
        );
        assert_eq!(
            path(Some("/run/user/0"), 0),
            Path::new("/run/user/0/ttmem.sock")
        );
        assert_eq!(path(None, 0), Path::new("/run/ttmem/ttmem.sock"));
        assert_eq!(path(None, 1000), Path::new("/tmp/ttmem-1000/ttmem.sock"));
        for ignored in ["", "relative/dir"] {
            assert_eq!(path(Some(ignored), 7), Path::new("/tmp/ttmem-7/ttmem.sock"));
        }
    }

    #[test]
    fn a_private_directory_is_made_and_accepted_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run");
        ensure_runtime_dir(&path).unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o700
        );
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        ensure_runtime_dir(&path).unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o755
        );
    }

    #[test]
    fn what_others_control_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().join("real");
        ensure_runtime_dir(&real).unwrap();
        let link = dir.path().join("link");
        symlink(&real, &link).unwrap();
        let message = ensure_runtime_dir(&link).unwrap_err().to_string();
        assert!(
            message.ends_with("link is a symbolic link, not a directory"),
            "{message}"
        );

        fs::set_permissions(&real, fs::Permissions::from_mode(0o770)).unwrap();
        let error = ensure_runtime_dir(&real).unwrap_err();
        assert!(
            matches!(error, EnsureRuntimeDirError::Writable { mode: 0o770, .. }),
            "{error}"
        );

        // Only the superuser can set this up.
        if rustix::process::geteuid().is_root() {
            let theirs = dir.path().join("theirs");
            fs::create_dir(&theirs).unwrap();
            chown(&theirs, Some(12_345), None).unwrap();
            let error = ensure_runtime_dir(&theirs).unwrap_err();
            assert!(
                matches!(error, EnsureRuntimeDirError::OtherOwner { uid: 12_345, .. }),
                "{error}"
            );
        }

        let orphan = dir.path().join("missing/run");
        let error = ensure_runtime_dir(&orphan).unwrap_err();
        assert!(
            matches!(error, EnsureRuntimeDirError::Create { .. }),
            "{error}"
        );
    }
}
