//! An account's state as records, and an account made of them.
//!
//! [`Account::save`] is called by a client that has to tell a server everything,
//! [`Loader`] by the server, on definitions that it was sent before. Nothing in a
//! record is believed: what it books goes through the same checks as an event,
//! totals are the sums of what was booked, and a peak that its composition does
//! not add up to is dropped.

mod load;
mod save;

pub use load::Loader;

use crate::totals::GaugeKind;

/// The number of a gauge in records.
fn gauge_number(gauge: GaugeKind) -> u8 {
    u8::try_from(gauge.index()).unwrap_or(u8::MAX)
}

/// The gauge of a number.
fn gauge_numbered(number: u8) -> Option<GaugeKind> {
    GaugeKind::all().nth(usize::from(number))
}
