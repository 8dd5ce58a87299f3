//! `cargo xtask gate`: instructions per event, against committed baselines.
//!
//! Wall-clock time on a shared machine says little; the number of instructions
//! hardly varies. Each workload of a crate's bench `instructions` runs under
//! valgrind, which counts only inside one function of it: start, set-up and
//! warm-up are left out. Two runs of different length, subtracted, would leave
//! them out as well, but not the chance in them: hash seeds differ between two
//! processes, and with them when a table grows. The preloaded library is counted
//! in another way: [`attach`].

mod attach;
mod baseline;

use crate::command::{cargo, program, read, root};
use crate::tool;
use anyhow::{Context, bail};
use baseline::{Baseline, Baselines, PerEvent, Verdict};
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// A crate whose bench `instructions` is held against its `benches/instructions.txt`.
struct Subject {
    package: &'static str,
    folder: &'static str,
    events: u64,
}

const SUBJECTS: &[Subject] = &[
    // Several cycles of every workload, in a few seconds.
    Subject {
        package: "ttmem-ledger",
        folder: "state/ledger",
        events: 200_000,
    },
    // What fits into a ring: under valgrind threads take turns, and none must wait for another.
    Subject {
        package: "ttmem-client",
        folder: "capture/client",
        events: 4000,
    },
];

/// The function of the bench that is counted, as callgrind's pattern for its name.
const COUNTED: &str = "*measured_events*";

/// How often a workload is measured before it counts as worse than its baseline.
///
/// Chance only ever adds: a seed with more collisions, a table that has not grown
/// yet. The least of several counts is therefore the truest, and what is really
/// worse is worse every time.
const ATTEMPTS: usize = 5;

/// How often a workload is measured for a new baseline: always, and the least counts.
const BLESS_ATTEMPTS: usize = 3;

/// What to do with the measured counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Fail where one is above its baseline.
    Compare,
    Bless,
}

/// Measures every workload of every subject.
pub(crate) fn run(mode: Mode) -> anyhow::Result<()> {
    tool::VALGRIND.ensure()?;
    for subject in SUBJECTS {
        run_subject(subject, mode).with_context(|| subject.package.to_owned())?;
    }
    attach::run(mode).context("ttmem-attach")
}

fn run_subject(subject: &Subject, mode: Mode) -> anyhow::Result<()> {
    let file = format!("{}/benches/instructions.txt", subject.folder);
    let binary = build(subject.package, "instructions")?;
    let names = read(&mut program(&binary))?;
    let names: Vec<&str> = names.lines().collect();
    judge(&file, mode, &names, |name| {
        measure(&binary, name, subject.events)
    })
}

/// Measures some workloads and holds them against a file of baselines, or writes it.
fn judge(
    file: &str,
    mode: Mode,
    names: &[&str],
    measure: impl Fn(&str) -> anyhow::Result<PerEvent>,
) -> anyhow::Result<()> {
    let path = root().join(file);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if mode == Mode::Bless && error.kind() == std::io::ErrorKind::NotFound => {
            String::new()
        }
        Err(error) => return Err(error).context(file.to_owned()),
    };
    let baselines = Baselines::parse(&text).context(file.to_owned())?;
    let mut measured = Vec::new();
    for &name in names {
        let baseline = baselines.of(name).filter(|_known| mode == Mode::Compare);
        let count = match baseline {
            Some(baseline) => least(
                ATTEMPTS,
                || measure(name),
                |count| baseline.judge(count) != Verdict::Worse,
            ),
            None => least(BLESS_ATTEMPTS, || measure(name), |_count| false),
        };
        measured.push((name.to_owned(), count?));
    }
    if measured.is_empty() {
        bail!("the bench has no workload");
    }
    let tools = tools()?;
    if mode == Mode::Bless {
        let blessed = baselines.blessed(&measured, tools);
        fs::write(&path, blessed.to_string()).context(file.to_owned())?;
        print!("{blessed}");
        return Ok(());
    }
    compare(&baselines, &measured, &tools)
}

