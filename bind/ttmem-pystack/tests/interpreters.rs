//! Stacks read in real interpreters equal Python's own: every one that this machine has.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

const STACKS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stacks.py");
const DENIED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/denied.py");
const ENDING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/ending.py");
const MINORS: std::ops::RangeInclusive<u32> = 10..=13;

/// The library that `examples/pystack_probe.rs` becomes.
fn probe() -> PathBuf {
    let test = std::env::current_exe().expect("this test is a file");
    let built = test.ancestors().nth(2).expect("it lies in deps");
    built.join("examples/libpystack_probe.so")
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

/// Interpreters on the path and of pyenv, each once.
fn interpreters() -> BTreeMap<String, PathBuf> {
    let named = MINORS.map(|minor| PathBuf::from(format!("python3.{minor}")));
    let system = ["/usr/bin/python3", "python3"].map(PathBuf::from);
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".pyenv"));
    let root = std::env::var_os("PYENV_ROOT").map(PathBuf::from).or(home);
    let versions = root.and_then(|root| std::fs::read_dir(root.join("versions")).ok());
    let of_pyenv = versions.into_iter().flatten().flatten();
    let of_pyenv = of_pyenv.map(|version| version.path().join("bin/python"));
    let all = named.chain(system).chain(of_pyenv);
    let known = all.filter_map(|program| Some((version(&program)?, program)));
    known
        .filter(|(version, _program)| {
            let minor = version
                .split('.')
                .nth(1)
                .and_then(|minor| minor.parse().ok());
            minor.is_some_and(|minor| MINORS.contains(&minor))
        })
        .collect()
}

/// Runs a script in every interpreter; what each of them printed has to have a text in it.
fn in_every_interpreter(script: &str, expected: &str) {
    let interpreters = interpreters();
    for (version, program) in &interpreters {
        let output = Command::new(program)
            .arg(script)
            .arg(probe())
            .output()
            .expect("it was started before");
        let (out, err) = (output.stdout, output.stderr);
        let said = String::from_utf8_lossy(&out) + String::from_utf8_lossy(&err);
        assert!(
            output.status.success(),
            "{version}: {}: {said}",
            output.status
        );
        assert!(said.contains(expected), "{version}: {said}");
    }
    let may_skip = std::env::var_os("CI").is_none_or(|ci| ci != "true");
    assert!(may_skip || !interpreters.is_empty(), "no Python");
}

#[test]
fn every_interpreter_gives_the_stacks_that_python_gives() {
    in_every_interpreter(STACKS, "ok of ");
}

#[test]
fn a_thread_that_outlives_its_interpreter_is_not_walked() {
    in_every_interpreter(ENDING, "late: Ok(Ok(None))");
}

#[test]
fn where_memory_cannot_be_checked_there_are_no_lines_and_the_reason_is_said() {
    in_every_interpreter(DENIED, "unsupported: the kernel refuses process_vm_readv");
}
