//! What grew during a run, by the line that allocated it.

use super::Page;
use super::paint::sentence;
use crate::run::Report;
use ttmem_report::format::counted;

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
            let said = format!("{} ({operation}{buffers})", growing.sentence);
            let several = self.document.processes.len() > 1;
            let pid = group.pid.filter(|_pid| several);
            let whose = pid.map_or_else(String::new, |pid| format!("{}: ", self.named(pid)));
            let said = sentence("growing: ", &(whose + &said), self.width);
            text.push_str(&self.paint.warning(&said));
        }
        if text.is_empty() {
            text
        } else {
            format!("\n{text}")
        }
    }
}