/// The least of several measurements; one that is good enough ends them early.
fn least(
    attempts: usize,
    mut measure: impl FnMut() -> anyhow::Result<PerEvent>,
    is_good: impl Fn(PerEvent) -> bool,
) -> anyhow::Result<PerEvent> {
    let mut least = measure()?;
    for _attempt in 1..attempts {
        if is_good(least) {
            break;
        }
        least = least.min(measure()?);
    }
    Ok(least)
}

/// The compiler and the counter: another one of either counts differently.
fn tools() -> anyhow::Result<String> {
    let rustc = read(program("rustc").arg("--version"))?;
    let valgrind = read(program("valgrind").arg("--version"))?;
    Ok(format!("{}, {}", rustc.trim(), valgrind.trim()))
}

/// Builds a bench and says where it is.
pub(crate) fn build(package: &str, bench: &str) -> anyhow::Result<PathBuf> {
    let bench = ["bench", "--package", package, "--bench", bench];
    let how = ["--no-run", "--message-format", "json-render-diagnostics"];
    let mut cargo = cargo(bench.into_iter().chain(how));
    // What the compiler says goes to the terminal; the messages are on stdout.
    let messages = read(cargo.stderr(Stdio::inherit()))?;
    executable(&messages).context("cargo names no executable of the bench")
}

/// The executable that one of cargo's messages names.
fn executable(messages: &str) -> Option<PathBuf> {
    let messages = messages.lines().map(serde_json::from_str::<Value>);
    messages
        .flatten()
        .find_map(|message| Some(PathBuf::from(message["executable"].as_str()?)))
}

/// Runs a workload once and counts.
fn measure(binary: &Path, workload: &str, events: u64) -> anyhow::Result<PerEvent> {
    let count = count(binary, workload, events, &[])?;
    Ok(PerEvent::new(count, events))
}

/// The instructions of one run of a workload, with some variables set.
fn count(
    binary: &Path,
    workload: &str,
    events: u64,
    variables: &[(&str, &OsStr)],
) -> anyhow::Result<u64> {
    let (count, _printed) = counted(binary, &[workload, &events.to_string()], variables)?;
    // Not one instruction per event: the function was not found by its name.
    if count < events {
        bail!("valgrind counted {count} instructions in {COUNTED} for {events} of {workload}");
    }
    Ok(count)
}

/// The instructions in the counted function of a bench, and what it printed.
pub(crate) fn counted(
    binary: &Path,
    words: &[&str],
    variables: &[(&str, &OsStr)],
) -> anyhow::Result<(u64, String)> {
    let mut valgrind = program("valgrind");
    valgrind
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg("--collect-atstart=no")
        .arg(format!("--toggle-collect={COUNTED}"))
        .arg(binary)
        .args(words)
        .envs(variables.iter().copied());
    let output = valgrind.output().context("cannot start valgrind")?;
    let printed = String::from_utf8_lossy(&output.stderr);
    let shown = words.join(" ");
    if !output.status.success() {
        bail!(
            "{shown} failed under valgrind: {}\n{printed}",
            output.status
        );
    }
    let count = collected(&printed)
        .with_context(|| format!("valgrind gave no count for {shown}\n{printed}"))?;
    Ok((count, String::from_utf8_lossy(&output.stdout).into_owned()))
}

/// The number in callgrind's line `==pid== Collected : n`.
fn collected(printed: &str) -> Option<u64> {
    let line = printed.lines().find(|line| line.contains("Collected :"))?;
    line.rsplit(':').next()?.trim().parse().ok()
}

