//! An account's state as bytes, and an account made of them.
//!
//! [`Account::save`](crate::Account::save) is called by a client that has to send
//! everything, [`Account::load`](crate::Account::load) by the server, on definitions
//! that it was sent before. Nothing in the bytes is believed: what they book goes
//! through the same checks as an event, totals are the sums of what was booked, and a
//! peak that its composition does not add up to is dropped.
//!
//! [`Account::save_whole`](crate::Account::save_whole) is for those who keep accounts: it has the
//! definitions, too, and what it makes is the account to the last slot (`whole`).
//!
//! The bytes are the account's own structures, one list after the other; [`describe`]
//! has their fields, and the fingerprint of those comes first.

pub mod codec;
mod layout;
mod load;
mod save;
#[cfg(test)]
mod tests;
mod whole;

pub use layout::{describe, fingerprint};
pub use load::Loading;
pub use whole::{SlotRoom, describe_whole, get_vacated, put_vacated};
