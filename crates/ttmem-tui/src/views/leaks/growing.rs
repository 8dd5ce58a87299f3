//! What grows with the marks, and what was held at close, each by its line of Python.

use crate::data::Data;
use crate::format;
use crate::theme::{Ink, Theme};
use crate::views::naming::known;
use crate::widgets::{Canvas, below, row_of};
use ratatui::layout::Rect;
use ttmem_api::{LeakGroup, Leaks};

/// Rows of each of the two.
const ROWS: usize = 4;

/// Draws both; what is left below. Without either nothing is drawn.
pub(super) fn draw(canvas: &mut Canvas<'_>, area: Rect, data: &Data) -> Rect {
    let Some(leaks) = data.leaks.as_ref().map(|fresh| &fresh.document) else {
        return area;
    };
    let theme = canvas.theme;
    let lines = lines(leaks, theme);
    let rows = u16::try_from(lines.len()).unwrap_or(u16::MAX);
    // The groups below are never pushed out.
    if rows == 0 || rows.saturating_add(6) > area.height {
        return area;
    }
    for (row, line) in (0..rows).zip(&lines) {
        canvas.line(row_of(area, row), line);
    }
    below(area, rows + 1)
}

type Line = Vec<(String, Ink)>;

fn lines(leaks: &Leaks, theme: Theme) -> Vec<Line> {
    let growing = leaks.growing.iter().map(|growing| {
        vec![
            ("growing  ".to_owned(), Ink::Warning),
            (growing.sentence(), Ink::Strong),
            (about(&growing.group, theme), Ink::Faint),
        ]
    });
    let held = leaks.held_at_close.iter().filter(|held| !held.growing);
    let held = held.map(|held| {
        let group = &held.group;
        vec![
            ("held at close  ".to_owned(), Ink::Text),
            (
                format!("{}, {}", format::bytes(group.bytes), group.place()),
                Ink::Strong,
            ),
            (about(group, theme), Ink::Faint),
        ]
    });
    growing.take(ROWS).chain(held.take(ROWS)).collect()
}

/// Whose it is: the operation, how many of which size, the process.
fn about(group: &LeakGroup, theme: Theme) -> String {
    let dot = theme.between();
    let operation = match (&group.line, &group.operation) {
        (Some(_), Some(operation)) => format!("{dot}{operation}"),
        _said_or_unknown => String::new(),
    };
    let buffers = format::counted(group.buffers, "buffer");
    let each = group
        .each_bytes
        .map_or_else(String::new, |each| format!(" of {}", format::bytes(each)));
    let ended = if group.departed { ", ended" } else { "" };
    let pid = known(group.pid, theme);
    format!("{operation}{dot}{buffers}{each}{dot}pid {pid}{ended}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::screen::THEME;
    use ttmem_api::{GrowingGroup, HeldAtClose, SCHEMA, Timestamp};

    fn group(line: &str, bytes: u64) -> LeakGroup {
        LeakGroup {
            pid: Some(7),
            process: None,
            departed: false,
            line: Some(format!("/m/{line} forward")),
            operation: Some("ttnn::empty".to_owned()),
            class: None,
            buffers: 2,
            bytes,
            each_bytes: Some(bytes / 2),
        }
    }

    #[test]
    fn growth_comes_first_and_what_was_held_says_so() {
        let held = |line, growing| HeldAtClose {
            group: group(line, 4096),
            growing,
        };
        let leaks = Leaks {
            schema: SCHEMA,
            time: Timestamp::from_unix_nanos(0),
            growing: vec![GrowingGroup {
                group: group("model.py:57", 8 << 20),
                mark: Some("step".to_owned()),
                since: 3,
                steps: 4,
                bytes_per_step: 2 << 20,
            }],
            held_at_close: vec![held("model.py:57", true), held("cache.py:9", false)],
            left_out: 0,
        };
        let text = |line: &Line| {
            line.iter()
                .map(|(part, _)| part.as_str())
                .collect::<String>()
        };
        let lines: Vec<String> = lines(&leaks, THEME).iter().map(text).collect();
        assert_eq!(lines.len(), 2, "{lines:?}");
        let first = "growing  +2.0 MiB per step since step 3, model.py:57";
        assert!(lines[0].starts_with(first), "{lines:?}");
        assert!(lines[0].contains("2 buffers of 4.0 MiB"), "{lines:?}");
        let second = "held at close  4.0 KiB, cache.py:9";
        assert!(lines[1].starts_with(second), "{lines:?}");
    }
}
