//! Lanes over pipes and sockets whose readers the tests control.

use std::fs::File;
use std::io::{BufRead, BufReader, PipeReader, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::thread;

use super::*;
use crate::log::rotate::{LogFileOptions, RotatingFile};

/// Generous: only a defect is ever that slow.
const WATCHDOG: Duration = Duration::from_secs(60);

const ROOMY: Limits = Limits {
    blocks: 1 << 16,
    bytes: 1 << 30,
};

fn stream(fd: impl Into<OwnedFd>) -> Output {
    Output::Stream {
        fd: fd.into(),
        name: "the test",
    }
}

fn start_lane(limits: Limits, output: Output) -> (LaneThread, Receiver<String>) {
    let (sender, reports) = bounded(100);
    let thread = start("lane-test", limits, output, LogFormat::Plain, move |line| {
        sender.send(line).unwrap()
    });
    (thread.unwrap(), reports)
}

fn flush(thread: &LaneThread) {
    assert!(
        thread.lane().flush(Instant::now() + WATCHDOG),
        "the lane is stuck"
    );
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
        "log lines were not written: the log's reader is too slow"
    );
    Some(number.parse().unwrap())
}

#[test]
fn a_block_is_one_write_and_appears_at_once() {
    let (ours, theirs) = UnixDatagram::pair().unwrap();
    theirs.set_read_timeout(Some(WATCHDOG)).unwrap();
    let (thread, _) = start_lane(ROOMY, stream(ours));
    let mut buffer = [0; 256];
    for block in ["one line\n", "two\nlines\n", "end added"] {
        assert_eq!(thread.lane().push(block.to_owned()), Pushed::Queued);
        let length = theirs.recv(&mut buffer).unwrap();
        assert_eq!(
            str::from_utf8(&buffer[..length]).unwrap().trim_end(),
            block.trim_end()
        );
        assert_eq!(buffer[length - 1], b'\n');
    }
}

#[test]
fn lines_that_find_no_room_are_counted_where_they_are_missing() {
    let (reader, writer) = std::io::pipe().unwrap();
    let (thread, reports) = start_lane(
        Limits {
            blocks: 4,
            bytes: 1 << 30,
        },
        stream(writer),
    );
    let padding = "x".repeat(1000);
    let mut pushed = 0;
    // Until well after the pipe and the queue are full.
    while thread.lane().lost_lines() < 50 {
        thread.lane().push(format!("{pushed} {padding}\n"));
        pushed += 1;
    }
    let reading = thread::spawn(move || read_to_end(reader));
    flush(&thread);
    for _ in 0..10 {
        thread.lane().push(format!("{pushed} {padding}\n"));
        pushed += 1;
        flush(&thread);
    }
    let lost = thread.lane().lost_lines();
    thread.close(WATCHDOG);

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
    assert!(notices >= 1 && lost >= 50);
    assert!(reports.is_empty(), "slowness is no failure");
}

#[test]
fn the_last_gap_is_told_without_a_further_event() {
    let (reader, writer) = std::io::pipe().unwrap();
    let (thread, _) = start_lane(
        Limits {
            blocks: 1000,
            bytes: 1 << 20,
        },
        stream(writer),
    );
    // The first block fills the pipe and makes the writer wait, the second exceeds the bytes.
    let block = format!("{}\n", "x".repeat(1 << 20));
    while thread.lane().lost_lines() < 3 {
        thread.lane().push(block.clone());
    }
    let (sender, notices) = bounded(10);
    thread::spawn(move || {
        let lines = BufReader::new(reader).lines().map_while(Result::ok);
        lines
            .filter_map(|line| noticed(&line))
            .try_for_each(|lines| sender.send(lines))
    });
    // One notice or more, as the writer may have come to take a block in between.
    let mut told = 0;
    while told < 3 {
        told += notices
            .recv_timeout(WATCHDOG)
            .expect("nothing else is pushed");
    }
    assert_eq!((told, thread.lane().lost_lines()), (3, 3));
}

#[test]
fn a_broken_pipe_is_reported_once_and_counted() {
    let (reader, writer) = std::io::pipe().unwrap();
    let (thread, reports) = start_lane(ROOMY, stream(writer));
    drop(reader);
    for _ in 0..20 {
        thread.lane().push("two\nlines\n".to_owned());
        flush(&thread);
    }
    assert_eq!(thread.lane().lost_lines(), 40);
    let report = reports.try_recv().unwrap();
    assert!(
        report.starts_with("cannot write the log to the test: Broken pipe"),
        "{report}"
    );
    assert!(reports.is_empty());
}

