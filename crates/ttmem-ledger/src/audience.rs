//! Who a view is for: names, lines and texts of a process are its user's own.
//!
//! Sizes, places and times are for everybody who may read at all: they say what is left of a shared
//! device. What a program is called, which lines it runs and what it names its operations are shown
//! to its user, and to those who see everything.

use crate::failures::Failures;
use crate::labels::Labels;
use crate::process::ProcessIdentity;
use crate::shares::is_same_user;
use crate::view::{DepartedView, ProcessView, Table, View};
use std::sync::Arc;
use ttmem_account::Pages;

/// Whose names are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Audience {
    /// Root, the server's own user, and the server itself: everybody's.
    #[default]
    Everything,
    /// A user: those of its own processes.
    User(u32),
    /// Somebody of whom no user is known: nobody's.
    Nobody,
}

impl Audience {
    /// Whether names of this user's processes are shown; `None` is a sum over several.
    #[must_use]
    pub fn may_see(self, uid: Option<u32>) -> bool {
        match self {
            Self::Everything => true,
            Self::User(own) => uid.is_none_or(|uid| is_same_user(uid, own)),
            Self::Nobody => uid.is_none(),
        }
    }
}

impl View {
    /// The same for an audience: without the names that it may not see.
    #[must_use]
    pub fn for_audience(&self, audience: Audience) -> Self {
        let may_see = |identity: &ProcessIdentity| audience.may_see(Some(identity.uid));
        let mut processes = Pages::default();
        for process in self.processes.shared() {
            let shown = if may_see(&process.facts.identity) {
                Arc::clone(process)
            } else {
                Arc::new(process.without_names())
            };
            processes.put(process.index, shown);
        }
        let departed = self.departed.iter().map(|departed| {
            let mut shown = departed.clone();
            if !may_see(&shown.identity) {
                shown.hide_names();
            }
            shown
        });
        let mut failures = Failures::clone(&self.failures);
        for moment in failures.moments_mut() {
            if !may_see(&moment.identity) {
                Arc::make_mut(moment).hide_names();
            }
        }
        Self {
            processes: Table::new(processes.view()),
            departed: Arc::new(departed.collect()),
            failures: Arc::new(failures),
            audience,
            ..self.clone()
        }
    }
}

impl ProcessView {
    /// The same without its name and its texts.
    #[must_use]
    pub fn without_names(&self) -> Self {
        let mut shown = self.clone();
        shown.facts.identity.hide_names();
        shown.facts.labels = Labels::default();
        shown.facts.names_are_hidden = true;
        shown.account.definitions = Arc::new(self.account.definitions.without_texts());
        shown
    }
}

impl DepartedView {
    fn hide_names(&mut self) {
        self.identity.hide_names();
        self.labels = Labels::default();
        self.names_are_hidden = true;
        self.left_at_close = Arc::new(self.left_at_close.without_names());
        self.left_at_exit = Arc::new(self.left_at_exit.without_names());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shares::UNKNOWN_USER;

    #[test]
    fn names_are_for_their_user_and_for_those_who_see_everything() {
        for (audience, own, others, sums) in [
            (Audience::Everything, true, true, true),
            (Audience::User(7), true, false, true),
            (Audience::Nobody, false, false, true),
        ] {
            assert_eq!(audience.may_see(Some(7)), own, "{audience:?}");
            assert_eq!(audience.may_see(Some(8)), others, "{audience:?}");
            assert_eq!(audience.may_see(None), sums, "{audience:?}");
        }
        let unknown = Audience::User(UNKNOWN_USER);
        assert!(!unknown.may_see(Some(UNKNOWN_USER)) && unknown.may_see(None));
        assert!(Audience::Everything.may_see(Some(UNKNOWN_USER)));
    }
}
