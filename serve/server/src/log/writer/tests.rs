//! Order, gaps and dumps, with the writer run by the test where that matters.

use std::fs;
use std::io::{self, PipeReader, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ttmem_event::{BufferId, Class, Event, EventKind, MeshId, ProgramId};
use ttmem_ledger::testing::TestLedger;
use ttmem_ledger::{Anomaly, Change, Effect, EffectKind, Ledger, Limits};
use ttmem_report::StreamEvent;

use super::*;
use crate::journal::{Batch, Names};
use crate::log::output::LogFileOptions;
use crate::log::queue::LogHandle;
use crate::log::threads::{EVENT_LIMITS, Log};

/// Generous: only a defect is ever that slow.
const WATCHDOG: Duration = Duration::from_secs(60);

const QUEUE_MESSAGES: usize = EVENT_LIMITS.messages;
const QUEUE_ENTRIES: usize = EVENT_LIMITS.entries;

/// A log into a file, with its errors in the file and in a pipe.
struct TestLog {
    log: Log,
    errors: PipeReader,
    path: PathBuf,
    _dir: tempfile::TempDir,
}

fn file_at(path: &Path) -> Output {
    let mut options = LogFileOptions::new(path);
    options.max_bytes = 1 << 30;
    Output::open(options).unwrap()
}

impl TestLog {
    fn start(options: LogOptions) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let (errors, writer) = io::pipe().unwrap();
        let writer = Output::stream(writer, "the test's errors");
        let log = Log::with_outputs((file_at(&path), true), writer, WATCHDOG, options).unwrap();
        Self {
            log,
            errors,
            path,
            _dir: dir,
        }
    }

    /// What the log has in all, and what of it on the error stream.
    fn finish(mut self) -> (String, String) {
        drop(self.log);
        let mut errors = String::new();
        self.errors.read_to_string(&mut errors).unwrap();
        (fs::read_to_string(&self.path).unwrap(), errors)
    }
}

/// What is in the log after `say` filled its queue, which nobody reads meanwhile.
fn written_afterwards(options: LogOptions, say: impl FnOnce(&LogHandle)) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let (events, receiver) = Queue::new(EVENT_LIMITS);
    let (errors, _ignored) = Queue::new(EVENT_LIMITS);
    let received = (&events, receiver);
    let writer = Writer::new(received, file_at(&path), Filter::Everything, options, None);
    let handle = LogHandle {
        events,
        errors,
        errors_in_events: true,
        options,
    };
    say(&handle);
    drop(handle);
    writer.run();
    fs::read_to_string(path).unwrap()
}

fn entry(kind: EffectKind) -> LogEntry {
    LogEntry {
        effect: Effect {
            time: 0,
            process: 0,
            device: Some(0),
            kind,
        },
        pid: Some(1),
        device: Some(0),
    }
}

fn freed(id: u64) -> LogEntry {
    entry(EffectKind::BufferReleased {
        class: Class::L1,
        id,
        bytes: 1,
        references: 0,
    })
}

fn invalid_device() -> LogEntry {
    entry(EffectKind::Contradicted {
        anomaly: Anomaly::InvalidDevice,
        event: EventKind::LegacyFreed { device: -1, id: 0 },
    })
}

fn freed_line(id: u64) -> String {
    format!("✗ [PID 1] Freed buffer {id:#x} on device 0 (1 bytes, FINAL)")
}

fn empty_view() -> View {
    Ledger::new(Limits::default()).view()
}

const SUMMARY: [&str; 3] = [
    "📊 Current Statistics:",
    "  Active allocations: 0",
    "  Audit: ✓ every total equals the live set",
];

const QUIET: LogOptions = LogOptions {
    format: LogFormat::Plain,
    quiet: true,
    verbose: false,
};

fn say_all(handle: &LogHandle) {
    handle.entries(vec![freed(1), invalid_device(), freed(2)]);
    handle.note(Note::ServerStopped);
    handle.dump(DumpKind::Summary, empty_view());
    handle.entries(vec![freed(3)]);
    handle.note(Note::UnknownMessage {
        pid: None,
        message_type: 7,
    });
}

