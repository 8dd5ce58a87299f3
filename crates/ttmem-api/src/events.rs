//! The reading end of [`routes::EVENTS`](crate::routes::EVENTS).
//!
//! Made by [`ApiClient::events`](crate::ApiClient::events). As everywhere in the client, what
//! arrives is hostile: a message has a bounded length, a wait a bounded time.

mod body;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io::{self, BufReader, Read};
use std::time::{Duration, Instant};

use body::StreamingBody;

use crate::client::{ApiRequestError, Deadline};
use crate::http::Framing;
use crate::{Address, SCHEMA, StreamMessage};

/// All devices of a large machine take some ten kilobytes.
const MESSAGE_LIMIT_BYTES: usize = 4 * 1024 * 1024;

/// The server says something every 15 seconds: after this long it hangs.
const SILENCE: Duration = Duration::from_secs(45);

/// What is read from the socket at once.
const PIECE_BYTES: usize = 16 * 1024;

/// What a stream tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// What changed, at most ten times a second.
    Changes,
    /// Every event.
    Raw,
}

impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Changes => "changes",
            Self::Raw => "raw",
        })
    }
}

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
    body: StreamingBody<BufReader<Deadline>>,
    /// Bytes that arrived and were not looked at yet.
    pending: Vec<u8>,
    /// How many of them are known to have no line end.
    searched: usize,
    /// The data of the message that is arriving.
    data: Vec<u8>,
    was_greeted: bool,
    heard: Instant,
    is_over: bool,
}

impl EventReader {
    pub(crate) fn new(server: Address, answer: BufReader<Deadline>, framing: Framing) -> Self {
        Self {
            server,
            body: StreamingBody::new(answer, framing),
            pending: Vec::new(),
            searched: 0,
            data: Vec::new(),
            was_greeted: false,
            heard: Instant::now(),
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
        self.body.get_mut().get_mut().extend(wait);
        loop {
            while let Some(line) = self.line() {
                if let Some(message) = self.take(&line)? {
                    return Ok(Streamed::Message(Box::new(message)));
                }
            }
            if self.pending.len() + self.data.len() > MESSAGE_LIMIT_BYTES {
                return Err(self.malformed("a message of the stream is too long"));
            }
            let mut piece = [0; PIECE_BYTES];
            match self.body.read(&mut piece) {
                Ok(0) => return Ok(Streamed::Ended),
                Ok(count) => {
                    self.pending.extend_from_slice(&piece[..count]);
                    self.heard = Instant::now();
                }
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
        if self.heard.elapsed() < SILENCE {
            return Ok(Streamed::Quiet);
        }
        Err(ApiRequestError::Timeout {
            server: self.server.clone(),
            after: SILENCE,
        })
    }

    /// The next whole line that arrived, without its end.
    fn line(&mut self) -> Option<Vec<u8>> {
        let end = self.pending[self.searched..]
            .iter()
            .position(|byte| *byte == b'\n');
        let Some(end) = end else {
            self.searched = self.pending.len();
            return None;
        };
        let end = self.searched + end;
        let mut line: Vec<u8> = self.pending.drain(..=end).collect();
        self.searched = 0;
        line.pop();
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        Some(line)
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
            Err(error) => return Err(self.malformed(format!("unexpected message: {error}"))),
        };
        match &message {
            StreamMessage::Hello(hello) if hello.schema != SCHEMA => Err(ApiRequestError::Schema {
                server: self.server.clone(),
                got: u64::from(hello.schema),
                known: SCHEMA,
            }),
            StreamMessage::Hello(_) => {
                self.was_greeted = true;
                Ok(Some(message))
            }
            _other if !self.was_greeted => Err(self.malformed("a stream without a beginning")),
            _other => Ok(Some(message)),
        }
    }

    fn malformed(&self, reason: impl Into<String>) -> ApiRequestError {
        ApiRequestError::Malformed {
            server: self.server.clone(),
            reason: reason.into(),
        }
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
    let known = ["hello", "event", "changes", "gap"];
    serde_json::from_slice::<Typed>(data).is_ok_and(|typed| !known.contains(&&*typed.r#type))
}
