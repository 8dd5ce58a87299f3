//! Every device at a glance: what its memory is taken by, how full it is, what is wrong.
//!
//! One device has a card with all figures, some have smaller ones, many have a line each: as much
//! as fits. `figures` says what the bars are made of, `arrange` where devices stand, `card` and
//! `strip` draw them, `summary` what is around them.

mod arrange;
mod card;
mod figures;
mod strip;
mod summary;
#[cfg(test)]
mod tests;

use self::arrange::{Arrangement, Band, Density, Grouping};
use self::figures::{Figures, Holders};
use super::naming::known;
use super::notice::{draw_notice, draw_silence};
use super::processes::Processes;
use super::{Chosen, KeyHelp, Outcome, Tab, View, around};
use crate::data::Data;
use crate::glossary::Word;
use crate::input::{Gesture, Key, Pointer};
use crate::theme::Ink;
use crate::widgets::{Canvas, above, below, row_of};
use ratatui::layout::Rect;
use std::time::Instant;
use ttmem_api::Timestamp;

const NO_DEVICE: &str = "No device is known yet.";
const ADVICE: &str = "Run your program with `ttmem run -- PROGRAM`, and every device that it opens \
                      stands here. `ttmem demo` shows what that looks like without a device.";

#[derive(Debug, Default)]
pub(crate) struct Overview {
    grouping: Grouping,
    compact: bool,
    top: usize,
    room: (u16, u16),
    drawn: Vec<(Rect, usize)>,
    /// Who holds each device, and the snapshot from which that is.
    holders: Option<((Instant, Timestamp), Vec<Holders>)>,
    processes: Processes,
}

impl Overview {
    fn arrangement(&self, data: &Data) -> Arrangement {
        let groups = arrange::groups(data.devices(), self.grouping);
        Arrangement::of(&groups, self.compact, self.room)
    }

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
        Some(Figures::of(device, holders.unwrap_or_default(), data))
    }

    /// Scrolls so far that the chosen device is seen, and the heading right above it.
    fn scroll(&mut self, arrangement: &Arrangement, place: usize, rows: u16) {
        let rows = usize::from(rows).max(1);
        let band = arrangement.find(place).map_or(0, |(band, _)| band);
        let first = match &arrangement.bands[..band] {
            [.., Band::Heading(_)] if rows > 1 => band - 1,
            _other => band,
        };
        let lowest = (band + 1).saturating_sub(rows);
        let highest = first.min(arrangement.bands.len().saturating_sub(rows));
        self.top = self.top.min(highest).max(lowest);
    }

    fn draw_devices(
        &mut self,
        canvas: &mut Canvas<'_>,
        area: Rect,
        data: &Data,
        (arrangement, chosen): (&Arrangement, usize),
    ) {
        let density = arrangement.density;
        let mut row = area.y + u16::from(density.has_heading());
        let scrolls = arrangement.height() > u64::from(area.height);
        if scrolls {
            self.scroll(arrangement, chosen, area.bottom().saturating_sub(row));
        } else {
            self.top = 0;
        }
        for band in arrangement.bands.iter().skip(self.top) {
            let height = arrangement.height_of(band);
            if row.saturating_add(height) > area.bottom() {
                break;
            }
            let whole = above(below(area, row - area.y), height);
            match band {
                Band::Heading(group) => {
                    let places = group.places.iter();
                    let devices = places.filter_map(|place| data.devices().get(*place));
                    let title = group.title.as_deref().unwrap_or_default();
                    summary::draw_group(canvas, whole, title, devices);
                }
                Band::Devices(places) => {
                    for (column, place) in places.iter().enumerate() {
                        let cell = arrangement.cell(whole, column);
                        let is_chosen = *place == chosen && data.devices().len() > 1;
                        if let Some(figures) = self.figures(*place, data) {
                            match density {
                                Density::Large => {
                                    card::draw_large(canvas, cell, &figures, (is_chosen, data));
                                }
                                Density::Medium => {
                                    card::draw_medium(canvas, cell, &figures, is_chosen);
                                }
                                Density::TwoLines | Density::OneLine => {
                                    strip::draw(canvas, cell, &figures, is_chosen);
                                }
                            }
                        }
                        self.drawn.push((cell, *place));
                    }
                }
            }
            row += height;
        }
        self.draw_processes(canvas, area, row, data);
        if density.has_heading() {
            let seen = scrolls.then(|| self.seen(arrangement, data));
            let heading = row_of(area, 0);
            for column in 0..usize::from(arrangement.columns) {
                let cell = arrangement.cell(heading, column);
                let seen = seen.as_deref().filter(|_| column == 0);
                strip::draw_heading(canvas, cell, density.height(), seen);
            }
        }
    }

    /// Who holds most, where devices leave room for at least two of them.
    fn draw_processes(&mut self, canvas: &mut Canvas<'_>, area: Rect, row: u16, data: &Data) {
        let rest = below(area, row.saturating_add(1) - area.y);
        if !data.processes().is_empty() && rest.height >= 3 {
            self.processes.draw_top(canvas, rest, data);
        }
    }

    /// Which devices are on the screen, of how many: `3-19 of 32`.
    fn seen(&self, arrangement: &Arrangement, data: &Data) -> String {
        let above = arrangement.bands.iter().take(self.top);
        let above: usize = above.map(|band| band.places().len()).sum();
        let all = data.devices().len();
        format!("{}-{} of {all}", above + 1, above + self.drawn.len())
    }

    /// The chosen device in a line: the names and warnings that its row has no room for.
    fn draw_chosen(&self, canvas: &mut Canvas<'_>, area: Rect, place: usize, data: &Data) {
        let theme = canvas.theme;
        let Some(figures) = self.figures(place, data) else {
            return;
        };
        let mut pen = canvas.pen(area, area.y);
        pen.piece(&format!("device {}", figures.device.id), Ink::Strong);
        let marks = std::iter::once("! ").chain(std::iter::repeat(""));
        for ((_, warning), mark) in figures.warnings.iter().zip(marks) {
            pen.piece(&format!("{mark}{warning}"), Ink::Warning);
        }
        for name in card::names(figures.device, theme) {
            pen.piece(&name, Ink::Text);
        }
        pen.piece(&card::sensors(theme), Ink::Faint);
        pen.piece(&known(figures.device.unique_id, theme), Ink::Faint);
    }
}

