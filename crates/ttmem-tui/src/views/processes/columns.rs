//! The columns of the table, and the cells of a row.

use super::held::{About, Held, is_gone, remarks, state};
use crate::data::Data;
use crate::format::{bytes, count, counted, ids, short_duration};
use crate::theme::{Ink, Theme};
use crate::widgets::SortKey::{Number, Text};
use crate::widgets::{Cell, Column, Sort};
use ttmem_api::{Process, ProcessDevice};

const DEVICES: u16 = 11;

/// The place of the column that rows are sorted by at first.
pub(super) const DRAM: usize = 4;

pub(crate) const COLUMNS: &[Column] = &[
    Column::figures("PID", 7, 0),
    Column::figures("USER", 6, 5),
    Column::words("COMMAND", 12, 0).growing(),
    Column::words("DEVICES", DEVICES, 4),
    Column::figures("DRAM", 10, 0),
    Column::figures("L1", 10, 0),
    Column::figures("L1_SMALL", 10, 8),
    Column::figures("CBS", 10, 2),
    Column::figures("KERNELS", 10, 6),
    Column::figures("DRAM PEAK", 10, 7),
    Column::figures("AGE", 7, 3),
    Column::words("STATE", 17, 0),
    Column::figures("LEAKS", 10, 9),
    Column::figures("ANOMALIES", 9, 10),
    Column::words("REMARKS", 24, 11).growing(),
];

/// The orders of the rows: one for each column but the last.
pub(super) const SORTS: &[Sort<Process>] = &[
    Sort::ascending(0, |process| Number(process.pid.map(u64::from))),
    Sort::ascending(1, |process| Number(process.uid.map(u64::from))),
    Sort::ascending(2, |process| {
        Text(process.name.as_ref().map(|name| name.to_lowercase()))
    }),
    Sort::descending(3, |process| Number(Some(process.devices.len() as u64))),
    Sort::descending(DRAM, |process| Number(Some(Held::by(process).dram))),
    Sort::descending(5, |process| Number(Some(Held::by(process).l1))),
    Sort::descending(6, |process| Number(Some(Held::by(process).l1_small))),
    Sort::descending(7, |process| Number(Some(Held::by(process).cbs))),
    Sort::descending(8, |process| Number(Some(Held::by(process).kernels))),
    Sort::descending(9, |process| Number(Held::by(process).dram_peak)),
    // The oldest has the largest age and the smallest time.
    Sort::descending(10, |process| {
        Number(process.start_time.map(|time| u64::MAX - time.unix_nanos()))
    }),
    Sort::ascending(11, |process| Text(Some(state(process).0))),
    Sort::descending(12, |process| Number(Some(process.leak_candidates.bytes))),
    Sort::descending(13, |process| Number(Some(process.anomalies))),
];

pub(crate) fn process_cells(process: &Process, data: &Data, theme: Theme) -> Vec<Cell> {
    let gone = is_gone(process);
    let ink = if gone { Ink::Faint } else { Ink::Text };
    let unknown = || theme.unknown().to_owned();
    let number = |number: Option<u32>| number.map_or_else(unknown, |number| number.to_string());
    let held = Held::by(process);
    let mut cells = vec![
        Cell::inked(number(process.pid), ink),
        Cell::faint(number(process.uid)),
        Cell::inked(
            process.name.clone().unwrap_or_else(unknown),
            if gone { Ink::Faint } else { Ink::Strong },
        ),
        Cell::inked(devices(process), ink),
    ];
    cells.extend(held_cells(&held, gone, theme));
    cells.push(Cell::inked(
        ran(process, data).map_or_else(unknown, short_duration),
        ink,
    ));
    let (state, state_ink) = state(process);
    cells.push(Cell::inked(state, state_ink));
    let leaks = process.leak_candidates;
    cells.push(warning(leaks.buffers, &bytes(leaks.bytes)));
    cells.push(warning(process.anomalies, &count(process.anomalies)));
    // Leaks and anomalies have columns of their own.
    let (remark, ink) = remarks(process)
        .into_iter()
        .find(|(about, _)| !matches!(about, About::Leaks | About::Anomalies))
        .map_or((String::new(), ink), |(about, text)| (text, about.ink()));
    cells.push(Cell::inked(remark, ink));
    cells
}

/// The devices of a process: which, if that fits, else how many.
fn devices(process: &Process) -> String {
    let mut which: Vec<u32> = process.devices.iter().map(|device| device.id).collect();
    which.sort_unstable();
    which.dedup();
    let which = ids(&which);
    if which.len() <= usize::from(DEVICES) {
        which
    } else {
        let number = u64::try_from(process.devices.len()).unwrap_or(u64::MAX);
        counted(number, "device")
    }
}

fn ran(process: &Process, data: &Data) -> Option<u64> {
    let started = process.start_time?;
    let Some(released) = &process.released else {
        return data.age_seconds(started);
    };
    let nanos = released.time.unix_nanos();
    Some(nanos.saturating_sub(started.unix_nanos()) / 1_000_000_000)
}

pub(crate) fn device_cells(device: &ProcessDevice, theme: Theme) -> Vec<Cell> {
    let branch = theme.pick("└ ", "- ");
    let chip = device
        .unique_id
        .map_or_else(|| theme.unknown().to_owned(), |id| id.to_string());
    let mut cells = vec![
        Cell::new(""),
        Cell::new(""),
        Cell::faint(format!("{branch}device {}", device.id)),
        Cell::new(device.id.to_string()),
    ];
    cells.extend(held_cells(&Held::on(device), false, theme));
    cells.push(Cell::new(""));
    cells.push(Cell::faint(chip));
    let scope = device.scope.as_ref();
    let scope = scope.map_or_else(String::new, |scope| format!("visible {scope}"));
    cells.extend([Cell::new(""), Cell::new(""), Cell::faint(scope)]);
    cells
}

/// DRAM to the peak; one that is gone holds nothing, which is not the same as 0 bytes.
fn held_cells(held: &Held, gone: bool, theme: Theme) -> Vec<Cell> {
    let sizes = [held.dram, held.l1, held.l1_small, held.cbs, held.kernels];
    let size = |size: u64| match (gone, size) {
        (true, _) => Cell::faint(theme.unknown()),
        (false, 0) => Cell::faint(bytes(0)),
        (false, size) => Cell::new(bytes(size)),
    };
    let mut cells: Vec<Cell> = sizes.into_iter().map(size).collect();
    let peak = held.dram_peak.filter(|_| !gone);
    let peak = peak.map_or_else(|| theme.unknown().to_owned(), bytes);
    cells.push(Cell::faint(peak));
    cells
}

/// A figure that should be 0: blank if it is, so that the others stand out.
fn warning(number: u64, text: &str) -> Cell {
    if number == 0 {
        Cell::new("")
    } else {
        Cell::inked(text, Ink::Warning)
    }
}
