//! Pieces one behind the other in a row, which ends where its room ends.

use super::bar::Bar;
use super::canvas::Canvas;
use super::text;
use crate::theme::Ink;
use ratatui::layout::Rect;

#[derive(Debug)]
pub(crate) struct Pen<'c> {
    canvas: Canvas<'c>,
    column: u16,
    right: u16,
    row: u16,
    begun: bool,
}

impl<'c> Pen<'c> {
    pub(super) fn new(canvas: Canvas<'c>, area: Rect, row: u16) -> Self {
        let area = area.intersection(canvas.area);
        let inside = row >= area.top() && row < area.bottom();
        Self {
            canvas,
            column: area.left(),
            right: if inside { area.right() } else { area.left() },
            row,
            begun: false,
        }
    }

    pub(crate) const fn column(&self) -> u16 {
        self.column
    }

    pub(crate) const fn room(&self) -> u16 {
        self.right.saturating_sub(self.column)
    }

    pub(crate) fn skip(&mut self, columns: u16) {
        self.column = self.column.saturating_add(columns).min(self.right);
    }

    /// Writes a text, cut where the room ends.
    pub(crate) fn put(&mut self, text: &str, ink: Ink) {
        let room = usize::from(self.room());
        if room > 0 {
            self.column = self.canvas.put((self.column, self.row), text, room, ink);
        }
    }

    pub(crate) fn field(&mut self, text: &str, columns: u16, to_the_right: bool, ink: Ink) {
        let width = usize::from(columns);
        let fitted = if to_the_right {
            text::right(text, width)
        } else {
            text::left(text, width)
        };
        self.put(&fitted, ink);
    }

    /// Writes a text behind a separator, if both fit as a whole; whether they did.
    ///
    /// What does not fit gives way to what may still come.
    pub(crate) fn piece(&mut self, text: &str, ink: Ink) -> bool {
        let separator = if self.begun {
            self.canvas.theme.between()
        } else {
            ""
        };
        let needed = text::width(separator) + text::width(text);
        if text.is_empty() || needed > usize::from(self.room()) {
            return false;
        }
        self.put(separator, Ink::Faint);
        self.put(text, ink);
        self.begun = true;
        true
    }

    pub(crate) fn pieces<T: AsRef<str>>(&mut self, pieces: impl IntoIterator<Item = (T, Ink)>) {
        for (piece, ink) in pieces {
            self.piece(piece.as_ref(), ink);
        }
    }

    pub(crate) fn bar(&mut self, bar: &Bar, columns: u16) {
        let columns = columns.min(self.room());
        bar.draw(&mut self.canvas, (self.column, self.row), columns);
        self.skip(columns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::theme::{ColourDepth, Theme};
    use ratatui::buffer::Buffer;

    fn written(columns: u16, row: u16, write: impl Fn(&mut Pen<'_>)) -> String {
        let mut canvas = Buffer::empty(Rect::new(0, 0, columns, 1));
        let area = canvas.area;
        let theme = Theme::new(ColourDepth::None, true);
        write(&mut Pen::new(Canvas::new(&mut canvas, theme), area, row));
        canvas.content.iter().map(|cell| cell.symbol()).collect()
    }

    #[test]
    fn pieces_that_do_not_fit_give_way_to_those_that_do() {
        let line = written(12, 0, |pen| {
            assert!(pen.piece("three", Ink::Text));
            assert!(!pen.piece("and thirty", Ink::Text));
            assert!(pen.piece("tw", Ink::Text));
            assert_eq!(pen.room(), 2);
        });
        assert_eq!(line, "three · tw  ");
    }

    #[test]
    fn nothing_is_written_beyond_the_room() {
        let full = |pen: &mut Pen<'_>| {
            pen.skip(2);
            pen.put("abcdef", Ink::Text);
            pen.put("more", Ink::Text);
            pen.bar(&Bar::new(&[(Ink::L1, 1)], Some(1)), 9);
        };
        assert_eq!(written(5, 0, full), "  ab…");
        assert_eq!(written(5, 1, full), "     ");
        assert_eq!(written(0, 0, full), "");
    }
}
