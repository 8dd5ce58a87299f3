//! What grew during a run, by the line that allocated it.

use super::Page;
use super::paint::sentence;
use crate::run::Report;
use ttmem_tui::format::counted;

/// Lines that grew, in a report.
const SHOWN: usize = 5;

impl Page<'_, Report> {
    /// A sentence for each line that grew: mostly a mistake.
    pub(super) fn growing(&self) -> String {
        let mut text = String::new();
        for growing in self.document.contents.growing.iter().take(SHOWN) {
            let group = &growing.group;
            let operation = match (&group.line, &group.operation) {
                (Some(_), Some(operation)) => format!("{operation}, "),
                _said_or_unknown => String::new(),
            };
            let buffers = counted(group.buffers, "buffer");
            let said = format!("{} ({operation}{buffers})", growing.sentence());
            let said = sentence("growing: ", &said, self.width);
            text.push_str(&self.paint.warning(&said));
        }
        if text.is_empty() {
            text
        } else {
            format!("\n{text}")
        }
    }
}
