//! What the program of the matrix found out, and why one ended early.

use std::collections::{BTreeMap, BTreeSet};

/// The parts of the account, as they are called in the status of the attach library.
pub const PARTS: [&str; 6] = [
    "buffers",
    "failures",
    "circular buffers",
    "dataflow buffers",
    "dispatches",
    "kernels",
];

/// How far a program got, and what it said of each part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Whether the board was opened.
    pub opens: bool,
    /// What the runtime looks like.
    pub runtime: String,
    /// What was found out of each part.
    pub verdicts: BTreeMap<String, String>,
    /// Why families of hooks are off.
    pub off: BTreeMap<String, String>,
    /// Families that were on at one time.
    was_on: BTreeSet<String>,
}

impl Summary {
    /// Reads lines of the form `NAME: WHAT`; others are none of its business.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut summary = Self::default();
        for (name, what) in text.lines().filter_map(|line| line.split_once(": ")) {
            match name {
                "opens" => summary.opens = true,
                "status" => summary.take_status(what),
                _ if PARTS.contains(&name) => {
                    summary.verdicts.insert(name.to_owned(), what.to_owned());
                }
                _ => {}
            }
        }
        summary
    }

    fn take_status(&mut self, line: &str) {
        if let Some(runtime) = line.strip_prefix("runtime: ") {
            let (_library, like) = runtime.rsplit_once(", ").unwrap_or(("", runtime));
            self.runtime = like.to_owned();
        } else if let Some((family, why)) = line.split_once(": off, ") {
            self.off.insert(family.to_owned(), why.to_owned());
        } else if let Some(family) = line.strip_suffix(": on") {
            self.was_on.insert(family.to_owned());
        }
    }

    /// Families that were on and are off at the end, each with its reason.
    pub fn given_up(&self) -> impl Iterator<Item = (&str, &str)> {
        let off = self.off.iter();
        let given_up = off.filter(|(family, _why)| self.was_on.contains(*family));
        given_up.map(|(family, why)| (family.as_str(), why.as_str()))
    }

    /// One word for a part, and what there is to say of it besides.
    #[must_use]
    pub fn cell(&self, part: &str) -> (&'static str, Option<String>) {
        let verdict = self.verdicts.get(part).map_or("", String::as_str);
        let (word, rest) = verdict.split_once([',', ':', ';']).unwrap_or((verdict, ""));
        // What went wrong before a family was given up is worth more than that it was.
        match word {
            "differs" => return ("differs", Some(rest.trim().to_owned())),
            "not compared" => return ("not compared", Some(rest.trim().to_owned())),
            _other => {}
        }
        if let Some(why) = self.off.get(part) {
            return ("off", Some(why.clone()));
        }
        match word {
            "exact" => {
                let refused = rest.split_once("; ").map(|(_count, refused)| refused);
                ("exact", refused.map(str::to_owned))
            }
            "nothing to compare" => ("none there", None),
            _ => ("not reached", None),
        }
    }
}

/// The reason in what a failed program said last.
///
/// ttnn's own exceptions have it behind a line of its own; what its library logs behind a dash.
pub(crate) fn reason(said: &str) -> Option<String> {
    let lines: Vec<&str> = said.lines().collect();
    let after_info = lines
        .windows(2)
        .rev()
        .find_map(|pair| (pair[0].trim() == "info:").then_some(pair[1]));
    let exception = || {
        let names_error = |line: &&&str| {
            let name = line.split(':').next().unwrap_or_default();
            name.ends_with("Error") && name.chars().all(char::is_alphanumeric)
        };
        lines.iter().rev().find(names_error).copied()
    };
    let logged = || {
        let line = lines.iter().rev().find(|line| line.contains("| ERROR "))?;
        Some(line.rsplit_once(" - ")?.1)
    };
    let found = after_info.or_else(exception).or_else(logged)?;
    // Two sentences without a space between them are one mistake of theirs that shows.
    let found = found.trim().replace(".P", ". P");
    (!found.is_empty()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "\
imports: yes
status: runtime: /site-packages/ttnn/build/lib/libtt_metal.so, like ttnn 0.70 - 0.76
status: buffers: on
status: kernels: off, no _Zsize
opens: yes
buffers: exact, 37 compared; refused by ttnn: l1 small
failures: differs: out of memory: we say 1, ttnn says 2
circular buffers: exact, 31 compared
dataflow buffers: nothing to compare
dispatches: not compared: AttributeError: no such word
kernels: nothing to compare
";

    #[test]
    fn every_part_has_a_word_and_what_there_is_to_say() {
        let summary = Summary::parse(SAID);
        assert!(summary.opens);
        assert_eq!(summary.runtime, "like ttnn 0.70 - 0.76");
        let cells = PARTS.map(|part| summary.cell(part));
        let expected = [
            ("exact", Some("refused by ttnn: l1 small")),
            ("differs", Some("out of memory: we say 1, ttnn says 2")),
            ("exact", None),
            ("none there", None),
            ("not compared", Some("AttributeError: no such word")),
            ("off", Some("no _Zsize")),
        ];
        assert_eq!(
            cells,
            expected.map(|(word, said)| (word, said.map(str::to_owned)))
        );
    }

    #[test]
    fn a_program_that_did_not_get_far_has_compared_nothing() {
        let summary = Summary::parse("imports: yes\nstatus: buffers: off, no _Zx\n");
        assert!(!summary.opens);
        assert_eq!(summary.cell("buffers"), ("off", Some("no _Zx".to_owned())));
        assert_eq!(summary.cell("kernels"), ("not reached", None));
    }

    #[test]
    fn a_difference_is_not_hidden_by_a_family_that_was_given_up() {
        let said = "status: buffers: on\nstatus: kernels: off, no _Zx\n\
                    buffers: differs: we say 1\nkernels: nothing to compare\n\
                    status: buffers: off, other bytes\nstatus: kernels: off, no _Zx\n";
        let summary = Summary::parse(said);
        let differs = ("differs", Some("we say 1".to_owned()));
        assert_eq!(summary.cell("buffers"), differs);
        let given_up: Vec<_> = summary.given_up().collect();
        assert_eq!(given_up, [("buffers", "other bytes")]);
    }

    #[test]
    fn the_reason_is_found_among_what_was_said() {
        let thrown = "RuntimeError: TT_THROW @ /x.cpp:1: tt::exception\ninfo:\n\
                      No mocks here.Please go.\nbacktrace:\n --- a\n";
        assert_eq!(reason(thrown).as_deref(), Some("No mocks here. Please go."));
        let missing = "Traceback:\n  File\nModuleNotFoundError: No module named 'torch'\n";
        let expected = "ModuleNotFoundError: No module named 'torch'";
        assert_eq!(reason(missing).as_deref(), Some(expected));
        let logged = "2026 | ERROR    | ttnn:prepare:69 - SFPI system package not found\n";
        assert_eq!(
            reason(logged).as_deref(),
            Some("SFPI system package not found")
        );
        assert_eq!(reason("nothing of use\n"), None);
    }
}
