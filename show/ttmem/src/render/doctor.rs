//! The lines of `ttmem doctor`.

use super::{Paint, layout_width};
use crate::output::Screen;
use ttmem_report::is_deceptive;
use ttmem_tui::text::paragraph;

/// One check.
#[derive(Debug)]
pub(crate) struct DoctorLine<'a> {
    pub(crate) name: &'a str,
    pub(crate) state: &'a str,
    pub(crate) is_bad: bool,
    pub(crate) found: &'a str,
    pub(crate) remedy: Option<&'a str>,
}

/// Columns of states and names, with the space behind them.
const STATE: usize = 9;
const NAME: usize = 14;

/// A line per check; a longer one hangs below its text, and so does its remedy.
pub(crate) fn doctor<'a>(lines: impl Iterator<Item = DoctorLine<'a>>, screen: Screen) -> String {
    let (width, paint) = (
        layout_width(screen.width),
        Paint {
            color: screen.color,
        },
    );
    let mut text = String::new();
    for line in lines {
        let head = format!("{:<STATE$}{:<NAME$}", line.state, line.name);
        let found = paragraph(
            &head,
            STATE + NAME,
            printable(line.found).split_whitespace(),
            width,
        );
        text.push_str(&match line.is_bad {
            true => paint.warning(&found),
            false => found,
        });
        if let Some(remedy) = line.remedy {
            let head = format!("{:indent$}-> ", "", indent = STATE + NAME);
            let remedy = printable(remedy);
            let remedy = remedy_lines(&head, &remedy, width);
            text.push_str(&paint.detail(&remedy));
        }
    }
    text
}

/// A remedy in lines. A command is one word, and one that is longer than a line is not cut: it is there to be copied.
fn remedy_lines(head: &str, remedy: &str, width: usize) -> String {
    let indent = STATE + NAME + 3;
    let blank = " ".repeat(indent);
    let words = words(remedy);
    let is_long = |word: &&str| word.len() + indent > width;
    let mut text = String::new();
    for part in words.chunk_by(|left, right| !is_long(left) && !is_long(right)) {
        let begin = if text.is_empty() { head } else { &blank };
        match part {
            [long] if is_long(long) => text.push_str(&format!("{begin}{long}\n")),
            _ => text.push_str(&paragraph(begin, indent, part.iter().copied(), width)),
        }
    }
    text
}

/// Words of a text; what stands between backticks is in one.
fn words(text: &str) -> Vec<&str> {
    let mut is_command = false;
    let words = text.split(|letter: char| {
        is_command ^= letter == '`';
        letter.is_whitespace() && !is_command
    });
    words.filter(|word| !word.is_empty()).collect()
}

/// Names of files and processes may have anything in them.
fn printable(text: &str) -> String {
    text.replace(is_deceptive, "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_in_one_line_however_long() {
        let long = format!(
            "`rm {}`",
            "/dev/shm/tt_device_1_memory ".repeat(4).trim_end()
        );
        let remedy = format!(
            "when nobody uses it, `sudo mount -t tmpfs tmpfs /dev/shm`; or {long} resets it"
        );
        for width in [40, 80, 120] {
            let line = DoctorLine {
                name: "shm",
                state: "warning",
                is_bad: true,
                found: "x",
                remedy: Some(&remedy),
            };
            let screen = Screen {
                width,
                color: false,
            };
            let text = doctor([line].into_iter(), screen);
            assert!(text.contains(&long), "{text}");
            assert!(
                text.contains("`sudo mount -t tmpfs tmpfs /dev/shm`;"),
                "{text}"
            );
            assert!(text.contains("-> when"), "{text}");
            let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert_eq!(joined, format!("warning shm x -> {remedy}"));
        }
    }
}
