//! The read API over TCP: who is answered, who is not, and that the socket never notices.

use crate::support::WATCHDOG;
use crate::support::old_client::{OldClient, request};
use crate::support::server::{TestServer, ttmem};
use crate::support::wait_until;
use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;
use ttmem_event::legacy::{Generation, RequestKind};
use ttmem_reader::{ApiClient, HttpUrl, Streamed, Token};
use ttmem_report::StreamMessage;

const LOOPBACK: &[&str] = &["--http", "127.0.0.1:0"];
const TOKEN: &str = "an-e2e.token";

/// The URL of a server, as it says itself.
fn url(server: &TestServer) -> String {
    let status = server.status();
    let sockets = status["server"]["sockets"].as_array().expect("a list");
    let urls = sockets.iter().filter_map(|socket| socket.as_str());
    let mut urls = urls.filter(|socket| socket.starts_with("http://"));
    urls.next().expect("it listens on TCP").to_owned()
}

/// Host and port of a URL.
fn authority(url: &str) -> &str {
    url.strip_prefix("http://").expect("a URL of ours")
}

/// A file with these permission bits.
fn file(folder: &Path, name: &str, content: &str, mode: u32) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, content).expect("a file");
    std::fs::set_permissions(&path, Permissions::from_mode(mode)).expect("its mode");
    path
}

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

fn ran(command: &mut Command) -> Output {
    command.output().expect("the program runs")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Sends bytes over TCP and reads until the server ends the connection.
fn exchange(url: &str, request: &[u8]) -> String {
    let mut stream = connect(url);
    // The server may answer and close before it has taken everything.
    let _sent = stream.write_all(request);
    ended(&mut stream)
}

fn connect(url: &str) -> TcpStream {
    let stream = TcpStream::connect(authority(url)).expect("the server listens");
    stream.set_read_timeout(Some(WATCHDOG)).expect("a timeout");
    stream
}

fn ended(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    let mut part = [0; 4096];
    // A reset is an end, too.
    while let Ok(count @ 1..) = stream.read(&mut part) {
        answer.extend_from_slice(&part[..count]);
    }
    String::from_utf8(answer).expect("text")
}

#[test]
fn commands_read_over_tcp_what_the_socket_says() {
    let server = TestServer::start(LOOPBACK);
    let mut client = OldClient::connect(&server.socket(), Generation::G4);
    client.send(&request(RequestKind::Alloc, 0, 4096, 0, 0x1000));
    assert_eq!(client.totals(0).dram, 4096);
    let url = url(&server);
    let listens = format!("Listening on: {url}");
    wait_until("the log says the URL", || server.log().contains(&listens));

    let over_tcp = ran(ttmem().args(["status", "--json", "--http", &url]));
    assert!(over_tcp.status.success(), "{}", said(&over_tcp));
    let over_tcp: serde_json::Value = serde_json::from_slice(&over_tcp.stdout).expect("JSON");
    assert_eq!(over_tcp["devices"], server.status()["devices"]);
    let dumped = ran(ttmem().args(["dump", "--json", "--http", &url]));
    assert_eq!(dumped.stdout, server.ask(&["dump", "--json"]).stdout);

    // Without a token nothing is changed.
    let marked = ran(ttmem().args(["mark", "x", "--http", &url]));
    assert_eq!(marked.status.code(), Some(1));
    let reason = said(&marked);
    assert!(
        reason.contains(&format!("{url} answered 403: not_allowed")),
        "{reason}"
    );
    assert!(reason.contains("--http-token-file"), "{reason}");
    assert_eq!(server.status()["marks"], serde_json::json!([]));
}

#[test]
fn variables_name_a_url_and_what_is_typed_wins() {
    let server = TestServer::start(LOOPBACK);
    let url = url(&server);
    let nowhere = "/nonexistent/ttmem.sock";
    let named = |arguments: &[&str], variables: &[(&str, &str)]| {
        let mut command = ttmem();
        command.args(["status"]).args(arguments);
        ran(command.envs(variables.iter().copied()))
    };
    let ok = |output: Output| assert!(output.status.success(), "{}", said(&output));
    ok(named(&[], &[("TTMEM_HTTP", &url)]));
    ok(named(
        &[],
        &[("TTMEM_HTTP", &url), ("TTMEM_SOCKET", nowhere)],
    ));
    ok(named(&["--http", &url], &[("TTMEM_SOCKET", nowhere)]));
    let other = named(&["--socket", nowhere], &[("TTMEM_HTTP", &url)]);
    assert_eq!(other.status.code(), Some(3), "{}", said(&other));
    assert!(said(&other).contains(nowhere), "{}", said(&other));
    let both = named(&["--socket", nowhere, "--http", &url], &[]);
    assert_eq!(both.status.code(), Some(2), "{}", said(&both));
    // A token's file is only looked at for a URL.
    let socket = server.socket();
    let token = ("TTMEM_HTTP_TOKEN_FILE", "/nonexistent/token");
    ok(named(&["--socket", text(&socket)], &[token]));
    let unread = named(&["--http", &url], &[token]);
    assert_eq!(unread.status.code(), Some(1));
    assert!(
        said(&unread).contains("/nonexistent/token"),
        "{}",
        said(&unread)
    );
}

#[test]
fn a_token_opens_an_address_that_others_can_reach() {
    let folder = tempfile::tempdir().expect("a folder");
    let right = file(folder.path(), "right", &format!("{TOKEN}\n"), 0o600);
    let wrong = file(folder.path(), "wrong", "another", 0o400);
    let options = ["--http", "0.0.0.0:0", "--http-token-file", text(&right)];
    let server = TestServer::start(&[&options[..], &["--http-host", "node.example"]].concat());
    let url = url(&server).replace("0.0.0.0", "127.0.0.1");
    let ask = |command: &[&str], token: Option<&Path>| {
        let mut ttmem = ttmem();
        ttmem.args(command).args(["--http", &url]);
        if let Some(token) = token {
            ttmem.arg("--http-token-file").arg(token);
        }
        ran(&mut ttmem)
    };
    for refused in [ask(&["status"], None), ask(&["status"], Some(&wrong))] {
        assert_eq!(refused.status.code(), Some(1));
        let reason = said(&refused);
        assert!(
            reason.contains(&format!("{url} answered 401: unauthorized")),
            "{reason}"
        );
    }
    let answered = ask(&["status"], Some(&right));
    assert!(answered.status.success(), "{}", said(&answered));
    let marked = ask(&["mark", "warm"], Some(&right));
    assert!(marked.status.success(), "{}", said(&marked));
    assert_eq!(server.status()["marks"][0]["name"], "warm");

    let get = |path: &str, host: &str, more: &str| {
        exchange(
            &url,
            format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n").as_bytes(),
        )
    };
    let bearer = format!("Authorization: Bearer {TOKEN}\r\n");
    let path = "/api/v1/snapshot";
    assert!(get(path, "node.example", &bearer).starts_with("HTTP/1.1 200 "));
    assert!(get(path, "other.example", &bearer).starts_with("HTTP/1.1 421 "));
    assert!(get("/healthz", "localhost", "").starts_with("HTTP/1.1 200 "));
    assert!(!server.log().contains(TOKEN), "a secret in the log");
}

#[test]
fn a_server_that_others_could_read_does_not_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let open = file(folder.path(), "open", TOKEN, 0o644);
    let empty = file(folder.path(), "empty", "\n", 0o600);
    let socket = folder.path().join("ttmem.sock");
    for (options, reason) in [
        (vec!["--http", "0.0.0.0:0"], "--http-token-file"),
        (vec!["--http", "[::]:0"], "such as 127.0.0.1"),
        (
            vec!["--http", "127.0.0.1:0", "--http-token-file", text(&open)],
            "chmod 600",
        ),
        (
            vec!["--http", "127.0.0.1:0", "--http-token-file", text(&empty)],
            "it is empty",
        ),
        (
            vec![
                "--http",
                "127.0.0.1:0",
                "--http-token-file",
                text(folder.path()),
            ],
            "not a regular file",
        ),
    ] {
        let mut serve = ttmem();
        serve
            .args(["serve", "--socket"])
            .arg(&socket)
            .args(&options);
        let refused = ran(&mut serve);
        assert_eq!(refused.status.code(), Some(1), "{options:?}");
        assert!(
            said(&refused).contains(reason),
            "{options:?}: {}",
            said(&refused)
        );
        assert!(!said(&refused).contains(TOKEN), "{}", said(&refused));
    }
}

