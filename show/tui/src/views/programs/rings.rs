//! The config rings and prefetcher caches of a device.
//!
//! A ring is drawn by address: where entries lie and where nothing does. The server does not say
//! where a ring begins; every time it wraps its entries do, so it is drawn from the lowest address
//! seen, and the line above the picture says so.

use super::list;
use crate::data::Data;
use crate::theme::{Ink, Theme};
use crate::views::naming::{known, known_bytes, owner, percent_of};
use crate::widgets::{
    Bar, Canvas, Cell, Column, Cursor, Prompt, Table, above, below, left_of, right_of, row_of,
};
use ratatui::layout::Rect;
use std::collections::BTreeMap;
use ttmem_report::format;
use ttmem_report::{
    ConfigRingEntry, ConfigRingUsage, CoreType, Device, DeviceKey, PrefetchUsage, ProgramRow,
};

const RINGS: usize = 1_024;

const COLUMNS: &[Column] = &[
    Column::words("CONFIG RING OF", 16, 0).growing(),
    Column::words("CORES", 10, 0),
    Column::figures("MESH", 4, 8),
    Column::figures("SUB-DEVICE", 10, 9),
    Column::figures("USED", 9, 0),
    Column::figures("OF", 9, 5),
    Column::figures("", 6, 0),
    Column::figures("ENTRIES", 7, 4),
    Column::figures("WRAPS", 6, 0),
    Column::figures("EVICTED", 7, 1),
    Column::figures("STALLS", 6, 0),
    Column::figures("RESERVES", 8, 6),
];

const ENTRY_COLUMNS: &[Column] = &[
    Column::figures("ADDRESS", 10, 0),
    Column::figures("BYTES", 9, 0),
    Column::figures("PROGRAM", 8, 0),
    Column::words("NAME", 20, 0).growing(),
    Column::figures("FREE AFTER", 10, 1),
];

/// Columns of the figures of a cache, which its bar leaves free.
const FIGURES: u16 = 68;

/// Columns beyond which entries are no better to read.
const ENTRIES: u16 = 100;

type Key = (DeviceKey, Option<u32>, Option<u64>, CoreType, Option<u32>);

#[derive(Debug, Default)]
pub(super) struct Rings {
    pub(super) cursor: Cursor,
    pub(super) entries: Cursor,
    lowest: BTreeMap<Key, u64>,
}

/// A stretch of a ring; without an entry, a hole.
struct Stretch<'r> {
    address: u64,
    size_bytes: u64,
    entry: Option<&'r ConfigRingEntry>,
}

impl Stretch<'_> {
    fn is_found(&self, find: &Prompt, pid: Option<u32>, data: &Data, theme: Theme) -> bool {
        let number = self.entry.and_then(|entry| entry.program);
        let name = number.and_then(|number| name_of(number, pid, data, theme));
        let name = name.as_deref().or(self.entry.is_none().then_some("hole"));
        find.finds([name], [Some(self.address), number])
    }
}

impl Rings {
    pub(super) fn draw(
        &mut self,
        canvas: &mut Canvas<'_>,
        area: Rect,
        device: &Device,
        find: &Prompt,
        data: &Data,
    ) {
        let theme = canvas.theme;
        let rings = device.ring.len() as u64;
        let most = (area.height / 4).max(2);
        let high = u16::try_from(rings + 1).unwrap_or(most).clamp(2, most);
        let table = Table::of(COLUMNS);
        let cursor = &mut self.cursor;
        table.draw_all(canvas, above(area, high), cursor, &device.ring, |ring| {
            ring_cells(ring, data, theme)
        });
        let mut rest = below(area, high);
        match device.ring.get(self.cursor.place()) {
            Some(ring) => {
                let stretches = self.stretches(device, ring);
                rest = draw_picture(canvas, below(rest, 1), ring, &stretches);
                rest = draw_caches(canvas, rest, &device.prefetch, data);
                let (table, rest) = (Table::of(ENTRY_COLUMNS), left_of(rest, ENTRIES));
                let found: Vec<&Stretch<'_>> = stretches
                    .iter()
                    .filter(|stretch| stretch.is_found(find, ring.pid, data, theme))
                    .collect();
                table.draw_all(canvas, rest, &mut self.entries, &found, |stretch| {
                    entry_cells(stretch, ring.pid, data, theme)
                });
            }
            None => {
                canvas.text(
                    row_of(above(area, high), 1),
                    "no config ring is known on this device",
                    Ink::Faint,
                );
                draw_caches(canvas, below(rest, 1), &device.prefetch, data);
            }
        }
    }

