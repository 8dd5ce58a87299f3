//! The read API: the ledger as JSON over HTTP, for every viewer.
//!
//! A connection whose first byte is that of an HTTP request is handed to the [`HttpThread`], which
//! also takes connections over TCP if the server is configured so. Each request takes the view that
//! the ledger thread has published, and turns it into a document on a thread of its own; the last
//! events come from the journal. Nothing here changes the ledger but `forget` and `mark`, and nothing
//! here can hold up a session.

mod admission;
mod blocks;
mod connection;
mod device;
pub(crate) mod failures;
mod geometry_cache;
mod half_closed;
mod handlers;
mod host;
mod http;
mod l1map;
mod leaks;
mod limits;
mod metrics;
mod of_process;
mod openapi;
mod over_time;
mod page;
mod peak;
mod pending;
mod program_rows;
mod record;
mod routes;
mod row_length;
mod rows;
mod select;
pub(crate) mod snapshot;
mod tcp;
mod turnstile;
pub(crate) mod vocabulary;

#[cfg(test)]
mod tests;

pub use connection::{HttpThread, StartHttpError, refuse};
pub use geometry_cache::GeometryCache;
pub(crate) use http::Live;
pub use http::{NamePolicy, ReadState};
pub use limits::HttpLimits;
pub(crate) use limits::Permit;
pub use metrics::DeviceSeries;
pub use page::{ReportPage, missing_page};
pub(crate) use peak::of as peak_of;
pub use snapshot::ServerFacts;
pub use tcp::{BindHttpError, BoundHttp, HttpConfig};

/// The numbers of a text that has so many of them, with dashes between.
fn dashed<const N: usize>(text: &str) -> Option<[u64; N]> {
    let numbers: Option<Vec<u64>> = text.split('-').map(ttmem_report::decimal).collect();
    numbers?.try_into().ok()
}
