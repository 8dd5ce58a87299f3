//! `cargo xtask house`: counts of duplicated decisions and names, each with its places.
//!
//! Every count is computed from the source files and compared with its ceiling in `xtask/house.txt`. Ceilings only fall: a
//! change that lowers a count lowers its ceiling, too.

mod copies;
mod readers;
mod sources;

use crate::command::root;
use anyhow::{Context, bail};
use sources::Source;
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::fs;

const FILE: &str = "xtask/house.txt";

/// Of more findings than this, only the first few are printed.
const MAX_FINDINGS: usize = 50;
const FIRST_FINDINGS: usize = 20;

/// One item of a count.
#[derive(Debug)]
struct Finding {
    name: String,
    /// Each as `path:line`.
    places: Vec<String>,
}

type Counts = Vec<(&'static str, Vec<Finding>)>;
type Ceilings = BTreeMap<String, usize>;

/// Prints the counts with their places, and fails if one is above its ceiling.
pub(crate) fn run() -> anyhow::Result<()> {
    let counts = counts(&sources::read_all()?);
    let ceilings = fs::read_to_string(root().join(FILE));
    let ceilings = parse(&ceilings.with_context(|| format!("cannot read {FILE}"))?)?;
    for (name, findings) in &counts {
        println!("{}", listing(name, findings)?);
    }
    print!("{}", table(&counts, &ceilings)?);
    let excess = excess(&counts, &ceilings);
    if !excess.is_empty() {
        bail!("{}", excess.join("; "));
    }
    Ok(())
}

fn counts(sources: &[Source]) -> Counts {
    let foreign_reads = readers::foreign_reads(sources);
    let type_names = readers::repeated_type_names(sources);
    vec![
        ("duplicated judgements", copies::judgements(sources)),
        ("tests that read another language's source", foreign_reads),
        ("binary codecs", copies::codecs(sources)),
        ("mutators of the ledger", readers::ledger_mutators(sources)),
        ("type names used more than once", type_names),
    ]
}

/// The findings of a count with their places.
fn listing(name: &str, findings: &[Finding]) -> Result<String, fmt::Error> {
    let mut text = format!("{name}\n");
    let first = match findings.len() {
        ..=MAX_FINDINGS => findings,
        _many => &findings[..FIRST_FINDINGS],
    };
    for Finding { name, places } in first {
        if let [place] = places.as_slice() {
            writeln!(text, "  {name:<32} {place}")?;
        } else {
            let list = places.join("\n    ");
            writeln!(text, "  {name}, {} places\n    {list}", places.len())?;
        }
    }
    if findings.len() > first.len() {
        writeln!(text, "  and {} more", findings.len() - first.len())?;
    }
    Ok(text)
}

fn table(counts: &Counts, ceilings: &Ceilings) -> Result<String, fmt::Error> {
    let mut text = format!("{:<44}{:>5}{:>9}\n", "count", "now", "ceiling");
    for (name, findings) in counts {
        let ceiling = ceilings.get(*name).map(ToString::to_string);
        let ceiling = ceiling.unwrap_or_default();
        writeln!(text, "{name:<44}{:>5}{ceiling:>9}", findings.len())?;
    }
    Ok(text)
}

/// Reads lines of a name and a number; a name may have spaces.
fn parse(text: &str) -> anyhow::Result<Ceilings> {
    let ceiling = |line: &str| {
        let (name, number) = line.rsplit_once(' ')?;
        Some((name.trim_end().to_owned(), number.parse().ok()?))
    };
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| ceiling(line).with_context(|| format!("{FILE}: no name and number: {line}")))
        .collect()
}

/// Why the check fails, a sentence for each count.
fn excess(counts: &Counts, ceilings: &Ceilings) -> Vec<String> {
    let excess = |(name, findings): &(&str, Vec<Finding>)| {
        let Some(ceiling) = ceilings.get(*name) else {
            return Some(format!("{FILE} has no ceiling for {name}"));
        };
        let now = findings.len();
        (now > *ceiling).then(|| format!("{name}: {now} is above {ceiling}, the ceiling in {FILE}"))
    };
    counts.iter().filter_map(excess).collect()
}

#[cfg(test)]
mod tests;
