//! `cargo xtask test`: every check, cheap ones first.

use crate::command::{cargo, run as run_command};
use crate::{Outcome, arrows, examples, fuzz, gate, loom, schemathesis, tool, ttnn};
use anyhow::{Context, bail};
use std::time::{Duration, Instant};

/// One check of the run.
struct Step {
    name: &'static str,
    /// How to run it alone.
    alone: &'static str,
    run: fn() -> anyhow::Result<Outcome>,
}

const STEPS: &[Step] = &[
    Step {
        name: "format",
        alone: "cargo fmt --all --check (and in fuzz/)",
        run: || {
            run_command(&mut cargo(["fmt", "--all", "--check"]))?;
            let fuzz = ["--manifest-path", "fuzz/Cargo.toml"];
            passed(["fmt", "--check"].into_iter().chain(fuzz))
        },
    },
    Step {
        name: "lints",
        alone: "cargo clippy --workspace --all-targets -- -D warnings",
        run: || {
            let clippy = ["clippy", "--workspace", "--all-targets"];
            passed(clippy.into_iter().chain(["--", "-D", "warnings"]))
        },
    },
    Step {
        name: "arrows",
        alone: "cargo xtask arrows",
        run: arrows::run,
    },
    Step {
        name: "tests",
        alone: "cargo nextest run --workspace (or cargo test --workspace)",
        run: || {
            tool::TMUX.ensure()?;
            if has_nextest() {
                passed(["nextest", "run", "--workspace"])
            } else {
                println!("cargo-nextest is not there: running the tests with cargo test");
                passed(["test", "--workspace", "--lib", "--bins", "--tests"])
            }
        },
    },
    Step {
        name: "doc tests",
        alone: "cargo test --doc --workspace",
        run: || passed(["test", "--doc", "--workspace"]),
    },
    Step {
        name: "documentation",
        alone: "RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps",
        run: || {
            let mut doc = cargo(["doc", "--workspace", "--no-deps"]);
            run_command(doc.env("RUSTDOCFLAGS", "-D warnings"))?;
            Ok(Outcome::Passed)
        },
    },
    Step {
        name: "ttnn",
        alone: "cargo xtask ttnn",
        run: ttnn::run_beside_tests,
    },
    Step {
        name: "schemathesis",
        alone: "cargo xtask schemathesis",
        run: schemathesis::run_beside_tests,
    },
    Step {
        name: "loom",
        alone: "cargo xtask loom",
        run: loom::run,
    },
    Step {
        name: "examples",
        alone: "cargo xtask examples",
        run: examples::run,
    },
    Step {
        name: "fuzz",
        alone: "cargo xtask fuzz",
        run: || fuzz::run(&fuzz::Request::default()),
    },
    Step {
        name: "gate",
        alone: "cargo xtask gate",
        run: || gate::run(gate::Mode::Compare),
    },
];

/// Runs every check and stops at the first that fails.
pub(crate) fn run() -> anyhow::Result<()> {
    let skipping_fails = std::env::var_os("CI").is_some_and(|value| value == "true");
    let mut ended: Vec<(&str, Duration, Outcome)> = Vec::new();
    for (number, step) in (1..).zip(STEPS) {
        println!("\n== {number}/{} {} ==", STEPS.len(), step.name);
        let start = Instant::now();
        let outcome = (step.run)();
        let elapsed = start.elapsed();
        let outcome = outcome.with_context(|| {
            let seconds = elapsed.as_secs_f64();
            let (name, alone) = (step.name, step.alone);
            format!("step `{name}` failed after {seconds:.1} s; to run it alone: {alone}")
        })?;
        println!("-- {}: {:.1} s", step.name, elapsed.as_secs_f64());
        ended.push((step.name, elapsed, outcome));
    }
    summarize(&ended, skipping_fails)
}

fn summarize(ended: &[(&str, Duration, Outcome)], skipping_fails: bool) -> anyhow::Result<()> {
    println!("\n== summary ==");
    for (name, elapsed, outcome) in ended {
        let seconds = elapsed.as_secs_f64();
        match outcome {
            Outcome::Passed => println!("{name:<14} {seconds:>7.1} s  passed"),
            Outcome::Skipped(reason) => println!("{name:<14} {seconds:>7.1} s  SKIPPED: {reason}"),
        }
    }
    let is_skipped = |(_name, _elapsed, outcome): &&(_, _, Outcome)| *outcome != Outcome::Passed;
    let skipped = ended.iter().filter(is_skipped).count();
    if skipped > 0 && skipping_fails {
        bail!("{skipped} steps were skipped, and with CI=true every step must run");
    }
    let ran = ended.len() - skipped;
    println!("all steps passed: {ran} steps, {skipped} skipped");
    Ok(())
}

fn passed<'w>(words: impl IntoIterator<Item = &'w str>) -> anyhow::Result<Outcome> {
    run_command(&mut cargo(words))?;
    Ok(Outcome::Passed)
}

fn has_nextest() -> bool {
    let output = cargo(["nextest", "--version"]).output();
    output.is_ok_and(|output| output.status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skipped_step_fails_only_where_every_step_must_run() {
        let skipped = |reason: &str| ("gate", Duration::ZERO, Outcome::Skipped(reason.to_owned()));
        let ended = [
            ("format", Duration::ZERO, Outcome::Passed),
            skipped("no valgrind"),
        ];
        assert!(summarize(&ended, false).is_ok());
        assert!(summarize(&ended, true).is_err());
        assert!(summarize(&ended[..1], true).is_ok());
    }
}
