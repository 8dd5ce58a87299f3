//! How far the storage of programs is from the lowest buffer of a core.

use crate::theme::{Ink, Theme};
use ttmem_report::format;
use ttmem_report::labels;
use ttmem_report::{L1Core, L1Map};

const NARROW_BYTES: i128 = labels::NARROW_HEADROOM_BYTES as i128;
/// Below so many hundredths of a core the user should know.
const SMALL_PERCENT: u64 = 2;

/// The bytes between them; below 0 where they lie over each other. Without any they clash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Gap(i128);

impl Gap {
    pub(super) fn of(core: &L1Core) -> Option<Self> {
        let (end, lowest) = core.cb_end.zip(core.lowest_buffer)?;
        Some(Self(i128::from(lowest) - i128::from(end)))
    }

    pub(super) fn smallest(map: &L1Map) -> Option<(&L1Core, Self)> {
        let gaps = map.cores.iter();
        let gaps = gaps.filter_map(|core| Some((core, Self::of(core)?)));
        gaps.min_by_key(|(_, gap)| *gap)
    }

    pub(super) fn of_bytes(bytes: u64) -> Self {
        Self(bytes.into())
    }

    pub(super) const fn is_clash(self) -> bool {
        self.0 <= 0
    }

    /// How bad it is on a core of so many bytes.
    pub(super) fn ink(self, bytes_per_core: Option<u64>) -> Ink {
        let small = bytes_per_core.map_or(0, |bytes| bytes / 100 * SMALL_PERCENT);
        match self.0 {
            ..=0 => Ink::Danger,
            1..NARROW_BYTES => Ink::Warning,
            bytes if bytes < i128::from(small) => Ink::Faint,
            _wide => Ink::Good,
        }
    }

    /// The sign beside a core; none where all is well.
    pub(super) const fn sign(self) -> Option<char> {
        match self.0 {
            ..=0 => Some('X'),
            1..NARROW_BYTES => Some('!'),
            _wide => None,
        }
    }

    pub(super) fn said(self, bytes_per_core: Option<u64>, theme: Theme) -> String {
        let dash = theme.unknown();
        let size = u64::try_from(self.0.unsigned_abs()).unwrap_or(u64::MAX);
        let size = format::bytes(size);
        match (self.0, self.ink(bytes_per_core)) {
            (..0, _) => format!("clash by {size}"),
            (0, _) => format!("{size} {dash} clash"),
            (_, Ink::Warning) => format!("{size} {dash} narrow"),
            (_, Ink::Faint) => format!("{size} {dash} small"),
            _wide => size,
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
        let gap = |end, lowest| Gap::of(&core(Some(end), Some(lowest)));
        assert!(gap(10, 1) < gap(1, 1));
        assert!(gap(1, 1) < gap(1, 2));
        assert!(gap(u64::MAX, 0) < gap(0, u64::MAX));
    }
}
