//! What is told over time: history, marks, and whether the server is ready.

use super::hostility::{WATCHDOG, ended, exchange, refusal};
use super::*;
use crate::history::Sampler;
use crate::recorder::StreamedRecordings;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use ttmem_report::PeakBytes;

#[test]
fn a_history_has_one_value_per_step() {
    let mut ledger = empty_ledger();
    let process = joined(&mut ledger, 4001);
    let at = n150().dram.base;
    apply(&mut ledger, process, 5, allocated(1, Class::Dram, at, 2048));
    let (ledger, histories, geometry) = (
        ledger_thread(ledger),
        Histories::default(),
        GeometryCache::default(),
    );
    let sampler =
        Sampler::start(ledger.clone(), histories.clone(), geometry.clone(), || NOW).unwrap();
    let live = Live {
        ledger: ledger.clone(),
        histories,
        journal: Journal::default(),
        recordings: StreamedRecordings::new(ledger.clone()),
        machine: MachineFigures::default(),
    };
    let state = ReadState {
        live: Some(live),
        geometry,
        ..state(ledger, facts)
    };
    let served = Served::from(state, HttpLimits::SOCKET);
    let client = served.client();
    let began = Instant::now();
    let history = loop {
        let history = client.history(60).unwrap();
        if !history.times.is_empty() {
            break history;
        }
        assert!(history.devices.is_empty(), "nothing is known yet");
        assert!(began.elapsed() < WATCHDOG, "nothing was sampled");
        thread::sleep(Duration::from_millis(50));
    };
    drop(sampler);
    let end = Timestamp::from_unix_nanos(NOW + 1_000_000_000);
    assert_eq!((history.step_seconds, history.times), (1, vec![end]));
    assert_eq!(history.time, Timestamp::from_unix_nanos(NOW));
    let ids: Vec<_> = history
        .devices
        .iter()
        .map(|each| (each.id, each.unique_id))
        .collect();
    let snapshot = client.snapshot().unwrap();
    let expected: Vec<_> = snapshot
        .devices
        .iter()
        .map(|each| (each.id, each.unique_id))
        .collect();
    assert_eq!(ids, expected);
    for (told, device) in history.devices.iter().zip(&snapshot.devices) {
        assert_eq!(told.dram_bytes, [Some(12 * 2048)]);
        assert_eq!(told.l1_bytes, [Some(0)]);
        assert_eq!(told.occupied_bytes, [device.l1.occupied_bytes]);
        assert_eq!(
            told.dram_largest_free_bytes,
            [device.dram.largest_free_bytes_per_bank]
        );
        assert_eq!(
            (told.dispatches.as_slice(), told.scope.as_ref()),
            (&[Some(0)][..], None)
        );
    }
    for (seconds, step) in [
        (1, 1),
        (600, 1),
        (601, 10),
        (7200, 10),
        (7201, 60),
        (86_400, 60),
    ] {
        assert_eq!(
            client.history(seconds).unwrap().step_seconds,
            step,
            "{seconds}"
        );
    }
    for seconds in [0, 86_401, u32::MAX] {
        let told = refusal(client.history(seconds));
        assert_eq!(told, (400, "bad_request".to_owned()), "{seconds}");
    }
}

#[test]
fn from_a_mark_on_peaks_are_counted_anew() {
    let mut ledger = empty_ledger();
    let process = joined(&mut ledger, 4001);
    let at = n150().dram.base;
    apply(&mut ledger, process, 5, allocated(1, Class::Dram, at, 2048));
    let freed = EventKind::BufferFreed {
        mesh: BOTH,
        buffer: BufferId(1),
    };
    apply(&mut ledger, process, 6, freed);
    apply(&mut ledger, process, 7, allocated(2, Class::Dram, at, 64));
    let served = Served::new(ledger);
    let client = served.client();
    assert_eq!(client.snapshot().unwrap().devices[0].peaks_since_marks, []);
    let marked = client.mark("warm-up é").unwrap();
    assert_eq!(
        (marked.mark.name.as_str(), marked.mark.number),
        ("warm-up é", 1)
    );
    assert_eq!(marked.mark.time, Timestamp::from_unix_nanos(NOW));
    let snapshot = client.snapshot().unwrap();
    assert_eq!(snapshot.marks, [marked.mark]);
    for device in &snapshot.devices {
        let since = PeakBytes {
            dram: 12 * 64,
            ..PeakBytes::default()
        };
        assert_eq!(device.peaks_since_marks, [since]);
        assert_eq!(device.dram.peak_bytes, 12 * 2048);
    }
}

#[test]
fn a_marks_name_is_short_and_printable() {
    let served = Served::new(empty_ledger());
    let client = served.client();
    for name in ["", "a", &"x".repeat(128), &"é".repeat(128), "a b&c=%d"] {
        assert_eq!(client.mark(name).unwrap().mark.name, name);
    }
    for name in [
        "\n",
        "a\u{1b}[31m",
        "\u{85}",
        &"x".repeat(129),
        &"é".repeat(129),
    ] {
        let told = refusal(client.mark(name));
        assert_eq!(told, (400, "bad_request".to_owned()), "{name:?}");
    }
    for (request, code) in [
        ("POST /api/v1/mark", 200),
        ("POST /api/v1/mark?colour=red", 400),
        ("GET /api/v1/mark?name=a", 405),
    ] {
        let answer = exchange(&served, format!("{request} HTTP/1.1\r\n\r\n").as_bytes());
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {code} ")),
            "{request}: {answer}"
        );
    }
    let marks = client.snapshot().unwrap().marks;
    assert!(
        marks.iter().all(|mark| !mark.name.contains('\n')),
        "{marks:?}"
    );
}

#[test]
fn ready_while_the_ledger_answers() {
    let served = Served::new(empty_ledger());
    served.client().ready().unwrap();
    let (ledger, queue, _publisher) = LedgerHandle::new(wake());
    drop(queue);
    let http = HttpThread::start(state(ledger, facts), HttpLimits::SOCKET, None).unwrap();
    for (path, code) in [("/readyz", 503), ("/healthz", 200), ("/api/v1/mark", 405)] {
        let (mut near, far) = UnixStream::pair().unwrap();
        http.serve(far, READER).unwrap();
        near.write_all(format!("GET {path} HTTP/1.1\r\n\r\n").as_bytes())
            .unwrap();
        let answer = ended(&mut near);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {code} ")),
            "{path}: {answer}"
        );
    }
}
