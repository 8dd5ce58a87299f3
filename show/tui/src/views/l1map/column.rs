//! One core from the top to address 0: a bar with everything that lies on it, and a list of it.

use crate::data::Data;
use crate::theme::{Ink, Theme};
use crate::widgets::{Canvas, Cell, Column, Cursor, Prompt, Table, text};
use ratatui::layout::Rect;
use std::cmp::Reverse;
use ttmem_report::format;
use ttmem_report::{CbKind, L1Column, Segment, SegmentKind, Timestamp, short_line};

const SEGMENTS: &[Column] = &[
    Column::figures("ADDRESS", 8, 0),
    Column::figures("SIZE", 10, 0),
    Column::words("KIND", 10, 0),
    Column::words("OWNER", 14, 0).growing(),
    Column::figures("PID", 7, 3),
    Column::figures("AGE", 6, 2),
    Column::figures("MORE", 4, 5),
    Column::words("BUFFER", 18, 4),
];

/// Below so many columns, names in lists are shortened.
pub(super) const NARROW: u16 = 70;

/// The columns of a line of Python there.
const NARROW_LINE: usize = 14;

pub(super) const fn ink(kind: SegmentKind) -> Ink {
    match kind {
        SegmentKind::Reserved => Ink::Reserved,
        SegmentKind::ConfigRing => Ink::Kernel,
        SegmentKind::Cb => Ink::Storage,
        SegmentKind::Buffer => Ink::L1,
        SegmentKind::L1Small => Ink::L1Small,
        SegmentKind::Free => Ink::Free,
        SegmentKind::Other => Ink::Faint,
    }
}

fn name(segment: &Segment) -> &'static str {
    match (segment.kind, segment.cb_kind) {
        (SegmentKind::Reserved, _) => "reserved",
        (SegmentKind::ConfigRing, _) => "ring",
        (SegmentKind::Cb, Some(CbKind::Dataflow | CbKind::DataflowBorrowed)) => "dataflow",
        (SegmentKind::Cb, Some(CbKind::Scratchpad)) => "scratch",
        (SegmentKind::Cb, Some(CbKind::Global)) => "global",
        (SegmentKind::Cb, _) => "CB",
        (SegmentKind::Buffer, _) => "buffer",
        (SegmentKind::L1Small, _) => "L1_SMALL",
        (SegmentKind::Free, _) => "free",
        (SegmentKind::Other, _) => "other",
    }
}

const fn plural(kind: SegmentKind) -> &'static str {
    match kind {
        SegmentKind::Reserved => "reserved",
        SegmentKind::ConfigRing => "config ring",
        SegmentKind::Cb => "CBs",
        SegmentKind::Buffer => "buffers",
        SegmentKind::L1Small => "L1_SMALL",
        SegmentKind::Free => "free",
        SegmentKind::Other => "other",
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    kind: SegmentKind,
    address: u64,
    size_bytes: u64,
    segments: usize,
}

/// Neighbours of one kind put together, in order of address.
fn runs(segments: &[Segment]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for segment in segments {
        match runs.last_mut() {
            Some(run) if run.kind == segment.kind => {
                run.size_bytes = run.size_bytes.saturating_add(segment.size_bytes);
                run.segments += 1;
            }
            _other => runs.push(Run {
                kind: segment.kind,
                address: segment.address,
                size_bytes: segment.size_bytes,
                segments: 1,
            }),
        }
    }
    runs
}

/// The runs for a bar of so many rows.
///
/// A hole among buffers has a row only where there are many: else holes would seem larger than
/// buffers.
fn shown(runs: Vec<Run>, rows: u16) -> Vec<Run> {
    if runs.len() <= usize::from(rows / 2) {
        return runs;
    }
    let mut shown: Vec<Run> = Vec::with_capacity(runs.len());
    for (place, run) in runs.iter().enumerate() {
        let is_buffers = |run: Option<&Run>| run.is_some_and(|run| run.kind == SegmentKind::Buffer);
        let hole = run.kind == SegmentKind::Free
            && is_buffers(shown.last())
            && is_buffers(runs.get(place + 1));
        match shown.last_mut() {
            Some(last) if hole || last.kind == run.kind => {
                last.size_bytes = last.size_bytes.saturating_add(run.size_bytes);
                last.segments += if hole { 0 } else { run.segments };
            }
            _other => shown.push(*run),
        }
    }
    shown
}

