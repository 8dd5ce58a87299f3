//! The cores of a device as a heat map: how much of each is in use.

use super::gap::Gap;
use crate::theme::Ink;
use crate::widgets::{Canvas, text};
use ratatui::layout::Rect;
use ttmem_report::Share;
use ttmem_report::{L1Core, L1Map};

pub(super) type Place = (u32, u32);

const NUMBERS: u16 = 4;
/// A cell with the sign before it: heat alone, or heat and a percentage.
const NARROW: u16 = 3;
const WIDE: u16 = 7;

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct GridPlace {
    area: Rect,
    cell: u16,
    first: Place,
}

impl GridPlace {
    /// The core at a place of the screen, whether or not there is one.
    pub(super) fn core_at(self, column: u16, row: u16) -> Option<Place> {
        if !self.area.contains((column, row).into()) || self.cell == 0 {
            return None;
        }
        let x = column.checked_sub(self.area.x + NUMBERS)? / self.cell;
        let y = row.checked_sub(self.area.y + 1)?;
        Some((
            self.first.0.saturating_add(u32::from(x)),
            self.first.1.saturating_add(u32::from(y)),
        ))
    }
}

pub(super) fn sides(map: &L1Map) -> (u32, u32) {
    let columns = map.cores.iter().map(|core| core.x).max();
    let rows = map.cores.iter().map(|core| core.y).max();
    let count = |last: Option<u32>| last.map_or(0, |last| last.saturating_add(1));
    (count(columns), count(rows))
}

/// Columns and rows of the screen that a grid takes, if it may have so many columns.
pub(super) fn size(map: &L1Map, columns: u16) -> (u16, u16) {
    let (across, down) = sides(map);
    let taken = |cell: u16| NUMBERS.saturating_add(narrowed(across).saturating_mul(cell)) + 1;
    let width = if taken(WIDE) <= columns {
        taken(WIDE)
    } else {
        taken(NARROW).min(columns)
    };
    (width, narrowed(down).saturating_add(1))
}

fn narrowed(count: u32) -> u16 {
    u16::try_from(count)
        .unwrap_or(u16::MAX / 8)
        .min(u16::MAX / 8)
}

/// Draws as many cores as fit, those around the chosen one if that is not all.
pub(super) fn draw(canvas: &mut Canvas<'_>, area: Rect, map: &L1Map, chosen: Place) -> GridPlace {
    let area = area.intersection(canvas.area);
    if area.width <= NUMBERS || area.height < 2 {
        return GridPlace::default();
    }
    let (across, down) = sides(map);
    let wide = u32::from(NUMBERS).saturating_add(across.saturating_mul(u32::from(WIDE)))
        < u32::from(area.width);
    let cell = if wide { WIDE } else { NARROW };
    let columns = u32::from((area.width - NUMBERS - 1) / cell).min(across);
    let rows = u32::from(area.height - 1).min(down);
    let first = (
        first_shown(chosen.0, columns, across),
        first_shown(chosen.1, rows, down),
    );
    let place = GridPlace { area, cell, first };
    let body = cell - 1;
    for column in 0..columns {
        let at = (area.x + NUMBERS + narrowed(column) * cell, area.y);
        let number = text::right(&(first.0 + column).to_string(), 2);
        canvas.put(at, &number, usize::from(body), Ink::Faint);
    }
    for row in 0..rows {
        let at = (area.x, area.y + 1 + narrowed(row));
        let number = text::right(&(first.1 + row).to_string(), 2);
        canvas.put(at, &number, 3, Ink::Faint);
    }
    for core in &map.cores {
        let (Some(x), Some(y)) = (core.x.checked_sub(first.0), core.y.checked_sub(first.1)) else {
            continue;
        };
        if x < columns && y < rows {
            let at = (
                area.x + NUMBERS + narrowed(x) * cell,
                area.y + 1 + narrowed(y),
            );
            draw_core(canvas, at, core, (wide, map.bytes_per_core));
        }
    }
    // Last, because its signs are between it and its neighbours.
    let mark = (
        chosen.0.wrapping_sub(first.0),
        chosen.1.wrapping_sub(first.1),
    );
    if mark.0 < columns && mark.1 < rows {
        let row = area.y + 1 + narrowed(mark.1);
        let column = area.x + NUMBERS + narrowed(mark.0) * cell;
        for (column, sign) in [(column - 1, "["), (column + body, "]")] {
            canvas.put((column, row), sign, 1, Ink::Strong);
        }
    }
    place
}

/// The first column or row on the screen, so that the chosen one is on it too.
fn first_shown(chosen: u32, shown: u32, count: u32) -> u32 {
    chosen
        .saturating_sub(shown / 2)
        .min(count.saturating_sub(shown))
}

fn draw_core(
    canvas: &mut Canvas<'_>,
    at: (u16, u16),
    core: &L1Core,
    (wide, bytes_per_core): (bool, Option<u64>),
) {
    let theme = canvas.theme;
    let share = core
        .occupied_bytes
        .and_then(|bytes| Share::of(bytes, bytes_per_core));
    let end = match share {
        Some(share) => {
            let (signs, style) = theme.heat(share.permille());
            canvas.put_styled(at, signs, 2, style)
        }
        None => {
            let unknown = text::left(theme.unknown(), 2);
            canvas.put(at, &unknown, 2, Ink::Faint)
        }
    };
    let mut end = (end, at.1);
    if wide {
        let percent = share.map_or_else(String::new, |share| format!("{}%", share.permille() / 10));
        let percent = text::right(&percent, 4);
        end.0 = canvas.put(end, &percent, 4, Ink::Text);
    }
    let gap = Gap::of(core);
    if let Some((gap, sign)) = gap.and_then(|gap| Some((gap, gap.sign()?))) {
        canvas.put(end, &sign.to_string(), 1, gap.ink(bytes_per_core));
    }
}

pub(super) fn draw_legend(canvas: &mut Canvas<'_>, area: Rect) {
    let theme = canvas.theme;
    let area = area.intersection(canvas.area);
    if area.is_empty() {
        return;
    }
    let faint = theme.style(Ink::Faint);
    let mut heat = vec![(" 0% ", faint)];
    heat.extend((0..8).map(|step| theme.heat(step * 125 + 1)));
    heat.push((" 100%", faint));
    let parts = [
        heat,
        vec![("  [ ] chosen", faint)],
        vec![
            ("  ! ", theme.style(Ink::Warning)),
            ("headroom <16 KiB", faint),
        ],
        vec![("  X ", theme.style(Ink::Danger)), ("clash", faint)],
    ];
    let mut column = area.x;
    for part in parts {
        let width: usize = part.iter().map(|(said, _)| text::width(said)).sum();
        // All of it or nothing.
        if width > usize::from(area.right().saturating_sub(column)) {
            break;
        }
        for (said, style) in part {
            column = canvas.put_styled((column, area.y), said, width, style);
        }
    }
}
