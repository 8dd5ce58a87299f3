//! A class bank by bank: how full, what the largest blocks are, and whether a buffer still fits.

use super::column::{NARROW, age, origin};
use crate::data::Data;
use crate::theme::{Ink, Theme};
use crate::views::device::class_name;
use crate::views::naming::{class_ink, known, known_bytes, percent_of};
use crate::widgets::{
    Bar, Canvas, Cell, Column, Cursor, Prompt, Table, below, left_of, right_of, row_of, text,
};
use ratatui::layout::Rect;
use ttmem_report::labels;
use ttmem_report::{Block, BlockMap, Stretch};
use ttmem_report::{Share, format, percent};

const ADDRESSES: u16 = 13;
const MOST_CELLS: u32 = 4096;
/// Signs of a cell that is taken in part, from little to much.
const LEVELS: [char; 3] = ['░', '▒', '▓'];
const ASCII_LEVELS: [char; 3] = [':', 'o', 'O'];

const BLOCKS: &[Column] = &[
    Column::figures("ADDRESS", 11, 0),
    Column::figures("PER BANK", 10, 0),
    Column::words("OWNER", 14, 0).growing(),
    Column::figures("PID", 7, 1),
    Column::figures("AGE", 6, 2),
    Column::figures("ON ALL BANKS", 12, 3),
    Column::words("BUFFER", 14, 4),
];

const FREE: &[Column] = &[
    Column::figures("FREE AT", 11, 0),
    Column::figures("PER BANK", 10, 0),
    Column::figures("OF FREE", 7, 1),
];

/// The part of the view that the cells get: columns and rows.
pub(super) fn cells_of(area: Rect) -> (u16, u16) {
    let rows = match area.height {
        0..6 => area.height.saturating_sub(4),
        6..30 => (area.height * 2 / 5).saturating_sub(1),
        _tall => area.height / 2 - 2,
    };
    (area.width.saturating_sub(ADDRESSES), rows)
}

pub(super) fn cells_wanted(area: Rect) -> u32 {
    let (columns, rows) = cells_of(area);
    (u32::from(columns) * u32::from(rows)).clamp(1, MOST_CELLS)
}

pub(super) fn draw(
    canvas: &mut Canvas<'_>,
    area: Rect,
    map: &BlockMap,
    (cursor, find): (&mut Cursor, &Prompt),
    data: &Data,
) {
    let area = area.intersection(canvas.area);
    if area.height < 3 {
        return;
    }
    draw_verdict(canvas, area, map, data);
    let (columns, rows) = cells_of(area);
    let cells = Rect::new(area.x, area.y + 4, columns + ADDRESSES, rows);
    draw_cells(canvas, cells.intersection(area), map);
    let top = (cells.bottom() + 1).min(area.bottom());
    let lists = below(area, top - area.y);
    draw_lists(canvas, lists, map, (cursor, find), data);
    if let Some(find) = find.said(canvas.theme) {
        canvas.text(row_of(area, 3), find, Ink::Key);
    }
}

fn draw_verdict(canvas: &mut Canvas<'_>, area: Rect, map: &BlockMap, data: &Data) {
    let theme = canvas.theme;
    let old = data.age_note(data.blocks.as_ref());
    let old = old.map_or_else(String::new, |old| format!(", {old}"));
    let banks = known(map.banks, theme);
    let taken = map.per_bank_bytes.zip(map.free_bytes);
    let taken = taken.map(|(whole, free)| whole.saturating_sub(free));
    let first = format!(
        "{} bank: {} of {} taken, {}{old}; all {banks} banks are alike",
        class_name(map.class),
        known_bytes(taken, theme),
        known_bytes(map.per_bank_bytes, theme),
        percent_of(taken, map.per_bank_bytes, theme),
    );
    let largest = map.free.first().map(|hole| hole.size_bytes);
    let split = map.fragmented_permille();
    let scattered = match split.unwrap_or(0) {
        900.. => Ink::Danger,
        500.. => Ink::Warning,
        _whole => Ink::Good,
    };
    let (second, ink) = match (map.free_bytes, largest) {
        (None, _) => (
            "what is free is not known: no allocator has reported its capacity".to_owned(),
            Ink::Faint,
        ),
        (Some(_), None) => ("nothing is free: no buffer fits".to_owned(), Ink::Danger),
        (Some(free), Some(largest)) => {
            let stretches = format::counted_as(map.free_count, "stretch", "stretches");
            let banks = u64::from(map.banks.unwrap_or(1));
            let said = format!(
                "{} {} ({} x {banks} banks); {} free in {stretches}",
                labels::LARGEST_FIT,
                format::bytes(largest.saturating_mul(banks)),
                format::bytes(largest),
                format::bytes(free.saturating_mul(banks)),
            );
            (said, scattered)
        }
    };
    canvas.text(area, first, Ink::Text);
    canvas.text(row_of(area, 1), second, ink);
    if let Some(split) = split {
        let share = percent(Share::of(split.into(), Some(1000)), theme.unknown());
        let words = format!("{} {} ", share.trim_start(), labels::FRAGMENTED);
        let end = canvas.text(row_of(area, 2), words, Ink::Faint);
        let bar = Bar::new(&[(scattered, u64::from(split))], Some(1000));
        let columns = area.right().saturating_sub(end).min(30);
        bar.draw(canvas, (end, area.y + 2), columns);
    }
}

