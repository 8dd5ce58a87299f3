//! Which row of a list is chosen, and which is the first on the screen.

use crate::input::Key;

/// A place in a list that may grow and shrink at any time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Cursor {
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
        let moved = moved(key, self.row, self.page, rows.saturating_sub(1));
        self.row = moved.unwrap_or(self.row);
        moved.is_some()
    }

    /// Moves by some rows, as the wheel does.
    pub(crate) fn wheel(&mut self, down: bool, rows: u64) {
        self.row = wheeled(self.row, down, rows.saturating_sub(1));
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

/// How far a text is scrolled of which no line is chosen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Scroll {
    top: u64,
    /// The lines of the text, and those on the screen, when it was last drawn.
    lines: u64,
    page: u64,
}

impl Scroll {
    /// Takes a key that moves it; whether it was one.
    pub(crate) fn handle(&mut self, key: Key) -> bool {
        let moved = moved(key, self.top, self.page, self.last());
        self.top = moved.unwrap_or(self.top);
        moved.is_some()
    }

    /// Moves by some lines, as the wheel does.
    pub(crate) fn wheel(&mut self, down: bool) {
        self.top = wheeled(self.top, down, self.last());
    }

    /// Keeps it inside a text of so many lines, on a screen of so many.
    pub(crate) fn keep_inside(&mut self, lines: usize, page: u16) {
        self.lines = lines as u64;
        self.page = u64::from(page);
        self.top = self.top.min(self.last());
    }

    /// The first line on the screen.
    pub(crate) fn top(&self) -> usize {
        usize::try_from(self.top).unwrap_or(usize::MAX)
    }

    /// How many lines are below the screen.
    pub(crate) const fn below(&self) -> u64 {
        self.last().saturating_sub(self.top)
    }

    const fn last(&self) -> u64 {
        self.lines.saturating_sub(self.page)
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
