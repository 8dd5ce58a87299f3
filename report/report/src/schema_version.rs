//! The version that every document carries.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The version of every document in this crate.
pub const SCHEMA: SchemaVersion = SchemaVersion;

/// The field `schema` of a document; a document of another version is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "u64", into = "u64")]
#[schemars(inline, extend("const" = SchemaVersion::NUMBER))]
pub struct SchemaVersion;

impl SchemaVersion {
    /// The number in JSON.
    pub const NUMBER: u64 = 1;
}

impl fmt::Display for SchemaVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Self::NUMBER)
    }
}

impl From<SchemaVersion> for u64 {
    fn from(_this: SchemaVersion) -> Self {
        SchemaVersion::NUMBER
    }
}

impl TryFrom<u64> for SchemaVersion {
    type Error = String;

    fn try_from(number: u64) -> Result<Self, String> {
        match number {
            Self::NUMBER => Ok(Self),
            other => Err(format!("schema {other}, not {SCHEMA}")),
        }
    }
}
