//! The ttnn that programs of this user would import, and whether its figures were compared with its own.
//!
//! No interpreter is run: packages are found where the one on `PATH` has them, the active virtual environment first.

use super::{Check, State};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// What was compared, wheel by wheel.
const WHEELS: &str = include_str!("../../../../docs/ttnn-wheels.md");

/// One installed ttnn.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Installed {
    pub(super) version: String,
    /// Of Python 3.
    pub(super) minor: u32,
    pub(super) folder: PathBuf,
}

pub(super) fn checks(variable: impl Fn(&str) -> Option<OsString>) -> Vec<Check> {
    let Some(installed) = find(variable) else {
        let check = Check::new(
            "ttnn",
            State::Info,
            "not found in the active environment, on PATH or in ~/.local",
        );
        return vec![check.with("activate the environment that has it, or `pip install ttnn`")];
    };
    vec![wheel(&installed), lines(&installed)]
}

/// The first that an interpreter of this user would find.
pub(super) fn find(variable: impl Fn(&str) -> Option<OsString>) -> Option<Installed> {
    let mut prefixes: Vec<PathBuf> = variable("VIRTUAL_ENV")
        .map(PathBuf::from)
        .into_iter()
        .collect();
    let path = variable("PATH").unwrap_or_default();
    let programs = std::env::split_paths(&path).filter(|folder| folder.join("python3").exists());
    prefixes.extend(programs.filter_map(|folder| Some(folder.parent()?.to_owned())));
    prefixes.extend(variable("HOME").map(|home| PathBuf::from(home).join(".local")));
    prefixes.iter().find_map(|prefix| below(prefix))
}

fn below(prefix: &Path) -> Option<Installed> {
    let names = |folder: &Path| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.sort();
        names
    };
    let lib = prefix.join("lib");
    for release in names(&lib) {
        let Some(minor) = release
            .strip_prefix("python3.")
            .and_then(|minor| minor.parse().ok())
        else {
            continue;
        };
        for site in ["site-packages", "dist-packages"] {
            let folder = lib.join(&release).join(site);
            let version = names(&folder).iter().find_map(|name| {
                let version = name.strip_prefix("ttnn-")?.strip_suffix(".dist-info")?;
                Some(version.to_owned())
            });
            if let Some(version) = version {
                return Some(Installed {
                    version,
                    minor,
                    folder,
                });
            }
        }
    }
    None
}

fn wheel(installed: &Installed) -> Check {
    let Installed {
        version,
        minor,
        folder,
    } = installed;
    let check = |state, said: &str| {
        let found = format!(
            "{version} for Python 3.{minor} in {}: {said}",
            folder.display()
        );
        Check::new("ttnn", state, found)
    };
    let remedy =
        "docs/ttnn-wheels.md says what is tracked of which; `pip install -U ttnn` for a newer one";
    match verdict(version) {
        Verdict::Exact => check(State::Ok, "everything was compared and is exact"),
        Verdict::Partly => check(State::Warning, "tracked in part").with(remedy),
        Verdict::Unknown => check(State::Warning, "not compared yet").with(remedy),
    }
}

/// What the table says of a wheel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Every column that there is something to say in is exact.
    Exact,
    Partly,
    /// It has no row.
    Unknown,
}

/// The row of a version, whatever its Python: what is tracked is of the native libraries.
pub(super) fn verdict(version: &str) -> Verdict {
    let rows = WHEELS.lines().filter_map(|line| line.strip_prefix("| "));
    let mut cells = rows.map(|row| row.split('|').map(str::trim).collect::<Vec<_>>());
    match cells.find(|cells| cells.first() == Some(&version)) {
        None => Verdict::Unknown,
        // After wheel and Python: whether it opens, then what was compared, then notes.
        Some(cells)
            if cells.get(3..9).is_some_and(|compared| {
                compared
                    .iter()
                    .all(|cell| matches!(*cell, "exact" | "none there"))
            }) =>
        {
            Verdict::Exact
        }
        Some(_cells) => Verdict::Partly,
    }
}

fn lines(installed: &Installed) -> Check {
    let minor = installed.minor;
    if !ttmem_pystack::reads_memory() {
        let found =
            "cannot be read: the kernel refuses process_vm_readv here; everything else is tracked";
        return Check::new("python lines", State::Warning, found)
            .with("start the container with `--cap-add=SYS_PTRACE`, or with a seccomp profile that allows it");
    }
    if ttmem_pystack::reads_lines_of(minor) {
        let found =
            format!("of Python 3.{minor} can be read: allocations have the line that made them");
        return Check::new("python lines", State::Ok, found);
    }
    let found = format!("of Python 3.{minor} cannot be read; everything else is tracked");
    Check::new("python lines", State::Warning, found)
        .with("use a Python whose frames are known: docs/attach.md")
}
