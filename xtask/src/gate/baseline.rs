//! The committed baselines: a file for people and for this program.
//!
//! A line is a workload, its instructions per event and by how many per cent a
//! measurement may be above that; `#` begins a comment, and one comment names the
//! tools of the measurement.

use anyhow::{Context, bail};
use std::collections::BTreeMap;
use std::fmt;

/// The tolerance of a workload that never had one, in per cent.
///
/// Measured, over twelve runs of each workload: the least of three runs varied by
/// up to 1.8 %, with the hash seed. One line added to the path of another kind of
/// event moved a count by 1.6 % through inlining. One more lookup for each buffer
/// that is freed made the buffer workload 7.8 % worse, and must not pass.
const DEFAULT_PERCENT: u64 = 6;

/// What stands above the lines, for people.
const HEAD: &str = "\
# Instructions per event of the workloads of `cargo xtask gate`, and by how many
# per cent a measurement may be above that. Written by `cargo xtask gate --bless`,
# which keeps the percentages.
";

const TOOLS: &str = "# tools: ";

/// Instructions per event, to a tenth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PerEvent {
    tenths: u64,
}

impl PerEvent {
    /// So many instructions over so many events.
    pub(super) fn new(instructions: u64, events: u64) -> Self {
        Self {
            tenths: instructions.saturating_mul(10) / events.max(1),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let (whole, tenth) = text.split_once('.')?;
        let (whole, tenth): (u64, u64) = (whole.parse().ok()?, tenth.parse().ok()?);
        let tenths = whole.checked_mul(10)?.checked_add(tenth)?;
        (tenth < 10).then_some(Self { tenths })
    }
}

impl fmt::Display for PerEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}.{}", self.tenths / 10, self.tenths % 10))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Worse,
    /// Within the limit, either way.
    Same,
    /// As far below as the limit is above.
    Better,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Worse => "WORSE",
            Self::Same => "same",
            Self::Better => "better",
        })
    }
}

/// What one workload may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Baseline {
    /// What it cost when it was blessed.
    pub(super) per_event: PerEvent,
    /// By how many per cent it may be above that.
    pub(super) percent: u64,
}

impl Baseline {
    pub(super) fn judge(&self, now: PerEvent) -> Verdict {
        let base = u128::from(self.per_event.tenths);
        let now = u128::from(now.tenths) * 100;
        let percent = u128::from(self.percent);
        if now > base * (100 + percent) {
            Verdict::Worse
        } else if now < base * 100_u128.saturating_sub(percent) {
            Verdict::Better
        } else {
            Verdict::Same
        }
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Baselines {
    tools: String,
    rows: BTreeMap<String, Baseline>,
}

impl Baselines {
    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        let mut baselines = Self::default();
        for (number, line) in (1..).zip(text.lines()) {
            if let Some(tools) = line.strip_prefix(TOOLS) {
                tools.trim().clone_into(&mut baselines.tools);
                continue;
            }
            let line = line.split('#').next().unwrap_or_default();
            let words: Vec<&str> = line.split_whitespace().collect();
            let [name, per_event, percent] = words.as_slice() else {
                if words.is_empty() {
                    continue;
                }
                bail!("line {number} is not a workload, a count and a percentage");
            };
            let per_event = PerEvent::parse(per_event)
                .with_context(|| format!("line {number}: `{per_event}` is not a count"))?;
            let percent = percent
                .parse()
                .with_context(|| format!("line {number}: `{percent}` is not a percentage"))?;
            let row = Baseline { per_event, percent };
            if baselines.rows.insert((*name).to_owned(), row).is_some() {
                bail!("line {number}: {name} stands there twice");
            }
        }
        Ok(baselines)
    }

    /// The baseline of a workload.
    pub(super) fn of(&self, name: &str) -> Option<&Baseline> {
        self.rows.get(name)
    }

    /// The workloads that have one.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.rows.keys().map(String::as_str)
    }

    /// The tools they were taken with.
    pub(super) fn tools(&self) -> &str {
        &self.tools
    }

    /// The measurements as new baselines, with the percentages of the old ones.
    pub(super) fn blessed(&self, measured: &[(String, PerEvent)], tools: String) -> Self {
        let row = |(name, per_event): &(String, PerEvent)| {
            let percent = self.of(name).map_or(DEFAULT_PERCENT, |old| old.percent);
            let per_event = *per_event;
            (name.clone(), Baseline { per_event, percent })
        };
        Self {
            tools,
            rows: measured.iter().map(row).collect(),
        }
    }
}

impl fmt::Display for Baselines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEAD}{TOOLS}{}", self.tools)?;
        for (name, Baseline { per_event, percent }) in &self.rows {
            writeln!(f, "{name:<16} {per_event:>8} {percent:>3}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn baselines() -> Baselines {
        Baselines::parse("# tools: rustc 1, valgrind 2\none 738.4 4\n\ntwo 49.0 10 # noisy\n")
            .unwrap()
    }

    #[test]
    fn what_is_written_is_read_back() {
        let written = baselines().to_string();
        assert_eq!(Baselines::parse(&written).unwrap(), baselines());
        assert_eq!(baselines().tools(), "rustc 1, valgrind 2");
    }

    #[test]
    fn lines_that_mean_nothing_are_refused() {
        for line in [
            "one",
            "one 1.0",
            "one 1 4",
            "one 1.25 4",
            "one 1.0 x",
            "one 1.0 4 5",
        ] {
            assert!(Baselines::parse(line).is_err(), "{line}");
        }
        assert!(Baselines::parse("one 1.0 4\none 2.0 4\n").is_err());
    }

    #[test]
    fn the_limit_itself_is_within_the_limit() {
        let baseline = Baselines::parse("one 100.0 4").unwrap().rows["one"];
        let judge = |tenths| baseline.judge(PerEvent { tenths });
        assert_eq!(judge(1041), Verdict::Worse);
        assert_eq!(judge(1040), Verdict::Same);
        assert_eq!(judge(960), Verdict::Same);
        assert_eq!(judge(959), Verdict::Better);
    }

    #[test]
    fn blessing_keeps_percentages_and_forgets_what_is_gone() {
        let measured = [("two", 50), ("three", 7)];
        let measured = measured.map(|(name, count)| (name.to_owned(), PerEvent::new(count, 1)));
        let blessed = baselines().blessed(&measured, "t".to_owned());
        assert_eq!(blessed.names().collect::<Vec<_>>(), ["three", "two"]);
        assert_eq!(blessed.of("two").unwrap().percent, 10);
        assert_eq!(blessed.of("three").unwrap().percent, DEFAULT_PERCENT);
    }
}
