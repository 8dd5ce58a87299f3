//! Every live buffer, however many: a window of rows around the screen, or sums of all.
//!
//! What is asked is in `question`, how rows look in `list`, sums in `groups`. A window that answers
//! another question than the one on the screen is not shown: it would be taken for the answer.

pub(crate) mod groups;
mod list;
pub(super) mod question;
#[cfg(test)]
mod tests;

use self::question::Question;
use super::{Chosen, KeyHelp, Outcome, View};
use crate::data::{Data, Window};
use crate::fetch::Document;
use crate::glossary::Word;
use crate::input::{Key, Pointer};
use crate::playback::Subject;
use crate::theme::Ink;
use crate::widgets::{Canvas, Cursor, Pane, Table, below, row_of};
use ratatui::layout::Rect;
use ttmem_report::format;
use ttmem_report::{BufferGroup, BufferGroups, BufferRow, GroupBy, MemoryClass, SortBy, Timestamp};

#[derive(Debug, Default)]
pub(crate) struct Buffers {
    question: Question,
    grouped: Option<GroupBy>,
    cursor: Cursor,
    group_cursor: Cursor,
    pane: Pane,
    note: Option<&'static str>,
}

impl Buffers {
    /// All of them, in groups from the start.
    pub(crate) fn grouped_by(by: GroupBy) -> Self {
        Self {
            grouped: Some(by),
            ..Self::default()
        }
    }

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
            GroupBy::Operation => self.question.operation = Some(key.clone()),
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
            GroupBy::Line | GroupBy::Stack => self.question.line.set(key.as_str()),
            GroupBy::Layout | GroupBy::Other => return false,
        }
        self.grouped = None;
        self.begin_anew();
        true
    }

    /// To the first row, because the rows are others now.
    fn begin_anew(&mut self) {
        self.cursor.reset();
        self.group_cursor.reset();
    }

    const fn cursor(&mut self) -> &mut Cursor {
        match self.grouped {
            None => &mut self.cursor,
            Some(_) => &mut self.group_cursor,
        }
    }

    fn window<'d>(&self, data: &'d Data, chosen: &Chosen) -> Option<&'d Window> {
        let window = &data.buffers.as_ref()?.document;
        let asked = self.question.rows(data, chosen, self.cursor);
        question::same(&window.query, &asked).then_some(window)
    }

    fn sums<'d>(&self, data: &'d Data, chosen: &Chosen, by: GroupBy) -> Option<&'d BufferGroups> {
        question::sums(&self.question.groups(data, chosen, by), data)
    }

    fn age(&self, data: &Data) -> Option<String> {
        match self.grouped {
            Some(_) => data.age_note(data.groups.as_ref()),
            None => data.age_note(data.buffers.as_ref()),
        }
    }

    fn row<'d>(&self, data: &'d Data, chosen: &Chosen) -> Option<&'d BufferRow> {
        row_at(self.window(data, chosen)?, self.cursor.row)
    }

    fn handle_typing(&mut self, key: Key) -> Outcome {
        let prompt = self.question.prompt();
        let before = prompt.text().to_owned();
        prompt.handle(key);
        if prompt.text() != before {
            self.begin_anew();
        }
        Outcome::Handled
    }

    /// Goes back one step: the pane, the groups, the filters.
    fn back(&mut self, chosen: &mut Chosen) -> Outcome {
        if self.pane.close() {
            return Outcome::Handled;
        }
        if self.grouped.take().is_some() {
            return Outcome::Handled;
        }
        if self.question.is_narrow() || chosen.pid.is_some() {
            self.question.widen();
            chosen.pid = None;
            self.begin_anew();
            return Outcome::Handled;
        }
        Outcome::Unused
    }

    /// Goes deeper: into a group, or to all that is known of a row.
    fn enter(&mut self, data: &Data, chosen: &mut Chosen) -> Outcome {
        let Some(by) = self.grouped else {
            if self.row(data, chosen).is_some() {
                self.pane.toggle();
            }
            return Outcome::Handled;
        };
        let groups = self.sums(data, chosen, by);
        let group = groups.and_then(|groups| groups.groups.get(self.group_cursor.place()));
        if group.is_some_and(|group| !self.narrow(group, by, chosen)) {
            self.note = Some(groups::NO_FILTER);
        }
        Outcome::Handled
    }

    fn draw_summary(&self, canvas: &mut Canvas<'_>, area: Rect, data: &Data, chosen: &Chosen) {
        let theme = canvas.theme;
        let dot = theme.between();
        let answer = match self.grouped {
            None => self
                .window(data, chosen)
                .map(|window| (rows_of(window), window.page.matched_bytes, None)),
            Some(by) => self.sums(data, chosen, by).map(|groups| {
                let more = groups::count_of(groups);
                (groups.buffers, Some(groups.charged_bytes), Some(more))
            }),
        };
        let count = answer.as_ref().map(|(count, ..)| *count);
        let (size, more) = answer.map_or((None, None), |(_, size, more)| (size, more));
        let mut parts = vec![match count {
            Some(count) => (format::counted(count, "buffer"), Ink::Strong),
            None => ("asking…".to_owned(), Ink::Faint),
        }];
        let mut add = |text: Option<String>, ink| {
            parts.extend(text.map(|text| (format!("{dot}{text}"), ink)));
        };
        add(size.map(format::bytes), Ink::Strong);
        add(self.age(data).filter(|_| count.is_some()), Ink::Faint);
        add(more.filter(|_| self.note.is_none()), Ink::Faint);
        if let Some(note) = self.note {
            parts.insert(0, (format!("{note} "), Ink::Warning));
        }
        if let Some(typed) = self.question.typed(theme) {
            // First, because it is what the user looks at.
            parts.insert(0, (format!("{typed} "), Ink::Key));
        } else {
            for word in self.question.words(data, chosen) {
                parts.push((dot.to_owned(), Ink::Faint));
                parts.push((word, Ink::Key));
            }
        }
        if size.is_some() {
            parts.push((format!("{dot}sizes are on each device"), Ink::Faint));
        }
        canvas.line(area, &parts);
    }
}

