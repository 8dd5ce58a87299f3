//! The columns of the table, and the cells of a row.

use super::grouped::{Group, has_label};
use super::held::{command, remarks, state, user};
use crate::data::Data;
use crate::theme::{Ink, Theme};
use crate::views::naming::{known, known_bytes};
use crate::widgets::SortKey::{Number, Text};
use crate::widgets::{Cell, Column, Sort, SortKey, sparkline, text};
use ttmem_report::format::{bytes, ids, short_duration};
use ttmem_report::labels::{fullest, held, is_gone};
use ttmem_report::machine_labels::has_sizes;
use ttmem_report::{Process, ProcessDevice};

const DEVICES: usize = 10;

/// Columns of the small curve.
const TREND: usize = 8;

/// The place of the column of states, which is as wide as they are, up to so many columns.
const STATE: usize = 15;
const WIDEST_STATE: usize = 26;

/// The place of the column that rows are sorted by at first.
pub(super) const DRAM: usize = 6;

/// Columns that are there where any process has the label.
const LABELS: [(usize, &str); 2] = [(3, "job"), (4, "rank")];

/// A peak gives way before the figure of the same device that it is the peak of: beside a sum over
/// devices it would be of something else.
pub(crate) const COLUMNS: &[Column] = &[
    Column::figures("PID", 7, 0),
    Column::words("USER", 9, 6),
    Column::words("COMMAND", 24, 0).growing(),
    Column::words("JOB", 10, 6),
    Column::figures("RANK", 5, 6),
    Column::words("DEVICES", 10, 5),
    Column::figures("DRAM", 10, 0),
    Column::words("TREND", 8, 2),
    Column::figures("ON FULLEST", 10, 3),
    Column::figures("ITS PEAK", 10, 4),
    Column::figures("L1 BUFFERS", 10, 7),
    Column::figures("L1_SMALL", 10, 10),
    Column::figures("TRACE", 10, 9),
    Column::figures("HOST RSS", 10, 8),
    Column::figures("AGE", 7, 11),
    Column::words("STATE", 14, 0),
    Column::words("REMARKS", 40, 12),
];

/// The orders of the rows: one for each column with a figure or a name.
pub(super) const SORTS: &[Sort<Process>] = &[
    Sort::ascending(0, |process| Number(process.pid.map(u64::from))),
    Sort::ascending(1, |process| Text(user(process))),
    Sort::ascending(2, |process| Text(command(process).map(str::to_lowercase))),
    Sort::ascending(3, |process| by_label(process, "job")),
    Sort::ascending(4, |process| by_label(process, "rank")),
    Sort::descending(5, |process| Number(Some(process.devices.len() as u64))),
    Sort::descending(DRAM, |process| holds(process, |on| on.dram_bytes)),
    Sort::descending(8, |process| {
        Number(fullest(&process.devices).map(|(on, _peak)| on.dram_bytes))
    }),
    Sort::descending(9, |process| {
        Number(fullest(&process.devices).and_then(|(_on, peak)| peak))
    }),
    Sort::descending(10, |process| holds(process, |on| on.l1_bytes)),
    Sort::descending(11, |process| holds(process, |on| on.l1_small_bytes)),
    Sort::descending(12, |process| holds(process, |on| on.trace_bytes)),
    Sort::descending(13, |process| {
        Number(process.host.as_ref().and_then(|host| host.rss_bytes))
    }),
    // The oldest has the largest age and the smallest time.
    Sort::descending(14, |process| {
        Number(process.start_time.map(|time| u64::MAX - time.unix_nanos()))
    }),
    Sort::ascending(STATE, |process| Text(Some(state(process).0))),
];

/// The columns for these processes, some of which may not be shown.
pub(super) fn columns_for(processes: &[Process]) -> Vec<Column> {
    let mut columns = COLUMNS.to_vec();
    for (place, label) in LABELS {
        if !has_label(processes, label) {
            columns[place] = columns[place].hidden();
        }
    }
    let states = processes
        .iter()
        .map(|process| text::width(&state(process).0));
    let widest = states.max().unwrap_or(0).min(WIDEST_STATE);
    columns[STATE] = columns[STATE].at_least(u16::try_from(widest).unwrap_or(u16::MAX));
    columns
}

fn by_label(process: &Process, label: &str) -> SortKey {
    match process.labels.get(label) {
        // As text in the order of numbers: a job may be a name.
        Some(value) => Text(Some(match value.parse::<u64>() {
            Ok(number) => format!("{number:020}"),
            Err(_name) => value.to_lowercase(),
        })),
        None => Text(None),
    }
}

fn holds(process: &Process, of: fn(&ProcessDevice) -> u64) -> SortKey {
    Number(Some(held(&process.devices, of)))
}

