//! What became of a run, and in what two of them differ.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::ExitStatus;

use super::normal::normal;

/// What a shell adds to the number of the signal that ended a program.
const KILLED_BY: i32 = 128;

/// How the first line of a report begins; complaints begin so as well.
const OURS: &str = "ttmem: ";

/// What the first line of a report says of the command, and no complaint does.
const ENDS: [&str; 2] = [" ended with code ", " was ended by signal "];

/// What became of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// The exit code as shells tell it: `ttmem run` tells of signals in no other way.
    code: Option<i32>,
    stdout: String,
    stderr: String,
    result: String,
}

impl Outcome {
    /// Reads what a run in this folder has left: the files of its streams and `result`.
    pub(crate) fn read(status: ExitStatus, folder: &Path) -> Self {
        let shown = folder.to_string_lossy();
        let text = |name: &str| {
            // A program that tells nothing has no file; one that should have differs by that.
            let bytes = fs::read(folder.join(name)).unwrap_or_default();
            normal(&String::from_utf8_lossy(&bytes), &shown)
        };
        let killed = status.signal().map(|signal| KILLED_BY + signal);
        Self {
            code: status.code().or(killed),
            stdout: text("stdout"),
            stderr: text("stderr"),
            result: text("result"),
        }
    }

    /// Takes the report of `ttmem run` from the end of what was said on standard error.
    ///
    /// What was said before it stays, complaints of ours too: a plain run has none of them.
    pub(super) fn take_report(&mut self) -> Option<String> {
        let mut place = 0;
        let (mut sentence, mut begin) = (None, None);
        for line in self.stderr.split_inclusive('\n') {
            if line.starts_with(OURS) {
                sentence = Some(place);
            } else if !line.starts_with(' ') {
                // A long sentence goes on in lines that are moved in.
                sentence = None;
            }
            if sentence.is_some() && ENDS.iter().any(|end| line.contains(end)) {
                begin = sentence;
            }
            place += line.len();
        }
        Some(self.stderr.split_off(begin?))
    }

    /// Forgets in which order lines came: in a terminal both streams are one, and the runtime
    /// writes its log when it likes.
    pub(super) fn forget_order(&mut self) {
        // The terminal shows what is typed before whatever comes next.
        let stdout = self.stdout.replace("^C", "");
        let mut lines: Vec<&str> = stdout.lines().collect();
        lines.sort_unstable();
        self.stdout = lines.join("\n");
    }

    /// The first difference from another run, named.
    pub(super) fn difference(&self, tracked: &Self) -> Option<String> {
        self.difference_of_answers(tracked).or_else(|| {
            let streams = [
                ("stderr", &self.stderr, &tracked.stderr),
                ("stdout", &self.stdout, &tracked.stdout),
            ];
            let mut streams = streams.into_iter();
            streams.find_map(|(what, plain, tracked)| named_difference(what, plain, tracked))
        })
    }

    /// The first difference in how it ended and in what it told, whatever it printed.
    pub(crate) fn difference_of_answers(&self, tracked: &Self) -> Option<String> {
        if self.code != tracked.code {
            return Some(format!(
                "exit code: plain {:?}, tracked {:?}\n{}",
                self.code, tracked.code, tracked.stderr
            ));
        }
        named_difference("result", &self.result, &tracked.result)
    }

    /// What the program told.
    pub(crate) fn result(&self) -> &str {
        &self.result
    }

    pub(crate) fn succeeded(&self) -> bool {
        self.code == Some(0)
    }

    /// Adds something to what the program told.
    pub(crate) fn tell(&mut self, what: &str) {
        self.result.push('\n');
        self.result.push_str(what);
    }

    /// A run that printed nothing.
    #[cfg(test)]
    pub(crate) fn of(code: i32, result: &str) -> Self {
        Self {
            code: Some(code),
            stdout: String::new(),
            stderr: String::new(),
            result: result.to_owned(),
        }
    }
}

/// The first difference of two texts, with the name of what they are.
fn named_difference(what: &str, plain: &str, tracked: &str) -> Option<String> {
    let (number, [plain, tracked]) = first_difference(plain, tracked)?;
    Some(format!(
        "{what}, line {number}:\n  plain:   {plain}\n  tracked: {tracked}"
    ))
}

/// The first line at which two texts part, and what each has there.
fn first_difference<'t>(one: &'t str, other: &'t str) -> Option<(usize, [&'t str; 2])> {
    const NOTHING: &str = "(no more)";
    let (mut ones, mut others) = (one.lines(), other.lines());
    for number in 1.. {
        match (ones.next(), others.next()) {
            (None, None) => return None,
            (one, other) if one == other => {}
            (one, other) => {
                return Some((number, [one.unwrap_or(NOTHING), other.unwrap_or(NOTHING)]));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_taken_from_the_end_of_what_was_said() {
        let mut run = Outcome::of(0, "");
        assert_eq!(run.take_report(), None);
        let said = "ttmem: python ended with code 0 after 1 s\nand more";
        run.stderr = format!("own words\n{said}");
        assert_eq!(run.take_report().as_deref(), Some(said));
        assert_eq!(run.stderr, "own words\n");
        run.stderr = said.to_owned();
        assert_eq!(run.take_report().as_deref(), Some(said));
        assert_eq!(run.stderr, "");
        let complaint = "ttmem: kernels are not tracked: no x\n";
        run.stderr = complaint.to_owned();
        assert_eq!(run.take_report(), None);
        let long = "ttmem: python with many words\n    that ended with code 0\nand more";
        run.stderr = format!("{complaint}{long}");
        assert_eq!(run.take_report().as_deref(), Some(long));
        run.stderr = format!("{complaint}{said}");
        assert_eq!(run.take_report().as_deref(), Some(said));
        assert_eq!(run.stderr, complaint);
    }

    #[test]
    fn what_a_terminal_shows_is_compared_without_order() {
        let mut one = Outcome::of(0, "");
        let mut other = one.clone();
        one.stdout = "log\n^CTraceback".to_owned();
        other.stdout = "Traceback\n^Clog".to_owned();
        assert!(one.difference(&other).is_some());
        one.forget_order();
        other.forget_order();
        assert_eq!(one.difference(&other), None);
        other.stdout = "Traceback".to_owned();
        assert!(one.difference(&other).is_some());
    }

    #[test]
    fn the_first_difference_is_named() {
        let plain = Outcome::of(0, "a\nb");
        assert_eq!(plain.difference(&plain), None);
        let other = plain
            .difference(&Outcome::of(0, "a\nc"))
            .expect("another line");
        assert!(
            other.starts_with("result, line 2:\n  plain:   b\n  tracked: c"),
            "{other}"
        );
        let shorter = plain.difference(&Outcome::of(0, "a")).expect("a line less");
        assert!(shorter.ends_with("tracked: (no more)"), "{shorter}");
        let code = plain
            .difference(&Outcome::of(3, "a\nb"))
            .expect("another code");
        assert!(
            code.starts_with("exit code: plain Some(0), tracked Some(3)"),
            "{code}"
        );
    }
}
