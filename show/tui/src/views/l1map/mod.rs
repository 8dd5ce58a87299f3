//! Where everything lies: L1 core by core, and the banks of DRAM, the trace region or L1.
//!
//! The grid and the banks are two documents of the server; only the one on screen is asked for.
//! What came for another device, core or class is never shown as if it were of this one.

mod banks;
mod column;
mod facts;
mod gap;
mod grid;
mod refused;
#[cfg(test)]
mod tests;

use super::device::{class_name, draw_title};
use super::naming::known;
use super::{Chosen, KeyHelp, Outcome, View};
use crate::data::Data;
use crate::fetch::Document;
use crate::glossary::Word;
use crate::input::{Gesture, Key, Pointer};
use crate::playback::Subject;
use crate::theme::Ink;
use crate::widgets::{Canvas, Cursor, Prompt, above, below, left_of, right_of, row_of};
use gap::Gap;
use grid::{GridPlace, Place};
use ratatui::layout::Rect;
use refused::Refused;
use ttmem_report::format;
use ttmem_report::labels;
use ttmem_report::{BlockMap, Device, DeviceKey, L1Map, MemoryClass};

/// From so many columns on, the bar of a core has words beside it.
const WIDE: u16 = 130;
const FACT_ROWS: u16 = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Page {
    #[default]
    Cores,
    Banks(MemoryClass),
}

#[derive(Debug, Default)]
pub(crate) struct L1MapView {
    page: Page,
    /// A core; the first if none was chosen or the device has none there.
    core: Option<Place>,
    /// Whether arrows move in the list rather than in the grid.
    in_list: bool,
    segment: Cursor,
    find: Prompt,
    /// The core at whose gap the list was opened.
    opened: Option<(DeviceKey, Place)>,
    block: Cursor,
    cells: Option<u32>,
    grid: GridPlace,
}

fn map_of<'d>(device: &Device, data: &'d Data) -> Option<&'d L1Map> {
    let (key, map) = &data.l1map.as_ref()?.document;
    (*key == device.key()).then_some(map)
}

fn blocks_of<'d>(device: &Device, class: MemoryClass, data: &'d Data) -> Option<&'d BlockMap> {
    let (key, map) = &data.blocks.as_ref()?.document;
    (*key == device.key() && map.class == class).then_some(map)
}

impl L1MapView {
    fn core(&self, map: &L1Map) -> Option<Place> {
        let chosen = self
            .core
            .filter(|core| facts::core_at(map, *core).is_some());
        chosen.or_else(|| map.cores.first().map(|core| (core.x, core.y)))
    }

    /// Moves to the next core in a direction; stays where there is none.
    fn step(&mut self, key: Key, map: &L1Map) {
        let Some((x, y)) = self.core(map) else { return };
        let cores = map.cores.iter().map(|core| (core.x, core.y));
        let moved = match key {
            Key::Left => cores.filter(|core| core.1 == y && core.0 < x).max(),
            Key::Right => cores.filter(|core| core.1 == y && core.0 > x).min(),
            Key::Up => cores.filter(|core| core.0 == x && core.1 < y).max(),
            _down => cores.filter(|core| core.0 == x && core.1 > y).min(),
        };
        self.core = moved.or(Some((x, y)));
    }

    /// Shows the banks of a class, or the cores if those are shown.
    fn turn(&mut self, class: MemoryClass) {
        self.page = if self.page == Page::Banks(class) {
            Page::Cores
        } else {
            Page::Banks(class)
        };
        self.block = Cursor::default();
    }

    fn move_by(&mut self, key: Key, data: &Data, chosen: &Chosen) -> bool {
        if self.page != Page::Cores {
            return self.block.handle(key);
        }
        let device = chosen.device(data);
        let Some(map) = device.and_then(|device| map_of(device, data)) else {
            return false;
        };
        match key {
            Key::Left | Key::Right => self.step(key, map),
            Key::Up | Key::Char('k') if !self.in_list => self.step(Key::Up, map),
            Key::Down | Key::Char('j') if !self.in_list => self.step(Key::Down, map),
            other => return self.segment.handle(other),
        }
        true
    }

