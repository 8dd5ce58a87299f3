//! A device as a card: all figures, or those that matter most.

use super::figures::{Figures, Filled};
use super::strip::{draw_curve, values};
use crate::data::Data;
use crate::format::{self, bytes, count, counted, counted_as};
use crate::look::{Ink, Look};
use crate::views::naming::{known, known_bytes, part_name};
use crate::widgets::pen::Pen;
use crate::widgets::text;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::{Block, Widget};
use ttmem_api::{ClassUsage, Device, Timestamp};

/// Columns of the names of figures in a large card.
const NAMES: u16 = 9;

/// Columns of a name at most.
const NAME: usize = 24;

/// From this inner width on a card has all of L1's parts in a row.
const WIDE: u16 = 100;

/// Columns of the highest value beside a curve.
const HIGHEST: u16 = 15;

/// Columns of the bars of small regions.
const SHORT_BAR: u16 = 20;

/// A card with the figures that matter most.
pub(super) fn draw_medium(
    canvas: &mut Buffer,
    card: Rect,
    figures: &Figures<'_>,
    chosen: bool,
    look: Look,
) {
    let inner = draw_frame(canvas, card, figures, chosen, look);
    for (line, (name, memory)) in [("DRAM", &figures.dram), ("L1", &figures.l1)]
        .into_iter()
        .enumerate()
    {
        let row = inner.y + if line == 0 { 0 } else { 2 };
        let curve = (inner.width / 5).min(30);
        let mut pen = Pen::new(canvas, inner, row, look);
        pen.field(name, 5, false, Ink::Strong);
        draw_bar(&mut pen, memory, 8 + curve + 1, look);
        pen.skip(1);
        draw_curve(&mut pen, figures, line == 0, curve);
        let mut pen = Pen::new(canvas, inner, row + 1, look);
        pen.skip(5);
        for (figure, ink) in memory_figures(memory, look) {
            pen.piece(&figure, ink);
        }
    }
    let mut pen = Pen::new(canvas, inner, inner.y + 4, look);
    let device = figures.device;
    pen.skip(5);
    let resident = known_bytes(resident(figures), look);
    pen.piece(&format!("CBs {resident}"), Ink::Text);
    pen.piece(
        &format!("kernels {}", bytes(device.kernel.registered_bytes)),
        Ink::Text,
    );
    pen.piece(
        &format!("L1_SMALL {}", bytes(device.l1_small.used_bytes())),
        Ink::Text,
    );
    pen.piece(
        &format!("trace {}", bytes(device.trace.used_bytes())),
        Ink::Text,
    );
    pen.piece(&processes(figures), Ink::Faint);
    pen.piece(&dispatches(figures), Ink::Faint);
}

/// A card with all figures.
pub(super) fn draw_large(
    canvas: &mut Buffer,
    card: Rect,
    figures: &Figures<'_>,
    (chosen, data): (bool, &Data),
    look: Look,
) {
    let inner = draw_frame(canvas, card, figures, chosen, look);
    let device = figures.device;
    let mut row = inner.y;
    let l1_class = device.l1;
    for (name, memory, class, of_dram) in [
        ("DRAM", &figures.dram, &device.dram, true),
        ("L1", &figures.l1, &l1_class, false),
    ] {
        let mut pen = Pen::new(canvas, inner, row, look);
        pen.field(name, NAMES, false, Ink::Strong);
        draw_bar(&mut pen, memory, 7, look);
        let mut pen = Pen::new(canvas, inner, row + 1, look);
        pen.skip(NAMES);
        for (figure, ink) in memory_figures(memory, look) {
            pen.piece(&figure, ink);
        }
        if let Some(time) = class.peak_time.filter(|_| of_dram) {
            pen.piece(&format!("peak at {}", clock(time, data)), Ink::Faint);
        }
        pen.piece(&counted(class.buffers, "buffer"), Ink::Faint);
        pen.piece(
            &format!("requested {}", bytes(class.requested_bytes)),
            Ink::Faint,
        );
        row += 2;
        if !of_dram {
            row = draw_parts(canvas, inner, row, memory, look);
        }
        let mut pen = Pen::new(canvas, inner, row, look);
        pen.field(&reach(data), NAMES, false, Ink::Faint);
        let room = pen.room();
        draw_curve(&mut pen, figures, of_dram, room.saturating_sub(HIGHEST));
        let highest = values(figures, of_dram).iter().flatten().max();
        let highest = known_bytes(highest.copied(), look);
        pen.field(&format!("max {highest}"), HIGHEST, true, Ink::Faint);
        row += 1;
    }
    for (name, ink, class) in [
        ("L1_SMALL", Ink::L1Small, &device.l1_small),
        ("TRACE", Ink::Trace, &device.trace),
    ] {
        draw_region(canvas, inner, row, (name, ink, class), look);
        row += 1;
    }
    for (name, pieces) in [
        ("CBs", cbs(figures, look)),
        ("kernels", kernels(figures)),
        ("runs", runs(figures)),
        ("held by", held_by(figures)),
        ("checked", checked(figures, data)),
        ("mark", since_mark(figures, data)),
    ] {
        let mut pen = Pen::new(canvas, inner, row, look);
        pen.field(name, NAMES, false, Ink::Strong);
        for (piece, ink) in pieces {
            pen.piece(&piece, ink);
        }
        row += 1;
    }
}

