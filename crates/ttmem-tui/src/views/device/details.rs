//! All figures of a device as lines: classes, what L1 is taken by, allocators, programs, marks.
//!
//! Lines are made of references; only those on the screen are drawn.

use super::columns::{ALLOCATORS, CLASSES, MARKS};
use crate::data::Data;
use crate::format;
use crate::look::{Ink, Look};
use crate::views::naming::{age, known, known_bytes, part_name};
use crate::views::taken;
use crate::widgets::bar::Bar;
use crate::widgets::line::{draw_line, right_of};
use crate::widgets::pen::Pen;
use crate::widgets::share::{Share, percent};
use crate::widgets::table::{Cell, Table};
use crate::widgets::text;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ttmem_api::{AllocatorUsage, ClassUsage, Device, Mark, MemoryClass, PeakBytes, Timestamp};

/// The columns in front of fields that flow.
const LEAD: usize = 10;
/// A bar beside a table has at least so many columns, and at most.
const BAR: (u16, u16) = (10, 40);
const DAY_NANOS: u64 = 86_400_000_000_000;

/// A figure and what it is.
type Field = (&'static str, String);

#[derive(Debug, Clone)]
pub(super) enum Line<'d> {
    Blank,
    /// What the user should know.
    Warning(String),
    /// The heading of the classes.
    ClassHead,
    Class(&'static str, Ink, ClassUsage),
    /// What L1 is taken by.
    InUse(&'d Device),
    /// Figures one behind the other, after the word for them.
    Fields(&'static str, Vec<Field>),
    /// The heading of the allocators.
    AllocatorHead,
    Allocator(&'d AllocatorUsage),
    /// The heading of the marks.
    MarkHead,
    /// A mark, and the highest values since.
    Mark(&'d Mark, PeakBytes),
}

/// The classes, and those of which more is taken than there is.
pub(super) fn classes(device: &Device) -> Vec<Line<'_>> {
    let mut lines = vec![
        Line::ClassHead,
        Line::Class("DRAM", Ink::Dram, device.dram),
        Line::Class("L1", Ink::L1, device.l1),
        Line::Class("L1_SMALL", Ink::L1Small, device.l1_small),
        Line::Class("TRACE", Ink::Trace, device.trace),
        Line::Class("SYSTEM", Ink::System, device.system),
    ];
    let beyond = taken::beyond(device).into_iter();
    lines.extend(beyond.map(|(_name, text)| Line::Warning(format!("! {text}"))));
    lines
}

/// What L1 is taken by, circular buffers, and kernels, in lines of so many columns.
pub(super) fn programs<'d>(
    device: &'d Device,
    data: &Data,
    width: u16,
    look: Look,
) -> Vec<Line<'d>> {
    let size = |bytes: Option<u64>| known_bytes(bytes, look);
    let (l1, cb, kernel) = (&device.l1, &device.cb, &device.kernel);
    let share = l1
        .occupied_bytes
        .and_then(|used| Share::of(used, l1.physical_bytes));
    let share = percent(share, look.unknown());
    // As the bar has it, where that is known.
    let reserved = taken::parts_of_l1(device).map_or(l1.reserved_bytes, |[(_ink, part), ..]| {
        l1.reserved_bytes.map(|_known| part)
    });
    let in_use = vec![
        (
            "occupied",
            format!("{} {}", size(l1.occupied_bytes), share.trim_start()),
        ),
        ("of", size(l1.physical_bytes)),
        ("reserved", size(reserved)),
    ];
    let cbs = vec![
        ("registered", size(Some(cb.registered_bytes))),
        ("resident", size(cb.resident_bytes)),
        ("peak", peak(cb.peak_bytes, cb.peak_time, data)),
        ("live", format::count(cb.count)),
        ("local", size(cb.local_bytes)),
        ("global", size(cb.global_bytes)),
        ("dataflow", size(cb.dataflow_bytes)),
        ("borrowed", size(cb.dataflow_borrowed_bytes)),
        ("scratchpad", size(cb.scratchpad_bytes)),
    ];
    let mut kernels = vec![
        ("registered", size(Some(kernel.registered_bytes))),
        ("resident", size(kernel.resident_bytes)),
        ("peak", peak(kernel.peak_bytes, kernel.peak_time, data)),
        ("live", format::count(kernel.count)),
        ("application", size(Some(kernel.application_bytes))),
        ("fabric", size(Some(kernel.fabric_bytes))),
        ("dispatch", size(Some(kernel.dispatch_bytes))),
    ];
    if kernel.unknown_bytes > 0 {
        kernels.push(("other", size(Some(kernel.unknown_bytes))));
    }
    kernels.extend([
        ("unique", size(Some(kernel.unique_bytes))),
        ("shared", size(Some(kernel.shared_bytes))),
        ("tensix", size(kernel.tensix_bytes)),
        ("active eth", size(kernel.active_eth_bytes)),
        ("idle eth", size(kernel.idle_eth_bytes)),
        ("DRAM cores", size(kernel.dram_core_bytes)),
    ]);
    let mut lines = flow("L1 in use", in_use, width);
    lines.push(Line::InUse(device));
    lines.extend(flow("CBs", cbs, width));
    lines.extend(flow("kernels", kernels, width));
    lines
}

/// The allocators; none of a device without.
pub(super) fn allocators(device: &Device) -> Vec<Line<'_>> {
    if device.allocators.is_empty() {
        return Vec::new();
    }
    let rows = device.allocators.iter().map(Line::Allocator);
    [Line::AllocatorHead].into_iter().chain(rows).collect()
}

/// The marks, the newest first; none without any.
pub(super) fn marks<'d>(device: &'d Device, data: &'d Data) -> Vec<Line<'d>> {
    let marks = data.marks();
    let peaks = device.peaks_since_marks.iter();
    let mut rows: Vec<Line<'d>> = marks
        .iter()
        .zip(peaks)
        .map(|(mark, peak)| Line::Mark(mark, *peak))
        .collect();
    if !rows.is_empty() {
        rows.push(Line::MarkHead);
    }
    rows.reverse();
    rows
}

/// Fields in as many lines of so many columns as they need.
fn flow<'d>(lead: &'static str, fields: Vec<Field>, width: u16) -> Vec<Line<'d>> {
    let mut lines = Vec::new();
    let mut line: Vec<Field> = Vec::new();
    let mut taken = LEAD;
    for field in fields {
        let wide = field.0.len() + 1 + text::width(&field.1);
        if !line.is_empty() && taken + wide > usize::from(width) {
            let lead = if lines.is_empty() { lead } else { "" };
            lines.push(Line::Fields(lead, std::mem::take(&mut line)));
            taken = LEAD;
        }
        taken += wide + 2;
        line.push(field);
    }
    let lead = if lines.is_empty() { lead } else { "" };
    lines.push(Line::Fields(lead, line));
    lines
}

