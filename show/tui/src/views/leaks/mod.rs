//! What was allocated since a mark and is still held, and what processes held when they ended.
//!
//! The server knows when a buffer was allocated, not whether it is still of use: this view says
//! what grew, never that it leaked.

mod growing;
mod growth;
mod held;
mod parts;
#[cfg(test)]
mod tests;

use super::buffers::Buffers;
use super::buffers::groups;
use super::buffers::question::{self, Question};
use super::{Chosen, KeyHelp, Outcome, View, around};
use crate::data::Data;
use crate::fetch::Document;
use crate::glossary::Word;
use crate::input::{Key, Pointer};
use crate::theme::Ink;
use crate::widgets::{Canvas, Cursor, Prompt, above, below, row_of};
use parts::{LEAST, hidden, part, shared};
use ratatui::layout::Rect;
use ttmem_report::format;
use ttmem_report::labels;
use ttmem_report::{BufferGroups, BufferQuery, GroupBy, Mark};

#[derive(Debug, Default)]
pub(crate) struct Leaks {
    /// The chosen mark; if none was or it is gone, the one that the user set here or the latest.
    mark: Option<Mark>,
    by: Option<GroupBy>,
    only_device: bool,
    find: Prompt,
    cursor: Cursor,
    opened: Option<Opened>,
    note: Option<&'static str>,
    /// Rows that had no room when it was last drawn.
    hidden: u64,
}

#[derive(Debug)]
struct Opened {
    list: Box<Buffers>,
    /// The mark that they are since: a newer one is followed only when the list is closed.
    mark: Mark,
    pid: Option<u32>,
}

impl Leaks {
    fn mark<'d>(&self, data: &'d Data) -> Option<(usize, &'d Mark)> {
        let marks = data.marks();
        let place = |wanted: &Mark| marks.iter().position(|mark| mark == wanted);
        let chosen = self.mark.as_ref().and_then(place);
        // The user's own mark before those that the workload sets all the time.
        let own = data.own_mark.as_ref().and_then(place);
        let place = chosen.or(own).or(marks.len().checked_sub(1))?;
        Some((place, marks.get(place)?))
    }

    fn by(&self, data: &Data) -> GroupBy {
        self.by.unwrap_or_else(|| groups::ways(data)[0])
    }

    /// What is asked: sums of what was allocated since the mark; nothing without one.
    fn asked(&self, data: &Data, chosen: &Chosen) -> Option<BufferQuery> {
        let (_place, mark) = self.mark(data)?;
        let question = Question {
            since: Some(mark.time),
            only_device: self.only_device,
            find: self.find.clone(),
            ..Question::default()
        };
        Some(question.groups(data, chosen, self.by(data)))
    }

    fn sums<'d>(&self, data: &'d Data, chosen: &Chosen) -> Option<&'d BufferGroups> {
        question::sums(&self.asked(data, chosen)?, data)
    }

    fn rows(&self, data: &Data, chosen: &Chosen) -> u64 {
        self.sums(data, chosen)
            .map_or(0, |groups| groups.groups.len() as u64)
    }

    fn step_mark(&mut self, forward: bool, data: &Data) {
        let marks = data.marks();
        if let Some((place, _mark)) = self.mark(data) {
            let last = marks.len() - 1;
            let place = if forward {
                (place + 1).min(last)
            } else {
                place.saturating_sub(1)
            };
            self.mark = marks.get(place).cloned();
        }
    }

    fn enter(&mut self, data: &Data, chosen: &mut Chosen) {
        let before = chosen.pid;
        let groups = self.sums(data, chosen);
        let group = groups.and_then(|groups| groups.groups.get(self.cursor.place()));
        if let Some((group, (_place, mark))) = group.zip(self.mark(data)) {
            let since = (mark.time, self.only_device);
            let list = Buffers::of_group(group, self.by(data), since, chosen);
            if list.is_none() {
                self.note = Some(groups::NO_FILTER);
            }
            self.opened = list.map(|list| Opened {
                list: Box::new(list),
                mark: mark.clone(),
                pid: before,
            });
        }
    }

    /// What all below is since: the mark of the opened group, or the one that is looked at.
    ///
    /// The filters as well, but of an opened group: its own line says those.
    fn draw_mark(&self, canvas: &mut Canvas<'_>, row: Rect, data: &Data, chosen: &Chosen) {
        let theme = canvas.theme;
        let dot = theme.between();
        let marks = data.marks();
        let (place, mark) = match &self.opened {
            Some(Opened { mark, .. }) => (marks.iter().position(|known| known == mark), mark),
            None => match self.mark(data) {
                Some((place, mark)) => (Some(place), mark),
                None => return,
            },
        };
        let now = data.time().unwrap_or(mark.time);
        let time = format::time_near(mark.time, now);
        let age = data.age(mark.time).unwrap_or_default();
        let which = match place {
            Some(place) => format!("since mark {} of {}: ", place + 1, marks.len()),
            None => "since a mark that is gone: ".to_owned(),
        };
        let name = labels::mark_name(mark, "without a name");
        let mut parts = vec![
            (which, Ink::Text),
            (name.to_owned(), Ink::Strong),
            (format!("{dot}{time} UTC, {age} ago"), Ink::Faint),
        ];
        let find = self.find.said(theme).filter(|_| self.opened.is_none());
        parts.extend(find.map(|find| (format!("{dot}{find}"), Ink::Key)));
        let pid = chosen.pid.filter(|_| self.opened.is_none());
        parts.extend(pid.map(|pid| (format!("{dot}pid {pid}"), Ink::Key)));
        let only_device = self.only_device && self.opened.is_none();
        if let Some(device) = chosen.device(data).filter(|_| only_device) {
            parts.push((format!("{dot}device {}", device.id), Ink::Key));
        }
        // A name may be as long as it likes; what follows it must be seen.
        let rest = parts[2..].iter().map(|(part, _)| part.chars().count());
        let rest: usize = rest.sum();
        let room = usize::from(row.width).saturating_sub(rest + parts[0].0.len());
        parts[1].0 = crate::widgets::text::clip(&parts[1].0, room.max(8));
        canvas.line(row, &parts);
    }

    fn draw_sum(&self, canvas: &mut Canvas<'_>, row: Rect, data: &Data, chosen: &Chosen) {
        let dot = canvas.theme.between();
        let Some(groups) = self.sums(data, chosen) else {
            canvas.text(row, "asking the server…", Ink::Faint);
            return;
        };
        let age = data.age_note(data.groups.as_ref());
        let age = age.map_or_else(String::new, |age| format!("{dot}{age}"));
        let buffers = format::counted(groups.buffers, "buffer");
        let size = format::bytes(groups.charged_bytes);
        let count = groups::count_of(groups);
        let parts = [
            (format!("{buffers} with {size}"), Ink::Strong),
            (" allocated since and still held".to_owned(), Ink::Text),
            (format!("{age}{dot}{count}"), Ink::Faint),
        ];
        canvas.line(row, &parts);
    }
}

