//! What happens, as it happens: the newest events of the server's stream.
//!
//! The list runs by itself until the user stops it, here or on another tab, or scrolls up. Then the
//! events of that moment are held, so that nothing moves under the user's eyes, while newer ones go
//! on being kept.

mod family;
mod line;
mod rows;
#[cfg(test)]
mod tests;

use self::family::Family;
use self::rows::{Row, Rows, Wanted};
use super::{Chosen, KeyHelp, Outcome, View, option};
use crate::data::{Data, Link, Tail};
use crate::glossary::Word;
use crate::input::{Gesture, Key, Pointer};
use crate::theme::{Ink, Theme};
use crate::widgets::{Canvas, Cell, Cursor, Prompt, Table, above, below, row_of, text};
use ratatui::layout::Rect;
use ttmem_report::Timestamp;
use ttmem_report::format;

/// Rows of a screen below which the chosen event is not shown in full.
const ROOM_FOR_DETAILS: u16 = 12;

#[derive(Debug, Default)]
pub(crate) struct Events {
    family: Family,
    filter: Prompt,
    rows: Rows,
    cursor: Cursor,
    held: Option<Held>,
    families: Vec<(Rect, Family)>,
}

#[derive(Debug)]
struct Held {
    tail: Tail,
    why: Why,
    /// The instant of a recording that they are of.
    at: Option<Timestamp>,
}

/// Why the list stands still, which says what lets it run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    /// The user scrolled up; the end lets it run.
    Scrolled,
    /// The user stopped it here; the same key lets it run.
    Paused,
    /// The whole app is stopped; it runs when the app does.
    AppPaused,
}

impl View for Events {
    fn keys(&self) -> &'static [KeyHelp] {
        &[
            ("/", "find"),
            ("Space", "pause"),
            ("e E", "kind"),
            ("j k", "scroll"),
            ("G", "newest"),
            ("Enter", "this process only"),
            ("Esc", "clear filter"),
        ]
    }

    fn words(&self) -> &'static [Word] {
        &[
            Word::Recovered,
            Word::Missed,
            Word::Requested,
            Word::AllocationFailed,
            Word::Clash,
            Word::Incomplete,
            Word::ConfigRing,
            Word::Caches,
            Word::Mark,
        ]
    }

    fn streams_events(&self) -> bool {
        true
    }

    fn samples_events(&self, chosen: &Chosen) -> bool {
        // Who looks for something wants it found among all.
        let looks = !self.filter.text().is_empty() || chosen.pid.is_some();
        !looks && self.family == Family::All
    }

    fn handle(&mut self, key: Key, data: &Data, chosen: &mut Chosen) -> Outcome {
        if self.filter.is_typing() {
            self.filter.handle(key);
            return Outcome::Handled;
        }
        match key {
            Key::Char('/') => self.filter.begin(),
            Key::Char('e') => self.family = self.family.step(true),
            Key::Char('E') => self.family = self.family.step(false),
            // What the app stopped is the app's to start again.
            Key::Char(' ') if !data.paused => self.pause(data),
            Key::Enter => return self.choose_process(data, chosen),
            Key::Escape if !self.filter.text().is_empty() => self.filter.clear(),
            Key::Escape if chosen.pid.is_some() => chosen.pid = None,
            other => {
                if !self.cursor.handle(other) {
                    return Outcome::Unused;
                }
                self.settle(data);
            }
        }
        Outcome::Handled
    }

    fn point(&mut self, pointer: Pointer, data: &Data, _chosen: &mut Chosen) -> Outcome {
        let place = (pointer.column, pointer.row).into();
        let mut families = self.families.iter();
        let family = families.find(|(area, _)| area.contains(place));
        if let Some((_, family)) = family.filter(|_| pointer.did == Gesture::Click) {
            self.family = *family;
            return Outcome::Handled;
        }
        let used = self.cursor.point(pointer);
        if used {
            self.settle(data);
        }
        Outcome::if_used(used)
    }

    fn draw(&mut self, canvas: &mut Canvas<'_>, area: Rect, data: &Data, chosen: &Chosen) {
        let area = area.intersection(canvas.area);
        if area.is_empty() {
            return;
        }
        // What was held of another instant is not shown under this one.
        self.held.take_if(|held| held.at != data.at);
        self.follow(data, chosen.pid);
        if self.stop_with_the_app(data) {
            self.follow(data, chosen.pid);
        }
        self.draw_head(canvas, row_of(area, 0), data);
        let mut list = below(area, 1);
        if self.draw_note(canvas, list, data, chosen) {
            list = below(list, 1);
        }
        if self.held.is_some() && list.height >= ROOM_FOR_DETAILS {
            let rows = list.height - (list.height / 4).min(6);
            self.draw_details(canvas, below(list, rows), data);
            list = above(list, rows);
        }
        self.draw_list(canvas, list, data);
    }

    fn hidden_rows(&self) -> u64 {
        self.cursor.hidden()
    }

    fn is_typing(&self) -> bool {
        self.filter.is_typing()
    }
}

