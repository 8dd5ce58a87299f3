//! `ttmem check`: what a program takes and leaves behind, held against a baseline.
//!
//! The same file, the same rule and the same words as `pytest --ttmem-baseline`, for CI systems that
//! run programs instead of tests. Its exit code says which of the two failed: the program, or the
//! comparison.

mod baseline;
mod measured;

use crate::cli::CheckOptions;
use crate::exit::{ABOVE_BASELINE, PROGRAM_FAILED, say};
use crate::output::create_report;
use crate::run;
use anyhow::{Context, Result, bail, ensure};
use baseline::{Baseline, Figures};
use measured::Measured;
use serde_json::Value;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use ttmem_report::{escape_json, size_text};

/// Reports that are read: those of `ttmem run` are far below it.
const MAX_REPORT_BYTES: u64 = 256 << 20;

/// Runs a program, or reads the report of a run, and compares its figures or writes them down.
pub(crate) fn run(options: &CheckOptions, socket: Option<PathBuf>) -> Result<ExitCode> {
    // What cannot be used is better known before an hour's work than after it.
    let baseline = Baseline::read(&options.baseline, options.update)?;
    if options.update {
        Baseline::check_target(&options.baseline)?;
    }
    if let Some(report) = &options.report {
        let (one, other) = (
            baseline::target(&options.baseline)?,
            baseline::target(report)?,
        );
        ensure!(one != other, "--baseline and --report name the same file");
    }
    let mut report = options.report.as_deref().map(create_report).transpose()?;
    let document = match &options.from {
        Some(file) => read_report(file)?,
        None => run::measure(&options.command, &options.launch, socket)?,
    };
    if let (Some(file), Some(path)) = (&mut report, &options.report) {
        let text = escape_json(format!("{document:#}\n"));
        file.write_all(text.as_bytes())
            .with_context(|| format!("cannot write to {}", path.display()))?;
    }
    let measured = Measured::of(document).context("this is no report of `ttmem run --json`")?;
    let name = options
        .name
        .clone()
        .unwrap_or_else(|| measured.command_line());
    if let Some(how) = measured.failure() {
        say(format_args!("{name} {how}; nothing was compared"));
        return Ok(ExitCode::from(PROGRAM_FAILED));
    }
    let figures = measured.figures()?;
    let file = options.baseline.display();
    if options.update {
        let said = summary(&figures);
        Baseline::update(&options.baseline, name.clone(), figures)?;
        say(format_args!("{name} written to {file}: {said}"));
        return Ok(ExitCode::SUCCESS);
    }
    let is_comparable = |before: &&Figures| before.keys().any(|name| figures.contains_key(name));
    let Some(before) = baseline.get(&name).filter(is_comparable) else {
        // A gate that lets everything pass because of a typo would be none.
        bail!("{file} has no figures of `{name}`; --update writes them, --name names others");
    };
    let difference = difference(&measured, &figures, before);
    if difference.is_empty() {
        say(format_args!(
            "{name} is within the baseline {file}: {}",
            summary(&figures)
        ));
        return Ok(ExitCode::SUCCESS);
    }
    say(format_args!(
        "{name} is above the baseline {file}\n{difference}"
    ));
    Ok(ExitCode::from(ABOVE_BASELINE))
}

/// A line for each figure that is above, and where most of it comes from.
fn difference(measured: &Measured, figures: &Figures, before: &Figures) -> String {
    let mut text = String::new();
    for (name, before) in before {
        let now = figures.get(name).copied().unwrap_or(0);
        if now > *before {
            let (figure, more) = (baseline::label(name), size_text(now - before));
            let [said, before] = compared([now, *before]);
            text.push_str(&format!("  {figure} {said}, baseline {before} (+{more})\n"));
            for line in measured.origins(name) {
                text.push_str(&format!("    {line}\n"));
            }
        }
    }
    text
}

/// Two sizes that differ: to the byte where rounding makes them equal.
fn compared(sizes: [u64; 2]) -> [String; 2] {
    let [one, other] = sizes.map(size_text);
    if one == other {
        sizes.map(|size| format!("{size} B"))
    } else {
        [one, other]
    }
}

/// The figures that are not nothing, in one line.
fn summary(figures: &Figures) -> String {
    let taken = figures.iter().filter(|(_name, size)| **size > 0);
    let parts: Vec<String> = taken
        .map(|(name, size)| format!("{} {}", baseline::label(name), size_text(*size)))
        .collect();
    if parts.is_empty() {
        return "nothing was taken".to_owned();
    }
    parts.join(", ")
}

fn read_report(path: &Path) -> Result<Value> {
    let cannot = || format!("cannot read {}", path.display());
    let mut text = String::new();
    let file = File::open(path).with_context(cannot)?;
    let read = file.take(MAX_REPORT_BYTES + 1).read_to_string(&mut text);
    let count = u64::try_from(read.with_context(cannot)?).unwrap_or(u64::MAX);
    ensure!(
        count <= MAX_REPORT_BYTES,
        "{} is larger than any report",
        path.display()
    );
    serde_json::from_str(&text).with_context(|| format!("{} is no JSON", path.display()))
}

#[cfg(test)]
mod tests;