/// From so many rows on, caveat and doubt have a line each.
const AIRY: u16 = 24;

const CAVEAT: &str = "Held is not leaked: weights, caches and running work are held on purpose.";

fn doubt(data: &Data) -> Option<String> {
    let processes = data.processes().iter();
    let count = processes.filter(|process| process.incomplete).count();
    (count > 0).then(|| {
        let who = format::counted_as(count as u64, "process", "processes");
        format!("Reports of {who} were lost or refused: some of this may have been freed.")
    })
}

/// Draws what there is to say without a mark; what is left below.
fn draw_no_mark(canvas: &mut Canvas<'_>, area: Rect, data: &Data) -> Rect {
    if data.totals().is_none() {
        canvas.text(row_of(area, 0), "asking the server…", Ink::Faint);
        return below(area, 2);
    }
    let (what, words) = if data.is_recorded() {
        (
            "No mark was set before this instant.",
            "Programs set marks by ttmem.mark(); p goes to the peak, 6 shows what is there.",
        )
    } else {
        (
            "No mark is set.",
            "m sets one: what is allocated from then on and not freed is shown here.",
        )
    };
    canvas.text(row_of(area, 0), what, Ink::Strong);
    canvas.text(row_of(area, 1), words, Ink::Text);
    below(area, 3)
}

