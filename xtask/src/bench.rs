//! `cargo xtask bench`: what the program costs, measured by the package `ttmem-bench`, and the
//! Python package by a program of its own.

mod python;

use crate::command::{cargo, program, run as run_command, target_dir};
use anyhow::bail;

const SUBJECTS: [&str; 11] = [
    "server",
    "client",
    "top",
    "api",
    "metrics",
    "host",
    "churn",
    "short",
    "fair",
    "python",
    "recording",
];

/// Builds everything as it is shipped and measures one subject.
pub(crate) fn run(words: &[&str]) -> anyhow::Result<()> {
    let [subject, rest @ ..] = words else {
        bail!("what to measure: {}", SUBJECTS.join(", "));
    };
    if !SUBJECTS.contains(subject) {
        bail!(
            "no measurement {subject}; there are {}",
            SUBJECTS.join(", ")
        );
    }
    if *subject == "python" {
        return python::run(rest);
    }
    let packages = ["--package", "ttmem", "--package", "ttmem-bench"];
    run_command(&mut cargo(
        ["build", "--release"].into_iter().chain(packages),
    ))?;
    let built = target_dir().join("release");
    let mut bench = program(built.join("ttmem-bench"));
    bench.arg(subject).arg("--ttmem").arg(built.join("ttmem"));
    run_command(bench.args(rest))
}
