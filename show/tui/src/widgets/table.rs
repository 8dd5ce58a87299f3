//! Tables: columns that give way when there is little room, rows that are made only when shown.
//!
//! Views draw them on a canvas, commands print them as lines of text.

use super::canvas::{Canvas, below, row_of};
use super::cursor::Cursor;
use super::text;
use crate::theme::{Ink, Theme};
use ratatui::layout::Rect;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    pub(crate) title: &'static str,
    pub(crate) width: u16,
    /// Whether it takes what is left over; several share it.
    grows: bool,
    /// Whether its text is at the right, as figures are.
    right: bool,
    /// The order in which columns give way: those with the highest number first, 0 never.
    gives_way: u8,
    hidden: bool,
}

impl Column {
    #[must_use]
    pub const fn words(title: &'static str, width: u16, gives_way: u8) -> Self {
        Self {
            title,
            width,
            grows: false,
            right: false,
            gives_way,
            hidden: false,
        }
    }

    #[must_use]
    pub const fn figures(title: &'static str, width: u16, gives_way: u8) -> Self {
        Self {
            right: true,
            ..Self::words(title, width, gives_way)
        }
    }

    #[must_use]
    pub const fn size(title: &'static str) -> Self {
        Self::figures(title, 10, 0)
    }

    #[must_use]
    pub const fn growing(self) -> Self {
        Self {
            grows: true,
            ..self
        }
    }

    /// The same, at least so wide.
    pub(crate) const fn at_least(self, width: u16) -> Self {
        let width = if self.width < width {
            width
        } else {
            self.width
        };
        Self { width, ..self }
    }

    /// The same, never shown: its place stays, so that those of the others do.
    pub(crate) const fn hidden(self) -> Self {
        Self {
            hidden: true,
            ..self
        }
    }

    pub(crate) const fn is_hidden(self) -> bool {
        self.hidden
    }

    fn aligned(self, cell: &str, width: u16) -> String {
        let align = if self.right { text::right } else { text::left };
        align(cell, usize::from(width))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) text: String,
    pub(crate) ink: Ink,
}

impl Cell {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self::inked(text, Ink::Text)
    }

    pub(crate) fn inked(text: impl Into<String>, ink: Ink) -> Self {
        Self {
            text: text.into(),
            ink,
        }
    }

    pub(crate) fn faint(text: impl Into<String>) -> Self {
        Self::inked(text, Ink::Faint)
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Table<'c> {
    pub(crate) columns: &'c [Column],
    /// The place of the column that the rows are sorted by, and whether downwards.
    pub(crate) sorted: Option<(usize, bool)>,
}

impl<'c> Table<'c> {
    /// A table whose rows are in no order that the user chose.
    #[must_use]
    pub const fn of(columns: &'c [Column]) -> Self {
        Self {
            columns,
            sorted: None,
        }
    }

    #[must_use]
    pub fn heading(&self, width: usize) -> String {
        let titles: Vec<&str> = self.columns.iter().map(|column| column.title).collect();
        self.line(&titles, width)
    }

    /// A row as a line of text, without blanks at its end.
    #[must_use]
    pub fn line<C: AsRef<str>>(&self, cells: &[C], width: usize) -> String {
        self.aligned(cells, width).join(" ").trim_end().to_owned()
    }

    /// The cells of a row, each as wide as its column; a blank belongs between them.
    #[must_use]
    pub fn aligned<C: AsRef<str>>(&self, cells: &[C], width: usize) -> Vec<String> {
        let width = u16::try_from(width).unwrap_or(u16::MAX);
        let columns = self.layout(width).into_iter();
        let aligned = columns.map(|(place, _left, width)| {
            let cell = cells.get(place).map_or("", AsRef::as_ref);
            self.columns[place].aligned(cell, width)
        });
        aligned.collect()
    }

    /// Draws a heading and the rows around the cursor.
    ///
    /// `row` makes the cells of a row, one for each column; none of a row that has not come yet. One
    /// cell alone is a note, which takes the whole row.
    pub(crate) fn draw(
        &self,
        canvas: &mut Canvas<'_>,
        area: Rect,
        cursor: &mut Cursor,
        rows: u64,
        row: impl Fn(u64) -> Option<Vec<Cell>>,
    ) {
        let area = area.intersection(canvas.area);
        cursor.keep_inside(area, rows);
        self.draw_heading(canvas, area);
        for (place, line) in (cursor.top..rows).zip(below(area, 1).rows()) {
            let cells = row(place).unwrap_or_else(|| vec![Cell::faint("…")]);
            let chosen = place == cursor.row && !cursor.unmarked;
            self.draw_row(canvas, line, &cells, chosen);
        }
    }

    /// Draws a heading and the rows around the cursor, of rows that are all here.
    pub(crate) fn draw_all<R>(
        &self,
        canvas: &mut Canvas<'_>,
        area: Rect,
        cursor: &mut Cursor,
        rows: &[R],
        cells: impl Fn(&R) -> Vec<Cell>,
    ) {
        self.draw(canvas, area, cursor, rows.len() as u64, |row| {
            Some(cells(rows.get(usize::try_from(row).ok()?)?))
        });
    }

