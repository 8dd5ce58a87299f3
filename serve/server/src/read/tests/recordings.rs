//! Recordings as their readers see them.

use super::hostility::exchange;
use super::*;
use crate::recorded::tests::{Timed, is_over, recorded, session};
use serde_json::Value;
use ttmem_ledger::ApplyLimits;
use ttmem_report::{BlockMap, BufferQuery, GroupBy, MemoryClass, PeakOf, RecordingSource};

/// A server of a recording and nothing else.
fn replay(inputs: &[Timed]) -> (TempDir, Served) {
    let (folder, recorded) = recorded(inputs);
    let state = ReadState {
        live: None,
        recorded: Some(recorded),
        facts: Arc::new(facts),
        geometry: GeometryCache::default(),
        series: DeviceSeries::default(),
        names: NAMES,
    };
    (folder, Served::from(state, HttpLimits::SOCKET))
}

/// The code and the word with which a request is refused.
fn refused(served: &Served, request: &str) -> (u16, String) {
    let answer = exchange(served, request.as_bytes());
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let code = head.split(' ').nth(1).unwrap().parse().unwrap();
    let problem: ttmem_report::ErrorBody = serde_json::from_str(body).expect(&answer);
    (code, problem.error)
}

/// Every document of one instant, by its request.
fn documents(client: &ApiClient) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    let mut add = |name: String, document: Result<Value, ttmem_reader::ApiRequestError>| {
        let document = document.unwrap_or_else(|error| match error {
            ttmem_reader::ApiRequestError::Status { code, problem, .. } => {
                let word = problem.map(|problem| problem.error);
                serde_json::json!({"refused": code, "error": word})
            }
            other => panic!("{name}: {other}"),
        });
        all.push((name, document));
    };
    fn json<T: serde::Serialize>(
        answer: Result<T, ttmem_reader::ApiRequestError>,
    ) -> Result<Value, ttmem_reader::ApiRequestError> {
        answer.map(|document| serde_json::to_value(document).unwrap())
    }
    add("snapshot".to_owned(), json(client.snapshot()));
    add("processes".to_owned(), json(client.processes()));
    for device in ["0", "1", "7", "0x1"] {
        add(format!("device {device}"), json(client.device(device)));
        add(format!("l1map {device}"), json(client.l1_map(device, None)));
        let blocks: Result<BlockMap, _> = client.blocks(device, MemoryClass::L1, Some(64));
        add(format!("blocks {device}"), json(blocks));
        for of in [PeakOf::Dram, PeakOf::Cb] {
            let peak = client.peak(device, of, None, None);
            add(format!("peak {device} {of:?}"), json(peak));
        }
    }
    add(
        "buffers".to_owned(),
        json(client.buffers_where(&BufferQuery::default())),
    );
    for by in [
        GroupBy::Operation,
        GroupBy::Line,
        GroupBy::Stack,
        GroupBy::Process,
    ] {
        let query = BufferQuery {
            by: Some(by),
            ..BufferQuery::default()
        };
        add(format!("groups {by:?}"), json(client.buffer_groups(&query)));
    }
    add(
        "cbs".to_owned(),
        json(client.page::<ttmem_report::CbRow>(None, None)),
    );
    add(
        "kernels".to_owned(),
        json(client.page::<ttmem_report::KernelRow>(None, None)),
    );
    add(
        "programs".to_owned(),
        json(client.page::<ttmem_report::ProgramRow>(None, None)),
    );
    add("failures".to_owned(), json(client.failures(16)));
    add("leaks".to_owned(), json(client.leaks()));
    add("problems".to_owned(), json(client.problems()));
    for pid in [101, 103, 9999] {
        add(format!("left {pid}"), json(client.left(Some(pid), None)));
    }
    for (_name, document) in &mut all {
        forget_host(document);
    }
    all
}

/// What this machine knows of its own processes is no part of a recording.
fn forget_host(document: &mut Value) {
    match document {
        Value::Object(fields) => {
            if let Some(host) = fields.get_mut("host").filter(|host| !host.is_string()) {
                *host = Value::Null;
            }
            fields.values_mut().for_each(forget_host);
        }
        Value::Array(items) => items.iter_mut().for_each(forget_host),
        _plain => {}
    }
}

#[test]
fn every_document_at_an_instant_is_that_of_a_ledger_that_got_as_far() {
    let inputs = session(4, 240);
    let (_folder, served) = replay(&inputs);
    let mut ledger = empty_ledger();
    let mut compared = 0;
    // The last may end with an event that was recorded long before it was applied: no instant is as late as that.
    let but_the_last = inputs.len() - 1;
    for (number, (time, input)) in inputs.iter().enumerate().take(but_the_last.min(240)) {
        ledger.apply(input, ApplyLimits::NONE, None);
        if number < compared * 40 || !is_over(&inputs, number) {
            continue;
        }
        compared += 1;
        let mut state = Vec::new();
        ledger.save(&mut state);
        let copy = Ledger::load(&state, Limits::default()).unwrap();
        let at = Timestamp::from_unix_nanos(*time);
        let then = move || ServerFacts {
            time: at,
            ..facts()
        };
        let live = Served::with(copy, HttpLimits::SOCKET, then);
        let expected = documents(&live.client());
        let told = documents(&served.client().at_instant(Some(at)));
        for ((name, expected), (_name, told)) in expected.into_iter().zip(told) {
            assert_eq!(told, expected, "{name} at input {number}");
        }
    }
    assert_eq!(compared, 6);
}

