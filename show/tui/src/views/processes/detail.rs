//! One process: DRAM over time, what it has on each device, and its buffers by operation.

use super::held::{command, remarks, user};
use crate::data::Data;
use crate::fetch::Document;
use crate::input::{Key, Pointer};
use crate::theme::{Ink, Theme};
use crate::views::buffers::groups;
use crate::views::buffers::question::sums;
use crate::views::naming::{known, known_bytes};
use crate::views::{Chosen, Outcome, Tab};
use crate::widgets::{
    Area, Canvas, Cell, Column, Cursor, Prompt, Table, above, below, draw_area, left_of, panel,
    right_of, text,
};
use ratatui::layout::Rect;
use ttmem_report::format::{bytes, count, counted};
use ttmem_report::labels::{self, held};
use ttmem_report::machine_labels::has_sizes;
use ttmem_report::{BufferQuery, GroupBy, Process, ProcessDevice, ProcessState};

/// What can be done to see what is missing.
const ATTACH: &str = "not attached: `ttmem run -- PROGRAM` shows its buffers and programs";

const DEVICES: &[Column] = &[
    Column::figures("DEVICE", 6, 0),
    Column::size("DRAM"),
    Column::size("PEAK"),
    Column::size("L1 BUFFERS"),
    Column::figures("PEAK", 10, 2),
    Column::figures("L1_SMALL", 10, 3),
    Column::figures("TRACE", 10, 4),
    Column::figures("BUFFERS", 7, 1),
];

#[derive(Debug)]
pub(super) struct Detail {
    pid: Option<u32>,
    instance: Option<String>,
    find: Prompt,
    cursor: Cursor,
}

impl Detail {
    pub(super) fn of(process: &Process) -> Self {
        Self {
            pid: process.pid,
            instance: process.instance.clone(),
            find: Prompt::default(),
            cursor: Cursor::default(),
        }
    }

    fn process<'d>(&self, data: &'d Data) -> Option<&'d Process> {
        let mut processes = data.processes().iter();
        processes.find(|process| process.pid == self.pid && process.instance == self.instance)
    }

    fn asked(&self) -> Option<BufferQuery> {
        Some(BufferQuery {
            pid: Some(self.pid?),
            by: Some(GroupBy::Operation),
            find: Some(self.find.text().to_owned()).filter(|find| !find.is_empty()),
            ..BufferQuery::default()
        })
    }

    pub(super) fn documents(&self) -> Vec<Document> {
        self.asked().map(Document::Groups).into_iter().collect()
    }

    pub(super) fn handle(&mut self, key: Key, chosen: &mut Chosen) -> Outcome {
        if self.find.is_typing() {
            self.find.handle(key);
            return Outcome::Handled;
        }
        match key {
            Key::Char('/') => {
                self.find.begin();
                Outcome::Handled
            }
            Key::Escape if !self.find.text().is_empty() => {
                self.find.clear();
                Outcome::Handled
            }
            Key::Enter if self.pid.is_some() => {
                chosen.pid = self.pid;
                Outcome::Go(Tab::Buffers)
            }
            Key::Char('P') if self.pid.is_some() => {
                chosen.pid = self.pid;
                Outcome::Go(Tab::Programs)
            }
            other => Outcome::if_used(self.cursor.handle(other)),
        }
    }

    pub(super) const fn is_typing(&self) -> bool {
        self.find.is_typing()
    }

    pub(super) fn point(&mut self, pointer: Pointer) -> Outcome {
        Outcome::if_used(self.cursor.point(pointer))
    }

    pub(super) fn draw(&mut self, canvas: &mut Canvas<'_>, area: Rect, data: &Data) {
        let Some(process) = self.process(data) else {
            canvas.text(
                area,
                "this process is not listed any more; Esc goes back",
                Ink::Warning,
            );
            return;
        };
        let theme = canvas.theme;
        draw_title(canvas, area, process, theme);
        let body = below(area, 2);
        let graph = (body.height / 3).clamp(4, 14);
        draw_graph(canvas, above(body, graph), process, data);
        let rest = below(body, graph);
        let wide = rest.width >= 150;
        let rows = u16::try_from(process.devices.len()).unwrap_or(u16::MAX);
        let (devices, operations) = if wide {
            (left_of(rest, 90), right_of(rest, 90))
        } else {
            let rows = rows.saturating_add(3).min(rest.height / 2);
            (above(rest, rows), below(rest, rows))
        };
        let inner = panel(canvas, devices, "on each device", false);
        Table::of(DEVICES).draw_first(canvas, inner, &process.devices, |on| {
            cells(on, process, theme)
        });
        let title = "buffers by operation: Enter lists them, P shows programs, / finds";
        let title = match self.find.said(theme) {
            Some(find) => format!("buffers by operation: {find}"),
            None => title.to_owned(),
        };
        let inner = panel(canvas, operations, &title, false);
        if process.state == ProcessState::NotAttached {
            canvas.text(inner, ATTACH, Ink::Faint);
            return;
        }
        let asked = self.asked();
        match asked.and_then(|asked| sums(&asked, data)) {
            Some(found) => groups::draw_groups(canvas, inner, &mut self.cursor, found, data),
            None => {
                canvas.text(inner, "asking the server…", Ink::Faint);
            }
        }
    }
}

