//! The interpreters that this machine has, for tests that run in each of them, and whether all tests run whole.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

const MINORS: std::ops::RangeInclusive<u32> = 10..=13;

/// Set to `1` by `cargo xtask test`: whole matrices, and what waits for long. Without it `cargo nextest run` takes the part of
/// each that tells most.
const WHOLE: &str = "TTMEM_TESTS_WHOLE";

/// Whether every test runs whole; where every test must run, it has to be so.
pub(crate) fn is_whole() -> bool {
    let whole = std::env::var_os(WHOLE).is_some_and(|value| value == "1");
    let may_skip = std::env::var_os("CI").is_none_or(|ci| ci != "true");
    assert!(
        whole || may_skip,
        "with CI=true every test must run whole: {WHOLE}=1"
    );
    whole
}

/// The version that a program calls itself, if it is an interpreter that can be loaded into.
fn version(program: &Path) -> Option<String> {
    let says = "import ctypes, platform, sys; print(platform.python_version(), sys.executable)";
    let output = Command::new(program).args(["-c", says]).output().ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Interpreters on the path and of pyenv, each once, and only the newest unless tests run whole; where every test must run,
/// there has to be one.
pub(crate) fn interpreters() -> BTreeMap<String, PathBuf> {
    let named = MINORS.map(|minor| PathBuf::from(format!("python3.{minor}")));
    let system = ["/usr/bin/python3", "python3"].map(PathBuf::from);
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".pyenv"));
    let root = std::env::var_os("PYENV_ROOT").map(PathBuf::from).or(home);
    let versions = root.and_then(|root| std::fs::read_dir(root.join("versions")).ok());
    let of_pyenv = versions.into_iter().flatten().flatten();
    let of_pyenv = of_pyenv.map(|version| version.path().join("bin/python"));
    let all = named.chain(system).chain(of_pyenv);
    let known = all.filter_map(|program| Some((version(&program)?, program)));
    let found: BTreeMap<String, PathBuf> = known
        .filter(|(version, _program)| {
            let minor = version
                .split('.')
                .nth(1)
                .and_then(|minor| minor.parse().ok());
            minor.is_some_and(|minor| MINORS.contains(&minor))
        })
        .collect();
    let may_skip = std::env::var_os("CI").is_none_or(|ci| ci != "true");
    assert!(may_skip || !found.is_empty(), "no Python");
    if is_whole() {
        return found;
    }
    // The newest: its layout is the one that changed last.
    found.into_iter().next_back().into_iter().collect()
}
