//! JSON lines: one object per line, for programs.
//!
//! An event is written in the form of the read API, a note in the form of its type.

use serde::Serialize;
use ttmem_report::{Timestamp, escape_json};

use super::entry::Note;

#[derive(Debug, Serialize)]
struct TimedNote<'a> {
    time: Timestamp,
    #[serde(flatten)]
    note: &'a Note,
}

pub(super) fn write_note(out: &mut String, time_nanos: u64, note: &Note) {
    let time = Timestamp::from_unix_nanos(time_nanos);
    write_line(out, &TimedNote { time, note });
}

pub(super) fn write_line<T: Serialize>(out: &mut String, line: &T) {
    let line = serde_json::to_string(line).expect("every line has a JSON form");
    // A terminal that shows the log must not obey what is in a name.
    out.push_str(&escape_json(line));
    out.push('\n');
}

#[cfg(test)]
mod tests;
