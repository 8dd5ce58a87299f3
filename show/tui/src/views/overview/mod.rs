//! How full, and of what: all devices over time, each device, and who holds what.
//!
//! `plan` divides the screen, `graph` and `cell` draw, `figures` says what the bars are made of. What
//! is wrong stands in the line above, which is `problems` of the views.

mod cell;
pub(crate) mod figures;
mod graph;
mod plan;
#[cfg(test)]
mod tests;

use self::figures::{Figures, Holders};
use self::plan::{Plan, Size, TRAY_LABEL};
use super::naming::part_name;
use super::notice::{draw_notice, draw_silence};
use super::processes::Processes;
use super::{Chosen, KeyHelp, Outcome, Tab, View};
use crate::data::Data;
use crate::glossary::Word;
use crate::input::{Gesture, Key, Pointer};
use crate::theme::Ink;
use crate::widgets::{Canvas, left_of, panel, row_of};
use ratatui::layout::Rect;
use std::time::Instant;
use ttmem_report::Timestamp;
use ttmem_report::format;
use ttmem_report::machine_labels::{self, FROM_COUNTERS, Whose};

const NO_DEVICE: &str = "No device is known yet.";
const ADVICE: &str = "Run your program with `ttmem run -- PROGRAM`, and every device that it opens \
                      appears here. `ttmem demo` shows what that looks like without a device.";

#[derive(Debug, Default)]
pub(crate) struct Overview {
    plan: Option<Plan>,
    drawn: Vec<(Rect, usize)>,
    /// Who holds each device, and the snapshot from which that is.
    holders: Option<((Instant, Timestamp), Vec<Holders>)>,
    processes: Processes,
}

impl Overview {
    /// Keeps the count of holders, which is made anew only when a snapshot came.
    fn count_holders(&mut self, data: &Data) {
        let Some(snapshot) = &data.snapshot else {
            self.holders = None;
            return;
        };
        let made_from = (snapshot.received, snapshot.document.time);
        let known = self.holders.as_ref();
        let known = known.is_some_and(|(from, holders)| {
            *from == made_from && holders.len() == snapshot.document.devices.len()
        });
        if !known {
            self.holders = Some((made_from, figures::holders(&snapshot.document)));
        }
    }

    fn figures<'d>(&self, place: usize, data: &'d Data) -> Option<Figures<'d>> {
        let device = data.devices().get(place)?;
        let holders = self.holders.as_ref();
        let holders = holders.and_then(|(_, holders)| holders.get(place).copied());
        Some(Figures::of(device, holders.unwrap_or_default()))
    }

    fn draw_devices(&mut self, canvas: &mut Canvas<'_>, plan: &Plan, data: &Data, chosen: usize) {
        let devices = data.devices();
        let title = format::counted(devices.len() as u64, "device");
        let mut title = match plan.size {
            Size::Tiny => format!("{title}: D is DRAM, L is L1"),
            _larger => title,
        };
        // Where there is no room for whose figures they are beside each.
        let whose = devices.iter().map(|device| Whose::of(device, false));
        match whose.filter_map(Whose::counters).count() {
            all if plan.size == Size::Tiny && all == devices.len() => {
                title = format!("{title}, {FROM_COUNTERS}");
            }
            some @ 1.. if plan.size == Size::Tiny => {
                title = format!("{title}, {some} {FROM_COUNTERS}");
            }
            _said_beside_each => {}
        }
        let machine = data.totals().and_then(|snapshot| snapshot.machine.as_ref());
        if let Some(elsewhere) = machine_labels::elsewhere(machine) {
            title = format!("{title}; {elsewhere}");
        }
        let inner = panel(canvas, plan.devices, &title, false);
        if plan.size != Size::Tiny {
            draw_legend(canvas, plan.devices);
        }
        for place in 0..devices.len() {
            let (Some(cell), Some(figures)) = (plan.cell(inner, place), self.figures(place, data))
            else {
                break;
            };
            if plan.trays && place % usize::from(plan.columns) == 0 {
                let tray = place / usize::from(plan.columns) + 1;
                let label = left_of(Rect::new(inner.x, cell.y, inner.width, 1), TRAY_LABEL);
                canvas.text(label, format!("tray {tray}"), Ink::Faint);
            }
            let is_chosen = place == chosen && devices.len() > 1;
            cell::draw(canvas, cell, (plan.size, &figures), (is_chosen, data));
            self.drawn.push((cell, place));
        }
        let hidden = devices.len() - self.drawn.len();
        if hidden > 0 {
            let line = row_of(inner, inner.height.saturating_sub(1));
            let words = format!("and {} more: 3 shows one", hidden);
            canvas.text_at_right(line, &words, Ink::Warning);
        }
    }

    fn draw_processes(&mut self, canvas: &mut Canvas<'_>, area: Rect, data: &Data) {
        if area.height < 4 || data.processes().is_empty() {
            return;
        }
        let title = self.processes.title(data, canvas.theme);
        let inner = panel(canvas, area, &title, false);
        self.processes.draw_top(canvas, inner, data);
    }
}

