//! Points in time as RFC 3339 strings in UTC.
//!
//! No time zones, no leap seconds (Unix time has none), no clock: the caller brings the time.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use schemars::JsonSchema;
use time::{Date, Month, OffsetDateTime, PrimitiveDateTime, Time};

use crate::text_form::text_form;

/// Nanoseconds since 1970-01-01 UTC, written as `2026-11-15T08:25:03.000000001Z`.
///
/// 64 bits reach the year 2554, so every value has a four-digit year. The text always has nine
/// fractional digits: texts sort like times. A text with a time before 1970 or after 2554 gives the
/// nearest time that can be written: who asks for all since the year 1 means all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
#[schemars(description = "A time in UTC, with a `Z` behind it.", extend("format" = "date-time"))]
pub struct Timestamp(#[schemars(with = "String")] u64);

/// A string that is not an RFC 3339 time in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a time: expected RFC 3339 in UTC, such as 2026-11-15T08:25:03.5Z")]
pub struct ParseTimestampError;

impl Timestamp {
    /// The time that many nanoseconds after the Unix epoch.
    #[must_use]
    pub const fn from_unix_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the Unix epoch.
    #[must_use]
    pub const fn unix_nanos(self) -> u64 {
        self.0
    }
}

/// A clock set before 1970 or after 2554 gives the nearest time that can be written.
impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        let nanos = time
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_nanos());
        Self(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = OffsetDateTime::from_unix_timestamp_nanos(self.0.into());
        let time = time.map_err(|_beyond_the_calendar| fmt::Error)?;
        let (year, month, day) = time.to_calendar_date();
        let (hour, minute, second, nanos) = time.to_hms_nano();
        write!(
            f,
            "{year:04}-{:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{nanos:09}Z",
            u8::from(month)
        )
    }
}

impl FromStr for Timestamp {
    type Err = ParseTimestampError;

    fn from_str(text: &str) -> Result<Self, ParseTimestampError> {
        parse(text.as_bytes()).map(Self).ok_or(ParseTimestampError)
    }
}

text_form!(Timestamp, "an RFC 3339 time in UTC");

fn parse(text: &[u8]) -> Option<u64> {
    let (date_time, rest) = text.split_at_checked(19)?;
    let separators = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    if separators.iter().any(|&(at, byte)| date_time[at] != byte) {
        return None;
    }
    let part = |digits: Range<usize>| u8::try_from(number(&date_time[digits])?).ok();
    let fraction_nanos = match rest.strip_suffix(b"Z")? {
        [] => 0,
        [b'.', digits @ ..] if (1..=9).contains(&digits.len()) => {
            let scale = (digits.len()..9).fold(1, |scale, _| scale * 10);
            number(digits)? * scale
        }
        _ => return None,
    };
    let year = i32::try_from(number(&date_time[0..4])?).ok()?;
    let month = Month::try_from(part(5..7)?).ok()?;
    let date = Date::from_calendar_date(year, month, part(8..10)?).ok()?;
    let nanos = u32::try_from(fraction_nanos).ok()?;
    let time = Time::from_hms_nano(part(11..13)?, part(14..16)?, part(17..19)?, nanos).ok()?;
    let nanos = PrimitiveDateTime::new(date, time)
        .assume_utc()
        .unix_timestamp_nanos();
    Some(u64::try_from(nanos.max(0)).unwrap_or(u64::MAX))
}

/// A number of decimal digits only; callers pass nine at most, so it cannot overflow.
fn number(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0u64, |value, digit| {
        digit
            .is_ascii_digit()
            .then(|| value * 10 + u64::from(digit - b'0'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_unix_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn known_dates() {
        // Reference values of `date -u -d @N`.
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.000000000Z"),
            (951_782_400, "2000-02-29T00:00:00.000000000Z"),
            (1_709_251_199, "2024-02-29T23:59:59.000000000Z"),
            (1_709_251_200, "2024-03-01T00:00:00.000000000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000000000Z"),
            (4_107_542_399, "2100-02-28T23:59:59.000000000Z"),
        ] {
            assert_eq!(at(seconds).to_string(), text);
            assert_eq!(text.parse(), Ok(at(seconds)));
        }
        assert_eq!(
            Timestamp::from_unix_nanos(u64::MAX).to_string(),
            "2554-07-21T23:34:33.709551615Z"
        );
    }

    #[test]
    fn fractions_of_any_length() {
        assert_eq!(
            "1970-01-01T00:00:01.5Z".parse(),
            Ok(Timestamp(1_500_000_000))
        );
        assert_eq!("1970-01-01T00:00:00.000000001Z".parse(), Ok(Timestamp(1)));
        assert_eq!("1970-01-01T00:00:01Z".parse(), Ok(at(1)));
    }

    #[test]
    fn refuses_what_is_not_a_time() {
        for text in [
            "",
            "2026-11-15",
            "2026-11-15T08:25:03",
            "2026-11-15 08:25:03Z",
            "2026-11-15T08:25:03+01:00",
            "2026-02-29T00:00:00Z",
            "2026-02-30T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-01-00T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:60:00Z",
            "2026-01-01T00:00:60Z",
            "2026-01-01T00:00:00.Z",
            "2026-01-01T00:00:00.1234567890Z",
            "1900-02-29T00:00:00Z",
            "1969-11-31T00:00:00Z",
            "9999-12-32T23:59:59Z",
            "+026-01-01T00:00:00Z",
            "2026-01-01T00:00:0éZ",
        ] {
            assert_eq!(
                text.parse::<Timestamp>(),
                Err(ParseTimestampError),
                "{text:?}"
            );
        }
    }

    #[test]
    fn times_that_cannot_be_written_are_the_nearest_that_can() {
        for early in [
            "0000-01-01T00:00:00Z",
            "1600-02-29T00:00:00Z",
            "1969-12-31T23:59:59.9Z",
        ] {
            assert_eq!(early.parse(), Ok(Timestamp(0)), "{early}");
        }
        for late in [
            "2554-07-21T23:34:33.709551616Z",
            "2554-07-21T23:34:34Z",
            "9999-12-31T23:59:59.999999999Z",
        ] {
            assert_eq!(late.parse(), Ok(Timestamp(u64::MAX)), "{late}");
        }
    }

    #[test]
    fn a_clock_before_the_epoch_does_not_panic() {
        let before = UNIX_EPOCH - std::time::Duration::from_secs(1);
        assert_eq!(Timestamp::from(before), Timestamp(0));
    }
}
