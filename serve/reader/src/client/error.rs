//! Why a request was not answered.

use std::io;
use std::time::Duration;

use crate::Address;
use ttmem_report::{ErrorBody, SCHEMA};

/// Why a request to a server was not answered.
#[derive(Debug, thiserror::Error)]
pub enum ApiRequestError {
    #[error("no server listens on {server}")]
    NotRunning { server: Address, source: io::Error },
    /// The server may not or cannot be reached.
    #[error("cannot connect to {server}")]
    Connect { server: Address, source: io::Error },
    #[error("{server} did not answer within {:.1} s", after.as_secs_f64())]
    Timeout { server: Address, after: Duration },
    #[error("the connection to {server} broke")]
    Broken { server: Address, source: io::Error },
    /// The server refused the request, with a reason if it gave one in a form we know.
    #[error("{server} answered {code}{}", explanation(problem.as_ref()))]
    Status {
        server: Address,
        code: u16,
        problem: Option<ErrorBody>,
    },
    /// What was answered is not what this API answers.
    #[error("{server} does not speak this API: {reason}")]
    Malformed { server: Address, reason: String },
    /// The answer is larger than this client accepts.
    #[error("the answer of {server} is larger than {limit_bytes} bytes")]
    TooLarge { server: Address, limit_bytes: u64 },
    /// The server speaks another version of the read API.
    #[error("{server} answers in schema {got}, this program knows schema {SCHEMA}")]
    Schema { server: Address, got: u64 },
}

impl ApiRequestError {
    pub(crate) fn malformed(server: &Address, reason: impl Into<String>) -> Self {
        Self::Malformed {
            server: server.clone(),
            reason: reason.into(),
        }
    }
}

fn explanation(problem: Option<&ErrorBody>) -> String {
    problem
        .map(|problem| format!(": {problem}"))
        .unwrap_or_default()
}