    /// Draws a heading and the first rows, none of which is chosen.
    pub(crate) fn draw_first<R>(
        &self,
        canvas: &mut Canvas<'_>,
        area: Rect,
        rows: &[R],
        cells: impl Fn(&R) -> Vec<Cell>,
    ) {
        let mut cursor = Cursor::default();
        cursor.unmarked = true;
        let room = usize::from(area.intersection(canvas.area).height.saturating_sub(1));
        if rows.len() <= room || room == 0 {
            self.draw_all(canvas, area, &mut cursor, rows, cells);
            return;
        }
        let more = rows.len() - (room - 1);
        self.draw(canvas, area, &mut cursor, room as u64, |row| {
            let place = usize::try_from(row).ok()?;
            Some(if place + 1 < room {
                cells(rows.get(place)?)
            } else {
                vec![Cell::faint(format!("{more} more"))]
            })
        });
    }

    pub(crate) fn draw_heading(&self, canvas: &mut Canvas<'_>, area: Rect) {
        let cells: Vec<Cell> = self
            .columns
            .iter()
            .enumerate()
            .map(|(place, column)| match self.sorted {
                Some((sorted, down)) if sorted == place => {
                    let title = format!("{}{}", column.title, arrow(down, canvas.theme));
                    Cell::inked(title, Ink::Strong)
                }
                _other => Cell::faint(column.title),
            })
            .collect();
        self.draw_row(canvas, row_of(area, 0), &cells, false);
    }

    pub(crate) fn draw_row(
        &self,
        canvas: &mut Canvas<'_>,
        area: Rect,
        cells: &[Cell],
        chosen: bool,
    ) {
        let area = area.intersection(canvas.area);
        if area.is_empty() {
            return;
        }
        let ink = |cell: &Cell| if chosen { Ink::Chosen } else { cell.ink };
        if chosen {
            let style = canvas.theme.style(Ink::Chosen);
            canvas.set_style(area, style);
        }
        if let ([note], 2..) = (cells, self.columns.len()) {
            canvas.text(area, &note.text, ink(note));
            return;
        }
        for (place, left, width) in self.layout(area.width) {
            if let Some(cell) = cells.get(place) {
                let drawn = self.columns[place].aligned(&cell.text, width);
                let at = (area.x + left, area.y);
                canvas.put(at, &drawn, usize::from(width), ink(cell));
            }
        }
    }

    /// The columns that are shown: their places, where each begins, and how wide it is.
    pub(crate) fn layout(&self, room: u16) -> Vec<(usize, u16, u16)> {
        let mut shown: Vec<usize> = (0..self.columns.len())
            .filter(|place| !self.columns[*place].hidden)
            .collect();
        let needed = |shown: &[usize]| -> u16 {
            let sum: u16 = shown
                .iter()
                .map(|place| self.columns[*place].width + 1)
                .sum();
            sum.saturating_sub(1)
        };
        while needed(&shown) > room {
            let giving = shown.iter().enumerate();
            let giving = giving.filter(|(_, place)| self.columns[**place].gives_way > 0);
            match giving.max_by_key(|(_, place)| self.columns[**place].gives_way) {
                Some((index, _)) => shown.remove(index),
                None => break,
            };
        }
        let spare = room.saturating_sub(needed(&shown));
        let growing = shown.iter().filter(|place| self.columns[**place].grows);
        let growing = u16::try_from(growing.count()).unwrap_or(u16::MAX);
        let more = spare.checked_div(growing).unwrap_or(0);
        let mut left = 0_u16;
        let mut layout = Vec::with_capacity(shown.len());
        for place in shown {
            let column = self.columns[place];
            let width = column.width + if column.grows { more } else { 0 };
            // A column that does not fit any more must not reach into what is beside the table.
            layout.push((place, left.min(room), width.min(room.saturating_sub(left))));
            left = left.saturating_add(width + 1);
        }
        layout
    }
}

const fn arrow(down: bool, theme: Theme) -> &'static str {
    if down {
        theme.pick("▼", "v")
    } else {
        theme.pick("▲", "^")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::{Gesture, Pointer};
    use crate::theme::ColourDepth;
    use ratatui::buffer::Buffer;
    use ratatui::style::Modifier;

    const COLUMNS: &[Column] = &[
        Column::figures("PID", 5, 0),
        Column::words("NAME", 6, 0).growing(),
        Column::figures("AGE", 4, 1),
    ];

    fn drawn(width: u16, cursor: &mut Cursor, rows: u64) -> Vec<String> {
        let mut canvas = Buffer::empty(Rect::new(0, 0, width, 4));
        let table = Table {
            columns: COLUMNS,
            sorted: Some((0, true)),
        };
        let theme = Theme::new(ColourDepth::None, true);
        let area = canvas.area;
        table.draw(
            &mut Canvas::new(&mut canvas, theme),
            area,
            cursor,
            rows,
            |row| {
                (row != 1).then(|| {
                    vec![
                        Cell::new(row.to_string()),
                        Cell::new("a name"),
                        Cell::new("3 s"),
                    ]
                })
            },
        );
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
        let theme = Theme::new(ColourDepth::None, true);
        cursor.unmarked = true;
        table.draw(
            &mut Canvas::new(&mut canvas, theme),
            area,
            &mut cursor,
            1,
            |_row| Some(vec![Cell::new("nothing but a note")]),
        );
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
        let mut click = |row| {
            let pointer = Pointer {
                column: 0,
                row,
                did: Gesture::Click,
            };
            (cursor.point(pointer), cursor.row)
        };
        assert_eq!(click(1), (true, 999_997));
        assert_eq!(click(3), (true, 999_999));
        assert_eq!((click(0).0, click(4).0), (false, false));
    }
}
