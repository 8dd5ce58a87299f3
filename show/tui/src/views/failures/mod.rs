//! What failed, and why: every refused allocation and program that the server keeps, newest first.
//!
//! The list has one line for each, and below it what is known of the chosen one, as far as there is
//! room. Enter shows all of it, and there the map of its device, in which a clash is drawn.

#[cfg(test)]
mod tests;

use super::{Chosen, KeyHelp, Outcome, Tab, View};
use crate::data::Data;
use crate::explanation::{self, Style};
use crate::fetch::Document;
use crate::glossary::Word;
use crate::input::{Gesture, Key, Pointer};
use crate::theme::Ink;
use crate::widgets::{Canvas, Cell, Column, Cursor, Prompt, Table, above, below, panel, row_of};
use ratatui::layout::Rect;
use ttmem_report::format;
use ttmem_report::{Explanation, Timestamp, Verdict};

const COLUMNS: &[Column] = &[
    Column::figures("AGE", 11, 0),
    Column::words("VERDICT", 16, 0),
    Column::words("DEVICE", 7, 1),
    Column::figures("PID", 8, 3),
    Column::figures("TIMES", 6, 2),
    Column::words("WHAT", 30, 0).growing(),
];

/// Rows of a screen below which the list has all of it.
const ROOM_FOR_PANEL: u16 = 14;

/// Rows that the list has at least: its heading, and a failure with one before and one after it.
const LIST_ROWS: u16 = 4;

/// What tells a failure from the others, however many come after it.
type Which = (Option<Timestamp>, Option<u32>);

fn which(failure: &Explanation) -> Which {
    (failure.time, failure.pid)
}

#[derive(Debug, Default)]
pub(crate) struct Failures {
    find: Prompt,
    cursor: Cursor,
    /// The failure that the user chose; the newest if there is none.
    chosen: Option<Which>,
    /// How far the explanation is scrolled, while one is shown.
    opened: Option<Cursor>,
}

