//! One request and its answer: sent, read, decoded, and every failure named.

use std::io::{self, BufReader, Write};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::connection::{Connection, Deadline};
use super::target::with_query;
use super::{ApiClient, ApiRequestError};
use crate::Address;
use crate::http::{Body, read_head};
use ttmem_report::{BufferQuery, Page, Row, SchemaVersion};

/// What is read from the socket at once.
const BUFFER_BYTES: usize = 64 * 1024;

/// The header `Host` on a Unix socket, where nobody looks at it.
const NO_HOST: &str = "ttmem";

impl ApiClient {
    /// A page of a list.
    ///
    /// It does not point to itself: whoever follows cursors would never get to the end.
    pub(super) fn page_where<R: Row>(
        &self,
        query: &BufferQuery,
    ) -> Result<Page<R>, ApiRequestError> {
        let page: Page<R> = self.document("GET", R::ROUTE, query)?;
        if page.next.is_some() && page.next == query.cursor {
            return Err(self.malformed("the page points to itself"));
        }
        Ok(page)
    }

    /// The document of a path at the instant that this client asks about.
    pub(super) fn document<T: DeserializeOwned>(
        &self,
        method: &str,
        path: &str,
        query: &impl Serialize,
    ) -> Result<T, ApiRequestError> {
        let target = with_query(path, query);
        match method {
            "GET" => self.decoded(method, &self.of_instant(&target)),
            _change => self.decoded(method, &target),
        }
    }

    /// A request for a document of the instant that this client asks about.
    pub(super) fn of_instant(&self, target: &str) -> String {
        with_query(target, &[("at", self.at)])
    }

