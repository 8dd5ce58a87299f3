//! The table of wheels, as a page.

use std::fmt::Write as _;

use super::summary::PARTS;
use super::{Tried, WheelVersion};

/// The columns of the parts, in their order.
const PART_TITLES: [&str; 6] = [
    "Buffers",
    "Failures",
    "Circular buffers",
    "Dataflow buffers",
    "Programs, dispatch",
    "Kernels",
];

const INTRODUCTION: &str = "\
# Wheels of ttnn

Written by `cargo xtask ttnn-matrix`, which installs each published wheel in turn, opens an n150 that
is not there, and runs one program (tests/ttnn/python/matrix.py) with the attach library preloaded:
tensors in every layout and class, operations, frees, requests above all memory, and the end.

* **exact**: equal with what ttnn itself says, after every step. Buffers: the allocator's figures,
  largest free blocks and every live buffer. Failures: the figures of the refusal. Circular and
  dataflow buffers: sizes and cores of a capture of the same call. Dispatches: the number of calls.
  Kernels: the names in ttnn's own cache on disk.
* **none there**: this ttnn does not use such.
* **differs**, **not compared**: a mistake of ours, or of the comparison.
* **off**: not tracked, because the runtime lacks what it takes; that is said at run time too.
* **not reached**: nothing of it could be compared on a board that is not there.
* *slow dispatch* among the notes: ttnn opens the board in no other way. Then it builds no kernels and
  places no circular buffers on a board that is not there, and none may be told of.

Where ttnn fails in the same way without the attach library, the last column has its own words.
";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its cells, as they are shown.
    cells: Vec<String>,
    /// Whether it shows a mistake of ours.
    pub is_wrong: bool,
}

impl Row {
    /// What came of a wheel that was run in a way.
    #[must_use]
    pub fn new(wheel: WheelVersion, python: &str, way: &str, tried: &Tried) -> Self {
        let summary = &tried.summary;
        let mut is_wrong = tried.is_ours;
        let mut cells = vec![wheel.to_string(), python.to_owned()];
        cells.push(if summary.opens { "yes" } else { "no" }.to_owned());
        let mut notes: Vec<String> = Vec::new();
        if !way.is_empty() {
            notes.push(way.to_owned());
        }
        // Parts of which there is the same to say are named together.
        let mut said_of: Vec<(String, Vec<&str>)> = Vec::new();
        for part in PARTS {
            let (word, said) = summary.cell(part);
            // What could not be compared was not, because of an error of the comparison itself.
            is_wrong |= matches!(word, "differs" | "not compared");
            cells.push(word.to_owned());
            let Some(said) = said else {
                continue;
            };
            match said_of.iter_mut().find(|(before, _parts)| *before == said) {
                Some((_said, parts)) => parts.push(part),
                None => said_of.push((said, vec![part])),
            }
        }
        let grouped = said_of.iter();
        notes.extend(grouped.map(|(said, parts)| format!("{}: {said}", parts.join(", "))));
        for (family, why) in summary.given_up() {
            is_wrong = true;
            notes.push(format!("{family} was given up: {why}"));
        }
        if let Some(failure) = &tried.failure {
            let whose = if tried.is_ours {
                "only with the attach library"
            } else {
                "ttnn itself"
            };
            notes.push(format!("{whose}: {failure}"));
        }
        cells.push(notes.join("; "));
        Self { cells, is_wrong }
    }
}

/// The page with the rows.
#[must_use]
pub fn table(rows: &[Row]) -> String {
    let mut titles = vec!["Wheel", "Python", "Opens"];
    titles.extend(PART_TITLES);
    titles.push("Notes");
    let mut page = format!("{INTRODUCTION}\n");
    let mut line = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "/")).collect();
        writeln!(page, "| {} |", cells.join(" | ")).expect("a String takes whatever is written");
    };
    line(&titles.iter().map(ToString::to_string).collect::<Vec<_>>());
    line(&vec!["---".to_owned(); titles.len()]);
    for row in rows {
        line(&row.cells);
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::Summary;

    fn row(said: &str, failure: Option<&str>, is_ours: bool) -> Row {
        let tried = Tried {
            summary: Summary::parse(said),
            failure: failure.map(str::to_owned),
            is_ours,
        };
        Row::new(crate::wheels::NEWEST, "3.10", "slow dispatch", &tried)
    }

    #[test]
    fn a_row_has_a_cell_for_every_title() {
        let page = table(&[row("opens: yes\nbuffers: exact, 3 compared\n", None, false)]);
        let lines: Vec<&str> = page.lines().filter(|line| line.starts_with('|')).collect();
        let columns = |line: &str| line.matches('|').count();
        assert_eq!(lines.len(), 3);
        assert!(lines.iter().all(|line| columns(line) == columns(lines[0])));
        assert!(lines[2].starts_with("| 0.81.1 | 3.10 | yes | exact | not reached |"));
        assert!(lines[2].ends_with("| slow dispatch |"));
    }

    #[test]
    fn it_is_said_whose_failure_it_is() {
        let theirs = row("", Some("no mocks"), false);
        assert!(!theirs.is_wrong);
        assert!(table(&[theirs]).contains("ttnn itself: no mocks"));
        let ours = row("", Some("signal: 11"), true);
        assert!(ours.is_wrong);
        assert!(table(&[ours]).contains("only with the attach library: signal: 11"));
    }

    #[test]
    fn a_difference_is_a_mistake_and_a_family_that_is_off_is_not() {
        let row = |said| row(said, None, false);
        assert!(row("buffers: differs: we say 1\n").is_wrong);
        assert!(row("buffers: not compared: KeyError: 'x'\n").is_wrong);
        let given_up = row("status: kernels: on\nstatus: kernels: off, an odd layout\n");
        assert!(given_up.is_wrong);
        assert!(table(&[given_up]).contains("kernels was given up: an odd layout"));
        let off = row("status: kernels: off, no `Kernel::compute_hash`\n");
        assert!(!off.is_wrong);
        assert!(table(&[off]).contains("kernels: no `Kernel::compute_hash`"));
    }

    #[test]
    fn what_is_said_of_several_parts_is_said_once() {
        let off = "status: buffers: off, no `a::b`\nstatus: failures: off, no `a::b`\n";
        let page = table(&[row(off, None, false)]);
        assert!(page.contains("| slow dispatch; buffers, failures: no `a::b` |"));
    }
}
