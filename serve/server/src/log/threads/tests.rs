//! The two outputs together.

use std::fs::File;
use std::io::{BufRead, BufReader, PipeReader, Read};

use super::*;
use crate::log::entry::Note;

/// Generous: only a defect is ever that slow.
const WATCHDOG: Duration = Duration::from_secs(60);

fn log_to(events: Output, errors_in_events: bool) -> (Log, PipeReader) {
    let (reader, writer) = io::pipe().unwrap();
    let errors = Output::stream(writer, "the test's errors");
    let events = (events, errors_in_events);
    let log = Log::with_outputs(events, errors, WATCHDOG, LogOptions::default());
    (log.unwrap(), reader)
}

fn read_all(mut reader: PipeReader) -> String {
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    text
}

fn error(reason: &str) -> Note {
    Note::ServerFailed {
        reason: reason.to_owned(),
    }
}

#[test]
fn errors_reach_the_file_and_standard_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let file = Output::open(LogFileOptions::new(&path)).unwrap();
    let (log, errors) = log_to(file, true);
    let handle = log.handle();
    handle.note(Note::ProcessReturned { pid: Some(1) });
    handle.note(error("an error"));
    handle.note(Note::ProcessReturned { pid: Some(2) });
    drop(log);
    assert_eq!(
        std::fs::read_to_string(&path).unwrap(),
        "✓ [PID 1] Connected again\nan error\n✓ [PID 2] Connected again\n"
    );
    assert_eq!(read_all(errors), "an error\n");
    assert_eq!(handle.elided(), 0);
    handle.note(Note::ServerStopped);
    assert_eq!(handle.elided(), 1);
}

#[test]
fn errors_stay_out_of_standard_output() {
    let (events, writer) = io::pipe().unwrap();
    let output = Output::stream(writer, "the test's events");
    let (log, errors) = log_to(output, false);
    log.handle().note(error("an error"));
    log.handle().note(Note::ProcessReturned { pid: Some(1) });
    drop(log);
    assert_eq!(read_all(events), "✓ [PID 1] Connected again\n");
    assert_eq!(read_all(errors), "an error\n");
}

#[test]
fn a_failing_event_log_is_reported_on_standard_error_once() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let output = Output::stream(full, "standard output");
    let (log, errors) = log_to(output, false);
    let handle = log.handle();
    for _ in 0..5 {
        handle.note(Note::ServerStopped);
    }
    drop(log);
    assert_eq!(handle.elided(), 5);
    let reported = read_all(errors);
    assert_eq!(reported.lines().count(), 1, "{reported}");
    assert!(
        reported.starts_with("cannot write the log to standard output: "),
        "{reported}"
    );
}

#[test]
fn a_stalled_event_reader_does_not_delay_errors() {
    let (events, writer) = io::pipe().unwrap();
    let output = Output::stream(writer, "standard output");
    let (log, errors) = log_to(output, false);
    // More than any pipe holds: the thread of the events is stuck from here on.
    let name = "e".repeat(4 << 20);
    log.handle().note(Note::ProcessJoined { pid: None, name });
    log.handle().note(error("said at once"));
    let mut line = String::new();
    BufReader::new(errors).read_line(&mut line).unwrap();
    assert_eq!(line, "said at once\n");
    drop(events);
}
