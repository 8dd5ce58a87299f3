//! `cargo xtask ttnn`: the real ttnn, tracked without a patch, step by step.
//!
//! Python programs run on boards that are not there, with the attach library preloaded,
//! and compare what ttnn's own allocator says with what our server says. The package
//! `ttmem-ttnn` does it; here it is built with all it needs, and started. Where there is
//! no Python that ttnn has wheels for, that is said and the check is skipped.
//!
//! `cargo xtask ttnn-bench`: what that costs the program, with everything built as it is
//! shipped. It judges nothing; the figures go into the repository.

use crate::Outcome;
use crate::command::{cargo, program, root, run as run_command, target_dir};
use anyhow::{Context, bail};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// How `ttmem-ttnn provision` ends where ttnn cannot run.
const SKIPPED: i32 = 77;

/// Where the figures of the benchmark are kept.
const FIGURES: &str = "docs/bench/attach.json";

const WHEELS: &str = "docs/ttnn-wheels.md";

/// Runs every program on every board, or those that are named.
pub(crate) fn run(words: &[&str]) -> anyhow::Result<Outcome> {
    build(&[])?;
    run_harness("debug", |harness| {
        harness.arg("run").arg(programs()).args(words)
    })
}

/// Tries every published wheel and writes the table of them, or prints that of those named.
pub(crate) fn run_matrix(wheels: &[&str]) -> anyhow::Result<Outcome> {
    build(&[])?;
    run_harness("debug", |harness| {
        let page = root().join(WHEELS);
        harness.arg("matrix").arg(programs()).arg(page).args(wheels)
    })
}

/// Runs every program on every board, where the tests of the workspace are built.
///
/// With the tests some dependencies have more features, so what is built for these packages
/// alone would be built a second time. Here only what no test needs is missing.
pub(crate) fn run_beside_tests() -> anyhow::Result<Outcome> {
    let targets = ["--workspace", "--tests", "--lib"];
    let needed = ["ttmem", "ttmem-ttnn", "ttmem-standin-compiler"];
    let named = needed.iter().flat_map(|name| ["--bin", name]);
    run_command(&mut cargo(
        ["build"].into_iter().chain(targets).chain(named),
    ))?;
    run_harness("debug", |harness| harness.arg("run").arg(programs()))
}

pub(crate) fn bench() -> anyhow::Result<Outcome> {
    build(&["--release"])?;
    run_harness("release", |harness| {
        harness
            .arg("bench")
            .arg(programs())
            .arg(root().join(FIGURES))
    })
}

/// Builds the harness and what it preloads and starts.
fn build(profile: &[&str]) -> anyhow::Result<()> {
    let packages = ["ttmem", "ttmem-attach", "ttmem-ttnn"];
    let named = packages.iter().flat_map(|name| ["--package", name]);
    let words = ["build"].iter().chain(profile).copied().chain(named);
    run_command(&mut cargo(words))
}

/// Makes ttnn ready, and runs the harness with some words.
fn run_harness(
    profile: &str,
    with_words: impl FnOnce(&mut Command) -> &mut Command,
) -> anyhow::Result<Outcome> {
    let harness = || program(target_dir().join(profile).join("ttmem-ttnn"));
    let provision = harness()
        .arg("provision")
        .stdin(Stdio::null())
        .output()
        .context("cannot start ttmem-ttnn")?;
    let outcome = provisioned(&provision)?;
    if outcome == Outcome::Passed {
        run_command(with_words(&mut harness()))?;
    }
    Ok(outcome)
}

/// The folder with the Python programs.
fn programs() -> PathBuf {
    root().join("tests/ttnn/python")
}

/// What came of `ttmem-ttnn provision`.
fn provisioned(output: &Output) -> anyhow::Result<Outcome> {
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    match output.status.code() {
        Some(0) => Ok(Outcome::Passed),
        Some(SKIPPED) => Ok(Outcome::Skipped(said)),
        _ => bail!("ttnn cannot be made ready: {said}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn provisioned_by(script: &str) -> anyhow::Result<Outcome> {
        provisioned(&program("sh").args(["-c", script]).output()?)
    }

    #[test]
    fn only_a_missing_python_is_skipped() {
        assert_eq!(provisioned_by("exit 0").unwrap(), Outcome::Passed);
        let skipped = Outcome::Skipped("no Python".to_owned());
        assert_eq!(
            provisioned_by("echo no Python >&2; exit 77").unwrap(),
            skipped
        );
        let failed = provisioned_by("echo no network >&2; exit 1").unwrap_err();
        assert_eq!(failed.to_string(), "ttnn cannot be made ready: no network");
    }
}
