//! All figures of a device as lines: classes, what L1 is taken by, allocators, programs, marks.
//!
//! Only those on the screen are drawn.

use crate::data::Data;
use crate::theme::{Ink, Theme};
use crate::views::naming::{age, known, known_bytes, part_name, percent_of};
use crate::widgets::{Bar, Canvas, Cell, Column, Prompt, Table, left_of, right_of, text};
use ratatui::layout::Rect;
use std::rc::Rc;
use ttmem_report::format;
use ttmem_report::labels;
use ttmem_report::machine_labels;
use ttmem_report::{
    AllocatorUsage, ClassUsage, Device, MemoryClass, Share, Timestamp, percent, usage,
};

const LEAD: usize = 10;
/// A bar beside a table has at least so many columns, and at most.
const BAR: (u16, u16) = (10, 40);
const DAY_NANOS: u64 = 86_400_000_000_000;

const CLASSES: &[Column] = &[
    Column::words("MEMORY", 10, 0),
    Column::figures("CHARGED", 10, 0),
    Column::figures("CAPACITY", 10, 2),
    Column::figures("%", 6, 0),
    Column::figures("PEAK", 10, 3),
    Column::words("AT", 10, 4),
    Column::figures("LARGEST FIT", 11, 1),
    Column::figures("FRAGMENTED", 10, 8),
    Column::figures("BUFFERS", 7, 5),
    Column::figures("REQUESTED", 10, 6),
    Column::figures("OVERLAP", 10, 7),
];

const ALLOCATORS: &[Column] = &[
    Column::words("ALLOCATOR", 9, 0),
    Column::figures("PID", 7, 2),
    Column::figures("FREE", 10, 0),
    Column::figures("LARGEST FIT", 11, 0),
    Column::figures("FRAGMENTED", 10, 0),
    Column::words("CHECKED", 11, 1),
    Column::figures("CHARGED", 10, 3),
    Column::figures("BUFFERS", 7, 4),
    Column::figures("MESH", 5, 5),
];

const MARKS: &[Column] = &[
    Column::words("PEAK SINCE MARK", 16, 0).growing(),
    Column::words("AGE", 11, 3),
    Column::figures("DRAM", 10, 0),
    Column::figures("L1 BUFFERS", 10, 0),
    Column::figures("L1_SMALL", 10, 4),
    Column::figures("TRACE", 10, 5),
    Column::figures("SYSTEM", 10, 6),
];

type Field = (&'static str, String);

/// Draws a line into a row.
pub(super) type Line<'d> = Rc<dyn Fn(&mut Canvas<'_>, Rect) + 'd>;

fn heading<'d>(columns: &'static [Column]) -> Line<'d> {
    Rc::new(|canvas, area| Table::of(columns).draw_heading(canvas, area))
}

/// A row of a table, and the bar beside it where there is room.
fn row<'d>(columns: &'static [Column], cells: Vec<Cell>, bar: Option<Bar>) -> Line<'d> {
    Rc::new(move |canvas, area| {
        let (mut table, mut rest) = (area, Rect::default());
        let full: u16 = columns.iter().map(|column| column.width + 1).sum();
        if bar.is_some() && area.width.saturating_sub(full) >= BAR.0 {
            (table, rest) = (left_of(area, full), right_of(area, full));
        }
        Table::of(columns).draw_row(canvas, table, &cells, false);
        if let Some(bar) = &bar {
            bar.draw(canvas, (rest.x, rest.y), rest.width.min(BAR.1));
        }
    })
}

