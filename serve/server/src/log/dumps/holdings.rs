//! The rows of one device, collected from all processes.

use std::cmp::Reverse;
use std::fmt::{self, Write as _};

use ttmem_event::{Class, TextId};
use ttmem_ledger::program::{Cb, Kernel, Program, ProgramOnDevice};
use ttmem_ledger::{BufferRow, ProcessView, View};

use super::RowLimit;

/// Something that a process holds on a device.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held<'v, T> {
    pub(super) process: &'v ProcessView,
    /// The program that it is of; none for buffers, and where an old sender names none.
    pub(super) program: Option<&'v Program>,
    pub(super) row: &'v T,
}

impl<'v, T> Held<'v, T> {
    pub(super) fn pid(&self) -> Option<u32> {
        self.process.facts.identity.pid
    }

    /// A text that its process defined.
    pub(super) fn text(&self, id: TextId) -> Option<&'v str> {
        let text = self.process.account.definitions.name(id)?;
        (!text.is_empty()).then_some(text)
    }
}

pub(super) fn buffers(view: &View, device: u32) -> [Vec<Held<'_, BufferRow>>; Class::COUNT] {
    let mut held: [Vec<Held<'_, BufferRow>>; Class::COUNT] = Default::default();
    for (process, slot) in processes_on(view, device) {
        let meshes = &process.account.meshes;
        let on_device: Vec<bool> = meshes
            .iter()
            .map(|mesh| mesh.devices.contains(&slot))
            .collect();
        for (_, row) in process.rows.buffers.iter() {
            let mesh = usize::try_from(row.mesh).ok();
            if mesh.and_then(|mesh| on_device.get(mesh)) == Some(&true) {
                held[row.class.index()].push(Held {
                    process,
                    program: None,
                    row,
                });
            }
        }
    }
    held
}

/// The circular buffers and other per-core storage of a device.
pub(super) fn cbs(view: &View, device: u32) -> Vec<Held<'_, Cb>> {
    let mut held = of_programs(view, device, ProgramOnDevice::cbs);
    for (process, slot) in processes_on(view, device) {
        let legacy = process.rows.legacy_cbs.iter();
        let legacy = legacy.filter(|(_, row)| row.device == slot);
        held.extend(legacy.map(|(_, row)| Held {
            process,
            program: None,
            row: &row.cb,
        }));
    }
    held
}

pub(super) fn kernels(view: &View, device: u32) -> Vec<Held<'_, Kernel>> {
    of_programs(view, device, ProgramOnDevice::kernels)
}

/// What the programs of a device have there.
fn of_programs<T>(
    view: &View,
    device: u32,
    rows: fn(&ProgramOnDevice) -> &[T],
) -> Vec<Held<'_, T>> {
    let mut held = Vec::new();
    for (process, slot) in processes_on(view, device) {
        for (_, program) in process.rows.programs.iter() {
            let on = program.on_device(slot);
            held.extend(on.map_or(&[][..], rows).iter().map(|row| Held {
                process,
                program: Some(program),
                row,
            }));
        }
    }
    held
}

/// The processes that speak of a device, each with its own number for it.
fn processes_on(view: &View, device: u32) -> impl Iterator<Item = (&ProcessView, u32)> {
    view.processes
        .iter()
        .filter_map(move |process| Some((process, process.device_slot(device)?)))
}

/// Writes the largest rows, largest first and equal ones by id, and how many are left out.
///
/// Only those are sorted: of a million rows a dump shows a thousand.
pub(super) fn write_largest<T>(
    out: &mut String,
    mut rows: Vec<T>,
    limit: &mut RowLimit,
    indent: &str,
    size_and_id: impl Fn(&T) -> (u64, u64),
    write_row: impl Fn(&mut String, &T) -> fmt::Result,
) -> fmt::Result {
    let order = |row: &T| {
        let (size, id) = size_and_id(row);
        (Reverse(size), id)
    };
    let count = rows.len();
    let shown = limit.take(count);
    if shown < count {
        rows.select_nth_unstable_by_key(shown, order);
        rows.truncate(shown);
    }
    rows.sort_by_key(order);
    for row in &rows {
        write_row(out, row)?;
    }
    match count - shown {
        0 => Ok(()),
        hidden => writeln!(out, "{indent}… and {hidden} more"),
    }
}
