//! Tables: columns that give way when there is little room, rows that are made only when shown.

use super::cursor::Cursor;
use super::text;
use crate::input::{Gesture, Pointer};
use crate::look::{Ink, Look};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// A column of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) title: &'static str,
    /// The columns it takes at least.
    pub(crate) width: u16,
    /// Whether it takes what is left over; several share it.
    pub(crate) grows: bool,
    /// Whether its text is at the right, as figures are.
    pub(crate) right: bool,
    /// The order in which columns give way: those with the highest number first, 0 never.
    pub(crate) gives_way: u8,
}

impl Column {
    /// A column of words, at the left.
    pub(crate) const fn words(title: &'static str, width: u16, gives_way: u8) -> Self {
        Self {
            title,
            width,
            grows: false,
            right: false,
            gives_way,
        }
    }

    /// A column of figures, at the right.
    pub(crate) const fn figures(title: &'static str, width: u16, gives_way: u8) -> Self {
        Self {
            right: true,
            ..Self::words(title, width, gives_way)
        }
    }

    /// The same column, taking what is left over.
    pub(crate) const fn growing(self) -> Self {
        Self {
            grows: true,
            ..self
        }
    }
}

/// A cell: its text and what it means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) text: String,
    pub(crate) ink: Ink,
}

impl Cell {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self::inked(text, Ink::Text)
    }

    /// A cell with a meaning.
    pub(crate) fn inked(text: impl Into<String>, ink: Ink) -> Self {
        Self {
            text: text.into(),
            ink,
        }
    }
}

/// The columns of a table, and by which it is sorted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Table<'c> {
    pub(crate) columns: &'c [Column],
    /// The place of the column that the rows are sorted by, and whether downwards.
    pub(crate) sorted: Option<(usize, bool)>,
}

impl<'c> Table<'c> {
    /// A table whose rows are in no order that the user chose.
    pub(crate) const fn of(columns: &'c [Column]) -> Self {
        Self {
            columns,
            sorted: None,
        }
    }

    /// Draws a heading and the rows around the cursor.
    ///
    /// `row` makes the cells of a row, one for each column; none of a row that has not come yet. One
    /// cell alone is a note, which takes the whole row.
    pub(crate) fn draw(
        &self,
        canvas: &mut Buffer,
        area: Rect,
        cursor: &mut Cursor,
        rows: u64,
        look: Look,
        row: impl Fn(u64) -> Option<Vec<Cell>>,
    ) {
        let area = area.intersection(canvas.area);
        if area.height == 0 || area.width == 0 {
            return;
        }
        let widths = self.widths(area.width);
        self.draw_heading(canvas, area, &widths, look);
        let page = area.height - 1;
        cursor.keep_inside(rows, u64::from(page));
        for line in 0..page {
            let place = cursor.top + u64::from(line);
            if place >= rows {
                break;
            }
            let line = Rect::new(area.x, area.y + 1 + line, area.width, 1);
            let chosen = place == cursor.row && !cursor.unmarked;
            self.draw_line(canvas, line, &widths, (row(place), chosen), look);
        }
    }

    /// Draws a heading and the first rows, none of which is chosen.
    pub(crate) fn draw_first(
        &self,
        canvas: &mut Buffer,
        area: Rect,
        rows: u64,
        look: Look,
        row: impl Fn(u64) -> Option<Vec<Cell>>,
    ) {
        let mut cursor = Cursor::default();
        cursor.unmarked = true;
        self.draw(canvas, area, &mut cursor, rows, look, row);
    }

    fn draw_line(
        &self,
        canvas: &mut Buffer,
        line: Rect,
        widths: &[Option<u16>],
        (cells, chosen): (Option<Vec<Cell>>, bool),
        look: Look,
    ) {
        if chosen {
            canvas.set_style(line, look.style(Ink::Chosen));
        }
        match cells {
            Some(cells) if cells.len() == 1 && self.columns.len() > 1 => {
                let note = &cells[0];
                let style = look.style(if chosen { Ink::Chosen } else { note.ink });
                let room = usize::from(line.width);
                text::put(canvas, (line.x, line.y), &note.text, room, style);
            }
            Some(cells) => self.draw_cells(canvas, line, widths, &cells, chosen, look),
            None => {
                let style = look.style(if chosen { Ink::Chosen } else { Ink::Faint });
                let room = usize::from(line.width);
                text::put(canvas, (line.x, line.y), "…", room, style);
            }
        }
    }

