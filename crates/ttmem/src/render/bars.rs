//! Bars of block characters, and the share they show.

pub(super) use ttmem_tui::text::Share;

/// Left-aligned fillings of one cell, from one eighth to seven.
const PARTS: [char; 7] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉'];

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
    let eighths = share.parts(u32::try_from(cells * 8).unwrap_or(u32::MAX));
    let mut eighths = usize::try_from(eighths).expect("usize has at least 32 bits");
    if !share.is_nothing() {
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
