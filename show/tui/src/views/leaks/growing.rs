//! What grows with the marks, and what was held at close, each by its line of Python.

use crate::data::Data;
use crate::theme::{Ink, Theme};
use crate::views::naming::known;
use crate::widgets::{Canvas, Prompt, row_of};
use ratatui::layout::Rect;
use ttmem_report::LeakGroup;
use ttmem_report::format;

pub(super) type Line = Vec<(String, Ink)>;

/// Draws lines, with a blank row below; where there is no room for all, the last says how many more
/// there are.
pub(super) fn draw(canvas: &mut Canvas<'_>, area: Rect, lines: &[Line]) {
    let rows = area.height.saturating_sub(1);
    let fit = usize::from(rows);
    let shown = if lines.len() > fit {
        fit.saturating_sub(1)
    } else {
        lines.len()
    };
    for (row, line) in (0..rows).zip(&lines[..shown]) {
        canvas.line(row_of(area, row), line);
    }
    if shown < lines.len() && rows > 0 {
        let more = format!("{} more", lines.len() - shown);
        canvas.text(row_of(area, rows - 1), more, Ink::Faint);
    }
}

/// What grows first, then what was only held; last what the server left out.
pub(super) fn lines(data: &Data, find: &Prompt, theme: Theme) -> Vec<Line> {
    let Some(leaks) = data.leaks.as_ref().map(|fresh| &fresh.document) else {
        return Vec::new();
    };
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
            (growing.sentence.clone(), Ink::Strong),
            (about(&growing.group, theme), Ink::Faint),
        ]
    });
    let held = leaks.held_at_close.iter();
    // What grew of a process that has ended is in the other list, too.
    let held = held.filter(|held| !(held.growing && held.group.departed) && found(&held.group));
    let held = held.map(|held| {
        let group = &held.group;
        let (word, ink) = if held.growing {
            ("grew until close  ", Ink::Warning)
        } else {
            ("held at close  ", Ink::Text)
        };
        vec![
            (word.to_owned(), ink),
            (
                format!("{}, {}", format::bytes(group.bytes), group.place()),
                Ink::Strong,
            ),
            (about(group, theme), Ink::Faint),
        ]
    });
    let left_out = (leaks.left_out > 0 && find.text().is_empty()).then(|| {
        let left_out = format::count(leaks.left_out);
        vec![(format!("{left_out} smaller ones"), Ink::Faint)]
    });
    growing.chain(held).chain(left_out).collect()
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
    use crate::data::Update;
    use crate::testing::{leaks, screen::THEME};
    use std::time::{Duration, Instant};

    fn texts(find: &Prompt) -> Vec<String> {
        let now = Instant::now();
        let mut data = Data::new("ttmem.sock", Duration::from_secs(1), now);
        data.apply(Update::Leaks(Box::new(leaks())), now);
        let lines = lines(&data, find, THEME);
        let text = |line: &Line| line.iter().map(|(part, _)| part.as_str()).collect();
        lines.iter().map(text).collect()
    }

    #[test]
    fn growth_comes_first_and_what_was_held_says_so() {
        let lines = texts(&Prompt::default());
        assert_eq!(lines.len(), 3, "{lines:?}");
        let first = "growing  +2.0 MiB per step since step 3, model.py:57";
        assert!(lines[0].starts_with(first), "{lines:?}");
        assert!(lines[0].contains("2 buffers of 4.0 MiB"), "{lines:?}");
        let second = "grew until close  4.0 KiB, model.py:57";
        assert!(lines[1].starts_with(second), "{lines:?}");
        let third = "held at close  4.0 KiB, cache.py:9";
        assert!(lines[2].starts_with(third), "{lines:?}");
    }

    #[test]
    fn what_is_looked_for_is_found_here_as_well() {
        for (text, found) in [
            ("CACHE.py", 1),
            ("ttnn::empty", 3),
            ("4242", 3),
            ("none", 0),
        ] {
            let mut find = Prompt::default();
            find.set(text);
            assert_eq!(texts(&find).len(), found, "{text}");
        }
    }
}
