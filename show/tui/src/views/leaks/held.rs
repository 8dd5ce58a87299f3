//! Processes that held buffers when they should not have: at the end of a mesh, or at their own.

use crate::data::Data;
use crate::theme::{Ink, Theme};
use crate::views::naming::{age, owner};
use crate::widgets::{Canvas, Cell, Column, Prompt, Table};
use ratatui::layout::Rect;
use ttmem_report::Process;
use ttmem_report::format;
use ttmem_report::labels::departure;

const COLUMNS: &[Column] = &[
    Column::words("PROCESS", 16, 0).growing(),
    Column::words("STATE", 8, 1),
    Column::figures("AFTER CLOSE", 15, 0),
    Column::figures("BYTES", 10, 0),
    Column::figures("HELD AT EXIT", 12, 0),
    Column::words("ENDED", 20, 3),
    Column::figures("AGO", 11, 2),
];

pub(super) fn processes<'d>(data: &'d Data, find: &Prompt) -> Vec<&'d Process> {
    let bytes = |process: &Process| {
        let released = process
            .released
            .as_ref()
            .map_or(0, |released| released.buffer_bytes);
        process.leak_candidates.bytes.max(released)
    };
    let held = |process: &&Process| {
        let released = process.released.as_ref();
        process.leak_candidates.buffers > 0 || released.is_some_and(|released| released.buffers > 0)
    };
    let found =
        |process: &&Process| find.finds([process.name.as_deref()], [process.pid.map(u64::from)]);
    let shown = data.processes().iter().filter(held).filter(found);
    let mut shown: Vec<&Process> = shown.collect();
    shown.sort_by_key(|process| std::cmp::Reverse(bytes(process)));
    shown
}

pub(super) fn draw(canvas: &mut Canvas<'_>, area: Rect, processes: &[&Process], data: &Data) {
    let theme = canvas.theme;
    Table::of(COLUMNS).draw_first(canvas, area, processes, |process| {
        cells(process, data, theme)
    });
}

fn cells(process: &Process, data: &Data, theme: Theme) -> Vec<Cell> {
    let none = || Cell::faint(theme.unknown().to_owned());
    let candidates = process.leak_candidates;
    let released = process.released.as_ref();
    let (buffers, bytes) = if candidates.buffers > 0 {
        let text = format::counted(candidates.buffers, "buffer");
        let bytes = format::bytes(candidates.bytes);
        (
            Cell::inked(text, Ink::Warning),
            Cell::inked(bytes, Ink::Warning),
        )
    } else {
        (none(), none())
    };
    vec![
        Cell::new(owner(process.pid, process.instance.as_deref(), data, theme)),
        Cell::faint(process.state.to_string()),
        buffers,
        bytes,
        released.map_or_else(none, |released| {
            Cell::new(format::bytes(released.buffer_bytes))
        }),
        released.map_or_else(none, |released| {
            Cell::faint(departure(&released.reason).to_owned())
        }),
        released.map_or_else(none, |released| {
            Cell::faint(age(Some(released.time), data, theme))
        }),
    ]
}
