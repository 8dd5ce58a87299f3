//! Programs and kernels: what was built, what it takes, when it ran, and where its code lies.
//!
//! Four pages, one key apart: the programs, when they ran (`timeline`), their kernels, and the
//! config rings with the prefetcher caches (`rings`).

mod kernels;
mod list;
mod rings;
mod summary;
#[cfg(test)]
mod tests;
mod timeline;

use self::kernels::{Kernel, Kernels};
use self::rings::Rings;
use self::timeline::Timeline;
use super::{Chosen, KeyHelp, Outcome, View, around, option};
use crate::data::Data;
use crate::fetch::Document;
use crate::glossary::Word;
use crate::input::{Gesture, Key, Pointer};
use crate::theme::{Ink, Theme};
use crate::widgets::{Canvas, Cursor, List, Pane, Prompt, below, row_of};
use ratatui::layout::Rect;
use ttmem_report::ProgramRow;

#[derive(Debug, Default)]
pub(crate) struct Programs {
    page: Page,
    filter: Prompt,
    list: List,
    kernel_list: List,
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
}

impl Programs {
    fn take(&mut self, data: &Data, chosen: &Chosen, theme: Theme) {
        let (filter, of) = (&self.filter, chosen.pid);
        let is_of = |pid: Option<u32>| of.is_none() || pid == of;
        match &data.programs {
            Some(document) => {
                self.timeline.take(document, data, theme);
                let rows = (document.received, &document.document.rows[..]);
                let shows = |row: &ProgramRow| {
                    let lines = row.python.iter().flatten();
                    let names = lines.chain(&row.name).map(|name| Some(name.as_str()));
                    let numbers = [row.pid.map(u64::from), row.program];
                    is_of(row.pid) && filter.finds(names, numbers)
                };
                self.list.arrange(rows, list::SORTS, (filter, of), shows);
            }
            None => self.list.clear(),
        }
        match &data.kernels {
            Some(document) => {
                self.kernels.take(document);
                let rows = (document.received, &self.kernels.each[..]);
                let shows = |kernel: &Kernel| {
                    let row = &kernel.row;
                    let numbers = [row.pid.map(u64::from), Some(row.kernel.0)];
                    is_of(row.pid) && filter.finds([row.name.as_deref()], numbers)
                };
                self.kernel_list
                    .arrange(rows, kernels::SORTS, (filter, of), shows);
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

    fn handle_order(&mut self, key: Key) -> bool {
        match self.page {
            Page::Programs => self.list.handle_order(key, list::SORTS),
            Page::Kernels => self.kernel_list.handle_order(key, kernels::SORTS),
            Page::Timeline | Page::Rings => false,
        }
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
        let pages = Page::ALL.iter();
        let mut parts: Vec<(String, Ink)> = pages
            .map(|page| option(page.title(), *page == self.page))
            .collect();
        self.titles = row_of(area, 0);
        if let Some(pid) = chosen.pid {
            parts.push((format!("  pid {pid}"), Ink::Key));
        }
        let find = self.filter.said(theme);
        parts.extend(find.map(|find| (format!("  {find}"), Ink::Key)));
        canvas.line(self.titles, &parts);
    }

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
        let rows = data.programs.as_ref();
        let rows = rows.map_or(&[][..], |fresh| &fresh.document.rows);
        let table = (list::COLUMNS, list::SORTS);
        self.list.draw(canvas, list_area, table, rows, |row| {
            list::cells(row, data, theme)
        });
        if let Some(room) = room {
            let row = self.list.row(rows);
            let facts = row.map(|row| list::facts(row, data, theme));
            room.draw(canvas, "program", &facts.unwrap_or_default());
        }
    }

    fn draw_kernels(&mut self, canvas: &mut Canvas<'_>, area: Rect, data: &Data) {
        let theme = canvas.theme;
        let document = data.kernels.as_ref().map(|fresh| &fresh.document);
        let columns = kernels::columns(document.is_none_or(|listed| !listed.has_more));
        let (table, rows) = ((&columns[..], kernels::SORTS), &self.kernels.each);
        self.kernel_list.draw(canvas, area, table, rows, |kernel| {
            kernels::cells(kernel, data, theme)
        });
    }
}

impl View for Programs {
    fn keys(&self) -> &'static [KeyHelp] {
        &[
            ("v", "page"),
            ("/", "find"),
            ("s S", "sort"),
            ("Enter", "details"),
            ("[ ]", "device"),
            ("Esc", "all"),
        ]
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
            Key::Char('v') => self.page = around(&Page::ALL, self.page, true),
            Key::Char('/') => self.filter.begin(),
            Key::Enter if self.page == Page::Programs => {
                if self.list.cursor.rows > 0 {
                    self.pane.toggle();
                }
            }
            Key::Escape => return self.back(chosen),
            Key::Char('[') | Key::Left => chosen.step(false, data),
            Key::Char(']') | Key::Right => chosen.step(true, data),
            other => return Outcome::if_used(self.handle_order(other)),
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
                Some(device) => self.rings.draw(canvas, area, device, &self.filter, data),
                None => {
                    canvas.text(row_of(area, 0), "no device is known", Ink::Faint);
                }
            },
        }
    }

    fn hidden_rows(&self) -> u64 {
        self.list.cursor.hidden()
    }

    fn is_typing(&self) -> bool {
        self.filter.is_typing()
    }
}
