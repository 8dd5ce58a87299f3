//! What the server answers to a request that is not a read: a refusal, a forgotten process, a mark.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::deceptive::is_deceptive;
use crate::{Mark, Released, SchemaVersion};

/// The body of every HTTP error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorBody {
    /// The version of the format.
    pub schema: SchemaVersion,
    /// What went wrong, as one stable word for programs: `not_found`, `busy`, …
    pub error: String,
    /// The same for people, with the values that matter.
    pub detail: String,
}

/// `error: detail`, safe to print: whoever answers on a socket is not always our server.
impl fmt::Display for ErrorBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let printable = |text: &str| text.replace(is_deceptive, "\u{fffd}");
        write!(f, "{}: {}", printable(&self.error), printable(&self.detail))
    }
}

/// The answer to a `forget`: what was dropped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Forgotten {
    /// The version of the format.
    pub schema: SchemaVersion,
    /// The process that was named.
    pub pid: u32,
    /// One entry per instance of that process, empty when none was known.
    pub released: Vec<Released>,
}

/// The answer to a `mark`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Marked {
    /// The version of the format.
    pub schema: SchemaVersion,
    /// The mark that was set.
    pub mark: Mark,
}
