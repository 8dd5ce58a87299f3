//! `cargo xtask fuzz`: every fuzz target, on stable Rust.
//!
//! A target is a file in `fuzz/fuzz_targets/`, so a new one needs no word here. Without a number of
//! seconds a target tries the same inputs every time: a test that fails fails again. With one it looks
//! for new inputs, and libFuzzer writes what it learns into a directory below the build directory.
//! The committed corpus is only read.

use crate::command::{cargo, host_triple, program, root, run as run_command, target_dir};
use crate::tool;
use anyhow::{Context, bail};
use std::fs;
use std::path::{Path, PathBuf};

/// How many inputs a target tries when no seconds are given, and where their making starts.
const RUNS: u32 = 100_000;
const SEED: u32 = 1;

/// Above the largest input with several frames of each kind; more only makes runs slower.
const MAX_INPUT_BYTES: u32 = 8192;

/// Seconds after which one input counts as a hang.
const HANG_SECONDS: u32 = 10;

/// The coverage that guides libFuzzer, asked of LLVM directly: stable has no `-Zsanitizer`.
const RUSTFLAGS: &str = "--cfg fuzzing \
    -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";

/// A target whose inputs take a second rather than a millisecond: each is a recording that eight questions are put to,
/// and each question may take as long as the budget of its file allows, which counts work, not time.
const SLOW: &str = "recording_budget";
const SLOW_RUNS: u32 = 200;
const SLOW_HANG_SECONDS: u32 = 100;

/// Which targets to run, and for how long.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Request {
    /// How long to look for new inputs; none = the same inputs as always.
    seconds: Option<u32>,
    /// None = every target.
    targets: Vec<String>,
}

impl Request {
    /// Reads `[SECONDS] [TARGET...]`.
    pub(crate) fn parse(words: &[&str]) -> anyhow::Result<Self> {
        let mut request = Self::default();
        let mut targets = words;
        if let [first, rest @ ..] = words
            && let Ok(seconds) = first.parse()
        {
            // libFuzzer takes 0 for "without end".
            if seconds == 0 {
                bail!("a target needs at least one second");
            }
            request.seconds = Some(seconds);
            targets = rest;
        }
        if let Some(flag) = targets.iter().find(|word| word.starts_with('-')) {
            bail!("no such option: {flag}");
        }
        request.targets = targets.iter().map(|word| (*word).to_owned()).collect();
        Ok(request)
    }
}

/// Builds the targets and runs each.
pub(crate) fn run(request: &Request) -> anyhow::Result<()> {
    tool::CXX.ensure()?;
    let targets = chosen(request, targets()?)?;
    let bin_dir = build(&targets)?;
    let mut total = 0;
    for target in &targets {
        let executions = run_target(&bin_dir.join(target), target, request.seconds)?;
        println!("{target}: {executions} executions");
        total += executions;
    }
    println!(
        "{} fuzz targets, {total} executions, no finding",
        targets.len()
    );
    Ok(())
}

/// Every target, by its file.
fn targets() -> anyhow::Result<Vec<String>> {
    let dir = root().join("fuzz/fuzz_targets");
    let mut targets = Vec::new();
    for entry in fs::read_dir(&dir).with_context(|| format!("cannot list {}", dir.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            let stem = path.file_stem().and_then(|stem| stem.to_str());
            let stem = stem.with_context(|| format!("not a name: {}", path.display()))?;
            targets.push(stem.to_owned());
        }
    }
    targets.sort();
    Ok(targets)
}

fn chosen(request: &Request, there: Vec<String>) -> anyhow::Result<Vec<String>> {
    if there.is_empty() {
        bail!("there is no fuzz target");
    }
    for target in &request.targets {
        if !there.contains(target) {
            bail!("no fuzz target {target}; there are {}", there.join(", "));
        }
    }
    if request.targets.is_empty() {
        Ok(there)
    } else {
        Ok(request.targets.clone())
    }
}

/// Builds the targets and says where they are.
fn build(targets: &[String]) -> anyhow::Result<PathBuf> {
    let host = host_triple()?;
    // Beside the ordinary build: these flags would make cargo build that anew each time.
    let dir = target_dir().join("fuzz");
    let words = ["build", "--release", "--manifest-path", "fuzz/Cargo.toml"];
    let mut build = cargo(words);
    // Without `--target` the flags would reach build scripts and procedural
    // macros too, which then fail to link.
    build.args(["--target", &host]);
    build.arg("--target-dir").arg(&dir);
    for target in targets {
        build.args(["--bin", target]);
    }
    run_command(build.env("RUSTFLAGS", RUSTFLAGS))?;
    Ok(dir.join(host).join("release"))
}

