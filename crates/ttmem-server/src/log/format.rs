//! The two forms of the log, and what the log says of itself in each.
//!
//! A reader of JSON lines must find nothing else, so also what the log says of itself has both
//! forms.

use std::fmt::Write as _;

use super::json::{OwnLine, write_timed};
use crate::clock::unix_nanos;

/// How log lines look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Lines for people, as the old server wrote them.
    #[default]
    Plain,
    /// One JSON object per line.
    Json,
}

impl LogFormat {
    /// Appends that lines are missing here.
    pub(super) fn write_gap(self, out: &mut String, lines: u64, reason: &str) {
        match self {
            // One wording for any number, so that one pattern finds them all.
            Self::Plain => writeln!(out, "… {lines} log lines were not written: {reason}")
                .expect("a String takes any text"),
            Self::Json => write_timed(out, unix_nanos(), &OwnLine::LogGap { lines, reason }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_the_same_facts() {
        let mut line = String::new();
        LogFormat::Json.write_gap(&mut line, 3, "disk \"full\"");
        let gap: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(gap["event"], "log_gap");
        assert_eq!(gap["lines"], 3);
        assert_eq!(gap["reason"], "disk \"full\"");
    }
}
