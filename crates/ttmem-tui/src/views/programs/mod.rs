//! Programs and kernels: what was built, what it takes, when it ran, and where its code lies.
//!
//! Four pages, one key apart: the programs, when they ran (`timeline`), their kernels, and the
//! config rings with the prefetcher caches (`rings`).

mod kernels;
mod list;
mod order;
mod rings;
mod summary;
#[cfg(test)]
mod tests;
mod timeline;

use self::kernels::Kernels;
use self::order::Ordered;
use self::rings::Rings;
use self::timeline::Timeline;
use super::{Chosen, KeyHelp, Outcome, View};
use crate::data::Data;
use crate::fetch::Document;
use crate::glossary::Word;
use crate::input::{Gesture, Key, Pointer};
use crate::theme::{Ink, Theme};
use crate::widgets::{Canvas, Cursor, Pane, Prompt, Table, below, pane, row_of};
use ratatui::layout::Rect;
use ttmem_api::ProgramRow;

#[derive(Debug, Default)]
pub(crate) struct Programs {
    page: Page,
    filter: Prompt,
    list: Ordered,
    kernel_list: Ordered,
    kernels: Kernels,
    timeline: Timeline,
    timeline_cursor: Cursor,
    rings: Rings,
    pane: Pane,
    titles: Rect,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Page {
    #[default]
    Programs,
    Timeline,
    Kernels,
    Rings,
}

impl Page {
    const ALL: [Self; 4] = [Self::Programs, Self::Timeline, Self::Kernels, Self::Rings];

    const fn title(self) -> &'static str {
        match self {
            Self::Programs => "programs",
            Self::Timeline => "timeline",
            Self::Kernels => "kernels",
            Self::Rings => "rings and caches",
        }
    }

    fn next(self) -> Self {
        let place = Self::ALL.iter().position(|page| *page == self);
        Self::ALL[(place.unwrap_or(0) + 1) % Self::ALL.len()]
    }
}

impl Programs {
    /// Brings what is kept of the documents up to date with them.
    fn take(&mut self, data: &Data, chosen: &Chosen, theme: Theme) {
        let (filter, of) = (&self.filter, chosen.pid);
        match &data.programs {
            Some(document) => {
                self.timeline.take(document, data, theme);
                let rows = &document.document.rows;
                self.list.arrange(
                    (document.received, rows.len()),
                    filter.text(),
                    chosen,
                    |place| is_of(&rows[place], of) && is_named(&rows[place], filter),
                    |sort, one, other| list::compare(sort, &rows[one], &rows[other]),
                );
            }
            None => self.list.clear(),
        }
        match &data.kernels {
            Some(document) => {
                self.kernels.take(document);
                let (each, rows) = (&self.kernels.each, &document.document.rows);
                let row = |place: usize| &rows[each[place].first];
                self.kernel_list.arrange(
                    (document.received, each.len()),
                    filter.text(),
                    chosen,
                    |place| {
                        let name = row(place).name.as_deref().unwrap_or_default();
                        (of.is_none() || row(place).pid == of) && filter.matches(name)
                    },
                    |sort, one, other| {
                        kernels::compare(sort, (&each[one], row(one)), (&each[other], row(other)))
                    },
                );
            }
            None => self.kernel_list.clear(),
        }
    }

    const fn cursor(&mut self) -> &mut Cursor {
        match self.page {
            Page::Programs => &mut self.list.cursor,
            Page::Kernels => &mut self.kernel_list.cursor,
            Page::Timeline => &mut self.timeline_cursor,
            Page::Rings => &mut self.rings.cursor,
        }
    }

    fn handle_order(&mut self, key: Key) -> Outcome {
        let (list, sorts) = match self.page {
            Page::Programs => (&mut self.list, list::SORTS.len()),
            Page::Kernels => (&mut self.kernel_list, kernels::SORTS.len()),
            Page::Timeline | Page::Rings => return Outcome::Unused,
        };
        if key == Key::Char('s') {
            list.next_sort(sorts);
        } else {
            list.ascending = !list.ascending;
        }
        Outcome::Handled
    }