/// Runs one target and says how many inputs it tried.
fn run_target(binary: &Path, target: &str, seconds: Option<u32>) -> anyhow::Result<u64> {
    let artifacts = root().join("fuzz/artifacts").join(target);
    let learnt = target_dir().join(if seconds.is_some() {
        "fuzz/corpus"
    } else {
        "fuzz/once"
    });
    let learnt = learnt.join(target);
    if seconds.is_none() && learnt.exists() {
        // What an earlier run learnt would lead to other inputs.
        fs::remove_dir_all(&learnt)
            .with_context(|| format!("cannot empty {}", learnt.display()))?;
    }
    for dir in [&learnt, &artifacts] {
        fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    }
    let (runs, hang_seconds) = if target == SLOW {
        (SLOW_RUNS, SLOW_HANG_SECONDS)
    } else {
        (RUNS, HANG_SECONDS)
    };
    let mut fuzzer = program(binary);
    match seconds {
        Some(seconds) => {
            println!("fuzzing {target} for {seconds} s");
            fuzzer.arg(format!("-max_total_time={seconds}"));
        }
        None => {
            println!("fuzzing {target} with {runs} inputs");
            fuzzer.args([format!("-runs={runs}"), format!("-seed={SEED}")]);
        }
    }
    fuzzer
        .arg(format!("-max_len={MAX_INPUT_BYTES}"))
        .arg(format!("-timeout={hang_seconds}"))
        // A path that ends in a slash is a directory to libFuzzer.
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .arg("-print_final_stats=1")
        // New inputs go into the first directory.
        .arg(&learnt);
    let corpus = root().join("fuzz/corpus").join(target);
    if corpus.is_dir() {
        fuzzer.arg(corpus);
    }
    let output = fuzzer
        .output()
        .with_context(|| format!("cannot start {}", binary.display()))?;
    let printed = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        println!("{}", last_lines(&printed, 40));
        let Some(input) = written_input(&printed) else {
            bail!("{target} ended with {} and left no input", output.status);
        };
        bail!(
            "{target} has a finding: {input}\n  replay it with: {} {input}",
            binary.display()
        );
    }
    match executions(&printed) {
        Some(0) | None => {
            println!("{}", last_lines(&printed, 40));
            bail!("{target} tried no input");
        }
        Some(count) => Ok(count),
    }
}

/// How many inputs were tried, as libFuzzer prints at its end.
fn executions(printed: &str) -> Option<u64> {
    let count = printed
        .lines()
        .find_map(|line| line.strip_prefix("stat::number_of_executed_units:"))?;
    count.trim().parse().ok()
}

/// The file that libFuzzer left the offending input in.
fn written_input(printed: &str) -> Option<&str> {
    printed
        .lines()
        .find_map(|line| Some(line.split_once("Test unit written to ")?.1.trim()))
}

fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(seconds: impl Into<Option<u32>>, targets: &[&str]) -> Request {
        Request {
            seconds: seconds.into(),
            targets: targets.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    #[test]
    fn seconds_and_targets_are_both_optional() {
        assert_eq!(Request::parse(&[]).unwrap(), request(None, &[]));
        assert_eq!(Request::parse(&["3"]).unwrap(), request(3, &[]));
        assert_eq!(Request::parse(&["a"]).unwrap(), request(None, &["a"]));
        assert_eq!(
            Request::parse(&["3", "a", "b"]).unwrap(),
            request(3, &["a", "b"])
        );
        assert!(Request::parse(&["0"]).is_err());
        assert!(Request::parse(&["--help"]).is_err());
    }

    #[test]
    fn a_target_that_is_not_there_is_refused() {
        let there = || vec!["one".to_owned(), "two".to_owned()];
        assert_eq!(chosen(&request(1, &[]), there()).unwrap(), there());
        assert_eq!(chosen(&request(1, &["two"]), there()).unwrap(), ["two"]);
        assert!(chosen(&request(1, &["three"]), there()).is_err());
        assert!(chosen(&request(1, &[]), Vec::new()).is_err());
    }

    #[test]
    fn the_end_of_libfuzzer_is_understood() {
        let passed = "Done 812 runs in 2 second(s)\nstat::number_of_executed_units: 812\n";
        assert_eq!(executions(passed), Some(812));
        assert_eq!(written_input(passed), None);
        let failed = "artifact_prefix='a/'; Test unit written to a/crash-0123\nBase64: AA==\n";
        assert_eq!(executions(failed), None);
        assert_eq!(written_input(failed), Some("a/crash-0123"));
    }
}
