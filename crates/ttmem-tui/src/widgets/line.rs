//! A line of several texts, each with its own meaning.

use super::pen::Pen;
use super::text;
use crate::look::{Ink, Look};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// Writes texts one behind the other into the first row of an area; where the next may begin.
pub(crate) fn draw_line<T: AsRef<str>>(
    canvas: &mut Buffer,
    area: Rect,
    parts: &[(T, Ink)],
    look: Look,
) -> u16 {
    let mut pen = Pen::new(canvas, area, area.y, look);
    for (part, ink) in parts {
        pen.put(part.as_ref(), *ink);
    }
    pen.column()
}

/// Writes texts with some columns between them.
pub(crate) fn draw_apart<T: AsRef<str>>(
    canvas: &mut Buffer,
    area: Rect,
    parts: &[(T, Ink)],
    apart: u16,
    look: Look,
) {
    let mut pen = Pen::new(canvas, area, area.y, look);
    for (part, ink) in parts {
        pen.put(part.as_ref(), *ink);
        pen.skip(apart);
    }
}

/// Writes texts with some columns between them, as many as fit whole: half a figure is none.
pub(crate) fn draw_whole(
    canvas: &mut Buffer,
    area: Rect,
    parts: &[(String, Ink)],
    apart: u16,
    look: Look,
) {
    let mut pen = Pen::new(canvas, area, area.y, look);
    for (part, ink) in parts {
        if text::width(part) > usize::from(pen.room()) {
            break;
        }
        pen.put(part, *ink);
        pen.skip(apart);
    }
}

/// One row of an area; of height 0 if it has not so many.
pub(crate) fn row_of(area: Rect, row: u16) -> Rect {
    if row < area.height {
        Rect::new(area.x, area.y + row, area.width, 1)
    } else {
        Rect::new(area.x, area.bottom(), area.width, 0)
    }
}

/// What an area has below its first rows.
pub(crate) fn below(area: Rect, rows: u16) -> Rect {
    let rows = rows.min(area.height);
    Rect::new(area.x, area.y + rows, area.width, area.height - rows)
}

/// What an area has to the right of its first columns.
pub(crate) fn right_of(area: Rect, columns: u16) -> Rect {
    let columns = columns.min(area.width);
    Rect::new(area.x + columns, area.y, area.width - columns, area.height)
}

/// The first rows of an area.
pub(crate) fn above(area: Rect, rows: u16) -> Rect {
    Rect::new(area.x, area.y, area.width, rows.min(area.height))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::look::ColourDepth;

    #[test]
    fn texts_follow_each_other_and_end_with_the_area() {
        let mut canvas = Buffer::empty(Rect::new(0, 0, 10, 1));
        let look = Look::new(ColourDepth::None, true);
        let parts = [
            ("ab", Ink::Strong),
            ("模\u{1b}", Ink::Text),
            ("cdefgh", Ink::Faint),
        ];
        let end = draw_line(&mut canvas, Rect::new(1, 0, 7, 1), &parts, look);
        let drawn: String = canvas.content.iter().map(|cell| cell.symbol()).collect();
        assert_eq!((drawn.as_str(), end), (" ab模 \u{fffd}c…  ", 8));
        assert_eq!(
            draw_line(&mut canvas, Rect::new(9, 5, 7, 1), &parts, look),
            9
        );
        assert_eq!(row_of(Rect::new(0, 0, 3, 2), 2).height, 0);
        assert_eq!(below(Rect::new(0, 0, 3, 2), 5), Rect::new(0, 2, 3, 0));
    }

    #[test]
    fn figures_are_never_halved() {
        let mut canvas = Buffer::empty(Rect::new(0, 0, 12, 1));
        let parts = ["one", "1.5 MiB", "x"].map(|part| (part.to_owned(), Ink::Text));
        let look = Look::new(ColourDepth::None, true);
        draw_whole(&mut canvas, Rect::new(0, 0, 11, 1), &parts, 1, look);
        draw_whole(&mut canvas, Rect::new(0, 0, 2, 1), &parts, 1, look);
        let drawn: String = canvas.content.iter().map(|cell| cell.symbol()).collect();
        assert_eq!(drawn, "one 1.5 MiB ");
    }
}