/// The classes, and those of which more is taken than there is.
pub(super) fn classes<'d>(device: &Device, data: &Data, theme: Theme) -> Vec<Line<'d>> {
    let classes = [
        ("DRAM", Ink::Dram, device.dram),
        (labels::L1_BUFFERS, Ink::L1, device.l1),
        ("L1_SMALL", Ink::L1Small, device.l1_small),
        ("TRACE", Ink::Trace, device.trace),
        ("SYSTEM", Ink::System, device.system),
    ];
    let mut lines = vec![heading(CLASSES)];
    lines.extend(classes.map(|(name, ink, usage)| {
        let bar = Bar::new(&[(ink, usage.used_bytes())], usage.capacity_bytes);
        let bar = bar.with_peak(Some(usage.peak_bytes));
        let cells = class_cells(name, ink, &usage, data, theme);
        row(CLASSES, cells, Some(bar))
    }));
    let beyond = usage::over_capacity(device).into_iter();
    let beyond = beyond.map(|(_name, text)| text);
    let beyond = beyond.chain(labels::more_than_the_device_has(device));
    lines.extend(beyond.map(|text| -> Line<'d> {
        Rc::new(move |canvas, area| {
            canvas.text(area, format!("! {text}"), Ink::Warning);
        })
    }));
    lines
}

/// What L1 is taken by, circular buffers, and kernels, in lines of so many columns.
pub(super) fn programs<'d>(
    device: &'d Device,
    data: &Data,
    width: u16,
    theme: Theme,
) -> Vec<Line<'d>> {
    let size = |bytes: Option<u64>| known_bytes(bytes, theme);
    let (l1, cb, kernel) = (&device.l1, &device.cb, &device.kernel);
    let share = percent_of(l1.occupied_bytes, l1.physical_bytes, theme);
    let occupied = size(l1.occupied_bytes);
    // As the bar has it, where that is known.
    let reserved = usage::parts_of_l1(device)
        .map_or(l1.reserved_bytes, |[(_reserved, part), ..]| {
            l1.reserved_bytes.map(|_known| part)
        });
    let in_use = vec![
        ("occupied", format!("{occupied} {share}")),
        ("of", size(l1.physical_bytes)),
        ("reserved", size(reserved)),
    ];
    let headroom = device.cb_headroom_bytes.map(labels::headroom);
    let cbs = vec![
        ("resident", size(cb.resident_bytes)),
        (
            "headroom",
            headroom.unwrap_or_else(|| "no program resident".to_owned()),
        ),
    ];
    let cached = vec![
        ("hold CBs of", size(Some(cb.registered_bytes))),
        ("not at the same time, in", format::counted(cb.count, "CB")),
        ("kernels of", size(Some(kernel.registered_bytes))),
        ("peak", peak(kernel.peak_bytes, kernel.peak_time, data)),
    ];
    let mut kernels = vec![
        ("resident", size(kernel.resident_bytes)),
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
    let mut lines = flow("L1", in_use, width);
    lines.push(Rc::new(|canvas, area| draw_in_use(canvas, area, device)));
    lines.extend(flow(labels::CBS, cbs, width));
    lines.extend(flow("kernels", kernels, width));
    lines.extend(flow("cached", cached, width));
    lines
}

/// What the driver and TT-Metal's counters say of the device, in lines of so many columns.
pub(super) fn machine<'d>(device: &Device, width: u16) -> Vec<Line<'d>> {
    let values = device.telemetry.as_ref().map(machine_labels::telemetry);
    let mut lines = wrapped("driver", values.unwrap_or_default(), width);
    for sentence in machine_labels::upstream(device) {
        let words = sentence.split(' ').map(str::to_owned).collect();
        lines.extend(wrapped("counters", words, width));
    }
    lines
}

/// Pieces one behind the other after a word for them, in as many lines as they need.
fn wrapped<'d>(lead: &'static str, pieces: Vec<String>, width: u16) -> Vec<Line<'d>> {
    let gap = if lead == "driver" { "  " } else { " " };
    let room = usize::from(width).saturating_sub(LEAD);
    let mut lines: Vec<String> = Vec::new();
    for piece in pieces {
        match lines.last_mut() {
            Some(line) if text::width(line) + gap.len() + text::width(&piece) <= room => {
                line.push_str(gap);
                line.push_str(&piece);
            }
            _full => lines.push(piece),
        }
    }
    let lines = lines.into_iter().enumerate();
    lines
        .map(|(place, line)| -> Line<'d> {
            let lead = if place == 0 { lead } else { "" };
            Rc::new(move |canvas, area| {
                canvas.text(area, lead, Ink::Strong);
                let at = u16::try_from(LEAD).unwrap_or(0);
                canvas.text(right_of(area, at), line.clone(), Ink::Text);
            })
        })
        .collect()
}