    /// The document of a path that is of no single instant.
    pub(super) fn timeless<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &impl Serialize,
    ) -> Result<T, ApiRequestError> {
        self.decoded("GET", &with_query(path, query))
    }

    fn decoded<T: DeserializeOwned>(
        &self,
        method: &str,
        target: &str,
    ) -> Result<T, ApiRequestError> {
        let body = self.exchange(method, target)?;
        let decoded = serde_json::from_slice(&body);
        decoded.map_err(|error| undecodable(&self.server, &body, &error))
    }

    /// Sends a request and returns the body of a 200.
    pub(super) fn exchange(&self, method: &str, target: &str) -> Result<Vec<u8>, ApiRequestError> {
        let (limit, body) = self.opened(method, target, self.body_limit_bytes)?;
        let body = body.read_whole();
        body.map_err(|error| self.unreadable(error, limit))
    }

    /// Sends a request and returns the body of a 200, which is read while it arrives.
    pub(super) fn open(
        &self,
        method: &str,
        target: &str,
        limit_bytes: u64,
    ) -> Result<Body<BufReader<Deadline>>, ApiRequestError> {
        let (_limit, body) = self.opened(method, target, limit_bytes)?;
        Ok(body)
    }

    /// The same with the time that all of it may take.
    fn opened(
        &self,
        method: &str,
        target: &str,
        limit_bytes: u64,
    ) -> Result<(Duration, Body<BufReader<Deadline>>), ApiRequestError> {
        let limit = self.within_end(self.timeout);
        match self.answer(method, target, limit_bytes, limit)? {
            (200, body) => Ok((limit, body)),
            (code, body) => {
                let body = body.read_whole();
                let body = body.map_err(|error| self.unreadable(error, limit))?;
                Err(ApiRequestError::Status {
                    server: self.server.clone(),
                    code,
                    problem: serde_json::from_slice(&body).ok(),
                })
            }
        }
    }

    /// Sends a request and returns the answer whole, whatever its code: for servers whose refusals have a form of
    /// their own.
    pub(crate) fn any_answer(&self, target: &str) -> Result<(u16, Vec<u8>), ApiRequestError> {
        let limit = self.within_end(self.timeout);
        let (code, body) = self.answer("GET", target, self.body_limit_bytes, limit)?;
        let body = body.read_whole();
        let body = body.map_err(|error| self.unreadable(error, limit))?;
        Ok((code, body))
    }

    /// Sends a request and returns the code and the body, which is read while it arrives: everything within one time.
    fn answer(
        &self,
        method: &str,
        target: &str,
        limit_bytes: u64,
        limit: Duration,
    ) -> Result<(u16, Body<BufReader<Deadline>>), ApiRequestError> {
        let end = Instant::now() + limit;
        if self.is_late() {
            return Err(self.transport(io::ErrorKind::TimedOut.into(), limit));
        }
        let mut connection = Connection::open(&self.server, limit)
            .map_err(|source| self.not_connected(source, limit))?;
        let sent = connection.write_all(self.request(method, target).as_bytes());
        let answer = Deadline::new(connection, end);
        let mut answer = BufReader::with_capacity(BUFFER_BYTES, answer);
        // A server that is full answers and closes without reading: its reason is worth more
        // than our broken pipe.
        let (code, framing) = match (read_head(&mut answer), sent) {
            (Ok(head), _) => head,
            (Err(_), Err(source)) => return Err(self.transport(source, limit)),
            (Err(error), Ok(())) => return Err(self.unreadable(error, limit)),
        };
        let limit_bytes = match code {
            200 => limit_bytes,
            _refusal => self.body_limit_bytes,
        };
        Ok((code, Body::new(answer, framing, limit_bytes)))
    }

    /// A time, or what is left until the end; never zero, which would mean "for ever".
    fn within_end(&self, time: Duration) -> Duration {
        let Some(end) = self.end else { return time };
        let left = end.saturating_duration_since(Instant::now());
        time.min(left).max(Duration::from_millis(1))
    }

    /// The text of a request.
    fn request(&self, method: &str, target: &str) -> String {
        let host = match &self.server {
            Address::Unix(_) => NO_HOST.to_owned(),
            Address::Http(url) => url.authority(),
        };
        let content_length = if method == "POST" {
            "Content-Length: 0\r\n"
        } else {
            ""
        };
        let authorization = match &self.token {
            Some(token) => format!("Authorization: Bearer {}\r\n", token.text()),
            None => String::new(),
        };
        format!(
            "{method} {target} HTTP/1.1\r\nHost: {host}\r\nAccept: application/json\r\n\
             {authorization}{content_length}Connection: close\r\n\r\n"
        )
    }

    fn not_connected(&self, source: io::Error, limit: Duration) -> ApiRequestError {
        let server = self.server.clone();
        match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                ApiRequestError::NotRunning { server, source }
            }
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => self.transport(source, limit),
            _ => ApiRequestError::Connect { server, source },
        }
    }

    fn transport(&self, source: io::Error, limit: Duration) -> ApiRequestError {
        let server = self.server.clone();
        match source.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => ApiRequestError::Timeout {
                server,
                after: limit,
            },
            _ => ApiRequestError::Broken { server, source },
        }
    }

    fn unreadable(&self, error: io::Error, limit: Duration) -> ApiRequestError {
        match error.kind() {
            io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
                self.malformed(error.to_string())
            }
            io::ErrorKind::FileTooLarge => ApiRequestError::TooLarge {
                server: self.server.clone(),
                limit_bytes: self.body_limit_bytes,
            },
            _ => self.transport(error, limit),
        }
    }

    fn malformed(&self, reason: impl Into<String>) -> ApiRequestError {
        ApiRequestError::malformed(&self.server, reason)
    }
}

/// Why a document cannot be decoded: that its schema is another one counts first.
pub(crate) fn undecodable(
    server: &Address,
    body: &[u8],
    error: &serde_json::Error,
) -> ApiRequestError {
    #[derive(Deserialize)]
    struct Versioned {
        schema: u64,
    }
    match serde_json::from_slice(body) {
        Ok(Versioned { schema }) if schema != SchemaVersion::NUMBER => ApiRequestError::Schema {
            server: server.clone(),
            got: schema,
        },
        _same => ApiRequestError::malformed(server, format!("unexpected document: {error}")),
    }
}
