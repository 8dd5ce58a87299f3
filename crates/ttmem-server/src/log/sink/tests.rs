//! The two lanes together.

use std::fs::File;
use std::io::{BufRead, BufReader, PipeReader, Read};

use super::*;

/// Generous: only a defect is ever that slow.
const WATCHDOG: Duration = Duration::from_secs(60);

fn log_to(events: Output, errors_in_events: bool) -> (Log, PipeReader) {
    let (reader, writer) = io::pipe().unwrap();
    let errors = Output::Stream {
        fd: writer.into(),
        name: "the test's errors",
    };
    let log = Log::with_outputs(
        events,
        errors_in_events,
        EVENT_LIMITS,
        errors,
        WATCHDOG,
        LogFormat::Plain,
    );
    (log.unwrap(), reader)
}

fn read_all(mut reader: PipeReader) -> String {
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn errors_reach_the_file_and_standard_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let file = RotatingFile::open(LogFileOptions::new(&path)).unwrap();
    let (log, errors) = log_to(Output::File(file), true);
    let handle = log.handle();
    handle.events("an event\n".to_owned());
    handle.error("an error".to_owned());
    handle.events("another event\n".to_owned());
    assert!(handle.flush());
    let in_file = std::fs::read_to_string(&path).unwrap();
    assert_eq!(in_file, "an event\nan error\nanother event\n");
    log.close();
    assert_eq!(read_all(errors), "an error\n");
    assert_eq!(handle.elided(), 0);
    handle.events("too late\n".to_owned());
    assert_eq!(handle.elided(), 1);
}

#[test]
fn errors_stay_out_of_standard_output() {
    let (events, writer) = io::pipe().unwrap();
    let output = Output::Stream {
        fd: writer.into(),
        name: "the test's events",
    };
    let (log, errors) = log_to(output, false);
    log.handle().error("an error\n".to_owned());
    log.handle().events("an event".to_owned());
    drop(log);
    assert_eq!(read_all(events), "an event\n");
    assert_eq!(read_all(errors), "an error\n");
}

#[test]
fn a_failing_event_log_is_told_on_standard_error_once() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let output = Output::Stream {
        fd: full.into(),
        name: "standard output",
    };
    let (log, errors) = log_to(output, false);
    let handle = log.handle();
    for _ in 0..5 {
        handle.events("a line\n".to_owned());
        assert!(handle.flush());
    }
    assert_eq!(handle.elided(), 5);
    log.close();
    let told = read_all(errors);
    assert_eq!(told.lines().count(), 1, "{told}");
    assert!(
        told.starts_with("cannot write the log to standard output: "),
        "{told}"
    );
}

#[test]
fn a_stalled_event_reader_does_not_delay_errors() {
    let (events, writer) = io::pipe().unwrap();
    let output = Output::Stream {
        fd: writer.into(),
        name: "standard output",
    };
    let (log, errors) = log_to(output, false);
    // More than any pipe holds: the event lane is stuck from here on.
    log.handle().events("e".repeat(4 << 20));
    log.handle().error("told at once\n".to_owned());
    let mut line = String::new();
    BufReader::new(errors).read_line(&mut line).unwrap();
    assert_eq!(line, "told at once\n");
    drop(events);
}
