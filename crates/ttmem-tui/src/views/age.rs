//! How old documents may be: those that views ask for come by their own questions, each in its time.

use crate::data::Data;
use std::time::Duration;

/// After so many intervals without an answer a document is called old.
const INTERVALS: u32 = 3;

/// An answer may take so long, however often it is asked for.
const AT_LEAST: Duration = Duration::from_secs(3);

/// What is older than this is not called live any more.
pub(super) fn limit(data: &Data) -> Duration {
    data.interval.saturating_mul(INTERVALS).max(AT_LEAST)
}