/// Sizes that have to be typed somewhere, exactly as they are typed.
pub(super) fn sizes_to_use<'d>(device: &Device, data: &Data) -> Vec<Line<'d>> {
    let failures = data.failures.as_ref();
    let failures = failures.map_or(&[][..], |fresh| &fresh.document.failures);
    let sizes = labels::regions(device, failures).into_iter();
    let lines = sizes.map(|words| -> Line<'d> {
        Rc::new(move |canvas, area| {
            let words = [
                ("set       ".to_owned(), Ink::Strong),
                (words.clone(), Ink::Text),
            ];
            canvas.line(area, &words);
        })
    });
    lines.collect()
}

pub(super) fn allocators<'d>(device: &Device, find: &Prompt, theme: Theme) -> Vec<Line<'d>> {
    let found = device.allocators.iter().filter(|usage| {
        let numbers = [usage.pid.map(u64::from), usage.mesh];
        find.finds([Some(class_name(usage.class))], numbers)
    });
    let rows = found.map(|usage| {
        let fragmented = usage.fragmented_permille().map(u64::from);
        let part = (scattered(fragmented), fragmented.unwrap_or(0));
        let bar = Bar::new(&[part], fragmented.map(|_known| 1000));
        let cells = allocator_cells(usage, theme);
        row(ALLOCATORS, cells, Some(bar))
    });
    with_heading(ALLOCATORS, rows)
}

/// The marks and the highest values since, the newest first.
pub(super) fn marks<'d>(
    device: &Device,
    find: &Prompt,
    data: &Data,
    theme: Theme,
) -> Vec<Line<'d>> {
    let marks = data.marks().iter().zip(&device.peaks_since_marks);
    let found =
        marks.filter(|(mark, _peaks)| find.finds([Some(mark.name.as_str())], [Some(mark.number)]));
    let rows = found.rev().map(|(mark, peaks)| {
        let sizes = [
            peaks.dram,
            peaks.l1,
            peaks.l1_small,
            peaks.trace,
            peaks.system,
        ];
        let mut cells = vec![
            Cell::new(format!("#{} {}", mark.number, labels::mark_name(mark, ""))),
            Cell::new(age(Some(mark.time), data, theme)),
        ];
        cells.extend(sizes.map(|size| Cell::new(format::bytes(size))));
        row(MARKS, cells, None)
    });
    with_heading(MARKS, rows)
}

/// The rows of a table below its heading; nothing without any.
fn with_heading<'d>(
    columns: &'static [Column],
    rows: impl Iterator<Item = Line<'d>>,
) -> Vec<Line<'d>> {
    let mut rows = rows.peekable();
    let heading = rows.peek().map(|_row| heading(columns));
    heading.into_iter().chain(rows).collect()
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
            lines.push(fields_line(lead, std::mem::take(&mut line)));
            taken = LEAD;
        }
        taken += wide + 2;
        line.push(field);
    }
    let lead = if lines.is_empty() { lead } else { "" };
    lines.push(fields_line(lead, line));
    lines
}

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

