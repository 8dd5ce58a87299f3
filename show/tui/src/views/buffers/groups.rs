//! Buffers summed up: a table of groups, for the list of buffers and for what grew.

use crate::data::Data;
use crate::theme::{Ink, Theme};
use crate::views::naming::{self, age, class_ink, percent_of};
use crate::widgets::{Bar, Canvas, Cell, Column, Cursor, Table};
use ratatui::layout::Rect;
use ttmem_report::format;
use ttmem_report::{BufferGroup, BufferGroups, GroupBy, MemoryClass};

/// What the view of buffers can be grouped by.
pub const GROUPINGS: [GroupBy; 6] = [
    GroupBy::Line,
    GroupBy::Operation,
    GroupBy::Size,
    GroupBy::Class,
    GroupBy::Process,
    GroupBy::Layout,
];

/// The ways to group, the one that says most first: lines of Python where they are recorded.
pub(in crate::views) fn ways(data: &Data) -> [GroupBy; 6] {
    let mut ways = GROUPINGS;
    if !data.has_lines() {
        ways.rotate_left(1);
    }
    ways
}

pub(in crate::views) const NO_FILTER: &str =
    "The server cannot list just these: it has no such filter.";

const fn columns(title: &'static str) -> [Column; 7] {
    [
        Column::words(title, 14, 0).growing(),
        Column::figures("CHARGED", 10, 0),
        Column::figures("SHARE", 6, 0),
        Column::figures("BUFFERS", 7, 0),
        Column::figures("REQUESTED", 10, 4),
        Column::figures("OLDEST", 11, 1),
        Column::figures("NEWEST", 11, 2),
    ]
}

/// Columns of the bar that shows a group's share, where there is room for it.
const BAR: u16 = 24;

/// Columns from which there is.
const WIDE: u16 = 120;

pub(in crate::views) fn draw_groups(
    canvas: &mut Canvas<'_>,
    area: Rect,
    cursor: &mut Cursor,
    groups: &BufferGroups,
    data: &Data,
) {
    let theme = canvas.theme;
    let title = match groups.by {
        GroupBy::Size => "CHARGED EACH",
        GroupBy::Class => "CLASS",
        GroupBy::Process => "PROCESS",
        GroupBy::Layout => "LAYOUT",
        GroupBy::Line | GroupBy::Stack => "PYTHON LINE",
        GroupBy::Operation | GroupBy::Other => "OPERATION",
    };
    let table = Table {
        columns: &columns(title),
        sorted: Some((1, true)),
    };
    let bars = area.width >= WIDE;
    let width = if bars {
        area.width - BAR - 1
    } else {
        area.width
    };
    let part = Rect { width, ..area };
    table.draw_all(canvas, part, cursor, &groups.groups, |group| {
        cells(group, groups, data, theme)
    });
    if !bars {
        return;
    }
    let top = usize::try_from(cursor.top).unwrap_or(usize::MAX);
    for (line, group) in (1..area.height).zip(groups.groups.iter().skip(top)) {
        let ink = match groups.by {
            GroupBy::Class => class_ink(class_of(group)),
            _other => Ink::Dram,
        };
        let bar = Bar::new(&[(ink, group.charged_bytes)], Some(groups.charged_bytes));
        bar.draw(canvas, (part.right() + 1, area.y + line), BAR);
    }
}

fn cells(group: &BufferGroup, groups: &BufferGroups, data: &Data, theme: Theme) -> Vec<Cell> {
    let key = match (&group.key, groups.by) {
        (None, _) => Cell::faint(theme.unknown()),
        (Some(key), GroupBy::Size) => Cell::new(match size_of(key) {
            // Sizes that differ by a page look alike in units.
            Some(size) => format!("{} ({size})", format::bytes(size)),
            None => key.clone(),
        }),
        (Some(key), GroupBy::Class) => Cell::inked(key.as_str(), class_ink(class_of(group))),
        (Some(key), _) => Cell::new(key.as_str()),
    };
    let share = percent_of(group.charged_bytes, Some(groups.charged_bytes), theme);
    vec![
        key,
        Cell::new(format::bytes(group.charged_bytes)),
        Cell::new(share),
        Cell::new(format::count(group.buffers)),
        Cell::faint(format::bytes(group.requested_bytes)),
        Cell::new(age(group.oldest, data, theme)),
        Cell::new(age(group.newest, data, theme)),
    ]
}

/// The bytes that the key of a group by size stands for.
pub(in crate::views) fn size_of(key: &str) -> Option<u64> {
    key.parse().ok()
}

pub(in crate::views) fn class_of(group: &BufferGroup) -> MemoryClass {
    naming::class_of(group.key.as_deref().unwrap_or_default())
}

pub(in crate::views) fn count_of(groups: &BufferGroups) -> String {
    let listed = format::counted(groups.groups.len() as u64, "group");
    if groups.left_out == 0 {
        return listed;
    }
    format!(
        "{listed} and {} smaller ones",
        format::count(groups.left_out)
    )
}
