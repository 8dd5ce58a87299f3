//! The same over TCP: what is sent there besides, and how it fails.

use std::net::{TcpListener, TcpStream};

use super::*;
use crate::HttpUrl;
use ttmem_report::StreamMessage;

/// A server for one connection that answers this: its URL, and the request as it came.
fn answering(answer: String) -> (HttpUrl, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = HttpUrl::from(listener.local_addr().unwrap());
    let request = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            request.push(byte[0]);
        }
        stream.write_all(answer.as_bytes()).unwrap();
        String::from_utf8(request).unwrap()
    });
    (url, request)
}

/// A URL on which nobody listens.
fn nobody() -> HttpUrl {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    HttpUrl::from(listener.local_addr().unwrap())
}

#[test]
fn a_request_says_whom_it_is_for() {
    let (url, request) = answering(sized(200, SNAPSHOT));
    let client = ApiClient::at(url.clone());
    assert_eq!(client.snapshot().unwrap().server.pid, 7);
    let expected = format!(
        "GET /api/v1/snapshot HTTP/1.1\r\nHost: {}\r\nAccept: application/json\r\n\
         Connection: close\r\n\r\n",
        url.authority()
    );
    assert_eq!(request.join().unwrap(), expected);
    assert_eq!(client.server(), &Address::Http(url));
}

#[test]
fn a_token_goes_with_every_request_and_into_no_text() {
    let (url, request) = answering(sized(401, "{}"));
    let client = ApiClient::at(url.clone()).with_token(Token::new("s3cret").unwrap());
    let error = client.mark("x").unwrap_err();
    assert_eq!(error.to_string(), format!("{url} answered 401"));
    let request = request.join().unwrap();
    assert!(
        request.contains("\r\nAuthorization: Bearer s3cret\r\n"),
        "{request}"
    );
    assert!(!format!("{client:?} {error:?}").contains("s3cret"));
}

#[test]
fn a_name_is_looked_up_and_every_address_of_it_is_tried() {
    // `localhost` is often ::1 first, where this server does not listen.
    let (url, request) = answering(sized(200, "ok"));
    let port = url.authority().rsplit(':').next().unwrap().to_owned();
    let named: HttpUrl = format!("http://localhost:{port}").parse().unwrap();
    ApiClient::at(named).healthy().unwrap();
    let request = request.join().unwrap();
    let host = format!("\r\nHost: localhost:{port}\r\n");
    assert!(request.contains(&host), "{request}");
}

#[test]
fn nobody_there_means_not_running() {
    let url = nobody();
    let error = ApiClient::at(url.clone()).healthy().unwrap_err();
    assert!(
        matches!(error, ApiRequestError::NotRunning { .. }),
        "{error:?}"
    );
    assert_eq!(error.to_string(), format!("no server listens on {url}"));
}

#[test]
fn a_name_that_nobody_has_cannot_be_reached() {
    let url: HttpUrl = "http://no-such-host.invalid:9400".parse().unwrap();
    let error = ApiClient::at(url).healthy().unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot connect to http://no-such-host.invalid:9400"
    );
}

#[test]
fn a_connection_that_is_never_taken_is_a_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    // The backlog of none still takes one; the next ones are not answered.
    let _waiting: Vec<TcpStream> = (0..4)
        .map_while(|_| TcpStream::connect_timeout(&address, Duration::from_millis(50)).ok())
        .collect();
    let client = ApiClient::at(HttpUrl::from(address)).with_timeout(Duration::from_millis(50));
    let error = client.healthy().unwrap_err();
    assert!(
        matches!(error, ApiRequestError::Timeout { .. }),
        "{error:?}"
    );
}

#[test]
fn a_silent_server_is_a_timeout_over_tcp_too() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = HttpUrl::from(listener.local_addr().unwrap());
    let client = ApiClient::at(url).with_timeout(Duration::from_millis(50));
    let error = client.snapshot().unwrap_err();
    assert!(
        matches!(error, ApiRequestError::Timeout { .. }),
        "{error:?}"
    );
}

#[test]
fn no_redirection_is_followed() {
    let elsewhere = nobody();
    let answer =
        format!("HTTP/1.1 302 Found\r\nLocation: {elsewhere}/\r\nContent-Length: 0\r\n\r\n");
    let (url, _request) = answering(answer);
    let error = ApiClient::at(url).snapshot().unwrap_err();
    assert!(
        matches!(error, ApiRequestError::Status { code: 302, .. }),
        "{error:?}"
    );
}

#[test]
fn a_stream_is_read_until_its_end() {
    let hello = "data: {\"type\":\"hello\",\"schema\":1,\"started\":\"2026-11-15T08:25:03Z\",\
                 \"newest\":4}\n\n";
    let (url, request) = answering(format!("HTTP/1.1 200 OK\r\n\r\n{hello}"));
    let client = ApiClient::at(url).with_token(Token::new("t").unwrap());
    let mut events = client.events(None).unwrap();
    let first = events.next().unwrap().unwrap();
    assert!(matches!(first, StreamMessage::Hello(hello) if hello.newest == 4));
    assert!(events.next().is_none());
    let request = request.join().unwrap();
    assert!(request.contains("Bearer t\r\n"), "{request}");
}
