//! What people look for in lists; one rule for the server's lists and those of viewers.

use std::fmt::Write as _;

/// A piece of a name, a process id, or an address in decimal or hex.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Search {
    lower: String,
}

impl Search {
    #[must_use]
    pub fn of(text: &str) -> Self {
        Self {
            lower: text.trim().to_lowercase(),
        }
    }

    /// Whether nothing is looked for: then everything matches.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.lower.is_empty()
    }

    /// Whether a name contains it, whatever the case.
    #[must_use]
    pub fn is_in(&self, name: &str) -> bool {
        self.is_empty() || name.to_lowercase().contains(&self.lower)
    }

    /// Whether a number contains it, written in decimal or in hex.
    ///
    /// Only what begins with a digit is a number: "add" is an operation, "0xadd" an address.
    #[must_use]
    pub fn is_in_number(&self, number: u64) -> bool {
        if self.is_empty() {
            return true;
        }
        if !self.lower.starts_with(|first: char| first.is_ascii_digit()) {
            return false;
        }
        let mut written = String::with_capacity(40);
        write!(written, "{number}\n{number:#x}").expect("a String takes any text");
        written.contains(&self.lower)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_in_decimal_and_hex_and_names_in_any_case() {
        for text in ["", "1048576", "0x100000", "0X1000", "4857", " 100000 "] {
            assert!(Search::of(text).is_in_number(0x10_0000), "{text}");
        }
        for text in ["x1", "1048577", "add", "76 0x1"] {
            assert!(!Search::of(text).is_in_number(0x10_0000), "{text}");
        }
        assert!(!Search::of("add").is_in_number(0xadd));
        assert!(Search::of("0xadd").is_in_number(0xadd));
        assert!(Search::of("MatMul").is_in("ttnn::matmul") && !Search::of("y").is_in("x"));
    }
}