/// A peak and when it was.
fn peak(bytes: u64, time: Option<Timestamp>, data: &Data) -> String {
    match time.zip(data.time()) {
        Some((time, now)) => format!("{} {}", format::bytes(bytes), moment(time, now)),
        None => format::bytes(bytes),
    }
}

/// The time of day, or the date of what is longer ago than that can say.
fn moment(time: Timestamp, now: Timestamp) -> String {
    let text = format::date_time(time);
    if now.unix_nanos().saturating_sub(time.unix_nanos()) < DAY_NANOS {
        text[11..].to_owned()
    } else {
        text[..10].to_owned()
    }
}

impl Line<'_> {
    /// Draws it into the first row of an area.
    pub(super) fn draw(&self, canvas: &mut Buffer, area: Rect, data: &Data, look: Look) {
        let area = area.intersection(canvas.area);
        if area.is_empty() {
            return;
        }
        match self {
            Self::Blank => {}
            Self::Warning(text) => {
                draw_line(canvas, area, &[(text, Ink::Warning)], look);
            }
            Self::ClassHead => Table::of(CLASSES).draw_head(canvas, area, look),
            Self::Class(name, ink, usage) => {
                let (table_area, bar_area) = beside(area, CLASSES);
                let cells = class_cells(name, *ink, usage, data, look);
                Table::of(CLASSES).draw_row(canvas, table_area, &cells, look);
                let bar = Bar {
                    parts: &[(*ink, usage.used_bytes())],
                    whole: usage.capacity_bytes,
                    peak: Some(usage.peak_bytes),
                };
                bar.draw(canvas, (bar_area.x, bar_area.y), bar_area.width, look);
            }
            Self::InUse(device) => draw_in_use(canvas, area, device, look),
            Self::Fields(lead, fields) => draw_fields(canvas, area, lead, fields, look),
            Self::AllocatorHead => Table::of(ALLOCATORS).draw_head(canvas, area, look),
            Self::Allocator(usage) => {
                let (table_area, bar_area) = beside(area, ALLOCATORS);
                let fragmentation = fragmentation_permille(usage.fragmentation);
                let cells = allocator_cells(usage, fragmentation, look);
                Table::of(ALLOCATORS).draw_row(canvas, table_area, &cells, look);
                let bar = Bar {
                    parts: &[(scattered(fragmentation), fragmentation.unwrap_or(0))],
                    whole: fragmentation.map(|_known| 1000),
                    peak: None,
                };
                bar.draw(canvas, (bar_area.x, bar_area.y), bar_area.width, look);
            }
            Self::MarkHead => Table::of(MARKS).draw_head(canvas, area, look),
            Self::Mark(mark, peaks) => {
                let age = age(Some(mark.time), data, look);
                let sizes = [
                    peaks.dram,
                    peaks.l1,
                    peaks.cb,
                    peaks.kernel,
                    peaks.l1_small,
                    peaks.trace,
                    peaks.system,
                ];
                let sizes = sizes.map(|size| Cell::new(format::bytes(size)));
                let name = format!("#{} {}", mark.number, mark.name);
                let cells: Vec<Cell> = [Cell::new(name), Cell::new(age)]
                    .into_iter()
                    .chain(sizes)
                    .collect();
                Table::of(MARKS).draw_row(canvas, area, &cells, look);
            }
        }
    }
}