/// How many rows each size takes of so many: at least one, the rest in proportion.
///
/// With more sizes than rows the smallest get none.
fn heights(sizes: &[u64], rows: u16) -> Vec<u16> {
    let mut heights = vec![0_u16; sizes.len()];
    let mut by_size: Vec<usize> = (0..sizes.len()).collect();
    by_size.sort_by_key(|place| Reverse(sizes[*place]));
    by_size.truncate(usize::from(rows));
    for place in &by_size {
        heights[*place] = 1;
    }
    let whole: u128 = by_size.iter().map(|place| u128::from(sizes[*place])).sum();
    let spare = rows - u16::try_from(by_size.len()).expect("at most as many as rows");
    let mut left = spare;
    let mut rests: Vec<(u128, usize)> = Vec::with_capacity(by_size.len());
    for place in &by_size {
        let scaled = u128::from(sizes[*place]) * u128::from(spare);
        let more = u16::try_from(scaled / whole.max(1))
            .unwrap_or(left)
            .min(left);
        heights[*place] += more;
        left -= more;
        rests.push((scaled % whole.max(1), *place));
    }
    // What was rounded off goes to those that lost most by it.
    rests.sort_by_key(|(rest, _)| Reverse(*rest));
    for (_, place) in rests.into_iter().cycle().take(usize::from(left)) {
        heights[place] += 1;
    }
    heights
}

/// Draws the bar: the top of the core above, address 0 below, and the chosen segment marked.
pub(super) fn draw_bar(
    canvas: &mut Canvas<'_>,
    area: Rect,
    core: &L1Column,
    chosen: Option<&Segment>,
    labels: bool,
) {
    let theme = canvas.theme;
    let area = area.intersection(canvas.area);
    if area.is_empty() {
        return;
    }
    let runs = shown(runs(&core.segments), area.height);
    let sizes: Vec<u64> = runs.iter().map(|run| run.size_bytes).collect();
    let bar = area.width.min(if labels { 8 } else { 3 });
    let mut bottom = area.bottom();
    for (run, height) in runs.iter().zip(heights(&sizes, area.height)) {
        let top = bottom - height.min(bottom - area.y);
        let ink = ink(run.kind);
        for row in top..bottom {
            for column in area.x..area.x + bar {
                canvas.cell((column, row), theme.fill(ink), ink);
            }
        }
        if height > 0 && labels {
            let said = format!("{} {}", plural(run.kind), format::bytes(run.size_bytes));
            let said = match run.segments {
                1 => said,
                count => format!("{said} in {count}"),
            };
            let at = (area.x + bar + 2, top + (height - 1) / 2);
            let room = usize::from(area.right().saturating_sub(at.0));
            canvas.put(at, &said, room, Ink::Faint);
        }
        if let Some(chosen) = chosen.filter(|chosen| height > 0 && run.has(chosen)) {
            let row = run.row_of(chosen.address, (top, height));
            let sign = theme.pick("◂", "<");
            canvas.put((area.x + bar, row), sign, 1, Ink::Strong);
        }
        bottom = top;
    }
}

