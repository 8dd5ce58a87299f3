//! Requests that are wrong, slow or too many.

use super::stalls::{Gate, Opens};
use super::*;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use ttmem_reader::ApiRequestError;

/// Long enough that only a hang reaches it.
pub(super) const WATCHDOG: Duration = Duration::from_secs(30);

/// Sends bytes and reads until the server ends the connection.
pub(super) fn exchange(served: &Served, request: &[u8]) -> String {
    let mut stream = UnixStream::connect(&served.path).unwrap();
    stream.set_read_timeout(Some(WATCHDOG)).unwrap();
    // The server may answer and close before it has taken everything.
    let _sent = stream.write_all(request);
    ended(&mut stream)
}

pub(super) fn ended(stream: &mut UnixStream) -> String {
    let mut answer = Vec::new();
    let mut part = [0; 4096];
    loop {
        match stream.read(&mut part) {
            Ok(0) => break,
            Ok(taken) => answer.extend_from_slice(&part[..taken]),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break,
            Err(error) => panic!("{error}"),
        }
    }
    String::from_utf8(answer).unwrap()
}

/// Code and error word of a request that was refused.
pub(super) fn refusal<T: std::fmt::Debug>(outcome: Result<T, ApiRequestError>) -> (u16, String) {
    match outcome {
        Err(ApiRequestError::Status { code, problem, .. }) => (code, problem.unwrap().error),
        other => panic!("{other:?}"),
    }
}

#[test]
fn refusals_are_problems() {
    let served = Served::new(empty_ledger());
    let client = served.client();
    let bad = |outcome| assert_eq!(refusal(outcome), (400, "bad_request".to_owned()));
    bad(client.page::<ttmem_report::BufferRow>(Some("\u{1b}[31m&limit=5"), None));
    bad(client.page::<ttmem_report::BufferRow>(Some(""), None));
    bad(client.page::<ttmem_report::BufferRow>(None, Some(0)));
    bad(client.page::<ttmem_report::BufferRow>(None, Some(10_001)));
    let message = client
        .page::<ttmem_report::BufferRow>(None, Some(10_001))
        .unwrap_err()
        .to_string();
    let end = " answered 400: bad_request: limit 10001 is not between 1 and 10000";
    assert!(message.ends_with(end), "{message}");
    for (request, code, word) in [
        ("GET /api/v1/cbs?limit=x HTTP/1.1", 400, "bad_request"),
        ("GET /api/v1/cbs?limit=-1 HTTP/1.1", 400, "bad_request"),
        (
            "GET /api/v1/cbs?limit=1&limit=2 HTTP/1.1",
            400,
            "bad_request",
        ),
        ("GET /api/v1/last?count=0 HTTP/1.1", 400, "bad_request"),
        ("GET /api/v1/last?count=10001 HTTP/1.1", 400, "bad_request"),
        ("GET /api/v1/last?pid=-1 HTTP/1.1", 400, "bad_request"),
        ("POST /api/v1/last HTTP/1.1", 405, "method_not_allowed"),
        ("POST /api/v1/forget HTTP/1.1", 400, "bad_request"),
        (
            "POST /api/v1/forget?pid=4294967296 HTTP/1.1",
            400,
            "bad_request",
        ),
        ("GET /api/v2/snapshot HTTP/1.1", 404, "not_found"),
        ("GET /nothing HTTP/1.1", 404, "not_found"),
        (
            "GET /api/v1/forget?pid=1 HTTP/1.1",
            405,
            "method_not_allowed",
        ),
        ("POST /api/v1/snapshot HTTP/1.1", 405, "method_not_allowed"),
    ] {
        let answer = exchange(&served, format!("{request}\r\nHost: x\r\n\r\n").as_bytes());
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {code} ")),
            "{request}: {answer}"
        );
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let problem: ttmem_report::ErrorBody = serde_json::from_str(body).unwrap();
        assert_eq!(
            (problem.schema, problem.error.as_str()),
            (ttmem_report::SCHEMA, word),
            "{request}"
        );
        let head = head.to_ascii_lowercase();
        assert!(head.contains("content-type: application/json"), "{head}");
        assert!(
            head.contains(&format!("content-length: {}", body.len())),
            "{head}"
        );
    }
}

