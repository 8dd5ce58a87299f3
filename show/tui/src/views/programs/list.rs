//! The table of programs, and all that is known of one.

use crate::data::Data;
use crate::theme::{Ink, Theme};
use crate::views::naming::{age, known, known_bytes, owner};
use crate::widgets::SortKey::{Number, Text};
use crate::widgets::{Cell, Column, Fact, Sort};
use ttmem_report::format;
use ttmem_report::{BinaryState, ProgramDevice, ProgramRow, Timestamp, user_frame};

pub(super) const COLUMNS: &[Column] = &[
    Column::words("PROGRAM", 21, 0).growing(),
    Column::words("OWNER", 14, 6),
    Column::words("KIND", 11, 7),
    Column::figures("CORES", 5, 3),
    Column::figures("TEXT", 8, 0),
    Column::figures("CBS IF RUN", 10, 0),
    Column::figures("KERNELS", 7, 8),
    Column::words("BINARY", 13, 2),
    Column::figures("RUNS", 6, 0),
    Column::figures("HITS", 6, 4),
    Column::figures("REUSES", 6, 5),
    Column::figures("LAST RUN", 11, 1),
    Column::figures("NUMBER", 7, 9),
];

pub(super) const SORTS: &[Sort<ProgramRow>] = &[
    Sort::descending(8, |row| Number(Some(row.dispatches))),
    // What ran last has the least age.
    Sort::descending(11, |row: &ProgramRow| {
        Number(row.last_run.map(Timestamp::unix_nanos))
    })
    .opposite_arrow(),
    Sort::descending(4, |row| Number(row.text_bytes)),
    Sort::descending(5, |row| Number(Some(row.cb_bytes))),
    Sort::descending(3, |row| Number(row.cores.map(u64::from))),
    Sort::descending(6, |row| Number(Some(row.kernels))),
    Sort::descending(9, |row| Number(most(row, |on| on.program_cache_hits))),
    Sort::ascending(0, |row: &ProgramRow| Text(row.name.clone())).opposite_arrow(),
];

pub(super) fn cells(row: &ProgramRow, data: &Data, theme: Theme) -> Vec<Cell> {
    let binary = match binaries(row).next() {
        Some((at, ids)) => Cell::inked(format!("{} {}", ids.len(), state(at)), state_ink(at)),
        None => Cell::faint(theme.unknown()),
    };
    let count = |count: Option<u64>| known(count.map(format::count), theme);
    vec![
        Cell::new(name(row, theme)),
        Cell::faint(owner(row.pid, row.instance.as_deref(), data, theme)),
        Cell::faint(known(row.kind, theme)),
        Cell::new(known(row.cores, theme)),
        Cell::new(known_bytes(row.text_bytes, theme)),
        Cell::new(format::bytes(row.cb_bytes)),
        Cell::faint(format::count(row.kernels)),
        binary,
        Cell::new(format::count(row.dispatches)),
        Cell::faint(count(most(row, |on| on.program_cache_hits))),
        Cell::faint(count(most(row, |on| on.binary_reuses))),
        Cell::new(age(row.last_run, data, theme)),
        Cell::faint(known(row.program, theme)),
    ]
}

