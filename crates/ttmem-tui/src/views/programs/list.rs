//! The table of programs, and all that is known of one.

use crate::data::Data;
use crate::format;
use crate::look::{Ink, Look};
use crate::views::naming::{age, known, known_bytes, owner};
use crate::widgets::{Cell, Column, Fact};
use std::cmp::Ordering;
use ttmem_api::{BinaryState, ProgramDevice, ProgramRow};

pub(super) const COLUMNS: &[Column] = &[
    Column::words("PROGRAM", 18, 0).growing(),
    Column::words("OWNER", 14, 6),
    Column::words("KIND", 11, 7),
    Column::figures("CORES", 5, 3),
    Column::figures("TEXT", 8, 0),
    Column::figures("CBS", 9, 0),
    Column::figures("KERNELS", 7, 8),
    Column::words("BINARY", 13, 2),
    Column::figures("RUNS", 6, 0),
    Column::figures("HITS", 6, 4),
    Column::figures("REUSES", 6, 5),
    Column::figures("LAST RUN", 11, 1),
    Column::figures("NUMBER", 7, 9),
];

/// The columns that rows can be sorted by, in the order of the key.
pub(super) const SORTS: [usize; 8] = [8, 11, 4, 5, 3, 6, 9, 0];

/// The column of an order, and whether its values go down.
pub(super) fn sorted(sort: usize, ascending: bool) -> Option<(usize, bool)> {
    let column = *SORTS.get(sort)?;
    // What ran last has the least age.
    Some((column, ascending == (column == 11)))
}

/// Which of two programs comes first when rows go up.
pub(super) fn compare(sort: usize, one: &ProgramRow, other: &ProgramRow) -> Ordering {
    let by = |of: fn(&ProgramRow) -> Option<u64>| of(one).cmp(&of(other));
    match SORTS.get(sort) {
        Some(0) => other.name.cmp(&one.name),
        Some(3) => one.cores.cmp(&other.cores),
        Some(4) => by(|row| row.text_bytes),
        Some(5) => by(|row| Some(row.cb_bytes)),
        Some(6) => by(|row| Some(row.kernels)),
        Some(9) => by(|row| most(row, |on| on.program_cache_hits)),
        Some(11) => one.last_run.cmp(&other.last_run),
        _runs => by(|row| Some(row.dispatches)),
    }
}

/// The cells of a row.
pub(super) fn cells(row: &ProgramRow, data: &Data, look: Look) -> Vec<Cell> {
    let faint = |text: String| Cell::inked(text, Ink::Faint);
    let (binary, ink) = binaries(row, look);
    let count = |count: Option<u64>| known(count.map(format::count), look);
    vec![
        Cell::new(name(row, look)),
        faint(owner(row.pid, row.instance.as_deref(), data, look)),
        faint(known(row.kind, look)),
        Cell::new(known(row.cores, look)),
        Cell::new(known_bytes(row.text_bytes, look)),
        Cell::new(format::bytes(row.cb_bytes)),
        faint(format::count(row.kernels)),
        Cell::inked(binary, ink),
        Cell::new(format::count(row.dispatches)),
        faint(count(most(row, |on| on.program_cache_hits))),
        faint(count(most(row, |on| on.binary_reuses))),
        Cell::new(age(row.last_run, data, look)),
        faint(known(row.program, look)),
    ]
}

/// All that is known of a program.
pub(super) fn facts(row: &ProgramRow, data: &Data, look: Look) -> Vec<Fact> {
    let text = |label: &'static str, value: String| (label, value, Ink::Text);
    let count = |count: Option<u64>| known(count.map(format::count), look);
    let mut facts = vec![
        text("program", name(row, look)),
        text("owner", owner(row.pid, row.instance.as_deref(), data, look)),
        text("binary", binary_everywhere(row, look)),
        text("size", known_bytes(row.binary_bytes, look)),
        text("number", known(row.program, look)),
        text("runtime id", known(row.runtime_id, look)),
        text("kind", known(row.kind, look)),
        text(
            "built",
            format!("{} ago", age(Some(row.created), data, look)),
        ),
        text("cores", known(row.cores, look)),
        text("text", known_bytes(row.text_bytes, look)),
        text("config", known_bytes(row.config_bytes, look)),
        text("CBs", format::bytes(row.cb_bytes)),
        text(
            "kernels",
            format!(
                "{} with {}",
                format::count(row.kernels),
                format::bytes(row.kernel_bytes)
            ),
        ),
        text("from disk", format::counted(row.jit_disk_hits, "kernel")),
        text("runs", format::count(row.dispatches)),
        text("first run", age(row.first_run, data, look)),
        text("last run", age(row.last_run, data, look)),
        text("cache hits", count(most(row, |on| on.program_cache_hits))),
        text("misses", count(most(row, |on| on.program_cache_misses))),
        text("reuses", count(most(row, |on| on.binary_reuses))),
        text("", String::new()),
    ];
    facts.extend(row.devices.iter().map(|on| on_device(on, look)));
    facts
}

fn on_device(on: &ProgramDevice, look: Look) -> Fact {
    let resident = if on.resident_cores > 0 {
        format!(
            ", the last on {}",
            format::counted(on.resident_cores.into(), "core")
        )
    } else {
        String::new()
    };
    let sent = known_bytes(on.sent_bytes, look);
    let line = format!(
        "device {:<3} {:<9} {:>9} sent {:>6} runs{resident}",
        on.id,
        state(on.binary),
        sent,
        format::count(on.dispatches),
    );
    ("", line, state_ink(on.binary))
}

/// What a program is called.
pub(super) fn name(row: &ProgramRow, look: Look) -> String {
    match (&row.name, row.program) {
        (Some(name), _) => name.clone(),
        (None, Some(number)) => format!("program {number}"),
        (None, None) => look.unknown().to_owned(),
    }
}

/// The states of a binary, those furthest from running first.
const STATES: [BinaryState; 4] = [
    BinaryState::Other,
    BinaryState::NotSent,
    BinaryState::InFlight,
    BinaryState::Committed,
];

/// On how many devices its binary is, of the state that is furthest from running.
fn binaries(row: &ProgramRow, look: Look) -> (String, Ink) {
    for known in STATES {
        let count = row.devices.iter().filter(|on| on.binary == known).count();
        if count > 0 {
            return (format!("{count} {}", state(known)), state_ink(known));
        }
    }
    (look.unknown().to_owned(), Ink::Faint)
}

/// The devices on which its binary is, by state.
fn binary_everywhere(row: &ProgramRow, look: Look) -> String {
    let mut parts = Vec::new();
    for known in STATES {
        let on = row.devices.iter().filter(|on| on.binary == known);
        let ids: Vec<u32> = on.map(|on| on.id).collect();
        if !ids.is_empty() {
            parts.push(format!("{} on {}", state(known), format::ids(&ids)));
        }
    }
    if parts.is_empty() {
        return look.unknown().to_owned();
    }
    parts.join(", ")
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
