//! Finding a Python that ttnn has wheels for.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The variable that names an interpreter to use and no other.
pub const PYTHON_VARIABLE: &str = "TTMEM_TESTS_PYTHON";

/// A release of Python that ttnn has wheels for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PythonRelease {
    /// CPython 3.10.
    Python310,
    /// CPython 3.12.
    Python312,
}

impl PythonRelease {
    /// Both, the one to prefer first: 3.10 has every wheel.
    pub const ALL: [Self; 2] = [Self::Python310, Self::Python312];

    /// As it stands in names of programs and folders.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Python310 => "3.10",
            Self::Python312 => "3.12",
        }
    }
}

/// An interpreter that ran and told its release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interpreter {
    pub path: PathBuf,
    pub release: PythonRelease,
}

/// Looks where interpreters usually are; the first that runs and suits is taken.
///
/// With [`PYTHON_VARIABLE`] set, only that one is tried.
#[must_use]
pub fn find_interpreter() -> Option<Interpreter> {
    if let Some(named) = env::var_os(PYTHON_VARIABLE) {
        return PythonRelease::ALL
            .into_iter()
            .find_map(|release| try_interpreter(Path::new(&named), release));
    }
    PythonRelease::ALL.into_iter().find_map(find_release)
}

/// An interpreter of a release, wherever one usually is.
#[must_use]
pub fn find_release(release: PythonRelease) -> Option<Interpreter> {
    candidates(release)
        .iter()
        .find_map(|path| try_interpreter(path, release))
}

/// What may be an interpreter of that release: on the path, and as pyenv and uv keep them.
fn candidates(release: PythonRelease) -> Vec<PathBuf> {
    let program = format!("python{}", release.name());
    let on_path = env::var_os("PATH").unwrap_or_default();
    let mut found: Vec<PathBuf> = env::split_paths(&on_path)
        .map(|folder| folder.join(&program))
        .collect();
    if let Some(home) = env::home_dir() {
        let pyenv = env::var_os("PYENV_ROOT").map_or_else(|| home.join(".pyenv"), PathBuf::from);
        let kept = [pyenv.join("versions"), home.join(".local/share/uv/python")];
        for folder in kept.iter().filter_map(|folder| fs::read_dir(folder).ok()) {
            let mut installed: Vec<PathBuf> = folder.flatten().map(|entry| entry.path()).collect();
            installed.sort();
            found.extend(
                installed
                    .into_iter()
                    .map(|path| path.join("bin").join(&program)),
            );
        }
    }
    found
}

/// Runs it: a pyenv shim may exist for a release that is not there.
fn try_interpreter(path: &Path, release: PythonRelease) -> Option<Interpreter> {
    let output = Command::new(path)
        .args(["-c", "import sys; print('%d.%d' % sys.version_info[:2])"])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .env_remove(OsString::from("PYTHONPATH"))
        .output()
        .ok()?;
    let told = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && told.trim() == release.name()).then(|| Interpreter {
        path: path.to_path_buf(),
        release,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_run_is_no_interpreter() {
        let missing = Path::new("/nowhere/python3.10");
        assert_eq!(try_interpreter(missing, PythonRelease::Python310), None);
        let other = Path::new("/bin/true");
        assert_eq!(try_interpreter(other, PythonRelease::Python310), None);
    }
}
