//! Bars of parts: what memory is taken by, how much of it, and how much it was at most.

use super::canvas::Canvas;
use crate::theme::{ColourDepth, Ink, Theme};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

#[derive(Debug, Clone)]
pub(crate) struct Bar {
    /// What it is taken by, in the order in which it lies there.
    parts: Vec<(Ink, u64)>,
    /// What there is; a bar without it is dotted.
    whole: Option<u64>,
    /// The highest value so far, as a tick.
    peak: Option<u64>,
}

impl Bar {
    pub(crate) fn new(parts: &[(Ink, u64)], whole: Option<u64>) -> Self {
        Self {
            parts: parts.to_vec(),
            whole,
            peak: None,
        }
    }

    pub(crate) fn with_peak(self, peak: Option<u64>) -> Self {
        Self { peak, ..self }
    }

    /// Draws it into so many columns of a row.
    ///
    /// Each part has its share, rounded: a cell that it does not fill to half is not its own. The sum
    /// is never above the whole, and the last cell is filled only when the whole is.
    pub(crate) fn draw(&self, canvas: &mut Canvas<'_>, (left, row): (u16, u16), columns: u16) {
        let theme = canvas.theme;
        let right = left.saturating_add(columns).min(canvas.area.right());
        if row < canvas.area.top() || row >= canvas.area.bottom() || left >= right {
            return;
        }
        let columns = right - left;
        let Some(whole) = self.whole.filter(|whole| *whole > 0) else {
            let dots = theme.pick('┄', '-');
            (left..right).for_each(|column| canvas.cell((column, row), dots, Ink::Faint));
            return;
        };
        let mut column = left;
        for (ink, cells) in self.cells(whole, columns) {
            for _cell in 0..cells {
                canvas.cell((column, row), theme.fill(ink), ink);
                column += 1;
            }
        }
        for column in column..right {
            canvas.cell((column, row), theme.fill(Ink::Free), Ink::Free);
        }
        if let Some(peak) = self.peak {
            let place = left + scaled(peak.min(whole), whole, columns).min(columns - 1);
            // On what is taken it would hide a part: a tick is of use only beyond.
            if place >= column {
                let tick = theme.pick('▏', '|');
                canvas.cell((place, row), tick, Ink::Peak);
            }
        }
    }

    fn cells(&self, whole: u64, columns: u16) -> Vec<(Ink, u16)> {
        let mut cells = Vec::with_capacity(self.parts.len());
        let (mut sum, mut drawn) = (0_u64, 0_u16);
        for &(ink, bytes) in &self.parts {
            if bytes == 0 {
                continue;
            }
            sum = sum.saturating_add(bytes).min(whole);
            // By where it ends, so that what is rounded off does not add up.
            let mut end = rounded(sum, whole, columns);
            if sum < whole {
                end = end.min(columns.saturating_sub(1));
            }
            let end = end.max(drawn);
            cells.push((ink, end.saturating_sub(drawn)));
            drawn = end.max(drawn);
        }
        cells
    }
}

#[must_use]
pub fn bar(used: u64, whole: Option<u64>, columns: u16) -> String {
    let mut buffer = Buffer::empty(Rect::new(0, 0, columns, 1));
    let bar = Bar::new(&[(Ink::Dram, used)], whole);
    let theme = Theme::new(ColourDepth::None, true);
    bar.draw(&mut Canvas::new(&mut buffer, theme), (0, 0), columns);
    buffer.content.iter().map(|cell| cell.symbol()).collect()
}

/// `columns` times `part` of `whole`, to the nearest.
fn rounded(part: u64, whole: u64, columns: u16) -> u16 {
    let scaled = u128::from(part) * u128::from(columns) + u128::from(whole) / 2;
    u16::try_from(scaled / u128::from(whole)).unwrap_or(columns)
}

/// `columns` times `part` of `whole`, rounded down.
fn scaled(part: u64, whole: u64, columns: u16) -> u16 {
    let scaled = u128::from(part) * u128::from(columns) / u128::from(whole);
    u16::try_from(scaled).unwrap_or(columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(parts: &[(Ink, u64)], whole: Option<u64>, peak: Option<u64>, columns: u16) -> String {
        let mut canvas = Buffer::empty(Rect::new(0, 0, columns, 1));
        let bar = Bar::new(parts, whole).with_peak(peak);
        let theme = Theme::new(ColourDepth::None, false);
        bar.draw(&mut Canvas::new(&mut canvas, theme), (0, 0), columns);
        canvas.content.iter().map(|cell| cell.symbol()).collect()
    }

    #[test]
    fn parts_lie_one_behind_the_other() {
        let parts = [(Ink::Reserved, 10), (Ink::Storage, 30), (Ink::L1, 20)];
        assert_eq!(drawn(&parts, Some(100), None, 10), "rccc##....");
        assert_eq!(drawn(&parts, Some(100), Some(80), 10), "rccc##..|.");
    }

    #[test]
    fn a_part_has_its_share_and_full_is_only_full() {
        assert_eq!(drawn(&[(Ink::L1, 1)], Some(1 << 40), None, 4), "....");
        let parts = [(Ink::Reserved, 72), (Ink::Storage, 2), (Ink::L1, 1)];
        // 7.5 % are one of eighteen cells, whatever they are made of.
        assert_eq!(drawn(&parts, Some(1000), None, 18), "r.................");
        assert_eq!(
            drawn(&[(Ink::L1, (1 << 40) - 1)], Some(1 << 40), None, 4),
            "###."
        );
        assert_eq!(drawn(&[(Ink::L1, 1 << 40)], Some(1 << 40), None, 4), "####");
        assert_eq!(
            drawn(&[(Ink::L1, u64::MAX), (Ink::Storage, 9)], Some(9), None, 4),
            "####"
        );
    }

    #[test]
    fn an_unknown_whole_is_not_a_zero_and_odd_widths_are_no_fault() {
        assert_eq!(drawn(&[(Ink::L1, 5)], None, None, 4), "----");
        assert_eq!(drawn(&[(Ink::L1, 5)], Some(0), None, 4), "----");
        assert_eq!(
            drawn(&[(Ink::L1, 1), (Ink::Storage, 1)], Some(100), Some(100), 1),
            "|"
        );
        assert_eq!(drawn(&[(Ink::L1, 1)], Some(2), None, 0), "");
    }
}
