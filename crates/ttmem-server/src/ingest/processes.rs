//! The processes behind the connections.
//!
//! A process is its pid as the kernel tells it, its start time, and the instance
//! id of its handshake; never the pid it claims. Where the kernel tells no pid
//! (another namespace), the connection itself is the identity. A process stays
//! known after its connections ended for as long as it lives.

use super::recovery::HandedMemory;
use crate::ledger_thread::{ProcessNumber, SessionNumber};
use crate::peer::{Peer, ProgramImage};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use ttmem_event::wire::Clock;

/// What tells one process from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ProcessKey {
    /// An old sender; all its connections are one process.
    Old { pid: u32, start_time: u64 },
    Client {
        pid: u32,
        start_time: u64,
        instance: [u8; 16],
    },
    /// A client whose pid cannot be seen: it comes back under the same instance.
    Foreign { uid: u32, instance: [u8; 16] },
    /// An old sender whose pid cannot be seen.
    Connection(SessionNumber),
}

impl ProcessKey {
    /// The key of a peer; `instance` is that of a client's handshake.
    pub(super) fn of(peer: &Peer, instance: Option<[u8; 16]>, session: SessionNumber) -> Self {
        match (peer.pid, peer.start_time, instance) {
            (Some(pid), Some(start_time), None) => Self::Old { pid, start_time },
            (Some(pid), Some(start_time), Some(instance)) => Self::Client {
                pid,
                start_time,
                instance,
            },
            (_, _, Some(instance)) => Self::Foreign {
                uid: peer.uid,
                instance,
            },
            (_, _, None) => Self::Connection(session),
        }
    }

    /// The pid, where one is seen.
    pub(super) fn pid(&self) -> Option<u32> {
        match self {
            Self::Old { pid, .. } | Self::Client { pid, .. } => Some(*pid),
            Self::Foreign { .. } | Self::Connection(_) => None,
        }
    }
}

/// A process that may hold something.
#[derive(Debug)]
pub(super) struct ProcessEntry {
    pub(super) key: ProcessKey,
    pub(super) sessions: Vec<SessionNumber>,
    /// Tells when it dies; without one only its connection tells.
    pub(super) pidfd: Option<OwnedFd>,
    /// The next sequence number that a client is expected to send.
    pub(super) next_sequence: u64,
    /// Whether a client's whole state was ever received.
    pub(super) synced: bool,
    /// How to read a client's time stamps.
    pub(super) clock: Clock,
    /// Tells when its program was replaced by exec.
    pub(super) image: Option<ProgramImage>,
    /// What a client recorded, for when it can no longer send it.
    pub(super) memory: HandedMemory,
}

/// All processes that may hold something.
#[derive(Debug, Default)]
pub(super) struct Processes {
    entries: HashMap<ProcessNumber, ProcessEntry>,
    numbers: HashMap<ProcessKey, ProcessNumber>,
    last: u64,
}

impl Processes {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn number(&self, key: &ProcessKey) -> Option<ProcessNumber> {
        self.numbers.get(key).copied()
    }

    pub(super) fn get_mut(&mut self, number: ProcessNumber) -> Option<&mut ProcessEntry> {
        self.entries.get_mut(&number)
    }

    pub(super) fn insert(
        &mut self,
        key: ProcessKey,
        pidfd: Option<OwnedFd>,
        image: Option<ProgramImage>,
    ) -> ProcessNumber {
        self.last += 1;
        let number = ProcessNumber(self.last);
        let entry = ProcessEntry {
            key,
            sessions: Vec::new(),
            pidfd,
            next_sequence: 0,
            synced: false,
            clock: Clock::UNIX_NANOS,
            image,
            memory: HandedMemory::default(),
        };
        self.entries.insert(number, entry);
        self.numbers.insert(key, number);
        number
    }

    pub(super) fn remove(&mut self, number: ProcessNumber) -> Option<ProcessEntry> {
        let entry = self.entries.remove(&number)?;
        self.numbers.remove(&entry.key);
        Some(entry)
    }

    /// Other instances that ran under the same pid: a program that was replaced by exec.
    pub(super) fn replaced_by(&self, key: &ProcessKey) -> Vec<ProcessNumber> {
        let ProcessKey::Client {
            pid,
            start_time,
            instance,
        } = *key
        else {
            return Vec::new();
        };
        let is_other = |other: &ProcessKey| match *other {
            ProcessKey::Client {
                pid: p,
                start_time: s,
                instance: i,
            } => (p, s) == (pid, start_time) && i != instance,
            ProcessKey::Old { .. } | ProcessKey::Foreign { .. } | ProcessKey::Connection(_) => {
                false
            }
        };
        let mut found: Vec<ProcessNumber> = self
            .numbers
            .iter()
            .filter(|(other, _number)| is_other(other))
            .map(|(_other, number)| *number)
            .collect();
        found.sort_unstable();
        found
    }
}
