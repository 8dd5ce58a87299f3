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
pub(crate) use last::last_events;
pub(crate) use played::{Listed, facts, played, scenarios};
pub(crate) use ran::ran;
pub(crate) use refused::{Refused, refused};
pub(crate) use status::status;

/// The narrowest layout; a narrower terminal wraps its lines.
const MIN_WIDTH: usize = 80;

/// Beyond this, columns drift too far apart to read across.
const MAX_WIDTH: usize = 160;

/// The width a layout uses when a terminal of `width` columns asks for it.
fn layout_width(width: usize) -> usize {
    width.clamp(MIN_WIDTH, MAX_WIDTH)
}
