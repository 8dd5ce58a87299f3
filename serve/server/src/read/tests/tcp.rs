//! Readers over TCP: who is let in, and what the others cost.

use super::hostility::{WATCHDOG, refusal};
use super::stalls::{Gate, Opens};
use super::*;
use crate::read::connection::busy_answer;
use crate::read::{BindHttpError, BoundHttp, HttpConfig};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use ttmem_reader::{ApiRequestError, HttpUrl, Token};
use ttmem_report::StreamMessage;

const TOKEN: &str = "s3cret";

/// A ledger that answers over TCP and on a socket for as long as the test runs.
pub(super) struct Both {
    unix: Served,
    url: HttpUrl,
    address: SocketAddr,
}

impl Both {
    pub(super) fn new(token: Option<&str>) -> Self {
        Self::with(token, HttpLimits::TCP)
    }

    fn with(token: Option<&str>, limits: HttpLimits) -> Self {
        Self::answering(token, limits, facts)
    }

    fn answering(
        token: Option<&str>,
        limits: HttpLimits,
        facts: impl Fn() -> ServerFacts + Send + Sync + 'static,
    ) -> Self {
        let bound = BoundHttp::bind(config("127.0.0.1:0", token)).unwrap();
        let url = bound.url();
        let address = url.authority().parse().unwrap();
        let mut ledger = empty_ledger();
        joined(&mut ledger, 4001);
        let state = state(ledger_thread(ledger), facts);
        let http = HttpThread::start(state, HttpLimits::SOCKET, Some((bound, limits)));
        Self {
            unix: Served::by(http.unwrap()),
            url,
            address,
        }
    }

    fn client(&self) -> ApiClient {
        ApiClient::at(self.url.clone())
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(WATCHDOG)).unwrap();
        stream
    }

    /// Sends bytes and reads until the server ends the connection.
    pub(super) fn exchange(&self, request: &[u8]) -> String {
        let mut stream = self.connect();
        // The server may answer and close before it has taken everything.
        let _sent = stream.write_all(request);
        ended(stream)
    }

    /// Waits until a reader over TCP is answered again.
    fn wait_for_permit(&self) {
        let began = Instant::now();
        while self.client().healthy().is_err() {
            assert!(began.elapsed() < WATCHDOG, "the permit is still taken");
            thread::sleep(Duration::from_millis(10));
        }
    }
}

fn config(address: &str, token: Option<&str>) -> HttpConfig {
    HttpConfig {
        address: address.parse().unwrap(),
        token: token.map(|token| Token::new(token).unwrap()),
        hosts: vec!["Node-7.example".to_owned()],
        shows_names: true,
    }
}

/// In every answer, in lower case: no browser takes one for something else than it says.
const NOSNIFF: &str = "\r\nx-content-type-options: nosniff\r\n";

