//! What a process does not report, although it has it.

use crate::account::AccountFacts;
use std::fmt;
use std::sync::Arc;
use ttmem_event::TextId;

/// Families that a process may report as not tracked: far more than there are.
const MAX_UNTRACKED: usize = 64;

/// A family of calls that a process does not report, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Untracked {
    pub what: TextId,
    pub why: TextId,
}

/// The same in the process's own words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotTracked {
    pub what: Arc<str>,
    pub why: Arc<str>,
}

impl fmt::Display for NotTracked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} are not tracked: {}", self.what, self.why)
    }
}

impl AccountFacts {
    /// What the process does not report; its figures are without it.
    #[must_use]
    pub fn not_tracked(&self) -> Vec<NotTracked> {
        let text = |id| {
            let text = self.definitions.text(id).cloned();
            text.unwrap_or_else(|| Arc::from("unknown"))
        };
        let untracked = self.untracked.iter().map(|each| NotTracked {
            what: text(each.what),
            why: text(each.why),
        });
        untracked.collect()
    }

    /// Notes what is not tracked; the first reason counts.
    pub(crate) fn note_untracked(&mut self, untracked: Untracked) {
        let mut known = self.untracked.iter();
        let is_known = known.any(|each| each.what == untracked.what);
        if !is_known && self.untracked.len() < MAX_UNTRACKED {
            self.untracked.push(untracked);
        }
    }
}