pub(super) fn facts(row: &ProgramRow, data: &Data, theme: Theme) -> Vec<Fact> {
    let text = |label: &'static str, value: String| (label, value, Ink::Text);
    let count = |count: Option<u64>| known(count.map(format::count), theme);
    let owner = owner(row.pid, row.instance.as_deref(), data, theme);
    let line = user_frame(row.python.iter().flatten().map(String::as_str));
    let built = age(Some(row.created), data, theme);
    let (kernels, kernel_bytes) = (format::count(row.kernels), format::bytes(row.kernel_bytes));
    let mut facts = vec![
        text("program", name(row, theme)),
        text("owner", owner),
        match line {
            Some(line) => text("Python", line.to_owned()),
            None => ("Python", "not recorded".to_owned(), Ink::Faint),
        },
        text("binary", binary_everywhere(row, theme)),
        text("size", known_bytes(row.binary_bytes, theme)),
        text("number", known(row.program, theme)),
        text("runtime id", known(row.runtime_id, theme)),
        text("kind", known(row.kind, theme)),
        text("built", format!("{built} ago")),
        text("cores", known(row.cores, theme)),
        text("text", known_bytes(row.text_bytes, theme)),
        text("config", known_bytes(row.config_bytes, theme)),
        text("CBs if run", format::bytes(row.cb_bytes)),
        text("kernels", format!("{kernels} with {kernel_bytes}")),
        text("from disk", format::counted(row.jit_disk_hits, "kernel")),
        text("runs", format::count(row.dispatches)),
        text("first run", age(row.first_run, data, theme)),
        text("last run", age(row.last_run, data, theme)),
        text("cache hits", count(most(row, |on| on.program_cache_hits))),
        text("misses", count(most(row, |on| on.program_cache_misses))),
        text("reuses", count(most(row, |on| on.binary_reuses))),
        text("", String::new()),
    ];
    let mut devices: Vec<&ProgramDevice> = row.devices.iter().collect();
    devices.sort_by_key(|on| on.id);
    facts.extend(devices.into_iter().map(|on| on_device(on, theme)));
    facts
}

fn on_device(on: &ProgramDevice, theme: Theme) -> Fact {
    let resident = match on.resident_cores {
        0 => String::new(),
        cores => format!(", the last on {}", format::counted(cores.into(), "core")),
    };
    let sent = known_bytes(on.sent_bytes, theme);
    let line = format!(
        "device {:<3} {:<9} {:>9} sent {:>6} runs{resident}",
        on.id,
        state(on.binary),
        sent,
        format::count(on.dispatches),
    );
    ("", line, state_ink(on.binary))
}

pub(super) fn name(row: &ProgramRow, theme: Theme) -> String {
    match (&row.name, row.program) {
        (Some(name), _) => name.clone(),
        (None, Some(number)) => format!("program {number}"),
        (None, None) => theme.unknown().to_owned(),
    }
}

const STATES: [BinaryState; 4] = [
    BinaryState::Other,
    BinaryState::NotSent,
    BinaryState::InFlight,
    BinaryState::Committed,
];

/// The devices on which its binary is, by state; the state that is furthest from running first.
fn binaries(row: &ProgramRow) -> impl Iterator<Item = (BinaryState, Vec<u32>)> {
    let by_state = STATES.into_iter().map(|state| {
        let on = row.devices.iter().filter(move |on| on.binary == state);
        (state, on.map(|on| on.id).collect::<Vec<u32>>())
    });
    by_state.filter(|(_, ids)| !ids.is_empty())
}

fn binary_everywhere(row: &ProgramRow, theme: Theme) -> String {
    let parts = binaries(row).map(|(at, ids)| format!("{} on {}", state(at), format::ids(&ids)));
    let parts = parts.collect::<Vec<_>>().join(", ");
    known(Some(parts).filter(|parts| !parts.is_empty()), theme)
}

const fn state(state: BinaryState) -> &'static str {
    match state {
        BinaryState::NotSent => "not sent",
        BinaryState::InFlight => "in flight",
        BinaryState::Committed => "committed",
        BinaryState::Other => "other",
    }
}

const fn state_ink(state: BinaryState) -> Ink {
    match state {
        BinaryState::Committed => Ink::Text,
        BinaryState::InFlight => Ink::Warning,
        BinaryState::NotSent | BinaryState::Other => Ink::Faint,
    }
}

/// A figure on the device where it is most; none of a program that is on no device.
fn most(row: &ProgramRow, of: impl Fn(&ProgramDevice) -> u64) -> Option<u64> {
    row.devices.iter().map(of).max()
}
