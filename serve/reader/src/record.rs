//! The reading end of [`routes::RECORD`](ttmem_report::routes::RECORD).
//!
//! Made by [`ApiClient::record`](crate::ApiClient::record). What arrives are the bytes of a recording, which nobody
//! looks into here. Silence means that nothing happens.

use std::io::{self, BufReader, Read};
use std::time::Duration;

use serde::Serialize;

use crate::Address;
use crate::client::{ApiRequestError, Deadline};
use crate::http::Body;

/// What is to be recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RecordRequest {
    /// This process alone.
    pub pid: Option<u32>,
    /// The processes that use this device alone, named by its logical id or by its unique id in hex.
    pub device: Option<String>,
    /// Without names, paths and command lines.
    pub redact: bool,
    /// The most bytes that it may have.
    pub max_bytes: Option<u64>,
}

/// What came of waiting for a part of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordedPart {
    /// So many bytes.
    Bytes(usize),
    /// Nothing yet; the recording goes on.
    Quiet,
    /// The server ended it.
    Ended,
}

/// A recording that is being read.
#[derive(Debug)]
pub struct RecordingReader {
    server: Address,
    body: Body<BufReader<Deadline>>,
}

impl RecordingReader {
    pub(crate) fn new(server: Address, body: Body<BufReader<Deadline>>) -> Self {
        Self { server, body }
    }

    /// Waits at most so long for more of it.
    ///
    /// # Errors
    /// When the connection breaks off, as it does when a server is killed.
    pub fn wait(
        &mut self,
        wait: Duration,
        buffer: &mut [u8],
    ) -> Result<RecordedPart, ApiRequestError> {
        // Zero would mean "for ever" to the kernel.
        let wait = wait.max(Duration::from_millis(1));
        self.body.get_mut().get_mut().extend(wait);
        match self.body.read(buffer) {
            Ok(0) => Ok(RecordedPart::Ended),
            Ok(count) => Ok(RecordedPart::Bytes(count)),
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock
                | io::ErrorKind::TimedOut
                | io::ErrorKind::Interrupted => Ok(RecordedPart::Quiet),
                io::ErrorKind::InvalidData => {
                    Err(ApiRequestError::malformed(&self.server, error.to_string()))
                }
                _broken => Err(ApiRequestError::Broken {
                    server: self.server.clone(),
                    source: error,
                }),
            },
        }
    }

    /// Asks the server to end the recording: what it has so far follows, then the end.
    pub fn end(&mut self) {
        self.body.get_mut().get_mut().end_sending();
    }
}
