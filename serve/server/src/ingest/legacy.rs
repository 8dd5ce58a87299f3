//! The old protocol: requests of a client become commands for the ledger thread.

use super::collected::Collected;
use super::dump_requests::{DumpRequest, DumpRequests};
use crate::ledger_thread::{Command, SessionNumber};
use crate::log::{DumpKind, Note};
use std::collections::VecDeque;
use std::time::Instant;
use ttmem_event::legacy::{
    BufferTypeNumbering, Framer, FramingError, Generation, Request, RequestKind,
};
use ttmem_event::{Event, EventKind, KernelKind};
use ttmem_ledger::Anomaly;
use ttmem_report::HexId;

#[derive(Debug, Default)]
pub(super) struct LegacyProtocol {
    framer: Framer,
    requests: VecDeque<(Generation, Request)>,
    /// What it reported still counts, what it asked is not answered.
    pub(super) peer_gone: bool,
}

/// What has to happen before an old client's next request can be handled.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Pause {
    Done,
    /// Its earlier questions must be answered.
    Answers,
    /// Its process has as many questions under way as it may.
    Turn,
    /// The process behind it, which claims this pid, must be known: it is its first report.
    Identity(i32),
}

/// Who sent the requests, and how their numbers are read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Requester {
    pub(super) session: SessionNumber,
    pub(super) pid: Option<u32>,
    pub(super) outstanding: u32,
    /// How many questions its process may ask.
    pub(super) room: u32,
    /// Whether its reports are dropped; its questions are answered.
    pub(super) is_dropped: bool,
    pub(super) numbering: BufferTypeNumbering,
    /// For their events, in nanoseconds since the epoch.
    pub(super) time: u64,
    pub(super) now: Instant,
}

impl LegacyProtocol {
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), FramingError> {
        self.framer.push(bytes, &mut sink(&mut self.requests))
    }

    /// Whether a whole message waits for a pause to confirm its size.
    pub(super) fn awaits_pause(&self) -> bool {
        self.framer.awaits_pause()
    }

    /// Whether the first message is still incomplete.
    pub(super) fn is_undecided(&self) -> bool {
        self.framer.generation().is_none()
    }

    pub(super) fn pause_passed(&mut self) {
        self.framer.pause(&mut sink(&mut self.requests));
    }

    pub(super) fn finish(&mut self) -> Result<(), FramingError> {
        self.framer.finish(&mut sink(&mut self.requests))
    }

    /// Whether requests wait for answers to earlier ones.
    pub(super) fn is_held_back(&self) -> bool {
        !self.requests.is_empty()
    }

    /// Turns requests into commands until there is a reason to pause.
    pub(super) fn handle(
        &mut self,
        requester: &Requester,
        dumps: &mut DumpRequests,
        collected: &mut Collected,
    ) -> Pause {
        loop {
            let Some(&(generation, request)) = self.requests.front() else {
                break Pause::Done;
            };
            match request.kind {
                RequestKind::Query | RequestKind::DeviceInfoQuery if self.peer_gone => {}
                RequestKind::Query | RequestKind::DeviceInfoQuery => {
                    if collected.answers >= requester.room {
                        break Pause::Turn;
                    }
                    collected.answers += 1;
                    let query = Command::LegacyQuery(requester.session, generation, request);
                    collected.push(query);
                }
                RequestKind::DumpRemaining | RequestKind::DumpKernels => {
                    let kind = match request.kind {
                        RequestKind::DumpKernels => DumpKind::Kernels,
                        _remaining => DumpKind::Remaining,
                    };
                    let pid = requester.pid;
                    match dumps.ask(pid, requester.now) {
                        DumpRequest::Granted => collected.push(Command::Print(kind)),
                        DumpRequest::LeftOut { is_first: true } => {
                            collected.notes.push(Note::DumpsLeftOut { pid });
                        }
                        DumpRequest::LeftOut { is_first: false } => {}
                    }
                }
                RequestKind::Response | RequestKind::DeviceInfoResponse => {
                    collected.notes.push(Note::UnknownMessage {
                        pid: requester.pid,
                        message_type: request.kind.code(),
                    });
                    collected.refuse(Anomaly::Malformed);
                }
                RequestKind::Alloc
                | RequestKind::Free
                | RequestKind::CbAlloc
                | RequestKind::CbFree
                | RequestKind::KernelLoad
                | RequestKind::KernelUnload => {
                    if collected.process.is_none() {
                        // What it asked before it had a lane of its own comes before its report.
                        let asked = requester.outstanding + collected.answers > 0;
                        if asked && !self.peer_gone {
                            break Pause::Answers;
                        }
                        break Pause::Identity(request.process_id);
                    }
                    if requester.is_dropped {
                        collected.dropped += 1;
                        self.requests.pop_front();
                        continue;
                    }
                    let time = requester.time;
                    if let Some(kind) = event_of(&request, requester.numbering) {
                        collected.events.push(Event { time, kind });
                    } else {
                        collected.notes.push(Note::InvalidBufferType {
                            pid: requester.pid,
                            buffer_type: request.buffer_type,
                            id: HexId(request.buffer_id),
                            device: request.device_id,
                        });
                        collected.refuse(Anomaly::InvalidClass);
                    }
                }
            }
            self.requests.pop_front();
        }
    }
}

fn sink(requests: &mut VecDeque<(Generation, Request)>) -> impl FnMut(Generation, Request) {
    |generation, request| requests.push_back((generation, request))
}

/// A report as an event; `None` when it names no class.
fn event_of(request: &Request, numbering: BufferTypeNumbering) -> Option<EventKind> {
    let (device, size_bytes, id) = (request.device_id, request.size, request.buffer_id);
    Some(match request.kind {
        RequestKind::Alloc => EventKind::LegacyAllocated {
            device,
            class: numbering.class(request.buffer_type)?,
            size_bytes,
            id,
        },
        RequestKind::Free => EventKind::LegacyFreed { device, id },
        RequestKind::CbAlloc => EventKind::LegacyCbAllocated {
            device,
            size_bytes,
            id,
        },
        RequestKind::CbFree => EventKind::LegacyCbFreed {
            device,
            size_bytes,
            id,
        },
        RequestKind::KernelLoad => EventKind::LegacyKernelLoaded {
            device,
            kind: KernelKind::from_code(request.buffer_type).unwrap_or(KernelKind::Unknown),
            size_bytes,
            id,
        },
        RequestKind::KernelUnload => EventKind::LegacyKernelUnloaded { device, id },
        _no_report => return None,
    })
}
