//! The lines of `ttmem doctor`.

use super::{Paint, layout_width};
use crate::output::Screen;
use ttmem_tui::text::paragraph;

/// One check.
#[derive(Debug)]
pub(crate) struct DoctorLine<'a> {
    pub(crate) name: &'a str,
    pub(crate) state: &'a str,
    pub(crate) is_bad: bool,
    pub(crate) found: &'a str,
    pub(crate) remedy: Option<&'a str>,
}

/// Columns of states and names, with the space behind them.
const STATE: usize = 9;
const NAME: usize = 14;

/// A line per check; a longer one hangs below its text, and so does its remedy.
pub(crate) fn doctor<'a>(lines: impl Iterator<Item = DoctorLine<'a>>, screen: Screen) -> String {
    let (width, paint) = (
        layout_width(screen.width),
        Paint {
            color: screen.color,
        },
    );
    let mut text = String::new();
    for line in lines {
        let head = format!("{:<STATE$}{:<NAME$}", line.state, line.name);
        let found = paragraph(
            &head,
            STATE + NAME,
            printable(line.found).split_whitespace(),
            width,
        );
        text.push_str(&match line.is_bad {
            true => paint.warning(&found),
            false => found,
        });
        if let Some(remedy) = line.remedy {
            let head = format!("{:indent$}-> ", "", indent = STATE + NAME);
            let remedy = paragraph(
                &head,
                STATE + NAME + 3,
                printable(remedy).split_whitespace(),
                width,
            );
            text.push_str(&paint.detail(&remedy));
        }
    }
    text
}

/// Names of files and processes may have anything in them.
fn printable(text: &str) -> String {
    text.replace(char::is_control, "\u{fffd}")
}