#[test]
fn without_an_instant_the_end_of_a_recording_is_shown() {
    let mut inputs = session(6, 80);
    // An event may have been recorded long before it was applied: the end is not as late as that.
    let end = inputs[inputs.len() - 1].0 + 1;
    let mark = Change::SetMark {
        user: 0,
        time: end,
        name: "end".into(),
        number: 1,
    };
    inputs.push((end, mark));
    let (_folder, served) = replay(&inputs);
    let client = served.client();
    let recording = client.recording().unwrap();
    assert_eq!(recording.source, RecordingSource::File);
    assert_eq!(recording.damage, None);
    let end = inputs[inputs.len() - 1].0;
    assert_eq!(recording.to, Timestamp::from_unix_nanos(end));
    let mut snapshot = client.snapshot().unwrap();
    assert_eq!(snapshot.time, recording.to);
    assert_eq!(snapshot.server.events_applied, recording.events);
    snapshot.processes.clear();
    let mut at_end = client.at_instant(Some(recording.to)).snapshot().unwrap();
    at_end.processes.clear();
    assert_eq!(at_end, snapshot);
}

#[test]
fn the_last_events_are_those_before_the_instant() {
    let inputs = session(8, 200);
    let (_folder, served) = replay(&inputs);
    let mut times: Vec<u64> = Vec::new();
    for (number, (time, input)) in inputs.iter().enumerate() {
        if let ttmem_ledger::Change::Apply(batch) = input {
            times.extend(batch.events().iter().map(|event| event.time));
        }
        if times.len() < 20 || number % 5 != 0 || !is_over(&inputs, number) {
            continue;
        }
        let client = served.client();
        let client = client.at_instant(Some(Timestamp::from_unix_nanos(*time)));
        let last = client.last(20, None).unwrap().events;
        let told: Vec<u64> = last.iter().map(|event| event.time.unix_nanos()).collect();
        assert_eq!(told, times[times.len() - 20..], "at input {number}");
        assert!(last.iter().all(|event| event.process.is_some()));
        let pid = last[19].pid;
        let of_one = client.last(5, pid).unwrap().events;
        assert!(!of_one.is_empty() && of_one.iter().all(|event| event.pid == pid));
    }
}

#[test]
fn what_a_recording_cannot_do_is_refused_with_a_reason() {
    let (_folder, served) = replay(&session(1, 40));
    let status = |request: &str| refused(&served, request);
    let get = |target: &str| status(&format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
    let post = |target: &str| {
        status(&format!(
            "POST {target} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"
        ))
    };
    assert_eq!(get("/api/v1/events"), (404, "no_events".to_owned()));
    assert_eq!(post("/api/v1/mark?name=a"), (403, "not_allowed".to_owned()));
    assert_eq!(
        post("/api/v1/forget?pid=1"),
        (403, "not_allowed".to_owned())
    );
    let bad = (400, "bad_request".to_owned());
    for target in [
        "/api/v1/snapshot?at=",
        "/api/v1/snapshot?at",
        "/api/v1/snapshot?at=yesterday",
        "/api/v1/snapshot?at=1970-01-01T00:00:00Z&at=1970-01-01T00:00:00Z",
        "/api/v1/snapshot?attic=1",
        "/api/v1/recording?at=1970-01-01T00:00:00Z",
        "/api/v1/timeline/0?at=1970-01-01T00:00:00Z",
        "/api/v1/timeline/0?points=0",
        "/api/v1/timeline/0?points=2001",
        "/api/v1/timeline/0?by=size",
        "/api/v1/timeline/0?class=other",
        "/api/v1/timeline/0?from=1970-01-02T00:00:00Z&to=1970-01-01T00:00:00Z",
        "/api/v1/allocations/0?limit=0",
        "/api/v1/allocations/0?limit=20001",
        "/api/v1/allocations/0?from=1970-01-02T00:00:00Z&to=1970-01-01T00:00:00Z",
    ] {
        assert_eq!(get(target), bad, "{target}");
    }
    assert_eq!(
        get("/api/v1/timeline/99"),
        (404, "unknown_device".to_owned())
    );
    let client = served.client();
    client.ready().unwrap();
    for absurd in [0, u64::MAX] {
        let at = Timestamp::from_unix_nanos(absurd);
        client.clone().at_instant(Some(at)).snapshot().unwrap();
        client
            .timeline(
                "0x1",
                MemoryClass::Dram,
                GroupBy::Line,
                (None, Some(at)),
                None,
            )
            .unwrap();
        client
            .allocations("0x1", MemoryClass::Dram, (Some(at), None), None)
            .unwrap();
    }
}

#[test]
fn a_server_without_a_recording_says_so() {
    let served = Served::new(empty_ledger());
    for target in [
        "/api/v1/recording",
        "/api/v1/timeline/0",
        "/api/v1/allocations/0",
        "/api/v1/snapshot?at=2026-11-15T08:25:03Z",
        "/api/v1/history?seconds=5&at=2026-11-15T08%3A25%3A03Z",
    ] {
        let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
        let told = refused(&served, &request);
        assert_eq!(told, (404, "no_recording".to_owned()), "{target}");
    }
}