/// Hatches where the storage of a refused program would lie: from one address to another, and apart
/// from it what it would lie over.
pub(super) fn draw_refused(
    canvas: &mut Canvas<'_>,
    area: Rect,
    (core, labels): (&L1Column, bool),
    (from, to, limit): (u64, u64, u64),
) {
    let theme = canvas.theme;
    let area = area.intersection(canvas.area);
    if area.is_empty() || to <= from {
        return;
    }
    let runs = shown(runs(&core.segments), area.height);
    let sizes: Vec<u64> = runs.iter().map(|run| run.size_bytes).collect();
    let mut bottom = area.bottom();
    let bar = area.width.min(if labels { 8 } else { 3 });
    for (run, height) in runs.iter().zip(heights(&sizes, area.height)) {
        let top = bottom - height.min(bottom - area.y);
        for row in top..bottom {
            // The addresses of a row; high ones are above.
            let step = run.size_bytes / u64::from(height.max(1));
            let low = run
                .address
                .saturating_add(step * u64::from(bottom - 1 - row));
            let high = low.saturating_add(step.max(1));
            if high <= from || low >= to {
                continue;
            }
            let (sign, ink) = if low.max(from) >= limit {
                (theme.pick('╳', 'X'), Ink::Danger)
            } else {
                (theme.pick('╱', '/'), Ink::Warning)
            };
            for column in area.x..area.x + bar {
                canvas.cell((column, row), sign, ink);
            }
        }
        bottom = top;
    }
}

impl Run {
    fn has(&self, segment: &Segment) -> bool {
        let within = segment.address.checked_sub(self.address);
        within.is_some_and(|within| within < self.size_bytes.max(1))
    }

    /// The row in which an address of it lies; high addresses are above.
    fn row_of(&self, address: u64, (top, height): (u16, u16)) -> u16 {
        let within = u128::from(address.saturating_sub(self.address));
        let rows = within * u128::from(height) / u128::from(self.size_bytes.max(1));
        let rows = u16::try_from(rows)
            .unwrap_or(u16::MAX)
            .min(height.saturating_sub(1));
        top + height.saturating_sub(1) - rows
    }
}

/// What a search finds on a core: as the bar, the highest address first.
pub(super) fn found<'c>(core: &'c L1Column, find: &Prompt) -> Vec<&'c Segment> {
    let segments = core.segments.iter().rev();
    let is_found = |segment: &&Segment| {
        let (owner, line) = (segment.owner.as_deref(), segment.line.as_deref());
        let names = [owner, line, Some(name(segment))];
        let buffer = segment.buffer.map(|id| id.0);
        find.finds(
            names,
            [Some(segment.address), segment.pid.map(u64::from), buffer],
        )
    };
    segments.filter(is_found).collect()
}

pub(super) fn draw_list(
    canvas: &mut Canvas<'_>,
    area: Rect,
    segments: &[&Segment],
    cursor: &mut Cursor,
    data: &Data,
) {
    let theme = canvas.theme;
    Table::of(SEGMENTS).draw_all(canvas, area, cursor, segments, |segment| {
        cells(segment, area.width < NARROW, data, theme)
    });
}

/// The row of the list where storage and buffers may meet: what is below the lowest buffer.
pub(super) fn row_of_the_gap(core: &L1Column) -> u64 {
    let is_buffer =
        |segment: &Segment| matches!(segment.kind, SegmentKind::Buffer | SegmentKind::L1Small);
    let lowest = core.segments.iter().position(is_buffer);
    let above = lowest.map_or(0, |lowest| core.segments.len() - lowest);
    above as u64
}

/// A name in a list that has little room: what is behind the last `::` says most.
fn short(name: &str, narrow: bool) -> &str {
    match name.rsplit_once("::") {
        Some((_, last)) if narrow && !last.is_empty() => last,
        _other => name,
    }
}

/// The line of Python and the operation, as far as they are known: the line is cut last.
pub(super) fn origin(operation: Option<&str>, line: Option<&str>, narrow: bool) -> Option<String> {
    let operation = operation.map(|name| short(name, narrow).to_owned());
    let line = line.map(|line| match narrow {
        // The number of the line is what is looked for.
        true => text::clip_front(short_line(line), NARROW_LINE),
        false => short_line(line).to_owned(),
    });
    let parts: Vec<String> = line.into_iter().chain(operation).collect();
    (!parts.is_empty()).then(|| parts.join(" "))
}

