//! The virtual environment with the published ttnn in it, made once and kept.
//!
//! It lives in a cache folder, one per release of ttnn and of Python. Several test
//! processes may ask at once: whoever comes first makes it under a lock, the others
//! wait. A stamp is written last, so an environment whose making was interrupted is
//! made again. The stand-in compiler is put in anew whenever it differs.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use thiserror::Error;

use crate::process::{last_lines, make_empty};
use crate::python::{Interpreter, PYTHON_VARIABLE, find_interpreter};
use crate::wheels::{Packages, WheelVersion, packages_needed};

/// Where ttnn looks for its kernel compiler, inside its package.
const COMPILER_PLACE: &str = "runtime/sfpi/compiler/bin/riscv-tt-elf-g++";

/// How much of a failed program's output is worth repeating.
const LINES_OF_FAILURE: usize = 8;

/// The file whose presence says that an environment is whole.
const STAMP: &str = "ttmem-stamp";

/// An environment in which ttnn runs.
#[derive(Clone, Debug)]
pub struct TtnnEnvironment {
    pub wheel: WheelVersion,
    pub python: PathBuf,
    pub package: PathBuf,
    /// Where it keeps compiled kernels: ours, not the user's.
    pub kernel_cache: PathBuf,
}

/// Why there is no Python here that could run ttnn.
#[derive(Debug, Error)]
pub enum MissingPython {
    /// No interpreter that ttnn has wheels for.
    #[error(
        "no Python 3.10 or 3.12 here, and ttnn has wheels for no other \
         (looked at {PYTHON_VARIABLE}, PATH, pyenv and uv): the tests against the real ttnn cannot run"
    )]
    NoInterpreter,
    /// The interpreter came without what makes virtual environments.
    #[error(
        "{python} makes no virtual environments: give it its modules venv and ensurepip \
         (python{release}-venv on Debian and Ubuntu), or name another Python in {PYTHON_VARIABLE}; \
         it says: {output}"
    )]
    NoVenv {
        python: PathBuf,
        release: &'static str,
        /// The end of its output.
        output: String,
    },
}

/// Finds or makes the environment of a release, with `standin` as its kernel compiler.
///
/// # Errors
///
/// Where tests are to be skipped, a [`MissingPython`]; all others are failures.
pub fn provision(wheel: WheelVersion, standin: &Path) -> anyhow::Result<TtnnEnvironment> {
    let interpreter = find_interpreter().ok_or(MissingPython::NoInterpreter)?;
    provision_in(&cache_folder()?, &interpreter, wheel, standin)
}

/// As [`provision`], with the folder and the interpreter given.
///
/// # Errors
///
/// As [`provision`].
pub fn provision_in(
    cache: &Path,
    interpreter: &Interpreter,
    wheel: WheelVersion,
    standin: &Path,
) -> anyhow::Result<TtnnEnvironment> {
    let name = folder_name(wheel, interpreter);
    let folder = cache.join(&name);
    make_folder(cache)?;
    let lock_path = cache.join(format!("{name}.lock"));
    let lock = File::create(&lock_path).with_context(cannot_make(&lock_path))?;
    // Released when the file is closed, also by the death of this process.
    lock.lock().with_context(cannot_make(&lock_path))?;

    let stamp_path = folder.join(STAMP);
    let stamp = match packages_needed(wheel) {
        Packages::Only(packages) => format!("ttnn=={wheel} {}\n", packages.join(" ")),
        Packages::Named => format!("ttnn=={wheel} and all that it names\n"),
    };
    if fs::read_to_string(&stamp_path).ok().as_deref() != Some(stamp.as_str()) {
        make_environment(&folder, interpreter, wheel)?;
        fs::write(&stamp_path, &stamp).with_context(cannot_make(&stamp_path))?;
    }

    let release = interpreter.release.name();
    let package = folder.join(format!("lib/python{release}/site-packages/ttnn"));
    install_compiler(standin, &package.join(COMPILER_PLACE))?;
    let kernel_cache = folder.join("kernels");
    make_folder(&kernel_cache)?;
    Ok(TtnnEnvironment {
        wheel,
        python: folder.join("bin/python"),
        package,
        kernel_cache,
    })
}