    fn back(&mut self, chosen: &mut Chosen) -> Outcome {
        if self.page == Page::Programs && self.pane.close() {
            return Outcome::Handled;
        }
        if !self.filter.text().is_empty() || chosen.pid.is_some() {
            self.filter.clear();
            chosen.pid = None;
            return Outcome::Handled;
        }
        Outcome::Unused
    }

    fn draw_titles(&mut self, canvas: &mut Canvas<'_>, area: Rect, chosen: &Chosen) {
        let theme = canvas.theme;
        let mut parts: Vec<(String, Ink)> = Vec::new();
        for page in Page::ALL {
            let part = if page == self.page {
                (format!("[{}]", page.title()), Ink::Strong)
            } else {
                (format!(" {} ", page.title()), Ink::Faint)
            };
            parts.push(part);
        }
        self.titles = row_of(area, 0);
        if let Some(pid) = chosen.pid {
            parts.push((format!("  pid {pid}"), Ink::Key));
        }
        if self.filter.is_typing() {
            let caret = theme.caret();
            parts.push((
                format!("  name has: {}{caret}", self.filter.text()),
                Ink::Key,
            ));
        } else if !self.filter.text().is_empty() {
            parts.push((format!("  name has \"{}\"", self.filter.text()), Ink::Key));
        }
        canvas.line(self.titles, &parts);
    }

    /// The page whose name lies at a column.
    fn title_at(&self, column: u16) -> Option<Page> {
        let mut left = self.titles.x;
        Page::ALL.into_iter().find(|page| {
            let width = u16::try_from(page.title().len() + 2).unwrap_or(0);
            let hit = (left..left + width).contains(&column);
            left += width;
            hit
        })
    }

    fn draw_programs(&mut self, canvas: &mut Canvas<'_>, area: Rect, data: &Data) {
        let theme = canvas.theme;
        let (list_area, room) = self.pane.split(area);
        let table = Table {
            columns: list::COLUMNS,
            sorted: list::sorted(self.list.sort, self.list.ascending),
        };
        let rows = data
            .programs
            .as_ref()
            .map_or(&[][..], |fresh| &fresh.document.rows);
        let mut cursor = self.list.cursor;
        let list = &self.list;
        let row = |row: u64| rows.get(list.place(row)?);
        table.draw(canvas, list_area, &mut cursor, list.rows(), |at| {
            Some(list::cells(row(at)?, data, theme))
        });
        if let Some(room) = room {
            let inside = room.draw_frame(canvas, "program");
            if let Some(row) = row(cursor.row) {
                pane::draw_facts(canvas, inside, &list::facts(row, data, theme));
            }
        }
        self.list.cursor = cursor;
    }

    fn draw_kernels(&mut self, canvas: &mut Canvas<'_>, area: Rect, data: &Data) {
        let theme = canvas.theme;
        let sort = kernels::SORTS.get(self.kernel_list.sort);
        let document = data.kernels.as_ref().map(|fresh| &fresh.document);
        let table = Table {
            columns: kernels::columns(document.is_none_or(|listed| !listed.has_more)),
            sorted: sort.map(|column| (*column, !self.kernel_list.ascending)),
        };
        let rows = document.map_or(&[][..], |listed| &listed.rows);
        let mut cursor = self.kernel_list.cursor;
        let (list, each) = (&self.kernel_list, &self.kernels.each);
        table.draw(canvas, area, &mut cursor, list.rows(), |at| {
            let kernel = each.get(list.place(at)?)?;
            Some(kernels::cells(kernel, rows.get(kernel.first)?, data, theme))
        });
        self.kernel_list.cursor = cursor;
    }
}

