//! Values over time as a filled area, with its scale at the left and its times below.

use super::canvas::Canvas;
use super::text;
use crate::theme::Ink;
use ratatui::layout::Rect;
use ttmem_report::Share;
use ttmem_report::format;

const LABELS: u16 = 10;

/// The last cell of a column, by eighths.
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const ASCII_LEVELS: [char; 8] = ['_', '_', '.', '.', '-', '=', '=', '#'];

#[derive(Debug)]
pub(crate) struct Area<'v> {
    /// Oldest first; what is not known leaves a gap.
    pub(crate) values: &'v [Option<u64>],
    /// The top of the scale; the highest value where there is no bound.
    pub(crate) whole: Option<u64>,
    pub(crate) ink: Ink,
    /// What stands below the oldest value.
    pub(crate) from: String,
    /// What stands below the newest.
    pub(crate) to: String,
}

/// Draws values over all of an area: the oldest at its left, the newest at its right.
pub(crate) fn draw_area(canvas: &mut Canvas<'_>, area: Rect, drawn: &Area<'_>) {
    let area = area.intersection(canvas.area);
    let axis = u16::from(area.height > 2);
    let plot = Rect {
        x: area.x + LABELS.min(area.width),
        width: area.width.saturating_sub(LABELS),
        height: area.height - axis,
        ..area
    };
    if plot.is_empty() || drawn.values.is_empty() {
        return;
    }
    let highest = drawn.values.iter().flatten().copied().max().unwrap_or(0);
    let scale = drawn.whole.unwrap_or(highest).max(highest).max(1);
    let mut label = |row: u16, value: u64| {
        let words = text::right(&format::bytes(value), usize::from(LABELS - 1));
        canvas.put((area.x, row), &words, usize::from(LABELS), Ink::Faint);
    };
    label(plot.y, scale);
    if plot.height > 1 {
        label(plot.bottom() - 1, 0);
    }
    let levels = canvas.theme.pick(LEVELS, ASCII_LEVELS);
    let columns = usize::from(plot.width);
    for (place, column) in (plot.x..plot.right()).enumerate() {
        // The values of a column, at least one: few of them are drawn as wide as it takes.
        let first = place * drawn.values.len() / columns;
        let last = ((place + 1) * drawn.values.len() / columns).max(first + 1);
        let values = drawn.values.get(first..last.min(drawn.values.len()));
        let Some(value) = values.unwrap_or_default().iter().flatten().max() else {
            continue;
        };
        let share = Share::of(*value, Some(scale)).expect("a scale is never 0");
        // Nothing is seen as a line at the bottom: what is not known leaves a gap.
        let mut eighths = share.parts(u32::from(plot.height) * 8).max(1);
        for row in (plot.y..plot.bottom()).rev() {
            let level = usize::try_from(eighths.min(8)).unwrap_or(8);
            let Some(sign) = level.checked_sub(1).map(|level| levels[level]) else {
                break;
            };
            canvas.cell((column, row), sign, drawn.ink);
            eighths = eighths.saturating_sub(8);
        }
    }
    if axis > 0 {
        let line = Rect::new(plot.x, plot.bottom(), plot.width, 1);
        canvas.text(line, &drawn.from, Ink::Faint);
        canvas.text_at_right(line, &drawn.to, Ink::Faint);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::screen::{THEME, text as lines};
    use ratatui::buffer::Buffer;

    fn drawn(values: &[Option<u64>], size: (u16, u16)) -> String {
        let mut canvas = Buffer::empty(Rect::new(0, 0, size.0, size.1));
        let area = canvas.area;
        let what = Area {
            values,
            whole: Some(80),
            ink: Ink::Dram,
            from: "1 min ago".to_owned(),
            to: "now".to_owned(),
        };
        draw_area(&mut Canvas::new(&mut canvas, THEME), area, &what);
        lines(&canvas)
    }

    #[test]
    fn few_values_fill_the_width_and_many_keep_their_peaks() {
        let few = drawn(&[Some(80), None, Some(40)], (16, 3));
        assert_eq!(
            few,
            "     80 B ██\n      0 B ██  ██\n          1 min… now\n"
                .replace("1 min… now", "1 mnow")
        );
        let mut many = vec![Some(0); 600];
        many[300] = Some(80);
        assert_eq!(drawn(&many, (16, 2)).matches('█').count(), 2);
    }

    #[test]
    fn no_area_is_too_small() {
        for width in 0..14 {
            for height in 0..4 {
                drawn(&[Some(1), None], (width, height));
                drawn(&[], (width, height));
            }
        }
    }
}
