//! Small things as the log shows them: what is not known, and text from outside.

use std::fmt::{self, Write as _};
use ttmem_report::is_deceptive;

/// A value, or a question mark where it is not known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OrUnknown<T>(pub(crate) Option<T>);

impl<T: fmt::Display> fmt::Display for OrUnknown<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(value) => value.fmt(f),
            None => f.write_str("?"),
        }
    }
}

/// Text from outside on one line, whatever is in it.
///
/// A process chooses its own name: unescaped it could forge lines, or make a terminal that shows
/// the log do things.
#[derive(Debug, Clone, Copy)]
pub(super) struct Escaped<'a>(pub(super) &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            if is_deceptive(character) {
                write!(f, "{}", character.escape_unicode())?;
            } else {
                f.write_char(character)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_outside_stays_on_its_line() {
        let forged = "a\n✓ [PID 1] \u{1b}[2J\u{202e}é";
        assert_eq!(
            Escaped(forged).to_string(),
            "a\\u{a}✓ [PID 1] \\u{1b}[2J\\u{202e}é"
        );
    }

    #[test]
    fn what_is_not_known_is_a_question_mark() {
        assert_eq!(
            format!("{} {}", OrUnknown(Some(7)), OrUnknown::<u32>(None)),
            "7 ?"
        );
    }
}
