//! The columns of the table, and the cells of a row.

use super::held::{dram_peak, held, is_gone, remarks, state};
use crate::data::Data;
use crate::format::{bytes, count, counted, ids, short_duration};
use crate::theme::{Ink, Theme};
use crate::views::naming::{known, known_bytes};
use crate::widgets::SortKey::{Number, Text};
use crate::widgets::{Cell, Column, Sort, SortKey};
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
    Sort::descending(DRAM, |process| holds(process, |on| on.dram_bytes)),
    Sort::descending(5, |process| holds(process, |on| on.l1_bytes)),
    Sort::descending(6, |process| holds(process, |on| on.l1_small_bytes)),
    Sort::descending(7, |process| holds(process, |on| on.cb_bytes)),
    Sort::descending(8, |process| holds(process, |on| on.kernel_bytes)),
    Sort::descending(9, |process| Number(dram_peak(&process.devices))),
    // The oldest has the largest age and the smallest time.
    Sort::descending(10, |process| {
        Number(process.start_time.map(|time| u64::MAX - time.unix_nanos()))
    }),
    Sort::ascending(11, |process| Text(Some(state(process).0))),
    Sort::descending(12, |process| Number(Some(process.leak_candidates.bytes))),
    Sort::descending(13, |process| Number(Some(process.anomalies))),
];

fn holds(process: &Process, of: fn(&ProcessDevice) -> u64) -> SortKey {
    Number(Some(held(&process.devices, of)))
}

pub(crate) fn process_cells(process: &Process, data: &Data, theme: Theme) -> Vec<Cell> {
    let gone = is_gone(process);
    let ink = if gone { Ink::Faint } else { Ink::Text };
    let mut cells = vec![
        Cell::inked(known(process.pid, theme), ink),
        Cell::faint(known(process.uid, theme)),
        Cell::inked(
            known(process.name.as_deref(), theme),
            if gone { Ink::Faint } else { Ink::Strong },
        ),
        Cell::inked(devices(process), ink),
    ];
    cells.extend(held_cells(&process.devices, gone, theme));
    cells.push(Cell::inked(
        known(ran(process, data).map(short_duration), theme),
        ink,
    ));
    let (state, state_ink) = state(process);
    cells.push(Cell::inked(state, state_ink));
    let leaks = process.leak_candidates;
    cells.push(warning(leaks.buffers, &bytes(leaks.bytes)));
    cells.push(warning(process.anomalies, &count(process.anomalies)));
    let mut remarks = remarks(process).into_iter();
    let remark = remarks.find(|remark| !remark.has_column);
    cells.push(remark.map_or(Cell::new(""), |remark| Cell::inked(remark.text, remark.ink)));
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
    let mut cells = vec![
        Cell::new(""),
        Cell::new(""),
        Cell::faint(format!("{branch}device {}", device.id)),
        Cell::new(device.id.to_string()),
    ];
    cells.extend(held_cells(std::slice::from_ref(device), false, theme));
    cells.push(Cell::new(""));
    cells.push(Cell::faint(known(device.unique_id, theme)));
    let scope = device.scope.as_ref();
    let scope = scope.map_or_else(String::new, |scope| format!("visible {scope}"));
    cells.extend([Cell::new(""), Cell::new(""), Cell::faint(scope)]);
    cells
}

/// DRAM to the peak; one that is gone holds nothing, which is not the same as 0 bytes.
fn held_cells(devices: &[ProcessDevice], gone: bool, theme: Theme) -> Vec<Cell> {
    let sizes: [fn(&ProcessDevice) -> u64; 5] = [
        |on| on.dram_bytes,
        |on| on.l1_bytes,
        |on| on.l1_small_bytes,
        |on| on.cb_bytes,
        |on| on.kernel_bytes,
    ];
    let size = |of| match (gone, held(devices, of)) {
        (true, _) => Cell::faint(theme.unknown()),
        (false, 0) => Cell::faint(bytes(0)),
        (false, size) => Cell::new(bytes(size)),
    };
    let mut cells: Vec<Cell> = sizes.into_iter().map(size).collect();
    let peak = dram_peak(devices).filter(|_| !gone);
    cells.push(Cell::faint(known_bytes(peak, theme)));
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
