//! The read API: the ledger as JSON over HTTP, for every viewer.
//!
//! A connection whose first byte is that of an HTTP request is handed to the [`HttpThread`], which
//! also takes connections over TCP if it is told to. Each request takes the view that the ledger
//! thread has published, and turns it into a document on a thread of its own: [`snapshot`] for all
//! totals, [`rows`] for single buffers, circular buffers and kernels; the last events come from the
//! journal. Nothing here changes the ledger but `forget` and `mark`, and nothing here can hold up a
//! session.

mod admission;
mod blocks;
mod connection;
mod device;
mod handlers;
mod heads;
mod http;
mod l1map;
mod limits;
mod peak;
mod places;
mod programs;
mod row_length;
pub mod rows;
pub mod select;
pub mod snapshot;
mod tcp;
pub(crate) mod words;

#[cfg(test)]
mod tests;

pub use connection::{HttpThread, StartHttpError, refuse};
pub use http::ReadState;
pub use limits::HttpLimits;
pub use places::Places;
pub use snapshot::ServerFacts;
pub use tcp::{BindHttpError, BoundHttp, HttpConfig};
