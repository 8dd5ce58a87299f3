//! Every live buffer, however many: a window of rows around the screen, or sums of all.
//!
//! What is asked is in `question`, how rows look in `list`, sums in `groups`. A window that answers
//! another question than the one on the screen is not shown: it would be taken for the answer.

pub(super) mod groups;
mod list;
pub(super) mod question;
#[cfg(test)]
mod tests;

use self::groups::WAYS;
use self::question::Question;
use super::age;
use super::{Chosen, KeyHelp, Outcome, View};
use crate::data::{Data, Window};
use crate::format;
use crate::glossary::Word;
use crate::input::{Key, Pointer};
use crate::look::{Ink, Look};
use crate::wants::Wants;
use crate::widgets::cursor::Cursor;
use crate::widgets::line::{below, draw_line, row_of};
use crate::widgets::pane::{self, Pane};
use crate::widgets::prompt::Typed;
use crate::widgets::table::Table;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ttmem_api::{BufferGroup, BufferGroups, BufferRow, GroupBy, MemoryClass, SortBy, Timestamp};

#[derive(Debug, Default)]
pub(crate) struct Buffers {
    question: Question,
    grouped: Option<GroupBy>,
    /// The row of the list.
    cursor: Cursor,
    /// The row of the groups.
    group_cursor: Cursor,
    pane: Pane,
    /// Rows of the list, as the last answer counted them.
    rows: u64,
    /// Where the rows were drawn.
    drawn: Rect,
    /// Why the last key led nowhere.
    note: Option<&'static str>,
}

impl Buffers {
    /// Those of a group that were allocated since a moment; none if no filter can say which.
    pub(super) fn of_group(
        group: &BufferGroup,
        by: GroupBy,
        (since, only_device): (Timestamp, bool),
        chosen: &mut Chosen,
    ) -> Option<Self> {
        let mut view = Self::default();
        view.question.since = Some(since);
        view.question.only_device = only_device;
        view.narrow(group, by, chosen).then_some(view)
    }

    /// Narrows the list down to a group, as far as a filter can; whether one can.
    fn narrow(&mut self, group: &BufferGroup, by: GroupBy, chosen: &mut Chosen) -> bool {
        let Some(key) = &group.key else { return false };
        match by {
            GroupBy::Operation => self.question.operation.set(key.as_str()),
            GroupBy::Size => {
                let Some(size) = groups::size_of(key) else {
                    return false;
                };
                // There is no upper limit: those of just this size come first.
                self.question.min_bytes = Some(size);
                self.question.sort = SortBy::Size;
                self.question.descending = false;
            }
            GroupBy::Class => match groups::class_of(group) {
                MemoryClass::Other => return false,
                class => self.question.class = Some(class),
            },
            GroupBy::Process => {
                let pid = key.split(' ').next().and_then(|pid| pid.parse().ok());
                let Some(pid) = pid else { return false };
                chosen.pid = Some(pid);
            }
            GroupBy::Layout | GroupBy::Other => return false,
        }
        self.grouped = None;
        self.begin_anew();
        true
    }

    /// To the first row, because the rows are others now.
    fn begin_anew(&mut self) {
        self.rows = 0;
        for cursor in [&mut self.cursor, &mut self.group_cursor] {
            cursor.row = 0;
            cursor.top = 0;
        }
    }

