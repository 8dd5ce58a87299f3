//! The client against a socket that answers what each test says.

mod tcp;

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread::{self, JoinHandle};

use tempfile::TempDir;

use super::*;

/// A server for one connection: reads the request head, answers with the given pieces.
struct OneAnswer {
    directory: TempDir,
    request: JoinHandle<String>,
}

impl OneAnswer {
    fn start(pieces: Vec<Vec<u8>>, pause: Duration) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(directory.path().join("s")).unwrap();
        let request = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                request.push(byte[0]);
            }
            for piece in pieces {
                if stream.write_all(&piece).is_err() {
                    break; // The client had enough: that is what some tests are about.
                }
                thread::sleep(pause);
            }
            String::from_utf8(request).unwrap()
        });
        Self { directory, request }
    }

    fn with(answer: impl Into<Vec<u8>>) -> Self {
        Self::start(vec![answer.into()], Duration::ZERO)
    }

    fn client(&self) -> ApiClient {
        ApiClient::new(self.directory.path().join("s"))
    }

    fn request_line(self) -> String {
        self.request
            .join()
            .unwrap()
            .lines()
            .next()
            .unwrap()
            .to_owned()
    }
}

fn sized(code: u16, body: &str) -> String {
    format!(
        "HTTP/1.1 {code} X\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

const SNAPSHOT: &str = r#"{"schema":1,"time":"2026-11-15T08:25:03Z","host":"h",
    "server":{"pid":7,"version":"0.1.0","started":"2026-11-15T08:25:00Z","uptime_seconds":3,
    "sockets":["/run/ttmem/ttmem.sock"],"clients":0,"clients_limit":null,"clients_refused":0,
    "events_applied":0,"log_lines_elided":0,"of_a_newer_server":true},
    "devices":[],"processes":[],"marks":[],"anomalies":{"unknown_free":2},"errors":[]}"#;

const EMPTY_PAGE: &str = r#"{"schema":1,"rows":[],"next":null}"#;

#[test]
fn a_snapshot_arrives_whole() {
    let server = OneAnswer::with(sized(200, SNAPSHOT));
    let snapshot = server.client().snapshot().unwrap();
    assert_eq!(snapshot.server.pid, 7);
    assert_eq!(
        snapshot.anomalies.seen().collect::<Vec<_>>(),
        [("unknown_free", 2)]
    );
    assert_eq!(server.request_line(), "GET /api/v1/snapshot HTTP/1.1");
}

#[test]
fn a_chunked_snapshot_in_small_pieces_is_the_same() {
    let (first, second) = SNAPSHOT.split_at(100);
    let answer = format!(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{first}\r\n{:x}\r\n\
         {second}\r\n0\r\n\r\n",
        first.len(),
        second.len()
    );
    let pieces = answer.as_bytes().chunks(37).map(<[u8]>::to_vec).collect();
    let server = OneAnswer::start(pieces, Duration::from_micros(100));
    let whole = OneAnswer::with(sized(200, SNAPSHOT));
    assert_eq!(
        server.client().snapshot().unwrap(),
        whole.client().snapshot().unwrap()
    );
}

#[test]
fn a_truncated_body_is_not_taken_for_an_answer() {
    let mut answer = sized(200, SNAPSHOT);
    answer.truncate(answer.len() - 1);
    let error = OneAnswer::with(answer).client().snapshot().unwrap_err();
    assert!(
        matches!(error, ApiRequestError::Malformed { .. }),
        "{error:?}"
    );
}

#[test]
fn garbage_is_named_as_such() {
    for answer in [
        &b"\x01\x02\x03\xff"[..],
        b"",
        b"SSH-2.0-x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\nno",
    ] {
        let error = OneAnswer::with(answer).client().snapshot().unwrap_err();
        assert!(
            matches!(error, ApiRequestError::Malformed { .. }),
            "{answer:?}: {error:?}"
        );
    }
}

#[test]
fn a_refusal_carries_its_reason_without_control_characters() {
    let problem = r#"{"schema":1,"error":"busy","detail":"64 readers\u001b[2J at once"}"#;
    let error = OneAnswer::with(sized(503, problem))
        .client()
        .snapshot()
        .unwrap_err();
    assert!(matches!(
        error,
        ApiRequestError::Status {
            code: 503,
            problem: Some(_),
            ..
        }
    ));
    let said = error.to_string();
    let end = "/s answered 503: busy: 64 readers\u{fffd}[2J at once";
    assert!(said.ends_with(end), "{said}");
}

#[test]
fn a_refusal_without_a_reason_is_still_a_refusal() {
    let error = OneAnswer::with(sized(404, "<html>"))
        .client()
        .healthy()
        .unwrap_err();
    let said = error.to_string();
    assert!(said.ends_with("/s answered 404"), "{said}");
}

#[test]
fn a_reason_sent_before_the_request_was_read_is_not_lost() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s");
    let listener = UnixListener::bind(&path).unwrap();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let problem = r#"{"schema":1,"error":"busy","detail":"full"}"#;
        stream.write_all(sized(503, problem).as_bytes()).unwrap();
    });
    let error = ApiClient::new(path).snapshot().unwrap_err();
    let said = error.to_string();
    assert!(said.ends_with("/s answered 503: busy: full"), "{said}");
    server.join().unwrap();
}