/// Room for a table, and what is left beside it for a bar.
fn beside(area: Rect, columns: &[crate::widgets::table::Column]) -> (Rect, Rect) {
    let full: u16 = columns.iter().map(|column| column.width + 1).sum();
    let spare = area.width.saturating_sub(full);
    if spare < BAR.0 {
        return (area, Rect::new(area.right(), area.y, 0, 1));
    }
    let table = Rect {
        width: full,
        ..area
    };
    (table, Rect::new(area.x + full, area.y, spare.min(BAR.1), 1))
}

fn class_cells(name: &str, ink: Ink, usage: &ClassUsage, data: &Data, look: Look) -> Vec<Cell> {
    let unknown = look.unknown();
    let size = |bytes: Option<u64>| Cell::new(known_bytes(bytes, look));
    let share = Share::of(usage.used_bytes(), usage.capacity_bytes);
    let full = match share.map_or(0, Share::permille) {
        950.. => Ink::Danger,
        850.. => Ink::Warning,
        _room => Ink::Text,
    };
    let overlap = match usage.overlap_bytes {
        Some(0) => Cell::inked(format::bytes(0), Ink::Faint),
        Some(bytes) => Cell::inked(format::bytes(bytes), Ink::Warning),
        None => size(None),
    };
    let at = usage.peak_time.zip(data.time());
    let at = known(at.map(|(time, now)| moment(time, now)), look);
    vec![
        Cell::inked(name, ink),
        size(Some(usage.charged_bytes)),
        size(usage.capacity_bytes),
        Cell::inked(percent(share, unknown), full),
        size(Some(usage.peak_bytes)),
        Cell::inked(at, Ink::Faint),
        size(usage.largest_free_bytes_per_bank),
        Cell::new(format::count(usage.buffers)),
        size(Some(usage.requested_bytes)),
        overlap,
    ]
}