    /// The window that answers the question; none while it has not come.
    fn window<'d>(&self, data: &'d Data, chosen: &Chosen) -> Option<&'d Window> {
        let window = &data.buffers.as_ref()?.document;
        let asked = self.question.rows(data, chosen, self.cursor, self.rows);
        question::same(&window.query, &asked).then_some(window)
    }

    /// The sums that answer the question; none while they have not come.
    fn sums<'d>(&self, data: &'d Data, chosen: &Chosen, by: GroupBy) -> Option<&'d BufferGroups> {
        let (query, groups) = &data.groups.as_ref()?.document;
        let asked = self.question.groups(data, chosen, by);
        question::same(query, &asked).then_some(groups)
    }

    /// How old what is shown is, if that is too old.
    fn age(&self, data: &Data) -> Option<String> {
        let rows = data.buffers.as_ref().map(|fresh| fresh.received);
        let sums = data.groups.as_ref().map(|fresh| fresh.received);
        let received = if self.grouped.is_some() { sums } else { rows };
        age::note(data, received?)
    }

    /// The chosen row, if it is here.
    fn row<'d>(&self, data: &'d Data, chosen: &Chosen) -> Option<&'d BufferRow> {
        row_at(self.window(data, chosen)?, self.cursor.row)
    }

    fn handle_typing(&mut self, key: Key) -> Outcome {
        let before = self.question.operation.text().to_owned();
        match self.question.operation.handle(key) {
            Typed::On | Typed::Done | Typed::Undone => {}
        }
        if self.question.operation.text() != before {
            self.begin_anew();
        }
        Outcome::Taken
    }

    /// Goes back one step: the pane, the groups, the filters.
    fn back(&mut self, chosen: &mut Chosen) -> Outcome {
        if self.pane.close() {
            return Outcome::Taken;
        }
        if self.grouped.take().is_some() {
            return Outcome::Taken;
        }
        if self.question.is_narrow() || chosen.pid.is_some() {
            self.question.widen();
            chosen.pid = None;
            self.begin_anew();
            return Outcome::Taken;
        }
        Outcome::Unused
    }

    /// Goes deeper: into a group, or to all that is known of a row.
    fn enter(&mut self, data: &Data, chosen: &mut Chosen) -> Outcome {
        let Some(by) = self.grouped else {
            self.pane.toggle();
            return Outcome::Taken;
        };
        let row = usize::try_from(self.group_cursor.row).unwrap_or(usize::MAX);
        let groups = self.sums(data, chosen, by);
        let group = groups.and_then(|groups| groups.groups.get(row));
        if group.is_some_and(|group| !self.narrow(group, by, chosen)) {
            self.note = Some(groups::NO_FILTER);
        }
        Outcome::Taken
    }

    fn draw_summary(
        &self,
        canvas: &mut Buffer,
        area: Rect,
        data: &Data,
        chosen: &Chosen,
        look: Look,
    ) {
        let dot = look.between();
        let mut parts: Vec<(String, Ink)> = Vec::new();
        let (count, size, more) = match self.grouped {
            None => match self.window(data, chosen) {
                Some(window) => (Some(rows_of(window)), window.page.matched_bytes, None),
                None => (None, None, None),
            },
            Some(by) => match self.sums(data, chosen, by) {
                Some(groups) => (
                    Some(groups.buffers),
                    Some(groups.charged_bytes),
                    Some(groups::count_of(groups)),
                ),
                None => (None, None, None),
            },
        };
        match count {
            Some(count) => parts.push((format::counted(count, "buffer"), Ink::Strong)),
            None => parts.push(("asking…".to_owned(), Ink::Faint)),
        }
        if let Some(size) = size {
            parts.push((dot.to_owned() + &format::bytes(size), Ink::Strong));
        }
        parts.extend(
            self.age(data)
                .filter(|_| count.is_some())
                .map(|age| (dot.to_owned() + &age, Ink::Faint)),
        );
        if let Some(note) = self.note {
            parts.insert(0, (format!("{note} "), Ink::Warning));
        } else if let Some(more) = more {
            parts.push((dot.to_owned() + &more, Ink::Faint));
        }
        if self.question.operation.is_typing() {
            let typed = format!("{dot}operation has: {}", self.question.operation.text());
            // First, because it is what the user looks at.
            parts.insert(0, (typed[dot.len()..].to_owned(), Ink::Key));
            parts.insert(1, (format!("{} ", look.caret()), Ink::Key));
        } else {
            for word in self.question.words(data, chosen) {
                parts.push((dot.to_owned(), Ink::Faint));
                parts.push((word, Ink::Key));
            }
        }
        if size.is_some() {
            parts.push((format!("{dot}sizes are on each device"), Ink::Faint));
        }
        draw_line(canvas, area, &parts, look);
    }
}