/// The frame: names above, unique id and warnings below. What is inside of it.
fn draw_frame(
    canvas: &mut Buffer,
    card: Rect,
    figures: &Figures<'_>,
    chosen: bool,
    look: Look,
) -> Rect {
    let card = card.intersection(canvas.area);
    Block::bordered()
        .border_set(look.border())
        .border_style(look.style(if chosen { Ink::Text } else { Ink::Frame }))
        .render(card, canvas);
    let inside = Rect {
        x: card.x.saturating_add(2),
        width: card.width.saturating_sub(4),
        ..card
    };
    let sensors = sensors(look);
    let names_room = usize::from(inside.width).saturating_sub(text::width(&sensors) + 4);
    let separator = look.between();
    let names = names(figures.device, look).join(separator);
    let names = format!("device {}{separator}{names}", figures.device.id);
    let names = text::clip(&names, names_room);
    let mut pen = Pen::new(canvas, inside, card.y, look);
    let (sign, ink) = match (chosen, look.unicode()) {
        (false, _) => (" ", Ink::Strong),
        (true, true) => ("▸", Ink::Chosen),
        (true, false) => (">", Ink::Chosen),
    };
    pen.put(&format!("{sign}{names} "), ink);
    let end = u16::try_from(text::width(&sensors) + 2).unwrap_or(u16::MAX);
    pen.skip(pen.room().saturating_sub(end));
    pen.put(&format!(" {sensors} "), Ink::Faint);
    let mut pen = Pen::new(canvas, inside, card.bottom().saturating_sub(1), look);
    if card.height > 1 {
        pen.put(
            &format!(" {} ", known(figures.device.unique_id, look)),
            Ink::Faint,
        );
        pen.skip(1);
    }
    if card.height > 1 && !figures.warnings.is_empty() {
        let warnings = figures.warnings.iter().map(|warning| warning.text.as_str());
        let warnings: Vec<&str> = warnings.collect();
        pen.put(&format!(" ! {} ", warnings.join(", ")), Ink::Warning);
    }
    Rect {
        y: card.y.saturating_add(1),
        height: card.height.saturating_sub(2),
        ..inside
    }
}

/// The names of a device besides its logical and its unique id.
pub(super) fn names(device: &Device, look: Look) -> Vec<String> {
    let mut names = vec![
        known(device.board.as_deref(), look),
        known(device.arch.as_deref(), look),
    ];
    names.extend(device.remote.map(|remote| {
        let reached = if remote { "remote" } else { "local" };
        reached.to_owned()
    }));
    names.extend(
        device
            .scope
            .as_ref()
            .map(|scope| format!("visible {scope}")),
    );
    // One that never ends must not hide what stands behind it.
    for name in &mut names {
        *name = text::clip(name, NAME);
    }
    names
}

/// Temperature, power and clock: not known to the account of memory.
pub(super) fn sensors(look: Look) -> String {
    let unknown = look.unknown();
    let degrees = if look.unicode() { "°C" } else { "C" };
    format!("{unknown} {degrees}  {unknown} W  {unknown} MHz")
}

