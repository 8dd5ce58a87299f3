//! What the ledger thread is asked to do.

use crate::log::DumpKind;
use crossbeam_channel::Sender;
use std::sync::Arc;
use ttmem_event::legacy::Generation;
use ttmem_event::{Definition, Event};
use ttmem_ledger::{Anomaly, Departure, ProcessIdentity, ProcessState, Released, Resync};

/// A process, as the sessions count them; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessNumber(pub u64);

/// A connection, as the sessions count them; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionNumber(pub u64);

/// One thing for the ledger thread to do. They are done in the order they come.
#[derive(Debug)]
pub enum Command {
    Join {
        /// Its number from now on.
        process: ProcessNumber,
        identity: ProcessIdentity,
        /// The pid it claims to have.
        claimed_pid: i64,
    },
    /// A process's connections ended, or it came back.
    State {
        process: ProcessNumber,
        state: ProcessState,
        /// How many connections it has.
        connections: u32,
    },
    /// What the process's next events refer to.
    Define {
        process: ProcessNumber,
        /// In the order they came.
        definitions: Vec<Definition>,
    },
    /// Events of a process, times in nanoseconds since the epoch.
    Events {
        process: ProcessNumber,
        /// In the order they came.
        events: Vec<Event>,
        /// Whom to tell that they are applied: the session and the next sequence number.
        acknowledge: Option<(SessionNumber, u64)>,
    },
    /// A report was refused while it was read.
    Refuse {
        process: ProcessNumber,
        anomaly: Anomaly,
        count: u64,
    },
    /// Events that a process recorded and that were read from its memory after its death.
    Recovered {
        process: ProcessNumber,
        /// In the order of their times, in nanoseconds since the epoch.
        events: Vec<Event>,
    },
    /// Events of a process that nobody will ever see.
    Lost {
        process: ProcessNumber,
        /// Events that it still had to send when it died.
        gone_events: u64,
        /// Events that it had no room for, over its whole life: it may have reported them.
        lost_events: u64,
        /// When that was found.
        time: u64,
    },
    /// A process sends its whole state; until it is complete the old view stays.
    ResyncBegan {
        process: ProcessNumber,
    },
    /// The whole state of a process, to replace what is known.
    Resync {
        process: ProcessNumber,
        resync: Resync,
    },
    Depart {
        process: ProcessNumber,
        departure: Departure,
        time: u64,
    },
    /// An old client asks for the totals of a device.
    LegacyQuery {
        session: SessionNumber,
        /// In which form to answer.
        generation: Generation,
        device: i32,
    },
    /// An old client asks for the size of a device, or how many there are (−1).
    LegacyDeviceInfo {
        session: SessionNumber,
        /// In which form to answer.
        generation: Generation,
        device: i32,
    },
    /// A dump or summary is to be printed on the server's log.
    Print(DumpKind),
    /// Somebody waits for a view.
    Publish,
    /// Somebody wants to know when all commands before this one are done.
    CatchUp {
        reply: Sender<()>,
    },
    /// Somebody asks to forget a process.
    Forget {
        pid: u32,
        /// The asker's user: only the owner, root and the server's own user may.
        uid: u32,
        time: u64,
        /// What was released, or that it may not.
        reply: Sender<Result<Vec<Released>, ForgetError>>,
    },
    /// A reader sets a mark.
    Mark {
        name: Arc<str>,
        time: u64,
        reply: Sender<u64>,
    },
    Stop,
}

impl Command {
    /// Whether it can change the ledger.
    pub(super) fn is_change(&self) -> bool {
        let is_question = matches!(
            self,
            Self::Publish
                | Self::CatchUp { .. }
                | Self::Print(_)
                | Self::LegacyQuery { .. }
                | Self::LegacyDeviceInfo { .. }
                | Self::Stop
        );
        !is_question
    }
}

/// Why a process was not forgotten.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForgetError {
    /// Nothing is known of it.
    #[error("no process {0} is tracked")]
    Unknown(u32),
    /// The server ends: it forgets everything anyway.
    #[error("the server is stopping")]
    Stopping,
    /// It belongs to another user.
    #[error("process {0} belongs to another user")]
    NotAllowed(u32),
}

/// What the ledger thread says to a session.
#[derive(Debug)]
pub enum Answer {
    /// Bytes to send as they are.
    Bytes {
        session: SessionNumber,
        bytes: Vec<u8>,
    },
    /// A process was forgotten on request: its numbers mean nothing any more.
    Forgotten { process: ProcessNumber },
}
