//! Interpreters of the releases of Python that the wheel is tried with.

use crate::command::{program, read};
use std::env;
use std::fs;
use std::path::PathBuf;

/// Says its release if it can make environments.
const PROBE: &str = "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2])";

/// An interpreter of a release: on the path, or as pyenv and uv keep them.
pub(super) fn find(release: &str) -> Option<PathBuf> {
    candidates(&format!("python{release}"))
        .into_iter()
        .filter(|path| path.is_file())
        // A shim of pyenv may be there for a release that is not.
        .find(|path| {
            let said = read(program(path).args(["-c", PROBE]).env_remove("PYTHONPATH"));
            said.is_ok_and(|said| said.trim() == release)
        })
}

fn candidates(name: &str) -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut found: Vec<PathBuf> = env::split_paths(&path)
        .map(|each| each.join(name))
        .collect();
    let Some(home) = env::home_dir() else {
        return found;
    };
    let pyenv = env::var_os("PYENV_ROOT").map_or_else(|| home.join(".pyenv"), PathBuf::from);
    for folder in [pyenv.join("versions"), home.join(".local/share/uv/python")] {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut installed: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        installed.sort();
        found.extend(installed.iter().map(|each| each.join("bin").join(name)));
    }
    found
}
