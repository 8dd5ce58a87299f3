//! Failures in a log: the runtime's messages, old and new, with the line of Python beside them.
//!
//! A log is hostile and of any length. It is read once, line by line; what is kept of it is bounded:
//! a line, a few lines behind the begin of a message, and the failures that were found.

mod found;
mod lines;
mod python;
mod scan;
mod shape;
mod shapes;

#[cfg(test)]
mod tests;

use crate::{Failures, SCHEMA};
use found::Found;
use lines::{Lines, without_escapes};
use scan::Scanner;
use std::io::{self, BufRead};

/// Reads a log to its end and explains every failure in it.
///
/// # Errors
/// When the log cannot be read, or is compressed.
pub fn read(mut log: impl BufRead) -> io::Result<Failures> {
    if let Some((format, command)) = compressed(log.fill_buf()?) {
        let error = format!("it is compressed with {format}: `{command} FILE | ttmem explain -`");
        return Err(io::Error::new(io::ErrorKind::InvalidData, error));
    }
    let mut scanner = Scanner::new();
    let mut lines = Lines::new(log);
    let mut text = String::new();
    while let Some((number, line)) = lines.next()? {
        if scanner.wants(line) {
            without_escapes(line, &mut text);
            scanner.line(number, &text);
        }
    }
    let Found {
        explanations,
        omitted,
    } = scanner.finish();
    Ok(Failures {
        schema: SCHEMA,
        failures: explanations,
        omitted,
    })
}

/// A log that was compressed, and what prints it.
fn compressed(begin: &[u8]) -> Option<(&'static str, &'static str)> {
    const FORMATS: [(&[u8], &str, &str); 4] = [
        (b"\x1f\x8b", "gzip", "zcat"),
        (b"\xfd7zXZ\0", "xz", "xzcat"),
        (b"\x28\xb5\x2f\xfd", "zstd", "zstdcat"),
        (b"BZh", "bzip2", "bzcat"),
    ];
    let found = FORMATS.iter().find(|(magic, ..)| begin.starts_with(magic));
    found.map(|&(_magic, format, command)| (format, command))
}
