//! Cells of fixed width, wrapped paragraphs, and colour.

pub(super) use ttmem_tui::text::{clip, left, right};

use ttmem_tui::text::width as columns;

/// Words filled into lines of `width`, all but the first indented; the last line is ended too.
///
/// `first` begins the first line. A word is never broken, and may hold spaces of its own.
pub(super) fn paragraph<'a>(
    first: &str,
    indent: usize,
    words: impl IntoIterator<Item = &'a str>,
    width: usize,
) -> String {
    let mut lines = String::new();
    let mut line = clip(first, width);
    let mut line_has_words = false;
    for word in words {
        let word = clip(word, width.saturating_sub(indent));
        if line_has_words {
            if columns(&line) + 1 + columns(&word) > width {
                lines.push_str(&clip(&line, width));
                lines.push('\n');
                line = " ".repeat(indent);
            } else {
                line.push(' ');
            }
        }
        line.push_str(&word);
        line_has_words = true;
    }
    // Cut rather than broken: a word too long for its first line.
    lines.push_str(&clip(&line, width));
    lines.push('\n');
    lines
}

/// A paragraph of ordinary text that hangs by four.
pub(super) fn sentence(first: &str, text: &str, width: usize) -> String {
    paragraph(first, 4, text.split_whitespace(), width)
}

/// Parts of a list with their commas, for [`paragraph`] to keep each in one piece.
pub(super) fn with_commas(parts: &[String]) -> Vec<String> {
    let mut parts = parts.to_vec();
    if let Some((_, all_but_last)) = parts.split_last_mut() {
        all_but_last.iter_mut().for_each(|part| part.push(','));
    }
    parts
}

/// Colour, or none.
///
/// Paints finished cells: escape sequences have no width, padding them would misalign.
#[derive(Debug, Clone, Copy)]
pub(super) struct Paint {
    pub(super) color: bool,
}

impl Paint {
    pub(super) fn heading(self, text: &str) -> String {
        self.wrapped("1", text)
    }

    /// What supports a figure rather than being one.
    pub(super) fn detail(self, text: &str) -> String {
        self.wrapped("2", text)
    }

    /// What the reader should not miss.
    pub(super) fn warning(self, text: &str) -> String {
        self.wrapped("33", text)
    }

    /// A bar that is this many thousandths full.
    pub(super) fn fullness(self, text: &str, permille: u16) -> String {
        let color = match permille {
            900.. => "31",
            750.. => "33",
            _ => "32",
        };
        self.wrapped(color, text)
    }

    fn wrapped(self, code: &str, text: &str) -> String {
        if !self.color {
            return text.to_owned();
        }
        // The line end stays outside: a pager resets colours at each line.
        let mut painted = String::new();
        for line in text.split_inclusive('\n') {
            let body = line.trim_end_matches('\n');
            let end = &line[body.len()..];
            painted.push_str(&format!("\u{1b}[{code}m{body}\u{1b}[0m{end}"));
        }
        painted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_fill_lines_and_hang() {
        assert_eq!(
            paragraph("  a: ", 4, "one two three four".split(' '), 12),
            "  a: one two\n    three\n    four\n"
        );
        assert_eq!(paragraph("", 0, [], 12), "\n");
        assert_eq!(
            paragraph("", 1, ["peak 1 B,", "free 2 B"], 14),
            "peak 1 B,\n free 2 B\n"
        );
        let long = paragraph(
            "  first: ",
            4,
            ["xxxxxxxxx", "two", "xxxxxxxxxxxxxxxxxxx"],
            12,
        );
        assert!(
            long.lines().all(|line| line.chars().count() <= 12),
            "{long}"
        );
    }

    #[test]
    fn signs_of_two_columns_do_not_push_a_line_out() {
        let words = ["模型推論", "メモリ", "模型推論模型"];
        let text = paragraph("  a: ", 4, words, 14);
        assert_eq!(text, "  a: 模型推論\n    メモリ\n    模型推論…\n");
        assert!(text.lines().all(|line| columns(line) <= 14));
    }

    #[test]
    fn colour_stays_within_its_line() {
        assert_eq!(Paint { color: false }.detail("a\n"), "a\n");
        assert_eq!(
            Paint { color: true }.detail("a\nb\n"),
            "\u{1b}[2ma\u{1b}[0m\n\u{1b}[2mb\u{1b}[0m\n"
        );
    }
}
