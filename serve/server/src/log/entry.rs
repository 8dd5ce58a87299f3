//! What the log is made of: effects of events, and the server's own notes.
//!
//! The ledger thread and the sessions make these; the log's threads turn them into text. They carry
//! figures and no finished text, so that making one costs those threads next to nothing.

use serde::{Serialize, Serializer};
use std::sync::Arc;
use ttmem_event::catalogue::Arch;
use ttmem_event::{Class, EventKind};
use ttmem_ledger::{
    Anomaly, DeviceFacts, Effect, EffectKind, Exit, FailureMoment, IncompleteReason,
};
use ttmem_report::{Explanation, HexId, Verdict};

use super::dumps::DumpKind;
use crate::journal::Batch;
use crate::read::failures;
use crate::read::snapshot::released_at;
use crate::read::vocabulary;

/// An effect with the names that a reader of the log knows its process and device by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogEntry {
    pub effect: Effect,
    pub pid: Option<u32>,
    pub device: Option<u32>,
}

impl LogEntry {
    /// Whether a log shows it: what programs and caches do all the time only a verbose one.
    pub(super) fn is_shown(&self, verbose: bool) -> bool {
        match &self.effect.kind {
            // Of a failure the server's note says more.
            EffectKind::Happened(
                EventKind::AllocationFailed { .. } | EventKind::Clashed { .. },
            ) => false,
            EffectKind::Happened(event) => verbose || !is_routine(event),
            _ => true,
        }
    }

    pub(super) fn is_error(&self) -> bool {
        match &self.effect.kind {
            EffectKind::Contradicted { anomaly, event } => is_error(*anomaly, event),
            _ => false,
        }
    }
}

pub(super) fn is_error_at(batch: &Batch, index: usize) -> bool {
    let anomaly = batch.anomaly(index);
    anomaly.is_some_and(|anomaly| is_error(anomaly, &batch.events[index].kind))
}

/// Whether an event belongs on the error stream: an old sender's report that made no sense.
///
/// The old server wrote exactly these to standard error, and `--quiet` must not hide them.
fn is_error(anomaly: Anomaly, event: &EventKind) -> bool {
    use Anomaly::{AbsurdSize, InvalidDevice, ZeroSize};
    event.is_legacy() && matches!(anomaly, InvalidDevice | ZeroSize | AbsurdSize)
}

/// Far more frequent than a log is read for, and none of them changes what is held.
pub(super) fn is_routine(event: &EventKind) -> bool {
    matches!(
        event,
        EventKind::ProgramCreated { .. }
            | EventKind::ProgramFinalized { .. }
            | EventKind::CommandsCached { .. }
            | EventKind::BinarySent { .. }
            | EventKind::BinaryStatusChanged { .. }
            | EventKind::ProgramDestroyed { .. }
            | EventKind::Dispatched { .. }
            | EventKind::ConfigRingOpened { .. }
            | EventKind::ConfigRingReserved { .. }
            | EventKind::ConfigRingAllocated { .. }
            | EventKind::ConfigRingFreed { .. }
            | EventKind::ConfigRingFilled { .. }
            | EventKind::PrefetchOpened { .. }
            | EventKind::Prefetched { .. }
            | EventKind::PrefetchReset { .. }
            | EventKind::JitDiskLookup { .. }
            | EventKind::TraceReplayed { .. }
            | EventKind::StatisticsReported { .. }
            | EventKind::StackNoted { .. }
    )
}

/// A message of the server itself. In JSON its variant is the event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Note {
    ServerStarted {
        /// Where it listens: paths, and the URL for readers over TCP.
        sockets: Vec<String>,
        devices: Vec<NotedDevice>,
    },
    ServerStopped,
    ProcessJoined {
        pid: Option<u32>,
        /// Its name, as it or the system calls it.
        name: String,
    },
    /// The connections of a process ended, but it lives and keeps what it holds.
    ProcessDetached {
        pid: Option<u32>,
    },
    ProcessReturned {
        pid: Option<u32>,
    },
    ProcessDeparted {
        pid: Option<u32>,
        /// Why, and what it released.
        #[serde(rename = "released", serialize_with = "as_released")]
        exit: Exit,
    },
    /// Something of a process was refused or lost: its figures are not complete.
    ProcessIncomplete {
        pid: Option<u32>,
        #[serde(serialize_with = "by_word")]
        reason: IncompleteReason,
    },
    /// A process was refused memory.
    Failed(FailedNote),
    ConnectionRefused {
        pid: Option<u32>,
        reason: String,
    },
    /// A connection was closed for what it sent.
    ConnectionClosed {
        pid: Option<u32>,
        reason: String,
    },
    /// An old sender reported a buffer in a class that does not exist.
    InvalidBufferType {
        pid: Option<u32>,
        buffer_type: u8,
        id: HexId,
        /// The device number it sent.
        device: i32,
    },
    /// An old sender sent a message that only a server sends.
    UnknownMessage {
        pid: Option<u32>,
        message_type: u8,
    },
    /// An old client asks for dumps more often than they are printed.
    DumpsLeftOut {
        pid: Option<u32>,
    },
    /// Something of the server's own went wrong, and it carries on.
    ServerFailed {
        reason: String,
    },
    LogFailed {
        reason: String,
    },
    LogGap {
        lines: u64,
        reason: String,
    },
    Dump {
        kind: DumpKind,
        text: String,
    },
}

