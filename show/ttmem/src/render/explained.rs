//! Failures and why they happened.

use super::Page;
use crate::output::Screen;
use ttmem_report::format::counted;
use ttmem_report::{Explanation, Failures};
use ttmem_tui::explanation::{self, Style};

/// Every failure with its explanation, one below the other.
pub(crate) fn explained(failures: &Failures, screen: Screen) -> String {
    let page = Page::new(failures, screen);
    let each = failures.failures.iter();
    let each = each.map(|each| page.painted(explanation::in_full(each, page.width)));
    let mut text = each.collect::<Vec<_>>().join("\n");
    if failures.omitted > 0 {
        let more = counted(failures.omitted, "more failure");
        text.push_str(&format!("\n{more}, not shown\n"));
    }
    text
}

impl<T> Page<'_, T> {
    /// A failure with its explanation.
    pub(super) fn explained(&self, failure: &Explanation) -> String {
        self.painted(explanation::in_full(failure, self.width))
    }

    /// A failure in a sentence.
    pub(super) fn in_a_sentence(&self, failure: &Explanation) -> String {
        self.painted(explanation::sentence(failure, self.width))
    }

    pub(super) fn painted(&self, lines: Vec<(Style, String)>) -> String {
        let mut text = String::new();
        for (style, line) in lines {
            text.push_str(&match style {
                Style::Heading => self.paint.heading(&line),
                Style::Text => line,
                Style::Detail => self.paint.detail(&line),
                Style::Marked => self.paint.warning(&line),
            });
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests;
