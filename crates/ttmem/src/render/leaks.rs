//! What grew during a run, and what was held at its end, by the line that allocated it.

use super::Page;
use super::paint::sentence;
use crate::run::Report;
use ttmem_api::LeakGroup;
use ttmem_tui::format::{bytes, counted};

/// Lines of each kind.
const SHOWN: usize = 5;

impl Page<'_, Report> {
    /// A sentence for what grew, which is mostly a mistake, and a line for what was only held.
    pub(super) fn leaks(&self) -> String {
        let mut text = String::new();
        for growing in self.document.growing.iter().take(SHOWN) {
            let said = format!("{}{}", growing.sentence(), about(&growing.group));
            let said = sentence("growing: ", &said, self.width);
            text.push_str(&self.paint.warning(&said));
        }
        let held = self.document.held_at_close.iter();
        let held = held.filter(|held| !held.growing && held.group.line.is_some());
        for held in held.take(SHOWN) {
            let group = &held.group;
            let said = format!("{}, {}{}", bytes(group.bytes), group.place(), about(group));
            text.push_str(&sentence("held at close: ", &said, self.width));
        }
        text
    }
}

fn about(group: &LeakGroup) -> String {
    let operation = match (&group.line, &group.operation) {
        (Some(_), Some(operation)) => format!("{operation}, "),
        _said_or_unknown => String::new(),
    };
    format!(" ({operation}{})", counted(group.buffers, "buffer"))
}