impl Events {
    fn shown<'e>(held: Option<&'e Held>, data: &'e Data) -> &'e Tail {
        held.map_or_else(|| data.tail(), |held| &held.tail)
    }

    /// Stands still while the app does, though events go on coming; whether that changed now.
    fn stop_with_the_app(&mut self, data: &Data) -> bool {
        match &self.held {
            None if data.paused => self.hold(data, Why::AppPaused),
            Some(held) if held.why == Why::AppPaused && !data.paused => self.held = None,
            _as_it_is => return false,
        }
        true
    }

    /// Brings the rows up to date; the chosen one stays the same event where it can.
    fn follow(&mut self, data: &Data, pid: Option<u32>) {
        let wanted = Wanted {
            family: self.family,
            recorded: data.is_recorded(),
            pid,
            text: self.filter.text().to_owned(),
        };
        let place = self.rows.get(self.cursor.row).map(Row::place);
        let anew = self
            .rows
            .follow(Self::shown(self.held.as_ref(), data), &wanted);
        if self.held.is_none() {
            self.cursor.row = self.rows.len().saturating_sub(1);
        } else if anew && let Some(place) = place {
            self.cursor.row = self.rows.number_of(place);
        }
        self.cursor.unmarked = self.held.is_none();
    }

    fn pause(&mut self, data: &Data) {
        match &mut self.held {
            Some(held) if held.why == Why::Paused => self.held = None,
            Some(held) => held.why = Why::Paused,
            None => self.hold(data, Why::Paused),
        }
    }

    /// After the cursor moved: above the end the list stands still, at the end it runs.
    fn settle(&mut self, data: &Data) {
        let at_end = self.cursor.row + 1 >= self.rows.len();
        match &self.held {
            None if !at_end => self.hold(data, Why::Scrolled),
            Some(held) if at_end && held.why == Why::Scrolled && !data.paused => self.held = None,
            _as_it_is => {}
        }
    }

    /// Holds the events of this moment; some may have gone since the rows were drawn.
    fn hold(&mut self, data: &Data, why: Why) {
        let gone = self.rows.number_of(data.tail().gone);
        self.cursor.row = self.cursor.row.saturating_sub(gone);
        self.cursor.top = self.cursor.top.saturating_sub(gone);
        let (tail, at) = (data.tail().clone(), data.at);
        self.held = Some(Held { tail, why, at });
    }

    fn choose_process(&self, data: &Data, chosen: &mut Chosen) -> Outcome {
        let row = self.held.as_ref().and(self.rows.get(self.cursor.row));
        let place = row.map(Row::place);
        let tail = Self::shown(self.held.as_ref(), data);
        let event = place.and_then(|place| tail.at(place));
        let pid = event.and_then(|event| event.event.pid);
        chosen.pid = pid.or(chosen.pid);
        Outcome::if_used(pid.is_some())
    }

    fn draw_head(&mut self, canvas: &mut Canvas<'_>, area: Rect, data: &Data) {
        let theme = canvas.theme;
        let (state, ink) = self.state(data, theme);
        let left = canvas.text_at_right(area, &state, ink).right();
        self.families.clear();
        let mut column = area.x;
        for family in Family::ALL {
            let (name, ink) = option(family.name(), family == self.family);
            let end = column.saturating_add(u16::try_from(name.len()).unwrap_or(u16::MAX));
            if end >= left {
                break;
            }
            canvas.put((column, area.y), &name, name.len(), ink);
            self.families
                .push((Rect::new(column, area.y, end - column, 1), family));
            column = end;
        }
    }