fn draw_title(canvas: &mut Canvas<'_>, area: Rect, process: &Process, theme: Theme) {
    let mut pen = canvas.pen(area, area.y);
    pen.piece(&format!("pid {}", known(process.pid, theme)), Ink::Strong);
    pen.piece(&known(user(process), theme), Ink::Text);
    let room = usize::from(pen.room()).saturating_sub(4);
    pen.piece(
        &text::clip(command(process).unwrap_or_default(), room),
        Ink::Text,
    );
    let mut pen = canvas.pen(area, area.y + 1);
    let host = process.host.as_ref();
    if let Some(rss) = host.and_then(|host| host.rss_bytes) {
        pen.piece(&format!("host RSS {}", bytes(rss)), Ink::Faint);
    }
    if let Some(parent) = host.and_then(|host| host.parent) {
        pen.piece(&format!("child of {parent}"), Ink::Faint);
    }
    if process.state != ProcessState::NotAttached {
        let buffers = counted(held(&process.devices, |on| on.buffers), "buffer");
        pen.piece(&buffers, Ink::Faint);
        pen.piece(&format!("source {}", process.source), Ink::Faint);
    }
    let remarks = remarks(process);
    if remarks.is_empty() {
        pen.piece("no problems seen", Ink::Faint);
    }
    for remark in remarks {
        pen.piece(&remark.text, remark.ink);
    }
}

fn draw_graph(canvas: &mut Canvas<'_>, area: Rect, process: &Process, data: &Data) {
    let held = held(&process.devices, |on| on.dram_bytes);
    let held = if has_sizes(process) {
        labels::on_devices(held, process.devices.len())
    } else {
        canvas.theme.unknown().to_owned()
    };
    let since = if data.is_recorded() {
        "since the last jump"
    } else {
        "since this view is open"
    };
    let title = format!("{} {held}, {since}", labels::DRAM);
    let inner = panel(canvas, area, &title, false);
    let values: Vec<Option<u64>> = data.trends.of(process).into_iter().map(Some).collect();
    let since = data.trends.since(process);
    let seconds = since.and_then(|since| data.age_seconds(since)).unwrap_or(0);
    let drawn = Area {
        values: &values,
        whole: None,
        ink: Ink::Dram,
        from: data.ago(seconds),
        to: data.now_word(),
    };
    draw_area(canvas, inner, &drawn);
}

fn cells(on: &ProcessDevice, process: &Process, theme: Theme) -> Vec<Cell> {
    let is_known = has_sizes(process);
    let is_attached = process.state != ProcessState::NotAttached;
    let buffers = is_attached.then(|| count(on.buffers));
    let size = |bytes: u64| Cell::new(known_bytes(is_known.then_some(bytes), theme));
    let peak = |of: fn(&ttmem_report::PeakBytes) -> u64| {
        Cell::faint(known_bytes(on.peak.as_ref().map(of), theme))
    };
    vec![
        Cell::new(on.id.to_string()),
        size(on.dram_bytes),
        peak(|peak| peak.dram),
        size(on.l1_bytes),
        peak(|peak| peak.l1),
        size(on.l1_small_bytes),
        size(on.trace_bytes),
        Cell::new(known(buffers, theme)),
    ]
}
