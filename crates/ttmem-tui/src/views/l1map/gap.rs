//! How far the storage of programs is from the lowest buffer of a core.

use crate::format;
use crate::theme::{Ink, Theme};
use ttmem_api::{L1Core, L1Map};

/// Below so many bytes the next program may well clash.
const NARROW_BYTES: u64 = 16 * 1024;
/// Below so many hundredths of a core the user should know.
const SMALL_PERCENT: u64 = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gap {
    Apart(u64),
    /// Nothing: they lie over each other by so many bytes, or touch.
    Clash(u64),
}

impl Gap {
    pub(super) fn of(core: &L1Core) -> Option<Self> {
        let (end, lowest) = core.cb_end.zip(core.lowest_buffer)?;
        Some(match lowest.checked_sub(end) {
            None | Some(0) => Self::Clash(end - lowest),
            Some(bytes) => Self::Apart(bytes),
        })
    }

    pub(super) fn smallest(map: &L1Map) -> Option<(&L1Core, Self)> {
        let gaps = map.cores.iter();
        let gaps = gaps.filter_map(|core| Some((core, Self::of(core)?)));
        gaps.min_by_key(|(_, gap)| gap.order())
    }

    /// The worst is the smallest.
    fn order(self) -> i128 {
        match self {
            Self::Apart(bytes) => i128::from(bytes),
            Self::Clash(bytes) => -i128::from(bytes),
        }
    }

    pub(super) const fn of_bytes(bytes: u64) -> Self {
        match bytes {
            0 => Self::Clash(0),
            bytes => Self::Apart(bytes),
        }
    }

    /// How bad it is on a core of so many bytes.
    pub(super) fn ink(self, bytes_per_core: Option<u64>) -> Ink {
        let small = bytes_per_core.map_or(0, |bytes| bytes / 100 * SMALL_PERCENT);
        match self {
            Self::Clash(_) => Ink::Danger,
            Self::Apart(bytes) if bytes < NARROW_BYTES => Ink::Warning,
            Self::Apart(bytes) if bytes < small => Ink::Faint,
            Self::Apart(_) => Ink::Good,
        }
    }

    /// The sign beside a core; none where all is well.
    pub(super) fn sign(self) -> Option<char> {
        match self {
            Self::Clash(_) => Some('X'),
            Self::Apart(bytes) => (bytes < NARROW_BYTES).then_some('!'),
        }
    }

    pub(super) fn said(self, bytes_per_core: Option<u64>, theme: Theme) -> String {
        let dash = theme.unknown();
        match (self, self.ink(bytes_per_core)) {
            (Self::Clash(0), _) => format!("0 B {dash} clash"),
            (Self::Clash(bytes), _) => format!("clash by {}", format::bytes(bytes)),
            (Self::Apart(bytes), Ink::Warning) => {
                format!("{} {dash} narrow", format::bytes(bytes))
            }
            (Self::Apart(bytes), Ink::Faint) => format!("{} {dash} small", format::bytes(bytes)),
            (Self::Apart(bytes), _) => format::bytes(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::screen::THEME;

    fn core(cb_end: Option<u64>, lowest_buffer: Option<u64>) -> L1Core {
        L1Core {
            x: 0,
            y: 0,
            occupied_bytes: None,
            cb_bytes: 0,
            cb_end,
            lowest_buffer,
            resident: None,
        }
    }

    #[test]
    fn a_warning_comes_before_the_clash() {
        let bytes_per_core = Some(1_499_136);
        for (end, lowest, ink, sign, said) in [
            (100, 1_000_100, Ink::Good, None, "976.6 KiB"),
            (100, 20_580, Ink::Faint, None, "20.0 KiB – small"),
            (100, 16_483, Ink::Warning, Some('!'), "16.0 KiB – narrow"),
            (100, 100, Ink::Danger, Some('X'), "0 B – clash"),
            (2_148, 100, Ink::Danger, Some('X'), "clash by 2.0 KiB"),
        ] {
            let gap = Gap::of(&core(Some(end), Some(lowest))).expect("both are known");
            assert_eq!(gap.ink(bytes_per_core), ink, "{end} {lowest}");
            assert_eq!(gap.sign(), sign, "{end} {lowest}");
            assert_eq!(gap.said(bytes_per_core, THEME), said);
        }
        assert_eq!(Gap::of(&core(None, Some(1))), None);
        assert_eq!(Gap::of(&core(Some(1), None)), None);
    }

    #[test]
    fn the_worst_clash_is_the_smallest_gap() {
        assert!(Gap::Clash(9).order() < Gap::Clash(0).order());
        assert!(Gap::Clash(0).order() < Gap::Apart(1).order());
        assert!(Gap::Clash(u64::MAX).order() < Gap::Apart(u64::MAX).order());
    }
}
