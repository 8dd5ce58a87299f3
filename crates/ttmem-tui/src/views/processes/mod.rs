//! Who holds memory: every process with what it has on all devices, and what is wrong with it.
//!
//! Read-only. `held` puts figures together, `columns` makes cells and says how rows are sorted.

mod columns;
mod held;
#[cfg(test)]
mod tests;

use self::columns::{COLUMNS, DRAM, SORTS, device_cells, process_cells};
use self::held::{described, held, is_gone, remarks};
use super::naming::known;
use super::notice::{draw_notice, draw_silence};
use super::{Chosen, KeyHelp, Outcome, Tab, View};
use crate::data::Data;
use crate::format::{bytes, counted, counted_as, time_near};
use crate::glossary::Word;
use crate::input::{Key, Pointer};
use crate::theme::Ink;
use crate::widgets::{Canvas, List, Prompt, Table, above, below, row_of, text};
use ratatui::layout::Rect;
use ttmem_api::{Process, ProcessDevice};

const NO_PROCESS: &str = "No process has been seen yet.";
const ADVICE: &str = "Run your program with `ttmem run -- PROGRAM`, or connect to a server that \
                      programs report to.";

#[derive(Debug)]
pub(crate) struct Processes {
    filter: Prompt,
    list: List,
    per_device: bool,
    rows: Vec<Row>,
    /// The row that the user went to; it is followed when others overtake it.
    followed: Option<Identity>,
    refused: Option<&'static str>,
}

impl Default for Processes {
    fn default() -> Self {
        Self {
            filter: Prompt::default(),
            list: List::sorted_by(DRAM),
            per_device: false,
            rows: Vec::new(),
            followed: None,
            refused: None,
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Row {
    process: usize,
    /// One of its devices; none for the process itself.
    device: Option<usize>,
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
            filter.text().is_empty() || filter.matches(&described(process))
        });
        // Those that are gone come last whatever the order.
        for gone in [false, true] {
            let places = self.list.places().iter().copied();
            for process in places.filter(|place| is_gone(&processes[*place]) == gone) {
                let device = None;
                self.rows.push(Row { process, device });
                if self.per_device {
                    let devices = &processes[process].devices;
                    let mut by_id: Vec<usize> = (0..devices.len()).collect();
                    by_id.sort_by_key(|device| devices[*device].id);
                    let rows = by_id.into_iter().map(Some);
                    self.rows.extend(rows.map(|device| Row { process, device }));
                }
            }
        }
        let followed = &self.followed;
        let mut rows = self.rows.iter();
        let place = rows.position(|row| followed.is_some() && identity(*row, data) == *followed);
        let cursor = &mut self.list.cursor;
        cursor.rows = self.rows.len() as u64;
        cursor.row = place.map_or(cursor.row, |place| place as u64);
    }

    fn row(&self) -> Option<Row> {
        self.rows.get(self.list.cursor.place()).copied()
    }