fn allocator_cells(usage: &AllocatorUsage, fragmentation: Option<u64>, look: Look) -> Vec<Cell> {
    let size = |bytes: Option<u64>| Cell::new(known_bytes(bytes, look));
    let free = usage.capacity_bytes;
    let free = free.map(|capacity| capacity.saturating_sub(usage.charged_bytes));
    let share = fragmentation.and_then(|permille| Share::of(permille, Some(1000)));
    let verified = match usage.verified {
        Some(true) => Cell::inked("verified", Ink::Good),
        Some(false) => Cell::inked("differs", Ink::Warning),
        None => Cell::inked(look.unknown(), Ink::Faint),
    };
    vec![
        Cell::new(class_name(usage.class)),
        Cell::new(known(usage.pid, look)),
        size(free),
        size(usage.largest_free_bytes_per_bank),
        Cell::inked(percent(share, look.unknown()), scattered(fragmentation)),
        verified,
        size(Some(usage.charged_bytes)),
        Cell::new(format::count(usage.buffers)),
        Cell::new(known(usage.mesh, look)),
    ]
}

/// How a class is written on the screen.
pub(crate) const fn class_name(class: MemoryClass) -> &'static str {
    match class {
        MemoryClass::Dram => "DRAM",
        MemoryClass::L1 => "L1",
        MemoryClass::L1Small => "L1_SMALL",
        MemoryClass::Trace => "TRACE",
        MemoryClass::System => "SYSTEM",
        MemoryClass::Other => "other",
    }
}

/// Thousandths of a fragmentation, which a server may send as any number.
fn fragmentation_permille(fragmentation: Option<f64>) -> Option<u64> {
    let known = fragmentation.filter(|known| known.is_finite())?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is between 0 and 1000"
    )]
    let permille = (known.clamp(0.0, 1.0) * 1000.0).round() as u64;
    Some(permille)
}

/// How bad a fragmentation is.
fn scattered(permille: Option<u64>) -> Ink {
    match permille {
        Some(900..) => Ink::Danger,
        Some(500..) => Ink::Warning,
        Some(_) => Ink::Good,
        None => Ink::Faint,
    }
}

fn draw_fields(canvas: &mut Buffer, area: Rect, lead: &str, fields: &[Field], look: Look) {
    draw_line(canvas, area, &[(lead, Ink::Strong)], look);
    let lead = u16::try_from(LEAD).unwrap_or(0);
    let mut pen = Pen::new(canvas, right_of(area, lead), area.y, look);
    for (label, value) in fields {
        pen.put(label, Ink::Faint);
        pen.skip(1);
        pen.put(value, Ink::Text);
        pen.skip(2);
    }
}

/// A bar of all of L1: what is reserved, resident circular buffers, buffers, the small region.
fn draw_in_use(canvas: &mut Buffer, area: Rect, device: &Device, look: Look) {
    let parts = taken::parts_of_l1(device);
    let bar = Bar {
        parts: parts.as_ref().map_or(&[][..], |parts| parts),
        whole: device.l1.physical_bytes.filter(|_| parts.is_some()),
        peak: None,
    };
    let lead = u16::try_from(LEAD).unwrap_or(0).min(area.width);
    let key = [Ink::Reserved, Ink::Storage, Ink::L1, Ink::L1Small];
    let key_width: usize = key.iter().map(|ink| part_name(*ink).len() + 3).sum();
    let key_width = u16::try_from(key_width).unwrap_or(0);
    let width = area.width - lead;
    let bar_width = width.saturating_sub(key_width + 1).min(60);
    bar.draw(canvas, (area.x + lead, area.y), bar_width, look);
    let mut pen = Pen::new(canvas, right_of(area, lead + bar_width + 1), area.y, look);
    for ink in key {
        pen.put(&look.fill(ink).to_string(), ink);
        pen.skip(1);
        pen.put(part_name(ink), Ink::Faint);
        pen.skip(1);
    }
}
