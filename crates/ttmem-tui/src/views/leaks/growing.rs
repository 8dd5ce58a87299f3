//! What grows with the marks, and what was held at close, each by its line of Python.

use crate::data::Data;
use crate::format;
use crate::theme::{Ink, Theme};
use crate::views::naming::known;
use crate::widgets::{Canvas, Prompt, below, row_of};
use ratatui::layout::Rect;
use ttmem_api::{LeakGroup, Leaks};

/// Rows of each of the two.
const ROWS: usize = 4;

/// Draws both; what is left below. Without either nothing is drawn.
pub(super) fn draw(canvas: &mut Canvas<'_>, area: Rect, data: &Data, find: &Prompt) -> Rect {
    let Some(leaks) = data.leaks.as_ref().map(|fresh| &fresh.document) else {
        return area;
    };
    let theme = canvas.theme;
    let lines = lines(leaks, find, theme);
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

fn lines(leaks: &Leaks, find: &Prompt, theme: Theme) -> Vec<Line> {
    let found = |group: &LeakGroup| {
        let LeakGroup {
            line,
            operation,
            process,
            ..
        } = group;
        let names = [line, operation, process].map(Option::as_deref);
        find.finds(names, [group.pid.map(u64::from)])
    };
    let growing = leaks.growing.iter();
    let growing = growing.filter(|growing| found(&growing.group));
    let growing = growing.map(|growing| {
        vec![
            ("growing  ".to_owned(), Ink::Warning),
            (growing.sentence(), Ink::Strong),
            (about(&growing.group, theme), Ink::Faint),
        ]
    });
    let held = leaks.held_at_close.iter();
    let held = held.filter(|held| !held.growing && found(&held.group));
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
    use crate::testing::{leaks, screen::THEME};

    fn texts(find: &Prompt) -> Vec<String> {
        let lines = lines(&leaks(), find, THEME);
        let text = |line: &Line| line.iter().map(|(part, _)| part.as_str()).collect();
        lines.iter().map(text).collect()
    }

    #[test]
    fn growth_comes_first_and_what_was_held_says_so() {
        let lines = texts(&Prompt::default());
        assert_eq!(lines.len(), 2, "{lines:?}");
        let first = "growing  +2.0 MiB per step since step 3, model.py:57";
        assert!(lines[0].starts_with(first), "{lines:?}");
        assert!(lines[0].contains("2 buffers of 4.0 MiB"), "{lines:?}");
        let second = "held at close  4.0 KiB, cache.py:9";
        assert!(lines[1].starts_with(second), "{lines:?}");
    }

    #[test]
    fn what_is_looked_for_is_found_here_as_well() {
        for (text, found) in [
            ("CACHE.py", 1),
            ("ttnn::empty", 2),
            ("4242", 2),
            ("none", 0),
        ] {
            let mut find = Prompt::default();
            find.set(text);
            assert_eq!(texts(&find).len(), found, "{text}");
        }
    }
}