/// What comes until the server ends the connection, in whatever way.
fn ended(mut stream: TcpStream) -> String {
    let mut answer = Vec::new();
    let mut part = [0; 4096];
    loop {
        match stream.read(&mut part) {
            Ok(0) => break,
            Ok(count) => answer.extend_from_slice(&part[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break,
            Err(error) => panic!("{error}"),
        }
    }
    String::from_utf8(answer).unwrap()
}

#[test]
fn the_documents_are_the_same_as_on_the_socket() {
    let both = Both::new(None);
    assert_eq!(
        both.client().snapshot().unwrap(),
        both.unix.client().snapshot().unwrap()
    );
    assert_eq!(both.client().processes().unwrap().processes.len(), 1);
    both.client().ready().unwrap();
}

#[test]
fn without_a_token_everybody_reads_and_nobody_changes_anything() {
    let both = Both::new(None);
    let not_allowed = (403, "not_allowed".to_owned());
    assert_eq!(refusal(both.client().mark("x")), not_allowed);
    assert_eq!(refusal(both.client().forget(4001)), not_allowed);
    assert_eq!(both.client().snapshot().unwrap().marks, []);
    both.unix.client().mark("x").unwrap();
    assert_eq!(both.client().snapshot().unwrap().marks.len(), 1);
}

#[test]
fn a_token_is_needed_where_there_is_one() {
    let both = Both::new(Some(TOKEN));
    let unauthorized = (401, "unauthorized".to_owned());
    assert_eq!(refusal(both.client().snapshot()), unauthorized);
    assert_eq!(refusal(both.client().mark("x")), unauthorized);
    let stream = both.client().events(None);
    assert_eq!(refusal(stream), unauthorized);
    let with = |token: &str| both.client().with_token(Token::new(token).unwrap());
    assert_eq!(refusal(with("S3CRET").snapshot()), unauthorized);
    assert_eq!(refusal(with("s3cretx").snapshot()), unauthorized);
    with(TOKEN).snapshot().unwrap();
    with(TOKEN).mark("warm").unwrap();
    let not_allowed = (403, "not_allowed".to_owned());
    assert_eq!(refusal(with(TOKEN).forget(4001)), not_allowed);
    // The socket is as it was, and so is the question whether the server is up.
    both.unix.client().forget(4001).unwrap();
    both.client().healthy().unwrap();
    let answer = both.exchange(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
    let answer = answer.to_ascii_lowercase();
    let wanted = "\r\nwww-authenticate: bearer realm=\"ttmem\"\r\n";
    assert!(answer.contains(wanted), "{answer}");
}

#[test]
fn what_others_make_a_browser_ask_is_refused_with_a_reason() {
    let both = Both::new(None);
    let ask = |headers: &str| {
        both.exchange(format!("GET /api/v1/snapshot HTTP/1.1\r\n{headers}\r\n").as_bytes())
    };
    for (headers, code, word) in [
        ("Host: localhost\r\n", 200, "\"schema\":1"),
        ("Host: node-7.example:99\r\n", 200, "\"schema\":1"),
        ("Host: evil.example\r\n", 421, "\"foreign_host\""),
        ("", 400, "\"bad_request\""),
        (
            "Host: localhost\r\nHost: localhost\r\n",
            400,
            "\"bad_request\"",
        ),
        (
            "Host: localhost\r\nOrigin: http://evil.example\r\n",
            403,
            "\"foreign_origin\"",
        ),
        (
            "Host: 127.0.0.1\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n",
            403,
            "\"foreign_origin\"",
        ),
        (
            "Host: 127.0.0.1\r\nSec-Fetch-Site: none\r\n",
            200,
            "\"schema\":1",
        ),
    ] {
        let answer = ask(headers);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {code} ")),
            "{headers}: {answer}"
        );
        assert!(answer.contains(word), "{headers}: {answer}");
        let lower = answer.to_ascii_lowercase();
        assert!(!lower.contains("access-control-"), "{answer}");
        assert!(lower.contains(NOSNIFF), "{answer}");
    }
}

#[test]
fn answers_of_every_kind_say_that_they_are_nothing_else() {
    let both = Both::new(None);
    for target in ["/healthz", "/openapi.json", "/none", "/api/v1/events"] {
        let mut stream = both.connect();
        let request = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut head = String::new();
        while !head.contains("\r\n\r\n") {
            let mut part = [0; 4096];
            let count = stream.read(&mut part).unwrap();
            assert!(count > 0, "{target}: {head}");
            head.push_str(&String::from_utf8_lossy(&part[..count]));
        }
        let head = head.to_ascii_lowercase();
        assert!(head.contains(NOSNIFF), "{target}: {head}");
    }
    let busy = String::from_utf8(busy_answer()).unwrap();
    assert!(busy.to_ascii_lowercase().contains(NOSNIFF), "{busy}");
}

#[test]
fn other_machines_are_let_in_only_with_a_token() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        let error = BoundHttp::bind(config(address, None)).unwrap_err();
        let message = error.to_string();
        assert!(message.contains("--http-token-file"), "{message}");
        assert!(message.contains(address), "{message}");
    }
    let open = BoundHttp::bind(config("0.0.0.0:0", Some(TOKEN))).unwrap();
    assert!(!open.url().authority().ends_with(":0"), "{}", open.url());
    let taken = config(&open.url().authority(), Some(TOKEN));
    let error = BoundHttp::bind(taken).unwrap_err();
    assert!(matches!(error, BindHttpError::Bind { .. }), "{error}");
}

