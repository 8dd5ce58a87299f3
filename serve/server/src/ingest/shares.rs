//! What connections take, and who may take how much of it.
//!
//! Every bound of the sessions is divided among processes and users by [`Shares`]. A peer is known by
//! its credentials from the moment it connects, so that shares apply to what it has not introduced, too.

use super::session::{Protocol, Service};
use super::{Ingest, Traffic};
use crate::ledger_thread::SessionNumber;
use crate::lock;
use crate::log::{LogHandle, Note};
use crate::peer::Credentials;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use ttmem_event::wire::RefusalCode;
use ttmem_ledger::{Holder, IncompleteReason, Shares, UNKNOWN_USER};

/// Connections and processes at once, however many descriptors there are.
const MAX_CONNECTIONS: u64 = 65_536;

/// Connections that wait to be taken over, however many descriptors there are.
const MAX_WAITING: usize = 4096;

/// Descriptors for readers and for the server itself, a quarter where there are few.
const RESERVED_DESCRIPTORS: u64 = 512;

/// Bytes of states that clients are in the middle of sending, or that wait to be taken over.
const MAX_RESYNC_BYTES: u64 = 1 << 30;

/// Bytes of frames whose end has not come.
const MAX_UNFINISHED_BYTES: u64 = 128 << 20;

/// What a client is refused last, of either: more than the longest frame that ours send.
const MIN_BYTES: u64 = 256 << 10;

/// What all sessions together have of each resource.
#[derive(Debug)]
pub(super) struct SessionShares {
    /// Descriptors of connections, of whatever kind.
    pub(super) connections: Shares,
    /// Connections whose reports are taken.
    pub(super) clients: Shares,
    /// Processes, each with a descriptor that shows when it dies.
    pub(super) processes: Shares,
    /// Descriptors of clients' memory.
    pub(super) segments: Shares,
    pub(super) resync_bytes: Shares,
    pub(super) unfinished_bytes: Shares,
}

impl SessionShares {
    pub(super) fn new(max_clients: usize) -> Self {
        let descriptors = descriptors();
        let rest = descriptors - RESERVED_DESCRIPTORS.min(descriptors / 4);
        let connections = (rest / 4).clamp(1, MAX_CONNECTIONS);
        Self {
            connections: Shares::new(connections, 1),
            clients: Shares::new(max_clients as u64, 1),
            processes: Shares::new(connections, 1),
            // A ring and a dictionary.
            segments: Shares::new(rest / 2, 2),
            resync_bytes: Shares::new(MAX_RESYNC_BYTES, MIN_BYTES),
            unfinished_bytes: Shares::new(MAX_UNFINISHED_BYTES, MIN_BYTES),
        }
    }
}

fn descriptors() -> u64 {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current.unwrap_or(u64::MAX)
}

/// Connections that may wait to be taken over, each of which is a descriptor.
pub(super) fn waiting_connections() -> usize {
    usize::try_from(descriptors() / 8).map_or(MAX_WAITING, |most| most.clamp(16, MAX_WAITING))
}

/// As whom a connection takes its share.
pub(super) fn holder(peer: Option<Credentials>, session: SessionNumber) -> Holder {
    // Where the pid is hidden each connection counts by itself, below the share of its user.
    let hidden = 1 << 32 | session.0;
    Holder {
        uid: peer.map_or(UNKNOWN_USER, |peer| peer.uid),
        process: peer.and_then(|peer| peer.pid).map_or(hidden, u64::from),
    }
}

/// Closed connections that are logged one by one, each with its own reason.
const CLOSINGS_LOGGED: u64 = 64;

/// Whether a count has passed the next power of two: a flood of connections must not become one of lines.
fn has_doubled(before: u64, now: u64) -> bool {
    before.checked_ilog2() != now.checked_ilog2()
}

/// Reasons for refusals that are counted separately.
const MAX_REASONS: usize = 32;

/// Counts and logs connections that are refused.
#[derive(Clone, Debug)]
pub(super) struct Refusals {
    traffic: Arc<Traffic>,
    log: LogHandle,
    /// By reason: a frequent one must not keep a rare one out of the log.
    counts: Arc<Mutex<BTreeMap<String, u64>>>,
}

