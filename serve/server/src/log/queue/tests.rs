//! Queues whose writers write to pipes and sockets; the tests control the readers, and run the
//! writers themselves where that matters.

use std::fs::File;
use std::io::{BufRead, BufReader, PipeReader, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::thread;
use std::time::Duration;

use super::*;
use crate::log::output::{LogFileOptions, Output};
use crate::log::threads::{end, spawn};
use crate::log::writer::{Filter, Writer};

/// Generous: only a defect is ever that slow.
const WATCHDOG: Duration = Duration::from_secs(60);

const ROOMY: QueueLimits = QueueLimits {
    messages: 1 << 16,
    entries: 1 << 20,
};

fn stream(fd: impl Into<OwnedFd>) -> Output {
    Output::stream(fd, "the test")
}

/// A queue, its writer that does not run yet, and where that one reports failures.
fn pair(limits: QueueLimits, output: Output) -> (Queue, Writer, Receiver<Message>) {
    let (reports, reported) = Queue::new(ROOMY);
    let (queue, receiver) = Queue::new(limits);
    let received = (&queue, receiver);
    let options = LogOptions::default();
    let writer = Writer::new(received, output, Filter::Everything, options, Some(reports));
    (queue, writer, reported)
}

/// A queue whose writer runs, and what its thread's end disconnects.
fn start(limits: QueueLimits, output: Output) -> (Queue, Receiver<()>, Receiver<Message>) {
    let (queue, writer, reported) = pair(limits, output);
    (queue, spawn("log-test", writer).unwrap(), reported)
}

fn text(line: &str) -> Body {
    let reason = line.to_owned();
    Body::Note(0, Note::ServerFailed { reason })
}

/// Has a line written, or given up, before it returns.
fn write(writer: &mut Writer, line: &str) {
    assert!(writer.write_batch((0, text(line))));
}

fn report(reports: &Receiver<Message>) -> String {
    match reports.try_recv().unwrap().1 {
        Body::Note(_, Note::LogFailed { reason }) => reason,
        other => panic!("{other:?}"),
    }
}

fn read_to_end(mut reader: PipeReader) -> String {
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    text
}

/// The number in a notice, if the line is one.
fn noticed(line: &str) -> Option<u64> {
    let (number, rest) = line.strip_prefix("… ")?.split_once(' ')?;
    assert_eq!(
        rest,
        "log lines were not written: they came faster than they could be written"
    );
    Some(number.parse().unwrap())
}

#[test]
fn a_line_is_one_write_and_appears_at_once() {
    let (ours, theirs) = UnixDatagram::pair().unwrap();
    theirs.set_read_timeout(Some(WATCHDOG)).unwrap();
    let (queue, _end, _) = start(ROOMY, stream(ours));
    let mut buffer = [0; 256];
    for line in ["one line", "another"] {
        queue.push(text(line));
        let length = theirs.recv(&mut buffer).unwrap();
        assert_eq!(buffer[..length], *format!("{line}\n").as_bytes());
    }
}

#[test]
fn lines_that_find_no_room_are_counted_where_they_are_missing() {
    let (reader, writer) = std::io::pipe().unwrap();
    let limits = QueueLimits {
        messages: 4,
        ..ROOMY
    };
    let (queue, ended, reports) = start(limits, stream(writer));
    let padding = "x".repeat(1000);
    let mut pushed = 0;
    // Until well after the pipe and the queue are full.
    while queue.lost() < 50 {
        queue.push(text(&format!("{pushed} {padding}")));
        pushed += 1;
    }
    let reading = thread::spawn(move || read_to_end(reader));
    for _ in 0..10 {
        queue.push(text(&format!("{pushed} {padding}")));
        pushed += 1;
    }
    end(&queue, &ended, WATCHDOG);
    drop(queue);

    let mut next = 0;
    let mut notices = 0;
    for line in reading.join().unwrap().lines() {
        if let Some(lines) = noticed(line) {
            next += lines;
            notices += 1;
        } else {
            let number: u64 = line.split_once(' ').unwrap().0.parse().unwrap();
            assert_eq!(
                number, next,
                "a notice stands exactly where lines are missing"
            );
            next += 1;
        }
    }
    assert_eq!(next, pushed, "every line is written or counted");
    assert!(notices >= 1);
    assert!(reports.is_empty(), "slowness is no failure");
}

#[test]
fn the_last_gap_is_mentioned_without_a_further_event() {
    let (reader, writer) = std::io::pipe().unwrap();
    let limits = QueueLimits {
        messages: 1,
        ..ROOMY
    };
    let (queue, _ended, _) = start(limits, stream(writer));
    // The first line fills the pipe and makes the writer wait, the second fills the queue.
    let line = "x".repeat(1 << 20);
    while queue.lost() < 3 {
        queue.push(text(&line));
    }
    let (sender, notices) = bounded(10);
    thread::spawn(move || {
        let lines = BufReader::new(reader).lines().map_while(Result::ok);
        lines
            .filter_map(|line| noticed(&line))
            .try_for_each(|lines| sender.send(lines))
    });
    // One notice or more, as the writer may have come to take a line in between.
    let mut mentioned = 0;
    while mentioned < 3 {
        mentioned += notices
            .recv_timeout(WATCHDOG)
            .expect("nothing else is pushed");
    }
    assert_eq!((mentioned, queue.lost()), (3, 3));
}

#[test]
fn a_broken_pipe_is_reported_once_and_counted() {
    let (reader, writer) = std::io::pipe().unwrap();
    let (queue, mut writer, reports) = pair(ROOMY, stream(writer));
    drop(reader);
    for _ in 0..20 {
        queue.push(text("the second of two"));
        write(&mut writer, "lines");
    }
    assert_eq!(queue.lost(), 40);
    let report = report(&reports);
    assert!(
        report.starts_with("cannot write the log to the test: Broken pipe"),
        "{report}"
    );
    assert!(reports.is_empty());
}

#[test]
fn a_full_disk_is_reported_once_and_counted() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let (queue, mut writer, reports) = pair(ROOMY, stream(full));
    for _ in 0..3 {
        write(&mut writer, "line");
    }
    assert_eq!(queue.lost(), 3);
    assert!(report(&reports).contains("No space left"));
    assert!(reports.is_empty());
}

