//! A part of a whole, never above the whole.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    used: u64,
    whole: u64,
}

impl Share {
    /// `None` when the whole is not known, or nothing.
    #[must_use]
    pub fn of(used: u64, whole: Option<u64>) -> Option<Self> {
        let whole = whole.filter(|whole| *whole > 0)?;
        Some(Self {
            used: used.min(whole),
            whole,
        })
    }

    /// How many of `parts` equal parts are used up, rounded down: all of them only when full.
    #[must_use]
    pub fn parts(self, parts: u32) -> u32 {
        let used = u128::from(self.used) * u128::from(parts) / u128::from(self.whole);
        u32::try_from(used).expect("at most `parts`")
    }

    #[must_use]
    pub fn permille(self) -> u16 {
        u16::try_from(self.parts(1000)).expect("at most 1000")
    }
}

/// ` 99.9%` in six columns; a dash when the whole is not known.
#[must_use]
pub fn percent(share: Option<Share>, unknown: &str) -> String {
    share.map_or_else(
        || format!("{unknown:>6}"),
        |share| format!("{:>3}.{}%", share.permille() / 10, share.permille() % 10),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_above_the_whole_and_full_only_when_full() {
        assert_eq!(percent(Share::of(117, Some(100)), "–"), "100.0%");
        assert_eq!(
            percent(Share::of(u64::MAX - 1, Some(u64::MAX)), "–"),
            " 99.9%"
        );
        assert_eq!(percent(Share::of(5, None), "–"), "     –");
        assert_eq!(percent(Share::of(5, Some(0)), "–"), "     –");
    }
}