    /// Draws the heading alone into the first row of an area: for tables that stand among others.
    pub(crate) fn draw_head(&self, canvas: &mut Buffer, area: Rect, look: Look) {
        let area = area.intersection(canvas.area);
        if area.height > 0 {
            self.draw_heading(canvas, area, &self.widths(area.width), look);
        }
    }

    /// Draws one row alone into the first row of an area.
    pub(crate) fn draw_row(&self, canvas: &mut Buffer, area: Rect, cells: &[Cell], look: Look) {
        let area = area.intersection(canvas.area);
        if area.height > 0 {
            self.draw_cells(canvas, area, &self.widths(area.width), cells, false, look);
        }
    }

    fn draw_cells(
        &self,
        canvas: &mut Buffer,
        area: Rect,
        widths: &[Option<u16>],
        cells: &[Cell],
        chosen: bool,
        look: Look,
    ) {
        let mut column = area.x;
        for ((cell, shape), width) in cells.iter().zip(self.columns).zip(widths) {
            let Some(width) = *width else { continue };
            let ink = if chosen { Ink::Chosen } else { cell.ink };
            // A column that does not fit any more must not reach into what is beside the table.
            let room = area.right().saturating_sub(column).min(width);
            let drawn = fitted(&cell.text, shape.right, room);
            text::put(
                canvas,
                (column, area.y),
                &drawn,
                usize::from(room),
                look.style(ink),
            );
            column = column.saturating_add(width + 1);
        }
    }

    /// Takes what the pointer did to a table that was drawn into an area; whether it was of use.
    pub(crate) fn point(area: Rect, cursor: &mut Cursor, pointer: Pointer, rows: u64) -> bool {
        match pointer.did {
            Gesture::WheelUp => cursor.wheel(false, rows),
            Gesture::WheelDown => cursor.wheel(true, rows),
            Gesture::Click => {
                let inside = area.contains((pointer.column, pointer.row).into());
                let line = pointer.row.checked_sub(area.y + 1).filter(|_| inside);
                let place = line.map(|line| cursor.top + u64::from(line));
                let Some(place) = place.filter(|place| *place < rows) else {
                    return false;
                };
                cursor.row = place;
            }
        }
        true
    }

    fn draw_heading(&self, canvas: &mut Buffer, area: Rect, widths: &[Option<u16>], look: Look) {
        let mut column = area.x;
        for (place, (shape, width)) in self.columns.iter().zip(widths).enumerate() {
            let Some(width) = *width else { continue };
            let arrow = match self.sorted {
                Some((sorted, true)) if sorted == place => {
                    if look.unicode() {
                        "▼"
                    } else {
                        "v"
                    }
                }
                Some((sorted, false)) if sorted == place => {
                    if look.unicode() {
                        "▲"
                    } else {
                        "^"
                    }
                }
                _other => "",
            };
            let room = area.right().saturating_sub(column).min(width);
            let title = fitted(&format!("{}{arrow}", shape.title), shape.right, room);
            let ink = if arrow.is_empty() {
                Ink::Faint
            } else {
                Ink::Strong
            };
            text::put(
                canvas,
                (column, area.y),
                &title,
                usize::from(room),
                look.style(ink),
            );
            column = column.saturating_add(width + 1);
        }
    }

