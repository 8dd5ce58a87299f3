//! What a view says in plain words when it has nothing to show.

use crate::data::{Data, Link};
use crate::theme::Ink;
use crate::widgets::{Canvas, text};
use ratatui::layout::{Margin, Rect};

/// The most columns of a line: longer ones are hard to read.
const LINE: usize = 76;

pub(crate) fn draw_notice(canvas: &mut Canvas<'_>, area: Rect, said: &str, advice: &str) {
    let inside = area.inner(Margin::new(2, 0));
    let columns = usize::from(inside.width).min(LINE);
    let mut row = area.y.saturating_add(area.height / 3);
    for (words, ink) in [(said, Ink::Strong), (advice, Ink::Text)] {
        for line in text::wrap(words, columns) {
            canvas.pen(inside, row).put(&line, ink);
            row = row.saturating_add(1);
        }
    }
}

/// Says that the server has not been heard yet; whether that is so.
pub(crate) fn draw_silence(canvas: &mut Canvas<'_>, area: Rect, data: &Data) -> bool {
    if data.totals().is_some() {
        return false;
    }
    let address = &data.address;
    let (said, advice) = match &data.link {
        Link::Connecting | Link::Up if data.is_file() => (format!("Reading {address}."), ""),
        Link::Down { reason, .. } => (
            format!("The server at {address} does not answer: {reason}"),
            "It is asked again and again. `ttmem run -- PROGRAM` and `ttmem serve` start one.",
        ),
        Link::Connecting | Link::Up => (
            format!("Waiting for the server at {address}."),
            "If there is none, `ttmem run -- PROGRAM` and `ttmem serve` start one.",
        ),
    };
    draw_notice(canvas, area, &said, advice);
    true
}
