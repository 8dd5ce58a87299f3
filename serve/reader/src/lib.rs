//! Clients of HTTP APIs: the read API of a ttmem server, and a Prometheus that scrapes such servers.
//!
//! Blocking, without an async runtime. The documents that arrive are those of `ttmem-report`.

mod address;
pub mod client;
mod events;
mod fleet;
mod host_pattern;
mod http;
mod prometheus;
mod record;
mod token;

pub use address::{Address, HttpUrl, ParseHttpUrlError};
pub use client::{ApiClient, ApiRequestError};
pub use events::{EventReader, Streamed};
pub use host_pattern::{HostPattern, ParseHostPatternError};
pub use prometheus::{ParsePrometheusUrlError, Prometheus, PrometheusError, PrometheusUrl};
pub use record::{RecordRequest, RecordedPart, RecordingReader};
pub use token::{ParseTokenError, ReadTokenError, Token};