/// A bar as long as the row but for some columns, and its percentage.
fn draw_bar(pen: &mut Pen<'_>, memory: &Filled, left_over: u16, look: Look) {
    pen.bar(&memory.bar(), pen.room().saturating_sub(left_over));
    let (percent, ink) = memory.percent(look.unknown());
    pen.field(&percent, 7, true, ink);
}

/// What is said of a memory, by how much it matters.
fn memory_figures(memory: &Filled, look: Look) -> Vec<(String, Ink)> {
    let known = |size: Option<u64>| known_bytes(size, look);
    // Of all that lies in L1 only the last minutes are known.
    let peak = if memory.is_occupied { "max" } else { "peak" };
    vec![
        (
            format!("{} of {}", bytes(memory.used), known(memory.whole)),
            Ink::Text,
        ),
        (
            format!("largest free {}", known(memory.largest_free)),
            Ink::Text,
        ),
        (format!("{peak} {}", known(memory.peak)), Ink::Text),
    ]
}

/// What L1 is taken by, each part with the sign of the bar; the row below.
fn draw_parts(canvas: &mut Buffer, inner: Rect, row: u16, memory: &Filled, look: Look) -> u16 {
    let free = memory
        .whole
        .map(|whole| (Ink::Free, whole.saturating_sub(memory.used)));
    let [first @ .., last] = memory.parts;
    let rows = if inner.width < WIDE { 2 } else { 1 };
    for line in 0..rows {
        let mut pen = Pen::new(canvas, inner, row + line, look);
        pen.skip(NAMES);
        if !memory.is_occupied {
            if line == 0 {
                pen.put(
                    "buffers only: what else lies in L1 is not known",
                    Ink::Faint,
                );
            }
            continue;
        }
        let mut draw = |ink, part| {
            pen.put(&look.fill(ink).to_string(), ink);
            pen.put(&format!(" {} ", part_name(ink)), Ink::Faint);
            pen.put(&bytes(part), Ink::Text);
            pen.skip(3);
        };
        if line == 0 {
            first.iter().for_each(|(ink, part)| draw(*ink, *part));
        }
        if line + 1 == rows {
            draw(last.0, last.1);
            if let Some((ink, part)) = free {
                draw(ink, part);
            }
        }
    }
    row + rows
}

/// A small region with its own short bar.
fn draw_region(
    canvas: &mut Buffer,
    inner: Rect,
    row: u16,
    (name, ink, class): (&str, Ink, &ClassUsage),
    look: Look,
) {
    let memory = Filled::class(ink, class);
    let mut pen = Pen::new(canvas, inner, row, look);
    pen.field(name, NAMES, false, Ink::Strong);
    let left_over = pen.room().saturating_sub(SHORT_BAR);
    draw_bar(&mut pen, &memory, left_over, look);
    pen.skip(1);
    for (figure, ink) in memory_figures(&memory, look) {
        pen.piece(&figure, ink);
    }
    pen.piece(&counted(class.buffers, "buffer"), Ink::Faint);
}

/// What programs have in L1 now; none where only the buffers in it are known.
fn resident(figures: &Figures<'_>) -> Option<u64> {
    let mut parts = figures.l1.parts.iter();
    let storage = parts.find(|(ink, _)| *ink == Ink::Storage);
    storage.map(|(_, part)| *part)
}

type Pieces = Vec<(String, Ink)>;

fn cbs(figures: &Figures<'_>, look: Look) -> Pieces {
    let cb = &figures.device.cb;
    let resident = known_bytes(cb.resident_bytes, look);
    vec![
        (format!("resident {resident}"), Ink::Text),
        (
            format!("registered {}", bytes(cb.registered_bytes)),
            Ink::Text,
        ),
        (format!("{} live", count(cb.count)), Ink::Faint),
        (format!("peak {}", bytes(cb.peak_bytes)), Ink::Faint),
    ]
}

fn kernels(figures: &Figures<'_>) -> Pieces {
    let kernel = &figures.device.kernel;
    let kinds = [
        ("application", kernel.application_bytes),
        ("fabric", kernel.fabric_bytes),
        ("dispatch", kernel.dispatch_bytes),
    ];
    let kinds = kinds.map(|(kind, size)| format!("{kind} {}", bytes(size)));
    vec![
        (
            format!("registered {}", bytes(kernel.registered_bytes)),
            Ink::Text,
        ),
        (format!("unique {}", bytes(kernel.unique_bytes)), Ink::Text),
        (format!("{} live", count(kernel.count)), Ink::Faint),
        (kinds.join(", "), Ink::Faint),
    ]
}

