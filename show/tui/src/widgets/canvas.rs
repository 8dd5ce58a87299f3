//! What everything is drawn on: cells of a screen, and the theme of the terminal.

use super::pen::Pen;
use super::text;
use crate::theme::{Ink, Theme};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use std::ops::{Deref, DerefMut};

#[derive(Debug)]
pub(crate) struct Canvas<'b> {
    buffer: &'b mut Buffer,
    pub(crate) theme: Theme,
}

impl Deref for Canvas<'_> {
    type Target = Buffer;

    fn deref(&self) -> &Buffer {
        self.buffer
    }
}

impl DerefMut for Canvas<'_> {
    fn deref_mut(&mut self) -> &mut Buffer {
        self.buffer
    }
}

impl<'b> Canvas<'b> {
    pub(crate) const fn new(buffer: &'b mut Buffer, theme: Theme) -> Self {
        Self { buffer, theme }
    }

    /// A pen at the beginning of a row of an area; of a row that is not there it writes nothing.
    pub(crate) fn pen(&mut self, area: Rect, row: u16) -> Pen<'_> {
        Pen::new(Canvas::new(self.buffer, self.theme), area, row)
    }

    /// Writes a text into the first row of an area; where the next may begin.
    pub(crate) fn text(&mut self, area: Rect, text: impl AsRef<str>, ink: Ink) -> u16 {
        self.line(area, &[(text, ink)])
    }

    /// Writes a text at the right end of a row; what is left before it.
    pub(crate) fn text_at_right(&mut self, row: Rect, text: &str, ink: Ink) -> Rect {
        let text = text::clip(text, usize::from(row.width));
        let taken = u16::try_from(text::width(&text)).unwrap_or(row.width);
        let rest = row.width.saturating_sub(taken);
        self.text(right_of(row, rest), text, ink);
        left_of(row, rest)
    }

    /// Writes texts one behind the other into the first row of an area; where the next may begin.
    pub(crate) fn line<T: AsRef<str>>(&mut self, area: Rect, parts: &[(T, Ink)]) -> u16 {
        let mut pen = self.pen(area, area.y);
        for (part, ink) in parts {
            pen.put(part.as_ref(), *ink);
        }
        pen.column()
    }

    pub(crate) fn spaced(&mut self, area: Rect, parts: &[(String, Ink)], apart: u16) {
        let mut pen = self.pen(area, area.y);
        for (part, ink) in parts {
            pen.put(part, *ink);
            pen.skip(apart);
        }
    }

    /// Writes texts with some columns between them, as many as fit whole: half a figure is none.
    pub(crate) fn whole_parts(&mut self, area: Rect, parts: &[(String, Ink)], apart: u16) {
        let mut pen = self.pen(area, area.y);
        for (part, ink) in parts {
            if text::width(part) > usize::from(pen.room()) {
                break;
            }
            pen.put(part, *ink);
            pen.skip(apart);
        }
    }

    /// Writes a text at a place, at most so many columns of it; where the next may begin.
    pub(crate) fn put(&mut self, at: (u16, u16), text: &str, columns: usize, ink: Ink) -> u16 {
        self.put_styled(at, text, columns, self.theme.style(ink))
    }

    pub(crate) fn put_styled(
        &mut self,
        (column, row): (u16, u16),
        text: &str,
        columns: usize,
        style: Style,
    ) -> u16 {
        if !self.area.contains((column, row).into()) {
            return column;
        }
        let text = text::clip(text, columns);
        if !text::is_plain(&text) {
            return self.set_stringn(column, row, text, columns, style).0;
        }
        // Nearly every cell of a screen: its text need not be taken apart into graphemes.
        let mut end = column;
        for sign in text.chars().take(usize::from(self.area.right() - column)) {
            self[(end, row)].set_char(sign).set_style(style);
            end += 1;
        }
        end
    }

    pub(crate) fn cell(&mut self, at: (u16, u16), sign: char, ink: Ink) {
        let style = self.theme.style(ink);
        if let Some(cell) = self.buffer.cell_mut(at) {
            cell.set_char(sign).set_style(style);
        }
    }
}

/// One row of an area; of height 0 if it has not so many.
pub(crate) fn row_of(area: Rect, row: u16) -> Rect {
    above(below(area, row), 1)
}

pub(crate) fn below(area: Rect, rows: u16) -> Rect {
    let rows = rows.min(area.height);
    Rect::new(area.x, area.y + rows, area.width, area.height - rows)
}

pub(crate) fn right_of(area: Rect, columns: u16) -> Rect {
    let columns = columns.min(area.width);
    Rect::new(area.x + columns, area.y, area.width - columns, area.height)
}

pub(crate) fn left_of(area: Rect, columns: u16) -> Rect {
    Rect::new(area.x, area.y, columns.min(area.width), area.height)
}

pub(crate) fn above(area: Rect, rows: u16) -> Rect {
    Rect::new(area.x, area.y, area.width, rows.min(area.height))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::theme::ColourDepth;

    #[test]
    fn texts_follow_each_other_and_end_with_the_area() {
        let mut canvas = Buffer::empty(Rect::new(0, 0, 10, 1));
        let theme = Theme::new(ColourDepth::None, true);
        let parts = [
            ("ab", Ink::Strong),
            ("模\u{1b}", Ink::Text),
            ("cdefgh", Ink::Faint),
        ];
        let end = Canvas::new(&mut canvas, theme).line(Rect::new(1, 0, 7, 1), &parts);
        let drawn: String = canvas.content.iter().map(|cell| cell.symbol()).collect();
        assert_eq!((drawn.as_str(), end), (" ab模 \u{fffd}c…  ", 8));
        assert_eq!(
            Canvas::new(&mut canvas, theme).line(Rect::new(9, 5, 7, 1), &parts),
            9
        );
        assert_eq!(row_of(Rect::new(0, 0, 3, 2), 2).height, 0);
        assert_eq!(below(Rect::new(0, 0, 3, 2), 5), Rect::new(0, 2, 3, 0));
    }

    #[test]
    fn figures_are_never_halved() {
        let mut canvas = Buffer::empty(Rect::new(0, 0, 12, 1));
        let parts = ["one", "1.5 MiB", "x"].map(|part| (part.to_owned(), Ink::Text));
        let theme = Theme::new(ColourDepth::None, true);
        Canvas::new(&mut canvas, theme).whole_parts(Rect::new(0, 0, 11, 1), &parts, 1);
        Canvas::new(&mut canvas, theme).whole_parts(Rect::new(0, 0, 2, 1), &parts, 1);
        let drawn: String = canvas.content.iter().map(|cell| cell.symbol()).collect();
        assert_eq!(drawn, "one 1.5 MiB ");
    }
}
