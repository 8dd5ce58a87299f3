//! Who holds memory: every process with what it has on all devices, and what is wrong with it.
//!
//! Read-only. `columns` makes cells and says how rows are sorted, `held` puts states into words,
//! `grouped` puts them together by job or rank, `detail` is one process over time.

mod columns;
mod detail;
mod grouped;
mod held;
#[cfg(test)]
mod tests;

use self::columns::{COLUMNS, DRAM, SORTS, columns_for, device_cells, group_cells, process_cells};
use self::detail::Detail;
use self::grouped::{Group, Grouping, groups, has_label, labels_line};
use self::held::{command, described, remarks, user};
use super::naming::known;
use super::notice::{draw_notice, draw_silence};
use super::{Chosen, KeyHelp, Outcome, View};
use crate::data::Data;
use crate::fetch::Document;
use crate::glossary::Word;
use crate::input::{Gesture, Key, Pointer};
use crate::theme::{Ink, Theme};
use crate::widgets::{Canvas, List, Prompt, Table, above, below, row_of, text};
use ratatui::layout::Rect;
use std::collections::{BTreeMap, BTreeSet};
use ttmem_report::format::{bytes, counted, counted_as, time_near};
use ttmem_report::labels::{held, is_gone, on_devices};
use ttmem_report::{Process, ProcessDevice, ProcessState};

const NO_PROCESS: &str = "No process has been seen yet.";
const ADVICE: &str = "Run your program with `ttmem run -- PROGRAM`, or connect to a server that \
                      programs report to.";

#[derive(Debug)]
pub(crate) struct Processes {
    filter: Prompt,
    list: List,
    per_device: bool,
    grouping: Grouping,
    groups: Vec<Group>,
    /// Whether processes say anything that they can be grouped by.
    can_group: bool,
    rows: Vec<Row>,
    /// The row that the user went to; it is followed when others overtake it.
    followed: Option<Identity>,
    /// The process that was opened.
    opened: Option<Detail>,
}