impl View for Buffers {
    fn keys(&self) -> &'static [KeyHelp] {
        const {
            &[
                KeyHelp::new("/", "operation"),
                KeyHelp::new("s S", "sort"),
                KeyHelp::new("b", "group by"),
                KeyHelp::new("Enter", "details"),
                KeyHelp::new("c", "class"),
                KeyHelp::new("d", "device only"),
                KeyHelp::new("p", "process only"),
                KeyHelp::new("> <", "smallest size"),
                KeyHelp::new("[ ]", "device"),
                KeyHelp::new("Esc", "all"),
            ]
        }
    }

    fn words(&self) -> &'static [Word] {
        &[Word::Charged, Word::Requested, Word::Classes, Word::Mark]
    }

    fn wants(&self, data: &Data, chosen: &Chosen) -> Wants {
        match self.grouped {
            Some(by) => Wants {
                groups: Some(self.question.groups(data, chosen, by)),
                ..Wants::default()
            },
            None => Wants {
                buffers: Some(self.question.rows(data, chosen, self.cursor, self.rows)),
                ..Wants::default()
            },
        }
    }

    fn handle(&mut self, key: Key, data: &Data, chosen: &mut Chosen) -> Outcome {
        if self.question.operation.is_typing() {
            return self.handle_typing(key);
        }
        self.note = None;
        let moved = match self.grouped {
            None => self.cursor.handle(key, self.rows),
            Some(by) => {
                let groups = self.sums(data, chosen, by);
                let rows = groups.map_or(0, |groups| groups.groups.len() as u64);
                self.group_cursor.handle(key, rows)
            }
        };
        if moved {
            return Outcome::Taken;
        }
        match key {
            Key::Char('/') => {
                self.question.operation.begin();
                return Outcome::Taken;
            }
            Key::Enter => return self.enter(data, chosen),
            Key::Escape => return self.back(chosen),
            Key::Char('s') if self.grouped.is_none() => self.question.next_order(),
            Key::Char('S') if self.grouped.is_none() => {
                self.question.descending = !self.question.descending;
            }
            Key::Char('b') => {
                let place = WAYS.iter().position(|way| Some(*way) == self.grouped);
                self.grouped = WAYS.get(place.map_or(0, |place| place + 1)).copied();
            }
            Key::Char('c') => self.question.next_class(),
            Key::Char('d') => self.question.only_device = !self.question.only_device,
            Key::Char('p') => {
                let owner = self.row(data, chosen).and_then(|row| row.pid);
                chosen.pid = match chosen.pid {
                    Some(_) => None,
                    None => owner.filter(|_| self.grouped.is_none()),
                };
            }
            Key::Char('>') => self.question.step_min(true),
            Key::Char('<') => self.question.step_min(false),
            Key::Char('[') | Key::Left => chosen.step(false, data),
            Key::Char(']') | Key::Right => chosen.step(true, data),
            _other => return Outcome::Unused,
        }
        self.begin_anew();
        Outcome::Taken
    }

    fn point(&mut self, pointer: Pointer, data: &Data, chosen: &mut Chosen) -> Outcome {
        let (cursor, rows) = match self.grouped {
            None => (&mut self.cursor, self.rows),
            Some(by) => {
                let groups = self.sums(data, chosen, by);
                let rows = groups.map_or(0, |groups| groups.groups.len() as u64);
                (&mut self.group_cursor, rows)
            }
        };
        Outcome::if_used(Table::point(self.drawn, cursor, pointer, rows))
    }

    fn draw(&mut self, canvas: &mut Buffer, area: Rect, data: &Data, chosen: &Chosen, look: Look) {
        self.draw_summary(canvas, row_of(area, 0), data, chosen, look);
        let area = below(area, 1);
        if let Some(by) = self.grouped {
            self.drawn = area;
            match self.sums(data, chosen, by) {
                Some(groups) => {
                    groups::draw_groups(canvas, area, &mut self.group_cursor, groups, data, look);
                }
                None => draw_waiting(canvas, area, data, look),
            }
            return;
        }
        let (list_area, room) = self.pane.split(area);
        self.drawn = list_area;
        let window = self.window(data, chosen);
        self.rows = window.map_or(0, rows_of);
        let table = Table {
            columns: list::COLUMNS,
            sorted: list::sorted(self.question.sort, self.question.descending),
        };
        let rows = self.rows;
        table.draw(canvas, list_area, &mut self.cursor, rows, look, |row| {
            Some(list::cells(row_at(window?, row)?, data, look))
        });
        match window {
            None => draw_waiting(canvas, below(list_area, 1), data, look),
            Some(_) if rows == 0 => {
                let none = [("no buffer that is live matches", Ink::Faint)];
                draw_line(canvas, row_of(list_area, 1), &none, look);
            }
            Some(_) => {}
        }
        if let Some(room) = room {
            let inside = room.draw_frame(canvas, "buffer", look);
            if let Some(row) = window.and_then(|window| row_at(window, self.cursor.row)) {
                pane::draw_facts(canvas, inside, &list::facts(row, data, look), look);
            }
        }
    }

    fn is_typing(&self) -> bool {
        self.question.operation.is_typing()
    }
}

/// Says that an answer is on its way.
fn draw_waiting(canvas: &mut Buffer, area: Rect, data: &Data, look: Look) {
    let words = match &data.link {
        crate::data::Link::Down { .. } => "the server does not answer",
        _asked => "asking the server…",
    };
    draw_line(canvas, row_of(area, 0), &[(words, Ink::Faint)], look);
}

/// How many rows the list has.
fn rows_of(window: &Window) -> u64 {
    let here = window.first().saturating_add(window.page.rows.len() as u64);
    window.page.matched.unwrap_or(here)
}

/// A row of the list, if the window has it.
fn row_at(window: &Window, row: u64) -> Option<&BufferRow> {
    let place = row.checked_sub(window.first())?;
    window.page.rows.get(usize::try_from(place).ok()?)
}