impl Failures {
    /// Those that are looked for, newest first.
    fn shown<'d>(&self, data: &'d Data) -> Vec<&'d Explanation> {
        let failures = data.failures.iter();
        let failures = failures.flat_map(|fresh| &fresh.document.failures);
        failures.filter(|failure| self.finds(failure)).collect()
    }

    fn finds(&self, failure: &Explanation) -> bool {
        let names = [
            Some(failure.sentence.as_str()),
            Some(verdict(failure.verdict)),
            failure.python.as_deref(),
        ];
        self.find.finds(names, [failure.pid.map(u64::from)])
    }

    /// The place of the chosen failure; the newest if it is gone.
    fn place(&self, data: &Data) -> usize {
        let Some(chosen) = self.chosen else {
            return 0;
        };
        let failures = self.shown(data);
        let mut failures = failures.iter();
        let place = failures.position(|failure| which(failure) == chosen);
        place.unwrap_or(0)
    }

    fn chosen<'d>(&self, data: &'d Data) -> Option<&'d Explanation> {
        self.shown(data).get(self.place(data)).copied()
    }

    /// Chooses what the cursor is on; at the top the newest, whatever comes.
    fn choose(&mut self, data: &Data) {
        let failures = self.shown(data);
        let failure = failures.get(self.cursor.place()).copied();
        let failure = failure.filter(|_| self.cursor.row > 0 || self.opened.is_some());
        self.chosen = failure.map(which);
    }

    fn step(&mut self, forward: bool, data: &Data) {
        let last = self.shown(data).len().saturating_sub(1);
        let place = self.place(data);
        let place = if forward {
            (place + 1).min(last)
        } else {
            place.saturating_sub(1)
        };
        self.cursor.row = place as u64;
        self.opened = Some(Cursor::default());
        self.choose(data);
    }

    /// A key of the list that is no part of what is looked for.
    fn move_to(&mut self, key: Key, data: &Data) -> Outcome {
        // Others may have come since it was drawn.
        self.cursor.rows = self.shown(data).len() as u64;
        self.cursor.row = self.place(data) as u64;
        if self.cursor.handle(key) {
            self.choose(data);
            return Outcome::Handled;
        }
        if key == Key::Enter && self.chosen(data).is_some() {
            self.opened = Some(Cursor::default());
            self.choose(data);
            return Outcome::Handled;
        }
        Outcome::Unused
    }

    /// Goes to the map of the device that failed.
    fn to_map(&self, data: &Data, chosen: &mut Chosen) -> Outcome {
        let failure = self.chosen(data);
        let devices = failure.and_then(|failure| failure.device_ids.as_ref());
        let Some(id) = devices.and_then(|ids| ids.first()) else {
            return Outcome::Handled;
        };
        let mut known = data.devices().iter();
        if let Some(device) = known.find(|device| device.id == *id) {
            chosen.device = Some(device.key());
            return Outcome::Go(Tab::L1Map);
        }
        Outcome::Handled
    }

    fn draw_list(&mut self, canvas: &mut Canvas<'_>, area: Rect, data: &Data) {
        let failures = self.shown(data);
        self.cursor.row = self.place(data) as u64;
        let theme = canvas.theme;
        let mut head = vec![(
            format::counted(failures.len() as u64, "failure"),
            Ink::Strong,
        )];
        if let Some(find) = self.find.said(theme) {
            head.push((format!("{}{find}", theme.between()), Ink::Key));
        }
        let omitted = data
            .failures
            .as_ref()
            .map_or(0, |fresh| fresh.document.omitted);
        if omitted > 0 {
            let omitted = format::counted(omitted, "older one");
            head.push((
                format!("{}{omitted} no longer kept", theme.between()),
                Ink::Faint,
            ));
        }
        if let Some(age) = data.age_note(data.failures.as_ref()) {
            head.push((format!("{}{age}", theme.between()), Ink::Warning));
        }
        canvas.line(row_of(area, 0), &head);
        let mut list = below(area, 1);
        if list.height >= ROOM_FOR_PANEL
            && let Some(failure) = self.chosen(data)
        {
            let wanted = u16::try_from(failures.len() + 1).unwrap_or(u16::MAX);
            let rows = wanted.clamp(LIST_ROWS, list.height / 2);
            let title = verdict(failure.verdict);
            let place = (below(list, rows), title, false);
            draw_in_full(canvas, place, failure, &mut Cursor::default());
            list = above(list, rows);
        }
        let table = Table::of(COLUMNS);
        table.draw_all(canvas, list, &mut self.cursor, &failures, |failure| {
            cells(failure, data)
        });
    }

    fn draw_explanation(&mut self, canvas: &mut Canvas<'_>, area: Rect, data: &Data) {
        let place = self.place(data);
        let count = self.shown(data).len();
        let Some((failure, scroll)) = self.chosen(data).cloned().zip(self.opened.as_mut()) else {
            return;
        };
        let age = age(&failure, data);
        let title = format!("failure {} of {count}, {age} ago", place + 1);
        draw_in_full(canvas, (area, &title, true), &failure, scroll);
    }
}

/// All that is known of a failure, in a panel with a title, which may have the focus.
fn draw_in_full(
    canvas: &mut Canvas<'_>,
    (area, title, has_focus): (Rect, &str, bool),
    failure: &Explanation,
    scroll: &mut Cursor,
) {
    let inside = panel(canvas, area, title, has_focus);
    let lines = explanation::in_full(failure, usize::from(inside.width));
    scroll.keep_in_text(lines.len(), inside.height);
    for ((style, line), row) in lines.iter().skip(scroll.place()).zip(inside.rows()) {
        let ink = match style {
            Style::Heading => Ink::Strong,
            Style::Text => Ink::Text,
            Style::Detail => Ink::Faint,
            Style::Marked => Ink::Warning,
        };
        canvas.text(row, line, ink);
    }
    let more = scroll.below();
    if more > 0 && area.height > 2 {
        let more = format!(" {} below ", format::counted(more, "more line"));
        let row = Rect::new(
            area.x + 2,
            area.bottom() - 1,
            area.width.saturating_sub(4),
            1,
        );
        canvas.text(row, more, Ink::Faint);
    }
}