impl Default for Processes {
    fn default() -> Self {
        Self {
            filter: Prompt::default(),
            list: List::sorted_by(DRAM),
            per_device: false,
            grouping: Grouping::default(),
            groups: Vec::new(),
            can_group: false,
            rows: Vec::new(),
            followed: None,
            opened: None,
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Row {
    process: usize,
    /// One of its devices; none for the process itself.
    device: Option<usize>,
    /// Of how many others in the list it is a child, or the child of one.
    depth: usize,
    /// The group that it is the heading of; its process is the first of that.
    heads: Option<usize>,
}

/// The pid and instance of a row's process, and the id of its device.
type Identity = (Option<u32>, Option<String>, Option<u32>);

fn identity(row: Row, data: &Data) -> Option<Identity> {
    let (process, device) = look_up(row, data)?;
    let instance = process.instance.clone();
    Some((process.pid, instance, device.map(|device| device.id)))
}

fn look_up(row: Row, data: &Data) -> Option<(&Process, Option<&ProcessDevice>)> {
    let process = data.totals()?.processes.get(row.process)?;
    let device = row.device.and_then(|device| process.devices.get(device));
    Some((process, device))
}

impl Processes {
    /// Brings the rows up to date, and the cursor to the row that the user went to.
    fn refresh(&mut self, data: &Data) {
        self.rows.clear();
        let Some(snapshot) = &data.snapshot else {
            self.list.clear();
            return;
        };
        let processes = &snapshot.document.processes;
        let filter = &self.filter;
        let rows = (snapshot.received, &processes[..]);
        self.list.arrange(rows, SORTS, (filter, None), |process| {
            filter.text().is_empty() || filter.finds([Some(described(process).as_str())], [])
        });
        self.can_group = has_label(processes, "job") || has_label(processes, "rank");
        self.groups.clear();
        let rows = match self.grouping {
            by @ (Grouping::Job | Grouping::Rank) if self.can_group => {
                // Parents may be in another group: each stands for itself, those that are gone last.
                let mut places = self.list.places().to_vec();
                places.sort_by_key(|place| is_gone(&processes[*place]));
                self.groups = groups(by, processes, &places);
                let members = self.groups.iter().flat_map(|group| &group.members);
                members.map(|place| (*place, 0)).collect()
            }
            _each => in_families(processes, self.list.places()),
        };
        for (process, depth) in rows {
            let row = |device| Row {
                process,
                device,
                depth,
                heads: None,
            };
            let heads = |group: &Group| group.members.first() == Some(&process);
            if let Some(group) = self.groups.iter().position(heads) {
                self.rows.push(Row {
                    heads: Some(group),
                    ..row(None)
                });
            }
            self.rows.push(row(None));
            if self.per_device {
                let devices = &processes[process].devices;
                let mut by_id: Vec<usize> = (0..devices.len()).collect();
                by_id.sort_by_key(|device| devices[*device].id);
                self.rows
                    .extend(by_id.into_iter().map(|device| row(Some(device))));
            }
        }
        let followed = &self.followed;
        let mut rows = self.rows.iter();
        let place = rows.position(|row| {
            followed.is_some() && row.heads.is_none() && identity(*row, data) == *followed
        });
        let cursor = &mut self.list.cursor;
        cursor.rows = self.rows.len() as u64;
        cursor.row = place.map_or(cursor.row, |place| place as u64);
    }

    fn row(&self) -> Option<Row> {
        self.rows.get(self.list.cursor.place()).copied()
    }

    fn chosen<'d>(&self, data: &'d Data) -> Option<(&'d Process, Option<&'d ProcessDevice>)> {
        look_up(self.row().filter(|row| row.heads.is_none())?, data)
    }

    fn follow(&mut self, data: &Data) {
        let row = self.row().filter(|row| row.heads.is_none());
        self.followed = row.and_then(|row| identity(row, data));
    }

    /// Opens the chosen process; with one of its devices chosen, that goes along.
    fn open(&mut self, data: &Data, chosen: &mut Chosen) {
        let Some((process, device)) = self.chosen(data) else {
            return;
        };
        if let Some(device) = device {
            chosen.device = Some(device.key());
        }
        self.opened = Some(Detail::of(process));
    }

    /// Takes a key of the order of rows; whether it was one. What is not shown is not sorted by.
    fn order(&mut self, key: Key, data: &Data) -> bool {
        let columns = columns_for(data.processes());
        let used = self.list.handle_order(key, SORTS);
        while { self.list.sorted(SORTS) }.is_some_and(|(column, _down)| columns[column].is_hidden())
            && self.list.handle_order(Key::Char('s'), SORTS)
        {}
        used
    }

    /// Takes a key of a search; whether it was one.
    pub(crate) fn find(&mut self, key: Key, data: &Data) -> bool {
        match key {
            typed if self.filter.is_typing() => self.filter.handle(typed),
            Key::Char('/') => self.filter.begin(),
            Key::Escape if !self.filter.text().is_empty() => self.filter.clear(),
            _other => return false,
        }
        self.refresh(data);
        true
    }

    /// How many there are, and what they hold together.
    pub(crate) fn title(&self, data: &Data, theme: Theme) -> String {
        let processes = data.processes();
        let gone = processes.iter().filter(|process| is_gone(process)).count();
        let living = counted_as((processes.len() - gone) as u64, "process", "processes");
        let title = match gone {
            0 => living,
            gone => format!("{living}, {gone} ended"),
        };
        match self.filter.said(theme) {
            Some(find) => format!("{title}{}{find}", theme.between()),
            None => title,
        }
    }

    /// The processes that hold most, under a heading: what the overview has room for.
    pub(crate) fn draw_top(&mut self, canvas: &mut Canvas<'_>, area: Rect, data: &Data) {
        self.refresh(data);
        self.list.cursor.unmarked = true;
        self.draw_table(canvas, area, data);
    }

    fn draw_table(&mut self, canvas: &mut Canvas<'_>, area: Rect, data: &Data) {
        let theme = canvas.theme;
        let columns = columns_for(data.processes());
        let table = Table {
            columns: &columns,
            sorted: self.list.sorted(SORTS),
        };
        let groups = &self.groups;
        let cursor = &mut self.list.cursor;
        table.draw_all(canvas, area, cursor, &self.rows, |row| {
            if let Some(group) = row.heads.and_then(|group| groups.get(group)) {
                return group_cells(group, data.processes());
            }
            match look_up(*row, data) {
                Some((process, Some(device))) => device_cells(process, device, theme),
                Some((process, None)) => process_cells(process, row.depth, data, theme),
                None => Vec::new(),
            }
        });
    }

    fn draw_title(&self, canvas: &mut Canvas<'_>, area: Rect, data: &Data) {
        let theme = canvas.theme;
        let mut pen = canvas.pen(area, area.y);
        let processes = data.processes();
        if self.filter.is_typing() {
            pen.put(&self.filter.said(theme).unwrap_or_default(), Ink::Key);
            let hint = "  Enter keeps it, Esc takes it back";
            if usize::from(pen.room()) >= hint.len() {
                pen.put(hint, Ink::Faint);
            }
            return;
        }
        pen.piece(&self.title(data, theme), Ink::Strong);
        if !self.filter.text().is_empty() {
            let matched = self.list.places().len() as u64;
            let matched = counted_as(matched, "match", "matches");
            pen.piece(&matched, Ink::Key);
        }
        if let Some((column, down)) = self.list.sorted(SORTS) {
            let (title, way) = (COLUMNS[column].title, if down { "down" } else { "up" });
            pen.piece(&format!("sorted by {title}, {way}"), Ink::Faint);
        }
        if let (Some(label), true) = (self.grouping.label(), self.can_group) {
            pen.piece(&format!("by {label}"), Ink::Faint);
        }
        let places = self.list.places().iter();
        let shown = places.filter_map(|place| processes.get(*place));
        let dram = shown.map(|process| held(&process.devices, |on| on.dram_bytes));
        let dram = dram.fold(0, u64::saturating_add);
        let dram = on_devices(dram, data.devices().len());
        pen.piece(&format!("DRAM {dram}"), Ink::Faint);
    }

    /// The chosen process in two lines: what the columns have no room for.
    fn draw_detail(&self, canvas: &mut Canvas<'_>, area: Rect, data: &Data) {
        let theme = canvas.theme;
        let Some((process, device)) = self.chosen(data) else {
            return;
        };
        let unknown = theme.unknown();
        let mut pen = canvas.pen(area, area.y);
        pen.piece(&format!("pid {}", known(process.pid, theme)), Ink::Strong);
        pen.piece(&known(user(process), theme), Ink::Text);
        let command = text::clip(command(process).unwrap_or(unknown), 90);
        pen.piece(&command, Ink::Text);
        let on = device.map_or(&process.devices[..], std::slice::from_ref);
        if let Some(device) = device {
            pen.piece(&format!("device {}", device.id), Ink::Text);
        }
        let is_attached = process.state != ProcessState::NotAttached;
        if is_attached {
            pen.piece(&counted(held(on, |on| on.buffers), "buffer"), Ink::Text);
        }
        let trace = held(on, |on| on.trace_bytes);
        if trace > 0 {
            pen.piece(&format!("trace {}", bytes(trace)), Ink::Text);
        }
        if let (Some(started), Some(now)) = (process.start_time, data.time()) {
            pen.piece(&format!("started {}", time_near(started, now)), Ink::Faint);
        }
        if is_attached {
            pen.piece(&format!("source {}", process.source), Ink::Faint);
            let connections = u64::from(process.connections);
            pen.piece(&counted(connections, "connection"), Ink::Faint);
        }
        if let Some(claimed) = process.claimed_pid {
            pen.piece(&format!("calls itself {claimed}"), Ink::Faint);
        }
        let mut pen = canvas.pen(area, area.y.saturating_add(1));
        let remarks = remarks(process);
        if remarks.is_empty() {
            pen.piece("no problems seen", Ink::Faint);
        }
        for remark in remarks {
            pen.piece(&text::clip(&remark.text, 100), remark.ink);
        }
        if let Some(labels) = labels_line(process) {
            pen.piece(&text::clip(&labels, 100), Ink::Faint);
        }
        if let (Some(released), Some(now)) = (&process.released, data.time()) {
            let ended = format!("at {}", time_near(released.time, now));
            pen.piece(&ended, Ink::Faint);
        }
    }
}

impl View for Processes {
    fn keys(&self) -> &'static [KeyHelp] {
        const LIST: &[KeyHelp] = &[
            ("Enter", "details"),
            ("/", "find"),
            ("s", "column"),
            ("S", "direction"),
            ("d", "devices"),
        ];
        const OPENED: &[KeyHelp] = &[
            ("Enter", "buffers"),
            ("P", "programs"),
            ("Esc", "list"),
            ("/", "find"),
        ];
        const GROUPS: &[KeyHelp] = &[
            ("Enter", "details"),
            ("/", "find"),
            ("b", "by job, rank"),
            ("s", "column"),
            ("S", "direction"),
            ("d", "devices"),
        ];
        match (&self.opened, self.can_group) {
            (Some(_opened), _) => OPENED,
            (None, true) => GROUPS,
            (None, false) => LIST,
        }
    }

    fn documents(&self, _data: &Data, _chosen: &Chosen) -> Vec<Document> {
        self.opened.iter().flat_map(Detail::documents).collect()
    }

    fn words(&self) -> &'static [Word] {
        &[
            Word::Charged,
            Word::Classes,
            Word::Peak,
            Word::LeakCandidate,
            Word::Released,
            Word::Incomplete,
        ]
    }

