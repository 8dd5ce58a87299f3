//! Runs steps, some beside each other, and reports on all of them.
//!
//! A step is a process of its own, this program again, so that its output is a file of its
//! own. A failure does not keep other steps from running.

use crate::SKIPPED;
use crate::budget::{Budget, Cost, processor_time};
use crate::command::target_dir;
use anyhow::{Context, bail};
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Steps that run beside each other: each keeps about one core busy.
const BESIDE: usize = 2;

/// Lines of a failed step that are printed again at the very end.
const LAST_LINES: usize = 60;

/// How much of the machine a step takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    /// All of it: runs alone.
    Whole,
    /// A core, most of the time: runs beside others, after those that run alone.
    Part,
    /// Hardly any of it, since it waits for what happens on a clock: runs beside those that take a core.
    Clock,
}

/// The shares whose steps run at the same time, each with the number of its workers.
const GROUPS: [&[(Share, usize)]; 2] = [
    &[(Share::Whole, 1)],
    &[(Share::Part, BESIDE), (Share::Clock, 1)],
];

/// What it means that a step could not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Skipping {
    Passes,
    /// Every step must run, and within it every test.
    Fails,
}

impl Skipping {
    /// `CI=true` asks for everything.
    pub(crate) fn from_environment() -> Self {
        match std::env::var("CI").as_deref() {
            Ok("true") => Self::Fails,
            _ => Self::Passes,
        }
    }
}

pub(crate) struct Step {
    pub(crate) name: &'static str,
    /// How to run it by itself.
    alone: &'static str,
    share: Share,
    run: fn() -> anyhow::Result<()>,
}

impl Step {
    pub(crate) const fn new(
        name: &'static str,
        share: Share,
        alone: &'static str,
        run: fn() -> anyhow::Result<()>,
    ) -> Self {
        Self {
            name,
            alone,
            share,
            run,
        }
    }

    /// The file with its output.
    pub(crate) fn log(&self) -> PathBuf {
        let name = format!("{}.log", self.name.replace(' ', "-"));
        target_dir().join("xtask").join(name)
    }

    /// The file with the processor time that it took, in milliseconds.
    fn processor_time_file(&self) -> PathBuf {
        self.log().with_extension("cpu")
    }

    /// Runs it in this process, which is its own, and leaves what it took for the one that started it.
    pub(crate) fn run_here(&self) -> anyhow::Result<()> {
        let result = (self.run)();
        let file = self.processor_time_file();
        let folder = file.parent().context("it is beside the log")?;
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let milliseconds = processor_time()?.as_millis().to_string();
        fs::write(&file, milliseconds)
            .with_context(|| format!("cannot write {}", file.display()))?;
        result
    }

    /// The processor time that it took, unless it was killed.
    fn processor_time(&self) -> Option<Duration> {
        let text = fs::read_to_string(self.processor_time_file()).ok()?;
        Some(Duration::from_millis(text.parse().ok()?))
    }

    /// Runs it as a process of its own.
    fn start(&self, skipping: Skipping) -> anyhow::Result<Verdict> {
        let log = self.log();
        let folder = log.parent().context("a log lies in a folder")?;
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let output =
            File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let _of_an_earlier_run = fs::remove_file(self.processor_time_file());
        // By this name it is the same program even if it was built anew meanwhile.
        let mut step = Command::new("/proc/self/exe");
        if skipping == Skipping::Fails {
            step.env("CI", "true");
        }
        let status = step
            .args(["step", self.name])
            .stdout(output.try_clone()?)
            .stderr(output)
            .status()
            .context("cannot start a step")?;
        Ok(match status.code() {
            Some(0) => Verdict::Passed,
            Some(code) if code == i32::from(SKIPPED) => {
                let printed = fs::read_to_string(&log)?;
                Verdict::Skipped(printed.lines().last().unwrap_or_default().to_owned())
            }
            _ => Verdict::Failed {
                reason: format!("{status}; to run it by itself: {}", self.alone),
                printed: last_lines(&String::from_utf8_lossy(
                    &fs::read(&log).unwrap_or_default(),
                )),
            },
        })
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Passed,
    Skipped(String),
    Failed {
        reason: String,
        /// The end of its output.
        printed: String,
    },
}

struct Ended {
    name: &'static str,
    took: Cost,
    verdict: Verdict,
}

/// Whether the budget is judged: as soon as every step must run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judging {
    Budgeted,
    /// What takes long on purpose.
    Unlimited,
}

/// Runs all steps, prints the output of each in their order, and a summary.
///
/// # Errors
/// When a step failed, or was skipped where all must run.
pub(crate) fn run_steps(
    steps: &[&Step],
    skipping: Skipping,
    judging: Judging,
) -> anyhow::Result<()> {
    let mut ended = Vec::new();
    for shares in GROUPS {
        run_group(steps, shares, skipping, |step, finished| {
            println!("\n== {} ==", step.name);
            let log = fs::read_to_string(step.log()).unwrap_or_default();
            print!("{log}");
            println!(
                "-- {}: {:.1} s",
                step.name,
                finished.took.wall.as_secs_f64()
            );
            ended.push(finished);
        });
    }
    let judged = judge(&mut ended, skipping, judging);
    // Also where the budgets cannot be read.
    summarize(&ended, skipping).and(judged)
}

