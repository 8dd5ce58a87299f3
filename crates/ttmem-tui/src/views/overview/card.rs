//! A device as a card: all figures, or those that matter most.

use super::figures::{Figures, Filled};
use super::strip::{draw_curve, values};
use crate::data::Data;
use crate::format::{self, bytes, count, counted, counted_as};
use crate::theme::{Ink, Theme};
use crate::views::naming::{known, known_bytes, part_name};
use crate::widgets::{Canvas, Pen, text};
use ratatui::layout::{Margin, Rect};
use ratatui::widgets::{Block, Widget};
use ttmem_api::{ClassUsage, Device, Timestamp};

const NAMES: u16 = 9;

const NAME: usize = 24;

/// From this inner width on a card has all of L1's parts in a row.
const WIDE: u16 = 100;

const HIGHEST: u16 = 15;

const SHORT_BAR: u16 = 20;

pub(super) fn draw_medium(
    canvas: &mut Canvas<'_>,
    card: Rect,
    figures: &Figures<'_>,
    chosen: bool,
) {
    let theme = canvas.theme;
    let inner = draw_frame(canvas, card, figures, chosen);
    for (line, (name, memory)) in [("DRAM", &figures.dram), ("L1", &figures.l1)]
        .into_iter()
        .enumerate()
    {
        let row = inner.y + if line == 0 { 0 } else { 2 };
        let curve = (inner.width / 5).min(30);
        let mut pen = canvas.pen(inner, row);
        pen.field(name, 5, false, Ink::Strong);
        draw_bar(&mut pen, memory, 8 + curve + 1, theme);
        pen.skip(1);
        draw_curve(&mut pen, figures, line == 0, curve);
        let mut pen = canvas.pen(inner, row + 1);
        pen.skip(5);
        pen.pieces(memory_figures(memory, theme));
    }
    let mut pen = canvas.pen(inner, inner.y + 4);
    let device = figures.device;
    pen.skip(5);
    let sizes = [
        ("CBs", resident(figures)),
        ("kernels", Some(device.kernel.registered_bytes)),
        ("L1_SMALL", Some(device.l1_small.used_bytes())),
        ("trace", Some(device.trace.used_bytes())),
    ];
    pen.pieces(sizes.map(|(name, size)| plain(format!("{name} {}", known_bytes(size, theme)))));
    pen.pieces([faint(processes(figures)), faint(dispatches(figures))]);
}

pub(super) fn draw_large(
    canvas: &mut Canvas<'_>,
    card: Rect,
    figures: &Figures<'_>,
    (chosen, data): (bool, &Data),
) {
    let theme = canvas.theme;
    let inner = draw_frame(canvas, card, figures, chosen);
    let device = figures.device;
    let mut row = inner.y;
    for (name, memory, class, of_dram) in [
        ("DRAM", &figures.dram, &device.dram, true),
        ("L1", &figures.l1, &device.l1, false),
    ] {
        let mut pen = canvas.pen(inner, row);
        pen.field(name, NAMES, false, Ink::Strong);
        draw_bar(&mut pen, memory, 7, theme);
        let mut pen = canvas.pen(inner, row + 1);
        pen.skip(NAMES);
        pen.pieces(memory_figures(memory, theme));
        if let Some(time) = class.peak_time.filter(|_| of_dram) {
            pen.piece(&format!("peak at {}", clock(time, data)), Ink::Faint);
        }
        pen.piece(&counted(class.buffers, "buffer"), Ink::Faint);
        let requested = bytes(class.requested_bytes);
        pen.piece(&format!("requested {requested}"), Ink::Faint);
        row += 2;
        if !of_dram {
            row = draw_parts(canvas, inner, row, memory);
        }
        let mut pen = canvas.pen(inner, row);
        pen.field(&reach(data), NAMES, false, Ink::Faint);
        let room = pen.room();
        draw_curve(&mut pen, figures, of_dram, room.saturating_sub(HIGHEST));
        let highest = values(figures, of_dram).iter().flatten().max();
        let highest = known_bytes(highest.copied(), theme);
        pen.field(&format!("max {highest}"), HIGHEST, true, Ink::Faint);
        row += 1;
    }
    for (name, ink, class) in [
        ("L1_SMALL", Ink::L1Small, &device.l1_small),
        ("TRACE", Ink::Trace, &device.trace),
    ] {
        draw_region(canvas, inner, row, (name, ink, class));
        row += 1;
    }
    for (name, pieces) in [
        ("CBs", cbs(figures, theme)),
        ("kernels", kernels(figures)),
        ("runs", runs(figures)),
        ("held by", held_by(figures)),
        ("checked", checked(figures, data)),
        ("mark", since_mark(figures, data)),
    ] {
        let mut pen = canvas.pen(inner, row);
        pen.field(name, NAMES, false, Ink::Strong);
        pen.pieces(pieces);
        row += 1;
    }
}

