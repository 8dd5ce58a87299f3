//! Why a request was not answered.

use std::io;
use std::time::Duration;

use crate::{Address, Problem};

/// Why a request was not answered.
#[derive(Debug, thiserror::Error)]
pub enum ApiRequestError {
    /// Nothing listens there.
    #[error("no server listens on {server}")]
    NotRunning {
        /// Who was asked.
        server: Address,
        /// What the kernel said.
        source: io::Error,
    },
    /// The server may not or cannot be reached.
    #[error("cannot connect to {server}")]
    Connect {
        /// Who was asked.
        server: Address,
        /// What the system said.
        source: io::Error,
    },
    /// The server took too long.
    #[error("{server} did not answer within {after:?}")]
    Timeout {
        /// Who was asked.
        server: Address,
        /// The time that was waited.
        after: Duration,
    },
    /// The connection broke.
    #[error("the connection to {server} broke")]
    Broken {
        /// Who was asked.
        server: Address,
        /// What the kernel said.
        source: io::Error,
    },
    /// The server refused the request.
    #[error("{server} answered {code}{}", explanation(problem.as_ref()))]
    Status {
        /// Who was asked.
        server: Address,
        /// The HTTP status code.
        code: u16,
        /// The reason, if the server gave one in a form we know.
        problem: Option<Problem>,
    },
    /// What was answered is not what this API answers.
    #[error("{server} does not speak this API: {reason}")]
    Malformed {
        /// Who was asked.
        server: Address,
        /// What is wrong with the answer.
        reason: String,
    },
    /// The answer is larger than this client accepts.
    #[error("the answer of {server} is larger than {limit_bytes} bytes")]
    TooLarge {
        /// Who was asked.
        server: Address,
        /// The client's limit.
        limit_bytes: u64,
    },
    /// The server speaks another version of the read API.
    #[error("{server} answers in schema {got}, this program knows schema {known}")]
    Schema {
        /// Who was asked.
        server: Address,
        /// The server's.
        got: u64,
        /// Ours.
        known: u32,
    },
}

fn explanation(problem: Option<&Problem>) -> String {
    problem
        .map(|problem| format!(": {problem}"))
        .unwrap_or_default()
}