#[test]
fn the_log_keeps_the_order_of_everything() {
    let log = TestLog::start(LogOptions::default());
    let handle = log.log.handle();
    say_all(&handle);
    let (text, errors) = log.finish();
    let invalid = "⚠️  Invalid device_id -1 - ignoring message";
    let unknown = "Unknown message type: 7";
    let mut expected = vec![freed_line(1), invalid.to_owned(), freed_line(2)];
    expected.push("🛑 Allocation Server stopped".to_owned());
    expected.extend(SUMMARY.map(str::to_owned));
    expected.extend([freed_line(3), unknown.to_owned()]);
    assert_eq!(text.lines().collect::<Vec<_>>(), expected);
    assert_eq!(errors.lines().collect::<Vec<_>>(), [invalid, unknown]);
    assert_eq!(handle.elided(), 0);
    handle.entries(vec![freed(4)]);
    assert_eq!(handle.elided(), 1);
}

#[test]
fn quiet_keeps_errors_and_dumps() {
    let log = TestLog::start(QUIET);
    say_all(&log.log.handle());
    let (text, errors) = log.finish();
    assert_eq!(text.lines().count(), 2 + SUMMARY.len(), "{text}");
    assert!(text.contains(SUMMARY[0]));
    assert_eq!(errors.lines().count(), 2);
}

fn log_events(handle: &LogHandle, whats: Vec<EventKind>, anomalies: Vec<(usize, Anomaly)>) {
    let count = whats.len();
    let events = whats.into_iter().map(|kind| Event { time: 5, kind });
    let batch = Arc::new(Batch {
        first_id: 1,
        pid: Some(1),
        events: events.collect::<Vec<_>>().into(),
        anomalies,
        ..Batch::default()
    });
    let names = Names::default();
    handle.batches(vec![NamedBatch { batch, names }], count);
}

/// What logs with these options have of events of every kind: all of it, and what of it is an error.
fn logged(options: LogOptions) -> (String, String) {
    let log = TestLog::start(options);
    let destroyed = EventKind::ProgramDestroyed {
        program: ProgramId(1),
    };
    let freed = EventKind::LegacyFreed { device: -1, id: 16 };
    let whats = vec![destroyed, freed, destroyed, freed];
    let anomalies = [Anomaly::UnknownProgram, Anomaly::InvalidDevice];
    let anomalies = (2..).zip(anomalies).collect();
    log_events(&log.log.handle(), whats, anomalies);
    log.finish()
}

#[test]
fn a_json_log_has_events_in_the_form_of_the_read_api() {
    let json = |quiet, verbose| {
        let format = LogFormat::Json;
        let options = LogOptions {
            format,
            quiet,
            verbose,
        };
        let (text, errors) = logged(options);
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        let lines: Vec<StreamEvent> = lines.collect();
        let shown = lines.iter().map(|line| (line.id, line.event.anomaly()));
        let shown: Vec<_> = shown
            .map(|(id, anomaly)| (id, anomaly.map(str::to_owned)))
            .collect();
        assert_eq!(errors.lines().count(), 1, "{errors}");
        (lines, shown)
    };
    let program = (3, Some("unknown_program".to_owned()));
    let device = (4, Some("invalid_device".to_owned()));
    let (lines, shown) = json(false, false);
    assert_eq!(shown, [(2, None), program.clone(), device.clone()]);
    assert_eq!(lines[0].event.event, "legacy_freed");
    let (_, shown) = json(false, true);
    assert_eq!(shown, [(1, None), (2, None), program, device.clone()]);
    let (_, shown) = json(true, false);
    assert_eq!(shown, [device], "only what goes to the error stream");
}

#[test]
fn every_kind_of_event_is_one_valid_object() {
    for layout in ttmem_event::event::kinds::LAYOUT {
        for byte in [0, 1, 255] {
            let mut record = [byte; ttmem_event::event::EVENT_BYTES];
            record[0] = layout.kind;
            for field in layout.fields {
                // Words and flags cannot be just anything.
                if byte == 255 && (!field.values.is_empty() || field.type_name == "bool") {
                    record[field.offset] = 1;
                }
            }
            let batch = Batch {
                events: vec![Event::decode(&record).unwrap()].into(),
                ..Batch::default()
            };
            let mut line = String::new();
            json::write_line(&mut line, &batch.event(0, &Names::default()));
            let json: serde_json::Value = serde_json::from_str(&line).unwrap();
            let fields = json["fields"].as_object().unwrap();
            assert_eq!(fields.len(), layout.fields.len(), "{}", layout.name);
        }
    }
}