impl View for Leaks {
    fn keys(&self) -> &'static [KeyHelp] {
        const KEYS: &[KeyHelp] = &[
            ("m", "set mark"),
            ("[ ]", "mark"),
            ("/", "find"),
            ("b", "group by"),
            ("Enter", "buffers"),
            ("d", "device only"),
            ("arrows", "device"),
        ];
        match &self.opened {
            Some(opened) => opened.list.keys(),
            None => KEYS,
        }
    }

    fn words(&self) -> &'static [Word] {
        &[
            Word::Mark,
            Word::LeakCandidate,
            Word::Released,
            Word::Charged,
            Word::Requested,
            Word::Peak,
            Word::Incomplete,
        ]
    }

    fn documents(&self, data: &Data, chosen: &Chosen) -> Vec<Document> {
        if let Some(opened) = &self.opened {
            return opened.list.documents(data, chosen);
        }
        let mark = self.mark(data);
        let history = mark.and_then(|(_place, mark)| growth::reach(mark.time, data));
        let groups = self.asked(data, chosen).map(Document::Groups);
        history
            .map(Document::History)
            .into_iter()
            .chain(groups)
            .chain([Document::Leaks])
            .collect()
    }

    fn handle(&mut self, key: Key, data: &Data, chosen: &mut Chosen) -> Outcome {
        if let Some(opened) = &mut self.opened {
            if key == Key::Escape && !opened.list.is_typing() {
                chosen.pid = opened.pid;
                self.opened = None;
                return Outcome::Handled;
            }
            return opened.list.handle(key, data, chosen);
        }
        if self.find.is_typing() {
            self.find.handle(key);
            self.cursor = Cursor::default();
            return Outcome::Handled;
        }
        self.note = None;
        self.cursor.rows = self.rows(data, chosen);
        if self.cursor.handle(key) {
            return Outcome::Handled;
        }
        match key {
            Key::Char('/') => self.find.begin(),
            Key::Char('[') => self.step_mark(false, data),
            Key::Char(']') => self.step_mark(true, data),
            Key::Char('b') => self.by = Some(around(&groups::ways(data), self.by(data), true)),
            Key::Char('d') => self.only_device = !self.only_device,
            Key::Left => chosen.step(false, data),
            Key::Right => chosen.step(true, data),
            Key::Enter => {
                self.enter(data, chosen);
                return Outcome::Handled;
            }
            Key::Escape
                if self.only_device || chosen.pid.is_some() || !self.find.text().is_empty() =>
            {
                self.only_device = false;
                self.find.clear();
                chosen.pid = None;
            }
            _other => return Outcome::Unused,
        }
        self.cursor = Cursor::default();
        Outcome::Handled
    }

    fn point(&mut self, pointer: Pointer, data: &Data, chosen: &mut Chosen) -> Outcome {
        if let Some(opened) = &mut self.opened {
            return opened.list.point(pointer, data, chosen);
        }
        Outcome::if_used(self.cursor.point(pointer))
    }

    fn draw(&mut self, canvas: &mut Canvas<'_>, area: Rect, data: &Data, chosen: &Chosen) {
        let mut area = area.intersection(canvas.area);
        let mark = self.mark(data).map(|(place, mark)| (place, mark.time));
        self.draw_mark(canvas, row_of(area, 0), data, chosen);
        if let Some(opened) = &mut self.opened {
            let list = below(area, 1);
            opened.list.draw(canvas, list, data, chosen);
            return;
        }
        let held = held::processes(data, &self.find);
        let growing = growing::lines(data, &self.find, canvas.theme);
        let Some(mark) = mark else {
            area = draw_no_mark(canvas, area, data);
            let needed = [part(growing.len(), 0), part(held.len(), 1)];
            self.hidden = hidden(&needed, area.height);
            let [growing_high, _held_high] = shared(needed, [LEAST[0], LEAST[3]], area.height);
            growing::draw(canvas, above(area, growing_high), &growing);
            if !held.is_empty() {
                held::draw(canvas, below(area, growing_high), &held, data);
            }
            return;
        };
        self.draw_sum(canvas, row_of(area, 1), data, chosen);
        // A doubt matters more than the caveat, where there is no room for both.
        let doubt = self.note.map(str::to_owned).or_else(|| doubt(data));
        let airy = area.height >= AIRY;
        let caveat = if doubt.is_some() && !airy { "" } else { CAVEAT };
        canvas.text(row_of(area, 2), caveat, Ink::Faint);
        if let Some(doubt) = doubt {
            canvas.text(row_of(area, 2 + u16::from(airy)), doubt, Ink::Warning);
        }
        area = below(area, 3 + u16::from(airy));
        let rows = u16::try_from(self.rows(data, chosen)).unwrap_or(u16::MAX);
        let needed = [
            part(growing.len(), 0),
            rows.saturating_add(1).max(4),
            part(data.devices().len(), growth::OTHER_ROWS),
            part(held.len(), 1),
        ];
        self.hidden = hidden(&needed, area.height);
        let [growing_high, groups_high, devices, held_high] = shared(needed, LEAST, area.height);
        growing::draw(canvas, above(area, growing_high), &growing);
        area = below(area, growing_high);
        let groups_area = above(area, groups_high);
        if let Some(groups) = self.sums(data, chosen) {
            groups::draw_groups(canvas, groups_area, &mut self.cursor, groups, data);
            if groups.groups.is_empty() {
                canvas.text(
                    row_of(groups_area, 1),
                    "nothing that was allocated since is still held",
                    Ink::Good,
                );
            }
        }
        area = below(area, groups_area.height);
        if devices > 0 {
            growth::draw(canvas, below(above(area, devices), 1), mark, data);
            area = below(area, devices);
        }
        if held_high > 0 {
            held::draw(canvas, below(above(area, held_high), 1), &held, data);
        }
    }

    fn hidden_rows(&self) -> u64 {
        self.hidden
    }

    fn is_typing(&self) -> bool {
        match &self.opened {
            Some(opened) => opened.list.is_typing(),
            None => self.find.is_typing(),
        }
    }
}
