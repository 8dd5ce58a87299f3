//! Small curves in one row: the last values of a figure.

use super::canvas::Canvas;
use crate::theme::Ink;

const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const ASCII_LEVELS: [char; 8] = ['_', '.', '.', '-', '-', '=', '=', '#'];

/// Draws the newest values into so many columns of a row, newest to the right.
///
/// Heights are of `whole`; what is not known stays blank. More values than columns: each column
/// has the highest of its values, so that no peak is lost.
pub(crate) fn draw_curve(
    canvas: &mut Canvas<'_>,
    (left, row): (u16, u16),
    columns: u16,
    values: &[Option<u64>],
    whole: Option<u64>,
    ink: Ink,
) {
    let right = left.saturating_add(columns).min(canvas.area.right());
    if row < canvas.area.top() || row >= canvas.area.bottom() || left >= right || values.is_empty()
    {
        return;
    }
    let columns = usize::from(right - left);
    let per_column = values.len().div_ceil(columns);
    let highest = values.iter().flatten().copied().max().unwrap_or(0);
    let whole = whole.filter(|whole| *whole > 0).unwrap_or(highest).max(1);
    let levels = canvas.theme.pick(LEVELS, ASCII_LEVELS);
    for (place, chunk) in values.rchunks(per_column).enumerate() {
        let Some(value) = chunk.iter().flatten().copied().max() else {
            continue;
        };
        let level = u128::from(value.min(whole)) * 8 / u128::from(whole);
        let level = usize::try_from(level).unwrap_or(7).min(7);
        let place = u16::try_from(place).expect("fewer chunks than columns, which are a u16");
        canvas.cell((right - 1 - place, row), levels[level], ink);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::theme::{ColourDepth, Theme};
    use ratatui::buffer::Buffer;
    use ratatui::layout::Rect;

    fn drawn(values: &[Option<u64>], whole: Option<u64>, columns: u16) -> String {
        let mut canvas = Buffer::empty(Rect::new(0, 0, columns, 1));
        let theme = Theme::new(ColourDepth::None, true);
        let mut canvas = Canvas::new(&mut canvas, theme);
        draw_curve(&mut canvas, (0, 0), columns, values, whole, Ink::L1);
        canvas.content.iter().map(|cell| cell.symbol()).collect()
    }

    #[test]
    fn the_newest_is_to_the_right_and_the_unknown_is_blank() {
        assert_eq!(drawn(&[Some(0), None, Some(8)], Some(8), 5), "  ▁ █");
        assert_eq!(drawn(&[Some(u64::MAX)], Some(u64::MAX), 1), "█");
        assert_eq!(drawn(&[Some(9)], Some(1), 1), "█");
        assert_eq!(drawn(&[], Some(1), 2), "  ");
    }

    #[test]
    fn no_peak_is_lost_when_columns_are_few() {
        assert_eq!(
            drawn(&[Some(80), Some(0), Some(0), Some(0)], Some(80), 2),
            "█▁"
        );
    }
}
