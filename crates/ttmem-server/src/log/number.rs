//! Numbers as a C++ stream prints a `double` by default.
//!
//! The log keeps the line formats of the old allocation server, and scripts parse them, so its
//! megabyte figures must come out as `std::cout << double` wrote them: `%g` with six significant
//! digits. The line formatters call this on the ledger's thread for nearly every line, therefore
//! it neither allocates nor, for the figures a log contains, uses big-number arithmetic.

use std::fmt::{self, Write};

/// Shows `value` as `std::cout << value` does with default flags.
///
/// The result is exactly that of C's `printf("%g", value)` for every value, including its
/// half-to-even rounding of exact ties, which are common among byte counts divided by 2^20.
#[must_use]
pub fn cpp_double(value: f64) -> CppDouble {
    CppDouble(value)
}

/// Bytes as megabytes of 2^20, the C++ way.
#[must_use]
pub fn megabytes(bytes: u64) -> CppDouble {
    CppDouble(bytes as f64 / f64::from(1 << 20))
}

/// Bytes as kilobytes of 2^10, the C++ way.
#[must_use]
pub fn kilobytes(bytes: u64) -> CppDouble {
    CppDouble(bytes as f64 / f64::from(1 << 10))
}

/// A `double` to be displayed the C++ way; made by [`cpp_double`].
#[derive(Debug, Clone, Copy)]
pub struct CppDouble(f64);

impl fmt::Display for CppDouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Text::default();
        if self.0.is_sign_negative() {
            text.push(b'-');
        }
        let magnitude = self.0.abs();
        if magnitude.is_nan() {
            text.extend(b"nan");
        } else if magnitude.is_infinite() {
            text.extend(b"inf");
        } else if magnitude == 0.0 {
            text.push(b'0');
        } else {
            Decimal::of(magnitude).render(&mut text);
        }
        f.write_str(text.as_str())
    }
}

/// Smallest and largest power of two of the values that [`Decimal::by_integers`] handles.
///
/// One byte is 2^-20 MiB, and no count of bytes exceeds 2^64. Within these bounds all
/// intermediate products fit 128 bits: see there.
const MIN_BINARY_EXPONENT: i32 = -20;
const MAX_BINARY_EXPONENT: i32 = 63;

const MANTISSA_BITS: i32 = 52;
const EXPONENT_BIAS: i32 = 1023;

/// Powers of ten up to the largest that scales a value of those bounds to six digits.
const POWERS_OF_TEN: [u64; 15] = {
    let mut powers = [1; 15];
    let mut i = 1;
    while i < powers.len() {
        powers[i] = powers[i - 1] * 10;
        i += 1;
    }
    powers
};

/// A positive number rounded to six significant digits: `digits` × 10^(`exponent` − 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Decimal {
    /// From 100 000 to 999 999.
    digits: u32,
    /// The power of ten of the first digit.
    exponent: i32,
}

impl Decimal {
    fn of(magnitude: f64) -> Self {
        Self::by_integers(magnitude).unwrap_or_else(|| Self::by_core(magnitude))
    }

    /// Rounds a finite positive value by exact 128-bit arithmetic.
    ///
    /// `None` if the value lies outside the binary exponents above.
    fn by_integers(magnitude: f64) -> Option<Self> {
        let bits = magnitude.to_bits();
        let binary_exponent = i32::try_from(bits >> MANTISSA_BITS).ok()? - EXPONENT_BIAS;
        if !(MIN_BINARY_EXPONENT..=MAX_BINARY_EXPONENT).contains(&binary_exponent) {
            return None;
        }
        let fraction = bits & ((1 << MANTISSA_BITS) - 1);
        let mantissa = u128::from(fraction | 1 << MANTISSA_BITS);
        let shift = binary_exponent - MANTISSA_BITS;

        // floor(b × log10 2) is the decimal exponent of 2^b, so the value's own is that or the
        // next; the loop body runs at most twice.
        let mut exponent = (binary_exponent * 1233) >> 12;
        loop {
            // numerator / denominator = value × 10^(5 − exponent), without loss: the factor is
            // at most 10^12 for the smallest values, the divisor at most 10^14 for the largest,
            // and the shifts are −72..=11, so neither side reaches 2^94.
            let mut numerator = mantissa;
            let mut denominator = 1;
            let scale = 5 - exponent;
            let power = POWERS_OF_TEN.get(usize::try_from(scale.unsigned_abs()).ok()?)?;
            if scale >= 0 {
                numerator *= u128::from(*power);
            } else {
                denominator *= u128::from(*power);
            }
            if shift >= 0 {
                numerator <<= shift;
            } else {
                denominator <<= -shift;
            }
            let quotient = u32::try_from(numerator / denominator).ok()?;
            if quotient >= 1_000_000 {
                exponent += 1;
                continue;
            }
            let twice_rest = 2 * (numerator % denominator);
            let rounds_up = twice_rest > denominator
                || (twice_rest == denominator && !quotient.is_multiple_of(2));
            let digits = quotient + u32::from(rounds_up);
            return Some(if digits == 1_000_000 {
                Self {
                    digits: 100_000,
                    exponent: exponent + 1,
                }
            } else {
                Self { digits, exponent }
            });
        }
    }

