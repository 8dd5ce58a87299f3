//! `cargo xtask ttnn`: the real ttnn, tracked without a patch, step by step.
//!
//! Python programs run on boards that are not there, with the attach library preloaded,
//! and compare what ttnn's own allocator says with what our server says. The package
//! `ttmem-ttnn` does it; here it is built with all it needs, and started. Where there is
//! no Python that ttnn has wheels for, the check is skipped.
//!
//! `cargo xtask ttnn-bench`: what that costs the program, with everything built as it is
//! shipped. It judges nothing; the figures go into the repository.

use crate::command::{build_for_tests, cargo, program, root, run as run_command, target_dir};
use crate::{CannotRun, SKIPPED};
use anyhow::{Context, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Where the figures of the benchmark are kept.
const FIGURES: &str = "docs/bench";

/// The manual with the reports of failures.
const EXPLAINED: &str = "docs/explain.md";

const WHEELS: &str = "docs/ttnn-wheels.md";

/// Runs every program on every board, or those that are named.
pub(crate) fn run(words: &[&str]) -> anyhow::Result<()> {
    build_for_tests()?;
    run_harness("debug", |harness| {
        harness.arg("run").arg(programs()).args(words)
    })
}

/// Tries every published wheel and writes the table of them, or prints that of those named.
pub(crate) fn run_matrix(wheels: &[&str]) -> anyhow::Result<()> {
    build_for_tests()?;
    run_harness("debug", |harness| {
        let page = root().join(WHEELS);
        harness.arg("matrix").arg(programs()).arg(page).args(wheels)
    })
}

/// Makes every request of ttnn plain and tracked, of the newest wheel and an older one, or of those
/// named, and compares the answers.
pub(crate) fn run_unharmed(wheels: &[&str]) -> anyhow::Result<()> {
    build_for_tests()?;
    run_harness("debug", |harness| {
        harness.arg("unharmed").arg(programs()).args(wheels)
    })
}

/// Runs the programs that fail, and writes the reports of them into the manual.
pub(crate) fn reports() -> anyhow::Result<()> {
    build_for_tests()?;
    run_harness("debug", |harness| {
        let manual = root().join(EXPLAINED);
        harness.arg("reports").arg(programs()).arg(manual)
    })
}

pub(crate) fn bench() -> anyhow::Result<()> {
    let packages = ["ttmem", "ttmem-attach", "ttmem-ttnn"];
    let named = packages.iter().flat_map(|name| ["--package", name]);
    run_command(&mut cargo(["build", "--release"].into_iter().chain(named)))?;
    run_harness("release", |harness| {
        harness
            .arg("bench")
            .arg(programs())
            .arg(root().join(FIGURES))
    })
}

/// Runs the programs with a program and a library from elsewhere, instead of those built for tests.
pub(crate) fn run_packaged(ttmem: &Path, attach: &Path) -> anyhow::Result<()> {
    build_for_tests()?;
    // The harness looks for everything where it is itself.
    let tools = target_dir().join("xtask/packaged");
    fs::create_dir_all(&tools).with_context(|| format!("cannot make {}", tools.display()))?;
    let built = target_dir().join("debug");
    let harness = [
        built.join("ttmem-ttnn"),
        built.join("ttmem-standin-compiler"),
    ];
    for from in [&harness[0], &harness[1], ttmem, attach] {
        let to = tools.join(from.file_name().context("a program has a name")?);
        fs::copy(from, &to).with_context(|| format!("cannot copy {}", from.display()))?;
    }
    run_harness_of(&tools, |harness| harness.arg("run").arg(programs()))
}

/// Makes ttnn ready, and runs the harness of a profile with some words.
fn run_harness(
    profile: &str,
    with_words: impl FnOnce(&mut Command) -> &mut Command,
) -> anyhow::Result<()> {
    run_harness_of(&target_dir().join(profile), with_words)
}

fn run_harness_of(
    tools: &Path,
    with_words: impl FnOnce(&mut Command) -> &mut Command,
) -> anyhow::Result<()> {
    let harness = || program(tools.join("ttmem-ttnn"));
    let provision = harness()
        .arg("provision")
        .stdin(Stdio::null())
        .output()
        .context("cannot start ttmem-ttnn")?;
    provisioned(&provision)?;
    run_command(with_words(&mut harness()))
}

/// The folder with the Python programs.
fn programs() -> PathBuf {
    root().join("tests/ttnn/python")
}

/// What came of `ttmem-ttnn provision`.
fn provisioned(output: &Output) -> anyhow::Result<()> {
    let printed = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    match output.status.code() {
        Some(0) => Ok(()),
        Some(code) if code == i32::from(SKIPPED) => bail!(CannotRun(printed)),
        _ => bail!("ttnn cannot be made ready: {printed}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn provisioned_by(script: &str) -> anyhow::Result<()> {
        provisioned(&program("sh").args(["-c", script]).output()?)
    }

    #[test]
    fn only_a_missing_python_is_skipped() {
        assert!(provisioned_by("exit 0").is_ok());
        let skipped = provisioned_by("echo no Python >&2; exit 77").unwrap_err();
        assert!(skipped.is::<CannotRun>() && skipped.to_string() == "no Python");
        let failed = provisioned_by("echo no network >&2; exit 1").unwrap_err();
        assert!(!failed.is::<CannotRun>());
        assert_eq!(failed.to_string(), "ttnn cannot be made ready: no network");
    }
}
