//! A Python environment with packages of exact versions, made once and kept in a cache.

use crate::CannotRun;
use crate::command::{program, read, run};
use anyhow::{Context, bail};
use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The variable that names an interpreter to try first: other tests in Python want an older one.
const PYTHON_VARIABLE: &str = "TTMEM_TESTS_PYTHON";

/// Interpreters that may be there, the usual one first.
const PYTHONS: [&str; 4] = ["python3", "python3.13", "python3.12", "python3.11"];

/// Says its release if it is new enough and can make environments.
const PROBE: &str = "import ensurepip, sys, venv\n\
                     assert sys.version_info >= (3, 11)\n\
                     print('%d.%d' % sys.version_info[:2])";

/// The file whose content says what is installed.
const STAMP: &str = "ttmem-stamp";

/// An environment that is whole.
#[derive(Debug)]
pub(crate) struct Environment {
    folder: PathBuf,
    /// The folder of its packages.
    pub(crate) packages: PathBuf,
}

impl Environment {
    /// Finds or makes the one of a check, with what a file of requirements names.
    pub(crate) fn provide(name: &str, requirements: &Path) -> anyhow::Result<Self> {
        let Some((python, release)) = interpreter() else {
            bail!(CannotRun(format!(
                "no Python 3.11 or newer with venv here (looked at {PYTHON_VARIABLE} and PATH)"
            )));
        };
        Self::of(name, Path::new(&python), &release, requirements)
    }

    /// The same with an interpreter of this release.
    pub(crate) fn of(
        name: &str,
        python: &Path,
        release: &str,
        requirements: &Path,
    ) -> anyhow::Result<Self> {
        let cache = cache_folder().context("no folder for caches: set XDG_CACHE_HOME or HOME")?;
        let folder = cache.join(format!("{name}-{release}"));
        fs::create_dir_all(&cache).with_context(|| format!("cannot make {}", cache.display()))?;
        let lock = folder.with_added_extension("lock");
        let lock =
            File::create(&lock).with_context(|| format!("cannot make {}", lock.display()))?;
        // Released when the file is closed, also by the death of this process.
        lock.lock().context("cannot lock the environment")?;
        let wanted = fs::read_to_string(requirements)
            .with_context(|| format!("cannot read {}", requirements.display()))?;
        let stamp = folder.join(STAMP);
        if fs::read_to_string(&stamp).ok().as_ref() != Some(&wanted) {
            make(&folder, python, requirements)?;
            fs::write(&stamp, &wanted)
                .with_context(|| format!("cannot write {}", stamp.display()))?;
        }
        let packages = folder.join(format!("lib/python{release}/site-packages"));
        Ok(Self { folder, packages })
    }

    /// The folder of the programs of its packages.
    pub(crate) fn bin(&self) -> PathBuf {
        self.folder.join("bin")
    }

    /// A program of its packages.
    pub(crate) fn program(&self, name: &str) -> Command {
        program(self.bin().join(name))
    }
}

/// Makes an environment in the place of what is there.
fn make(folder: &Path, python: &Path, requirements: &Path) -> anyhow::Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)
            .with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    run(program(python).args(["-m", "venv"]).arg(folder))?;
    let mut pip = program(folder.join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet", "--no-input"])
        .args(["--disable-pip-version-check", "--only-binary=:all:"])
        .arg("--requirement")
        .arg(requirements);
    run(pip.env_remove("PYTHONPATH"))
}

/// An interpreter that suits, and its release.
fn interpreter() -> Option<(String, String)> {
    let named = env::var(PYTHON_VARIABLE).ok();
    let usual = PYTHONS.iter().map(|python| (*python).to_owned());
    named.into_iter().chain(usual).find_map(|python| {
        let release = read(program(&python).args(["-c", PROBE])).ok()?;
        Some((python, release.trim().to_owned()))
    })
}

/// `$XDG_CACHE_HOME/ttmem-tests`, or the same below `~/.cache`, as for the other tests in Python.
pub(crate) fn cache_folder() -> Option<PathBuf> {
    env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(|folder| folder.is_absolute())
        .or_else(|| env::home_dir().map(|home| home.join(".cache")))
        .map(|caches| caches.join("ttmem-tests"))
}