fn draw_cells(canvas: &mut Canvas<'_>, area: Rect, map: &BlockMap) {
    let theme = canvas.theme;
    let columns = area.width.saturating_sub(ADDRESSES);
    let shown = u64::from(columns) * u64::from(area.height);
    let (Some(whole), Some(base)) = (map.per_bank_bytes, map.base) else {
        return;
    };
    if shown == 0 || map.cells.is_empty() {
        return;
    }
    for row in 0..area.height {
        let first = u64::from(row) * u64::from(columns);
        let address = base.saturating_add(part(whole, first, shown));
        let label = text::right(&format!("{address:#x}"), usize::from(ADDRESSES - 2));
        let line = row_of(area, row);
        canvas.text(line, label, Ink::Faint);
        for column in 0..columns {
            let place = first + u64::from(column);
            let (taken, size) = between(map, whole, place, shown);
            let (sign, ink) = match sign(taken, size, theme) {
                Some(sign) => (sign, class_ink(map.class)),
                None => (theme.fill(Ink::Free), Ink::Free),
            };
            canvas.cell((area.x + ADDRESSES + column, line.y), sign, ink);
        }
    }
}

fn part(whole: u64, parts: u64, of: u64) -> u64 {
    let part = u128::from(whole) * u128::from(parts) / u128::from(of.max(1));
    u64::try_from(part).unwrap_or(u64::MAX)
}

/// Bytes taken in a cell of the screen, and its size: the server's cells may be more, or fewer.
fn between(map: &BlockMap, whole: u64, place: u64, shown: u64) -> (u64, u64) {
    let count = map.cells.len() as u64;
    let first = part(count, place, shown);
    let last = part(count, place + 1, shown).max(first + 1).min(count);
    let index = |cell: u64| usize::try_from(cell).unwrap_or(usize::MAX);
    let cells = map.cells.get(index(first)..index(last)).unwrap_or_default();
    let taken = cells
        .iter()
        .fold(0_u64, |sum, cell| sum.saturating_add(*cell));
    (taken, part(whole, last, count) - part(whole, first, count))
}

/// The sign of a cell; none of one in which nothing lies. Full only when it is.
fn sign(taken: u64, size: u64, theme: Theme) -> Option<char> {
    let share = Share::of(taken, Some(size.max(1)))?;
    let levels = theme.pick(LEVELS, ASCII_LEVELS);
    match share.permille() {
        _nothing if taken == 0 => None,
        1000 => Some(theme.pick('█', '#')),
        permille => Some(levels[usize::from(permille / 334)]),
    }
}

pub(super) fn is_found(block: &Block, find: &Prompt) -> bool {
    let numbers = [
        Some(block.address),
        block.pid.map(u64::from),
        Some(block.buffer.0),
    ];
    let names = [&block.operation, &block.line].map(Option::as_deref);
    find.finds(names, numbers)
}

fn draw_lists(
    canvas: &mut Canvas<'_>,
    area: Rect,
    map: &BlockMap,
    (cursor, find): (&mut Cursor, &Prompt),
    data: &Data,
) {
    let theme = canvas.theme;
    let right = if area.width >= 76 { 30 } else { 0 };
    // Wider, and figures would be far from what they are of.
    let width = (area.width - right - u16::from(right > 0) * 2).min(120);
    let left = left_of(area, width);
    let blocks = Table::of(BLOCKS);
    let found: Vec<&Block> = map
        .largest
        .iter()
        .filter(|block| is_found(block, find))
        .collect();
    blocks.draw_all(canvas, left, cursor, &found, |block| {
        let unknown = || Cell::faint(theme.unknown());
        let operation = block.operation.as_deref();
        let operation = origin(operation, block.line.as_deref(), left.width < NARROW);
        let operation = operation.map(Cell::new);
        let pid = block.pid.map(|pid| Cell::new(pid.to_string()));
        let all = map
            .banks
            .map(|banks| block.size_bytes.saturating_mul(u64::from(banks)));
        let all = all.map(|bytes| Cell::new(format::bytes(bytes)));
        vec![
            Cell::new(format!("{:#x}", block.address)),
            Cell::new(format::bytes(block.size_bytes)),
            operation.unwrap_or_else(unknown),
            pid.unwrap_or_else(unknown),
            Cell::faint(age(block.time, data)),
            all.unwrap_or_else(unknown),
            Cell::faint(block.buffer.to_string()),
        ]
    });
    if right > 0 {
        let place = left_of(right_of(area, left.width + 2), right);
        let found = |hole: &&Stretch| find.finds([Some("free")], [Some(hole.address)]);
        let holes: Vec<&Stretch> = map.free.iter().filter(found).collect();
        Table::of(FREE).draw_first(canvas, place, &holes, |hole| {
            let share = percent_of(hole.size_bytes, map.free_bytes, theme);
            vec![
                Cell::new(format!("{:#x}", hole.address)),
                Cell::new(format::bytes(hole.size_bytes)),
                Cell::faint(share),
            ]
        });
    }
}