    fn handle(&mut self, key: Key, data: &Data, chosen: &mut Chosen) -> Outcome {
        if let Some(opened) = &mut self.opened {
            let outcome = opened.handle(key, chosen);
            if outcome == Outcome::Unused && key == Key::Escape {
                self.opened = None;
                return Outcome::Handled;
            }
            return outcome;
        }
        if self.find(key, data) {
            return Outcome::Handled;
        }
        self.refresh(data);
        match key {
            Key::Char('d') => self.per_device = !self.per_device,
            Key::Char('b') if self.can_group => self.grouping = self.grouping.next(),
            Key::Enter => self.open(data, chosen),
            moves if self.list.cursor.handle(moves) => self.follow(data),
            other => return Outcome::if_used(self.order(other, data)),
        }
        Outcome::Handled
    }

    fn point(&mut self, pointer: Pointer, data: &Data, _chosen: &mut Chosen) -> Outcome {
        if let Some(opened) = &mut self.opened {
            return opened.point(pointer);
        }
        self.refresh(data);
        if pointer.did == Gesture::Click
            && self
                .list
                .click_heading(pointer, &columns_for(data.processes()), SORTS)
        {
            return Outcome::Handled;
        }
        let used = self.list.cursor.point(pointer);
        if used {
            self.follow(data);
        }
        Outcome::if_used(used)
    }

