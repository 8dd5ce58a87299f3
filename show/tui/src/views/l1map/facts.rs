//! Beside the grid: the chosen core in figures, and the programs that ran last.

use super::column::age;
use super::gap::Gap;
use super::grid::Place;
use crate::data::Data;
use crate::theme::Ink;
use crate::views::naming::{known, known_bytes, percent_of};
use crate::widgets::{Canvas, Cell, Column, Table, right_of, row_of, text};
use ratatui::layout::Rect;
use ttmem_report::format;
use ttmem_report::labels;
use ttmem_report::{L1Core, L1Map};

const WORDS: u16 = 12;

const RESIDENTS: &[Column] = &[
    Column::words("RAN LAST", 13, 0).growing(),
    Column::figures("CORES", 5, 0),
    Column::figures("AGO", 6, 1),
    Column::figures("PROGRAM", 8, 3),
    Column::figures("PID", 7, 2),
];

pub(super) fn core_at(map: &L1Map, (x, y): Place) -> Option<&L1Core> {
    map.cores.iter().find(|core| core.x == x && core.y == y)
}

/// Draws the figures of a core; how many rows they took.
pub(super) fn draw_core(canvas: &mut Canvas<'_>, area: Rect, map: &L1Map, chosen: Place) -> u16 {
    let theme = canvas.theme;
    let area = area.intersection(canvas.area);
    let Some(core) = core_at(map, chosen) else {
        return 0;
    };
    let place = |address: Option<u64>| known(address.map(|at| format!("{at} ({at:#x})")), theme);
    let share = percent_of(core.occupied_bytes, map.bytes_per_core, theme);
    let used = format!("{} {share}", known_bytes(core.occupied_bytes, theme));
    // The server also reports the gap of a core without storage, or without buffers.
    let reported = map
        .core
        .as_ref()
        .filter(|reported| (reported.x, reported.y) == chosen);
    let reported = reported
        .and_then(|reported| reported.gap_bytes)
        .map(Gap::of_bytes);
    let gap = Gap::of(core).or(reported);
    let (gap, ink) = match gap {
        Some(gap) => (
            gap.said(map.bytes_per_core, theme),
            gap.ink(map.bytes_per_core),
        ),
        None => (theme.unknown().to_owned(), Ink::Text),
    };
    let lines = [
        (format!("core {},{}", chosen.0, chosen.1), used, Ink::Text),
        ("CBs".to_owned(), format::bytes(core.cb_bytes), Ink::Text),
        ("CBs end".to_owned(), place(core.cb_end), Ink::Text),
        (
            "buffers at".to_owned(),
            place(core.lowest_buffer),
            Ink::Text,
        ),
        (labels::CB_HEADROOM.to_owned(), gap, ink),
    ];
    let mut rows = 0;
    for ((word, figure, ink), row) in lines.into_iter().zip(area.rows()) {
        let word_ink = if rows == 0 { Ink::Strong } else { Ink::Faint };
        canvas.text(row, word, word_ink);
        canvas.text(right_of(row, WORDS), figure, ink);
        rows += 1;
    }
    rows
}

pub(super) fn draw_residents(
    canvas: &mut Canvas<'_>,
    area: Rect,
    map: &L1Map,
    chosen: Place,
    data: &Data,
) {
    let theme = canvas.theme;
    let area = area.intersection(canvas.area);
    if area.height < 2 {
        return;
    }
    let table = Table::of(RESIDENTS);
    let own = core_at(map, chosen).and_then(|core| core.resident);
    let own = own.and_then(|own| map.residents.get(usize::try_from(own).ok()?));
    table.draw_first(canvas, area, &map.residents, |resident| {
        let own = own.is_some_and(|own| std::ptr::eq(own, resident));
        let ink = if own { Ink::Strong } else { Ink::Text };
        let name = known(resident.name.as_deref(), theme);
        // A sign as well, because not every terminal has bold letters.
        let name = format!("{} {name}", if own { '>' } else { ' ' });
        vec![
            Cell::inked(name, ink),
            Cell::inked(resident.cores.to_string(), ink),
            Cell::faint(age(resident.time, data)),
            Cell::inked(known(resident.program, theme), ink),
            Cell::inked(known(resident.pid, theme), ink),
        ]
    });
    let hidden = map
        .residents
        .len()
        .saturating_sub(usize::from(area.height) - 1);
    if hidden > 0 {
        let said = format!(
            "  and {}",
            format::counted(hidden as u64 + 1, "more program")
        );
        let said = text::left(&said, usize::from(area.width));
        canvas.text(row_of(area, area.height - 1), said, Ink::Faint);
    }
}