fn class_cells(name: &str, ink: Ink, usage: &ClassUsage, data: &Data, theme: Theme) -> Vec<Cell> {
    let unknown = theme.unknown();
    let size = |bytes: Option<u64>| Cell::new(known_bytes(bytes, theme));
    let share = Share::of(usage.used_bytes(), usage.capacity_bytes);
    let full = match share.map_or(0, Share::permille) {
        950.. => Ink::Danger,
        850.. => Ink::Warning,
        _room => Ink::Text,
    };
    let overlap = match usage.overlap_bytes {
        Some(0) => Cell::faint(format::bytes(0)),
        Some(bytes) => Cell::inked(format::bytes(bytes), Ink::Warning),
        None => size(None),
    };
    let at = usage.peak_time.zip(data.time());
    let at = known(at.map(|(time, now)| moment(time, now)), theme);
    vec![
        Cell::inked(name, ink),
        size(Some(usage.used_bytes())),
        size(usage.capacity_bytes),
        Cell::inked(percent(share, unknown), full),
        size(Some(usage.peak_bytes)),
        Cell::faint(at),
        size(usage.largest_fit_bytes()),
        fragmented_cell(usage.fragmented_permille(), theme),
        Cell::new(format::count(usage.buffers)),
        size(Some(usage.requested_bytes)),
        overlap,
    ]
}

fn fragmented_cell(permille: Option<u16>, theme: Theme) -> Cell {
    let permille = permille.map(u64::from);
    let share = percent_of(permille, Some(1000), theme);
    Cell::inked(share, scattered(permille))
}

fn allocator_cells(usage: &AllocatorUsage, theme: Theme) -> Vec<Cell> {
    let size = |bytes: Option<u64>| Cell::new(known_bytes(bytes, theme));
    let verified = match usage.verified {
        Some(true) => Cell::inked("equal", Ink::Good),
        Some(false) => Cell::inked("DIFFERS", Ink::Warning),
        None => Cell::faint("not checked"),
    };
    vec![
        Cell::new(class_name(usage.class)),
        Cell::new(known(usage.pid, theme)),
        size(usage.free_bytes()),
        size(usage.largest_fit_bytes()),
        fragmented_cell(usage.fragmented_permille(), theme),
        verified,
        size(Some(usage.charged_bytes)),
        Cell::new(format::count(usage.buffers)),
        Cell::new(known(usage.mesh, theme)),
    ]
}

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

fn scattered(permille: Option<u64>) -> Ink {
    match permille {
        Some(900..) => Ink::Danger,
        Some(500..) => Ink::Warning,
        Some(_) => Ink::Good,
        None => Ink::Faint,
    }
}

/// Figures one behind the other, after the word for them.
fn fields_line<'d>(lead: &'static str, fields: Vec<Field>) -> Line<'d> {
    Rc::new(move |canvas, area| {
        canvas.text(area, lead, Ink::Strong);
        let lead = u16::try_from(LEAD).unwrap_or(0);
        let mut pen = canvas.pen(right_of(area, lead), area.y);
        for (label, value) in &fields {
            pen.put(label, Ink::Faint);
            pen.skip(1);
            pen.put(value, Ink::Text);
            pen.skip(2);
        }
    })
}

/// A bar of all of L1: what is reserved, resident circular buffers, buffers, the small region.
fn draw_in_use(canvas: &mut Canvas<'_>, area: Rect, device: &Device) {
    let theme = canvas.theme;
    let parts =
        usage::parts_of_l1(device).map(|parts| parts.map(|(part, bytes)| (Ink::from(part), bytes)));
    let whole = device.l1.physical_bytes.filter(|_| parts.is_some());
    let bar = Bar::new(parts.as_ref().map_or(&[][..], |parts| parts), whole);
    let lead = u16::try_from(LEAD).unwrap_or(0).min(area.width);
    let key = [Ink::Reserved, Ink::Storage, Ink::L1, Ink::L1Small];
    let key_width: usize = key.iter().map(|ink| part_name(*ink).len() + 3).sum();
    let key_width = u16::try_from(key_width).unwrap_or(0);
    let width = area.width - lead;
    let bar_width = width.saturating_sub(key_width + 1).min(60);
    bar.draw(canvas, (area.x + lead, area.y), bar_width);
    let mut pen = canvas.pen(right_of(area, lead + bar_width + 1), area.y);
    for ink in key {
        pen.put(&theme.fill(ink).to_string(), ink);
        pen.skip(1);
        pen.put(part_name(ink), Ink::Faint);
        pen.skip(1);
    }
}