    fn state(&self, data: &Data, theme: Theme) -> (String, Ink) {
        let dot = theme.pick("·", "-");
        let Some(held) = &self.held else {
            let kept = data.tail().events.len() as u64;
            let kept = format::counted(kept, "event");
            let doing = if data.is_recorded() {
                "up to this instant"
            } else {
                "following"
            };
            return (format!("{kept} {dot} {doing}"), Ink::Faint);
        };
        if data.is_recorded() {
            return (format!("scrolled up {dot} G newest"), Ink::Warning);
        }
        let since = format::count(data.tail.end().saturating_sub(held.tail.end()));
        if held.why != Why::Scrolled || data.paused {
            (format!("paused {dot} {since} came since"), Ink::Warning)
        } else {
            let state = format!("scrolled up {dot} {since} came since {dot} G follows");
            (state, Ink::Warning)
        }
    }

    /// What is left out, and what is missing; whether there was anything to say.
    fn draw_note(&self, canvas: &mut Canvas<'_>, area: Rect, data: &Data, chosen: &Chosen) -> bool {
        let theme = canvas.theme;
        let mut parts: Vec<(String, Ink)> = Vec::new();
        if self.filter.is_typing() || !self.filter.text().is_empty() {
            let beam = if self.filter.is_typing() {
                theme.caret()
            } else {
                ""
            };
            parts.push((format!("/{}{beam}", self.filter.text()), Ink::Strong));
        }
        if let Some(pid) = chosen.pid {
            parts.push((format!("only process {pid}"), Ink::Strong));
        }
        if self.filter.is_typing() || !parts.is_empty() {
            let found = format::count(self.rows.events());
            parts.push((format!("{found} match"), Ink::Faint));
        }
        if data.tail().missed > 0 {
            let missed = format::counted(data.tail().missed, "event");
            parts.push((
                format!("{missed} missed: more than this reader can take"),
                Ink::Warning,
            ));
        }
        canvas.spaced(area, &parts, 2);
        !parts.is_empty()
    }

    fn draw_list(&mut self, canvas: &mut Canvas<'_>, area: Rect, data: &Data) {
        let theme = canvas.theme;
        let (rows, held) = (&self.rows, self.held.as_ref());
        let tail = Self::shown(held, data);
        let columns = line::columns(area.width);
        let table = Table::of(&columns);
        table.draw(canvas, area, &mut self.cursor, rows.len(), |number| {
            Some(match rows.get(number)? {
                Row::Event(place) => line::cells(tail.at(place)?, theme),
                Row::Missing(_, missed) => {
                    let missed = format::counted(missed, "event");
                    note(&format!("{missed} not shown"), theme)
                }
                Row::Restart(_) => note("the server was started anew", theme),
            })
        });
        if rows.len() == 0 {
            let kept = tail.events.len() as u64;
            let why = match (kept, &data.link) {
                (0, _any) if data.is_recorded() => "no events up to this instant".to_owned(),
                (0, Link::Connecting) => "nothing was heard of the server yet".to_owned(),
                (0, Link::Up | Link::Down { .. }) => {
                    "no events yet: what happens from now on is shown here".to_owned()
                }
                (kept, _) => format!("none of the {} match", format::counted(kept, "event")),
            };
            canvas.text(row_of(area, 2), why, Ink::Faint);
        }
    }

    fn draw_details(&self, canvas: &mut Canvas<'_>, area: Rect, data: &Data) {
        let theme = canvas.theme;
        canvas.text(area, theme.rule(area.width), Ink::Frame);
        let tail = Self::shown(self.held.as_ref(), data);
        let event = self.rows.get(self.cursor.row);
        let Some(event) = event.and_then(|row| tail.at(row.place())) else {
            return;
        };
        let lines = text::wrap(&line::in_full(event), usize::from(area.width));
        for (line, row) in lines.iter().zip(below(area, 1).rows()) {
            canvas.text(row, line, Ink::Text);
        }
    }
}

fn note(what: &str, theme: Theme) -> Vec<Cell> {
    let line = theme.pick("╌╌╌", "---");
    vec![Cell::inked(format!("{line} {what} {line}"), Ink::Warning)]
}