    fn draw_summary(
        canvas: &mut Canvas<'_>,
        area: Rect,
        (map, refused): (&L1Map, Option<&Refused<'_>>),
        data: &Data,
    ) {
        let theme = canvas.theme;
        if let Some(refused) = refused {
            let (words, ink) = refused.sentence();
            canvas.text(area, words, ink);
            return;
        }
        let old = data.age_note(data.l1map.as_ref());
        let mut parts: Vec<(String, Ink)> = Vec::new();
        // First, because what follows gives way.
        let is_old = old.is_some();
        parts.extend(old.map(|old| (format!("{old} "), Ink::Faint)));
        match Gap::smallest(map) {
            Some((core, gap)) => {
                let ink = gap.ink(map.bytes_per_core);
                parts.push((labels::CB_HEADROOM.to_owned(), Ink::Faint));
                parts.push((gap.said(map.bytes_per_core, theme), ink));
                parts.push((format!("at core {},{}", core.x, core.y), Ink::Text));
                let warning = if gap.is_clash() {
                    Some("CBs and buffers lie over each other")
                } else {
                    gap.sign().map(|_| "the next program may clash")
                };
                parts.extend(warning.map(|warning| (warning.to_owned(), ink)));
            }
            None => {
                let none = "no program resident: CB headroom counts from the reserved region";
                parts.push((none.to_owned(), Ink::Faint));
            }
        }
        if map.buffers_left_out > 0 {
            let left_out = format::counted(map.buffers_left_out, "buffer");
            parts.push((format!(" {left_out} not listed"), Ink::Warning));
        }
        if !is_old {
            let time = &format::date_time(map.time)[11..];
            parts.push((format!(" as of {time} UTC"), Ink::Faint));
        }
        canvas.whole_parts(area, &parts, 1);
    }

    fn draw_cores(
        &mut self,
        canvas: &mut Canvas<'_>,
        area: Rect,
        (device, map): (&Device, &L1Map),
        data: &Data,
    ) {
        let Some(core) = self.core(map) else {
            let note = "the cores of this device are not known";
            canvas.text(area, note, Ink::Faint);
            return;
        };
        let refused = Refused::latest(device, map, data);
        Self::draw_summary(canvas, row_of(area, 0), (map, refused.as_ref()), data);
        let body = below(area, 1);
        let most = if body.width >= WIDE {
            body.width * 2 / 5
        } else {
            body.width * 3 / 5
        };
        let (width, rows) = grid::size(map, most);
        // Figures of the core come before rows of the grid that would scroll.
        let rows = rows.min(body.height.saturating_sub(FACT_ROWS + 1).max(3));
        let left = left_of(body, width);
        self.grid = grid::draw(canvas, above(left, rows), map, core);
        grid::draw_legend(canvas, row_of(left, rows));
        let airy = u16::from(body.height >= 30);
        let under = rows + 1 + airy;
        let facts = facts::draw_core(canvas, above(below(left, under), FACT_ROWS), map, core);
        let under = under + facts + airy;
        let rest = below(left, under);
        facts::draw_residents(canvas, rest, map, core, data);
        let right = right_of(body, width + 1);
        self.draw_column(canvas, right, (device, map, core), data);
    }

    fn draw_column(
        &mut self,
        canvas: &mut Canvas<'_>,
        area: Rect,
        (device, map, chosen): (&Device, &L1Map, Place),
        data: &Data,
    ) {
        let theme = canvas.theme;
        let area = area.intersection(canvas.area);
        if area.height < 2 {
            return;
        }
        let shown = map.core.as_ref();
        let here = shown.is_some_and(|shown| (shown.x, shown.y) == chosen);
        let mut title = format!("core {},{}", chosen.0, chosen.1);
        if let Some(shown) = shown.filter(|_| !here) {
            title = format!("core {},{}; {title} is on its way", shown.x, shown.y);
        } else if shown.is_none() {
            title.push_str(" is on its way");
        } else {
            let top = known(map.bytes_per_core.map(|top| format!("{top:#x}")), theme);
            title.push_str(&format!(" from {top} down to 0x0"));
        }
        if self.in_list {
            title.push_str("; arrows move here");
        }
        if let Some(find) = self.find.said(theme) {
            title.push_str(&format!("; {find}"));
        }
        let ink = if here { Ink::Strong } else { Ink::Faint };
        canvas.text(area, title, ink);
        let Some(shown) = shown else { return };
        if here {
            let opened = Some((device.key(), chosen));
            if self.opened != opened {
                self.opened = opened;
                self.segment.row = column::row_of_the_gap(shown);
                let half = u64::from(area.height / 2);
                self.segment.top = self.segment.row.saturating_sub(half);
            }
        }
        let labels = area.width >= 90;
        let bar_width = if labels { 38 } else { 5 };
        let body = below(area, 1);
        let list = right_of(body, bar_width);
        let found = column::found(shown, &self.find);
        column::draw_list(canvas, list, &found, &mut self.segment, data);
        let bar = left_of(body, bar_width);
        let marked = found.get(self.segment.place()).copied();
        column::draw_bar(canvas, bar, shown, marked, labels);
        if let Some(refused) = Refused::latest(device, map, data) {
            let bottom = map.reserved_bytes.unwrap_or(0);
            let span = (bottom, refused.clash.storage_end, refused.clash.limit);
            column::draw_refused(canvas, bar, (shown, labels), span);
        }
    }
}

fn draw_waiting(canvas: &mut Canvas<'_>, area: Rect, what: &str, device: &Device) {
    let note = format!("{what} of device {} is on its way", device.id);
    canvas.text(area, note, Ink::Faint);
}

impl View for L1MapView {
    fn keys(&self) -> &'static [KeyHelp] {
        match self.page {
            Page::Cores => &[
                ("arrows", "core"),
                ("[ ]", "device"),
                ("d t l", "DRAM TRACE L1"),
                ("/", "find"),
                ("Enter", "list"),
                ("PgUp PgDn", "scroll"),
            ],
            Page::Banks(_) => &[
                ("Esc", "cores"),
                ("[ ]", "device"),
                ("d t l", "DRAM TRACE L1"),
                ("/", "find"),
                ("j k", "blocks"),
            ],
        }
    }

