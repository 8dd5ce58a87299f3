//! The line at the top of every view while something is wrong.

use super::Tab;
use crate::data::Data;
use crate::theme::Ink;
use ttmem_report::{Problem, ProblemView, Urgency};

/// A problem as a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) text: String,
    pub(crate) ink: Ink,
    /// The key that shows more, and how many other problems there are.
    pub(crate) key: String,
}

/// The problem that matters most.
pub(crate) fn line(data: &Data) -> Option<Line> {
    let problems = data.problems();
    let first = problems.first()?;
    let others = match problems.len() - 1 {
        0 => String::new(),
        others => format!(", {others} more"),
    };
    Some(Line {
        text: format!("! {}", first.text),
        ink: match first.urgency {
            Urgency::Warning => Ink::Warning,
            _danger => Ink::Danger,
        },
        key: format!(" [{}]{others}", tab(first) as usize + 1),
    })
}

/// The view that shows more of a problem.
fn tab(problem: &Problem) -> Tab {
    match problem.target.view {
        ProblemView::Processes => Tab::Processes,
        ProblemView::Device => Tab::Device,
        ProblemView::Map => Tab::L1Map,
        ProblemView::Buffers => Tab::Buffers,
        ProblemView::Leaks => Tab::Leaks,
        ProblemView::Failures => Tab::Failures,
        ProblemView::Other => Tab::Overview,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::world::{Names, World};

    #[test]
    fn the_line_of_python_is_on_every_screen() {
        let problem = Line {
            text: "! pid 70100 python3, device 0: L1 is fragmented: ttnn.conv2d (model.py:1257) \
                   needs 16.0 MiB in one piece in each of 12 banks; 511.0 MiB are free, but the \
                   largest free block has 8.0 MiB. (12 s ago) (and 3 failures before)"
                .to_owned(),
            ink: Ink::Danger,
            key: " [9], 3 more".to_owned(),
        };
        for (columns, rows, lines) in [(80, 24, 2), (100, 30, 3), (160, 45, 2), (300, 90, 1)] {
            let screen = ratatui::layout::Rect::new(0, 0, columns, rows);
            let shown = crate::frame::problem_lines(screen, &problem);
            assert_eq!(shown.len(), lines, "{shown:?}");
            assert!(shown.concat().contains("(model.py:1257)"), "{shown:?}");
            let room = usize::from(columns) - problem.key.len();
            let fits = |line: &String| crate::widgets::text::width(line) <= room;
            assert!(shown.iter().all(fits), "{shown:?}");
            assert_eq!(shown.concat().ends_with('…'), columns == 80, "{shown:?}");
        }
    }

    #[test]
    fn the_first_problem_is_shown_with_the_key_of_its_view() {
        let mut data = World {
            devices: 8,
            processes: 40,
            busy: true,
            names: Names::Usual,
        }
        .data();
        let failed = line(&data).expect("much is wrong");
        assert!(failed.key.starts_with(" [9], "), "{failed:?}");
        data.problems
            .as_mut()
            .expect("some")
            .document
            .problems
            .remove(0);
        let first = line(&data).expect("much is wrong");
        assert!(first.text.starts_with("! device 0: DRAM 9"), "{first:?}");
        assert!(first.key.starts_with(" [6], "), "{first:?}");
        data.problems
            .as_mut()
            .expect("some")
            .document
            .problems
            .clear();
        assert_eq!(line(&data), None);
    }
}
