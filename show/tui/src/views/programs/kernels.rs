//! The table of kernels: each once, with how many programs have it.
//!
//! The server lists a kernel for every program that has it. Unique is what it takes once, where it
//! takes most; shared is what the other programs register beyond that. All that is put together is
//! at least so much while the server has rows that it did not list.

use crate::data::{Data, Fresh, Listed};
use crate::theme::Theme;
use crate::views::naming::{known, known_bytes, owner};
use crate::widgets::SortKey::{Number, Text};
use crate::widgets::{Cell, Column, Sort};
use std::collections::BTreeMap;
use std::time::Instant;
use ttmem_report::format;
use ttmem_report::{HexId, KernelRow};

/// The columns; of some of the rows only, what is put together is at least so much.
pub(super) const fn columns(all: bool) -> [Column; 11] {
    let [total, unique, shared, programs, runs] = if all {
        ["TOTAL", "UNIQUE", "SHARED", "PROGRAMS", "RUNS"]
    } else {
        ["≥TOTAL", "≥UNIQUE", "≥SHARED", "≥PROGRAMS", "≥RUNS"]
    };
    [
        Column::words("KERNEL", 18, 0).growing(),
        Column::words("OWNER", 14, 6),
        Column::words("KIND", 11, 4),
        Column::words("CORE TYPE", 10, 3),
        Column::figures("BYTES", 8, 0),
        Column::figures("CORES", 5, 1),
        Column::figures(total, 10, 0),
        Column::figures(unique, 10, 0),
        Column::figures(shared, 10, 5),
        Column::figures(programs, if all { 8 } else { 10 }, 0),
        Column::figures(runs, 6, 2),
    ]
}

pub(super) const SORTS: &[Sort<Kernel>] = &[
    Sort::descending(6, |kernel| Number(Some(kernel.total_bytes))),
    Sort::descending(7, |kernel| Number(Some(kernel.unique_bytes))),
    Sort::descending(8, |kernel| Number(Some(kernel.shared_bytes()))),
    Sort::descending(9, |kernel| Number(Some(kernel.programs))),
    Sort::descending(10, |kernel| Number(Some(kernel.dispatches))),
    Sort::descending(4, |kernel| Number(kernel.row.binary_bytes)),
    Sort::ascending(0, |kernel: &Kernel| Text(kernel.row.name.clone())).opposite_arrow(),
];

#[derive(Debug)]
pub(super) struct Kernel {
    /// Its first row in the document.
    pub(super) row: KernelRow,
    unique_bytes: u64,
    total_bytes: u64,
    programs: u64,
    dispatches: u64,
}

impl Kernel {
    const fn shared_bytes(&self) -> u64 {
        self.total_bytes - self.unique_bytes
    }
}

#[derive(Debug, Default)]
pub(super) struct Kernels {
    made: Option<Instant>,
    pub(super) each: Vec<Kernel>,
}

impl Kernels {
    /// Puts the rows of a document together, if it is not the one that was put together last.
    pub(super) fn take(&mut self, document: &Fresh<Listed<KernelRow>>) {
        if self.made == Some(document.received) {
            return;
        }
        self.made = Some(document.received);
        self.each.clear();
        // Kernels of two processes are two, whatever their ids.
        let mut places: BTreeMap<(Option<u32>, Option<&str>, HexId), usize> = BTreeMap::new();
        for row in &document.document.rows {
            let key = (row.pid, row.instance.as_deref(), row.kernel);
            let place = *places.entry(key).or_insert(self.each.len());
            if place == self.each.len() {
                self.each.push(Kernel {
                    row: row.clone(),
                    unique_bytes: 0,
                    total_bytes: 0,
                    programs: 0,
                    dispatches: 0,
                });
            }
            let kernel = &mut self.each[place];
            kernel.unique_bytes = kernel.unique_bytes.max(row.total_bytes);
            kernel.total_bytes = kernel.total_bytes.saturating_add(row.total_bytes);
            kernel.programs += 1;
            kernel.dispatches = kernel.dispatches.saturating_add(row.dispatches);
        }
    }
}

pub(super) fn cells(kernel: &Kernel, data: &Data, theme: Theme) -> Vec<Cell> {
    let row = &kernel.row;
    let name = row.name.as_deref().unwrap_or(theme.unknown());
    vec![
        Cell::new(end_of_path(name)),
        Cell::faint(owner(row.pid, row.instance.as_deref(), data, theme)),
        Cell::faint(row.kind.to_string()),
        Cell::faint(known(row.core_type, theme)),
        Cell::new(known_bytes(row.binary_bytes, theme)),
        Cell::new(known(row.cores, theme)),
        Cell::new(format::bytes(kernel.total_bytes)),
        Cell::new(format::bytes(kernel.unique_bytes)),
        Cell::faint(format::bytes(kernel.shared_bytes())),
        Cell::new(format::count(kernel.programs)),
        Cell::new(format::count(kernel.dispatches)),
    ]
}

/// The file of a path, and the folder it is in: which distinguishes kernels.
fn end_of_path(path: &str) -> &str {
    let mut slashes = path.rmatch_indices('/').skip(1);
    slashes.next().map_or(path, |(slash, _)| &path[slash + 1..])
}