#[test]
fn a_silent_server_is_a_timeout() {
    let server = OneAnswer::start(vec![b"HTTP/1.1 200".to_vec()], Duration::from_millis(500));
    let client = server.client().with_timeout(Duration::from_millis(50));
    let error = client.snapshot().unwrap_err();
    assert!(
        matches!(error, ApiRequestError::Timeout { .. }),
        "{error:?}"
    );
}

/// However it drips: before the head, inside of it, and in the body.
#[test]
fn a_server_that_trickles_bytes_has_one_deadline_for_all_of_them() {
    for before in ["", "HTTP/1.1 200 OK\r\nContent-Length: 3000\r\n\r\n"] {
        let mut pieces = vec![before.as_bytes().to_vec()];
        // A byte every 10 ms never trips a timeout of a single read: 30 s of them.
        pieces.resize(3000, b"x".to_vec());
        let server = OneAnswer::start(pieces, Duration::from_millis(10));
        let begun = Instant::now();
        let error = server
            .client()
            .with_timeout(Duration::from_millis(200))
            .snapshot()
            .unwrap_err();
        assert!(begun.elapsed() < Duration::from_secs(15), "{error:?}");
        let said = error.to_string();
        assert!(said.ends_with("did not answer within 0.2 s"), "{said}");
    }
}

#[test]
fn an_end_that_comes_first_is_the_time_that_is_said() {
    let server = OneAnswer::start(vec![b"HTTP".to_vec()], Duration::from_secs(1));
    let end = Instant::now() + Duration::from_millis(300);
    let error = server.client().until(end).snapshot().unwrap_err();
    let ApiRequestError::Timeout { after, .. } = error else {
        panic!("{error:?}");
    };
    assert!(after <= Duration::from_millis(300), "{after:?}");
}

#[test]
fn a_full_backlog_is_a_timeout() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s");
    let listener = UnixListener::bind(&path).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let _waiting = UnixStream::connect(&path).unwrap();
    let client = ApiClient::new(path).with_timeout(Duration::from_millis(50));
    let error = client.healthy().unwrap_err();
    assert!(
        matches!(error, ApiRequestError::Timeout { .. }),
        "{error:?}"
    );
}

#[test]
fn absent_and_stale_sockets_mean_not_running() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s");
    let absent = ApiClient::new(&path).healthy().unwrap_err();
    drop(UnixListener::bind(&path).unwrap());
    let stale = ApiClient::new(&path).healthy().unwrap_err();
    for error in [absent, stale] {
        assert!(
            matches!(&error, ApiRequestError::NotRunning { server, .. } if *server == Address::Unix(path.clone())),
            "{error:?}"
        );
    }
}

#[test]
fn a_path_no_socket_can_have_is_an_error() {
    for path in ["x".repeat(200), "/a\0b".to_owned()] {
        let error = ApiClient::new(path).healthy().unwrap_err();
        assert!(
            matches!(error, ApiRequestError::Connect { .. }),
            "{error:?}"
        );
    }
}

