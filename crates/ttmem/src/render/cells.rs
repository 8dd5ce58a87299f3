//! Cells of fixed width, wrapped paragraphs, and colour.
//!
//! Width is counted in characters. Wide characters take two columns on a terminal; names with
//! them may push a line out, which is accepted to avoid carrying a width table.

/// Ends a text that was cut.
const ELLIPSIS: char = '…';

/// The text in at most `width` characters, with nothing in it that could steer a terminal.
pub(super) fn clip(text: &str, width: usize) -> String {
    let mut clipped: String = text.chars().take(width).map(printable).collect();
    if text.chars().nth(width).is_some() {
        clipped.pop();
        if width > 0 {
            clipped.push(ELLIPSIS);
        }
    }
    clipped
}

/// Replaces control characters, and the marks that would reorder or hide what is around them.
fn printable(character: char) -> char {
    match character {
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        character if character.is_control() => '\u{fffd}',
        character => character,
    }
}

/// A cell of exactly `width` characters, text to the left.
pub(super) fn left(text: &str, width: usize) -> String {
    format!("{:<width$}", clip(text, width))
}

/// A cell of exactly `width` characters, text to the right.
pub(super) fn right(text: &str, width: usize) -> String {
    format!("{:>width$}", clip(text, width))
}

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
            if line.chars().count() + 1 + word.chars().count() > width {
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

/// Logical device ids as ranges, `0-3,6`, in the order given.
pub(super) fn id_ranges(ids: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &id in ids {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(id) => *last = id,
            _ => ranges.push((id, id)),
        }
    }
    let texts: Vec<String> = ranges
        .into_iter()
        .map(|(first, last)| {
            if first == last {
                first.to_string()
            } else {
                format!("{first}-{last}")
            }
        })
        .collect();
    texts.join(",")
}

/// Colour, or none.
///
/// Paints finished cells: escape sequences have no width, padding them would misalign.
#[derive(Debug, Clone, Copy)]
pub(super) struct Paint {
    pub(super) color: bool,
}

impl Paint {
    /// Headings.
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
    pub(super) fn fullness(self, text: &str, permille: usize) -> String {
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
    fn clipping_keeps_the_width_and_marks_the_cut() {
        assert_eq!(clip("python", 6), "python");
        assert_eq!(clip("python3", 6), "pytho…");
        assert_eq!(clip("Überlänge", 4), "Übe…");
        assert_eq!(clip("x", 0), "");
        assert_eq!(left("ab", 4), "ab  ");
        assert_eq!(right("ab", 4), "  ab");
    }

    #[test]
    fn nothing_can_steer_the_terminal() {
        assert_eq!(
            clip("a\u{1b}[2J\r\n\u{202e}b", 20),
            "a\u{fffd}[2J\u{fffd}\u{fffd}\u{fffd}b"
        );
    }

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
    fn consecutive_ids_join() {
        assert_eq!(id_ranges(&[0, 1, 2, 3, 6]), "0-3,6");
        assert_eq!(id_ranges(&[4, 0, 2, 6]), "4,0,2,6");
        assert_eq!(id_ranges(&[u32::MAX, 0]), "4294967295,0");
        assert_eq!(id_ranges(&[]), "");
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
