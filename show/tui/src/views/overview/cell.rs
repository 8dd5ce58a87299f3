//! One device: two percentages, two lines with bars, or a card.
//!
//! Every figure under its label of [`labels`]; what has no room is left out from the right.

use super::figures::{Figures, Filled};
use super::plan::Size;
use crate::data::Data;
use crate::theme::{Ink, Theme};
use crate::views::naming::{known, known_bytes};
use crate::widgets::{Canvas, Pen, row_of, text};
use ratatui::layout::Rect;
use ttmem_report::format::{bytes, counted_as, time_near};
use ttmem_report::labels;
use ttmem_report::machine_labels::{self, Whose, is_reported};
use ttmem_report::{ClassUsage, Device};

const NAME: u16 = 10;
const MEMORY: u16 = 5;

/// How many columns of a line are left to a bar.
const BAR: (u16, u16) = (8, 40);

pub(super) fn draw(
    canvas: &mut Canvas<'_>,
    cell: Rect,
    (size, figures): (Size, &Figures<'_>),
    (chosen, data): (bool, &Data),
) {
    match size {
        Size::Tiny => draw_tiny(canvas, cell, figures, chosen),
        Size::Strip => draw_strip(canvas, cell, figures, chosen),
        Size::Card => draw_card(canvas, cell, figures, (chosen, data)),
    }
}

fn warned(figures: &Figures<'_>) -> &'static str {
    if figures.warnings.is_empty() {
        " "
    } else {
        "!"
    }
}

fn name_ink(chosen: bool) -> Ink {
    if chosen { Ink::Chosen } else { Ink::Strong }
}

/// `12 D 46%`, as warm as it is full; and L1 below. Wider, each has a bar.
fn draw_tiny(canvas: &mut Canvas<'_>, cell: Rect, figures: &Figures<'_>, chosen: bool) {
    let theme = canvas.theme;
    let memories = [("D", &figures.dram), ("L", &figures.l1)];
    for (line, (letter, memory)) in (0..).zip(memories) {
        let row = row_of(cell, line);
        let mut pen = canvas.pen(row, row.y);
        if line == 0 {
            pen.field(&figures.device.id.to_string(), 2, true, name_ink(chosen));
            pen.put(warned(figures), Ink::Warning);
        } else {
            pen.skip(3);
        }
        pen.put(letter, Ink::Faint);
        if pen.room() >= 14 {
            pen.skip(1);
            let bar = pen.room() - 5;
            pen.bar(&memory.bar(), bar);
        }
        let share = memory.share();
        let percent = share.map_or_else(
            || theme.unknown().to_owned(),
            |share| format!("{}%", share.permille() / 10),
        );
        let heat = share.map(|share| theme.heat(share.permille()).1);
        let at = (pen.column(), row.y);
        let columns = usize::from(pen.room().min(5));
        let percent = text::right(&percent, columns);
        match heat.filter(|_| theme.coloured() && cell.width < 18) {
            Some(style) => canvas.put_styled(at, &percent, columns, theme.readable(style)),
            None => canvas.put(at, &percent, columns, Ink::Text),
        };
    }
}

fn draw_strip(canvas: &mut Canvas<'_>, cell: Rect, figures: &Figures<'_>, chosen: bool) {
    let theme = canvas.theme;
    let device = figures.device;
    let bar = (cell.width / 3).clamp(BAR.0, BAR.1);
    let mut pen = canvas.pen(cell, cell.y);
    draw_name(&mut pen, figures, chosen);
    draw_memory(&mut pen, labels::DRAM, &figures.dram, bar, theme);
    pen.pieces(capacity(&figures.dram, theme));
    pen.pieces(sensors(device));
    pen.pieces(fit(figures));
    let mut pen = canvas.pen(cell, cell.y + 1);
    pen.skip(NAME + 1);
    draw_memory(&mut pen, labels::L1, &figures.l1, bar, theme);
    pen.pieces(capacity(&figures.l1, theme));
    if figures.whose.counters().is_some() {
        pen.piece(machine_labels::FROM_COUNTERS, Ink::Faint);
    } else if is_reported(device) {
        pen.pieces(storage(figures, theme));
    }
    pen.pieces(upstream(figures));
}

fn draw_card(
    canvas: &mut Canvas<'_>,
    cell: Rect,
    figures: &Figures<'_>,
    (chosen, data): (bool, &Data),
) {
    let theme = canvas.theme;
    let device = figures.device;
    let bar = (cell.width / 3).clamp(BAR.0, BAR.1);
    let mut pen = canvas.pen(cell, cell.y);
    pen.put(&format!("device {}", device.id), name_ink(chosen));
    pen.put(" ", Ink::Text);
    pen.pieces(sensors(device));
    pen.pieces(names(device, theme).map(|name| (name, Ink::Faint)));
    pen.piece(labels::checked(device.verified), Ink::Faint);
    let mut pen = canvas.pen(cell, cell.y + 1);
    draw_memory(&mut pen, labels::DRAM, &figures.dram, bar, theme);
    pen.pieces(capacity(&figures.dram, theme));
    pen.pieces(peak(&device.dram, data));
    let mut pen = canvas.pen(cell, cell.y + 2);
    pen.skip(MEMORY);
    pen.pieces(source(figures));
    pen.pieces(fit(figures));
    if figures.whose == Whose::Attached {
        pen.pieces(labels::fragmented(&device.dram).map(|words| (words, Ink::Faint)));
    }
    let mut pen = canvas.pen(cell, cell.y + 3);
    draw_memory(&mut pen, labels::L1, &figures.l1, bar, theme);
    pen.pieces(capacity(&figures.l1, theme));
    let mut pen = canvas.pen(cell, cell.y + 4);
    pen.skip(MEMORY);
    if figures.l1.is_occupied {
        for (ink, part) in figures.l1.parts {
            let name = crate::views::naming::part_name(ink);
            pen.piece(&format!("{} {name} {}", theme.fill(ink), bytes(part)), ink);
        }
    } else if is_reported(device) || figures.whose.counters().is_some() {
        pen.put(
            "buffers only: what else lies in L1 is not known",
            Ink::Faint,
        );
    }
    let mut pen = canvas.pen(cell, cell.y + 5);
    pen.skip(MEMORY);
    if let Some(counted) = figures.whose.counters() {
        let others = [
            (labels::L1_SMALL, counted.l1_small),
            (labels::TRACE, counted.trace),
            (labels::CBS, counted.cb),
        ];
        pen.pieces(others.map(|(name, size)| (format!("{name} {}", bytes(size)), Ink::Text)));
    } else if is_reported(device) {
        pen.pieces(storage(figures, theme).into_iter().skip(1));
        pen.pieces([region(labels::L1_SMALL, &device.l1_small, theme)]);
        pen.pieces([region(labels::TRACE, &device.trace, theme)]);
    }
    let mut pen = canvas.pen(cell, cell.y + 6);
    pen.skip(MEMORY);
    pen.piece(
        &counted_as(figures.holders.processes, "process", "processes"),
        Ink::Faint,
    );
    pen.pieces(upstream(figures));
    if is_reported(device) {
        pen.piece(
            &counted_as(device.dispatches, "dispatch", "dispatches"),
            Ink::Faint,
        );
        pen.piece(
            &counted_as(device.trace_replays, "trace replay", "trace replays"),
            Ink::Faint,
        );
    }
    for (_word, warning) in &figures.warnings {
        pen.piece(&format!("! {warning}"), Ink::Warning);
    }
}

fn draw_name(pen: &mut Pen<'_>, figures: &Figures<'_>, chosen: bool) {
    let name = figures.device.short_name();
    pen.field(&name, NAME, false, name_ink(chosen));
    pen.put(warned(figures), Ink::Warning);
}

fn draw_memory(pen: &mut Pen<'_>, name: &str, memory: &Filled, bar: u16, theme: Theme) {
    pen.field(name, MEMORY, false, Ink::Text);
    let room = pen.room().saturating_sub(8);
    pen.bar(&memory.bar(), bar.min(room));
    let (percent, ink) = memory.percent(theme.unknown());
    pen.field(&percent, 7, true, ink);
    pen.skip(1);
}

type Piece = (String, Ink);

/// Temperature, power and clock, where the driver says them.
fn sensors(device: &Device) -> Vec<Piece> {
    let known = device.telemetry.as_ref().map(machine_labels::sensors);
    let known = known.unwrap_or_default().into_iter();
    known.map(|value| (value, Ink::Text)).collect()
}

/// What TT-Metal's counters know beyond the bars.
fn upstream(figures: &Figures<'_>) -> Vec<Piece> {
    let sentences = figures.whose.besides(figures.device).into_iter();
    sentences.map(|words| (words, Ink::Faint)).collect()
}

/// Whose figures a card has, where they are not those of attached processes.
fn source(figures: &Figures<'_>) -> Option<Piece> {
    Some((figures.whose.remark()?, Ink::Faint))
}

fn capacity(memory: &Filled, theme: Theme) -> Vec<Piece> {
    let used = memory.is_known.then_some(memory.used);
    let words = format!(
        "{} of {}",
        known_bytes(used, theme),
        known_bytes(memory.whole, theme)
    );
    vec![(words, Ink::Text)]
}

/// What fits by attached allocators: where the figures are others', that says nothing.
fn fit(figures: &Figures<'_>) -> Vec<Piece> {
    let fit = labels::largest_fit(&figures.device.dram);
    let fit = fit.filter(|_fit| figures.whose == Whose::Attached);
    let fit = fit.map(|fit| (format!("{} {fit}", labels::LARGEST_FIT), Ink::Faint));
    fit.into_iter().collect()
}

/// What programs have in L1 now, and how far it is from the tensors.
fn storage(figures: &Figures<'_>, theme: Theme) -> Vec<Piece> {
    let device = figures.device;
    let cbs = known_bytes(device.cb.resident_bytes, theme);
    let mut pieces = vec![(format!("{} {cbs}", labels::CBS), Ink::Text)];
    if let Some(headroom) = device.cb_headroom_bytes {
        let ink = if headroom < labels::NARROW_HEADROOM_BYTES {
            Ink::Warning
        } else {
            Ink::Faint
        };
        let words = format!("{} {}", labels::CB_HEADROOM, labels::headroom(headroom));
        pieces.push((words, ink));
    }
    pieces
}

fn peak(class: &ClassUsage, data: &Data) -> Vec<Piece> {
    let Some((time, now)) = class.peak_time.zip(data.time()) else {
        return Vec::new();
    };
    let words = format!(
        "{} {} at {}",
        labels::PEAK,
        bytes(class.peak_bytes),
        time_near(time, now)
    );
    vec![(words, Ink::Faint)]
}

fn region(name: &str, class: &ClassUsage, theme: Theme) -> Piece {
    let used = bytes(class.used_bytes());
    let whole = known_bytes(class.capacity_bytes, theme);
    (format!("{name} {used} of {whole}"), Ink::Text)
}

fn names(device: &Device, theme: Theme) -> impl Iterator<Item = String> {
    let reached = |remote| if remote { "remote" } else { "PCIe" };
    let mut names = vec![
        known(device.board.as_deref(), theme),
        known(device.arch.as_deref(), theme),
    ];
    names.extend(device.remote.map(|remote| reached(remote).to_owned()));
    names.extend(
        device
            .scope
            .as_ref()
            .map(|scope| format!("visible {scope}")),
    );
    names.extend(device.unique_id.map(|id| id.to_string()));
    names.into_iter().map(|name| text::clip(&name, 24))
}
