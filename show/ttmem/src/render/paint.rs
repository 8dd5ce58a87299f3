//! Paragraphs, and colour.

use ttmem_tui::text::paragraph;

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
    fn colour_stays_within_its_line() {
        assert_eq!(Paint { color: false }.detail("a\n"), "a\n");
        assert_eq!(
            Paint { color: true }.detail("a\nb\n"),
            "\u{1b}[2ma\u{1b}[0m\n\u{1b}[2mb\u{1b}[0m\n"
        );
    }
}