impl Note {
    pub fn is_error(&self) -> bool {
        matches!(
            self,
            Self::ProcessIncomplete { .. }
                | Self::ConnectionRefused { .. }
                | Self::ConnectionClosed { .. }
                | Self::InvalidBufferType { .. }
                | Self::UnknownMessage { .. }
                | Self::ServerFailed { .. }
                | Self::LogFailed { .. }
        )
    }
}

/// A failure as it was kept: what is said of it is worked out when it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedNote {
    pub(crate) moment: Arc<FailureMoment>,
    /// The logical ids of its devices.
    pub(crate) device_ids: Vec<u32>,
}

impl FailedNote {
    pub(super) fn explained(&self) -> Explanation {
        failures::explained(&self.moment, self.device_ids.clone())
    }
}

#[cfg(test)]
impl FailedNote {
    /// A request for L1 on device 3 that was refused so often, with enough free in pieces.
    pub(super) fn fragmented(times: u64) -> Self {
        use ttmem_event::{MeshId, Source, TextId};
        let identity = ttmem_ledger::ProcessIdentity {
            pid: Some(7),
            start_time: None,
            instance: None,
            uid: 0,
            name: "model".into(),
            source: Source::Attached,
            command: "".into(),
            visible_devices: "".into(),
        };
        let moment = FailureMoment {
            time: 5,
            last_time: 9,
            times,
            identity,
            devices: vec![0],
            event: EventKind::AllocationFailed {
                mesh: MeshId(0),
                class: Class::L1,
                banks: 64,
                requested_bytes: 64 * 4096,
                per_bank_bytes: 4096,
                free_bytes: 8192,
                largest_free_bytes: 2048,
                bank_bytes: 65_536,
                operation: TextId(1),
                call_first: 0,
            },
            origin: Some("ttnn.linear\n/home/me/model.py:57 forward".into()),
            cores: None,
            storage_start: None,
            is_dataflow: false,
            arch: None,
            capacity: None,
            blocks: None,
        };
        Self {
            moment: Arc::new(moment),
            device_ids: vec![3],
        }
    }
}

impl Serialize for FailedNote {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        /// Without blocks and maps, for which the read API is asked.
        #[derive(Serialize)]
        struct Line<'a> {
            pid: Option<u32>,
            device_ids: &'a [u32],
            verdict: Verdict,
            sentence: &'a str,
            operation: Option<&'a str>,
            python: Option<&'a str>,
            times: u64,
        }
        let explanation = self.explained();
        let line = Line {
            pid: explanation.pid,
            device_ids: &self.device_ids,
            verdict: explanation.verdict,
            sentence: &explanation.sentence,
            operation: explanation.operation.as_deref(),
            python: explanation.python.as_deref(),
            times: explanation.times,
        };
        line.serialize(serializer)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NotedDevice {
    pub id: u32,
    #[serde(serialize_with = "by_name")]
    pub arch: Option<Arch>,
    pub dram_bytes: Option<u64>,
    /// The L1 of all its compute cores.
    pub l1_bytes: Option<u64>,
    /// Whether it is reached through another chip.
    pub remote: Option<bool>,
}

impl From<&DeviceFacts> for NotedDevice {
    fn from(device: &DeviceFacts) -> Self {
        let dram = device.capacities[Class::Dram.index()];
        Self {
            id: device.logical_id,
            arch: device.arch,
            dram_bytes: dram.map(|capacity| capacity.total_bytes()),
            l1_bytes: device.compute.map(|compute| compute.physical_bytes()),
            remote: device.remote,
        }
    }
}

fn as_released<S: Serializer>(exit: &Exit, serializer: S) -> Result<S::Ok, S::Error> {
    released_at(exit).serialize(serializer)
}

fn by_word<S: Serializer>(reason: &IncompleteReason, serializer: S) -> Result<S::Ok, S::Error> {
    reason.name().serialize(serializer)
}

fn by_name<S: Serializer>(arch: &Option<Arch>, serializer: S) -> Result<S::Ok, S::Error> {
    arch.and_then(vocabulary::arch).serialize(serializer)
}
