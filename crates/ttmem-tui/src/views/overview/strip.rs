//! Devices as rows: one line, or two of which one is DRAM and the other L1.
//!
//! Fields appear as there is room for them; what is left over goes to the bars.

use super::figures::{Figures, Filled};
use crate::format;
use crate::theme::{Ink, Theme};
use crate::views::naming::{known, known_bytes};
use crate::widgets::{Canvas, Cell, Column, Pen, Table, row_of};
use ratatui::layout::Rect;
use ttmem_api::Device;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    Line,
    Dram,
    L1,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shows {
    /// Whether the device is the chosen one, and whether there is a warning.
    Mark,
    /// Its logical id and its board.
    Name,
    /// Names of it in the first line, its unique id in the second.
    Names,
    UniqueId,
    Memory,
    Bar,
    Percent,
    Used,
    LargestFree,
    Curve,
    /// What lies beside it: the trace region, kernels.
    Beside,
    Sensors,
    /// What the user should know, in words.
    Warnings,
}

#[derive(Debug, Clone, Copy)]
struct Field {
    column: Column,
    shows: Shows,
    of: Of,
    /// How wide a row must be to have it.
    needs: u16,
}

const fn words(shows: Shows, of: Of, title: &'static str, width: u16, needs: u16) -> Field {
    let column = Column::words(title, width, 0);
    let column = match shows {
        Shows::Bar => column.growing(),
        _other => column,
    };
    Field {
        column,
        shows,
        of,
        needs,
    }
}

const fn figures(shows: Shows, of: Of, title: &'static str, width: u16, needs: u16) -> Field {
    Field {
        column: Column::figures(title, width, 0),
        ..words(shows, of, title, width, needs)
    }
}

const ONE_LINE: &[Field] = &[
    words(Shows::Mark, Of::Line, "", 2, 0),
    words(Shows::Name, Of::Line, "DEVICE", 12, 0),
    words(Shows::UniqueId, Of::Line, "UNIQUE ID", 18, 130),
    words(Shows::Bar, Of::Dram, "DRAM", 5, 0),
    words(Shows::Percent, Of::Dram, "", 7, 0),
    figures(Shows::Used, Of::Dram, "USED", 10, 100),
    figures(Shows::LargestFree, Of::Dram, "LARGEST", 10, 150),
    words(Shows::Bar, Of::L1, "L1", 5, 0),
    words(Shows::Percent, Of::L1, "", 7, 0),
    figures(Shows::Used, Of::L1, "USED", 10, 112),
    figures(Shows::LargestFree, Of::L1, "LARGEST", 10, 150),
    figures(Shows::Beside, Of::L1, "KERNELS", 10, 120),
    figures(Shows::Curve, Of::Dram, "DRAM TREND", 10, 92),
    figures(Shows::Curve, Of::L1, "L1 TREND", 10, 74),
    words(Shows::Warnings, Of::Line, "", 18, 140),
];

const TWO_LINES: &[Field] = &[
    words(Shows::Mark, Of::Line, "", 2, 0),
    words(Shows::Names, Of::Line, "DEVICE", 20, 0),
    words(Shows::Memory, Of::Line, "", 4, 0),
    words(Shows::Bar, Of::Line, "", 8, 0),
    words(Shows::Percent, Of::Line, "", 7, 0),
    figures(Shows::Used, Of::Line, "USED", 10, 66),
    figures(Shows::LargestFree, Of::Line, "LARGEST", 10, 90),
    figures(Shows::Beside, Of::Line, "TRACE/KERN", 10, 104),
    figures(Shows::Curve, Of::Line, "TREND", 10, 76),
    words(Shows::Sensors, Of::Line, "SENSORS", 9, 124),
    words(Shows::Warnings, Of::Line, "WARNINGS", 24, 150),
];

/// The headings of rows of one or two lines; `seen` says which devices are on the screen.
pub(super) fn draw_heading(canvas: &mut Canvas<'_>, cell: Rect, lines: u16, seen: Option<&str>) {
    let (fields, columns) = fitted(lines, cell.width);
    let titles = fields.iter().map(|field| match (field.shows, seen) {
        (Shows::Name | Shows::Names, Some(seen)) => Cell::faint(seen),
        _other => Cell::faint(field.column.title),
    });
    let titles: Vec<Cell> = titles.collect();
    Table::of(&columns).draw_row(canvas, row_of(cell, 0), &titles, false);
}

pub(super) fn draw(canvas: &mut Canvas<'_>, cell: Rect, figures: &Figures<'_>, chosen: bool) {
    let theme = canvas.theme;
    let (fields, columns) = fitted(cell.height, cell.width);
    let layout = Table::of(&columns).layout(cell.width);
    for line in 0..cell.height {
        let mut pen = canvas.pen(cell, cell.y + line);
        for (field, (_, _, width)) in fields.iter().zip(&layout) {
            let of_dram = match field.of {
                Of::Dram => true,
                Of::L1 => false,
                Of::Line => line == 0,
            };
            draw_field(
                &mut pen,
                field,
                (*width, line),
                (of_dram, chosen),
                figures,
                theme,
            );
            pen.skip(1);
        }
    }
}

