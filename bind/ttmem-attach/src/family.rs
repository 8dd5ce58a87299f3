//! Families of hooks: on, or off with a reason.
//!
//! A family is decided at its first call, by whether the runtime has all that the
//! family needs. It can be turned off later, never on again. That it is off is said
//! once on stderr and in the status.

use std::ffi::CStr;
use std::fmt::Write as _;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Something that the runtime does not have, or has in another form than expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// There is no such symbol.
    Missing(&'static CStr),
    /// Something is not as in the versions this was made for.
    Unexpected(&'static str),
}

impl std::fmt::Display for Doubt {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing(name) => write!(formatter, "no {}", name.to_string_lossy()),
            Self::Unexpected(what) => formatter.write_str(what),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Family {
    name: &'static str,
    off: AtomicBool,
    why: OnceLock<String>,
}

impl Family {
    pub(crate) const fn new(name: &'static str) -> Self {
        Self {
            name,
            off: AtomicBool::new(false),
            why: OnceLock::new(),
        }
    }

    /// Whether nothing speaks against it so far.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        !self.off.load(Ordering::Relaxed)
    }

    /// Turns it off for good; the first reason counts.
    #[cold]
    pub(crate) fn turn_off(&self, why: &str) {
        if !self.off.swap(true, Ordering::Relaxed) {
            let why = self.why.get_or_init(|| why.to_owned());
            complain(&format!("{} are not tracked: {why}", self.name));
        }
    }

    /// What a family needs, if it is on and the runtime has it.
    #[inline]
    pub(crate) fn need<T>(&self, found: &'static Result<T, Doubt>) -> Option<&'static T> {
        if !self.is_on() {
            return None;
        }
        match found {
            Ok(found) => Some(found),
            Err(doubt) => {
                self.doubt(doubt);
                None
            }
        }
    }

    #[cold]
    fn doubt(&self, doubt: &Doubt) {
        self.turn_off(&doubt.to_string());
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

    /// One line for the status.
    pub(crate) fn describe(&self, text: &mut String) {
        // Writing to a text cannot fail.
        let _fits = match self.why.get() {
            Some(why) => writeln!(text, "{}: off, {why}", self.name),
            None => writeln!(text, "{}: on", self.name),
        };
    }
}

/// Says one line on stderr; a stderr that is gone is no reason to fail.
pub(crate) fn complain(what: &str) {
    let _unheard = writeln!(std::io::stderr(), "ttmem: {what}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_symbol_turns_the_family_off_and_names_it() {
        static FAMILY: Family = Family::new("things");
        static FOUND: Result<u32, Doubt> = Err(Doubt::Missing(c"_Zthing"));
        assert_eq!(FAMILY.need(&FOUND), None);
        assert!(!FAMILY.is_on());
        let mut text = String::new();
        FAMILY.describe(&mut text);
        assert_eq!(text, "things: off, no _Zthing\n");
    }

    #[test]
    fn a_panic_of_ours_turns_the_family_off_and_goes_no_further() {
        static FAMILY: Family = Family::new("things");
        let result: u32 = FAMILY.contain(|| panic!("a test of what is never to happen"));
        assert_eq!(result, 0);
        assert!(!FAMILY.is_on());
    }

    #[test]
    fn the_first_reason_counts() {
        static FAMILY: Family = Family::new("things");
        FAMILY.turn_off("one");
        FAMILY.turn_off("two");
        let mut text = String::new();
        FAMILY.describe(&mut text);
        assert_eq!(text, "things: off, one\n");
    }
}
