//! The failures of a log, each once.

use super::python::Place;
use crate::explain::explain;
use crate::explain::moment::{Caller, Failure, Moment, Witness};
use crate::{Explanation, LogPlace};

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
    /// Whether the runtime wrote it to its log; else it is an exception's text.
    pub(super) is_logged: bool,
}

#[derive(Debug)]
struct Seen {
    message: Message,
    logged: u64,
    thrown: u64,
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
    /// Keeps a message, unless there are too many.
    ///
    /// The runtime logs what it is about to throw, and the exception's text is printed again with a
    /// traceback: the same message with a line of Python and without one is the same failure, and
    /// logged once and thrown once it happened once.
    pub(super) fn add(&mut self, message: Message) {
        let is_same = |seen: &Seen| {
            let (one, other) = (&seen.message.place.python, &message.place.python);
            seen.message.failure == message.failure
                && (one.is_none() || other.is_none() || one == other)
        };
        let is_logged = message.is_logged;
        let at = match self.seen.iter().position(is_same) {
            Some(at) => {
                let known = &mut self.seen[at].message.place;
                if known.python.is_none() {
                    *known = message.place;
                }
                at
            }
            None if self.seen.len() == MAX_FAILURES => {
                self.omitted += 1;
                return;
            }
            None => {
                self.seen.push(Seen {
                    message,
                    logged: 0,
                    thrown: 0,
                });
                self.seen.len() - 1
            }
        };
        if is_logged {
            self.seen[at].logged += 1;
        } else {
            self.seen[at].thrown += 1;
            self.claim_logged(at);
        }
    }

    /// What was logged before its line was known may have been counted for another line.
    fn claim_logged(&mut self, at: usize) {
        let failure = self.seen[at].message.failure.clone();
        let mut others = self.seen.iter_mut();
        let elsewhere =
            others.find(|other| other.message.failure == failure && other.logged > other.thrown);
        if let Some(other) = elsewhere {
            other.logged -= 1;
            self.seen[at].logged += 1;
        }
    }

    pub(super) fn explained(mut self) -> Found {
        self.seen.sort_by_key(|seen| seen.message.line);
        let explanations = self.seen.into_iter().map(|seen| {
            let (times, message) = (seen.logged.max(seen.thrown), seen.message);
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
            let explanation = Explanation {
                times,
                log: Some(LogPlace {
                    line: message.line,
                    message: words.join(" ").chars().take(MAX_MESSAGE_CHARS).collect(),
                }),
                ..explain(&moment)
            };
            explanation.in_words()
        });
        Found {
            explanations: explanations.collect(),
            omitted: self.omitted,
        }
    }
}
