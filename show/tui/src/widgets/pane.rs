//! A pane with all that is known of the chosen row of a list.
//!
//! Where there is room it stands beside the list; elsewhere it is opened below, with a key.

use super::canvas::Canvas;
use super::text;
use crate::theme::Ink;
use ratatui::layout::Rect;

/// Columns from which a list leaves room for a pane beside it.
const WIDE: u16 = 150;

const LABEL: usize = 11;

/// Columns from which two facts share a row.
const TWO_ABREAST: u16 = 70;

/// Whether the pane is as it would be by itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Pane {
    toggled: bool,
}

/// Something that is known: what it is called, what it is, what that means.
pub(crate) type Fact = (&'static str, String, Ink);

impl Pane {
    pub(crate) const fn toggle(&mut self) {
        self.toggled = !self.toggled;
    }

    pub(crate) const fn close(&mut self) -> bool {
        std::mem::replace(&mut self.toggled, false)
    }

    pub(crate) fn split(self, area: Rect) -> (Rect, Option<Room>) {
        if area.width >= WIDE {
            if self.toggled {
                return (area, None);
            }
            let width = area.width * 3 / 10;
            let list = Rect::new(area.x, area.y, area.width - width - 1, area.height);
            let area = Rect::new(list.right() + 1, area.y, width, area.height);
            return (list, Some(Room { area, beside: true }));
        }
        if !self.toggled || area.height < 8 {
            return (area, None);
        }
        let height = area.height / 2;
        let list = Rect::new(area.x, area.y, area.width, area.height - height);
        let area = Rect::new(area.x, list.bottom(), area.width, height);
        (
            list,
            Some(Room {
                area,
                beside: false,
            }),
        )
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    area: Rect,
    beside: bool,
}

impl Room {
    pub(crate) fn draw(self, canvas: &mut Canvas<'_>, title: &str, facts: &[Fact]) {
        let inside = self.draw_frame(canvas, title);
        draw_facts(canvas, inside, facts);
    }

    /// Draws the line between the list and the pane; what is left for the facts.
    fn draw_frame(self, canvas: &mut Canvas<'_>, title: &str) -> Rect {
        let theme = canvas.theme;
        let area = self.area.intersection(canvas.area);
        if area.width < 4 || area.height < 2 {
            return Rect::new(area.x, area.y, 0, 0);
        }
        let room = usize::from(area.width - 2);
        if self.beside {
            let down = theme.pick("│", "|");
            for row in area.y..area.bottom() {
                canvas.put((area.x, row), down, 1, Ink::Frame);
            }
            canvas.put((area.x + 2, area.y), title, room, Ink::Strong);
            return Rect::new(area.x + 2, area.y + 1, area.width - 2, area.height - 1);
        }
        canvas.text(area, theme.rule(area.width), Ink::Frame);
        let title = format!(" {title} ");
        canvas.put((area.x + 2, area.y), &title, room, Ink::Strong);
        Rect::new(area.x, area.y + 1, area.width, area.height - 1)
    }
}

/// Draws facts, as many as there is room for: in a wide area two with names share a row.
fn draw_facts(canvas: &mut Canvas<'_>, area: Rect, facts: &[Fact]) {
    let half = area.width / 2;
    let pairs = area.width >= TWO_ABREAST;
    let (mut row, mut second) = (area.y, false);
    for (label, value, ink) in facts {
        let alone = !pairs || label.is_empty();
        if second && alone {
            (row, second) = (row + 1, false);
        }
        if row >= area.bottom() {
            break;
        }
        let left = if second { area.x + half } else { area.x };
        let right = if alone || second {
            area.right()
        } else {
            area.x + half - 1
        };
        let label = if label.is_empty() {
            String::new()
        } else {
            text::left(label, LABEL) + " "
        };
        let room = |column: u16| usize::from(right.saturating_sub(column));
        let column = canvas.put((left, row), &label, room(left), Ink::Faint);
        canvas.put((column, row), value, room(column), *ink);
        if alone || second {
            (row, second) = (row + 1, false);
        } else {
            second = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stands_beside_a_wide_list_and_opens_below_a_narrow_one() {
        let mut pane = Pane::default();
        let (wide, narrow) = (Rect::new(0, 0, 200, 50), Rect::new(0, 3, 80, 21));
        let (list, room) = pane.split(wide);
        let room = room.unwrap();
        assert_eq!((list.width, room.area), (139, Rect::new(140, 0, 60, 50)));
        assert!(room.beside);
        assert_eq!(pane.split(narrow), (narrow, None));
        pane.toggle();
        assert_eq!(pane.split(wide), (wide, None));
        let (list, room) = pane.split(narrow);
        let room = room.unwrap();
        assert_eq!((list.height, room.area), (11, Rect::new(0, 14, 80, 10)));
        assert!(!room.beside && pane.close() && !pane.close());
    }
}
