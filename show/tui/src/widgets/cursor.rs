//! Which row of a list is chosen, and which is the first on the screen; how far a text is scrolled.

use crate::input::{Gesture, Key, Pointer};
use ratatui::layout::Rect;

/// A place in a list that may grow and shrink at any time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Cursor {
    pub(crate) row: u64,
    pub(crate) top: u64,
    /// Whether the chosen row looks like any other, as in a list that runs by itself.
    pub(crate) unmarked: bool,
    /// The rows of the list when it was last drawn.
    pub(crate) rows: u64,
    area: Rect,
}

impl Cursor {
    /// Takes a key that moves it; whether it was one.
    pub(crate) fn handle(&mut self, key: Key) -> bool {
        let moved = moved(key, self.row, self.page(), self.rows.saturating_sub(1));
        self.row = moved.unwrap_or(self.row);
        moved.is_some()
    }

    /// Takes what the pointer did; whether it was of use.
    pub(crate) fn point(&mut self, pointer: Pointer) -> bool {
        let last = self.rows.saturating_sub(1);
        let row = match pointer.did {
            Gesture::WheelUp => Some(wheeled(self.row, false, last)),
            Gesture::WheelDown => Some(wheeled(self.row, true, last)),
            Gesture::Click => {
                let inside = self.area.contains((pointer.column, pointer.row).into());
                let line = pointer.row.checked_sub(self.area.y + 1).filter(|_| inside);
                let row = line.map(|line| self.top + u64::from(line));
                row.filter(|row| *row < self.rows)
            }
        };
        self.row = row.unwrap_or(self.row);
        row.is_some()
    }

    /// The column of a click on the heading, and how wide the list is.
    pub(crate) fn heading_at(&self, pointer: Pointer) -> Option<(u16, u16)> {
        let inside = self.area.contains((pointer.column, pointer.row).into());
        let is_heading = inside && pointer.row == self.area.y;
        is_heading.then(|| (pointer.column - self.area.x, self.area.width))
    }

    /// Keeps it inside a list of so many rows, which is drawn into an area below a heading.
    pub(crate) fn keep_inside(&mut self, area: Rect, rows: u64) {
        self.area = area;
        self.rows = rows;
        self.row = self.row.min(rows.saturating_sub(1));
        let lowest_top = self.row.saturating_sub(self.page().saturating_sub(1));
        let highest_top = self.row.min(rows.saturating_sub(self.page()));
        self.top = self.top.min(highest_top).max(lowest_top);
    }

    /// The first row on the screen, once it is drawn again.
    pub(crate) fn next_top(mut self) -> u64 {
        self.keep_inside(self.area, self.rows);
        self.top
    }

    /// Keeps the first line on the screen inside a text of so many lines, of which no line is
    /// chosen, on a screen of so many.
    pub(crate) fn keep_in_text(&mut self, lines: usize, page: u16) {
        self.area.height = page.saturating_add(1);
        self.rows = (lines as u64).saturating_sub(u64::from(page)) + 1;
        self.row = self.row.min(self.rows - 1);
    }

    /// Lines of a text that are below the screen.
    pub(crate) const fn below(&self) -> u64 {
        self.rows.saturating_sub(1).saturating_sub(self.row)
    }

    pub(crate) fn place(&self) -> usize {
        usize::try_from(self.row).unwrap_or(usize::MAX)
    }

    /// To the first of rows that are not known yet.
    pub(crate) const fn reset(&mut self) {
        (self.row, self.top, self.rows) = (0, 0, 0);
    }

    /// Rows that were not on the screen when it was last drawn.
    pub(crate) fn hidden(&self) -> u64 {
        self.rows.saturating_sub(self.page())
    }

    /// Rows that were on the screen when it was last drawn.
    pub(crate) fn page(&self) -> u64 {
        u64::from(self.area.height.saturating_sub(1))
    }
}

/// Where a key moves to, from a row of a page of so many; none if it moves nothing.
fn moved(key: Key, row: u64, page: u64, last: u64) -> Option<u64> {
    let page = page.max(1);
    let moved = match key {
        Key::Up | Key::Char('k') => row.saturating_sub(1),
        Key::Down | Key::Char('j') => row.saturating_add(1),
        Key::PageUp => row.saturating_sub(page),
        Key::PageDown => row.saturating_add(page),
        Key::Home | Key::Char('g') => 0,
        Key::End | Key::Char('G') => last,
        _other => return None,
    };
    Some(moved.min(last))
}

fn wheeled(row: u64, down: bool, last: u64) -> u64 {
    let moved = if down {
        row.saturating_add(3)
    } else {
        row.saturating_sub(3)
    };
    moved.min(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An area with room for so many rows.
    fn page(rows: u16) -> Rect {
        Rect::new(0, 0, 10, rows + 1)
    }

    #[test]
    fn it_stays_inside_whatever_happens_to_the_list() {
        let mut cursor = Cursor::default();
        cursor.keep_inside(page(20), 1_000_000);
        assert!(cursor.handle(Key::Char('G')));
        cursor.keep_inside(page(20), 1_000_000);
        assert_eq!((cursor.row, cursor.top), (999_999, 999_980));
        cursor.keep_inside(page(20), 5);
        assert_eq!((cursor.row, cursor.top), (4, 0));
        cursor.keep_inside(page(20), 0);
        assert_eq!((cursor.row, cursor.top), (0, 0));
        assert!(cursor.handle(Key::Down));
        assert_eq!(cursor.row, 0);
        cursor.keep_inside(page(0), 3);
        assert_eq!(cursor.row, 0);
    }

    #[test]
    fn the_screen_follows_the_chosen_row() {
        let mut cursor = Cursor::default();
        cursor.keep_inside(page(10), 100);
        for _key in 0..10 {
            cursor.handle(Key::Down);
        }
        cursor.keep_inside(page(10), 100);
        assert_eq!((cursor.row, cursor.top), (10, 1));
        cursor.handle(Key::PageUp);
        cursor.keep_inside(page(10), 100);
        assert_eq!((cursor.row, cursor.top), (0, 0));
        assert!(!cursor.handle(Key::Char('x')));
    }
}