/// The frame: names above, unique id and warnings below. What is inside of it.
fn draw_frame(canvas: &mut Canvas<'_>, card: Rect, figures: &Figures<'_>, chosen: bool) -> Rect {
    let theme = canvas.theme;
    let card = card.intersection(canvas.area);
    Block::bordered()
        .border_set(theme.border())
        .border_style(theme.style(if chosen { Ink::Text } else { Ink::Frame }))
        .render(card, canvas);
    let inside = card.inner(Margin::new(2, 0));
    let sensors = sensors(theme);
    let names_room = usize::from(inside.width).saturating_sub(text::width(&sensors) + 4);
    let separator = theme.between();
    let names = names(figures.device, theme).join(separator);
    let names = format!("device {}{separator}{names}", figures.device.id);
    let names = text::clip(&names, names_room);
    let mut pen = canvas.pen(inside, card.y);
    let (sign, ink) = if chosen {
        (theme.pick("▸", ">"), Ink::Chosen)
    } else {
        (" ", Ink::Strong)
    };
    pen.put(&format!("{sign}{names} "), ink);
    let end = u16::try_from(text::width(&sensors) + 2).unwrap_or(u16::MAX);
    pen.skip(pen.room().saturating_sub(end));
    pen.put(&format!(" {sensors} "), Ink::Faint);
    let mut pen = canvas.pen(inside, card.bottom().saturating_sub(1));
    if card.height > 1 {
        pen.put(
            &format!(" {} ", known(figures.device.unique_id, theme)),
            Ink::Faint,
        );
        pen.skip(1);
    }
    if card.height > 1 && !figures.warnings.is_empty() {
        let warnings = figures.warnings.iter().map(|(_, text)| text.as_str());
        let warnings: Vec<&str> = warnings.collect();
        pen.put(&format!(" ! {} ", warnings.join(", ")), Ink::Warning);
    }
    inside.inner(Margin::new(0, 1))
}

pub(super) fn names(device: &Device, theme: Theme) -> Vec<String> {
    let mut names = vec![
        known(device.board.as_deref(), theme),
        known(device.arch.as_deref(), theme),
    ];
    let reached = |remote| if remote { "remote" } else { "local" };
    names.extend(device.remote.map(|remote| reached(remote).to_owned()));
    let scope = device.scope.as_ref();
    names.extend(scope.map(|scope| format!("visible {scope}")));
    // One that never ends must not hide what stands behind it.
    for name in &mut names {
        *name = text::clip(name, NAME);
    }
    names
}

/// Temperature, power and clock: not known to the account of memory.
pub(super) fn sensors(theme: Theme) -> String {
    let unknown = theme.unknown();
    let degrees = theme.pick("°C", "C");
    format!("{unknown} {degrees}  {unknown} W  {unknown} MHz")
}

fn draw_bar(pen: &mut Pen<'_>, memory: &Filled, left_over: u16, theme: Theme) {
    pen.bar(&memory.bar(), pen.room().saturating_sub(left_over));
    let (percent, ink) = memory.percent(theme.unknown());
    pen.field(&percent, 7, true, ink);
}

fn memory_figures(memory: &Filled, theme: Theme) -> Vec<(String, Ink)> {
    let known = |size: Option<u64>| known_bytes(size, theme);
    // Of all that lies in L1 only the last minutes are known.
    let peak = if memory.is_occupied { "max" } else { "peak" };
    vec![
        plain(format!("{} of {}", bytes(memory.used), known(memory.whole))),
        plain(format!("largest free {}", known(memory.largest_free))),
        plain(format!("{peak} {}", known(memory.peak))),
    ]
}

/// What L1 is taken by, each part with the sign of the bar; the row below.
fn draw_parts(canvas: &mut Canvas<'_>, inner: Rect, row: u16, memory: &Filled) -> u16 {
    let theme = canvas.theme;
    let parts = memory.parts.iter().copied();
    let free = memory.whole.map(|whole| whole.saturating_sub(memory.used));
    let mut parts = parts.chain(free.map(|free| (Ink::Free, free)));
    let rows: &[usize] = if inner.width < WIDE { &[3, 2] } else { &[5] };
    for (row, count) in (row..).zip(rows) {
        let mut pen = canvas.pen(inner, row);
        pen.skip(NAMES);
        if !memory.is_occupied {
            let unknown = "buffers only: what else lies in L1 is not known";
            pen.put(unknown, Ink::Faint);
            break;
        }
        for (ink, part) in parts.by_ref().take(*count) {
            pen.put(&theme.fill(ink).to_string(), ink);
            pen.put(&format!(" {} ", part_name(ink)), Ink::Faint);
            pen.put(&bytes(part), Ink::Text);
            pen.skip(3);
        }
    }
    row + u16::from(inner.width < WIDE) + 1
}

