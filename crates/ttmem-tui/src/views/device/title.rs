//! The line that says which device a view is of: all its names, and how its figures are known.

use crate::data::Data;
use crate::look::{Ink, Look};
use crate::views::Chosen;
use crate::widgets::text;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ttmem_api::Device;

/// The most columns of a name that somebody gave.
const NAME_COLUMNS: usize = 16;

/// Draws the line at the top of an area; where the next text may begin.
///
/// Without a device it says why there is none.
pub(crate) fn draw_title(
    canvas: &mut Buffer,
    area: Rect,
    data: &Data,
    chosen: &Chosen,
    look: Look,
) -> u16 {
    let area = area.intersection(canvas.area);
    if area.is_empty() {
        return area.x;
    }
    let Some(device) = chosen.device(data) else {
        let why = if data.totals().is_some() {
            "no device: nothing has been reported yet"
        } else {
            "waiting for the server"
        };
        return text::put(
            canvas,
            (area.x, area.y),
            why,
            usize::from(area.width),
            look.style(Ink::Faint),
        );
    };
    let place = chosen.place(data) + 1;
    let mut column = area.x;
    let parts = [
        (Ink::Strong, format!("Device {}", device.id)),
        (Ink::Faint, format!("{place} of {}", data.devices().len())),
    ];
    for (ink, part) in parts.into_iter().chain(facts(device, look)) {
        let room = usize::from(area.right().saturating_sub(column));
        let end = text::put(canvas, (column, area.y), &part, room, look.style(ink));
        column = end.saturating_add(2);
    }
    column
}

/// What is known of a device, each with its meaning.
fn facts(device: &Device, look: Look) -> Vec<(Ink, String)> {
    let name = |name: &Option<String>| {
        let name = name.as_deref().unwrap_or(look.unknown());
        (Ink::Text, text::clip(name, NAME_COLUMNS))
    };
    let mut facts = vec![name(&device.board), name(&device.arch)];
    if let Some(unique_id) = device.unique_id {
        facts.push((Ink::Text, unique_id.to_string()));
    }
    if let Some(scope) = &device.scope {
        let scope = format!("of {}", text::clip(scope, NAME_COLUMNS));
        facts.push((Ink::Text, scope));
    }
    facts.push(match device.verified {
        Some(true) => (Ink::Good, "verified".to_owned()),
        Some(false) => (Ink::Warning, "differs".to_owned()),
        None => (Ink::Faint, "unverified".to_owned()),
    });
    if let Some(remote) = device.remote {
        let reached = if remote { "remote" } else { "PCIe" };
        facts.push((Ink::Faint, reached.to_owned()));
    }
    if let Some(source) = device.source {
        facts.push((Ink::Faint, source.to_string()));
    }
    facts
}
