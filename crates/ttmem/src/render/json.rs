//! Reports for programs.

use serde::{Serialize, Serializer};
use std::time::Duration;

/// The document of a report and of what is wrong with it.
pub(crate) fn json_report(
    report: &impl Serialize,
    problems: &[String],
) -> serde_json::Result<String> {
    let mut document = serde_json::to_value(report)?;
    document["schema"] = 1.into();
    document["problems"] = problems.into();
    Ok(format!("{document:#}\n"))
}

/// A time in seconds, for fields that are a duration.
pub(crate) fn in_seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}

/// Named counts as an object, for fields that are a list of them.
pub(crate) fn as_map<S: Serializer>(
    counts: &[(String, u64)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(counts.iter().map(|(name, count)| (name, count)))
}
