//! JSON lines: one object per line, for programs.
//!
//! An event is written in the form of the read API, a note in the form that its type says. Every
//! other line that a log can have is one of [`LogStatus`]: a reader must find nothing but objects.

use serde::Serialize;
use std::fmt::Write as _;
use ttmem_api::Timestamp;

use super::dumps::DumpKind;

/// What the log says of itself.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum LogStatus<'a> {
    LogGap { lines: u64, reason: &'a str },
    Dump { kind: DumpKind, text: &'a str },
}

/// A line that does not have its time by itself.
#[derive(Debug, Serialize)]
struct Timed<'a, T> {
    time: Timestamp,
    #[serde(flatten)]
    line: &'a T,
}

/// Appends a line with its time.
pub(super) fn write_timed<T: Serialize>(out: &mut String, time_nanos: u64, line: &T) {
    let time = Timestamp::from_unix_nanos(time_nanos);
    write_line(out, &Timed { time, line });
}

pub(super) fn write_line<T: Serialize>(out: &mut String, line: &T) {
    let line = serde_json::to_string(line).expect("every line has a JSON form");
    for character in line.chars() {
        if character.is_control() {
            // A terminal that shows the log must not obey what is in a name.
            write!(out, "\\u{:04x}", u32::from(character)).expect("a String takes any text");
        } else {
            out.push(character);
        }
    }
    out.push('\n');
}

#[cfg(test)]
mod tests;