fn draw_region(
    canvas: &mut Canvas<'_>,
    inner: Rect,
    row: u16,
    (name, ink, class): (&str, Ink, &ClassUsage),
) {
    let theme = canvas.theme;
    let memory = Filled::class(ink, class);
    let mut pen = canvas.pen(inner, row);
    pen.field(name, NAMES, false, Ink::Strong);
    let left_over = pen.room().saturating_sub(SHORT_BAR);
    draw_bar(&mut pen, &memory, left_over, theme);
    pen.skip(1);
    pen.pieces(memory_figures(&memory, theme));
    pen.piece(&counted(class.buffers, "buffer"), Ink::Faint);
}

/// What programs have in L1 now; none where only the buffers in it are known.
fn resident(figures: &Figures<'_>) -> Option<u64> {
    let mut parts = figures.l1.parts.iter();
    let storage = parts.find(|(ink, _)| *ink == Ink::Storage);
    storage.map(|(_, part)| *part)
}

type Pieces = Vec<(String, Ink)>;

fn plain(words: impl Into<String>) -> (String, Ink) {
    (words.into(), Ink::Text)
}

fn faint(words: impl Into<String>) -> (String, Ink) {
    (words.into(), Ink::Faint)
}

fn cbs(figures: &Figures<'_>, theme: Theme) -> Pieces {
    let cb = &figures.device.cb;
    let resident = known_bytes(cb.resident_bytes, theme);
    vec![
        plain(format!("resident {resident}")),
        plain(format!("registered {}", bytes(cb.registered_bytes))),
        faint(format!("{} live", count(cb.count))),
        faint(format!("peak {}", bytes(cb.peak_bytes))),
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
        plain(format!("registered {}", bytes(kernel.registered_bytes))),
        plain(format!("unique {}", bytes(kernel.unique_bytes))),
        faint(format!("{} live", count(kernel.count))),
        (kinds.join(", "), Ink::Faint),
    ]
}

fn dispatches(figures: &Figures<'_>) -> String {
    counted_as(figures.device.dispatches, "dispatch", "dispatches")
}

fn runs(figures: &Figures<'_>) -> Pieces {
    let device = figures.device;
    let replays = counted(device.trace_replays, "trace replay");
    let mut pieces = vec![plain(dispatches(figures)), plain(replays)];
    let caches = &device.caches;
    if let (Some(hits), Some(misses)) = (caches.program_cache_hits, caches.program_cache_misses) {
        let (hits, misses) = (count(hits), count(misses));
        pieces.push(faint(format!("program cache {hits} hits, {misses} misses")));
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
        faint(counted(device.allocators.len() as u64, "allocator")),
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
    let source = figures.device.source;
    pieces.extend(source.map(|source| faint(format!("source {source}"))));
    let since = data.totals().map(|snapshot| snapshot.server.started);
    pieces.extend(since.map(|since| faint(format!("peaks since {}", clock(since, data)))));
    pieces
}

fn since_mark(figures: &Figures<'_>, data: &Data) -> Pieces {
    let marks = data.marks();
    let (Some(mark), Some(peak)) = (marks.last(), figures.device.peaks_since_marks.last()) else {
        return vec![faint("none: m sets one, and peaks count from it")];
    };
    // Devices may have been reported by another moment than the marks.
    if marks.len() != figures.device.peaks_since_marks.len() {
        return Vec::new();
    }
    let age = data.age_seconds(mark.time).map(format::duration);
    let age = age.map_or_else(String::new, |age| format!(", {age} ago"));
    vec![
        plain(format!("{}{age}", text::clip(&mark.name, NAME))),
        plain(format!("peak since: DRAM {}", bytes(peak.dram))),
        plain(format!("L1 {}", bytes(peak.l1))),
        faint(format!("CBs {}", bytes(peak.cb))),
        faint(format!("kernels {}", bytes(peak.kernel))),
    ]
}

fn clock(time: Timestamp, data: &Data) -> String {
    format::time_near(time, data.time().unwrap_or(time))
}

fn reach(data: &Data) -> String {
    let Some(recent) = &data.recent else {
        return String::new();
    };
    let steps = recent.document.times.len() as u64;
    let seconds = steps.saturating_mul(u64::from(recent.document.step_seconds));
    format::rough_duration(seconds)
}
