//! Why an allocation or a program was refused.
//!
//! [`explain`] is a pure function from the [`Moment`] of a failure to an
//! [`Explanation`](ttmem_api::Explanation): no clock, no I/O. The server calls it with what the
//! account knew when the failure happened, [`log`] with what the runtime wrote into a log. What
//! neither knows stays null, and the explanation says so.

mod bank;
mod explain;
mod holders;
pub mod log;
mod moment;
mod refused;
mod setting;
mod storage;
mod words;

#[cfg(test)]
mod tests;

pub use explain::explain;
pub use moment::{
    BelowLimit, BlockTable, Caller, Failure, Moment, Refused, StorageRefused, TraceRegion, Witness,
};
pub use setting::regions;
