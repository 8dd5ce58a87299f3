//! One request and its answer: sent, read, decoded, and every failure named.

use std::io::{self, BufReader, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::connection::{Connection, Deadline};
use super::target::{percent_encoded, with_query};
use super::{ApiClient, ApiRequestError};
use crate::http::{Framing, ReadResponseError, Response, read_body, read_head, read_response};
use crate::{Address, Page, SCHEMA};

/// A whole answer may take this many timeouts: a server that trickles bytes still ends.
const ANSWER_TIMEOUTS: u32 = 12;

/// What the header `Host` says to a Unix socket, where nobody looks at it.
const NO_HOST: &str = "ttmem";

impl ApiClient {
    /// The document of a path, asked for with the fields of `query`.
    pub(super) fn get<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &impl Serialize,
    ) -> Result<T, ApiRequestError> {
        self.document(&self.exchange("GET", &with_query(path, query))?)
    }

    /// A page of a list.
    pub(super) fn page<R: DeserializeOwned>(
        &self,
        route: &str,
        cursor: Option<&str>,
        limit: Option<u32>,
    ) -> Result<Page<R>, ApiRequestError> {
        let mut target = route.to_owned();
        let mut separator = '?';
        if let Some(cursor) = cursor {
            target.push_str(&format!("{separator}cursor={}", percent_encoded(cursor)));
            separator = '&';
        }
        if let Some(limit) = limit {
            target.push_str(&format!("{separator}limit={limit}"));
        }
        let page: Page<R> = self.document(&self.exchange("GET", &target)?)?;
        self.not_itself(page, cursor)
    }

    /// A page that does not point to itself: whoever follows cursors would never get to the end.
    pub(super) fn not_itself<R>(
        &self,
        page: Page<R>,
        cursor: Option<&str>,
    ) -> Result<Page<R>, ApiRequestError> {
        if page.next.is_some() && page.next.as_deref() == cursor {
            return Err(self.malformed("the page points to itself"));
        }
        Ok(page)
    }

    /// Decodes a document of the schema this crate knows.
    pub(super) fn document<T: DeserializeOwned>(&self, body: &[u8]) -> Result<T, ApiRequestError> {
        #[derive(Deserialize)]
        struct Versioned {
            schema: u64,
        }
        // First the version: another schema may well fail to decode, and that is the lesser news.
        let Versioned { schema } = serde_json::from_slice(body)
            .map_err(|error| self.malformed(format!("no JSON with a schema: {error}")))?;
        if schema != u64::from(SCHEMA) {
            return Err(ApiRequestError::Schema {
                server: self.server.clone(),
                got: schema,
                known: SCHEMA,
            });
        }
        serde_json::from_slice(body)
            .map_err(|error| self.malformed(format!("unexpected document: {error}")))
    }

    /// Sends a request and returns the body of a 200.
    pub(super) fn exchange(&self, method: &str, target: &str) -> Result<Vec<u8>, ApiRequestError> {
        let (mut answer, sent) = self.send(method, target)?;
        // A server that is full answers and closes without reading: its reason is worth more
        // than our broken pipe.
        let response = match (read_response(&mut answer, self.body_limit_bytes), sent) {
            (Ok(response), _) => response,
            (Err(_), Err(source)) => return Err(self.transport(source)),
            (Err(error), Ok(())) => return Err(self.unreadable(error)),
        };
        match response {
            Response { code: 200, body } => Ok(body),
            Response { code, body } => Err(self.refused(code, &body)),
        }
    }

    /// Sends a request and returns what a 200 begins, for those who read on while it arrives.
    pub(super) fn stream(
        &self,
        target: &str,
    ) -> Result<(BufReader<Deadline>, Framing), ApiRequestError> {
        let (answer, sent) = self.send("GET", target)?;
        let mut answer = BufReader::new(answer);
        let head = match (read_head(&mut answer), sent) {
            (Ok(head), _) => head,
            (Err(_), Err(source)) => return Err(self.transport(source)),
            (Err(error), Ok(())) => return Err(self.unreadable(error)),
        };
        match head {
            (200, framing) => Ok((answer, framing)),
            (code, framing) => {
                let body = read_body(&mut answer, framing, self.body_limit_bytes);
                let body = body.map_err(|error| self.unreadable(error))?;
                Err(self.refused(code, &body))
            }
        }
    }

    /// Connects and sends a request: where its answer comes, and whether all of it was sent.
    fn send(
        &self,
        method: &str,
        target: &str,
    ) -> Result<(Deadline, io::Result<()>), ApiRequestError> {
        let mut connection = Connection::open(&self.server, self.timeout)
            .map_err(|source| self.not_connected(source))?;
        let sent = connection.write_all(self.request(method, target).as_bytes());
        let answer = Deadline::new(connection, self.timeout, ANSWER_TIMEOUTS);
        Ok((answer, sent))
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

    fn not_connected(&self, source: io::Error) -> ApiRequestError {
        let server = self.server.clone();
        match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                ApiRequestError::NotRunning { server, source }
            }
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => ApiRequestError::Timeout {
                server,
                after: self.timeout,
            },
            _ => ApiRequestError::Connect { server, source },
        }
    }

    fn transport(&self, source: io::Error) -> ApiRequestError {
        let server = self.server.clone();
        match source.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => ApiRequestError::Timeout {
                server,
                after: self.timeout,
            },
            _ => ApiRequestError::Broken { server, source },
        }
    }

    fn unreadable(&self, error: ReadResponseError) -> ApiRequestError {
        match error {
            ReadResponseError::Io(source) => self.transport(source),
            ReadResponseError::Malformed(reason) => self.malformed(reason),
            ReadResponseError::TooLarge => ApiRequestError::TooLarge {
                server: self.server.clone(),
                limit_bytes: self.body_limit_bytes,
            },
        }
    }

    fn malformed(&self, reason: impl Into<String>) -> ApiRequestError {
        ApiRequestError::Malformed {
            server: self.server.clone(),
            reason: reason.into(),
        }
    }

    /// What a refusal says.
    fn refused(&self, code: u16, body: &[u8]) -> ApiRequestError {
        ApiRequestError::Status {
            server: self.server.clone(),
            code,
            problem: serde_json::from_slice(body).ok(),
        }
    }
}