#[test]
fn json_logs_have_nothing_but_objects() {
    let options = LogOptions {
        format: LogFormat::Json,
        ..LogOptions::default()
    };
    let text = written_afterwards(options, |handle| {
        let freed = |id| EventKind::BufferFreed {
            mesh: MeshId(1),
            buffer: BufferId(id),
        };
        let full = (0..).map(freed).take(QUEUE_ENTRIES).collect();
        let more = vec![freed(0); 3];
        log_events(handle, full, Vec::new());
        log_events(handle, more, Vec::new());
        handle.note(Note::ServerStopped);
        handle.dump(DumpKind::Summary, empty_view());
        log_events(handle, vec![freed(0)], Vec::new());
        handle.note(Note::UnknownMessage {
            pid: None,
            message_type: 7,
        });
    });
    let lines = text.lines().map(|line| {
        let json: serde_json::Value = serde_json::from_str(line).unwrap();
        json["event"].as_str().unwrap().to_owned()
    });
    let after: Vec<String> = lines.skip(QUEUE_ENTRIES).collect();
    // The first batch filled the queue: every entry after it is counted, notes still fit.
    assert_eq!(
        after,
        [
            "log_gap",
            "server_stopped",
            "dump",
            "log_gap",
            "unknown_message"
        ]
    );
}

#[test]
fn a_gap_is_mentioned_where_it_is() {
    let text = written_afterwards(LogOptions::default(), |handle| {
        handle.entries(vec![freed(1); QUEUE_ENTRIES]);
        handle.entries(vec![freed(2); 7]);
        handle.note(Note::ProcessReturned { pid: Some(1) });
        handle.entries(vec![freed(3); 2]);
        assert_eq!(handle.elided(), 9);
    });
    let after: Vec<&str> = text.lines().skip(QUEUE_ENTRIES).collect();
    assert_eq!(
        after,
        [
            "… 7 log lines were not written: they came faster than they could be written",
            "✓ [PID 1] Connected again",
            "… 2 log lines were not written: they came faster than they could be written",
        ]
    );
}

#[test]
fn of_waiting_dumps_the_newest_is_printed_in_its_place() {
    let text = written_afterwards(LogOptions::default(), |handle| {
        let mut ledger = Ledger::new(Limits::default());
        handle.dump(DumpKind::Summary, ledger.view());
        handle.note(Note::ServerStopped);
        ledger.make(Change::Refuse {
            process: 0,
            anomaly: Anomaly::Malformed,
            count: 1,
        });
        handle.dump(DumpKind::Kernels, ledger.view());
        handle.dump(DumpKind::Summary, ledger.view());
        handle.note(Note::ProcessReturned { pid: None });
    });
    let places = [
        "🛑 Allocation Server stopped",
        "📋 DUMP_KERNELS complete.",
        "📊 Current Statistics:",
        "  Anomalies: 1 (malformed 1)",
        "✓ [PID ?] Connected again",
    ]
    .map(|line| {
        let lines = text.lines().enumerate();
        let mut found = lines.filter(|(_, other)| *other == line);
        let (place, _) = found.next().expect(line);
        assert!(found.next().is_none(), "twice: {line}");
        place
    });
    assert!(places.is_sorted(), "{text}");
}

#[test]
fn a_dump_that_finds_no_room_is_printed_all_the_same() {
    let text = written_afterwards(LogOptions::default(), |handle| {
        for _ in 0..QUEUE_MESSAGES {
            handle.note(Note::ServerStopped);
        }
        handle.dump(DumpKind::Summary, empty_view());
        handle.note(Note::ServerStopped);
        assert_eq!(handle.elided(), 1);
    });
    let lines: Vec<&str> = text.lines().skip(QUEUE_MESSAGES).collect();
    assert_eq!(
        lines[0],
        "… 1 log lines were not written: they came faster than they could be written"
    );
    assert_eq!(lines[1..], SUMMARY);
}

#[test]
fn a_gap_in_json_has_the_same_facts() {
    let mut line = String::new();
    append_gap(&mut line, LogFormat::Json, 3, "disk \"full\"");
    let gap: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(gap["event"], "log_gap");
    assert_eq!(gap["lines"], 3);
    assert_eq!(gap["reason"], "disk \"full\"");
}
