//! The thread with a log of its own, and what it keeps of events.

mod fairness;
mod recorded;

use super::*;
use crate::log::{Log, LogFileOptions, LogFormat, LogOptions, LogTarget};
use ttmem_event::{Class, Event, EventKind, Source};
use ttmem_ledger::{Departure, ProcessIdentity, Resync};

const PROCESS: ProcessNumber = ProcessNumber(1);

/// What a log and the journal have of an old sender that allocates one id with two sizes and
/// then frees on a device that cannot be: the log's lines, and the anomalies by event.
fn contradicted(format: LogFormat, quiet: bool) -> (String, Vec<Option<String>>) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    let options = LogOptions {
        format,
        quiet,
        verbose: false,
    };
    let log = Log::start(LogTarget::File(LogFileOptions::new(&path)), options).unwrap();
    let (answers, _answered) = crossbeam_channel::bounded(16);
    let journal = Journal::default();
    let reader = journal.clone();
    let flags = rustix::event::EventfdFlags::empty();
    let config = LedgerThreadConfig {
        devices: Vec::new(),
        log: log.handle(),
        answers,
        wake: Arc::new(rustix::event::eventfd(0, flags).unwrap()),
        uid: 0,
        journal,
        taps: Vec::new(),
    };
    let (ledger, thread) = start(config).unwrap();
    let identity = ProcessIdentity {
        pid: Some(7),
        start_time: None,
        instance: None,
        uid: 0,
        name: "old".into(),
        source: Source::Legacy,
        command: "".into(),
        visible_devices: "".into(),
    };
    let allocated = |size_bytes| EventKind::LegacyAllocated {
        device: 0,
        class: Class::L1,
        size_bytes,
        id: 16,
    };
    let freed = EventKind::LegacyFreed { device: -1, id: 16 };
    let kinds = [allocated(64), allocated(128), freed];
    let events = kinds.map(|kind| Event { time: 5, kind }).to_vec();
    let join = Command::Join(PROCESS, identity, 7);
    assert_eq!(ledger.send(Lane::Process(PROCESS), join), Pushed::Queued);
    let events = Command::Process(PROCESS, ProcessCommand::Events(events.into()));
    assert_eq!(ledger.send(Lane::Process(PROCESS), events), Pushed::Queued);
    assert!(ledger.catch_up());
    let view = ledger.wait_for_view().unwrap();
    assert!(ledger.catch_up());
    let last = reader.last(10, None).document(&view);
    let anomalies = last.events.iter().map(|event| event.anomaly());
    let anomalies = anomalies.map(|anomaly| anomaly.map(str::to_owned));
    let anomalies = anomalies.collect();
    ledger.stop();
    thread.join().unwrap();
    drop(log);
    (std::fs::read_to_string(path).unwrap(), anomalies)
}

#[test]
fn what_is_wrong_with_an_event_is_known_however_quiet_the_log_is() {
    let invalid = "⚠️  Invalid device_id -1 - ignoring message\n";
    for format in [LogFormat::Plain, LogFormat::Json] {
        for quiet in [false, true] {
            let (text, anomalies) = contradicted(format, quiet);
            let anomalies: Vec<_> = anomalies.iter().map(Option::as_deref).collect();
            let expected = [None, Some("size_changed"), Some("invalid_device")];
            assert_eq!(anomalies, expected, "{format:?}, quiet: {quiet}");
            let [error, contradiction] = match format {
                LogFormat::Plain => [invalid, "size_changed: "],
                LogFormat::Json => [
                    r#""anomaly":"invalid_device""#,
                    r#""anomaly":"size_changed""#,
                ],
            };
            assert!(text.contains(error), "{text}");
            assert_eq!(text.contains(contradiction), !quiet, "{text}");
        }
    }
}
