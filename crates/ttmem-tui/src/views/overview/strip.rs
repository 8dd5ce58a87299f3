//! Devices as rows: one line, or two of which one is DRAM and the other L1.
//!
//! Fields appear as there is room for them; what is left over goes to the bars.

use super::figures::{Figures, Filled};
use crate::format;
use crate::theme::{Ink, Theme};
use crate::views::naming::{known, known_bytes};
use crate::widgets::{Canvas, Pen};
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
    /// What it is taken by.
    Bar,
    Percent,
    Used,
    LargestFree,
    Curve,
    /// What lies beside it: the trace region, kernels.
    Beside,
    /// Temperature, power, clock.
    Sensors,
    /// What the user should know, in words.
    Warnings,
}

#[derive(Debug, Clone, Copy)]
struct Field {
    shows: Shows,
    of: Of,
    title: &'static str,
    /// Its columns; of a bar, the fewest.
    width: u16,
    /// How wide a row must be to have it.
    needs: u16,
}

const fn field(shows: Shows, of: Of, title: &'static str, width: u16, needs: u16) -> Field {
    Field {
        shows,
        of,
        title,
        width,
        needs,
    }
}

const ONE_LINE: &[Field] = &[
    field(Shows::Mark, Of::Line, "", 2, 0),
    field(Shows::Name, Of::Line, "DEVICE", 12, 0),
    field(Shows::UniqueId, Of::Line, "UNIQUE ID", 18, 130),
    field(Shows::Bar, Of::Dram, "DRAM", 5, 0),
    field(Shows::Percent, Of::Dram, "", 7, 0),
    field(Shows::Used, Of::Dram, "USED", 10, 100),
    field(Shows::LargestFree, Of::Dram, "LARGEST", 10, 150),
    field(Shows::Bar, Of::L1, "L1", 5, 0),
    field(Shows::Percent, Of::L1, "", 7, 0),
    field(Shows::Used, Of::L1, "USED", 10, 112),
    field(Shows::LargestFree, Of::L1, "LARGEST", 10, 150),
    field(Shows::Beside, Of::L1, "KERNELS", 10, 120),
    field(Shows::Curve, Of::Dram, "DRAM TREND", 10, 92),
    field(Shows::Curve, Of::L1, "L1 TREND", 10, 74),
    field(Shows::Warnings, Of::Line, "", 18, 140),
];

const TWO_LINES: &[Field] = &[
    field(Shows::Mark, Of::Line, "", 2, 0),
    field(Shows::Names, Of::Line, "DEVICE", 20, 0),
    field(Shows::Memory, Of::Line, "", 4, 0),
    field(Shows::Bar, Of::Line, "", 8, 0),
    field(Shows::Percent, Of::Line, "", 7, 0),
    field(Shows::Used, Of::Line, "USED", 10, 66),
    field(Shows::LargestFree, Of::Line, "LARGEST", 10, 90),
    field(Shows::Beside, Of::Line, "TRACE/KERN", 10, 104),
    field(Shows::Curve, Of::Line, "TREND", 10, 76),
    field(Shows::Sensors, Of::Line, "SENSORS", 9, 124),
    field(Shows::Warnings, Of::Line, "WARNINGS", 24, 150),
];

/// The headings of rows of one or two lines; `seen` says which devices are on the screen.
pub(super) fn draw_heading(canvas: &mut Canvas<'_>, cell: Rect, lines: u16, seen: Option<&str>) {
    let mut pen = canvas.pen(cell, cell.y);
    for (field, width) in fitted(lines, cell.width) {
        let right = matches!(
            field.shows,
            Shows::Used | Shows::LargestFree | Shows::Beside | Shows::Curve
        );
        let title = match (field.shows, seen) {
            (Shows::Name | Shows::Names, Some(seen)) => seen,
            _other => field.title,
        };
        pen.field(title, width, right, Ink::Faint);
        pen.skip(1);
    }
}

pub(super) fn draw(canvas: &mut Canvas<'_>, cell: Rect, figures: &Figures<'_>, chosen: bool) {
    let theme = canvas.theme;
    for line in 0..cell.height {
        let mut pen = canvas.pen(cell, cell.y + line);
        for (field, width) in fitted(cell.height, cell.width) {
            let of_dram = match field.of {
                Of::Dram => true,
                Of::L1 => false,
                Of::Line => line == 0,
            };
            draw_field(
                &mut pen,
                field,
                (width, line),
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
            let words = match (field.title.is_empty(), line) {
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

/// The fields of a row that is so wide, each with its columns.
fn fitted(lines: u16, room: u16) -> impl Iterator<Item = (&'static Field, u16)> {
    let fields = if lines > 1 { TWO_LINES } else { ONE_LINE };
    let shown = move || fields.iter().filter(move |field| field.needs <= room);
    let taken: u16 = shown().map(|field| field.width + 1).sum();
    let bars = shown().filter(|field| field.shows == Shows::Bar).count();
    let bars = u16::try_from(bars).unwrap_or(1).max(1);
    let more = (room + 1).saturating_sub(taken) / bars;
    shown().map(move |field| {
        let grows = field.shows == Shows::Bar;
        (field, field.width + if grows { more } else { 0 })
    })
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
