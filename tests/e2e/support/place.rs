//! Where tests find the program, the libraries and the sources, and how other users get at them.
//!
//! Paths are taken when a test runs, not when it is compiled: an archive of the tests runs anywhere.

use super::server::without_settings;
use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// The program under test, which cargo puts one folder above this one. Printed, it is quoted as a shell wants it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Program;

/// The program under test.
pub(crate) const TTMEM: Program = Program;

impl Program {
    pub(crate) fn as_str(self) -> &'static str {
        static PATH: LazyLock<String> = LazyLock::new(|| {
            let test = std::env::current_exe().expect("a program knows its file");
            let folder = test.ancestors().nth(2).expect("it is in deps");
            let path = folder.join("ttmem");
            assert!(path.exists(), "cargo did not build {}", path.display());
            path.into_os_string().into_string().expect("text")
        });
        &PATH
    }

    /// The folder that it is in.
    pub(crate) fn folder(self) -> &'static Path {
        let folder = Path::new(self.as_str()).parent();
        folder.expect("a file is in a folder")
    }
}

impl AsRef<OsStr> for Program {
    fn as_ref(&self) -> &OsStr {
        self.as_str().as_ref()
    }
}

impl AsRef<Path> for Program {
    fn as_ref(&self) -> &Path {
        self.as_str().as_ref()
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&quoted(self.as_str()))
    }
}

/// A word as a shell reads it.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-".contains(letter);
    if word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// A library or program that cargo built for this test run, beside the test.
pub(crate) fn built(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a program knows its file");
    let path = test.with_file_name(name);
    assert!(path.exists(), "cargo did not build {}", path.display());
    path
}

/// The library that is preloaded, by a link in a folder: in `LD_PRELOAD` a space or a colon of the checkout's path would end its name.
pub(crate) fn attach_library(folder: &Path) -> PathBuf {
    let link = folder.join("libttmem_attach.so");
    if !link.is_symlink() {
        symlink(built("libttmem_attach.so"), &link).expect("a link to the library");
    }
    link
}

/// A file or folder of the sources, by its path from the root.
pub(crate) fn source(path: &str) -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo and nextest set it");
    let root = Path::new(&package).ancestors().nth(2);
    root.expect("the package is two folders deep").join(path)
}

/// What cargo keeps for tests between runs.
pub(crate) fn kept() -> PathBuf {
    let target = TTMEM.folder().parent();
    target.expect("the profile is in a folder").join("tmp")
}

/// A folder that every user can enter, with copies of the programs that another user or namespace runs: a checkout may be below
/// a private home, and below a folder that a test mounts over.
#[derive(Debug)]
pub(crate) struct ForOthers {
    folder: tempfile::TempDir,
}

impl ForOthers {
    /// One with the program under test in it.
    pub(crate) fn new() -> Self {
        let others = Self {
            folder: open_folder(),
        };
        others.add(TTMEM.as_ref());
        others
    }

    /// Copies a program into it.
    pub(crate) fn add(&self, program: &Path) -> PathBuf {
        let copy = self
            .folder
            .path()
            .join(program.file_name().expect("a file"));
        copy_for_others(program, &copy);
        copy
    }

    /// The copy of the program under test.
    pub(crate) fn program(&self) -> PathBuf {
        self.folder.path().join("ttmem")
    }

    /// A command of the program under test as another user, which only the superuser may start.
    pub(crate) fn ttmem_as(&self, user: u32) -> Command {
        let mut command = without_settings(self.program());
        command.uid(user).gid(user).current_dir("/");
        command
    }
}

/// Copies a program so that every user can run it.
pub(crate) fn copy_for_others(program: &Path, copy: &Path) {
    // Not in this process: a child that another thread starts meanwhile would have the copy open for writing, and the kernel
    // runs no such file.
    let mut install = Command::new("install");
    let status = install.args(["-m", "755"]).arg(program).arg(copy).status();
    assert!(status.expect("coreutils are there").success());
}

/// A temporary folder that every user can enter, whatever `TMPDIR` is.
pub(crate) fn open_folder() -> tempfile::TempDir {
    let usual = std::env::temp_dir();
    let places = [usual.as_path(), Path::new("/tmp"), Path::new("/var/tmp")];
    let place = places.into_iter().find(|place| is_open(place));
    let place = place.expect("one of the temporary folders is open to all users");
    let folder = tempfile::tempdir_in(place).expect("a folder");
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("ours");
    folder
}

/// Whether every user can enter a folder, and this one can write there.
fn is_open(folder: &Path) -> bool {
    let Ok(path) = folder.canonicalize() else {
        return false;
    };
    let enters = |folder: &Path| {
        fs::metadata(folder).is_ok_and(|found| found.permissions().mode() & 0o001 != 0)
    };
    path.ancestors().all(enters) && tempfile::tempfile_in(&path).is_ok()
}
