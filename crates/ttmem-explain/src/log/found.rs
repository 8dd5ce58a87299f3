//! The failures of a log, each once.

use super::python::Place;
use crate::explain::explain;
use crate::moment::{Caller, Failure, Moment, Witness};
use ttmem_api::{Explanation, LogPlace};

/// Failures that are kept; a log of a long test run may have more, and nobody reads them all.
const MAX_FAILURES: usize = 256;

/// Characters of a message that are quoted.
const MAX_MESSAGE_CHARS: usize = 600;

#[derive(Debug)]
pub(super) struct Message {
    pub(super) failure: Failure,
    pub(super) line: u64,
    pub(super) text: String,
    pub(super) place: Place,
}

#[derive(Debug)]
struct Seen {
    message: Message,
    times: u64,
}

#[derive(Debug, Default)]
pub(super) struct Finds {
    seen: Vec<Seen>,
    omitted: u64,
}

#[derive(Debug)]
pub(super) struct Found {
    pub(super) explanations: Vec<Explanation>,
    pub(super) omitted: u64,
}

impl Finds {
    /// Keeps a message; which one it is, unless there are too many.
    ///
    /// The runtime logs what it is about to throw, and the exception's text is printed again with a
    /// traceback: the same message with a line of Python and without one is the same failure.
    pub(super) fn add(&mut self, message: Message) -> Option<usize> {
        let is_same = |seen: &Seen| {
            let (one, other) = (&seen.message.place.python, &message.place.python);
            seen.message.failure == message.failure
                && (one.is_none() || other.is_none() || one == other)
        };
        if let Some(at) = self.seen.iter().position(is_same) {
            let seen = &mut self.seen[at];
            seen.times += 1;
            if seen.message.place.python.is_none() {
                seen.message.place = message.place;
            }
            return Some(at);
        }
        if self.seen.len() == MAX_FAILURES {
            self.omitted += 1;
            return None;
        }
        self.seen.push(Seen { message, times: 1 });
        Some(self.seen.len() - 1)
    }

    pub(super) fn locate(&mut self, at: usize, place: Place) {
        if let Some(seen) = self.seen.get_mut(at)
            && seen.message.place.python.is_none()
        {
            seen.message.place = place;
        }
    }

    pub(super) fn explained(self) -> Found {
        let explanations = self.seen.into_iter().map(|Seen { message, times }| {
            let moment = Moment {
                caller: Caller {
                    python: message.place.python,
                    operation: message.place.operation,
                    ..Caller::default()
                },
                failure: message.failure,
                witness: Witness::Log,
            };
            let words = message.text.split_whitespace().collect::<Vec<_>>();
            Explanation {
                times,
                log: Some(LogPlace {
                    line: message.line,
                    message: words.join(" ").chars().take(MAX_MESSAGE_CHARS).collect(),
                }),
                ..explain(&moment)
            }
        });
        Found {
            explanations: explanations.collect(),
            omitted: self.omitted,
        }
    }
}