#[test]
fn what_strangers_send_is_refused_with_a_reason() {
    let server = TestServer::start(LOOPBACK);
    let url = url(&server);
    let get = |headers: &str| {
        exchange(
            &url,
            format!("GET /api/v1/snapshot HTTP/1.1\r\n{headers}\r\n").as_bytes(),
        )
    };
    for (headers, code, word) in [
        ("Host: evil.example\r\n", 421, "foreign_host"),
        ("Host: localhost\r\nOrigin: null\r\n", 403, "foreign_origin"),
        (
            "Host: localhost\r\nSec-Fetch-Site: cross-site\r\n",
            403,
            "foreign_origin",
        ),
        ("Host: localhost\r\nHost: localhost\r\n", 400, "bad_request"),
        ("", 400, "bad_request"),
    ] {
        let answer = get(headers);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {code} ")),
            "{headers}: {answer}"
        );
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        let problem: ttmem_report::ErrorBody = serde_json::from_str(body).expect("a problem");
        assert_eq!(problem.error, word, "{headers}");
        assert!(
            !head.to_ascii_lowercase().contains("access-control"),
            "{head}"
        );
    }
    let huge = get(&format!(
        "Host: localhost\r\nX: {}\r\n",
        "y".repeat(1 << 20)
    ));
    assert!(
        huge.is_empty() || huge.starts_with("HTTP/1.1 431 "),
        "{huge}"
    );
    for garbage in [
        &b"\x16\x03\x01\x02\x00\x01\x00"[..],
        b"\0\0\0\0\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\n",
    ] {
        let mut stream = connect(&url);
        stream.write_all(garbage).expect("it is taken");
        stream
            .shutdown(std::net::Shutdown::Write)
            .expect("that is all");
        let answer = ended(&mut stream);
        assert!(!answer.starts_with("HTTP/1.1 200 "), "{answer}");
        assert!(!answer.starts_with("HTTP/1.1 5"), "{answer}");
    }
    assert!(get("Host: localhost\r\n").starts_with("HTTP/1.1 200 "));
}