    fn draw(&mut self, canvas: &mut Canvas<'_>, area: Rect, data: &Data, _chosen: &Chosen) {
        let area = area.intersection(canvas.area);
        if area.is_empty() || draw_silence(canvas, area, data) {
            return;
        }
        if data.processes().is_empty() {
            draw_notice(canvas, area, NO_PROCESS, ADVICE);
            return;
        }
        if let Some(opened) = &mut self.opened {
            opened.draw(canvas, area, data);
            return;
        }
        self.refresh(data);
        let title = u16::from(area.height > 2);
        // A blank line, and two for the chosen process.
        let detail = if area.height > 9 { 3 } else { 0 };
        let table_area = above(below(area, title), area.height - title - detail);
        self.draw_table(canvas, table_area, data);
        if title > 0 {
            self.draw_title(canvas, area, data);
        }
        if self.rows.is_empty() {
            let none = "no process matches; Esc shows all";
            canvas.text(row_of(table_area, 1), none, Ink::Faint);
        }
        if detail > 0 {
            self.draw_detail(canvas, below(area, area.height - detail + 1), data);
        }
    }

    fn hidden_rows(&self) -> u64 {
        self.list.cursor.hidden()
    }

    fn is_typing(&self) -> bool {
        match &self.opened {
            Some(opened) => opened.is_typing(),
            None => self.filter.is_typing(),
        }
    }
}

/// The processes at these places with children behind their parents, and how deep each stands.
///
/// The order stays that of the places; those that are gone come last whatever it is.
fn in_families(processes: &[Process], places: &[usize]) -> Vec<(usize, usize)> {
    let (gone, living): (Vec<usize>, Vec<usize>) = places
        .iter()
        .partition(|place| is_gone(&processes[**place]));
    let pids: BTreeSet<u32> = living
        .iter()
        .filter_map(|place| processes[*place].pid)
        .collect();
    let mut children: BTreeMap<Option<u32>, Vec<usize>> = BTreeMap::new();
    for place in &living {
        let host = processes[*place].host.as_ref();
        let parent = host.and_then(|host| host.parent);
        // One that is its own parent is nobody's child.
        let parent = parent.filter(|pid| pids.contains(pid) && processes[*place].pid != Some(*pid));
        children.entry(parent).or_default().push(*place);
    }
    let mut rows = Vec::with_capacity(places.len());
    let roots = children.remove(&None).unwrap_or_default();
    let mut open: Vec<(usize, usize)> = roots.into_iter().rev().map(|place| (place, 0)).collect();
    while let Some((place, depth)) = open.pop() {
        rows.push((place, depth));
        let own = children.remove(&processes[place].pid).unwrap_or_default();
        open.extend(own.into_iter().rev().map(|child| (child, depth + 1)));
    }
    // Parents in a circle, as a server might say: nobody is lost.
    rows.extend(children.into_values().flatten().map(|place| (place, 0)));
    rows.extend(gone.into_iter().map(|place| (place, 0)));
    rows
}