impl Refusals {
    pub(super) fn new(traffic: &Arc<Traffic>, log: &LogHandle) -> Self {
        Self {
            traffic: Arc::clone(traffic),
            log: log.clone(),
            counts: Arc::default(),
        }
    }

    /// Counts connections refused for the same reason.
    pub(super) fn count(&self, pid: Option<u32>, reason: &str, connections: u64) {
        self.traffic.refused.fetch_add(connections, Relaxed);
        let (before, so_far) = {
            let mut counts = lock(&self.counts);
            // Some reasons have text of the peer: those beyond the bound are counted together.
            let is_known = counts.contains_key(reason) || counts.len() < MAX_REASONS;
            let reason = if is_known { reason } else { "" };
            let refused = counts.entry(reason.to_owned()).or_default();
            let before = *refused;
            *refused += connections;
            (before, *refused)
        };
        if has_doubled(before, so_far) {
            let reason = format!("{reason}; {so_far} refused so far");
            self.log.note(Note::ConnectionRefused { pid, reason });
        }
    }
}

/// Connections on which nothing came yet, oldest first for each process.
#[derive(Debug, Default)]
pub(super) struct SilentSessions {
    sessions: BTreeMap<Holder, BTreeSet<SessionNumber>>,
}

impl SilentSessions {
    pub(super) fn insert(&mut self, holder: Holder, session: SessionNumber) {
        self.sessions.entry(holder).or_default().insert(session);
    }

    pub(super) fn remove(&mut self, holder: Holder, session: SessionNumber) {
        if let Some(of_process) = self.sessions.get_mut(&holder) {
            of_process.remove(&session);
            if of_process.is_empty() {
                self.sessions.remove(&holder);
            }
        }
    }

    /// The oldest of a process, else the oldest of the process of its user that has most.
    pub(super) fn oldest_for(&self, holder: Holder) -> Option<SessionNumber> {
        let own = self.sessions.get(&holder);
        let first = Holder {
            process: 0,
            ..holder
        };
        let last = Holder {
            process: u64::MAX,
            ..holder
        };
        let of_user = || self.sessions.range(first..=last);
        let largest = || of_user().map(|(_holder, sessions)| sessions);
        let chosen = own.or_else(|| largest().max_by_key(|sessions| sessions.len()))?;
        chosen.first().copied()
    }

    /// The oldest of the process that has most, if one has several.
    pub(super) fn oldest_of_largest(&self) -> Option<SessionNumber> {
        let largest = self.sessions.values().max_by_key(|sessions| sessions.len());
        let largest = largest.filter(|sessions| sessions.len() > 1)?;
        largest.first().copied()
    }
}

impl Ingest {
    /// Takes a descriptor for a connection, for which a silent one of the same process or user may
    /// have to go; false if there is none.
    pub(super) fn admit_connection(&mut self, holder: Holder) -> bool {
        if self.shares.connections.take(holder, 1) {
            return true;
        }
        let Some(oldest) = self.silent.oldest_for(holder) else {
            return false;
        };
        let pid = self.sessions.get(&oldest).and_then(|session| session.pid);
        let reason = "its process or user has its share of the connections: the oldest silent one was \
                      closed";
        self.refusals.count(pid, reason, 1);
        self.close(oldest, None);
        // One for one: a share that has become smaller costs nobody more than that.
        self.shares.connections.take_ignoring_shares(holder, 1)
    }

    /// An old client is served no more: its place is for others.
    pub(super) fn drop_reports(&mut self, number: SessionNumber) {
        if let Some(session) = self.sessions.get_mut(&number) {
            if session.service == Service::Served {
                self.shares.clients.give_back(session.holder, 1);
            }
            session.service = Service::Dropped;
            let unanswered = std::mem::take(&mut session.outstanding);
            if let Protocol::Legacy(_) = std::mem::replace(&mut session.protocol, Protocol::Dropped)
            {
                let source = session.source(number);
                self.questions.leave(source, number, unanswered);
            }
        }
    }

