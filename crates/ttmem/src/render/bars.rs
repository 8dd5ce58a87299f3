//! Bars of block characters, and the share they show.

/// Left-aligned fillings of one cell, from one eighth to seven.
const PARTS: [char; 7] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉'];

/// A part of a whole, never above the whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Share {
    used: u64,
    whole: u64,
}

impl Share {
    /// `None` when the whole is not known, or nothing.
    pub(super) fn of(used: u64, whole: Option<u64>) -> Option<Self> {
        let whole = whole.filter(|whole| *whole > 0)?;
        Some(Self {
            used: used.min(whole),
            whole,
        })
    }

    /// How many of `parts` equal parts are used up, rounded down: all of them only when full.
    fn parts(self, parts: usize) -> usize {
        let parts = u128::try_from(parts).expect("usize has at most 64 bits");
        let used = u128::from(self.used) * parts / u128::from(self.whole);
        usize::try_from(used).expect("at most `parts`, which was a usize")
    }

    /// Tenths of a percent, from 0 to 1000.
    pub(super) fn permille(self) -> usize {
        self.parts(1000)
    }
}

/// `100.0%`, or a dash when the whole is not known.
pub(super) fn percent(share: Option<Share>) -> String {
    share.map_or_else(
        || "-".to_owned(),
        |share| format!("{}.{}%", share.permille() / 10, share.permille() % 10),
    )
}

/// A bar of exactly `width` characters; dotted when the whole is not known.
pub(super) fn bar(share: Option<Share>, width: usize) -> String {
    let cells = width.saturating_sub(2);
    let Some(share) = share else {
        return format!("[{}]", "·".repeat(cells));
    };
    let mut eighths = share.parts(cells * 8);
    if share.used > 0 {
        // What is there must be seen.
        eighths = eighths.max(1);
    }
    let mut bar = "█".repeat(eighths / 8);
    if let Some(part) = (eighths % 8).checked_sub(1) {
        bar.push(PARTS[part]);
    }
    format!("[{bar:<cells$}]")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(used: u64, whole: u64) -> String {
        bar(Share::of(used, Some(whole)), 6)
    }

    #[test]
    fn a_bar_fills_by_eighths() {
        assert_eq!(drawn(0, 32), "[    ]");
        assert_eq!(drawn(1, 32), "[▏   ]");
        assert_eq!(drawn(12, 32), "[█▌  ]");
        assert_eq!(drawn(31, 32), "[███▉]");
        assert_eq!(drawn(32, 32), "[████]");
    }

    #[test]
    fn never_above_the_whole_and_full_only_when_full() {
        assert_eq!(drawn(u64::MAX, 1), "[████]");
        assert_eq!(percent(Share::of(117, Some(100))), "100.0%");
        assert_eq!(percent(Share::of(u64::MAX - 1, Some(u64::MAX))), "99.9%");
        assert_eq!(drawn(u64::MAX - 1, u64::MAX), "[███▉]");
    }

    #[test]
    fn a_single_byte_is_seen_and_an_unknown_whole_is_not_a_zero() {
        assert_eq!(drawn(1, u64::MAX), "[▏   ]");
        assert_eq!(bar(Share::of(5, None), 6), "[····]");
        assert_eq!(bar(Share::of(5, Some(0)), 6), "[····]");
        assert_eq!(percent(None), "-");
    }

    #[test]
    fn every_bar_has_its_width() {
        for used in 0..=100 {
            assert_eq!(bar(Share::of(used, Some(100)), 20).chars().count(), 20);
        }
        assert_eq!(bar(None, 0), "[]");
    }
}