#[test]
fn slow_strangers_take_no_permits_and_the_socket_never_notices() {
    let server = TestServer::start(LOOPBACK);
    let url = url(&server);
    let mut slow: Vec<TcpStream> = (0..200).map(|_stranger| connect(&url)).collect();
    for stream in &mut slow {
        // Those who had to go for others may be gone already.
        let _sent = stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: local");
    }
    let read = ran(ttmem().args(["status", "--http", &url, "--json"]));
    assert!(read.status.success(), "{}", said(&read));
    for _reader in 0..20 {
        assert!(server.ask(&["status"]).status.success());
    }
    let answers: Vec<String> = slow.iter_mut().map(ended).collect();
    let refused = answers
        .iter()
        .filter(|answer| answer.starts_with("HTTP/1.1 503 "));
    assert!(refused.count() > 0, "{answers:?}");
    assert!(
        !answers.iter().any(|answer| answer.contains(" 200 ")),
        "{answers:?}"
    );
}

/// What a stream brings until something is there.
fn wait_for<T>(
    stream: &mut ttmem_reader::EventReader,
    wanted: impl Fn(&StreamMessage) -> Option<T>,
) -> T {
    let mut found = None;
    wait_until("the stream brings it", || {
        let came = stream
            .wait(Duration::from_millis(100))
            .expect("the stream goes on");
        if let Streamed::Message(message) = came {
            found = wanted(&message);
        }
        found.is_some()
    });
    found.expect("just found")
}

#[test]
fn a_stream_goes_on_when_the_server_came_back() {
    let server = TestServer::start(LOOPBACK);
    let url = url(&server);
    let address = authority(&url).to_owned();
    let reader = ApiClient::at(url.parse::<HttpUrl>().expect("a URL"));
    let mut stream = reader.events(Some(0)).expect("a stream");
    let mut client = OldClient::connect(&server.socket(), Generation::G4);
    client.send(&request(RequestKind::Alloc, 0, 4096, 0, 0x1000));
    let event = |message: &StreamMessage| match message {
        StreamMessage::Event(event) => Some(event.id),
        _other => None,
    };
    let last = wait_for(&mut stream, event);

    let folder = server.kill();
    let mut end = None;
    wait_until("the stream ends", || {
        end = stream.wait(Duration::from_millis(100)).ok();
        end == Some(Streamed::Ended)
    });
    let gone = ran(ttmem().args(["status", "--http", &url]));
    assert_eq!(gone.status.code(), Some(3), "{}", said(&gone));
    assert!(
        said(&gone).contains(&format!("no server listens on {url}")),
        "{}",
        said(&gone)
    );

    // The same address at once, whatever the kernel remembers of the old connections.
    let again = TestServer::start_in(folder, &["--http", &address]);
    let mut stream = reader.events(Some(last + 1000)).expect("a stream");
    let gap = |message: &StreamMessage| match message {
        StreamMessage::Gap(gap) => Some(gap.resumes),
        _other => None,
    };
    wait_for(&mut stream, gap);
    let mut client = OldClient::connect(&again.socket(), Generation::G4);
    client.send(&request(RequestKind::Alloc, 0, 8192, 0, 0x2000));
    wait_for(&mut stream, event);
    assert!(reader.snapshot().is_ok());
}

#[test]
fn a_server_with_readers_over_tcp_ends_when_it_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let token = file(folder.path(), "token", TOKEN, 0o600);
    let options = ["--http", "[::1]:0", "--http-token-file", text(&token)];
    if TcpStream::connect("[::1]:1")
        .is_err_and(|error| error.kind() == std::io::ErrorKind::AddrNotAvailable)
    {
        return; // A machine without IPv6.
    }
    let mut server = TestServer::start(&options);
    let url = url(&server);
    assert!(url.starts_with("http://[::1]:"), "{url}");
    let reader = ApiClient::at(url.parse::<HttpUrl>().expect("a URL"));
    let reader = reader.with_token(Token::new(TOKEN).expect("a token"));
    let mut stream = reader.events(None).expect("a stream");
    wait_for(&mut stream, |message| {
        matches!(message, StreamMessage::Hello(_)).then_some(())
    });
    let _idle = connect(&url);
    server.signal("TERM");
    assert!(server.wait().success());
    let mut end = None;
    wait_until("the stream ends", || {
        end = stream.wait(Duration::from_millis(100)).ok();
        end == Some(Streamed::Ended)
    });
}
