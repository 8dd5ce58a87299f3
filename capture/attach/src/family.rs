//! Families of hooks: on, or off with a reason.
//!
//! A family is decided at its first call, by whether the runtime has all that the
//! family needs. It can be turned off later, never on again. That it is off is said
//! once on stderr, in the status, and to the server, where the process counts as incomplete.

use crate::hot::{HOT, SOME_OFF};
use crate::report;
use crate::symbols::readable;
use std::ffi::CStr;
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use ttmem_client::complain;

/// Something that the runtime does not have, or has in another form than expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unsupported {
    Missing(&'static CStr),
    /// Something is not as in the versions this was made for.
    Unexpected(&'static str),
}

impl std::fmt::Display for Unsupported {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing(name) => write!(formatter, "no `{}`", readable(name)),
            Self::Unexpected(what) => formatter.write_str(what),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Family {
    name: &'static str,
    off: AtomicBool,
    why: OnceLock<String>,
    /// Programs that were left out.
    skipped: AtomicU32,
}

impl Family {
    pub(crate) const fn new(name: &'static str) -> Self {
        Self {
            name,
            off: AtomicBool::new(false),
            why: OnceLock::new(),
            skipped: AtomicU32::new(0),
        }
    }

    /// Whether nothing speaks against it so far.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        !self.is_off(HOT.state())
    }

    /// Whether a hook of it has anything to do.
    #[inline]
    pub(crate) fn is_tracking(&self) -> bool {
        let state = HOT.state();
        !self.is_off(state) && crate::report::is_on_in(state)
    }

    /// Whether it is off, given what is said of all: its own flag is on another cache line.
    #[inline]
    fn is_off(&self, state: u8) -> bool {
        state & SOME_OFF != 0 && self.off.load(Ordering::Relaxed)
    }

    /// Turns it off for good; the first reason counts.
    #[cold]
    pub(crate) fn turn_off(&self, why: &str) {
        if !self.off.swap(true, Ordering::Relaxed) {
            HOT.set(SOME_OFF, true);
            let why = self.why.get_or_init(|| why.to_owned());
            complain(&format!("{} are not tracked: {why}", self.name));
            report::not_tracked(self.name, why);
        }
    }

    /// Reports once more that it is off, if it is.
    pub(crate) fn report_off(&self) {
        if let Some(why) = self.why.get() {
            report::not_tracked(self.name, why);
        }
    }

    /// Leaves out a program that is not as expected; that there are such is said once.
    #[cold]
    pub(crate) fn skip(&self, why: &str) {
        if self.skipped.fetch_add(1, Ordering::Relaxed) == 0 {
            let what = format!("{} of some programs", self.name);
            complain(&format!("{what} are not tracked: {why}"));
            report::not_tracked(&what, why);
        }
    }

    /// What a family needs, if it is on and the runtime has it.
    #[inline]
    pub(crate) fn need<T>(&self, found: &'static Result<T, Unsupported>) -> Option<&'static T> {
        if !self.is_on() {
            return None;
        }
        match found {
            Ok(found) => Some(found),
            Err(reason) => self.unsupported(reason),
        }
    }

    /// What was read; a family whose objects are not as expected is turned off.
    #[inline]
    pub(crate) fn ok_or_turn_off<T>(&self, read: Result<T, Unsupported>) -> Option<T> {
        read.map_or_else(|reason| self.unsupported(&reason), Some)
    }

    #[cold]
    fn unsupported<T>(&self, reason: &Unsupported) -> Option<T> {
        self.turn_off(&reason.to_string());
        None
    }

    /// Runs our own part of a hook; if it panics, the family is off and the host goes on.
    ///
    /// Never around a call into the runtime: its exceptions cannot pass here.
    #[inline(always)]
    pub(crate) fn contain<R: Default>(&self, part: impl FnOnce() -> R) -> R {
        catch_unwind(AssertUnwindSafe(part)).unwrap_or_else(|_panic| self.give_up())
    }

    /// What is left to do after a panic of ours.
    #[cold]
    fn give_up<R: Default>(&self) -> R {
        self.turn_off("an internal failure");
        R::default()
    }

    /// Adds a line: on, or off and why; `lacking` is what the runtime lacks of its needs.
    ///
    /// To ask decides nothing: a family that is never used is not missed.
    pub(crate) fn describe(&self, lacking: Option<&Unsupported>, text: &mut String) {
        let skipped = self.skipped.load(Ordering::Relaxed);
        let why = self.why.get().cloned();
        // Writing to a text cannot fail.
        let _fits = match why.or(lacking.map(ToString::to_string)) {
            Some(why) => writeln!(text, "{}: off, {why}", self.name),
            None if skipped > 0 => {
                writeln!(text, "{}: on, programs left out: {skipped}", self.name)
            }
            None => writeln!(text, "{}: on", self.name),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ttmem_client::Tracker;

    #[test]
    fn a_missing_symbol_turns_the_family_off_and_names_it() {
        let _off = Tracker::disabled();
        static FAMILY: Family = Family::new("things");
        static FOUND: Result<u32, Unsupported> = Err(Unsupported::Missing(c"_Zthing"));
        assert_eq!(FAMILY.need(&FOUND), None);
        assert!(!FAMILY.is_on());
        let mut text = String::new();
        FAMILY.describe(None, &mut text);
        assert_eq!(text, "things: off, no `_Zthing`\n");
    }

    #[test]
    fn a_panic_of_ours_turns_the_family_off_and_goes_no_further() {
        let _off = Tracker::disabled();
        static FAMILY: Family = Family::new("things");
        let result: u32 = FAMILY.contain(|| panic!("a test of what is never to happen"));
        assert_eq!(result, 0);
        assert!(!FAMILY.is_on());
    }

    #[test]
    fn a_program_that_is_left_out_is_counted_and_costs_no_other() {
        let _off = Tracker::disabled();
        static FAMILY: Family = Family::new("things");
        FAMILY.skip("it is odd");
        FAMILY.skip("it is odd");
        assert!(FAMILY.is_on());
        let mut text = String::new();
        FAMILY.describe(None, &mut text);
        assert_eq!(text, "things: on, programs left out: 2\n");
    }

    #[test]
    fn the_first_reason_counts() {
        let _off = Tracker::disabled();
        static FAMILY: Family = Family::new("things");
        FAMILY.turn_off("one");
        FAMILY.turn_off("two");
        let mut text = String::new();
        FAMILY.describe(None, &mut text);
        assert_eq!(text, "things: off, one\n");
    }
}