/// What the signs of the bars mean, in the lower border.
fn draw_legend(canvas: &mut Canvas<'_>, panel: Rect) {
    let theme = canvas.theme;
    let Some(row) = panel.bottom().checked_sub(1).filter(|row| *row > panel.y) else {
        return;
    };
    let inks = [
        Ink::Dram,
        Ink::Reserved,
        Ink::Storage,
        Ink::L1,
        Ink::L1Small,
        Ink::Free,
    ];
    let mut pen = canvas.pen(
        Rect::new(panel.x + 2, row, panel.width.saturating_sub(4), 1),
        row,
    );
    for ink in inks {
        let words = format!(" {} ", part_name(ink));
        if usize::from(pen.room()) < words.len() + 2 {
            break;
        }
        pen.put(" ", Ink::Frame);
        pen.put(&theme.fill(ink).to_string(), ink);
        pen.put(&words, Ink::Faint);
    }
    if pen.room() > 8 {
        pen.put(theme.pick(" ▏", " |"), Ink::Peak);
        pen.put(" peak ", Ink::Faint);
    }
}

impl View for Overview {
    fn keys(&self) -> &'static [KeyHelp] {
        &[
            ("arrows", "choose"),
            ("Enter", "device"),
            ("/", "find"),
            ("2", "processes"),
        ]
    }

    fn words(&self) -> &'static [Word] {
        &[
            Word::Occupied,
            Word::Reserved,
            Word::Cb,
            Word::Headroom,
            Word::LargestFit,
            Word::Fragmentation,
            Word::Charged,
            Word::Capacity,
            Word::Physical,
            Word::Peak,
            Word::Classes,
            Word::Overlap,
            Word::Checked,
            Word::Incomplete,
            Word::Stale,
        ]
    }

    fn handle(&mut self, key: Key, data: &Data, chosen: &mut Chosen) -> Outcome {
        if self.processes.find(key, data) {
            return Outcome::Handled;
        }
        let place = chosen.place(data);
        let last = data.devices().len().saturating_sub(1);
        let moved = |rows| self.plan.map_or(place, |plan| plan.moved(place, rows));
        let to = match key {
            Key::Up | Key::Char('k') => moved(-1),
            Key::Down | Key::Char('j') => moved(1),
            Key::PageUp | Key::Home | Key::Char('g') => 0,
            Key::PageDown | Key::End | Key::Char('G') => last,
            Key::Left | Key::Char('[') => place.saturating_sub(1),
            Key::Right | Key::Char(']') => (place + 1).min(last),
            Key::Enter if data.devices().is_empty() => return Outcome::Handled,
            Key::Enter => {
                // Also the one that was chosen by nobody: the next view should show the same.
                chosen.choose(place, data);
                return Outcome::Go(Tab::Device);
            }
            _other => return Outcome::Unused,
        };
        chosen.choose(to, data);
        Outcome::Handled
    }

    fn point(&mut self, pointer: Pointer, data: &Data, chosen: &mut Chosen) -> Outcome {
        let place = chosen.place(data);
        let to = match pointer.did {
            Gesture::Click => {
                let at = (pointer.column, pointer.row).into();
                let mut drawn = self.drawn.iter();
                drawn
                    .find(|(cell, _)| cell.contains(at))
                    .map(|(_, place)| *place)
            }
            Gesture::WheelUp => self.plan.map(|plan| plan.moved(place, -1)),
            Gesture::WheelDown => self.plan.map(|plan| plan.moved(place, 1)),
        };
        match to {
            Some(place) => {
                chosen.choose(place, data);
                Outcome::Handled
            }
            None => Outcome::Unused,
        }
    }

    fn draw(&mut self, canvas: &mut Canvas<'_>, area: Rect, data: &Data, chosen: &Chosen) {
        let area = area.intersection(canvas.area);
        self.drawn.clear();
        if area.is_empty() || draw_silence(canvas, area, data) {
            return;
        }
        if data.devices().is_empty() {
            draw_notice(canvas, area, NO_DEVICE, ADVICE);
            return;
        }
        self.count_holders(data);
        let plan = Plan::of(data.devices(), area, data.processes().len());
        self.plan = Some(plan);
        graph::draw(canvas, plan.graph, data);
        self.draw_devices(canvas, &plan, data, chosen.place(data));
        self.draw_processes(canvas, plan.processes, data);
    }

    fn hidden_rows(&self) -> u64 {
        let devices = self.plan.map_or(0, |plan| plan.hidden(self.drawn.len()));
        devices.saturating_add(self.processes.hidden_rows())
    }

    fn is_typing(&self) -> bool {
        self.processes.is_typing()
    }
}
