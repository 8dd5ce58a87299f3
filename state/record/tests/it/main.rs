//! Recordings of sessions in which anything can happen, read back whole, in part and damaged.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "what goes wrong here fails the test, also in functions that tests share"
)]

mod damage;
mod files;
mod replay;
mod selection;
mod session;
mod writing;
