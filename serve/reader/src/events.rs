//! The reading end of [`routes::EVENTS`](ttmem_report::routes::EVENTS).
//!
//! Made by [`ApiClient::events`](crate::ApiClient::events). As everywhere in the client, what
//! arrives is hostile: a message has a bounded length, a wait a bounded time.

#[cfg(test)]
mod tests;

use std::io::{self, BufRead, BufReader, Read};
use std::time::{Duration, Instant};

use crate::Address;
use crate::client::{ApiRequestError, Deadline, undecodable};
use crate::http::Body;
use ttmem_report::StreamMessage;

/// An event takes a few hundred bytes; texts of clients are bounded.
const MESSAGE_LIMIT_BYTES: usize = 4 * 1024 * 1024;

/// The server sends something every 15 seconds: after this long it hangs.
const SILENCE: Duration = Duration::from_secs(45);

/// What came of waiting for a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Streamed {
    /// A message.
    Message(Box<StreamMessage>),
    /// Nothing yet; the stream goes on.
    Quiet,
    /// The server ended the stream.
    Ended,
}

/// A stream of messages that is being read.
///
/// As an iterator it waits for each message, and ends with the stream or behind the first error.
#[derive(Debug)]
pub struct EventReader {
    server: Address,
    body: BufReader<Body<BufReader<Deadline>>>,
    /// The line that is arriving.
    line: Vec<u8>,
    /// The data of the message that is arriving.
    data: Vec<u8>,
    was_greeted: bool,
    last_received: Instant,
    is_over: bool,
}

impl EventReader {
    pub(crate) fn new(server: Address, body: Body<BufReader<Deadline>>) -> Self {
        Self {
            server,
            body: BufReader::new(body),
            line: Vec::new(),
            data: Vec::new(),
            was_greeted: false,
            last_received: Instant::now(),
            is_over: false,
        }
    }

    /// Waits at most so long for the next message.
    ///
    /// # Errors
    /// When the server hangs, breaks off inside a message, or is none of ours. There is nothing
    /// to read behind an error.
    pub fn wait(&mut self, wait: Duration) -> Result<Streamed, ApiRequestError> {
        if self.is_over {
            return Ok(Streamed::Ended);
        }
        let outcome = self.wait_for_message(wait);
        self.is_over = !matches!(outcome, Ok(Streamed::Message(_) | Streamed::Quiet));
        outcome
    }

    fn wait_for_message(&mut self, wait: Duration) -> Result<Streamed, ApiRequestError> {
        // Zero would mean "for ever" to the kernel.
        let wait = wait.clamp(Duration::from_millis(1), SILENCE);
        let connection = self.body.get_mut().get_mut().get_mut();
        connection.extend(wait);
        loop {
            let had = self.line.len();
            let room = MESSAGE_LIMIT_BYTES.saturating_sub(had + self.data.len());
            let mut rest = self.body.by_ref().take(room as u64);
            // What came before an error stays in the line.
            let outcome = rest.read_until(b'\n', &mut self.line);
            let is_too_long = rest.limit() == 0;
            if self.line.len() > had {
                self.last_received = Instant::now();
            }
            match outcome {
                Ok(_count) if self.line.ends_with(b"\n") => {
                    let line = std::mem::take(&mut self.line);
                    if let Some(message) = self.take(line.trim_ascii_end())? {
                        return Ok(Streamed::Message(Box::new(message)));
                    }
                }
                Ok(_count) if is_too_long => {
                    return Err(self.malformed("a message of the stream is too long"));
                }
                Ok(_count) => return Ok(Streamed::Ended),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                        return self.nothing_came();
                    }
                    io::ErrorKind::Interrupted => {}
                    // A server that is killed has no time to end the stream.
                    io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => {
                        return Ok(Streamed::Ended);
                    }
                    io::ErrorKind::InvalidData => return Err(self.malformed(error.to_string())),
                    _other => {
                        let server = self.server.clone();
                        let source = error;
                        return Err(ApiRequestError::Broken { server, source });
                    }
                },
            }
        }
    }

    fn nothing_came(&self) -> Result<Streamed, ApiRequestError> {
        if self.last_received.elapsed() < SILENCE {
            return Ok(Streamed::Quiet);
        }
        Err(ApiRequestError::Timeout {
            server: self.server.clone(),
            after: SILENCE,
        })
    }

    /// Takes a line; a message if that was the end of one.
    fn take(&mut self, line: &[u8]) -> Result<Option<StreamMessage>, ApiRequestError> {
        if let Some(data) = line.strip_prefix(b"data:") {
            self.data
                .extend_from_slice(data.strip_prefix(b" ").unwrap_or(data));
            return Ok(None);
        }
        // Names and ids stand in the data as well; the rest are comments.
        if !line.is_empty() || self.data.is_empty() {
            return Ok(None);
        }
        let data = std::mem::take(&mut self.data);
        self.message(&data)
    }

    /// A message of its data; none if it is of a kind that only newer readers know.
    fn message(&mut self, data: &[u8]) -> Result<Option<StreamMessage>, ApiRequestError> {
        let message = match serde_json::from_slice::<StreamMessage>(data) {
            Ok(message) => message,
            Err(_error) if self.was_greeted && is_of_newer_kind(data) => return Ok(None),
            Err(error) => return Err(undecodable(&self.server, data, &error)),
        };
        self.was_greeted |= matches!(message, StreamMessage::Hello(_));
        if self.was_greeted {
            Ok(Some(message))
        } else {
            Err(self.malformed("a stream without a beginning"))
        }
    }

    fn malformed(&self, reason: impl Into<String>) -> ApiRequestError {
        ApiRequestError::malformed(&self.server, reason)
    }
}

impl Iterator for EventReader {
    type Item = Result<StreamMessage, ApiRequestError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.wait(SILENCE) {
                Ok(Streamed::Message(message)) => return Some(Ok(*message)),
                Ok(Streamed::Quiet) => {}
                Ok(Streamed::Ended) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// Whether this is an object with a `type` that is none of ours.
fn is_of_newer_kind(data: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct Typed {
        r#type: String,
    }
    let known = ["hello", "event", "gap"];
    serde_json::from_slice::<Typed>(data).is_ok_and(|typed| !known.contains(&&*typed.r#type))
}
