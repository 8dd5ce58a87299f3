//! `cargo xtask gate`: instructions per event, against committed baselines.
//!
//! Wall-clock time on a shared machine says little; the number of instructions
//! hardly varies. Each workload of the ledger's bench `instructions` runs under
//! valgrind for `n` and for `2n` events: the difference is the cost of `n`
//! events, without start and set-up.

mod baseline;

use crate::Outcome;
use crate::command::{cargo, program, read, root};
use crate::tool;
use anyhow::{Context, bail};
use baseline::{Baseline, Baselines, PerEvent, Verdict};
use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

/// Events of the shorter run: enough for a tenth of an instruction, few enough for seconds.
const EVENTS: u64 = 100_000;

/// The committed baselines.
const BASELINES: &str = "crates/ttmem-ledger/benches/instructions.txt";

/// What to do with the measured counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Fail where one is above its baseline.
    Compare,
    /// Make them the baselines.
    Bless,
}

/// Measures every workload.
pub(crate) fn run(mode: Mode) -> anyhow::Result<Outcome> {
    if let Err(error) = tool::VALGRIND.ensure() {
        return Ok(Outcome::Skipped(format!("{error:#}")));
    }
    let binary = build()?;
    let names = read(&mut program(&binary))?;
    let mut measured = Vec::new();
    for name in names.lines() {
        measured.push((name.to_owned(), measure(&binary, name)?));
    }
    if measured.is_empty() {
        bail!("the bench has no workload");
    }
    let path = root().join(BASELINES);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if mode == Mode::Bless && error.kind() == std::io::ErrorKind::NotFound => {
            String::new()
        }
        Err(error) => return Err(error).context(BASELINES),
    };
    let baselines = Baselines::parse(&text).context(BASELINES)?;
    let tools = tools()?;
    if mode == Mode::Bless {
        let blessed = baselines.blessed(&measured, tools);
        fs::write(&path, blessed.to_string()).context(BASELINES)?;
        print!("{blessed}");
        return Ok(Outcome::Passed);
    }
    compare(&baselines, &measured, &tools)?;
    Ok(Outcome::Passed)
}

/// The compiler and the counter: another one of either counts differently.
fn tools() -> anyhow::Result<String> {
    let rustc = read(program("rustc").arg("--version"))?;
    let valgrind = read(program("valgrind").arg("--version"))?;
    Ok(format!("{}, {}", rustc.trim(), valgrind.trim()))
}

/// Builds the bench and says where it is.
fn build() -> anyhow::Result<PathBuf> {
    let bench = [
        "bench",
        "--package",
        "ttmem-ledger",
        "--bench",
        "instructions",
    ];
    let how = ["--no-run", "--message-format", "json-render-diagnostics"];
    let mut cargo = cargo(bench.into_iter().chain(how));
    // What the compiler says goes to the terminal; the messages are on stdout.
    let messages = read(cargo.stderr(Stdio::inherit()))?;
    let path = executable(&messages).context("cargo names no executable of the bench")?;
    Ok(PathBuf::from(path))
}

/// The executable that cargo's messages speak of.
fn executable(messages: &str) -> Option<&str> {
    let (_before, rest) = messages.split_once("\"executable\":\"")?;
    let (path, _after) = rest.split_once('"')?;
    // Of paths with quotes or backslashes in them nothing is known here.
    (!path.contains('\\')).then_some(path)
}

fn measure(binary: &PathBuf, workload: &str) -> anyhow::Result<PerEvent> {
    let count = |events: u64| {
        let mut valgrind = program("valgrind");
        valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
        valgrind.arg(binary).arg(workload).arg(events.to_string());
        let output = valgrind.output().context("cannot start valgrind")?;
        let said = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            bail!(
                "{workload} failed under valgrind: {}\n{said}",
                output.status
            );
        }
        collected(&said).with_context(|| format!("valgrind gave no count for {workload}\n{said}"))
    };
    let (short, long) = (count(EVENTS)?, count(2 * EVENTS)?);
    let difference = long
        .checked_sub(short)
        .with_context(|| format!("{workload}: {long} instructions for twice as much as {short}"))?;
    Ok(PerEvent::new(difference, EVENTS))
}

/// The number in callgrind's line `==pid== Collected : n`.
fn collected(said: &str) -> Option<u64> {
    let line = said.lines().find(|line| line.contains("Collected :"))?;
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
            Verdict::Worse => faults.push(format!(
                "{name} takes {now} instructions per event; the baseline is {per_event} + {percent} %"
            )),
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
    if baselines.tools() != tools {
        faults.push(format!(
            "note: the baselines were taken with {}, this is {tools}: measure the commit before \
             this one with the same tools before you believe the difference",
            baselines.tools(),
        ));
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
        assert_eq!(executable(messages), Some("/x/instructions-12"));
        assert_eq!(executable("{\"executable\":null}"), None);
        let said = "==7== Events    : Ir\n==7== Collected : 97079533\n==7== I refs: 97,079,533\n";
        assert_eq!(collected(said), Some(97_079_533));
        assert_eq!(collected("==7== nothing\n"), None);
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
        for part in [
            "two has no baseline",
            "one has a baseline",
            "taken with t, this is other",
        ] {
            assert!(error.contains(part), "{error}");
        }
    }
}
