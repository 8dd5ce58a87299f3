//! What each step of `cargo xtask test` may take: `xtask/budget.txt`.
//!
//! Wall-clock time on a shared machine says little, so a step is judged by the processor time of everything that it started; its
//! wall-clock time is printed beside. Figures are those of a cold run, with an empty build directory, on two cores.
//! `TTMEM_BLESS=1 cargo xtask test` writes them anew; a change that needs more has to say why.

use crate::command::root;
use anyhow::{Context, bail};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

const FILE: &str = "xtask/budget.txt";

/// A step may take this much of its budget: other compilers, machines and versions of tools differ.
const TOLERANCE: f64 = 1.5;

/// Less than this is noise, whatever the budget is.
const LEAST_SECONDS: f64 = 20.0;

const HEADING: &str = "\
# Seconds of each step in a cold run on two cores: processor time, which is judged, and wall-clock time.
# TTMEM_BLESS=1 cargo xtask test writes this file.
";

/// What a step took, or may take.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Cost {
    pub(crate) processor: Duration,
    pub(crate) wall: Duration,
}

#[derive(Debug, Default)]
pub(crate) struct Budget(BTreeMap<String, Cost>);

impl Budget {
    pub(crate) fn read() -> anyhow::Result<Self> {
        let path = root().join(FILE);
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {FILE}"))?;
        Self::parse(&text)
    }

    /// Lines of a name, processor seconds and wall-clock seconds; a name may have spaces.
    fn parse(text: &str) -> anyhow::Result<Self> {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let mut steps = BTreeMap::new();
        for line in lines.filter(|line| !line.trim().is_empty()) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [name @ .., processor, wall] = &words[..] else {
                bail!("{FILE}: {line:?} is not a name and two numbers");
            };
            let seconds = |word: &str| {
                let seconds = word.parse().map(Duration::from_secs);
                seconds.with_context(|| format!("{FILE}: {line:?}"))
            };
            let cost = Cost {
                processor: seconds(processor)?,
                wall: seconds(wall)?,
            };
            steps.insert(name.join(" "), cost);
        }
        Ok(Self(steps))
    }

    pub(crate) fn of(&self, step: &str) -> Option<Cost> {
        self.0.get(step).copied()
    }

    /// Why a step took too much; nothing if it did not.
    pub(crate) fn excess(&self, step: &str, took: Cost) -> Option<String> {
        let Some(budget) = self.of(step) else {
            return Some(format!("{FILE} has no budget for it"));
        };
        let most = (budget.processor.as_secs_f64() * TOLERANCE).max(LEAST_SECONDS);
        let took = took.processor.as_secs_f64();
        (took > most).then(|| {
            format!(
                "it took {took:.0} s of processor time; its budget in {FILE} is {} s, and {TOLERANCE} times that is allowed",
                budget.processor.as_secs()
            )
        })
    }

    /// Writes what steps took, beside those that did not run.
    pub(crate) fn bless(mut self, took: &[(&str, Cost)]) -> anyhow::Result<()> {
        for &(step, cost) in took {
            self.0.insert(step.to_owned(), cost);
        }
        let mut text = HEADING.to_owned();
        for (step, Cost { processor, wall }) in &self.0 {
            let whole = |duration: &Duration| duration.as_secs_f64().ceil();
            writeln!(text, "{step:<16}{:>5} {:>5}", whole(processor), whole(wall))?;
        }
        fs::write(root().join(FILE), text).with_context(|| format!("cannot write {FILE}"))
    }
}

/// The processor time of this process and of all that it started and waited for.
pub(crate) fn processor_time() -> anyhow::Result<Duration> {
    let stat = fs::read_to_string("/proc/self/stat").context("cannot read /proc/self/stat")?;
    processor_time_in(&stat).context("/proc/self/stat is not as proc(5) says")
}

/// Fields 14 to 17; the second, the name, may have spaces.
fn processor_time_in(stat: &str) -> Option<Duration> {
    /// `USER_HZ`, the same on every architecture that we build for.
    const TICKS_PER_SECOND: u64 = 100;
    let (_name, fields) = stat.rsplit_once(')')?;
    let ticks = fields.split_whitespace().skip(11).take(4);
    let ticks: Vec<u64> = ticks.map(str::parse).collect::<Result<_, _>>().ok()?;
    (ticks.len() == 4)
        .then(|| Duration::from_millis(ticks.iter().sum::<u64>() * 1000 / TICKS_PER_SECOND))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(processor: u64) -> Cost {
        Cost {
            processor: Duration::from_secs(processor),
            wall: Duration::from_secs(1),
        }
    }

    #[test]
    fn half_as_much_again_is_allowed() {
        let budget = Budget::parse("# a comment\ndoc tests 100 60\nformat 2 2\n").unwrap();
        assert_eq!(budget.excess("doc tests", cost(150)), None);
        assert!(budget.excess("doc tests", cost(151)).is_some());
        // A few seconds are noise.
        assert_eq!(budget.excess("format", cost(20)), None);
        assert!(budget.excess("another", cost(0)).is_some());
        assert!(Budget::parse("format 2\n").is_err());
    }

    #[test]
    fn children_count_as_well() {
        let stat = "77 (a b) c) S 1 77 77 0 -1 4194560 1 2 3 4 100 50 200 25 20 0 1 0 5 6 7";
        assert_eq!(processor_time_in(stat), Some(Duration::from_millis(3750)));
        assert_eq!(processor_time_in("77 (a) S 1"), None);
        assert!(processor_time().is_ok());
    }
}