    /// Rounds any finite positive value by the standard library's exact but slower formatting.
    fn by_core(magnitude: f64) -> Self {
        let mut text = Text::default();
        // Always `d.ddddde<exponent>`, which fits; and `Text` never fails.
        let written = write!(text, "{magnitude:.5e}");
        debug_assert!(
            written.is_ok(),
            "formatting into a buffer on the stack cannot fail"
        );
        let (digits, exponent) = text.as_str().split_once('e').unwrap_or(("0", "0"));
        let digits = digits
            .bytes()
            .filter(u8::is_ascii_digit)
            .fold(0, |number, digit| number * 10 + u32::from(digit - b'0'));
        Self {
            digits,
            exponent: exponent.parse().unwrap_or(0),
        }
    }

    /// Writes the number by the rules of `%g`: no trailing zeros, and an exponent only outside
    /// of 10^-4 ≤ value < 10^6.
    fn render(self, text: &mut Text) {
        let mut significant = self.digits;
        let mut length = 6;
        while length > 1 && significant.is_multiple_of(10) {
            significant /= 10;
            length -= 1;
        }
        let mut buffer = [b'0'; 6];
        for slot in buffer[..length].iter_mut().rev() {
            *slot = ascii_digit(significant);
            significant /= 10;
        }
        let digits = &buffer[..length];

        match self.exponent {
            -4..=-1 => {
                text.extend(b"0.");
                for _ in self.exponent..-1 {
                    text.push(b'0');
                }
                text.extend(digits);
            }
            0..=5 => {
                let mut place = self.exponent;
                for position in 0..6 {
                    match digits.get(position) {
                        Some(&digit) => {
                            if place == -1 {
                                text.push(b'.');
                            }
                            text.push(digit);
                        }
                        None if place >= 0 => text.push(b'0'),
                        None => break,
                    }
                    place -= 1;
                }
            }
            _ => {
                text.push(digits[0]);
                if length > 1 {
                    text.push(b'.');
                    text.extend(&digits[1..]);
                }
                text.extend(if self.exponent < 0 { b"e-" } else { b"e+" });
                let exponent = self.exponent.unsigned_abs();
                if exponent >= 100 {
                    text.push(ascii_digit(exponent / 100));
                }
                text.push(ascii_digit(exponent / 10));
                text.push(ascii_digit(exponent));
            }
        }
    }
}

/// The character of the last decimal digit of `number`.
fn ascii_digit(number: u32) -> u8 {
    b"0123456789"[usize::try_from(number % 10).unwrap_or(0)]
}

/// ASCII text on the stack.
///
/// The longest that is ever put here is `-1.23457e-308`, 13 bytes; beyond its size it would drop
/// bytes rather than panic.
#[derive(Default)]
struct Text {
    bytes: [u8; 16],
    length: usize,
}

impl Text {
    fn push(&mut self, byte: u8) {
        if let Some(slot) = self.bytes.get_mut(self.length) {
            *slot = byte;
            self.length += 1;
        }
    }

    fn extend(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.push(byte);
        }
    }

    fn as_str(&self) -> &str {
        str::from_utf8(&self.bytes[..self.length]).expect("only ASCII is pushed")
    }
}

impl Write for Text {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        self.extend(s.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests;
