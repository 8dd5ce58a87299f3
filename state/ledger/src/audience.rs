//! The audience of a view: every text that a process chose belongs to its user.
//!
//! Sizes, places and times are for all readers: they show what is left of a shared device. Names, lines, operations,
//! marks, labels, reasons and names of boards that the catalogue does not have are shown to the user of the process
//! and to those who see everything. The security guide has the list; `tests/e2e/privacy.rs` searches every document
//! for what is not on it.

use crate::device::Device;
use crate::failures::Failures;
use crate::growth::ROOT;
use crate::labels::Labels;
use crate::process::ProcessIdentity;
use crate::shares::is_same_user;
use crate::view::{DepartedView, ProcessView, Table, View};
use std::sync::Arc;
use ttmem_account::{MarkOwner, Marks, NotTracked, Pages};
use ttmem_event::catalogue::BoardKind;

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

    /// Whether the name of a mark is shown. Root's marks, as which those of the server's user count, are meant for all
    /// readers; a mark that a process sets is a text of that process, whoever runs it.
    #[must_use]
    pub fn may_see_mark(self, (uid, process): MarkOwner) -> bool {
        (uid == ROOT && process.is_none()) || self.may_see(Some(uid))
    }

    /// Whether the name of a device's board is shown: a name of the catalogue names hardware, any other is a text of
    /// the process that described the device.
    fn may_see_board(self, device: &Device) -> bool {
        let board = device.facts.board.as_deref();
        let is_known = board.is_none_or(|board| BoardKind::from_name(board).is_some());
        is_known
            || self == Self::Everything
            || device
                .described_by
                .is_some_and(|holder| self.may_see(Some(holder.uid)))
    }
}

impl View {
    /// The same for an audience: without the names that it may not see.
    #[must_use]
    pub fn for_audience(&self, audience: Audience) -> Self {
        let may_see = |identity: &ProcessIdentity| audience.may_see(Some(identity.uid));
        let mut devices = Pages::default();
        for (number, device) in self.devices.numbered() {
            let shown = if audience.may_see_board(device) {
                Arc::clone(device)
            } else {
                Arc::new(device.without_board())
            };
            devices.put(number, shown);
        }
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
        let mut marks = Marks::clone(&self.marks);
        marks.rename(|owner, name| {
            if !audience.may_see_mark(owner) {
                *name = Arc::from("");
            }
        });
        let is_shown = |user| audience.may_see_mark((user, None));
        Self {
            devices: Table::new(devices.view()),
            processes: Table::new(processes.view()),
            departed: Arc::new(departed.collect()),
            failures: Arc::new(failures),
            marks: Arc::new(marks),
            series: Arc::new(self.series.with_names_of(is_shown)),
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
        shown.facts.series = Arc::new(self.facts.series.without_names());
        shown.facts.names_are_hidden = true;
        shown.account.definitions = Arc::new(self.account.definitions.without_texts());
        shown.left_at_close = Arc::new(self.left_at_close.without_names());
        shown
    }
}

impl Device {
    fn without_board(&self) -> Self {
        let mut shown = self.clone();
        shown.facts.board = None;
        shown
    }
}

impl DepartedView {
    fn hide_names(&mut self) {
        self.identity.hide_names();
        self.labels = Labels::default();
        self.names_are_hidden = true;
        // How many things are not tracked is a figure; which ones, and why, are the process's words.
        self.not_tracked.fill(NotTracked {
            what: Arc::from(""),
            why: Arc::from(""),
        });
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
        for (owner, seen) in [
            ((ROOT, None), true),
            ((ROOT, Some(1)), false),
            ((7, None), true),
            ((7, Some(1)), true),
            ((8, None), false),
            ((8, Some(1)), false),
        ] {
            assert_eq!(Audience::User(7).may_see_mark(owner), seen, "{owner:?}");
            assert!(Audience::Everything.may_see_mark(owner));
        }
        assert!(Audience::Nobody.may_see_mark((ROOT, None)));
        assert!(!Audience::Nobody.may_see_mark((7, None)));
        let unknown = Audience::User(UNKNOWN_USER);
        assert!(!unknown.may_see(Some(UNKNOWN_USER)) && unknown.may_see(None));
        assert!(Audience::Everything.may_see(Some(UNKNOWN_USER)));
    }
}