    /// A ring by address, from the lowest seen to its end; nothing while no entry was seen.
    fn stretches<'r>(&mut self, device: &Device, ring: &'r ConfigRingUsage) -> Vec<Stretch<'r>> {
        let mut entries: Vec<&ConfigRingEntry> = ring.entries.iter().collect();
        entries.sort_by_key(|entry| entry.address);
        let key = (
            device.key(),
            ring.pid,
            ring.mesh,
            ring.core_type,
            ring.sub_device,
        );
        if let Some(first) = entries.first() {
            if self.lowest.len() >= RINGS && !self.lowest.contains_key(&key) {
                self.lowest.clear();
            }
            let lowest = self.lowest.entry(key.clone()).or_insert(first.address);
            *lowest = first.address.min(*lowest);
        }
        // An empty ring lies at some address all the same, which nothing reported yet.
        let Some(mut at) = self.lowest.get(&key).copied() else {
            return Vec::new();
        };
        let end = ring
            .capacity_bytes
            .map(|capacity| at.saturating_add(capacity));
        let mut stretches = Vec::with_capacity(2 * entries.len() + 1);
        let hole = |from: u64, to: u64| {
            (to > from).then_some(Stretch {
                address: from,
                size_bytes: to.saturating_sub(from),
                entry: None,
            })
        };
        for entry in entries {
            stretches.extend(hole(at, entry.address));
            stretches.push(Stretch {
                address: entry.address,
                size_bytes: entry.size_bytes,
                entry: Some(entry),
            });
            at = at.max(entry.address.saturating_add(entry.size_bytes));
        }
        stretches.extend(end.and_then(|end| hole(at, end)));
        stretches
    }
}

fn ring_cells(ring: &ConfigRingUsage, data: &Data, theme: Theme) -> Vec<Cell> {
    // One in a hundred is worth a look: the program waits for the device.
    let stalls = if ring.stalls.saturating_mul(100) > ring.reserves {
        Ink::Warning
    } else {
        Ink::Text
    };
    vec![
        Cell::new(owner(ring.pid, None, data, theme)),
        Cell::new(ring.core_type.as_str()),
        Cell::faint(known(ring.mesh, theme)),
        Cell::faint(known(ring.sub_device, theme)),
        Cell::new(format::bytes(ring.used_bytes)),
        Cell::faint(known_bytes(ring.capacity_bytes, theme)),
        Cell::new(percent_of(ring.used_bytes, ring.capacity_bytes, theme)),
        Cell::new(format::count(ring.entry_count)),
        Cell::new(format::count(ring.wraps)),
        Cell::new(format::count(ring.evictions)),
        Cell::inked(format::count(ring.stalls), stalls),
        Cell::faint(format::count(ring.reserves)),
    ]
}