impl View for Programs {
    fn keys(&self) -> &'static [KeyHelp] {
        const {
            &[
                KeyHelp::new("p", "page"),
                KeyHelp::new("/", "name"),
                KeyHelp::new("s S", "sort"),
                KeyHelp::new("Enter", "details"),
                KeyHelp::new("[ ]", "device"),
                KeyHelp::new("Esc", "all"),
            ]
        }
    }

    fn words(&self) -> &'static [Word] {
        &[
            Word::BinaryState,
            Word::Caches,
            Word::Cb,
            Word::Kernels,
            Word::Shared,
            Word::Registered,
            Word::Resident,
            Word::ConfigRing,
            Word::Prefetcher,
        ]
    }

    fn documents(&self, _data: &Data, _chosen: &Chosen) -> Vec<Document> {
        // Programs on every page: the timeline goes on, and rings name their entries.
        match self.page {
            Page::Kernels => vec![Document::Programs, Document::Kernels],
            Page::Programs | Page::Timeline | Page::Rings => vec![Document::Programs],
        }
    }

    fn handle(&mut self, key: Key, data: &Data, chosen: &mut Chosen) -> Outcome {
        if self.filter.is_typing() {
            self.filter.handle(key);
            return Outcome::Handled;
        }
        // By pages through the entries, row by row through the rings.
        if self.page == Page::Rings && matches!(key, Key::PageUp | Key::PageDown) {
            self.rings.entries.handle(key);
            return Outcome::Handled;
        }
        if self.cursor().handle(key) {
            return Outcome::Handled;
        }
        match key {
            Key::Char('p') => self.page = self.page.next(),
            Key::Char('/') if self.page != Page::Rings => self.filter.begin(),
            Key::Char('s' | 'S') => return self.handle_order(key),
            Key::Enter if self.page == Page::Programs => self.pane.toggle(),
            Key::Escape => return self.back(chosen),
            Key::Char('[') | Key::Left => chosen.step(false, data),
            Key::Char(']') | Key::Right => chosen.step(true, data),
            _other => return Outcome::Unused,
        }
        Outcome::Handled
    }

    fn point(&mut self, pointer: Pointer, _data: &Data, _chosen: &mut Chosen) -> Outcome {
        let clicked = pointer.did == Gesture::Click;
        if clicked && pointer.row == self.titles.y {
            let page = self.title_at(pointer.column);
            self.page = page.unwrap_or(self.page);
            return Outcome::if_used(page.is_some());
        }
        let cursor = match self.page {
            // The wheel goes through the entries of a ring, a click chooses a ring.
            Page::Rings if !clicked => &mut self.rings.entries,
            _other => self.cursor(),
        };
        Outcome::if_used(cursor.point(pointer))
    }

    fn draw(&mut self, canvas: &mut Canvas<'_>, area: Rect, data: &Data, chosen: &Chosen) {
        let theme = canvas.theme;
        self.take(data, chosen, theme);
        self.draw_titles(canvas, area, chosen);
        let summary = self.summary(data, chosen, theme);
        canvas.line(row_of(area, 1), &summary);
        let area = below(area, 2);
        match self.page {
            Page::Programs => self.draw_programs(canvas, area, data),
            Page::Kernels => self.draw_kernels(canvas, area, data),
            Page::Timeline => {
                let (timeline, cursor) = (&self.timeline, &mut self.timeline_cursor);
                timeline.draw(canvas, area, cursor, (&self.filter, chosen.pid), data);
            }
            Page::Rings => match chosen.device(data) {
                Some(device) => self.rings.draw(canvas, area, device, data),
                None => {
                    let words = [("no device is known", Ink::Faint)];
                    canvas.line(row_of(area, 0), &words);
                }
            },
        }
    }

    fn is_typing(&self) -> bool {
        self.filter.is_typing()
    }
}

fn is_of(row: &ProgramRow, pid: Option<u32>) -> bool {
    pid.is_none() || row.pid == pid
}

fn is_named(row: &ProgramRow, filter: &Prompt) -> bool {
    filter.matches(row.name.as_deref().unwrap_or_default())
}
