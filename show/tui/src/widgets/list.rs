//! The rows of a document that a filter lets through, in the order of a column.

use super::canvas::Canvas;
use super::cursor::Cursor;
use super::prompt::Prompt;
use super::table::{Cell, Column, Table};
use crate::input::{Key, Pointer};
use ratatui::layout::Rect;
use std::cmp::Reverse;
use std::time::Instant;

/// What rows are sorted by; what is not known is less than all that is.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SortKey {
    Number(Option<u64>),
    Text(Option<String>),
}

/// A column that rows can be sorted by.
#[derive(Debug)]
pub(crate) struct Sort<R> {
    column: usize,
    key: fn(&R) -> SortKey,
    /// Whether the greatest key comes first, unless the user turned the order round.
    descending: bool,
    /// Whether what the column shows goes down then.
    arrow_down: bool,
}

impl<R> Sort<R> {
    pub(crate) const fn descending(column: usize, key: fn(&R) -> SortKey) -> Self {
        Self {
            column,
            key,
            descending: true,
            arrow_down: true,
        }
    }

    pub(crate) const fn ascending(column: usize, key: fn(&R) -> SortKey) -> Self {
        Self {
            descending: false,
            arrow_down: false,
            ..Self::descending(column, key)
        }
    }

    /// The same order with the other arrow.
    pub(crate) const fn opposite_arrow(self) -> Self {
        Self {
            arrow_down: !self.arrow_down,
            ..self
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct List {
    pub(crate) cursor: Cursor,
    /// The place in the sorts that the list has.
    sort: usize,
    reversed: bool,
    made_from: Option<(Instant, usize, bool, String, Option<u32>)>,
    places: Vec<usize>,
}

impl List {
    pub(crate) fn sorted_by(sort: usize) -> Self {
        Self {
            sort,
            ..Self::default()
        }
    }

    /// Takes a key that changes the order; whether it was one.
    pub(crate) fn handle_order<R>(&mut self, key: Key, sorts: &[Sort<R>]) -> bool {
        match key {
            Key::Char('s') => {
                self.sort = (self.sort + 1) % sorts.len();
                self.reversed = false;
            }
            Key::Char('S') => self.reversed = !self.reversed,
            _other => return false,
        }
        true
    }

    /// Takes a click on the heading of a column: sorts by it, or the other way round.
    pub(crate) fn click_heading<R>(
        &mut self,
        pointer: Pointer,
        columns: &[Column],
        sorts: &[Sort<R>],
    ) -> bool {
        let Some((offset, width)) = self.cursor.heading_at(pointer) else {
            return false;
        };
        let layout = Table::of(columns).layout(width);
        let clicked = layout.into_iter().find_map(|(place, left, width)| {
            (left..left.saturating_add(width))
                .contains(&offset)
                .then_some(place)
        });
        let sort = sorts.iter().position(|sort| Some(sort.column) == clicked);
        match sort {
            Some(sort) if sort == self.sort => self.reversed = !self.reversed,
            Some(sort) => (self.sort, self.reversed) = (sort, false),
            None => return false,
        }
        true
    }

    pub(crate) fn places(&self) -> &[usize] {
        &self.places
    }

    pub(crate) fn row<'r, R>(&self, rows: &'r [R]) -> Option<&'r R> {
        rows.get(*self.places.get(self.cursor.place())?)
    }

    /// The column that is sorted by, and whether its values go down.
    pub(crate) fn sorted<R>(&self, sorts: &[Sort<R>]) -> Option<(usize, bool)> {
        let sort = sorts.get(self.sort)?;
        Some((sort.column, sort.arrow_down != self.reversed))
    }

    /// Brings it up to date; of equal rows the one that the server has first comes first.
    pub(crate) fn arrange<R>(
        &mut self,
        (received, rows): (Instant, &[R]),
        sorts: &[Sort<R>],
        (filter, pid): (&Prompt, Option<u32>),
        shows: impl Fn(&R) -> bool,
    ) {
        let text = filter.text().to_owned();
        let made_from = (received, self.sort, self.reversed, text, pid);
        if self.made_from.as_ref() == Some(&made_from) {
            return;
        }
        self.made_from = Some(made_from);
        self.places.clear();
        let shown = (0..rows.len()).filter(|place| shows(&rows[*place]));
        self.places.extend(shown);
        if let Some(sort) = sorts.get(self.sort) {
            let key = |place: &usize| (sort.key)(&rows[*place]);
            if sort.descending == self.reversed {
                self.places.sort_by_cached_key(key);
            } else {
                self.places.sort_by_cached_key(|place| Reverse(key(place)));
            }
        }
    }

    /// Forgets all rows, because there is no document.
    pub(crate) fn clear(&mut self) {
        self.places.clear();
        self.made_from = None;
    }

    pub(crate) fn draw<R>(
        &mut self,
        canvas: &mut Canvas<'_>,
        area: Rect,
        (columns, sorts): (&[Column], &[Sort<R>]),
        rows: &[R],
        cells: impl Fn(&R) -> Vec<Cell>,
    ) {
        let table = Table {
            columns,
            sorted: self.sorted(sorts),
        };
        table.draw_all(canvas, area, &mut self.cursor, &self.places, |place| {
            rows.get(*place).map_or_else(Vec::new, &cells)
        });
    }
}