fn cells(segment: &Segment, narrow: bool, data: &Data, theme: Theme) -> Vec<Cell> {
    let free = segment.kind == SegmentKind::Free;
    // The runtime's own part belongs to no operation.
    let owned = matches!(
        segment.kind,
        SegmentKind::Cb | SegmentKind::Buffer | SegmentKind::L1Small
    );
    let blank_or_unknown = || Cell::faint(if owned { theme.unknown() } else { "" });
    let plain = if free { Ink::Faint } else { Ink::Text };
    let kind = format!("{} {}", theme.fill(ink(segment.kind)), name(segment));
    let owner = origin(segment.owner.as_deref(), segment.line.as_deref(), narrow);
    let pid = segment.pid.map(|pid| Cell::new(pid.to_string()));
    let more = match segment.more {
        0 => String::new(),
        more => format!("+{}", format::count(u64::from(more))),
    };
    let buffer = segment.buffer.map_or_else(String::new, |id| id.to_string());
    vec![
        Cell::inked(format!("{:#x}", segment.address), plain),
        Cell::inked(format::bytes(segment.size_bytes), plain),
        Cell::inked(kind, ink(segment.kind)),
        owner.map_or_else(blank_or_unknown, Cell::new),
        pid.unwrap_or_else(blank_or_unknown),
        Cell::faint(age(segment.time, data)),
        Cell::inked(more, Ink::Warning),
        Cell::faint(buffer),
    ]
}

pub(super) fn age(time: Option<Timestamp>, data: &Data) -> String {
    let seconds = time.and_then(|time| data.age_seconds(time));
    seconds.map_or_else(String::new, format::rough_duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_it_is_narrow_a_line_of_python_keeps_its_number() {
        let of = |narrow| origin(Some("ttnn.zeros"), Some("/w/fragmentation.toml:25"), narrow);
        assert_eq!(of(true).as_deref(), Some("…ation.toml:25 ttnn.zeros"));
        assert_eq!(
            of(false).as_deref(),
            Some("fragmentation.toml:25 ttnn.zeros")
        );
    }

    #[test]
    fn everything_is_seen_while_there_is_room_and_all_rows_are_used() {
        assert_eq!(heights(&[1, 1_000_000, 1], 10), [1, 8, 1]);
        assert_eq!(heights(&[50, 50], 10), [5, 5]);
        assert_eq!(heights(&[1, 2, 3], 2), [0, 1, 1]);
        assert_eq!(heights(&[0, 0], 4), [2, 2]);
        assert_eq!(heights(&[40, 30, 30], 13), [5, 4, 4]);
        assert_eq!(heights(&[], 4), [0_u16; 0]);
        assert_eq!(heights(&[u64::MAX, u64::MAX], 3).iter().sum::<u16>(), 3);
        assert!(heights(&[7], 0).iter().all(|height| *height == 0));
    }

    #[test]
    fn holes_do_not_crowd_out_buffers_but_the_gap_stays() {
        let kinds = [
            SegmentKind::Reserved,
            SegmentKind::Cb,
            SegmentKind::Free,
            SegmentKind::Buffer,
            SegmentKind::Free,
            SegmentKind::Buffer,
            SegmentKind::Free,
        ];
        let segment = |(place, kind): (u64, SegmentKind)| Segment {
            address: place * 10,
            size_bytes: 10,
            kind,
            cb_kind: None,
            pid: None,
            owner: None,
            line: None,
            buffer: None,
            time: None,
            more: 0,
        };
        let segments: Vec<Segment> = (0..).zip(kinds).map(segment).collect();
        let all = runs(&segments);
        assert_eq!(shown(all.clone(), 14), all);
        let few = shown(all, 13);
        let kinds: Vec<SegmentKind> = few.iter().map(|run| run.kind).collect();
        assert_eq!(
            kinds,
            [
                SegmentKind::Reserved,
                SegmentKind::Cb,
                SegmentKind::Free,
                SegmentKind::Buffer,
                SegmentKind::Free
            ]
        );
        assert_eq!((few[3].size_bytes, few[3].segments), (30, 2));
    }
}