#[test]
fn says_what_is_missing_when_the_output_works_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let obstacle = dir.path().join("log.1");
    let options = LogFileOptions {
        path: path.clone(),
        max_bytes: 8,
        max_files: 2,
    };
    let output = Output::open(options).unwrap();
    let (queue, mut writer, reports) = pair(ROOMY, output);
    write(&mut writer, "first");
    std::fs::create_dir(&obstacle).unwrap();
    write(&mut writer, "second");
    write(&mut writer, "third");
    std::fs::remove_dir(&obstacle).unwrap();
    write(&mut writer, "fourth");

    assert_eq!(queue.lost(), 2);
    assert_eq!(reports.len(), 1);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "fourth\n");
    let notice = std::fs::read_to_string(&obstacle).unwrap();
    assert!(
        notice.starts_with("… 2 log lines were not written: "),
        "{notice}"
    );
}

#[test]
fn a_non_blocking_stream_gets_everything() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    let (queue, ended, reports) = start(ROOMY, stream(ours));
    let line = "y".repeat(1 << 20);
    for _ in 0..4 {
        queue.push(text(&line));
    }
    let reading = thread::spawn(move || {
        let mut text = Vec::new();
        theirs.read_to_end(&mut text).unwrap();
        text.len()
    });
    end(&queue, &ended, WATCHDOG);
    assert_eq!(reading.join().unwrap(), 4 * (line.len() + 1));
    assert!(reports.is_empty());
}

#[test]
fn closing_writes_what_is_queued_and_ends_the_thread() {
    let (reader, writer) = std::io::pipe().unwrap();
    let (queue, ended, _) = start(ROOMY, stream(writer));
    for number in 0..20_000 {
        queue.push(text(&number.to_string()));
    }
    assert_eq!(queue.lost(), 0);
    let reading = thread::spawn(move || read_to_end(reader));
    end(&queue, &ended, WATCHDOG);
    let written = reading.join().unwrap();
    assert!(
        written
            .lines()
            .map(|line| line.parse::<u32>().unwrap())
            .eq(0..20_000)
    );
    queue.push(text("late"));
    assert_eq!(queue.lost(), 1);
}

#[test]
fn a_stalled_reader_does_not_hold_up_the_end() {
    let (reader, writer) = std::io::pipe().unwrap();
    let (queue, ended, _) = start(ROOMY, stream(writer));
    queue.push(text(&"z".repeat(1 << 20)));
    end(&queue, &ended, Duration::from_millis(50));
    drop(reader);
}

#[test]
fn reopens_before_the_next_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let file = Output::open(LogFileOptions::new(&path)).unwrap();
    let (queue, mut writer, reports) = pair(ROOMY, file);
    let handle = LogHandle {
        events: queue.clone(),
        errors: queue,
        errors_in_events: true,
        options: LogOptions::default(),
    };
    write(&mut writer, "old");
    std::fs::rename(&path, dir.path().join("moved")).unwrap();
    handle.reopen();
    write(&mut writer, "new");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "new\n");

    // A path that cannot be opened keeps the old file in use, and is reported.
    std::fs::rename(&path, dir.path().join("moved again")).unwrap();
    std::fs::create_dir(&path).unwrap();
    handle.reopen();
    write(&mut writer, "kept");
    assert_eq!(
        std::fs::read_to_string(dir.path().join("moved again")).unwrap(),
        "new\nkept\n"
    );
    let report = report(&reports);
    assert!(report.starts_with("cannot reopen the log: "), "{report}");
    assert_eq!(handle.elided(), 0);
}

#[test]
fn a_line_cut_off_by_a_failure_is_ended() {
    let (broken, mut theirs) = UnixStream::pair().unwrap();
    let (_queue, mut writer, _) = pair(ROOMY, stream(broken));
    // The reader takes the beginning of a line that exceeds the socket's buffer, then leaves.
    let reading = thread::spawn(move || theirs.read_exact(&mut [0; 4096]).unwrap());
    write(&mut writer, &"w".repeat(4 << 20));
    reading.join().unwrap();

    let (reader, working) = std::io::pipe().unwrap();
    writer.output = stream(working);
    write(&mut writer, "next");
    drop(writer);
    let text = read_to_end(reader);
    assert!(
        text.starts_with("\n… 1 log lines were not written: "),
        "{text}"
    );
    assert!(text.ends_with("\nnext\n"), "{text}");
}
