//! Text for people: read-API types in, aligned text out.
//!
//! Pure functions without terminal, clock or I/O: the subcommands find out the width and whether
//! colours are wanted, and print. Lines are never wider than the width that was asked for, which
//! is at least [`MIN_WIDTH`]. What a server sent is made printable here, because it may come from
//! anyone who could bind the socket.

mod devices;
mod doctor;
mod dump;
mod explained;
mod fleet;
mod growing;
mod json;
mod last;
mod paint;
mod played;
mod ran;
mod stack;
mod status;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use doctor::{DoctorLine, doctor};
pub(crate) use dump::{Dump, DumpRow};
pub(crate) use explained::explained;
pub(crate) use fleet::fleet;
#[cfg(test)]
pub(crate) use json::json_report;
pub(crate) use json::{as_map, in_seconds, print_report};
pub(crate) use last::last_events;
pub(crate) use played::{Listed, facts, played, scenarios};
pub(crate) use ran::ran;
pub(crate) use status::{forgotten, status};

use crate::output::Screen;
use paint::Paint;
use ttmem_report::PeakBytes;
use ttmem_report::format::{bytes, count};
use ttmem_tui::text::{Column, Table};

/// The narrowest layout; a narrower terminal wraps its lines.
const MIN_WIDTH: usize = 80;

/// Beyond this, columns drift too far apart to read across.
const MAX_WIDTH: usize = 160;

/// The width a layout uses when a terminal of `width` columns asks for it.
fn layout_width(width: usize) -> usize {
    width.clamp(MIN_WIDTH, MAX_WIDTH)
}

/// A pid, where this namespace has one for the process, or something else that may be missing.
fn known(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

struct Page<'a, T> {
    document: &'a T,
    width: usize,
    paint: Paint,
}

impl<'a, T> Page<'a, T> {
    fn new(document: &'a T, screen: Screen) -> Self {
        Self {
            document,
            width: layout_width(screen.width),
            paint: Paint {
                color: screen.color,
            },
        }
    }

    fn kinds<'k>(&self, kinds: impl Iterator<Item = (&'k str, u64)>) -> String {
        const KINDS: Table<'_> = Table::of(&[Column::words("", 34, 0), Column::figures("", 8, 0)]);
        let line = |(kind, times)| {
            let cells = [format!("  {kind}"), count(times)];
            KINDS.line(&cells, self.width) + "\n"
        };
        let lines: String = kinds.map(line).collect();
        self.paint.warning(&lines)
    }

    /// A table of bytes by class of memory, a row for each device.
    fn sizes(&self, title: &'static str, rows: impl Iterator<Item = (u32, PeakBytes)>) -> String {
        let columns = size_columns(title);
        let table = Table::of(&columns);
        let mut text = format!("\n{}\n", self.paint.heading(&table.heading(self.width)));
        for (device, of) in rows {
            let figures = [of.dram, of.l1, of.l1_small, of.trace];
            let mut cells = vec![device.to_string()];
            cells.extend(figures.map(bytes));
            text.push_str(&table.line(&cells, self.width));
            text.push('\n');
        }
        text
    }
}

/// Charged bytes only: what programs have registered is not there at the same time.
const fn size_columns(title: &'static str) -> [Column; 5] {
    [
        Column::words(title, 5, 0),
        Column::figures("DRAM", 11, 0),
        Column::figures("L1 buffers", 11, 0),
        Column::figures("L1_SMALL", 11, 0),
        Column::figures("TRACE", 11, 0),
    ]
}
