//! The reader against a socket that sends what each test says.

use std::io::Write;
use std::os::unix::net::UnixListener;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use tempfile::TempDir;

use super::*;
use crate::ApiClient;

const HELLO: &str = "event: hello\ndata: {\"type\":\"hello\",\"schema\":1,\
                     \"started\":\"2026-11-15T08:25:03Z\",\"newest\":4}\n\n";
const GAP: &str =
    "event: gap\ndata: {\"type\":\"gap\",\"after\":1,\"resumes\":9,\"reason\":\"slow\"}\n\n";

/// A server that answers one request with these bytes, so many at once, and then closes or waits.
fn answering(answer: impl Into<Vec<u8>>, piece: usize, stays: bool) -> (TempDir, Receiver<String>) {
    let directory = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(directory.path().join("s")).unwrap();
    let (told, request) = sync_channel(1);
    let answer = answer.into();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        let line = String::from_utf8(head).unwrap();
        told.send(line.lines().next().unwrap().to_owned()).unwrap();
        for piece in answer.chunks(piece) {
            if stream.write_all(piece).is_err() {
                return; // The reader had enough: that is what some tests are about.
            }
        }
        if stays {
            let mut rest = Vec::new();
            let _until_it_is_gone = stream.read_to_end(&mut rest);
        }
    });
    (directory, request)
}

fn reader(directory: &TempDir) -> Result<EventReader, ApiRequestError> {
    let client = ApiClient::new(directory.path().join("s"));
    client.events(Some(7))
}

/// The text as a chunked answer, so many bytes in each chunk.
fn chunked(text: &str, chunk: usize) -> String {
    let mut answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned();
    for part in text.as_bytes().chunks(chunk) {
        let part = std::str::from_utf8(part).unwrap();
        answer.push_str(&format!("{:x}\r\n{part}\r\n", part.len()));
    }
    answer
}

#[test]
fn messages_arrive_however_they_are_cut() {
    let text = format!("{HELLO}: still here\n\nid: 9\r\n{GAP}{GAP}");
    for (chunk, piece) in [(1, 1), (7, 3), (4096, 5), (100, 4096)] {
        let (directory, request) = answering(chunked(&text, chunk) + "0\r\n\r\n", piece, false);
        let messages: Result<Vec<_>, _> = reader(&directory).unwrap().collect();
        let messages = messages.unwrap();
        assert_eq!(messages.len(), 3, "{chunk} {piece}");
        assert!(matches!(&messages[0], StreamMessage::Hello(hello) if hello.newest == 4));
        assert!(matches!(&messages[2], StreamMessage::Gap(gap) if gap.resumes == 9));
        let line = request.recv().unwrap();
        assert_eq!(line, "GET /api/v1/events?after=7 HTTP/1.1");
    }
}

#[test]
fn a_wait_that_is_over_loses_nothing() {
    let text = format!("{HELLO}{GAP}");
    let cut = text.len() - 10;
    let (directory, _request) = answering(chunked(&text[..cut], 50), 4096, true);
    let mut reader = reader(&directory).unwrap();
    let wait = Duration::from_millis(20);
    let mut messages = 0;
    for _again in 0..5 {
        match reader.wait(wait).unwrap() {
            Streamed::Message(_) => messages += 1,
            Streamed::Quiet => {}
            Streamed::Ended => panic!("it goes on"),
        }
    }
    assert_eq!(messages, 1, "the second is not whole");
}

#[test]
fn a_server_that_is_killed_ends_the_stream() {
    let (directory, _request) = answering(chunked(HELLO, 4096), 4096, false);
    let mut reader = reader(&directory).unwrap();
    assert!(matches!(reader.next(), Some(Ok(StreamMessage::Hello(_)))));
    assert!(reader.next().is_none());
    assert_eq!(reader.wait(Duration::ZERO).unwrap(), Streamed::Ended);
}

#[test]
fn what_only_a_newer_reader_knows_is_passed_over() {
    let text = format!("{HELLO}data: {{\"type\":\"weather\",\"wind\":3}}\n\n{GAP}");
    let (directory, _request) = answering(chunked(&text, 4096) + "0\r\n\r\n", 4096, false);
    let messages: Result<Vec<_>, _> = reader(&directory).unwrap().collect();
    assert_eq!(messages.unwrap().len(), 2);
}

#[test]
fn what_is_no_stream_of_ours_is_an_error_and_the_end() {
    let long = format!("data: {}", "x".repeat(MESSAGE_LIMIT_BYTES));
    let lines = format!("{HELLO}{}", "data: xxxxxxxxxxxxxxxx\n".repeat(300_000));
    let other = HELLO.replace("\"schema\":1", "\"schema\":2");
    let bad_chunk = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n".to_owned();
    let mut long_chunk = chunked(HELLO, 4096);
    long_chunk.truncate(long_chunk.len() - 2);
    long_chunk.push_str("xx");
    let endless = format!(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{}",
        "1".repeat(999)
    );
    for (name, answer) in [
        ("one line", chunked(&long, 60_000)),
        ("many lines", chunked(&lines, 60_000)),
        ("another schema", chunked(&other, 4096)),
        ("no beginning", chunked(GAP, 4096)),
        ("no JSON", chunked(&format!("{HELLO}data: [\n\n"), 4096)),
        (
            "no message",
            chunked(&format!("{HELLO}data: {{\"type\":\"gap\"}}\n\n"), 4096),
        ),
        ("bad chunk", bad_chunk),
        ("chunk that lies", long_chunk),
        ("endless length", endless),
    ] {
        let (directory, _request) = answering(answer, 65_536, true);
        let mut reader = reader(&directory).unwrap();
        let error = loop {
            match reader.wait(Duration::from_millis(500)) {
                Ok(Streamed::Message(_)) => {}
                Ok(other) => panic!("{name}: {other:?}"),
                Err(error) => break error,
            }
        };
        let expected = matches!(
            error,
            ApiRequestError::Malformed { .. } | ApiRequestError::Schema { got: 2, .. }
        );
        assert!(expected, "{name}: {error:?}");
        assert!(reader.next().is_none(), "{name}");
    }
}

#[test]
fn a_refusal_is_told() {
    let body = r#"{"schema":1,"error":"too_many_streams","detail":"d"}"#;
    let answer = format!(
        "HTTP/1.1 429 X\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let (directory, _request) = answering(answer, 4096, false);
    let error = reader(&directory).unwrap_err();
    let ApiRequestError::Status {
        code: 429, problem, ..
    } = error
    else {
        panic!("{error:?}");
    };
    assert_eq!(problem.unwrap().error, "too_many_streams");
}
