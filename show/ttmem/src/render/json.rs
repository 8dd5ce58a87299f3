//! Reports for programs.

use crate::output::Output;
use anyhow::{Result, ensure};
use serde::{Serialize, Serializer};
use std::time::Duration;
use ttmem_report::escape_json;

/// Prints a report, as JSON or as a text; fails if something in it is not as it should be.
pub(crate) fn print_report(
    report: &impl Serialize,
    text: Option<String>,
    problems: &[String],
    failure: &str,
) -> Result<()> {
    let text = text.map_or_else(|| json_report(report, problems), Ok)?;
    let mut output = Output::stdout();
    output.print(&text)?;
    output.finish()?;
    ensure!(problems.is_empty(), "{failure}: {}", problems.join("; "));
    Ok(())
}

/// The document of a report and of what is wrong with it.
pub(crate) fn json_report(
    report: &impl Serialize,
    problems: &[String],
) -> serde_json::Result<String> {
    let mut document = serde_json::to_value(report)?;
    document["schema"] = 1.into();
    document["problems"] = problems.into();
    Ok(escape_json(format!("{document:#}\n")))
}

/// A time in seconds, for fields that are a duration.
pub(crate) fn in_seconds<S: Serializer>(
    time: &Duration,
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}

/// Named counts as an object, for fields that are a list of them.
pub(crate) fn as_map<S: Serializer>(
    counts: &[(String, u64)],
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    serializer.collect_map(counts.iter().map(|(name, count)| (name, count)))
}
