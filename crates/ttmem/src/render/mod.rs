//! Text for people: read-API types in, aligned text out.
//!
//! Pure functions without terminal, clock or I/O: the subcommands find out the width and whether
//! colours are wanted, and print. Lines are never wider than the width that was asked for, which
//! is at least [`MIN_WIDTH`]. What a server sent is made printable here, because it may come from
//! anyone who could bind the socket.

mod bars;
mod cells;
mod devices;
mod dump;
mod forgotten;
mod json;
mod last;
mod played;
mod ran;
mod refused;
mod stack;
mod status;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use dump::{Dump, DumpRow};
pub(crate) use forgotten::forgotten;
pub(crate) use json::{as_map, in_seconds, json_report};
pub(crate) use last::last_events;
pub(crate) use played::{Listed, facts, played, scenarios};
pub(crate) use ran::ran;
pub(crate) use refused::{Refused, refused};
pub(crate) use status::status;

use crate::output::Screen;
use cells::{Paint, left, right};
use ttmem_tui::format::count;

/// The narrowest layout; a narrower terminal wraps its lines.
const MIN_WIDTH: usize = 80;

/// Beyond this, columns drift too far apart to read across.
const MAX_WIDTH: usize = 160;

/// The width a layout uses when a terminal of `width` columns asks for it.
fn layout_width(width: usize) -> usize {
    width.clamp(MIN_WIDTH, MAX_WIDTH)
}

/// A document that is being laid out.
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

    /// Contradictions by kind, one per line.
    fn kinds<'k>(&self, kinds: impl Iterator<Item = (&'k str, u64)>) -> String {
        let line = |(kind, times)| format!("  {} {}\n", left(kind, 32), right(&count(times), 8));
        let lines: String = kinds.map(line).collect();
        self.paint.warning(&lines)
    }
}

/// A row of a table: its name, then figures of one width.
fn row<C: AsRef<str>>(name: &str, name_width: usize, cells: &[C], width: usize) -> String {
    let cells = cells.iter().map(|cell| right(cell.as_ref(), width));
    let mut line: String = std::iter::once(left(name, name_width))
        .chain(cells)
        .collect();
    line.push('\n');
    line
}
