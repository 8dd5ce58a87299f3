//! Numbers as a C++ stream prints a `double` by default.
//!
//! The log keeps the line formats of the old allocation server, and scripts parse them, so its
//! megabyte figures must come out as `std::cout << double` wrote them: `%g` with six significant
//! digits.

use std::fmt;

pub(super) fn megabytes(bytes: u64) -> CppDouble {
    CppDouble(bytes as f64 / f64::from(1 << 20))
}

pub(super) fn kilobytes(bytes: u64) -> CppDouble {
    CppDouble(bytes as f64 / f64::from(1 << 10))
}

/// A `double`, displayed as `std::cout << value` does with default flags.
///
/// The text is exactly that of C's `printf("%g", value)` for every value, including its
/// half-to-even rounding of exact ties, which are common among byte counts divided by 2^20.
#[derive(Debug, Clone, Copy)]
pub(super) struct CppDouble(f64);

impl fmt::Display for CppDouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let magnitude = self.0.abs();
        if self.0.is_sign_negative() {
            f.write_str("-")?;
        }
        if magnitude.is_nan() {
            // Rust's own word has capitals.
            return f.write_str("nan");
        }
        if magnitude == 0.0 || magnitude.is_infinite() {
            return write!(f, "{magnitude}");
        }
        // `d.ddddde<exponent>`: six significant digits, of which `%g` shows no zeros at the end.
        let text = format!("{magnitude:.5e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let exponent: i32 = exponent.parse().unwrap_or(0);
        let digits = digits.trim_end_matches('0').trim_end_matches('.');
        let (first, rest) = digits.split_once('.').unwrap_or((digits, ""));
        let places = usize::try_from(exponent.unsigned_abs()).unwrap_or(0);
        match exponent {
            -4..=-1 => write!(f, "0.{:0<1$}{first}{rest}", "", places - 1),
            0..=5 => match rest.split_at_checked(places) {
                Some((whole, part)) if !part.is_empty() => write!(f, "{first}{whole}.{part}"),
                _ => write!(f, "{first}{rest:0<places$}"),
            },
            ..-4 => write!(f, "{digits}e-{places:02}"),
            6.. => write!(f, "{digits}e+{places:02}"),
        }
    }
}

#[cfg(test)]
mod tests;