impl View for Overview {
    fn keys(&self) -> &'static [KeyHelp] {
        &[
            ("arrows", "choose"),
            ("Enter", "device"),
            ("b", "group"),
            ("c", "compact"),
        ]
    }

    fn words(&self) -> &'static [Word] {
        &[
            Word::Occupied,
            Word::Reserved,
            Word::Cb,
            Word::Resident,
            Word::Registered,
            Word::Charged,
            Word::Kernels,
            Word::Capacity,
            Word::Physical,
            Word::Peak,
            Word::LargestFree,
            Word::Classes,
            Word::Overlap,
            Word::Verified,
            Word::Incomplete,
            Word::Stale,
        ]
    }

    fn handle(&mut self, key: Key, data: &Data, chosen: &mut Chosen) -> Outcome {
        let arrangement = self.arrangement(data);
        let page = i64::from((self.room.1 / arrangement.density.height()).max(2) - 1);
        let place = chosen.place(data);
        let moved = match key {
            Key::Up | Key::Char('k') => arrangement.moved(place, -1),
            Key::Down | Key::Char('j') => arrangement.moved(place, 1),
            Key::PageUp => arrangement.moved(place, -page),
            Key::PageDown => arrangement.moved(place, page),
            Key::Left | Key::Char('[') => arrangement.beside(place, false),
            Key::Right | Key::Char(']') => arrangement.beside(place, true),
            Key::Home | Key::Char('g') => arrangement.first(),
            Key::End | Key::Char('G') => arrangement.last(),
            Key::Char('b') => {
                self.grouping = around(&Grouping::ALL, self.grouping, true);
                None
            }
            Key::Char('c') => {
                self.compact = !self.compact;
                None
            }
            Key::Enter if data.devices().is_empty() => None,
            Key::Enter => {
                // Also the one that was chosen by nobody: the next view should show the same.
                chosen.choose(place, data);
                return Outcome::Go(Tab::Device);
            }
            _other => return Outcome::Unused,
        };
        if let Some(place) = moved {
            chosen.choose(place, data);
        }
        Outcome::Handled
    }

    fn point(&mut self, pointer: Pointer, data: &Data, chosen: &mut Chosen) -> Outcome {
        let moved = match pointer.did {
            Gesture::Click => {
                let at = (pointer.column, pointer.row).into();
                let mut drawn = self.drawn.iter();
                drawn
                    .find(|(cell, _)| cell.contains(at))
                    .map(|(_, place)| *place)
            }
            Gesture::WheelUp => self.arrangement(data).moved(chosen.place(data), -1),
            Gesture::WheelDown => self.arrangement(data).moved(chosen.place(data), 1),
        };
        match moved {
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
        if area.is_empty() {
            return;
        }
        if draw_silence(canvas, area, data) {
            return;
        }
        if data.devices().is_empty() {
            draw_notice(canvas, area, NO_DEVICE, ADVICE);
            return;
        }
        self.count_holders(data);
        // A line above, the chosen device and the legend below if there is room.
        let title = u16::from(area.height > 3);
        let legend = u16::from(area.height > 6);
        let line = u16::from(area.height > 8);
        let devices = above(below(area, title), area.height - title - line - legend);
        self.room = (devices.width, devices.height);
        let arrangement = self.arrangement(data);
        let place = chosen.place(data);
        if title > 0 {
            summary::draw_summary(canvas, area, data);
        }
        self.draw_devices(canvas, devices, data, (&arrangement, place));
        if line > 0 && arrangement.density.has_heading() {
            let row = row_of(area, title + devices.height);
            self.draw_chosen(canvas, row, place, data);
        }
        if legend > 0 {
            summary::draw_legend(canvas, area, area.bottom() - 1);
        }
    }
}
