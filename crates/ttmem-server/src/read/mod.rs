//! The read API: the ledger as JSON over HTTP, for every viewer.
//!
//! A connection whose first byte is that of an HTTP request is handed to the [`HttpThread`], which
//! also takes connections over TCP if it is told to. Each
//! request takes a view of the ledger, which costs the ledger thread next to nothing, and turns it
//! into a document on a thread of its own: [`snapshot`] for all totals, [`rows`] for single
//! buffers, circular buffers and kernels; the last events come from where they are kept. Nothing here changes the ledger but `forget`, and
//! nothing here can hold up a session.

mod admission;
mod allowance;
mod blocks;
mod connection;
mod device;
mod handlers;
mod heads;
mod http;
mod l1map;
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

pub use connection::{HttpLimits, HttpThread, StartHttpError, refuse};
pub use http::ReadState;
pub use places::Places;
pub use snapshot::ServerFacts;
pub use tcp::{BindHttpError, BoundHttp, HttpConfig};