#[test]
fn a_full_disk_is_reported_once_and_counted() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let (thread, reports) = start_lane(ROOMY, stream(full));
    for _ in 0..3 {
        thread.lane().push("line\n".to_owned());
        flush(&thread);
    }
    assert_eq!(thread.lane().lost_lines(), 3);
    assert!(reports.try_recv().unwrap().contains("No space left"));
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
    let (thread, reports) = start_lane(ROOMY, Output::File(RotatingFile::open(options).unwrap()));
    thread.lane().push("first\n".to_owned());
    flush(&thread);
    std::fs::create_dir(&obstacle).unwrap();
    for text in ["second\n", "third\n"] {
        thread.lane().push(text.to_owned());
        flush(&thread);
    }
    std::fs::remove_dir(&obstacle).unwrap();
    thread.lane().push("fourth\n".to_owned());
    thread.close(WATCHDOG);

    assert_eq!(thread.lane().lost_lines(), 2);
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
    let (thread, reports) = start_lane(ROOMY, stream(ours));
    let block = format!("{}\n", "y".repeat(1 << 20));
    for _ in 0..4 {
        thread.lane().push(block.clone());
    }
    let reading = thread::spawn(move || {
        let mut text = Vec::new();
        theirs.read_to_end(&mut text).unwrap();
        text.len()
    });
    thread.close(WATCHDOG);
    assert_eq!(reading.join().unwrap(), 4 * block.len());
    assert!(reports.is_empty());
}

#[test]
fn closing_writes_what_is_queued_and_ends_the_lane() {
    let (reader, writer) = std::io::pipe().unwrap();
    let (thread, _) = start_lane(ROOMY, stream(writer));
    for number in 0..20_000 {
        assert_eq!(thread.lane().push(format!("{number}\n")), Pushed::Queued);
    }
    let reading = thread::spawn(move || read_to_end(reader));
    thread.close(WATCHDOG);
    let text = reading.join().unwrap();
    assert!(
        text.lines()
            .map(|line| line.parse::<u32>().unwrap())
            .eq(0..20_000)
    );
    assert_eq!(thread.lane().push("late\n".to_owned()), Pushed::Closed);
    assert_eq!(thread.lane().lost_lines(), 1);
    assert!(!thread.lane().flush(Instant::now() + WATCHDOG));
}

#[test]
fn a_stalled_reader_holds_up_neither_flush_nor_close() {
    let (reader, writer) = std::io::pipe().unwrap();
    let (thread, _) = start_lane(ROOMY, stream(writer));
    thread.lane().push("z".repeat(1 << 20));
    let wait = Duration::from_millis(50);
    assert!(!thread.lane().flush(Instant::now() + wait));
    thread.close(wait);
    drop(reader);
}

#[test]
fn reopens_before_the_next_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let file = RotatingFile::open(LogFileOptions::new(&path)).unwrap();
    let (thread, reports) = start_lane(ROOMY, Output::File(file));
    thread.lane().push("old\n".to_owned());
    flush(&thread);
    std::fs::rename(&path, dir.path().join("moved")).unwrap();
    thread.lane().reopen();
    thread.lane().push("new\n".to_owned());
    flush(&thread);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "new\n");

    // A path that cannot be opened keeps the old file in use, and is reported.
    std::fs::rename(&path, dir.path().join("moved again")).unwrap();
    std::fs::create_dir(&path).unwrap();
    thread.lane().reopen();
    thread.lane().push("kept\n".to_owned());
    flush(&thread);
    assert_eq!(
        std::fs::read_to_string(dir.path().join("moved again")).unwrap(),
        "new\nkept\n"
    );
    let report = reports.try_recv().unwrap();
    assert!(report.starts_with("cannot reopen the log: "), "{report}");
    assert_eq!(thread.lane().lost_lines(), 0);
}

#[test]
fn a_line_cut_off_by_a_failure_is_ended() {
    let (_sender, receiver) = bounded(1);
    let (broken, mut theirs) = UnixStream::pair().unwrap();
    let mut writer = Writer {
        receiver,
        shared: Arc::new(Shared {
            limits: ROOMY,
            queued_bytes: AtomicUsize::new(0),
            unmentioned_lines: AtomicU64::new(0),
            lost_lines: AtomicU64::new(0),
            reopen_requested: AtomicBool::new(false),
        }),
        output: stream(broken),
        format: LogFormat::Plain,
        report: |_| {},
        batch: String::new(),
        flushers: Vec::new(),
        closing: false,
        failure: None,
    };
    // The reader takes the beginning of a line that exceeds the socket's buffer, then leaves.
    let reading = thread::spawn(move || theirs.read_exact(&mut [0; 4096]).unwrap());
    writer.write(format!("{}\n", "w".repeat(4 << 20)).as_bytes());
    reading.join().unwrap();

    let (reader, working) = std::io::pipe().unwrap();
    writer.output = stream(working);
    writer.write(b"next\n");
    drop(writer);
    let text = read_to_end(reader);
    assert!(
        text.starts_with("\n… 1 log lines were not written: "),
        "{text}"
    );
    assert!(text.ends_with("\nnext\n"), "{text}");
}