    fn chosen<'d>(&self, data: &'d Data) -> Option<(&'d Process, Option<&'d ProcessDevice>)> {
        look_up(self.row()?, data)
    }

    fn follow(&mut self, data: &Data) {
        self.followed = self.row().and_then(|row| identity(row, data));
    }

    fn go(&mut self, data: &Data, chosen: &mut Chosen) -> Outcome {
        let Some((process, device)) = self.chosen(data) else {
            return Outcome::Handled;
        };
        if is_gone(process) {
            self.refused = Some("it is gone and holds nothing");
            return Outcome::Handled;
        }
        let Some(pid) = process.pid else {
            self.refused = Some("its pid is not known here");
            return Outcome::Handled;
        };
        chosen.pid = Some(pid);
        if let Some(device) = device {
            chosen.device = Some(device.key());
        }
        Outcome::Go(Tab::Buffers)
    }

    /// The processes that hold most, under a heading: what the overview has room for.
    pub(crate) fn draw_top(&mut self, canvas: &mut Canvas<'_>, area: Rect, data: &Data) {
        self.refresh(data);
        self.list.cursor.unmarked = true;
        self.draw_table(canvas, area, data);
    }

    fn draw_table(&mut self, canvas: &mut Canvas<'_>, area: Rect, data: &Data) {
        let theme = canvas.theme;
        let table = Table {
            columns: COLUMNS,
            sorted: self.list.sorted(SORTS),
        };
        let cursor = &mut self.list.cursor;
        table.draw_all(canvas, area, cursor, &self.rows, |row| {
            match look_up(*row, data) {
                Some((_process, Some(device))) => device_cells(device, theme),
                Some((process, None)) => process_cells(process, data, theme),
                None => Vec::new(),
            }
        });
    }

    fn draw_title(&self, canvas: &mut Canvas<'_>, area: Rect, data: &Data) {
        let theme = canvas.theme;
        let mut pen = canvas.pen(area, area.y);
        if self.filter.is_typing() {
            pen.put("filter: ", Ink::Key);
            pen.put(self.filter.text(), Ink::Strong);
            pen.put(theme.caret(), Ink::Key);
            let hint = "  Enter keeps it, Esc takes it back";
            if usize::from(pen.room()) >= hint.len() {
                pen.put(hint, Ink::Faint);
            }
            return;
        }
        let processes = data.processes();
        let gone = processes.iter().filter(|process| is_gone(process)).count();
        let living = (processes.len() - gone) as u64;
        pen.piece(&counted_as(living, "process", "processes"), Ink::Strong);
        if gone > 0 {
            pen.piece(&format!("{gone} exited"), Ink::Faint);
        }
        if let Some(refused) = self.refused {
            pen.piece(&format!("! {refused}"), Ink::Warning);
        }
        if !self.filter.text().is_empty() {
            let filter = text::clip(self.filter.text(), 30);
            let matched = self.list.places().len();
            pen.piece(&format!("filter {filter}: {matched}"), Ink::Key);
        }
        if let Some((column, down)) = self.list.sorted(SORTS) {
            let (title, way) = (COLUMNS[column].title, if down { "down" } else { "up" });
            pen.piece(&format!("sorted by {title}, {way}"), Ink::Faint);
        }
        let places = self.list.places().iter();
        let shown = places.filter_map(|place| processes.get(*place));
        let dram = shown.map(|process| held(&process.devices, |on| on.dram_bytes));
        let dram = dram.fold(0, u64::saturating_add);
        pen.piece(&format!("DRAM {}", bytes(dram)), Ink::Faint);
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
        let name = process.name.as_deref().unwrap_or(unknown);
        pen.piece(&text::clip(name, 60), Ink::Text);
        let on = device.map_or(&process.devices[..], std::slice::from_ref);
        if let Some(device) = device {
            pen.piece(&format!("device {}", device.id), Ink::Text);
        }
        pen.piece(&counted(held(on, |on| on.buffers), "buffer"), Ink::Text);
        let trace = held(on, |on| on.trace_bytes);
        if trace > 0 {
            pen.piece(&format!("trace {}", bytes(trace)), Ink::Text);
        }
        if let (Some(started), Some(now)) = (process.start_time, data.time()) {
            pen.piece(&format!("started {}", time_near(started, now)), Ink::Faint);
        }
        pen.piece(&format!("source {}", process.source), Ink::Faint);
        let connections = u64::from(process.connections);
        pen.piece(&counted(connections, "connection"), Ink::Faint);
        if let Some(claimed) = process.claimed_pid {
            pen.piece(&format!("calls itself {claimed}"), Ink::Faint);
        }
        let mut pen = canvas.pen(area, area.y.saturating_add(1));
        let remarks = remarks(process);
        if remarks.is_empty() {
            pen.piece("nothing to remark", Ink::Faint);
        }
        for remark in remarks {
            pen.piece(&text::clip(&remark.text, 60), remark.ink);
        }
        if let (Some(released), Some(now)) = (&process.released, data.time()) {
            let what = format!(
                "at {}: {}, {}, {}",
                time_near(released.time, now),
                counted(released.buffers, "buffer"),
                counted(released.cbs, "CB"),
                counted(released.kernels, "kernel"),
            );
            pen.piece(&what, Ink::Faint);
        }
    }
}

impl View for Processes {
    fn keys(&self) -> &'static [KeyHelp] {
        &[
            ("Enter", "buffers"),
            ("/", "filter"),
            ("s S", "sort"),
            ("d", "devices"),
        ]
    }

    fn words(&self) -> &'static [Word] {
        &[
            Word::Charged,
            Word::Registered,
            Word::Classes,
            Word::Cb,
            Word::Kernels,
            Word::Peak,
            Word::LeakCandidate,
            Word::Released,
            Word::Incomplete,
        ]
    }

    fn handle(&mut self, key: Key, data: &Data, chosen: &mut Chosen) -> Outcome {
        self.refused = None;
        if self.filter.is_typing() {
            self.filter.handle(key);
            self.refresh(data);
            return Outcome::Handled;
        }
        self.refresh(data);
        match key {
            Key::Char('/') => self.filter.begin(),
            Key::Escape if !self.filter.text().is_empty() => self.filter.clear(),
            Key::Char('d') => self.per_device = !self.per_device,
            Key::Enter => return self.go(data, chosen),
            moves if self.list.cursor.handle(moves) => self.follow(data),
            other => return Outcome::if_used(self.list.handle_order(other, SORTS)),
        }
        Outcome::Handled
    }

    fn point(&mut self, pointer: Pointer, data: &Data, _chosen: &mut Chosen) -> Outcome {
        self.refresh(data);
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
            let none = "no process matches the filter; Esc clears it";
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
        self.filter.is_typing()
    }
}