fn draw_picture(
    canvas: &mut Canvas<'_>,
    area: Rect,
    ring: &ConfigRingUsage,
    stretches: &[Stretch<'_>],
) -> Rect {
    let theme = canvas.theme;
    let dot = theme.between();
    let holes = || stretches.iter().filter(|stretch| stretch.entry.is_none());
    let empty = holes().fold(0_u64, |sum, hole| sum.saturating_add(hole.size_bytes));
    let empty = format::bytes(empty);
    let count = format::counted(holes().count() as u64, "hole");
    let largest = known_bytes(holes().map(|hole| hole.size_bytes).max(), theme);
    let (Some(first), Some(last)) = (stretches.first(), stretches.last()) else {
        canvas.text(row_of(area, 0), "nothing lies in this ring", Ink::Faint);
        return below(area, 2);
    };
    let from = first.address;
    let to = last.address.saturating_add(last.size_bytes);
    let mut parts = vec![
        (format!("{from:#x}"), Ink::Strong),
        (" (lowest seen) ".to_owned(), Ink::Faint),
        (format!("to {to:#x}"), Ink::Strong),
        (
            format!("{dot}{empty} in {count}{dot}largest {largest}"),
            Ink::Text,
        ),
    ];
    let (shown, all) = (ring.entries.len() as u64, ring.entry_count);
    if all > shown {
        let words = format!("{dot}only the newest {shown} of {all} are shown");
        parts.push((words, Ink::Warning));
    }
    canvas.line(row_of(area, 0), &parts);
    draw_stretches(canvas, row_of(area, 1), stretches, (from, to));
    below(area, 3)
}

/// One row: a cell for every part of the ring, the number of the program at its beginning.
fn draw_stretches(
    canvas: &mut Canvas<'_>,
    row: Rect,
    stretches: &[Stretch<'_>],
    (from, to): (u64, u64),
) {
    let theme = canvas.theme;
    let row = row.intersection(canvas.area);
    let whole = u128::from(to.saturating_sub(from).max(1));
    let cell = |address: u64| -> u16 {
        let part = u128::from(address.saturating_sub(from)) * u128::from(row.width) / whole;
        u16::try_from(part).unwrap_or(row.width).min(row.width)
    };
    if row.height == 0 {
        return;
    }
    for stretch in stretches {
        let begin = cell(stretch.address);
        let end = cell(stretch.address.saturating_add(stretch.size_bytes));
        // An entry is seen however small it is.
        let (end, ink) = match stretch.entry {
            Some(_) => (end.max(begin + 1), Ink::Kernel),
            None => (end, Ink::Free),
        };
        for column in begin..end.min(row.width) {
            canvas.cell((row.x + column, row.y), theme.fill(ink), ink);
        }
        let number = stretch.entry.and_then(|entry| entry.program);
        let Some(number) = number.map(|number| number.to_string()) else {
            continue;
        };
        if number.len() < usize::from(end.saturating_sub(begin)) {
            canvas.put((row.x + begin, row.y), &number, number.len(), ink);
        }
    }
}

fn draw_caches(
    canvas: &mut Canvas<'_>,
    mut area: Rect,
    caches: &[PrefetchUsage],
    data: &Data,
) -> Rect {
    let theme = canvas.theme;
    let dot = theme.between();
    // Half of what is left is for the entries of the ring.
    let most = usize::from(area.height / 6).max(1);
    for cache in caches.iter().take(most) {
        let owner = owner(cache.pid, None, data, theme);
        let mesh = known(cache.mesh, theme);
        let share = percent_of(cache.used_bytes, cache.capacity_bytes, theme);
        let whole = known_bytes(cache.capacity_bytes, theme);
        let used = format::bytes(cache.used_bytes);
        let line = [
            ("prefetcher cache".to_owned(), Ink::Strong),
            (format!("{dot}{owner}{dot}mesh {mesh}"), Ink::Faint),
            (format!("{dot}{used} of {whole} {share}"), Ink::Text),
        ];
        canvas.line(row_of(area, 0), &line);
        let asked = cache.hits.saturating_add(cache.misses);
        let bar = Bar::new(&[(Ink::Kernel, cache.used_bytes)], cache.capacity_bytes);
        let at = row_of(area, 1);
        let bar_width = at.width.saturating_sub(FIGURES).max(12).min(at.width / 3);
        if at.height > 0 {
            bar.draw(canvas, (at.x, at.y), bar_width);
        }
        let figures = right_of(at, bar_width + 1);
        let words = format!(
            "{} hits, {} misses ({}){dot}{} entries{dot}{} evicted{dot}{}",
            format::count(cache.hits),
            format::count(cache.misses),
            percent_of(cache.hits, Some(asked), theme),
            format::count(cache.entries),
            format::count(cache.evictions),
            format::counted(cache.resets, "reset"),
        );
        canvas.text(figures, words, Ink::Text);
        area = below(area, 2);
    }
    let more = caches.len().saturating_sub(most);
    if more > 0 {
        let words = format!("and {more} more of other processes or meshes");
        canvas.text(row_of(area, 0), words, Ink::Faint);
        area = below(area, 1);
    }
    below(area, 1)
}

fn entry_cells(stretch: &Stretch<'_>, pid: Option<u32>, data: &Data, theme: Theme) -> Vec<Cell> {
    let size = format::bytes(stretch.size_bytes);
    let address = Cell::faint(format!("{:#x}", stretch.address));
    let Some(entry) = stretch.entry else {
        let blank = Cell::new("");
        return vec![
            address,
            Cell::faint(size),
            blank.clone(),
            Cell::faint("hole".to_owned()),
            blank,
        ];
    };
    let name = entry
        .program
        .and_then(|number| name_of(number, pid, data, theme));
    vec![
        address,
        Cell::new(size),
        Cell::new(known(entry.program, theme)),
        Cell::new(known(name, theme)),
        Cell::faint(known(entry.sync, theme)),
    ]
}

/// What a process calls one of its programs, if it still has it.
fn name_of(number: u64, pid: Option<u32>, data: &Data, theme: Theme) -> Option<String> {
    let programs = &data.programs.as_ref()?.document.rows;
    let is_it = |row: &&ProgramRow| row.program == Some(number) && row.pid == pid;
    programs
        .iter()
        .find(is_it)
        .map(|row| list::name(row, theme))
}
