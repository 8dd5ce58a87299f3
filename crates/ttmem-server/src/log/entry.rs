//! What the log can say: effects of events, and the server's own notes.
//!
//! The ledger thread and the sessions make these; the scribe turns them into text. They carry
//! figures and no finished text, so that making one costs those threads next to nothing.

use std::sync::Arc;

use ttmem_event::What;
use ttmem_ledger::{Anomaly, Change, DeviceFacts, Effect, Exit};

/// An effect with the names that a reader of the log knows its process and device by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogEntry {
    /// What an event did.
    pub effect: Effect,
    /// The pid of the process, where the server can see it.
    pub pid: Option<u32>,
    /// The logical id of the device, if it concerns one.
    pub device: Option<u32>,
}

impl LogEntry {
    /// Whether a log shows it: what programs and caches do all the time only a verbose one.
    pub(super) fn is_shown(&self, verbose: bool) -> bool {
        match &self.effect.change {
            Change::Happened(what) => verbose || !is_routine(what),
            _ => true,
        }
    }

    /// The device it is about: the ledger's, or the one that a refused report named.
    pub(super) fn device_number(&self) -> Option<i64> {
        if let Some(device) = self.device {
            return Some(i64::from(device));
        }
        match self.effect.change {
            Change::Contradicted { what, .. } => what.legacy_device().map(i64::from),
            _ => None,
        }
    }
}

/// Whether the entry belongs on the error stream: an old sender's report that made no sense.
///
/// The old server wrote exactly these to standard error, and `--quiet` must not hide them.
#[must_use]
pub fn is_error(entry: &LogEntry) -> bool {
    matches!(
        entry.effect.change,
        Change::Contradicted {
            anomaly: Anomaly::InvalidDevice | Anomaly::ZeroSize | Anomaly::AbsurdSize,
            what,
        } if what.is_legacy()
    )
}

/// Far more frequent than a log is read for, and none of them changes what is held.
fn is_routine(what: &What) -> bool {
    matches!(
        what,
        What::ProgramCreated { .. }
            | What::ProgramFinalized { .. }
            | What::CommandsCached { .. }
            | What::BinarySent { .. }
            | What::BinaryStatusChanged { .. }
            | What::ProgramDestroyed { .. }
            | What::Dispatched { .. }
            | What::RingOpened { .. }
            | What::RingReserved { .. }
            | What::RingAllocated { .. }
            | What::RingFreed { .. }
            | What::RingFilled { .. }
            | What::PrefetchOpened { .. }
            | What::Prefetched { .. }
            | What::PrefetchReset { .. }
            | What::JitDiskLookup { .. }
            | What::TraceReplayed { .. }
            | What::StatisticsReported { .. }
            | What::StackNoted { .. }
    )
}

/// The size in an old sender's report, 0 if it has none.
pub(super) fn legacy_size(what: &What) -> u64 {
    match *what {
        What::LegacyAllocated { size_bytes, .. }
        | What::LegacyCbAllocated { size_bytes, .. }
        | What::LegacyCbFreed { size_bytes, .. }
        | What::LegacyKernelLoaded { size_bytes, .. } => size_bytes,
        _ => 0,
    }
}

/// Something that the server itself has to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// The server is ready.
    Started {
        /// Where it listens: paths, and the URL for readers over TCP.
        sockets: Vec<String>,
        /// The devices it knows of.
        devices: Vec<DeviceFacts>,
    },
    /// The server ends.
    Stopped,
    /// A process appeared.
    Joined {
        /// Its pid.
        pid: Option<u32>,
        /// Its name, as it or the system calls it.
        name: Arc<str>,
    },
    /// The connections of a process ended, but it lives and keeps what it holds.
    Detached {
        /// Its pid.
        pid: Option<u32>,
    },
    /// A detached process is connected again.
    Returned {
        /// Its pid.
        pid: Option<u32>,
    },
    /// A process was let go.
    Departed {
        /// Its pid.
        pid: Option<u32>,
        /// Why, and what it released.
        exit: Exit,
    },
    /// A connection was not accepted.
    Refused {
        /// The pid of the peer.
        pid: Option<u32>,
        /// Why.
        reason: String,
    },
    /// A connection was closed for what it sent.
    Dropped {
        /// The pid of the peer.
        pid: Option<u32>,
        /// What was wrong.
        reason: String,
    },
    /// An old sender reported a buffer in a class that does not exist.
    InvalidBufferType {
        /// The pid of the sender.
        pid: Option<u32>,
        /// The number it sent.
        buffer_type: u8,
        /// The buffer's address.
        id: u64,
        /// The device number it sent.
        device: i32,
    },
    /// An old sender sent a message that only a server sends.
    UnknownMessage {
        /// The pid of the sender.
        pid: Option<u32>,
        /// The message's type byte.
        message_type: u8,
    },
}

impl Note {
    /// Whether the note belongs on the error stream.
    #[must_use]
    pub fn is_error(&self) -> bool {
        match self {
            Self::Refused { .. }
            | Self::Dropped { .. }
            | Self::InvalidBufferType { .. }
            | Self::UnknownMessage { .. } => true,
            Self::Started { .. }
            | Self::Stopped
            | Self::Joined { .. }
            | Self::Detached { .. }
            | Self::Returned { .. }
            | Self::Departed { .. } => false,
        }
    }
}