#[test]
fn a_parameter_that_no_document_has_is_named() {
    let served = Served::new(empty_ledger());
    for (method, target) in [
        ("GET", "/api/v1/snapshot?"),
        ("GET", "/api/v1/processes?"),
        ("GET", "/api/v1/devices/0?"),
        ("GET", "/api/v1/buffers?"),
        ("GET", "/api/v1/buffers/groups?"),
        ("GET", "/api/v1/cbs?limit=1&"),
        ("GET", "/api/v1/kernels?"),
        ("GET", "/api/v1/programs?"),
        ("GET", "/api/v1/l1map/0?"),
        ("GET", "/api/v1/blocks/0?"),
        ("GET", "/api/v1/history?"),
        ("GET", "/api/v1/events?"),
        ("GET", "/api/v1/last?"),
        ("POST", "/api/v1/forget?pid=1&"),
        ("POST", "/api/v1/mark?"),
    ] {
        let request = format!("{method} {target}limti=5 HTTP/1.1\r\n\r\n");
        let answer = exchange(&served, request.as_bytes());
        assert!(answer.starts_with("HTTP/1.1 400 "), "{request}: {answer}");
        assert!(answer.contains("`limti`"), "{request}: {answer}");
    }
}

#[test]
fn healthy_without_a_host_and_with_any_host() {
    let served = Served::new(empty_ledger());
    served.client().healthy().unwrap();
    for host in ["", "Host: \r\n", "Host: evil.example:99999\r\n"] {
        let answer = exchange(
            &served,
            format!("GET /healthz HTTP/1.1\r\n{host}\r\n").as_bytes(),
        );
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.ends_with("\r\n\r\nok\n"), "{answer}");
    }
}

#[test]
fn forgetting_needs_a_known_process_of_the_same_user() {
    let mut ledger = empty_ledger();
    let mine = joined(&mut ledger, 4001);
    let at = n150().dram.base;
    apply(&mut ledger, mine, 5, allocated(1, Class::Dram, at, 2048));
    let mut theirs = identity(Some(4002), Source::Client);
    theirs.uid = UID + 1;
    ledger.join(theirs);
    let served = Served::new(ledger);
    let client = served.client();
    assert_eq!(refusal(client.forget(1)), (404, "unknown_pid".to_owned()));
    assert_eq!(
        refusal(client.forget(4002)),
        (403, "not_allowed".to_owned())
    );
    let forgotten = client.forget(4001).unwrap();
    assert_eq!((forgotten.pid, forgotten.released.len()), (4001, 1));
    let released = &forgotten.released[0];
    assert_eq!((released.buffers, released.bytes), (1, 2 * 12 * 2048));
    assert_eq!(
        (released.reason.as_str(), released.time.unix_nanos()),
        ("forgotten", NOW)
    );
    assert_eq!(
        refusal(client.forget(4001)),
        (404, "unknown_pid".to_owned())
    );
}

#[test]
fn a_server_that_stops_says_so() {
    let (ledger, queue, publisher) = LedgerHandle::new(wake());
    drop((queue, publisher));
    let state = state(ledger, facts);
    let http = HttpThread::start(state, HttpLimits::SOCKET, None).unwrap();
    let (mut near, far) = UnixStream::pair().unwrap();
    http.serve(far, READER).unwrap();
    near.write_all(b"GET /api/v1/snapshot HTTP/1.1\r\n\r\n")
        .unwrap();
    let answer = ended(&mut near);
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(
        answer
            .to_ascii_lowercase()
            .contains("\r\nretry-after: 1\r\n"),
        "{answer}"
    );
    assert!(answer.contains("\"error\":\"stopping\""), "{answer}");
}

