//! Sizes, counts, times and durations in few characters.
//!
//! Every result has a bounded width, whatever the number, so that tables stay aligned.

use crate::Timestamp;
pub use crate::size_text as bytes;

/// Characters of the longest size, `1023.9 MiB`.
pub const SIZE_WIDTH: usize = 10;

/// Characters of the longest count, `999999`.
pub const COUNT_WIDTH: usize = 6;

#[must_use]
pub fn bytes_or_unknown(size_bytes: Option<u64>) -> String {
    size_bytes.map_or_else(|| "unknown".to_owned(), bytes)
}

/// A count, exact up to six digits and with one decimal beyond, rounded down.
#[must_use]
pub fn count(count: u64) -> String {
    if count < 1_000_000 {
        return count.to_string();
    }
    let mut unit = 1_000_000;
    let mut names = ["M", "G", "T", "P", "E"].into_iter();
    let mut name = names.next().unwrap_or_default();
    while count / unit >= 1000
        && let Some(larger) = names.next()
    {
        unit *= 1000;
        name = larger;
    }
    format!("{}.{}{name}", count / unit, count % unit / (unit / 10))
}

/// A count and its noun, which takes an s unless there is exactly one.
#[must_use]
pub fn counted(number: u64, noun: &str) -> String {
    counted_as(number, noun, &format!("{noun}s"))
}

#[must_use]
pub fn counted_as(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { many })
}

/// Ids by number, neighbours as `0-7`. A mesh has its devices in the order of its coordinates, which
/// nobody reads.
#[must_use]
pub fn ids(ids: &[u32]) -> String {
    let mut ids = ids.to_vec();
    ids.sort_unstable();
    ids.dedup();
    let runs = ids.chunk_by(|id, next| id.checked_add(1) == Some(*next));
    let runs = runs.map(|run| match run {
        [first, .., last] => format!("{first}-{last}"),
        one => one.iter().map(u32::to_string).collect(),
    });
    runs.collect::<Vec<_>>().join(",")
}

/// A duration in its two largest units.
#[must_use]
pub fn duration(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, ..) => format!("{hours} h {minutes} min"),
        _ => format!("{} d {hours} h", count(days)),
    }
}

/// How long something had been there at a moment that stands still: what a program does within a second has its parts of one.
#[must_use]
pub fn fine_duration(nanos: u64) -> String {
    match nanos {
        0..1_000_000 => format!("{} µs", nanos / 1000),
        1_000_000..1_000_000_000 => format!("{} ms", nanos / 1_000_000),
        _seconds => duration(nanos / 1_000_000_000),
    }
}

/// A duration in its two largest units, in few characters: `59s`, `12m 5s`, `3h 12m`, `2d 3h`.
pub fn short_duration(seconds: u64) -> String {
    match (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, minutes) => format!("{minutes}m {}s", seconds % 60),
        (0, hours, minutes) => format!("{hours}h {minutes}m"),
        (days @ ..100, hours, _) => format!("{days}d {hours}h"),
        (days, ..) => format!("{}d", count(days)),
    }
}

pub fn rough_duration(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..86_400 => format!("{} h", seconds / 3600),
        _days => format!("{} d", seconds / 86_400),
    }
}

/// A date and time of day in UTC, to the second.
#[must_use]
pub fn date_time(time: Timestamp) -> String {
    time.to_string()[..19].replace('T', " ")
}

/// The time of day on the day of `now`, with the date on any other.
#[must_use]
pub fn time_near(time: Timestamp, now: Timestamp) -> String {
    let text = date_time(time);
    if text[..10] == now.to_string()[..10] {
        text[11..].to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_are_bounded_around_every_power_of_two() {
        for shift in 0..64 {
            for number in [
                (1u64 << shift) - 1,
                1 << shift,
                (1 << shift) + 1,
                999 << shift >> 9,
            ] {
                assert!(
                    bytes(number).len() <= SIZE_WIDTH,
                    "{number}: {}",
                    bytes(number)
                );
                assert!(
                    count(number).len() <= COUNT_WIDTH,
                    "{number}: {}",
                    count(number)
                );
            }
        }
        assert!(count(u64::MAX).len() <= COUNT_WIDTH);
    }

    #[test]
    fn counts_beyond_six_digits_are_cut_not_rounded_up() {
        assert_eq!(count(999_999), "999999");
        assert_eq!(count(1_999_999), "1.9M");
        assert_eq!(count(999_999_999), "999.9M");
        assert_eq!(count(1_000_000_000), "1.0G");
        assert_eq!(counted(1, "buffer"), "1 buffer");
        assert_eq!(counted(0, "buffer"), "0 buffers");
    }

    #[test]
    fn neighbours_are_put_together() {
        assert_eq!(ids(&[]), "");
        assert_eq!(ids(&[3]), "3");
        assert_eq!(ids(&[0, 1, 2, 3, 6, 8, 9]), "0-3,6,8-9");
        assert_eq!(ids(&[4, 0, 2, 6, 5, 1, 3, 7]), "0-7");
        assert_eq!(ids(&[4, 0, 4, 2, 6]), "0,2,4,6");
        assert_eq!(ids(&[u32::MAX - 1, u32::MAX, 0]), "0,4294967294-4294967295");
    }

    #[test]
    fn durations_and_times() {
        assert_eq!(duration(59), "59 s");
        assert_eq!(duration(61), "1 min 1 s");
        assert_eq!(duration(11_520), "3 h 12 min");
        assert_eq!(duration(90_000), "1 d 1 h");
        assert_eq!(fine_duration(84_214), "84 µs");
        assert_eq!(fine_duration(999_999_999), "999 ms");
        assert_eq!(fine_duration(61_900_000_000), "1 min 1 s");
        let day = 86_400_000_000_000;
        let now = Timestamp::from_unix_nanos(day + 5_000_000_000);
        assert_eq!(time_near(Timestamp::from_unix_nanos(day), now), "00:00:00");
        assert_eq!(
            time_near(Timestamp::from_unix_nanos(0), now),
            "1970-01-01 00:00:00"
        );
    }
}
