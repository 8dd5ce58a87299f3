//! What the ledger thread is asked to do.

use crate::ingest::Recovery;
use crate::log::DumpKind;
use crate::recorder::Tap;
use crossbeam_channel::Sender;
use std::sync::Arc;
use ttmem_event::legacy::{Generation, Request};
use ttmem_event::{Definition, Event};
use ttmem_ledger::{
    Anomaly, Change, Departure, Holder, IncompleteReason, Labels, ProcessIdentity, ProcessState,
    Released, Resync,
};

/// A process, as the sessions count them; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ProcessNumber(pub(crate) u64);

/// A connection, as the sessions count them; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SessionNumber(pub(crate) u64);

/// One thing for the ledger thread to do. Those of one lane are done in the order they come.
#[derive(Debug)]
pub(crate) enum Command {
    /// A process joins, with the pid it claims to have.
    Join(ProcessNumber, ProcessIdentity, i64),
    /// A command about a process that has joined.
    Process(ProcessNumber, ProcessCommand),
    /// Confirms to a session that everything before this sequence number is applied.
    Acknowledge(SessionNumber, u64),
    /// An old client asks for the totals of a device, its size, or how many there are.
    LegacyQuery(SessionNumber, Generation, Request),
    /// Prints a dump or summary on the server's log.
    Print(DumpKind),
    /// Replies when the last of its copies, one in each lane, is reached.
    Pass(Arc<Sender<()>>),
    /// Forgets a process on a user's request.
    Forget {
        pid: u32,
        /// The requesting user: only the owner, root and the server's own user may.
        uid: u32,
        time: u64,
        /// What was released, or that it may not.
        reply: Sender<Result<Vec<Released>, ForgetError>>,
    },
    /// Hands all that follows to one more who records.
    Record(Tap),
    Mark {
        uid: u32,
        name: Arc<str>,
        time: u64,
        reply: Sender<u64>,
    },
}

/// What happened to a process that has joined.
#[derive(Debug)]
pub(crate) enum ProcessCommand {
    /// A change of it; the ledger thread fills in its slot.
    Change(Change),
    Events(Reports),
    /// What it left in its memory, to be read and applied after its death.
    Recover(Box<Recovery>),
    /// Events that nobody will ever see.
    Lost {
        /// Events that it still had to send when it died.
        gone_events: u64,
        /// Events that it had no room for, over its whole life: it may have reported them.
        lost_events: u64,
        time: u64,
    },
    /// Its whole state, to replace what is known, and the memory that it takes.
    Resync(Arc<Resync>, ResyncMemory),
}

/// The slot in a change of a process before the ledger thread fills it in.
const NO_SLOT: u32 = u32::MAX;

impl ProcessCommand {
    /// Its connections ended or it reconnected; how many connections it has.
    pub(crate) fn state(state: ProcessState, connections: u32) -> Self {
        Self::Change(Change::SetState {
            process: NO_SLOT,
            state,
            connections,
        })
    }

    /// What its next events refer to, in the order they came.
    pub(crate) fn define(definitions: Vec<Definition>) -> Self {
        Self::Change(Change::Define {
            process: NO_SLOT,
            definitions: Arc::new(definitions),
        })
    }

    pub(crate) fn labels(labels: Labels) -> Self {
        Self::Change(Change::SetLabels {
            process: NO_SLOT,
            labels,
        })
    }

    /// Reports that were refused while they were read.
    pub(crate) fn refuse(anomaly: Anomaly, count: u64) -> Self {
        Self::Change(Change::Refuse {
            process: NO_SLOT,
            anomaly,
            count,
        })
    }

    /// Something that it sent was refused.
    pub(crate) fn incomplete(reason: IncompleteReason, count: u64) -> Self {
        Self::Change(Change::MarkIncomplete {
            process: NO_SLOT,
            reason,
            count,
        })
    }

    /// It sends its whole state; until that is complete the old view stays.
    pub(crate) fn begin_resync() -> Self {
        Self::Change(Change::BeginResync { process: NO_SLOT })
    }

    /// It exited; how, and when.
    pub(crate) fn depart(departure: Departure, time: u64) -> Self {
        Self::Change(Change::Depart {
            process: NO_SLOT,
            departure,
            time,
        })
    }
}

/// Events of a process in the order they came, times in nanoseconds since the epoch; and how far
/// they are applied.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    pub(crate) events: Arc<Vec<Event>>,
    /// Whether they were read from its memory after its death.
    pub(crate) recovered: bool,
    pub(super) applied: usize,
    /// What was wrong with those that are applied, by index.
    pub(super) anomalies: Vec<(usize, Anomaly)>,
}

impl From<Vec<Event>> for Reports {
    fn from(mut events: Vec<Event>) -> Self {
        // They are kept for long: room for a full batch must not be kept for a single event.
        events.shrink_to_fit();
        Self {
            events: Arc::new(events),
            ..Self::default()
        }
    }
}

impl Reports {
    pub(crate) fn recovered(events: Vec<Event>) -> Self {
        Self {
            recovered: true,
            ..Self::from(events)
        }
    }
}

impl Command {
    /// About what it takes while it waits.
    pub(super) fn memory_bytes(&self) -> usize {
        let beside = match self {
            Self::Process(_, ProcessCommand::Events(reports)) => {
                size_of_val(reports.events.as_slice())
            }
            Self::Process(_, ProcessCommand::Change(Change::Define { definitions, .. })) => {
                definitions.iter().map(definition_bytes).sum()
            }
            Self::Process(_, ProcessCommand::Resync(resync, _)) => {
                let definitions = resync.definitions.iter().map(definition_bytes);
                resync.state.len() + definitions.sum::<usize>()
            }
            _small => 0,
        };
        size_of::<Self>() + beside
    }

    /// Events that it has to apply; a whole state counts as one.
    pub(super) fn reports(&self) -> usize {
        match self {
            Self::Process(_, ProcessCommand::Events(reports)) => {
                reports.events.len() - reports.applied
            }
            Self::Process(_, ProcessCommand::Resync(..) | ProcessCommand::Recover(_)) => 1,
            _other => 0,
        }
    }

    pub(super) fn is_change(&self) -> bool {
        matches!(
            self,
            Self::Join(..) | Self::Process(..) | Self::Forget { .. } | Self::Mark { .. }
        )
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ForgetError {
    #[error("no process {0} is tracked")]
    Unknown(u32),
    /// The server ends: it forgets everything anyway.
    #[error("the server is stopping")]
    Stopping,
    #[error("process {0} belongs to another user")]
    NotAllowed(u32),
}

/// What the ledger thread sends to the sessions.
#[derive(Debug)]
pub(crate) enum Answer {
    Bytes(SessionNumber, Vec<u8>),
    /// A process was forgotten on request: its number means nothing any more.
    Forgotten(ProcessNumber),
    /// A state is in the ledger, or will never be: its memory is free.
    Resynced(ResyncMemory),
}

/// Memory of a state that waits to be taken over, and who is charged with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResyncMemory {
    pub(crate) holder: Holder,
    pub(crate) bytes: u64,
}

/// What a definition costs while it is kept.
pub(crate) fn definition_bytes(definition: &Definition) -> usize {
    let beside = match definition {
        Definition::Text { text, .. } => text.len(),
        Definition::Mesh(mesh) => size_of_val(mesh.devices.as_slice()),
        Definition::Cores { .. } | Definition::Device(_) => 0,
    };
    size_of::<Definition>() + beside
}