    fn subject(&self, data: &Data, chosen: &Chosen) -> Subject {
        let class = match self.page {
            Page::Banks(class) => class,
            Page::Cores => MemoryClass::L1,
        };
        Subject {
            device: chosen.device(data).map(Device::key),
            class: Some(class),
        }
    }

    fn words(&self) -> &'static [Word] {
        &[
            Word::Occupied,
            Word::Reserved,
            Word::ConfigRing,
            Word::Cb,
            Word::Resident,
            Word::Headroom,
            Word::Classes,
            Word::LargestFit,
            Word::Fragmentation,
        ]
    }

    fn documents(&self, data: &Data, chosen: &Chosen) -> Vec<Document> {
        let Some(device) = chosen.device(data) else {
            return Vec::new();
        };
        let key = device.key();
        let map = match self.page {
            Page::Cores => {
                // A core is asked for only once it is known to be there: without, the server
                // would answer nothing at all.
                let core = map_of(device, data).and_then(|map| self.core(map));
                let narrow = |(x, y): Place| Some((u16::try_from(x).ok()?, u16::try_from(y).ok()?));
                Document::L1Map(key, core.and_then(narrow))
            }
            Page::Banks(class) => {
                return vec![Document::Blocks(key, class, self.cells.unwrap_or(256))];
            }
        };
        // What was refused lately is drawn over it.
        vec![map, Document::Failures]
    }

    fn handle(&mut self, key: Key, data: &Data, chosen: &mut Chosen) -> Outcome {
        match key {
            typed if self.find.is_typing() => self.find.handle(typed),
            Key::Char('/') => self.find.begin(),
            Key::Escape if !self.find.text().is_empty() => self.find.clear(),
            Key::Char('[') => chosen.step(false, data),
            Key::Char(']') => chosen.step(true, data),
            Key::Char('d') => self.turn(MemoryClass::Dram),
            Key::Char('t') => self.turn(MemoryClass::Trace),
            Key::Char('l') => self.turn(MemoryClass::L1),
            Key::Enter if self.page == Page::Cores => self.in_list = !self.in_list,
            Key::Escape if self.page != Page::Cores => self.page = Page::Cores,
            Key::Escape if self.in_list => self.in_list = false,
            other if self.move_by(other, data, chosen) => {}
            _other => return Outcome::Unused,
        }
        Outcome::Handled
    }

    fn point(&mut self, pointer: Pointer, data: &Data, chosen: &mut Chosen) -> Outcome {
        let Some(device) = chosen.device(data) else {
            return Outcome::Unused;
        };
        if self.page != Page::Cores {
            return Outcome::if_used(self.block.point(pointer));
        }
        let Some(map) = map_of(device, data) else {
            return Outcome::Unused;
        };
        let core = self.grid.core_at(pointer.column, pointer.row);
        let core = core.filter(|core| facts::core_at(map, *core).is_some());
        if let Some(core) = core.filter(|_| pointer.did == Gesture::Click) {
            self.core = Some(core);
            return Outcome::Handled;
        }
        Outcome::if_used(self.segment.point(pointer))
    }

    fn draw(&mut self, canvas: &mut Canvas<'_>, area: Rect, data: &Data, chosen: &Chosen) {
        let area = area.intersection(canvas.area);
        self.grid = GridPlace::default();
        if area.is_empty() {
            return;
        }
        let title = draw_title(canvas, area, data, chosen);
        let body = below(area, title);
        self.cells = Some(banks::cells_wanted(body));
        let Some(device) = chosen.device(data).filter(|_| body.height > 0) else {
            return;
        };
        match self.page {
            Page::Cores => match map_of(device, data) {
                Some(map) => self.draw_cores(canvas, body, (device, map), data),
                None => draw_waiting(canvas, body, "L1", device),
            },
            Page::Banks(class) => match blocks_of(device, class, data) {
                Some(map) => {
                    banks::draw(canvas, body, map, (&mut self.block, &self.find), data);
                }
                None => draw_waiting(canvas, body, class_name(class), device),
            },
        }
    }

    fn is_typing(&self) -> bool {
        self.find.is_typing()
    }
}