impl TtnnEnvironment {
    /// A folder beside the environment with some packages and what they need; made once.
    ///
    /// Apart from ttnn's own: most programs are to find no more than ttnn brings.
    ///
    /// # Errors
    ///
    /// When they cannot be installed.
    pub fn packages(&self, name: &str, packages: &[&str]) -> anyhow::Result<PathBuf> {
        let environment = self.kernel_cache.parent();
        let environment = environment.context("the environment has a folder")?;
        let mut folder = environment.as_os_str().to_owned();
        folder.push(format!("-{name}"));
        let folder = PathBuf::from(folder);
        let mut lock_path = folder.clone().into_os_string();
        lock_path.push(".lock");
        let lock_path = PathBuf::from(lock_path);
        let lock = File::create(&lock_path).with_context(cannot_make(&lock_path))?;
        lock.lock().with_context(cannot_make(&lock_path))?;
        let stamp_path = folder.join(STAMP);
        let stamp = packages.join("\n");
        if fs::read_to_string(&stamp_path).ok().as_ref() != Some(&stamp) {
            make_empty(&folder)?;
            let mut pip = Command::new(&self.python);
            pip.args(["-m", "pip", "install", "--quiet", "--no-input"])
                .args(["--disable-pip-version-check", "--only-binary=:all:"])
                .arg("--target")
                .arg(&folder)
                .args(packages);
            run("installing packages", &mut pip)?;
            fs::write(&stamp_path, &stamp).with_context(cannot_make(&stamp_path))?;
        }
        Ok(folder)
    }
}

/// The name of an environment in the cache.
#[must_use]
pub fn folder_name(wheel: WheelVersion, interpreter: &Interpreter) -> String {
    format!("ttnn-{wheel}-{}", interpreter.release.name())
}

/// `$XDG_CACHE_HOME/ttmem-tests`, or the same below `~/.cache`.
///
/// # Errors
///
/// When there is neither that variable nor a home folder.
pub fn cache_folder() -> anyhow::Result<PathBuf> {
    env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(|folder| folder.is_absolute())
        .or_else(|| env::home_dir().map(|home| home.join(".cache")))
        .map(|caches| caches.join("ttmem-tests"))
        .context("no folder for caches: set XDG_CACHE_HOME or HOME")
}

fn make_environment(
    folder: &Path,
    interpreter: &Interpreter,
    wheel: WheelVersion,
) -> anyhow::Result<()> {
    make_empty(folder)?;
    let mut venv = Command::new(&interpreter.path);
    run(
        "making a virtual environment",
        venv.args(["-m", "venv"]).arg(folder),
    )
    .map_err(|error| match error.to_string() {
        output if lacks_venv(&output) => anyhow::Error::new(MissingPython::NoVenv {
            python: interpreter.path.clone(),
            release: interpreter.release.name(),
            output,
        }),
        _other => error,
    })?;
    let mut pip = Command::new(folder.join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet", "--no-input"])
        .args(["--disable-pip-version-check", "--only-binary=:all:"])
        .arg(format!("ttnn=={wheel}"));
    if let Packages::Only(packages) = packages_needed(wheel) {
        pip.arg("--no-deps").args(packages);
    }
    run("installing ttnn", &mut pip)
}

/// Whether an interpreter complains of a module that distributions package apart from it.
fn lacks_venv(output: &str) -> bool {
    output.contains("ensurepip") || output.contains("No module named venv")
}

/// Puts the compiler where ttnn looks, in one step, so that no running test sees half of it.
fn install_compiler(standin: &Path, place: &Path) -> anyhow::Result<()> {
    let ours = fs::read(standin).with_context(cannot_make(standin))?;
    if fs::read(place).is_ok_and(|there| there == ours) {
        return Ok(());
    }
    if let Some(folder) = place.parent() {
        make_folder(folder)?;
    }
    let aside = place.with_extension("new");
    // A copy keeps the permission to execute.
    fs::copy(standin, &aside).with_context(cannot_make(&aside))?;
    fs::rename(&aside, place).with_context(cannot_make(place))
}

fn make_folder(path: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(path).with_context(cannot_make(path))
}

fn cannot_make(path: &Path) -> impl Fn() -> String {
    move || format!("cannot make {}", path.display())
}

fn run(what: &str, command: &mut Command) -> anyhow::Result<()> {
    let program = Path::new(command.get_program()).display().to_string();
    let output = command
        .stdin(Stdio::null())
        .env_remove("PYTHONPATH")
        .output()
        .with_context(|| format!("cannot run {program}"))?;
    if !output.status.success() {
        let output = [output.stdout, output.stderr].concat();
        let output = last_lines(&String::from_utf8_lossy(&output), LINES_OF_FAILURE);
        bail!("{what} failed: {output}");
    }
    Ok(())
}

#[cfg(test)]
mod tests;