    /// Whether the reports of a connection are taken: decided once, when its process is known.
    pub(super) fn admit_client(&mut self, number: SessionNumber) -> bool {
        let Some(session) = self.sessions.get_mut(&number) else {
            return false;
        };
        if session.service == Service::Undecided {
            let is_served = self.shares.clients.take(session.holder, 1);
            session.service = if is_served {
                Service::Served
            } else {
                Service::Dropped
            };
            if !is_served {
                let pid = session.pid;
                let most = self.config.server.max_clients;
                let reason =
                    format!("its process or user has its share of {most} clients (--max-clients)");
                self.refusals.count(pid, &reason, 1);
            }
        }
        let session = self.sessions.get(&number);
        session.is_some_and(|session| session.service == Service::Served)
    }

    /// Charges a client with what it is in the middle of sending, and with states of so many bytes that
    /// wait to be taken over.
    pub(super) fn charge_memory(
        &mut self,
        number: SessionNumber,
        waiting: u64,
    ) -> Result<(), (RefusalCode, String)> {
        let Some(session) = self.sessions.get_mut(&number) else {
            return Ok(());
        };
        let Protocol::Client(client) = &session.protocol else {
            return Ok(());
        };
        let (aside, unfinished) = (client.resync_bytes(), client.unfinished_bytes());
        let holder = session.holder;
        let states = &mut self.shares.resync_bytes;
        let refused = if !states.resize(holder, &mut session.resync_bytes, aside + waiting) {
            (IncompleteReason::ResyncsRefused, "states")
        } else {
            // Given back when the ledger has taken them over.
            session.resync_bytes -= waiting;
            let frames = &mut self.shares.unfinished_bytes;
            if frames.resize(holder, &mut session.unfinished_bytes, unfinished) {
                return Ok(());
            }
            (IncompleteReason::FramesRefused, "unfinished frames")
        };
        let (reason, what) = refused;
        if let Some(process) = session.process {
            self.mark_incomplete(process, reason, 1);
        }
        let reason = format!("its process or user has its share of the memory for {what}");
        Err((RefusalCode::Full, reason))
    }

    /// Gives back all that a connection took.
    pub(super) fn give_back(&mut self, number: SessionNumber, session: &super::session::Session) {
        let (holder, shares) = (session.holder, &mut self.shares);
        shares.connections.give_back(holder, 1);
        if session.service == Service::Served {
            shares.clients.give_back(holder, 1);
        }
        shares.resync_bytes.give_back(holder, session.resync_bytes);
        let unfinished = session.unfinished_bytes;
        shares.unfinished_bytes.give_back(holder, unfinished);
        self.silent.remove(holder, number);
    }

    /// A connection was closed because of what came, or did not come, over it.
    pub(super) fn count_closing(&mut self, pid: Option<u32>, reason: &str) {
        self.closed += 1;
        let is_early = self.closed <= CLOSINGS_LOGGED;
        if is_early || has_doubled(self.closed - 1, self.closed) {
            let reason = format!("{reason}; {} closed so far", self.closed);
            let note = Note::ConnectionClosed { pid, reason };
            self.config.log.note(note);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_of_the_own_process_goes_then_of_the_users_largest() {
        let mut silent = SilentSessions::default();
        let holder = |uid, process| Holder { uid, process };
        for (number, who) in [
            (1, holder(1, 10)),
            (2, holder(0, 20)),
            (3, holder(0, 21)),
            (4, holder(0, 21)),
            (5, holder(1, 11)),
            (6, holder(1, 11)),
            (7, holder(1, 11)),
        ] {
            silent.insert(who, SessionNumber(number));
        }
        assert_eq!(silent.oldest_for(holder(0, 20)), Some(SessionNumber(2)));
        assert_eq!(silent.oldest_for(holder(0, 99)), Some(SessionNumber(3)));
        assert_eq!(silent.oldest_for(holder(2, 1)), None);
        assert_eq!(silent.oldest_of_largest(), Some(SessionNumber(5)));
        for number in 5..=7 {
            silent.remove(holder(1, 11), SessionNumber(number));
        }
        assert_eq!(silent.oldest_of_largest(), Some(SessionNumber(3)));
        silent.remove(holder(0, 21), SessionNumber(3));
        assert_eq!(silent.oldest_of_largest(), None, "one connection each");
    }
}