/// The cells of a process; `depth` says of how many others it is a child.
pub(super) fn process_cells(
    process: &Process,
    depth: usize,
    data: &Data,
    theme: Theme,
) -> Vec<Cell> {
    let gone = is_gone(process);
    let is_known = !gone && has_sizes(process);
    let plain = if gone { Ink::Faint } else { Ink::Text };
    let unknown = theme.unknown();
    let size = |of: fn(&ProcessDevice) -> u64| {
        let size = is_known.then(|| held(&process.devices, of));
        Cell::inked(known_bytes(size, theme), plain)
    };
    let on_fullest = fullest(&process.devices);
    let age = process.start_time.and_then(|time| data.age_seconds(time));
    let (state, state_ink) = state(process);
    let branch = match depth {
        0 => String::new(),
        depth => format!("{}{} ", "  ".repeat(depth - 1), theme.pick("└", "`")),
    };
    let command = command(process).unwrap_or(unknown);
    let label = |label| process.labels.get(label).cloned().unwrap_or_default();
    let rss = process.host.as_ref().and_then(|host| host.rss_bytes);
    let remarks: Vec<String> = remarks(process).into_iter().map(|one| one.text).collect();
    vec![
        Cell::inked(known(process.pid, theme), plain),
        Cell::faint(known(user(process), theme)),
        Cell::inked(format!("{branch}{command}"), plain),
        Cell::inked(label("job"), plain),
        Cell::inked(label("rank"), plain),
        Cell::inked(devices(process, theme), plain),
        size(|on| on.dram_bytes),
        Cell::inked(trend(process, data, theme), Ink::Dram),
        Cell::inked(
            known_bytes(
                on_fullest.map(|(on, _)| on.dram_bytes).filter(|_| is_known),
                theme,
            ),
            plain,
        ),
        Cell::inked(
            known_bytes(on_fullest.and_then(|(_, peak)| peak), theme),
            plain,
        ),
        size(|on| on.l1_bytes),
        size(|on| on.l1_small_bytes),
        size(|on| on.trace_bytes),
        Cell::inked(known_bytes(rss, theme), plain),
        Cell::faint(known(age.map(short_duration), theme)),
        Cell::inked(state, state_ink),
        Cell::faint(remarks.join(", ")),
    ]
}

/// The cells of a heading: what all processes of a group hold together.
pub(super) fn group_cells(group: &Group, processes: &[Process]) -> Vec<Cell> {
    let size = |of: fn(&ProcessDevice) -> u64| {
        let members = group.members.iter();
        let members = members.filter_map(|place| processes.get(*place));
        let sum = members.fold(0, |sum: u64, process| {
            sum.saturating_add(held(&process.devices, of))
        });
        Cell::inked(bytes(sum), Ink::Strong)
    };
    let blank = || Cell::faint("");
    vec![
        blank(),
        blank(),
        Cell::inked(group.title.clone(), Ink::Strong),
        blank(),
        blank(),
        blank(),
        size(|on| on.dram_bytes),
        blank(),
        blank(),
        blank(),
        size(|on| on.l1_bytes),
        size(|on| on.l1_small_bytes),
        size(|on| on.trace_bytes),
        blank(),
        blank(),
        blank(),
        blank(),
    ]
}

pub(super) fn device_cells(process: &Process, on: &ProcessDevice, theme: Theme) -> Vec<Cell> {
    let is_known = has_sizes(process);
    let size = |bytes: u64| Cell::faint(known_bytes(is_known.then_some(bytes), theme));
    let blank = || Cell::faint("");
    vec![
        blank(),
        blank(),
        Cell::faint(format!("  device {}", on.id)),
        blank(),
        blank(),
        blank(),
        size(on.dram_bytes),
        blank(),
        size(on.dram_bytes),
        Cell::faint(known_bytes(on.peak.map(|peak| peak.dram), theme)),
        size(on.l1_bytes),
        size(on.l1_small_bytes),
        size(on.trace_bytes),
        blank(),
        blank(),
        blank(),
        blank(),
    ]
}

/// Its devices by number where that fits, else how many there are.
fn devices(process: &Process, theme: Theme) -> String {
    let mut numbers: Vec<u32> = process.devices.iter().map(|on| on.id).collect();
    numbers.sort_unstable();
    match ids(&numbers) {
        none if none.is_empty() => theme.unknown().to_owned(),
        listed if listed.len() <= DEVICES => listed,
        _long => format!("{} devices", numbers.len()),
    }
}

/// Its DRAM since this view is open.
fn trend(process: &Process, data: &Data, theme: Theme) -> String {
    let series = data.trends.of(process);
    sparkline(&series, TREND, theme)
}
