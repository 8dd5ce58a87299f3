//! The screens of a document, and how each of them is made.
//!
//! A screen stands between two comments. The first names it, says how large the terminal is and
//! what runs in it, and then what is done there, in order: keys to press, by the names that tmux
//! has for them, and texts to wait for. Texts that follow each other must be on one screen, and the
//! last ones must be on the screen that is kept.
//!
//! ````text
//! <!-- screen leaks 100x18: ttmem demo --scenario leak --speed 0.1
//! wait request 6
//! press 8 [ [ [
//! wait since mark
//! -->
//! ```text
//! …
//! ```
//! <!-- end of screen -->
//! ````
//!
//! A picture is made alike, in colour, and kept in a file that the document links to:
//!
//! ````text
//! <!-- picture docs/pictures/overview.svg dark 120x36: ttmem demo
//! wait live
//! -->
//! ````
//!
//! Used by `cargo xtask screens`, which makes them, and by the tests that hold them against the
//! program. Does no I/O.

use anyhow::{Context, bail};
use std::ops::Range;

const BEGINS: &str = "<!-- screen ";
const PICTURE_BEGINS: &str = "<!-- picture ";
const COMMENT_ENDS: &str = "-->\n";
const TEXT_BEGINS: &str = "-->\n```text\n";
const ENDS: &str = "```\n<!-- end of screen -->";

/// A screen in a document.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Screen<'d> {
    /// What it is called there; of a picture, its file and its background.
    pub(crate) name: &'d str,
    /// The size of the terminal.
    pub(crate) columns: u16,
    pub(crate) rows: u16,
    /// The words behind `ttmem`.
    pub(crate) arguments: &'d str,
    pub(crate) steps: Vec<Step<'d>>,
    /// Where its text stands in the document; empty of a picture.
    pub(crate) place: Range<usize>,
}

/// What is done before a screen is kept.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step<'d> {
    Press(Vec<&'d str>),
    /// Waits for a screen with all of these texts.
    Wait(Vec<&'d str>),
}

/// The screens of a document, in its order.
pub(crate) fn screens(document: &str) -> anyhow::Result<Vec<Screen<'_>>> {
    let begins = document.match_indices(BEGINS).map(|(at, _)| at);
    begins.map(|at| screen(document, at)).collect()
}

/// The pictures that a document links to, in its order.
pub(crate) fn pictures(document: &str) -> anyhow::Result<Vec<Screen<'_>>> {
    let begins = document.match_indices(PICTURE_BEGINS).map(|(at, _)| at);
    let how = |at: usize| {
        let begin = at + PICTURE_BEGINS.len();
        let end = begin + length(document, begin, COMMENT_ENDS)?;
        how_it_is_made(&document[begin..end], end..end)
    };
    begins.map(how).collect()
}

fn screen(document: &str, at: usize) -> anyhow::Result<Screen<'_>> {
    let begin = at + BEGINS.len();
    let how = begin..begin + length(document, begin, TEXT_BEGINS)?;
    let text = how.end + TEXT_BEGINS.len();
    let place = text..text + length(document, text, ENDS)?;
    if document[how.start..place.end].contains(BEGINS) {
        bail!("the screen at byte {at} does not end before the next one");
    }
    how_it_is_made(&document[how], place)
}

/// Bytes from a place in a document to a text.
fn length(document: &str, from: usize, to: &str) -> anyhow::Result<usize> {
    let found = document.get(from..).and_then(|rest| rest.find(to));
    found.with_context(|| format!("no {to:?} behind byte {from}"))
}

fn how_it_is_made(how: &str, place: Range<usize>) -> anyhow::Result<Screen<'_>> {
    let mut lines = how.lines();
    let head = lines.next().unwrap_or_default();
    let parts = head.split_once(": ttmem ").and_then(|(first, arguments)| {
        let (name, size) = first.rsplit_once(' ')?;
        let (columns, rows) = size.split_once('x')?;
        Some((
            name,
            columns.parse().ok()?,
            rows.parse().ok()?,
            arguments.trim(),
        ))
    });
    let (name, columns, rows, arguments) =
        parts.with_context(|| format!("{head:?} is not NAME COLUMNSxROWS: ttmem WORDS"))?;
    Ok(Screen {
        name,
        columns,
        rows,
        arguments,
        steps: steps(lines).with_context(|| format!("of the screen {name}"))?,
        place,
    })
}

fn steps<'d>(lines: impl Iterator<Item = &'d str>) -> anyhow::Result<Vec<Step<'d>>> {
    let mut steps = Vec::new();
    for line in lines {
        match line.split_once(' ') {
            Some(("press", keys)) => steps.push(Step::Press(keys.split_whitespace().collect())),
            Some(("wait", text)) => match steps.last_mut() {
                Some(Step::Wait(texts)) => texts.push(text),
                _ => steps.push(Step::Wait(vec![text])),
            },
            _ => bail!("{line:?} is neither `press KEYS` nor `wait TEXT`"),
        }
    }
    // Keys take a while to show: the text to wait for appears when they have.
    if !matches!(steps.last(), Some(Step::Wait(_))) {
        bail!("its last line does not wait for anything");
    }
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(how: &str) -> String {
        format!(
            "# Title\n<!-- screen {how}\n-->\n```text\nold\n```\n<!-- end of screen -->\nEnd.\n"
        )
    }

    #[test]
    fn a_screen_says_how_it_is_made() {
        let how = "leaks 100x18: ttmem demo --speed 0.1\nwait a b\nwait c\npress 8 [\nwait d";
        let document = document(how);
        let found = screens(&document).expect("it is right");
        let [screen] = &found[..] else {
            panic!("{found:?}");
        };
        let size = (screen.columns, screen.rows);
        assert_eq!((screen.name, size), ("leaks", (100, 18)));
        assert_eq!(screen.arguments, "demo --speed 0.1");
        let steps = [
            Step::Wait(vec!["a b", "c"]),
            Step::Press(vec!["8", "["]),
            Step::Wait(vec!["d"]),
        ];
        assert_eq!(screen.steps, steps);
        assert_eq!(&document[screen.place.clone()], "old\n");
    }

    #[test]
    fn a_picture_has_a_file_and_no_text() {
        let how =
            "<!-- picture docs/a.svg light 80x24: ttmem top\nwait live\n-->\n![a](docs/a.svg)\n";
        let found = pictures(how).expect("it is right");
        let [picture] = &found[..] else {
            panic!("{found:?}");
        };
        assert_eq!((picture.name, picture.columns), ("docs/a.svg light", 80));
        assert!(picture.place.is_empty());
        assert!(pictures("<!-- picture docs/a.svg 80x24: ttmem top\nwait live").is_err());
        assert_eq!(screens(how).expect("right"), []);
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for how in [
            "leaks: ttmem demo\nwait a",
            "leaks 100: ttmem demo\nwait a",
            "leaks 100x99999: ttmem demo\nwait a",
            "leaks 100x30: top\nwait a",
            "leaks 100x30: ttmem demo",
            "leaks 100x30: ttmem demo\nwait a\npress 8",
            "leaks 100x30: ttmem demo\nwait a\nsleep 8",
        ] {
            assert!(screens(&document(how)).is_err(), "{how}");
        }
        let whole = document("leaks 100x30: ttmem demo\nwait a");
        assert!(screens(&whole.replace("end of", "end")).is_err());
        let two = whole.replace("<!-- end of screen -->", "") + &whole;
        assert!(screens(&two).is_err(), "the first has no end");
        assert_eq!(screens("no screens").expect("right"), []);
    }
}
