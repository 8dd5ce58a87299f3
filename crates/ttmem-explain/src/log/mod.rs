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

use found::Found;
use lines::{Lines, without_escapes};
use scan::Scanner;
use std::io::{self, BufRead};
use ttmem_api::{Failures, SCHEMA};

/// Reads a log to its end and explains every failure in it.
///
/// # Errors
/// When the log cannot be read.
pub fn read(log: impl BufRead) -> io::Result<Failures> {
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
