//! Connections that the door let in: taken over, greeted one by one, and watched.

use super::door::{Arrival, Told, UnixConnection};
use super::poll::Token;
use super::session::{Protocol, Session};
use super::{ACCEPT_FAILURES_OVER, AcceptFailures, Ingest};
use crate::ledger_thread::SessionNumber;
use rustix::event::epoll::EventFlags;
use std::io;
use std::sync::atomic::Ordering;
use std::time::Instant;
use ttmem_ledger::Holder;

/// Connections taken over before those that are established have their turn.
const ARRIVALS: usize = 64;

impl Ingest {
    /// Takes over connections that were let in, not more than a turn of them; false if more may wait.
    pub(super) fn take_arrivals(&mut self, now: Instant) -> bool {
        for _turn in 0..ARRIVALS {
            match self.door.arrivals.try_recv() {
                Ok(Arrival::Connection(connection)) => {
                    self.end_accept_failures(now);
                    self.take_over(connection);
                }
                Ok(Arrival::Failed(error)) => self.note_accept_failure(&error, now),
                Err(_none) => return true,
            }
        }
        false
    }

    fn take_over(&mut self, connection: UnixConnection) {
        let number = connection.number;
        let session = Session::new(connection);
        self.door.tell(Told::TakenOver(session.holder));
        if !self.admit_connection(session.holder) {
            let reason = "its user has its share of the connections";
            self.refusals.count(session.pid, reason, 1);
            return;
        }
        self.silent.insert(session.holder, number);
        self.newcomers.push(session.holder, number);
        self.sessions.insert(number, session);
        self.publish_client_count();
    }

    /// Serves the newcomer whose turn it is.
    ///
    /// Only one: those that are established come between any two.
    pub(super) fn greet_next(&mut self, now: Instant) {
        while let Some(number) = self.newcomers.next() {
            if let Some(session) = self.sessions.get_mut(&number) {
                session.waits_for_greeting = false;
                self.read_session(number, now);
                self.watch(number);
                return;
            }
        }
    }

    /// Has a connection served now, or, if its process is not known yet, when it is its turn.
    pub(super) fn serve_readable(&mut self, number: SessionNumber, now: Instant) {
        let Some(session) = self.sessions.get_mut(&number) else {
            return;
        };
        let is_newcomer = session.process.is_none()
            && matches!(session.protocol, Protocol::Unknown | Protocol::Client(_));
        if !is_newcomer {
            return self.read_session(number, now);
        }
        if !std::mem::replace(&mut session.waits_for_greeting, true) {
            self.newcomers.push(session.holder, number);
        }
        // Or it would be reported in every round until then.
        let _closed = self.poller.remove(&session.stream);
        session.interest = EventFlags::empty();
    }

    /// Has epoll report what comes over a connection from now on; false if it had to be closed.
    pub(super) fn watch(&mut self, number: SessionNumber) -> bool {
        let Some(session) = self.sessions.get_mut(&number) else {
            return false;
        };
        if session.interest.is_empty() && session.is_readable() && !session.waits_for_greeting {
            let flags = EventFlags::IN;
            if let Err(error) = self
                .poller
                .add(&session.stream, Token::Session(number), flags)
            {
                self.close(number, None);
                let reason = format!("cannot serve a connection: {error}");
                self.config.log.error(reason);
                return false;
            }
            session.interest = flags;
        }
        true
    }

    /// A connection ends, or is handed on.
    pub(super) fn unwatch(&self, session: &Session) {
        if !session.interest.is_empty() {
            let _closed = self.poller.remove(&session.stream);
        }
    }

    /// Charges whoever made a connection with what it led to.
    pub(super) fn charge(&self, holder: Holder, units: u32) {
        self.door.tell(Told::Charge(holder, units));
    }

    /// Out of descriptors in spite of all shares: who has most silent connections loses one.
    fn note_accept_failure(&mut self, error: &io::Error, now: Instant) {
        if let Some(oldest) = self.silent.oldest_of_largest() {
            let reason = "there are no descriptors left, and this connection was silent";
            self.close(oldest, Some(reason.to_owned()));
        }
        self.end_accept_failures(now);
        match &mut self.accept_failures {
            Some(failures) => {
                failures.count += 1;
                failures.last = now;
            }
            none => {
                *none = Some(AcceptFailures {
                    count: 1,
                    last: now,
                });
                let reason = format!("cannot accept connections for now: {error}");
                self.config.log.error(reason);
            }
        }
    }

    /// Logs the end of a shortage: not before it is over for a while, or each descriptor that
    /// comes free would begin and end one.
    fn end_accept_failures(&mut self, now: Instant) {
        let is_over = |failures: &mut AcceptFailures| {
            now.duration_since(failures.last) >= ACCEPT_FAILURES_OVER
        };
        if let Some(AcceptFailures { count, .. }) = self.accept_failures.take_if(is_over) {
            let reason = format!("connections are accepted again; that failed {count} times");
            self.config.log.error(reason);
        }
    }

    pub(super) fn publish_client_count(&self) {
        let clients = &self.config.traffic.clients;
        clients.store(self.sessions.len() as u64, Ordering::Relaxed);
    }
}