    /// The width of each column; none of those that give way.
    fn widths(&self, room: u16) -> Vec<Option<u16>> {
        let mut shown: Vec<bool> = vec![true; self.columns.len()];
        let needed = |shown: &[bool]| -> u16 {
            let taken = self.columns.iter().zip(shown).filter(|(_, shown)| **shown);
            let sum: u16 = taken.map(|(column, _)| column.width + 1).sum();
            sum.saturating_sub(1)
        };
        while needed(&shown) > room {
            let giving = self.columns.iter().enumerate();
            let giving = giving.filter(|(place, column)| shown[*place] && column.gives_way > 0);
            match giving.max_by_key(|(_, column)| column.gives_way) {
                Some((place, _)) => shown[place] = false,
                None => break,
            }
        }
        let spare = room.saturating_sub(needed(&shown));
        let growing = self.columns.iter().zip(&shown);
        let growing = growing
            .filter(|(column, shown)| column.grows && **shown)
            .count();
        let each = u16::try_from(growing)
            .ok()
            .and_then(|growing| spare.checked_div(growing));
        let mut widths = Vec::with_capacity(self.columns.len());
        for (column, shown) in self.columns.iter().zip(shown) {
            let more = if column.grows { each.unwrap_or(0) } else { 0 };
            widths.push(shown.then_some(column.width + more));
        }
        widths
    }
}

fn fitted(text: &str, right: bool, width: u16) -> String {
    let width = usize::from(width);
    if right {
        text::right(text, width)
    } else {
        text::left(text, width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::look::ColourDepth;
    use ratatui::style::Modifier;

    const COLUMNS: &[Column] = &[
        Column {
            title: "PID",
            width: 5,
            grows: false,
            right: true,
            gives_way: 0,
        },
        Column::words("NAME", 6, 0).growing(),
        Column {
            title: "AGE",
            width: 4,
            grows: false,
            right: true,
            gives_way: 1,
        },
    ];

    fn drawn(width: u16, cursor: &mut Cursor, rows: u64) -> Vec<String> {
        let mut canvas = Buffer::empty(Rect::new(0, 0, width, 4));
        let table = Table {
            columns: COLUMNS,
            sorted: Some((0, true)),
        };
        let look = Look::new(ColourDepth::None, true);
        let area = canvas.area;
        table.draw(&mut canvas, area, cursor, rows, look, |row| {
            (row != 1).then(|| {
                vec![
                    Cell::new(row.to_string()),
                    Cell::new("a name"),
                    Cell::new("3 s"),
                ]
            })
        });
        let lines = canvas.content.chunks(usize::from(width));
        lines
            .map(|line| line.iter().map(|cell| cell.symbol()).collect())
            .collect()
    }

    #[test]
    fn columns_grow_and_give_way() {
        let mut cursor = Cursor::default();
        assert_eq!(
            drawn(20, &mut cursor, 2),
            [
                " PID▼ NAME       AGE",
                "    0 a name     3 s",
                "…                   ",
                "                    "
            ]
        );
        assert_eq!(drawn(13, &mut cursor, 1)[0], " PID▼ NAME   ");
    }

    #[test]
    fn one_cell_alone_takes_the_whole_row() {
        let mut canvas = Buffer::empty(Rect::new(0, 0, 13, 2));
        let table = Table::of(COLUMNS);
        let (area, mut cursor) = (canvas.area, Cursor::default());
        let look = Look::new(ColourDepth::None, true);
        cursor.unmarked = true;
        table.draw(&mut canvas, area, &mut cursor, 1, look, |_row| {
            Some(vec![Cell::new("nothing but a note")])
        });
        let note: String = canvas.content[13..]
            .iter()
            .map(|cell| cell.symbol())
            .collect();
        assert_eq!(note, "nothing but …");
        assert_eq!(canvas[(0, 1)].style().add_modifier, Modifier::empty());
    }

    #[test]
    fn only_rows_on_the_screen_are_made() {
        let mut cursor = Cursor::default();
        cursor.row = 999_999;
        let lines = drawn(20, &mut cursor, 1_000_000);
        assert_eq!(lines[3], "9999… a name     3 s");
        let area = Rect::new(0, 0, 20, 4);
        let mut click = |row| {
            let pointer = Pointer {
                column: 0,
                row,
                did: Gesture::Click,
            };
            let used = Table::point(area, &mut cursor, pointer, 1_000_000);
            (used, cursor.row)
        };
        assert_eq!(click(1), (true, 999_997));
        assert_eq!(click(3), (true, 999_999));
        assert_eq!((click(0).0, click(4).0), (false, false));
    }
}
