//! The processes behind the connections.
//!
//! A process is its pid as the kernel reports it, its start time, and the instance
//! id of its handshake; never the pid it claims. Where the kernel shows no pid
//! (another namespace), the connection itself is the identity. A process stays
//! known after its connections ended for as long as it lives.

use super::client::ClientProgress;
use super::recovery::HandedMemory;
use crate::ledger_thread::{ProcessNumber, SessionNumber};
use crate::peer::{Peer, ProgramImage};
use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;
use std::os::fd::OwnedFd;
use std::time::Instant;
use ttmem_ledger::Holder;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ProcessKey {
    Local {
        pid: u32,
        start_time: u64,
        /// That of a client's handshake; all connections of an old sender are one process.
        instance: Option<[u8; 16]>,
    },
    /// A client whose pid cannot be seen: it comes back under the same instance.
    Foreign { uid: u32, instance: [u8; 16] },
    /// An old sender that ended before anything it sent was read: its pid is all that is known.
    Gone { pid: u32, uid: u32 },
    /// An old sender whose pid cannot be seen.
    Connection(SessionNumber),
}

impl ProcessKey {
    /// The key of a peer; `instance` is that of a client's handshake.
    pub(super) fn of(peer: &Peer, instance: Option<[u8; 16]>, session: SessionNumber) -> Self {
        let uid = peer.uid;
        match (peer.pid, peer.start_time, instance) {
            (Some(pid), Some(start_time), instance) => Self::Local {
                pid,
                start_time,
                instance,
            },
            (_, _, Some(instance)) => Self::Foreign { uid, instance },
            (Some(pid), None, None) if peer.is_gone() => Self::Gone { pid, uid },
            (_, _, None) => Self::Connection(session),
        }
    }

    pub(super) fn pid(&self) -> Option<u32> {
        match self {
            Self::Local { pid, .. } | Self::Gone { pid, .. } => Some(*pid),
            Self::Foreign { .. } | Self::Connection(_) => None,
        }
    }

    /// The instance of a client's handshake; old senders have none.
    pub(super) fn instance(&self) -> Option<[u8; 16]> {
        match self {
            Self::Local { instance, .. } => *instance,
            Self::Foreign { instance, .. } => Some(*instance),
            Self::Gone { .. } | Self::Connection(_) => None,
        }
    }
}

#[derive(Debug)]
pub(super) struct ProcessEntry {
    pub(super) key: ProcessKey,
    pub(super) sessions: Vec<SessionNumber>,
    /// Who is charged with it.
    pub(super) holder: Holder,
    /// Becomes readable when it dies; without one only its connection shows that.
    pub(super) pidfd: Option<OwnedFd>,
    /// Changes when its program is replaced by exec.
    pub(super) image: Option<ProgramImage>,
    /// Whether its connection had ended before anybody looked which program it runs.
    pub(super) ended_early: bool,
    /// Since when it is known to be dead, while connections that it made may still wait to be accepted.
    pub(super) dead_since: Option<Instant>,
    pub(super) progress: ClientProgress,
    /// What a client recorded, for when it can no longer send it.
    pub(super) memory: HandedMemory,
}

impl ProcessEntry {
    pub(super) fn connections(&self) -> u32 {
        u32::try_from(self.sessions.len()).unwrap_or(u32::MAX)
    }
}

#[derive(Debug, Default)]
pub(super) struct Processes {
    entries: HashMap<ProcessNumber, ProcessEntry>,
    /// In order, so that finding those of one pid does not take longer the more others there are.
    numbers: BTreeMap<ProcessKey, ProcessNumber>,
    last: u64,
}

impl Processes {
    pub(super) fn number(&self, key: &ProcessKey) -> Option<ProcessNumber> {
        self.numbers.get(key).copied()
    }

    pub(super) fn get_mut(&mut self, number: ProcessNumber) -> Option<&mut ProcessEntry> {
        self.entries.get_mut(&number)
    }

    /// A number that no process had before.
    pub(super) fn next_number(&mut self) -> ProcessNumber {
        self.last += 1;
        ProcessNumber(self.last)
    }

    pub(super) fn insert(
        &mut self,
        number: ProcessNumber,
        key: ProcessKey,
        peer: Peer,
        holder: Holder,
    ) {
        let entry = ProcessEntry {
            key,
            sessions: Vec::new(),
            holder,
            pidfd: peer.pidfd,
            image: peer.image,
            ended_early: false,
            dead_since: None,
            progress: ClientProgress::default(),
            memory: HandedMemory::default(),
        };
        self.entries.insert(number, entry);
        self.numbers.insert(key, number);
    }

    pub(super) fn remove(&mut self, number: ProcessNumber) -> Option<ProcessEntry> {
        let entry = self.entries.remove(&number)?;
        self.numbers.remove(&entry.key);
        Some(entry)
    }

    /// Other clients that ran in this one's process: it replaced them by exec.
    pub(super) fn replaced_by(&self, key: &ProcessKey) -> Vec<ProcessNumber> {
        let ProcessKey::Local {
            pid,
            start_time,
            instance: Some(instance),
        } = *key
        else {
            return Vec::new();
        };
        let clients = self.clients_of(pid, start_time..=start_time);
        let replaced = clients.filter(|(other, _number)| *other != instance);
        let mut replaced: Vec<_> = replaced.map(|(_other, number)| number).collect();
        replaced.sort_unstable();
        replaced
    }

    /// Whether a client has connected before, as far as its credentials tell.
    pub(super) fn knows_client(&self, peer: Holder, pid: Option<u32>, instance: [u8; 16]) -> bool {
        let uid = peer.uid;
        let foreign = ProcessKey::Foreign { uid, instance };
        self.numbers.contains_key(&foreign)
            || pid.is_some_and(|pid| {
                let mut clients = self.clients_of(pid, 0..=u64::MAX);
                clients.any(|(other, _number)| other == instance)
            })
    }

    /// Clients by pid and start times, with their instances.
    fn clients_of(
        &self,
        pid: u32,
        start_times: RangeInclusive<u64>,
    ) -> impl Iterator<Item = ([u8; 16], ProcessNumber)> {
        let key = |start_time: &u64, instance| ProcessKey::Local {
            pid,
            start_time: *start_time,
            instance,
        };
        let first = key(start_times.start(), None);
        let last = key(start_times.end(), Some([u8::MAX; 16]));
        let found = self.numbers.range(first..=last);
        found.filter_map(|(key, number)| Some((key.instance()?, *number)))
    }
}