#[test]
fn another_schema_is_refused_with_both_numbers() {
    let error = OneAnswer::with(sized(200, r#"{"schema":2,"new":[]}"#))
        .client()
        .snapshot();
    let said = error.unwrap_err().to_string();
    let end = "/s answers in schema 2, this program knows schema 1";
    assert!(said.ends_with(end), "{said}");
}

#[test]
fn an_answer_over_the_limit_is_refused() {
    let server = OneAnswer::with(sized(200, SNAPSHOT));
    let error = server.client().with_body_limit(100).snapshot().unwrap_err();
    assert!(
        matches!(
            error,
            ApiRequestError::TooLarge {
                limit_bytes: 100,
                ..
            }
        ),
        "{error:?}"
    );
}

#[test]
fn cursors_cannot_break_out_of_the_request_line() {
    let server = OneAnswer::with(sized(200, EMPTY_PAGE));
    let cursor = "a b&pid=1\r\nX: ü";
    assert_eq!(
        server
            .client()
            .page::<ttmem_report::BufferRow>(Some(cursor), Some(5))
            .unwrap()
            .rows,
        []
    );
    assert_eq!(
        server.request_line(),
        "GET /api/v1/buffers?cursor=a%20b%26pid%3D1%0D%0AX%3A%20%C3%BC&limit=5 HTTP/1.1"
    );
}

#[test]
fn a_page_that_points_to_itself_is_refused() {
    let server = OneAnswer::with(sized(200, r#"{"schema":1,"rows":[],"next":"c1"}"#));
    let error = server
        .client()
        .page::<ttmem_report::KernelRow>(Some("c1"), None)
        .unwrap_err();
    assert!(
        matches!(error, ApiRequestError::Malformed { .. }),
        "{error:?}"
    );
}

#[test]
fn forget_posts_the_pid() {
    let answer = r#"{"schema":1,"pid":42,"released":[]}"#;
    let server = OneAnswer::with(sized(200, answer));
    assert_eq!(server.client().forget(42).unwrap().pid, 42);
    assert_eq!(server.request_line(), "POST /api/v1/forget?pid=42 HTTP/1.1");
}

#[test]
fn questions_are_asked_in_the_servers_words() {
    let ask = |ask: &dyn Fn(ApiClient)| {
        let server = OneAnswer::with(sized(404, "{}"));
        ask(server.client());
        server.request_line()
    };
    let query = BufferQuery {
        pid: Some(7),
        class: Some(MemoryClass::L1Small),
        operation: Some("add & mul=é".into()),
        min_bytes: Some(u64::MAX),
        descending: true,
        ..BufferQuery::default()
    };
    let line = ask(&|client| drop(client.buffers_where(&query)));
    let (path, parameters) = line
        .strip_prefix("GET ")
        .and_then(|line| line.strip_suffix(" HTTP/1.1"))
        .and_then(|target| target.split_once('?'))
        .unwrap();
    assert_eq!(path, "/api/v1/buffers");
    let mut parameters: Vec<&str> = parameters.split('&').collect();
    parameters.sort_unstable();
    assert_eq!(
        parameters,
        [
            "class=l1_small",
            "descending=true",
            "min_bytes=18446744073709551615",
            "operation=add%20%26%20mul%3D%C3%A9",
            "pid=7"
        ]
    );
    let line = ask(&|client| drop(client.buffer_groups(&BufferQuery::default())));
    assert_eq!(line, "GET /api/v1/buffers/groups HTTP/1.1");
    let line = ask(&|client| drop(client.device("../x")));
    assert_eq!(line, "GET /api/v1/devices/..%2Fx HTTP/1.1");
    let line = ask(&|client| drop(client.l1_map("0x1f", Some((3, 4)))));
    assert_eq!(line, "GET /api/v1/l1map/0x1f?x=3&y=4 HTTP/1.1");
    let line = ask(&|client| drop(client.blocks("0", MemoryClass::Dram, Some(9))));
    assert_eq!(line, "GET /api/v1/blocks/0?class=dram&cells=9 HTTP/1.1");
    let line = ask(&|client| drop(client.history(60)));
    assert_eq!(line, "GET /api/v1/history?seconds=60 HTTP/1.1");
    let line = ask(&|client| drop(client.mark("a b\r\n")));
    assert_eq!(line, "POST /api/v1/mark?name=a%20b%0D%0A HTTP/1.1");
}