pub(crate) const fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Capacity => "capacity",
        Verdict::Fragmentation => "fragmentation",
        Verdict::Clash => "clash",
        Verdict::RegionTooSmall => "region too small",
        Verdict::Unknown | Verdict::Other => "unknown",
    }
}

fn age(failure: &Explanation, data: &Data) -> String {
    let time = failure.last_time.or(failure.time);
    let age = time.and_then(|time| data.age_seconds(time));
    age.map_or_else(|| "?".to_owned(), format::duration)
}

fn cells(failure: &Explanation, data: &Data) -> Vec<Cell> {
    let ids = failure.device_ids.as_deref().unwrap_or_default();
    let pid = failure.pid.map(|pid| pid.to_string());
    vec![
        Cell::new(age(failure, data)),
        Cell::inked(verdict(failure.verdict), Ink::Danger),
        Cell::new(format::ids(ids)),
        Cell::faint(pid.unwrap_or_default()),
        Cell::faint(format::count(failure.times)),
        Cell::new(failure.sentence.clone()),
    ]
}

impl View for Failures {
    fn keys(&self) -> &'static [KeyHelp] {
        const LIST: &[KeyHelp] = &[("Enter", "all of it"), ("j k", "choose"), ("/", "find")];
        const OPENED: &[KeyHelp] = &[
            ("Enter", "memory map"),
            ("Esc", "list"),
            ("[ ]", "newer, older"),
            ("j k", "scroll"),
        ];
        if self.opened.is_some() { OPENED } else { LIST }
    }

    fn words(&self) -> &'static [Word] {
        &[
            Word::AllocationFailed,
            Word::Clash,
            Word::Fragmentation,
            Word::LargestFit,
            Word::Bank,
            Word::Headroom,
        ]
    }

    fn documents(&self, _data: &Data, _chosen: &Chosen) -> Vec<Document> {
        vec![Document::Failures]
    }

    fn handle(&mut self, key: Key, data: &Data, chosen: &mut Chosen) -> Outcome {
        let Some(scroll) = &mut self.opened else {
            match key {
                typed if self.find.is_typing() => self.find.handle(typed),
                Key::Char('/') => self.find.begin(),
                Key::Escape if !self.find.text().is_empty() => self.find.clear(),
                other => return self.move_to(other, data),
            }
            return Outcome::Handled;
        };
        match key {
            Key::Escape => self.opened = None,
            Key::Enter => return self.to_map(data, chosen),
            Key::Char('[') | Key::Left => self.step(false, data),
            Key::Char(']') | Key::Right => self.step(true, data),
            other => return Outcome::if_used(scroll.handle(other)),
        }
        Outcome::Handled
    }

    fn is_typing(&self) -> bool {
        self.find.is_typing()
    }

    fn point(&mut self, pointer: Pointer, data: &Data, _chosen: &mut Chosen) -> Outcome {
        if let Some(scroll) = &mut self.opened {
            return Outcome::if_used(match pointer.did {
                Gesture::WheelUp => scroll.handle(Key::Up),
                Gesture::WheelDown => scroll.handle(Key::Down),
                Gesture::Click => false,
            });
        }
        let used = self.cursor.point(pointer);
        if used {
            self.choose(data);
        }
        Outcome::if_used(used)
    }

    fn draw(&mut self, canvas: &mut Canvas<'_>, area: Rect, data: &Data, _chosen: &Chosen) {
        let area = area.intersection(canvas.area);
        if area.is_empty() {
            return;
        }
        if data.failures.is_none() {
            canvas.text(row_of(area, 0), "asking the server…", Ink::Faint);
        } else if self.find.said(canvas.theme).is_none() && self.shown(data).is_empty() {
            let words = "No allocation and no program was refused since the server started.";
            canvas.text(row_of(area, 0), words, Ink::Good);
            let words = "`ttmem explain FILE` explains a log of any machine.";
            canvas.text(row_of(area, 1), words, Ink::Faint);
        } else if self.opened.is_some() {
            self.draw_explanation(canvas, area, data);
        } else {
            self.draw_list(canvas, area, data);
        }
    }

    fn hidden_rows(&self) -> u64 {
        match &self.opened {
            Some(scroll) => scroll.below(),
            None => self.cursor.hidden(),
        }
    }
}
