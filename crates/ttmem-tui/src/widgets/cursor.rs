//! Which row of a list is chosen, and which is the first on the screen.

use crate::input::Key;

/// A place in a list that may grow and shrink at any time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// The chosen row.
    pub(crate) row: u64,
    /// The first row on the screen.
    pub(crate) top: u64,
    /// Whether the chosen row looks like any other, as in a list that runs by itself.
    pub(crate) unmarked: bool,
    /// Rows that were on the screen when it was last drawn.
    page: u64,
}

impl Cursor {
    /// Takes a key that moves it; whether it was one.
    pub(crate) fn handle(&mut self, key: Key, rows: u64) -> bool {
        let page = self.page.max(1);
        let last = rows.saturating_sub(1);
        self.row = match key {
            Key::Up | Key::Char('k') => self.row.saturating_sub(1),
            Key::Down | Key::Char('j') => self.row.saturating_add(1),
            Key::PageUp => self.row.saturating_sub(page),
            Key::PageDown => self.row.saturating_add(page),
            Key::Home | Key::Char('g') => 0,
            Key::End | Key::Char('G') => last,
            _other => return false,
        }
        .min(last);
        true
    }

    /// Moves by some rows, as the wheel does.
    pub(crate) fn wheel(&mut self, down: bool, rows: u64) {
        let moved = if down {
            self.row.saturating_add(3)
        } else {
            self.row.saturating_sub(3)
        };
        self.row = moved.min(rows.saturating_sub(1));
    }

    /// Keeps it inside a list of so many rows, on a screen of so many.
    pub(crate) fn keep_inside(&mut self, rows: u64, page: u64) {
        self.page = page;
        self.row = self.row.min(rows.saturating_sub(1));
        let lowest_top = self.row.saturating_sub(page.saturating_sub(1));
        let highest_top = self.row.min(rows.saturating_sub(page));
        self.top = self.top.min(highest_top).max(lowest_top);
    }

    /// Rows that were on the screen when it was last drawn.
    pub(crate) const fn page(&self) -> u64 {
        self.page
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stays_inside_whatever_happens_to_the_list() {
        let mut cursor = Cursor::default();
        cursor.keep_inside(1_000_000, 20);
        assert!(cursor.handle(Key::Char('G'), 1_000_000));
        cursor.keep_inside(1_000_000, 20);
        assert_eq!((cursor.row, cursor.top), (999_999, 999_980));
        cursor.keep_inside(5, 20);
        assert_eq!((cursor.row, cursor.top), (4, 0));
        cursor.keep_inside(0, 20);
        assert_eq!((cursor.row, cursor.top), (0, 0));
        assert!(cursor.handle(Key::Down, 0));
        assert_eq!(cursor.row, 0);
        cursor.keep_inside(3, 0);
        assert_eq!(cursor.row, 0);
    }

    #[test]
    fn the_screen_follows_the_chosen_row() {
        let mut cursor = Cursor::default();
        cursor.keep_inside(100, 10);
        for _key in 0..10 {
            cursor.handle(Key::Down, 100);
        }
        cursor.keep_inside(100, 10);
        assert_eq!((cursor.row, cursor.top), (10, 1));
        cursor.handle(Key::PageUp, 100);
        cursor.keep_inside(100, 10);
        assert_eq!((cursor.row, cursor.top), (0, 0));
        assert!(!cursor.handle(Key::Char('x'), 100));
    }
}
