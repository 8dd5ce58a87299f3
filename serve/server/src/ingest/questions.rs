//! Questions of old clients: a process has no more under way than one connection may, on however
//! many connections.
//!
//! Each is an answer that this thread has to send. If every connection had some, a process with
//! hundreds would have thousands of answers in front of everybody else's.

use super::session::MAX_OUTSTANDING;
use super::{Ingest, Source};
use crate::ledger_thread::SessionNumber;
use std::collections::{HashMap, VecDeque};

#[derive(Debug, Default)]
pub(super) struct Questions {
    by_source: HashMap<Source, Asked>,
    /// Processes that may have room again: one of theirs was answered, or a connection ended.
    resumed: Vec<Source>,
}

#[derive(Debug, Default)]
struct Asked {
    under_way: u32,
    /// Connections that have more to ask, in the order in which they came.
    waiting: VecDeque<SessionNumber>,
}

impl Questions {
    pub(super) fn room(&self, source: Source) -> u32 {
        let asked = self.by_source.get(&source);
        MAX_OUTSTANDING.saturating_sub(asked.map_or(0, |asked| asked.under_way))
    }

    pub(super) fn ask(&mut self, source: Source, count: u32) {
        if count > 0 {
            self.by_source.entry(source).or_default().under_way += count;
        }
    }

    fn wait(&mut self, source: Source, number: SessionNumber) {
        let waiting = &mut self.by_source.entry(source).or_default().waiting;
        if !waiting.contains(&number) {
            waiting.push_back(number);
        }
    }

    pub(super) fn end(&mut self, source: Source, count: u32) {
        if let Some(asked) = self.by_source.get_mut(&source) {
            asked.under_way = asked.under_way.saturating_sub(count);
            self.forget_idle(source);
        }
    }

    /// A connection gets no more answers.
    pub(super) fn leave(&mut self, source: Source, number: SessionNumber, unanswered: u32) {
        if let Some(asked) = self.by_source.get_mut(&source) {
            asked.waiting.retain(|waiting| *waiting != number);
            self.end(source, unanswered);
            self.resume(source);
        }
    }

    /// A process may ask again at the end of the round, not at once: who keeps asking would have the
    /// ledger thread woken for each answer.
    pub(super) fn resume(&mut self, source: Source) {
        if !self.resumed.contains(&source) {
            self.resumed.push(source);
        }
    }

    /// The next that may ask.
    fn next(&mut self, source: Source) -> Option<SessionNumber> {
        if self.room(source) == 0 {
            return None;
        }
        let next = self.by_source.get_mut(&source)?.waiting.pop_front();
        self.forget_idle(source);
        next
    }

    fn forget_idle(&mut self, source: Source) {
        let asked = self.by_source.get(&source);
        if asked.is_some_and(|asked| asked.under_way == 0 && asked.waiting.is_empty()) {
            self.by_source.remove(&source);
        }
    }
}

impl Ingest {
    /// A connection has more to ask than it may now.
    pub(super) fn wait_to_ask(&mut self, number: SessionNumber) {
        if let Some(session) = self.sessions.get(&number) {
            self.questions.wait(session.source(number), number);
        }
    }

    /// There may be room: it is the turn of the next that waits.
    fn ask_next(&mut self, source: Source) {
        while let Some(number) = self.questions.next(source) {
            self.handle_legacy(number);
            self.close_if_answered(number);
        }
    }

    /// Goes on where answers were sent or connections ended: apart from where that is found, which may
    /// be in the middle of another one's questions.
    pub(super) fn resume_questions(&mut self) {
        while let Some(source) = self.questions.resumed.pop() {
            self.ask_next(source);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_of_a_process_share_its_questions_and_take_turns() {
        let (mine, other) = (Source::Pid(1), Source::Pid(2));
        let mut questions = Questions::default();
        questions.ask(mine, MAX_OUTSTANDING);
        assert_eq!(questions.room(mine), 0);
        assert_eq!(questions.room(other), MAX_OUTSTANDING);
        for number in [3, 4, 3, 5] {
            questions.wait(mine, SessionNumber(number));
        }
        assert_eq!(questions.next(mine), None);
        questions.end(mine, 2);
        questions.leave(mine, SessionNumber(4), 0);
        let turns = [questions.next(mine), questions.next(mine)];
        assert_eq!(turns, [Some(SessionNumber(3)), Some(SessionNumber(5))]);
        questions.end(mine, MAX_OUTSTANDING - 2);
        assert!(questions.by_source.is_empty());
    }
}
