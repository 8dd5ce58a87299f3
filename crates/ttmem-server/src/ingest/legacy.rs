//! What an old client says, as commands for the ledger thread.

use super::session::MAX_OUTSTANDING;
use crate::ledger_thread::{Command, ProcessNumber, SessionNumber};
use crate::log::{DumpKind, Note};
use std::collections::VecDeque;
use ttmem_event::legacy::{
    BufferTypeNumbering, Framer, FramingError, Generation, Request, RequestKind,
};
use ttmem_event::{Class, Event, EventKind, KernelKind};

#[derive(Debug, Default)]
pub(super) struct LegacyProtocol {
    framer: Framer,
    requests: VecDeque<(Generation, Request)>,
    /// Nobody is left to answer: questions are passed over.
    peer_gone: bool,
}

/// What has to happen before an old client's next request can be handled.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Pause {
    /// Nothing: all requests are handled.
    Done,
    /// Its earlier questions must be answered.
    Answers,
    /// The process behind it must be known: this is its first report.
    Identity { claimed_pid: i32 },
}

/// Who asks, and how its numbers are read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Requester {
    pub(super) session: SessionNumber,
    pub(super) process: Option<ProcessNumber>,
    pub(super) pid: Option<u32>,
    pub(super) outstanding: u32,
    pub(super) numbering: BufferTypeNumbering,
    pub(super) time: u64,
}

/// What handling requests led to.
#[derive(Debug, Default)]
pub(super) struct Handled {
    pub(super) commands: Vec<Command>,
    pub(super) asked: u32,
    /// Reports that name no class or are no request, for the log.
    pub(super) notes: Vec<Note>,
}

impl LegacyProtocol {
    /// Takes bytes from the connection.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), FramingError> {
        let requests = &mut self.requests;
        self.framer.push(bytes, &mut |generation, request| {
            requests.push_back((generation, request));
        })
    }

    /// Whether a whole message waits for 20 ms of quiet to tell its size.
    pub(super) fn awaits_pause(&self) -> bool {
        self.framer.wants_quiet()
    }

    /// Whether the first message is still incomplete.
    pub(super) fn is_undecided(&self) -> bool {
        self.framer.generation().is_none()
    }

    pub(super) fn pause_passed(&mut self) {
        let requests = &mut self.requests;
        self.framer
            .quiet(&mut |generation, request| requests.push_back((generation, request)));
    }

    /// The sender is gone: what it reported still counts, what it asked does not.
    pub(super) fn stop_answering(&mut self) {
        self.peer_gone = true;
    }

    pub(super) fn finish(&mut self) -> Result<(), FramingError> {
        let requests = &mut self.requests;
        self.framer
            .finish(&mut |generation, request| requests.push_back((generation, request)))
    }

    /// Whether requests wait for answers to earlier ones.
    pub(super) fn is_held_back(&self) -> bool {
        !self.requests.is_empty()
    }

    /// Turns requests into commands until there is a reason to pause.
    pub(super) fn handle(&mut self, requester: &Requester, handled: &mut Handled) -> Pause {
        let mut events = Vec::with_capacity(self.requests.len());
        let pause = loop {
            let Some((generation, request)) = self.requests.front() else {
                break Pause::Done;
            };
            let (generation, request) = (*generation, *request);
            if is_question(request.kind) {
                if self.peer_gone {
                    self.requests.pop_front();
                    continue;
                }
                if requester.outstanding + handled.asked >= MAX_OUTSTANDING {
                    break Pause::Answers;
                }
            }
            if is_report(request.kind) {
                let Some(process) = requester.process else {
                    break Pause::Identity {
                        claimed_pid: request.process_id,
                    };
                };
                match event_of(&request, requester.numbering) {
                    Some(kind) => events.push(Event {
                        time: requester.time,
                        kind,
                    }),
                    None => {
                        let anomaly = ttmem_ledger::Anomaly::InvalidClass;
                        handled.commands.push(Command::Refuse {
                            process,
                            anomaly,
                            count: 1,
                        });
                        handled.notes.push(Note::InvalidBufferType {
                            pid: requester.pid,
                            buffer_type: request.buffer_type,
                            id: request.buffer_id,
                            device: request.device_id,
                        });
                    }
                }
            } else {
                flush(requester, &mut events, handled);
                ask(requester, generation, &request, handled);
            }
            self.requests.pop_front();
        };
        flush(requester, &mut events, handled);
        pause
    }
}

fn flush(requester: &Requester, events: &mut Vec<Event>, handled: &mut Handled) {
    if let (Some(process), false) = (requester.process, events.is_empty()) {
        let events = std::mem::take(events);
        handled.commands.push(Command::Events {
            process,
            events,
            acknowledge: None,
        });
    }
}

fn is_report(kind: RequestKind) -> bool {
    matches!(
        kind,
        RequestKind::Alloc
            | RequestKind::Free
            | RequestKind::CbAlloc
            | RequestKind::CbFree
            | RequestKind::KernelLoad
            | RequestKind::KernelUnload
    )
}

fn is_question(kind: RequestKind) -> bool {
    matches!(kind, RequestKind::Query | RequestKind::DeviceInfoQuery)
}

fn ask(requester: &Requester, generation: Generation, request: &Request, handled: &mut Handled) {
    let (session, device) = (requester.session, request.device_id);
    let command = match request.kind {
        RequestKind::Query => Command::LegacyQuery {
            session,
            generation,
            device,
        },
        RequestKind::DeviceInfoQuery => Command::LegacyDeviceInfo {
            session,
            generation,
            device,
        },
        RequestKind::DumpRemaining => Command::Print(DumpKind::Remaining),
        RequestKind::DumpKernels => Command::Print(DumpKind::Kernels),
        other => {
            // A reply that a client sent, as far as anything can be read into it.
            handled.notes.push(Note::UnknownMessage {
                pid: requester.pid,
                message_type: other.code(),
            });
            let Some(process) = requester.process else {
                return;
            };
            let anomaly = ttmem_ledger::Anomaly::Malformed;
            Command::Refuse {
                process,
                anomaly,
                count: 1,
            }
        }
    };
    handled.asked += u32::from(is_question(request.kind));
    handled.commands.push(command);
}

/// A report as an event; `None` when it names no class.
fn event_of(request: &Request, numbering: BufferTypeNumbering) -> Option<EventKind> {
    let (device, size_bytes, id) = (request.device_id, request.size, request.buffer_id);
    Some(match request.kind {
        RequestKind::Alloc => {
            let class = Class::from_code(numbering.class_code(request.buffer_type)?)?;
            EventKind::LegacyAllocated {
                device,
                class,
                size_bytes,
                id,
            }
        }
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
        RequestKind::KernelLoad => {
            let kind = KernelKind::from_code(request.buffer_type).unwrap_or(KernelKind::Unknown);
            EventKind::LegacyKernelLoaded {
                device,
                kind,
                size_bytes,
                id,
            }
        }
        RequestKind::KernelUnload => EventKind::LegacyKernelUnloaded { device, id },
        _no_report => return None,
    })
}