fn draw_field(
    pen: &mut Pen<'_>,
    field: &Field,
    (width, line): (u16, u16),
    (of_dram, chosen): (bool, bool),
    figures: &Figures<'_>,
    theme: Theme,
) {
    let memory = if of_dram { &figures.dram } else { &figures.l1 };
    let device = figures.device;
    match field.shows {
        Shows::Mark => {
            let sign = theme.pick("▌", ">");
            pen.put(if chosen { sign } else { " " }, Ink::Key);
            let warned = line == 0 && !figures.warnings.is_empty();
            pen.put(if warned { "!" } else { " " }, Ink::Warning);
        }
        Shows::Name | Shows::Names => {
            let name = match (field.shows, line) {
                (Shows::Names, 0) => names(device, theme),
                (Shows::Names, _) => known(device.unique_id, theme),
                _one_line => name(device, theme),
            };
            let ink = match (line, chosen) {
                (0, true) => Ink::Chosen,
                (0, false) => Ink::Strong,
                _second => Ink::Faint,
            };
            pen.field(&name, width, false, ink);
        }
        Shows::UniqueId => pen.field(&known(device.unique_id, theme), width, false, Ink::Faint),
        Shows::Memory => {
            pen.field(if of_dram { "DRAM" } else { "L1" }, width, false, Ink::Text);
        }
        Shows::Bar => pen.bar(&memory.bar(), width),
        Shows::Percent => {
            let (text, ink) = memory.percent(theme.unknown());
            pen.field(&text, width, true, ink);
        }
        Shows::Used => pen.field(&format::bytes(memory.used), width, true, Ink::Text),
        Shows::LargestFree => pen.field(
            &known_bytes(memory.largest_free, theme),
            width,
            true,
            Ink::Faint,
        ),
        Shows::Beside => {
            let bytes = if of_dram {
                device.trace.charged_bytes
            } else {
                device.kernel.registered_bytes
            };
            pen.field(&format::bytes(bytes), width, true, Ink::Faint);
        }
        Shows::Curve => draw_curve(pen, figures, of_dram, width),
        Shows::Sensors => {
            let unknown = theme.unknown();
            let text = match line {
                0 => format!("{unknown} {} {unknown} W", theme.pick("°C", "C")),
                _second => format!("{unknown} MHz"),
            };
            pen.field(&text, width, false, Ink::Faint);
        }
        Shows::Warnings => {
            let words = figures.warnings.iter().map(|(word, _)| *word);
            let words: Vec<&str> = words.collect();
            // Of two lines each has half of the words.
            let half = words.len().div_ceil(2);
            let words = match (field.column.title.is_empty(), line) {
                (true, _) => &words[..],
                (false, 0) => &words[..half],
                (false, _) => &words[half..],
            };
            pen.field(&words.join(", "), width, false, Ink::Warning);
        }
    }
}

pub(super) fn draw_curve(pen: &mut Pen<'_>, figures: &Figures<'_>, of_dram: bool, width: u16) {
    let (memory, ink): (&Filled, Ink) = if of_dram {
        (&figures.dram, Ink::Dram)
    } else {
        (&figures.l1, Ink::L1)
    };
    pen.curve(values(figures, of_dram), memory.whole, width, ink);
}

/// The last minutes of what the bar of a memory shows, oldest first.
pub(super) fn values<'d>(figures: &Figures<'d>, of_dram: bool) -> &'d [Option<u64>] {
    figures
        .recent
        .map_or(&[], |recent| match (of_dram, figures.l1.is_occupied) {
            (true, _) => &recent.dram_bytes,
            (false, true) => &recent.occupied_bytes,
            (false, false) => &recent.l1_bytes,
        })
}

/// The fields of a row that is so wide, and their columns.
fn fitted(lines: u16, room: u16) -> (Vec<&'static Field>, Vec<Column>) {
    let fields = if lines > 1 { TWO_LINES } else { ONE_LINE };
    let shown = fields.iter().filter(|field| field.needs <= room);
    shown.map(|field| (field, field.column)).unzip()
}

/// The logical id, with `R` if the chip is reached through another, and the board.
fn name(device: &Device, theme: Theme) -> String {
    let remote = if device.remote == Some(true) {
        "R"
    } else {
        " "
    };
    let board = known(device.board.as_deref(), theme);
    format!("{:>3}{remote} {board}", device.id)
}

fn names(device: &Device, theme: Theme) -> String {
    let remote = if device.remote == Some(true) { "R" } else { "" };
    let board = known(device.board.as_deref(), theme);
    let arch = known(device.arch.as_deref(), theme);
    format!("{}{remote} {board} {arch}", device.id)
}
