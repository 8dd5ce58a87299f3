//! What keys do and what figures mean, over whatever is on the screen.

use super::{KeyHelp, View};
use crate::input::Key;
use crate::look::Look;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// Keys that mean the same everywhere.
pub(crate) const EVERYWHERE: &[KeyHelp] = &[
    KeyHelp {
        keys: "q",
        does: "quit",
    },
    KeyHelp {
        keys: "?",
        does: "help",
    },
    KeyHelp {
        keys: "1-8",
        does: "view",
    },
    KeyHelp {
        keys: "Space",
        does: "pause",
    },
    KeyHelp {
        keys: "m",
        does: "mark",
    },
    KeyHelp {
        keys: "r",
        does: "refresh",
    },
    KeyHelp {
        keys: "+ -",
        does: "interval",
    },
];

/// The help, and how far it is scrolled.
#[derive(Debug, Default)]
pub(crate) struct Help;

impl Help {
    /// Takes a key; whether the help stays open.
    pub(crate) fn handle(&mut self, _key: Key) -> bool {
        false
    }

    /// Draws it over a view.
    pub(crate) fn draw(
        &mut self,
        _canvas: &mut Buffer,
        _area: Rect,
        _view: &dyn View,
        _look: Look,
    ) {
    }
}