#[test]
fn garbage_is_answered_or_dropped() {
    let both = Both::new(None);
    let bad = both.exchange(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a TLS hello");
    assert!(bad.is_empty() || bad.starts_with("HTTP/1.1 400 "), "{bad}");
    let long = format!(
        "GET / HTTP/1.1\r\nHost: localhost\r\nX: {}",
        "y".repeat(20_000)
    );
    let many = format!(
        "GET / HTTP/1.1\r\nHost: localhost\r\n{}\r\n",
        "X: y\r\n".repeat(100)
    );
    for request in [long, many] {
        let answer = both.exchange(request.as_bytes());
        assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    }
    both.client().snapshot().unwrap();
}

/// One permit, and little patience.
const STRICT: HttpLimits = HttpLimits {
    requests: 1,
    header_timeout: Duration::from_millis(200),
    connection_timeout: Duration::from_millis(600),
    ..HttpLimits::SOCKET
};

#[test]
fn a_slow_head_and_silence_end() {
    let both = Both::with(None, STRICT);
    for sent in [&b"GET /healthz HTTP/1.1\r\nHost: local"[..], b"G", b""] {
        let mut slow = both.connect();
        slow.write_all(sent).unwrap();
        both.wait_for_permit();
        let told = ended(slow);
        assert!(!told.contains(" 200 "), "{told}");
    }
}

#[test]
fn the_silent_keep_nobody_out_however_many_they_are() {
    // Nobody goes because of the time here.
    let limits = HttpLimits {
        header_timeout: WATCHDOG,
        ..HttpLimits::TCP
    };
    let both = Both::with(Some(TOKEN), limits);
    let reader = || both.client().with_token(Token::new(TOKEN).unwrap());
    // As many as there are permits.
    let mut silent: Vec<TcpStream> = (0..limits.requests)
        .map(|_stranger| both.connect())
        .collect();
    reader().snapshot().unwrap();
    // More than may be pending, and those that begin to speak are no better.
    for _stranger in 0..200 {
        let mut stream = both.connect();
        // Those that are gone already do not hear it.
        let _sent = stream.write_all(b"GET /api/v1/snapshot HTTP/1.1\r\nHost: local");
        silent.push(stream);
    }
    reader().snapshot().unwrap();
    both.unix.client().snapshot().unwrap();
    // The first went for the last.
    for (number, stranger) in silent.drain(..100).enumerate() {
        let told = ended(stranger);
        let is_told = told.starts_with("HTTP/1.1 503 ") && told.contains("\"busy\"");
        // What is sent to a connection that ended may cost the answer that it had.
        let is_cut = told.is_empty() && number >= limits.requests;
        assert!(is_told || is_cut, "{number}: {told}");
    }
}

#[test]
fn permits_are_for_those_who_are_let_in_and_the_socket_has_its_own() {
    let gate = Arc::new(Gate::default());
    let passed = Arc::clone(&gate);
    let limits = HttpLimits {
        requests: 2,
        ..HttpLimits::TCP
    };
    let both = Both::answering(Some(TOKEN), limits, move || {
        passed.pass();
        facts()
    });
    let reader = || both.client().with_token(Token::new(TOKEN).unwrap());
    *gate.closed.lock().unwrap() = true;
    thread::scope(|scope| {
        let opens = Opens(&gate);
        let answers: Vec<_> = (0..2)
            .map(|_reader| {
                let client = reader().with_timeout(WATCHDOG);
                scope.spawn(move || client.snapshot())
            })
            .collect();
        gate.wait_for(2);
        // Who may not come in is told that, not that there is no permit.
        let unauthorized = (401, "unauthorized".to_owned());
        for _stranger in 0..5 {
            assert_eq!(refusal(both.client().snapshot()), unauthorized);
        }
        let head = "GET /api/v1/snapshot HTTP/1.1\r\nHost: localhost\r\n";
        let busy = both.exchange(format!("{head}Authorization: Bearer {TOKEN}\r\n\r\n").as_bytes());
        assert!(busy.starts_with("HTTP/1.1 503 "), "{busy}");
        assert!(busy.contains("\"busy\""), "{busy}");
        let busy = busy.to_ascii_lowercase();
        assert!(busy.contains("\r\nretry-after: 1\r\n"), "{busy}");
        both.unix.client().healthy().unwrap();
        drop(opens);
        for answer in answers {
            answer.join().unwrap().unwrap();
        }
    });
    both.wait_for_permit();
    reader().snapshot().unwrap();
}

#[test]
fn streams_over_tcp_have_few_permits() {
    let both = Both::new(None);
    let open = |client: ApiClient| -> Result<_, ApiRequestError> {
        let mut stream = client.events(None)?;
        let hello = stream.next().unwrap().unwrap();
        assert!(matches!(hello, StreamMessage::Hello(_)), "{hello:?}");
        Ok(stream)
    };
    let streams: Vec<_> = (0..4).map(|_reader| open(both.client()).unwrap()).collect();
    let too_many = (429, "too_many_streams".to_owned());
    assert_eq!(refusal(open(both.client())), too_many);
    // They have given their permits back, and the socket has streams of its own.
    both.client().snapshot().unwrap();
    let on_the_socket = open(both.unix.client()).unwrap();
    drop(streams);
    let began = Instant::now();
    while open(both.client()).is_err() {
        assert!(
            began.elapsed() < WATCHDOG,
            "a reader that left keeps its permit"
        );
        thread::sleep(Duration::from_millis(10));
    }
    drop(on_the_socket);
}

#[test]
fn stopping_ends_listening_and_what_is_idle() {
    let bound = BoundHttp::bind(config("127.0.0.1:0", None)).unwrap();
    let address: SocketAddr = bound.url().authority().parse().unwrap();
    let state = state(ledger_thread(empty_ledger()), facts);
    let tcp = Some((bound, HttpLimits::TCP));
    let http = HttpThread::start(state, HttpLimits::SOCKET, tcp).unwrap();
    let idle = TcpStream::connect(address).unwrap();
    let (_near, far) = UnixStream::pair().unwrap();
    http.serve(far, READER).unwrap();
    drop(http);
    assert_eq!(ended(idle), "");
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn scrapers_that_ask_and_take_nothing_keep_no_permit_for_long() {
    let limits = HttpLimits {
        requests: 4,
        connection_timeout: Duration::from_millis(600),
        ..HttpLimits::TCP
    };
    let both = Both::with(None, limits);
    let stalled: Vec<TcpStream> = (0..40)
        .map(|_scraper| {
            let mut stream = both.connect();
            // Those that are refused do not hear it.
            let _sent = stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
            stream
        })
        .collect();
    // The socket has permits of its own.
    both.unix
        .client()
        .with_timeout(WATCHDOG)
        .snapshot()
        .unwrap();
    for _reader in 0..10 {
        both.wait_for_permit();
    }
    let head = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let began = Instant::now();
    while !both.exchange(head).contains("\nttmem_up 1\n") {
        assert!(began.elapsed() < WATCHDOG, "no scrape comes through");
        thread::sleep(Duration::from_millis(10));
    }
    // Each of the stalled ones was answered, or told that the server is busy.
    for scraper in stalled {
        let told = ended(scraper);
        let is_told = told.starts_with("HTTP/1.1 200") || told.starts_with("HTTP/1.1 503");
        assert!(is_told || told.is_empty(), "{told}");
    }
}