fn compare(
    baselines: &Baselines,
    measured: &[(String, PerEvent)],
    tools: &str,
) -> anyhow::Result<()> {
    println!(
        "{:<16} {:>9} {:>9} {:>8}",
        "workload", "now", "baseline", "limit"
    );
    // Another compiler counts other instructions: that is no regression of ours.
    let comparable = baselines.tools() == tools;
    if !comparable {
        let known = baselines.tools();
        println!("shown, not judged: the baselines were taken with {known}, this is {tools}");
    }
    let mut faults = Vec::new();
    let mut is_better = false;
    for (name, now) in measured {
        let Some(baseline) = baselines.of(name) else {
            faults.push(format!("{name} has no baseline"));
            println!("{name:<16} {now:>9} {:>9} {:>8}", "-", "-");
            continue;
        };
        let Baseline { per_event, percent } = *baseline;
        let verdict = baseline.judge(*now);
        let limit = format!("+{percent} %");
        println!("{name:<16} {now:>9} {per_event:>9} {limit:>8}  {verdict}");
        match verdict {
            Verdict::Worse if comparable => faults.push(format!(
                "{name} takes {now} instructions per event; the baseline is {per_event} + {percent} %"
            )),
            Verdict::Worse => {}
            Verdict::Better => is_better = true,
            Verdict::Same => {}
        }
    }
    for name in baselines.names() {
        if !measured.iter().any(|(other, _now)| other == name) {
            faults.push(format!("{name} has a baseline but is no workload"));
        }
    }
    if is_better {
        println!("some are well below their baseline: keep that with `cargo xtask gate --bless`");
    }
    if faults.is_empty() {
        return Ok(());
    }
    bail!(
        "instructions per event:\n  {}\nif this is meant: cargo xtask gate --bless",
        faults.join("\n  ")
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_cargo_and_callgrind_are_understood() {
        let messages = "{\"reason\":\"compiler-artifact\",\"executable\":null}\n\
            {\"target\":{\"name\":\"instructions\"},\"executable\":\"/x/instructions-12\",\"fresh\":true}\n";
        assert_eq!(executable(messages), Some("/x/instructions-12".into()));
        assert_eq!(executable("{\"executable\":null}"), None);
        let printed =
            "==7== Events    : Ir\n==7== Collected : 97079533\n==7== I refs: 97,079,533\n";
        assert_eq!(collected(printed), Some(97_079_533));
        assert_eq!(collected("==7== nothing\n"), None);
    }

    #[test]
    fn the_least_count_is_taken_and_a_good_one_ends_the_attempts() {
        let counts = [9, 7, 8, 3];
        let least_of = |attempts, good: u64| {
            let mut left = counts.iter().map(|count| Ok(PerEvent::new(*count, 1)));
            let least = least(
                attempts,
                || left.next().unwrap(),
                |count| count <= PerEvent::new(good, 1),
            );
            (least.unwrap(), left.len())
        };
        assert_eq!(least_of(3, 0), (PerEvent::new(7, 1), 1));
        assert_eq!(least_of(4, 8), (PerEvent::new(7, 1), 2));
        assert_eq!(least_of(4, 9), (PerEvent::new(9, 1), 3));
    }

    #[test]
    fn a_workload_fails_above_its_limit_and_without_a_baseline() {
        let baselines = Baselines::parse("# tools: t\none 100.0 5\n").unwrap();
        let measured = |name: &str, per_event| vec![(name.to_owned(), PerEvent::new(per_event, 1))];
        assert!(compare(&baselines, &measured("one", 105), "t").is_ok());
        let error = compare(&baselines, &measured("one", 106), "t").unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains("one takes 106.0") && error.contains("100.0 + 5 %"),
            "{error}"
        );
        let error = compare(&baselines, &measured("two", 1), "other").unwrap_err();
        let error = error.to_string();
        for part in ["two has no baseline", "one has a baseline"] {
            assert!(error.contains(part), "{error}");
        }
        // With other tools more instructions are no regression.
        assert!(compare(&baselines, &measured("one", 106), "other").is_ok());
    }
}
