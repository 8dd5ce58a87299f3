//! Panels: a border with a title, and what is inside.

use super::canvas::Canvas;
use super::text;
use crate::theme::Ink;
use ratatui::layout::{Margin, Rect};
use ratatui::widgets::{Block, Widget as _};

/// Draws a border with a title in it; what is left inside.
///
/// An area that is too low for a border is all inside.
pub(crate) fn panel(canvas: &mut Canvas<'_>, area: Rect, title: &str, chosen: bool) -> Rect {
    let theme = canvas.theme;
    let area = area.intersection(canvas.area);
    if area.height < 3 || area.width < 8 {
        return area;
    }
    let ink = if chosen { Ink::Text } else { Ink::Frame };
    Block::bordered()
        .border_set(theme.border())
        .border_style(theme.style(ink))
        .render(area, canvas);
    let room = usize::from(area.width) - 6;
    let title = format!(" {} ", text::clip(title, room));
    canvas.put((area.x + 2, area.y), &title, room + 2, Ink::Strong);
    area.inner(Margin::new(1, 1))
}
