//! `cargo xtask ttnn`: the real ttnn, tracked without a patch, step by step.
//!
//! Python programs run on boards that are not there, with the attach library preloaded,
//! and compare what ttnn's own allocator says with what our server says. The package
//! `ttmem-ttnn` does it; here it is built with all it needs, and started. Where there is
//! no Python that ttnn has wheels for, that is said and the check is skipped.

use crate::Outcome;
use crate::command::{cargo, program, root, run as run_command, target_dir};
use anyhow::{Context, bail};
use std::process::{Command, Output, Stdio};

/// How `ttmem-ttnn provision` ends where ttnn cannot run.
const SKIPPED: i32 = 77;

/// Runs every program on every board, or those that are named.
pub(crate) fn run(words: &[&str]) -> anyhow::Result<Outcome> {
    let packages = ["ttmem", "ttmem-attach", "ttmem-ttnn"];
    let named = packages.iter().flat_map(|name| ["--package", name]);
    run_command(&mut cargo(["build"].into_iter().chain(named)))?;
    run_built(words)
}

/// Runs every program on every board, where the tests of the workspace are built.
///
/// With the tests some dependencies have more features, so what is built for these packages
/// alone would be built a second time. Here only what no test needs is missing.
pub(crate) fn run_beside_tests() -> anyhow::Result<Outcome> {
    let targets = ["--workspace", "--tests", "--lib"];
    let programs = ["ttmem", "ttmem-ttnn", "ttmem-standin-compiler"];
    let named = programs.iter().flat_map(|name| ["--bin", name]);
    run_command(&mut cargo(
        ["build"].into_iter().chain(targets).chain(named),
    ))?;
    run_built(&[])
}

/// As [`run`], when everything is built.
fn run_built(words: &[&str]) -> anyhow::Result<Outcome> {
    let provision = harness()
        .arg("provision")
        .stdin(Stdio::null())
        .output()
        .context("cannot start ttmem-ttnn")?;
    let outcome = provisioned(&provision)?;
    if outcome == Outcome::Passed {
        let programs = root().join("tests/ttnn/python");
        run_command(harness().arg("run").arg(programs).args(words))?;
    }
    Ok(outcome)
}

fn harness() -> Command {
    program(target_dir().join("debug/ttmem-ttnn"))
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