fn dispatches(figures: &Figures<'_>) -> String {
    counted_as(figures.device.dispatches, "dispatch", "dispatches")
}

fn runs(figures: &Figures<'_>) -> Pieces {
    let device = figures.device;
    let mut pieces = vec![
        (dispatches(figures), Ink::Text),
        (counted(device.trace_replays, "trace replay"), Ink::Text),
    ];
    let caches = &device.caches;
    if let (Some(hits), Some(misses)) = (caches.program_cache_hits, caches.program_cache_misses) {
        let cache = format!(
            "program cache {} hits, {} misses",
            count(hits),
            count(misses)
        );
        pieces.push((cache, Ink::Faint));
    }
    let stalls = device.ring.iter().map(|ring| ring.stalls);
    let stalls = stalls.fold(0, u64::saturating_add);
    pieces.push((counted(stalls, "ring stall"), Ink::Faint));
    pieces
}

fn processes(figures: &Figures<'_>) -> String {
    counted_as(figures.holders.processes, "process", "processes")
}

fn held_by(figures: &Figures<'_>) -> Pieces {
    let device = figures.device;
    let mut pieces = vec![
        (processes(figures), Ink::Text),
        (
            counted(device.allocators.len() as u64, "allocator"),
            Ink::Faint,
        ),
    ];
    if device.system.charged_bytes > 0 {
        let host = format!("host memory {}", bytes(device.system.charged_bytes));
        pieces.push((host, Ink::Faint));
    }
    pieces
}

fn checked(figures: &Figures<'_>, data: &Data) -> Pieces {
    let (said, ink) = match figures.device.verified {
        Some(true) => ("equal to the allocators' own statistics", Ink::Good),
        Some(false) => ("differs from the allocators' own statistics", Ink::Warning),
        None => (
            "not compared with the allocators' own statistics",
            Ink::Faint,
        ),
    };
    let mut pieces = vec![(said.to_owned(), ink)];
    pieces.extend(
        figures
            .device
            .source
            .map(|source| (format!("source {source}"), Ink::Faint)),
    );
    let since = data.totals().map(|snapshot| snapshot.server.started);
    pieces.extend(since.map(|since| (format!("peaks since {}", clock(since, data)), Ink::Faint)));
    pieces
}

/// The highest values since the latest mark.
fn since_mark(figures: &Figures<'_>, data: &Data) -> Pieces {
    let marks = data.marks();
    let (Some(mark), Some(peak)) = (marks.last(), figures.device.peaks_since_marks.last()) else {
        return vec![(
            "none: m sets one, and peaks count from it".to_owned(),
            Ink::Faint,
        )];
    };
    // Devices may have been reported by another moment than the marks.
    if marks.len() != figures.device.peaks_since_marks.len() {
        return Vec::new();
    }
    let age = data.age_seconds(mark.time).map(format::duration);
    let age = age.map_or_else(String::new, |age| format!(", {age} ago"));
    vec![
        (format!("{}{age}", text::clip(&mark.name, NAME)), Ink::Text),
        (format!("peak since: DRAM {}", bytes(peak.dram)), Ink::Text),
        (format!("L1 {}", bytes(peak.l1)), Ink::Text),
        (format!("CBs {}", bytes(peak.cb)), Ink::Faint),
        (format!("kernels {}", bytes(peak.kernel)), Ink::Faint),
    ]
}

fn clock(time: Timestamp, data: &Data) -> String {
    format::time_near(time, data.time().unwrap_or(time))
}

/// How far the small curves reach back.
fn reach(data: &Data) -> String {
    let Some(recent) = &data.recent else {
        return String::new();
    };
    let steps = recent.document.times.len() as u64;
    let seconds = steps.saturating_mul(u64::from(recent.document.step_seconds));
    match seconds / 60 {
        0 => format!("{seconds} s"),
        minutes => format!("{} min", count(minutes)),
    }
}