/// Prints what each step took beside its budget, and fails those that took too much where every step must run.
fn judge(ended: &mut [Ended], skipping: Skipping, judging: Judging) -> anyhow::Result<()> {
    if judging == Judging::Unlimited {
        return Ok(());
    }
    let budget = Budget::read()?;
    println!("\n== budget: seconds of processor time, of wall-clock time ==");
    for step in ended.iter_mut() {
        let Cost { processor, wall } = budget.of(step.name).unwrap_or_default();
        println!(
            "{:<14} {:>7.1} of {:>4}  {:>7.1} of {:>4}",
            step.name,
            step.took.processor.as_secs_f64(),
            processor.as_secs(),
            step.took.wall.as_secs_f64(),
            wall.as_secs(),
        );
        if step.verdict != Verdict::Passed {
            continue;
        }
        if let Some(reason) = budget.excess(step.name, step.took) {
            println!("  {reason}");
            if skipping == Skipping::Fails {
                let printed = String::new();
                step.verdict = Verdict::Failed { reason, printed };
            }
        }
    }
    if std::env::var_os("TTMEM_BLESS").is_some_and(|value| value == "1") {
        let passed = ended.iter().filter(|step| step.verdict == Verdict::Passed);
        let took: Vec<(&str, Cost)> = passed.map(|step| (step.name, step.took)).collect();
        budget.bless(&took)?;
    }
    Ok(())
}

/// Runs the steps of some shares on the workers of each, and reports on each step in their order.
fn run_group(
    steps: &[&Step],
    shares: &[(Share, usize)],
    skipping: Skipping,
    mut report: impl FnMut(&Step, Ended),
) {
    let of_share = |share| {
        steps
            .iter()
            .copied()
            .filter(move |step| step.share == share)
    };
    let lanes: Vec<(Vec<&Step>, AtomicUsize, usize)> = shares
        .iter()
        .map(|(share, workers)| (of_share(*share).collect(), AtomicUsize::new(0), *workers))
        .collect();
    let in_order = steps.iter().filter(|step| {
        let mut shares = shares.iter();
        shares.any(|(share, _workers)| step.share == *share)
    });
    let (sender, receiver) = mpsc::sync_channel(steps.len());
    std::thread::scope(|scope| {
        let each_worker = lanes
            .iter()
            .flat_map(|(steps, next, workers)| (0..*workers).map(move |_worker| (steps, next)));
        for (steps, next) in each_worker {
            let sender = sender.clone();
            scope.spawn(move || {
                while let Some(step) = steps.get(next.fetch_add(1, Ordering::Relaxed)) {
                    // Whoever waits for the output of a long step sees which one it is.
                    let _closed = writeln!(std::io::stderr(), ".. {}", step.name);
                    let start = Instant::now();
                    let verdict = step.start(skipping);
                    let took = Cost {
                        processor: step.processor_time().unwrap_or_default(),
                        wall: start.elapsed(),
                    };
                    let ended = Ended {
                        name: step.name,
                        took,
                        verdict: verdict.unwrap_or_else(|error| Verdict::Failed {
                            reason: format!("{error:#}"),
                            printed: String::new(),
                        }),
                    };
                    let _received = sender.send(ended);
                }
            });
        }
        drop(sender);
        let mut early: Vec<Ended> = Vec::new();
        for step in in_order {
            while !early.iter().any(|ended| ended.name == step.name) {
                match receiver.recv() {
                    Ok(ended) => early.push(ended),
                    Err(_all_workers_ended) => return,
                }
            }
            if let Some(at) = early.iter().position(|ended| ended.name == step.name) {
                report(step, early.swap_remove(at));
            }
        }
    });
}

/// The end of what a step printed: where the output is long, or only its end was kept, this is what is read.
fn last_lines(printed: &str) -> String {
    let lines: Vec<&str> = printed.lines().collect();
    lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
}

fn summarize(ended: &[Ended], skipping: Skipping) -> anyhow::Result<()> {
    println!("\n== summary ==");
    let (mut failed, mut skipped) = (0, 0);
    let mut failures = Vec::new();
    for Ended {
        name,
        took,
        verdict,
    } in ended
    {
        let result = match verdict {
            Verdict::Passed => "passed".to_owned(),
            Verdict::Skipped(reason) => {
                skipped += 1;
                format!("SKIPPED: {reason}")
            }
            Verdict::Failed { reason, printed } => {
                failed += 1;
                failures.push((name, printed));
                format!("FAILED: {reason}")
            }
        };
        println!("{name:<14} {:>7.1} s  {result}", took.wall.as_secs_f64());
    }
    let passed = ended.len() - failed - skipped;
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    for (name, printed) in failures {
        println!("\n== {name} FAILED; its last lines ==\n{printed}");
    }
    if failed > 0 {
        bail!("{failed} steps failed");
    }
    if skipped > 0 && skipping == Skipping::Fails {
        bail!("{skipped} steps were skipped, and every step must run");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(verdict: Verdict) -> Ended {
        Ended {
            name: "gate",
            took: Cost::default(),
            verdict,
        }
    }

    #[test]
    fn a_skipped_step_fails_only_where_every_step_must_run() {
        let skipped = || ended(Verdict::Skipped("no valgrind".to_owned()));
        assert!(summarize(&[ended(Verdict::Passed), skipped()], Skipping::Passes).is_ok());
        assert!(summarize(&[ended(Verdict::Passed), skipped()], Skipping::Fails).is_err());
        assert!(summarize(&[ended(Verdict::Passed)], Skipping::Fails).is_ok());
    }

    #[test]
    fn one_failure_fails_the_whole() {
        let failed = ended(Verdict::Failed {
            reason: "exit status: 1".to_owned(),
            printed: "assertion failed".to_owned(),
        });
        assert!(summarize(&[failed, ended(Verdict::Passed)], Skipping::Passes).is_err());
    }

    #[test]
    fn of_a_long_output_the_end_is_printed_again() {
        let printed: String = (0..100).map(|line| format!("{line}\n")).collect();
        let last = last_lines(&printed);
        assert!(last.starts_with("40\n") && last.ends_with("\n99"), "{last}");
        assert_eq!(last_lines("only this\n"), "only this");
    }
}