#[test]
fn garbage_is_answered_or_dropped() {
    let served = Served::new(empty_ledger());
    let bad = exchange(&served, b"GARBAGE\x00\xff not http\r\n\r\n");
    assert!(bad.starts_with("HTTP/1.1 400 "), "{bad}");
    let long_head = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "y".repeat(20_000));
    let many_headers = format!("GET / HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(100));
    for request in [long_head, many_headers] {
        let answer = exchange(&served, request.as_bytes());
        assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    }
    // A body nobody asked for is not read.
    let body = "z".repeat(300_000);
    let request = format!(
        "POST /nothing HTTP/1.1\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let answer = exchange(&served, request.as_bytes());
    assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
    served.client().healthy().unwrap();
}

/// One permit, and little patience.
const STRICT: HttpLimits = HttpLimits {
    requests: 1,
    header_timeout: Duration::from_millis(100),
    connection_timeout: Duration::from_millis(300),
    ..HttpLimits::SOCKET
};

/// Waits until the only permit is free again.
fn wait_for_permit(served: &Served) {
    let began = Instant::now();
    while served.client().healthy().is_err() {
        assert!(began.elapsed() < WATCHDOG, "the permit is still taken");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_slow_head_ends() {
    let served = Served::with(empty_ledger(), STRICT, facts);
    let mut slow = UnixStream::connect(&served.path).unwrap();
    slow.write_all(b"GET /healthz HTTP/1.1\r\nX: ").unwrap();
    wait_for_permit(&served);
    slow.set_read_timeout(Some(WATCHDOG)).unwrap();
    let told = ended(&mut slow);
    assert!(!told.contains(" 200 "), "{told}");
}

#[test]
fn who_finds_no_permit_is_told_to_come_back() {
    let limits = HttpLimits {
        header_timeout: WATCHDOG,
        connection_timeout: WATCHDOG,
        ..STRICT
    };
    let gate = Arc::new(Gate::default());
    let passed = Arc::clone(&gate);
    let served = Served::with(empty_ledger(), limits, move || {
        passed.pass();
        facts()
    });
    *gate.closed.lock().unwrap() = true;
    let opens = Opens(&gate);
    let mut slow = UnixStream::connect(&served.path).unwrap();
    slow.write_all(b"GET /api/v1/snapshot HTTP/1.1\r\n\r\n")
        .unwrap();
    gate.wait_for(1);
    let answer = exchange(&served, b"GET /healthz HTTP/1.1\r\n\r\n");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 503 "), "{answer}");
    let head = head.to_ascii_lowercase();
    assert!(head.contains("\r\nretry-after: 1\r\n"), "{answer}");
    assert!(head.contains(&format!("content-length: {}", body.len())));
    assert!(body.contains("\"error\":\"busy\""), "{answer}");
    drop(opens);
    wait_for_permit(&served);
}

/// The only permit, and nobody goes because of the time.
const PATIENT: HttpLimits = HttpLimits {
    requests: 1,
    header_timeout: WATCHDOG,
    connection_timeout: WATCHDOG,
    ..HttpLimits::SOCKET
};

#[test]
fn readers_of_one_byte_keep_nobody_out_however_many_they_are() {
    let served = Served::with(empty_ledger(), PATIENT, facts);
    let mut slow = Vec::new();
    for _reader in 0..300 {
        let mut stream = UnixStream::connect(&served.path).unwrap();
        // One that had to go already cannot be written to.
        let _gone = stream.write_all(b"G");
        slow.push(stream);
    }
    for _reader in 0..10 {
        served.client().snapshot().unwrap();
    }
    // The oldest went for the newest, and are told why.
    for stream in &mut slow[..100] {
        stream.set_read_timeout(Some(WATCHDOG)).unwrap();
        let told = ended(stream);
        assert!(told.starts_with("HTTP/1.1 503 "), "{told}");
    }
}

#[test]
fn one_process_takes_no_more_than_its_share_of_requests_and_streams() {
    let gate = Arc::new(Gate::default());
    let passed = Arc::clone(&gate);
    let state = state(ledger_thread(empty_ledger()), move || {
        passed.pass();
        facts()
    });
    let limits = HttpLimits {
        requests: 16,
        documents: 16,
        ..PATIENT
    };
    let http = HttpThread::start(state, limits, None).unwrap();
    let ask = |uid, process, path: &str| {
        let (mut near, far) = UnixStream::pair().unwrap();
        http.serve(far, Holder { uid, process }).unwrap();
        near.set_read_timeout(Some(WATCHDOG)).unwrap();
        near.write_all(format!("GET {path} HTTP/1.1\r\n\r\n").as_bytes())
            .unwrap();
        near
    };
    *gate.closed.lock().unwrap() = true;
    let opens = Opens(&gate);
    let held: Vec<_> = (0..7)
        .map(|count| {
            let stream = ask(1, 1, "/api/v1/snapshot");
            gate.wait_for(count + 1);
            stream
        })
        .collect();
    let refused = ended(&mut ask(1, 1, "/healthz"));
    assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
    for (uid, process) in [(1, 2), (2, 1)] {
        let answer = ended(&mut ask(uid, process, "/healthz"));
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
    drop(opens);
    for mut stream in held {
        let answer = ended(&mut stream);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
    let status = |stream: &mut UnixStream| {
        let mut start = [0; 12];
        stream.read_exact(&mut start).unwrap();
        start
    };
    let mut streams: Vec<_> = (0..24).map(|_| ask(1, 1, "/api/v1/events")).collect();
    let served = streams.iter_mut().filter_map(|stream| {
        let start = status(stream);
        (&start == b"HTTP/1.1 200").then_some(())
    });
    assert_eq!(served.count(), 10, "of twenty-four");
    let mut other = ask(1, 2, "/api/v1/events");
    assert_eq!(&status(&mut other), b"HTTP/1.1 200");
}

#[test]
fn a_reader_that_does_not_read_loses_its_permit() {
    let mut ledger = empty_ledger();
    let process = joined(&mut ledger, 4001);
    for buffer in 1..=10_000 {
        let what = allocated(buffer, Class::Dram, n150().dram.base + 64 * buffer, 64);
        apply(&mut ledger, process, buffer, what);
    }
    let served = Served::with(ledger, STRICT, facts);
    // Asks for more than a socket holds.
    let mut stalled = UnixStream::connect(&served.path).unwrap();
    stalled
        .write_all(b"GET /api/v1/buffers?limit=10000 HTTP/1.1\r\n\r\n")
        .unwrap();
    wait_for_permit(&served);
    stalled.set_read_timeout(Some(WATCHDOG)).unwrap();
    let part = ended(&mut stalled);
    assert!(part.len() < 1_000_000, "{} bytes were sent", part.len());
}

#[test]
fn a_reader_that_ends_its_side_behind_its_request_is_answered() {
    let served = Served::with(empty_ledger(), HttpLimits::SOCKET, || {
        // Long enough that its end is seen before the answer is made.
        thread::sleep(Duration::from_millis(50));
        facts()
    });
    let half_closed = |request: &[u8]| {
        let mut stream = UnixStream::connect(&served.path).unwrap();
        stream.set_read_timeout(Some(WATCHDOG)).unwrap();
        stream.write_all(request).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        ended(&mut stream)
    };
    for _ in 0..5 {
        let answer = half_closed(b"GET /api/v1/snapshot HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        assert!(answer.contains("\"schema\":1"), "{answer}");
    }
    // What is no whole request ends with its connection.
    let answer = half_closed(b"GET /api/v1/snapshot HTTP/1.1\r\nHost: x");
    assert!(!answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

#[test]
fn of_200_readers_at_once_each_is_answered_or_told_to_come_back() {
    let limits = HttpLimits::SOCKET;
    let served = Served::with(empty_ledger(), limits, || {
        // Long enough that the permits run out.
        thread::sleep(Duration::from_millis(20));
        facts()
    });
    let answered = AtomicUsize::new(0);
    let refused = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _reader in 0..200 {
            scope.spawn(|| match served.client().with_timeout(WATCHDOG).snapshot() {
                Ok(_snapshot) => answered.fetch_add(1, Ordering::Relaxed),
                other => {
                    assert_eq!(refusal(other), (503, "busy".to_owned()));
                    refused.fetch_add(1, Ordering::Relaxed)
                }
            });
        }
    });
    let (answered, refused) = (answered.into_inner(), refused.into_inner());
    assert_eq!(answered + refused, 200);
    // A sixteenth is for other users.
    assert!(answered >= limits.requests / 16 * 15, "{answered}");
    served.client().snapshot().unwrap();
}

#[test]
fn stopping_does_not_wait_for_idle_connections() {
    let state = state(ledger_thread(empty_ledger()), facts);
    let http = HttpThread::start(state, HttpLimits::SOCKET, None).unwrap();
    let (mut near, far) = UnixStream::pair().unwrap();
    http.serve(far, READER).unwrap();
    near.write_all(b"GET /").unwrap();
    drop(http);
    assert_eq!(ended(&mut near), "");
}