impl View for Buffers {
    fn keys(&self) -> &'static [KeyHelp] {
        &[
            ("/", "find"),
            ("l", "Python line"),
            ("s S", "sort"),
            ("b", "group by"),
            ("Enter", "details"),
            ("c", "class"),
            ("d", "device only"),
            ("P", "process only"),
            ("z Z", "smallest size"),
            ("[ ]", "device"),
            ("Esc", "all"),
        ]
    }

    fn subject(&self, data: &Data, chosen: &Chosen) -> Subject {
        self.question.subject(data, chosen)
    }

    fn words(&self) -> &'static [Word] {
        &[Word::Charged, Word::Requested, Word::Classes, Word::Mark]
    }

    fn documents(&self, data: &Data, chosen: &Chosen) -> Vec<Document> {
        vec![match self.grouped {
            Some(by) => Document::Groups(self.question.groups(data, chosen, by)),
            None => Document::Buffers(self.question.rows(data, chosen, self.cursor)),
        }]
    }

    fn handle(&mut self, key: Key, data: &Data, chosen: &mut Chosen) -> Outcome {
        if self.is_typing() {
            return self.handle_typing(key);
        }
        self.note = None;
        let moved = self.cursor().handle(key);
        if moved {
            return Outcome::Handled;
        }
        match key {
            Key::Char('/') => {
                self.question.find.begin();
                return Outcome::Handled;
            }
            Key::Char('l') => {
                self.question.line.begin();
                return Outcome::Handled;
            }
            Key::Enter => return self.enter(data, chosen),
            Key::Escape => return self.back(chosen),
            Key::Char('s') if self.grouped.is_none() => self.question.next_order(),
            Key::Char('S') if self.grouped.is_none() => {
                self.question.descending = !self.question.descending;
            }
            Key::Char('b') => {
                let ways = groups::ways(data);
                let place = ways.iter().position(|way| Some(*way) == self.grouped);
                self.grouped = ways.get(place.map_or(0, |place| place + 1)).copied();
            }
            Key::Char('c') => self.question.next_class(),
            Key::Char('d') => self.question.only_device = !self.question.only_device,
            Key::Char('P') => {
                let owner = self.row(data, chosen).and_then(|row| row.pid);
                chosen.pid = match chosen.pid {
                    Some(_) => None,
                    None => owner.filter(|_| self.grouped.is_none()),
                };
            }
            Key::Char('z') => self.question.step_min(true),
            Key::Char('Z') => self.question.step_min(false),
            Key::Char('[') | Key::Left => chosen.step(false, data),
            Key::Char(']') | Key::Right => chosen.step(true, data),
            _other => return Outcome::Unused,
        }
        self.begin_anew();
        Outcome::Handled
    }

    fn point(&mut self, pointer: Pointer, _data: &Data, _chosen: &mut Chosen) -> Outcome {
        Outcome::if_used(self.cursor().point(pointer))
    }

    fn draw(&mut self, canvas: &mut Canvas<'_>, area: Rect, data: &Data, chosen: &Chosen) {
        let theme = canvas.theme;
        self.draw_summary(canvas, row_of(area, 0), data, chosen);
        let area = below(area, 1);
        if let Some(by) = self.grouped {
            match self.sums(data, chosen, by) {
                Some(groups) => {
                    groups::draw_groups(canvas, area, &mut self.group_cursor, groups, data);
                }
                None => draw_waiting(canvas, area, data),
            }
            return;
        }
        let (list_area, room) = self.pane.split(area);
        let window = self.window(data, chosen);
        let rows = window.map_or(0, rows_of);
        let table = Table {
            columns: &list::columns(data.has_lines()),
            sorted: list::sorted(self.question.sort, self.question.descending),
        };
        table.draw(canvas, list_area, &mut self.cursor, rows, |row| {
            Some(list::cells(row_at(window?, row)?, data, theme))
        });
        match window {
            None => draw_waiting(canvas, below(list_area, 1), data),
            Some(_) if rows == 0 => {
                let none = if data
                    .devices()
                    .iter()
                    .all(|device| device.held().buffers() == 0)
                {
                    "no buffer is live"
                } else {
                    "no buffer that is live matches"
                };
                canvas.text(row_of(list_area, 1), none, Ink::Faint);
            }
            Some(_) => {}
        }
        if let Some(room) = room {
            let row = window.and_then(|window| row_at(window, self.cursor.row));
            let facts = row.map(|row| list::facts(row, data, theme));
            room.draw(canvas, "buffer", &facts.unwrap_or_default());
        }
    }

    fn hidden_rows(&self) -> u64 {
        match self.grouped {
            None => self.cursor.hidden(),
            Some(_) => self.group_cursor.hidden(),
        }
    }

    fn is_typing(&self) -> bool {
        self.question.find.is_typing() || self.question.line.is_typing()
    }
}

fn draw_waiting(canvas: &mut Canvas<'_>, area: Rect, data: &Data) {
    let words = match &data.link {
        crate::data::Link::Down { .. } => "the server does not answer",
        _asked => "asking the server…",
    };
    canvas.text(row_of(area, 0), words, Ink::Faint);
}

fn rows_of(window: &Window) -> u64 {
    let here = window.first().saturating_add(window.page.rows.len() as u64);
    window.page.matched.unwrap_or(here)
}

fn row_at(window: &Window, row: u64) -> Option<&BufferRow> {
    let place = row.checked_sub(window.first())?;
    window.page.rows.get(usize::try_from(place).ok()?)
}
