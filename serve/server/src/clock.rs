//! The wall clock, for those who are allowed to ask it.

use std::time::{SystemTime, UNIX_EPOCH};

pub(crate) fn unix_nanos() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
