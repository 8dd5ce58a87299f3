//! What a client of the new protocol says, as commands for the ledger thread.

use super::recovery::{HandedSegment, SegmentKind};
use crate::clock::unix_nanos;
use crate::ledger_thread::{Command, ProcessNumber, SessionNumber};
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use ttmem_event::wire::{
    Clock, DecodeFrameError, Frame, FrameReader, PREAMBLE_BYTES, Preamble, ResyncEnd, RingPosition,
};
use ttmem_event::{Definition, Event, EventKind, Source};
use ttmem_ledger::Anomaly;
use ttmem_ring::remains::MAX_RINGS;

/// The most that one client may send as its whole state: eight million live entries.
const MAX_RESYNC_BYTES: usize = 512 << 20;

/// The most that all clients together may be in the middle of sending.
pub(super) const MAX_RESYNC_BYTES_IN_ALL: usize = 1 << 30;

/// Descriptors that may wait for their frames: a read ends with the message that brings one, so
/// that only a frame cut in two can leave one waiting.
const MAX_DESCRIPTORS: usize = 2;

/// Who a client says it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ClientHello {
    pub(super) instance: [u8; 16],
    pub(super) claimed_pid: u32,
    pub(super) source: Source,
    pub(super) name: Arc<str>,
    pub(super) visible_devices: Arc<str>,
}

/// Why a client's connection ends.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ClientError {
    /// Its bytes are not the protocol's.
    #[error(transparent)]
    Decode(#[from] DecodeFrameError),
    /// It did not introduce itself first.
    #[error("it sent a frame before its hello")]
    MissingHello,
    /// A frame came at the wrong time.
    #[error("{0} out of place")]
    Misplaced(&'static str),
    /// Its state is larger than any may be.
    #[error("a state of more than {MAX_RESYNC_BYTES} bytes")]
    ResyncTooLarge,
}

/// What reading frames led to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FrameOutcome {
    /// All frames so far are handled.
    Consumed,
    /// It hello itself: the caller finds the process and calls [`ClientProtocol::accept`].
    Hello(ClientHello),
    Goodbye,
}

/// The commands that frames led to.
#[derive(Debug, Default)]
pub(super) struct Collected {
    pub(super) commands: Vec<Command>,
    /// Memory that was handed over.
    pub(super) handed: Vec<HandedSegment>,
    /// How far rings were received.
    pub(super) drained: Vec<RingPosition>,
    events: Vec<Event>,
    /// Whether the client waits to hear that all is applied.
    wants_answer: bool,
}

#[derive(Debug)]
pub(super) struct ClientProtocol {
    preamble: Vec<u8>,
    version: Option<u16>,
    reader: FrameReader,
    process: Option<ProcessNumber>,
    clock: Clock,
    next_sequence: u64,
    resync: Option<Resync>,
    /// Whether its whole state is known and it is not about to send another.
    synced: bool,
    /// Descriptors whose frames are not read yet.
    descriptors: VecDeque<OwnedFd>,
    /// Segments handed over on this connection: rings, dictionaries.
    handed: [usize; 2],
    /// By ring: what is received with the next events or resync end.
    draining: BTreeMap<u32, u64>,
}

/// The state a client is sending, kept aside until it is complete.
#[derive(Debug, Default)]
struct Resync {
    definitions: Vec<Definition>,
    /// The bytes of its account.
    state: Vec<u8>,
    bytes: usize,
}

impl ClientProtocol {
    pub(super) fn new() -> Self {
        Self {
            preamble: Vec::new(),
            version: None,
            reader: FrameReader::default(),
            process: None,
            clock: Clock::UNIX_NANOS,
            next_sequence: 0,
            resync: None,
            synced: false,
            descriptors: VecDeque::new(),
            handed: [0; 2],
            draining: BTreeMap::new(),
        }
    }

    /// Takes descriptors that came beside bytes; those that cannot belong to a frame are closed.
    pub(super) fn take_descriptors(&mut self, descriptors: impl Iterator<Item = OwnedFd>) {
        for descriptor in descriptors {
            if self.descriptors.len() < MAX_DESCRIPTORS {
                self.descriptors.push_back(descriptor);
            }
        }
    }

    /// Takes bytes from the connection.
    pub(super) fn push(&mut self, mut bytes: &[u8]) -> Result<(), ClientError> {
        if self.version.is_none() {
            let missing = PREAMBLE_BYTES - self.preamble.len();
            let (more, rest) = bytes.split_at(missing.min(bytes.len()));
            self.preamble.extend_from_slice(more);
            bytes = rest;
            if let Ok(preamble) = self.preamble.as_slice().try_into() {
                self.version = Some(Preamble::decode(preamble)?.agree()?);
            }
        }
        self.reader.push(bytes);
        Ok(())
    }

    /// Whether it has not hello itself yet.
    pub(super) fn is_undecided(&self) -> bool {
        self.process.is_none()
    }

    /// The version both ends speak.
    pub(super) fn version(&self) -> u16 {
        self.version.unwrap_or(0)
    }

    /// The process behind it is known: its events count from `next_sequence`, `synced` tells
    /// whether its whole state is known from an earlier connection, `clock` is the last of those.
    pub(super) fn accept(
        &mut self,
        process: ProcessNumber,
        next_sequence: u64,
        synced: bool,
        clock: Clock,
    ) {
        self.process = Some(process);
        self.next_sequence = next_sequence;
        self.synced = synced;
        self.clock = clock;
    }

    /// How to read its time stamps.
    pub(super) fn clock(&self) -> Clock {
        self.clock
    }

    /// Bytes of its state that are kept aside.
    pub(super) fn resync_bytes(&self) -> usize {
        self.resync.as_ref().map_or(0, |resync| resync.bytes)
    }

    /// Whether its whole state is known; not so from the beginning of a resync to its end.
    pub(super) fn is_synced(&self) -> bool {
        self.synced
    }

    /// The sequence number after the last event it sent.
    pub(super) fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// Handles whole frames until there is a reason to stop.
    pub(super) fn read_frames(
        &mut self,
        collected: &mut Collected,
    ) -> Result<FrameOutcome, ClientError> {
        while let Some(frame) = self.reader.next_frame()? {
            let Some(process) = self.process else {
                return match frame {
                    Frame::Hello(hello) => Ok(FrameOutcome::Hello(ClientHello {
                        instance: hello.instance,
                        claimed_pid: hello.pid,
                        source: hello.source,
                        name: hello.name.into(),
                        visible_devices: hello.visible_devices.into(),
                    })),
                    _too_early => Err(ClientError::MissingHello),
                };
            };
            match frame {
                Frame::Hello(_) => return Err(ClientError::Misplaced("a second hello")),
                Frame::Define(definitions) => {
                    let definitions: Vec<Definition> = definitions.collect::<Result<_, _>>()?;
                    match &mut self.resync {
                        Some(resync) => {
                            resync.grow(definitions.iter().map(memory_bytes).sum())?;
                            resync.definitions.extend(definitions);
                        }
                        None => {
                            collected.flush(process, None);
                            collected.commands.push(Command::Define {
                                process,
                                definitions,
                            });
                        }
                    }
                }
                Frame::Clock(clock) => self.clock = clock,
                Frame::Events {
                    first_sequence,
                    records,
                } => {
                    collected.wants_answer = true;
                    if self.resync.is_some() {
                        return Err(ClientError::Misplaced("events"));
                    }
                    decode_events(
                        &mut self.next_sequence,
                        &self.clock,
                        process,
                        first_sequence,
                        records,
                        collected,
                    );
                    self.receive_drained(collected);
                }
                Frame::ResyncBegin => {
                    self.resync = Some(Resync::default());
                    // It had a reason to send its state: if it breaks off it is asked again.
                    self.synced = false;
                    collected.flush(process, None);
                    collected.commands.push(Command::ResyncBegan { process });
                }
                Frame::State(part) => {
                    let resync = self.resync.as_mut();
                    let resync = resync.ok_or(ClientError::Misplaced("state"))?;
                    resync.grow(part.len())?;
                    resync.state.extend_from_slice(part);
                }
                Frame::ResyncEnd(end) => {
                    self.end_resync(process, end, collected)?;
                    self.receive_drained(collected);
                }
                Frame::Flush => collected.wants_answer = true,
                Frame::Goodbye(_goodbye) => {
                    collected.flush(process, None);
                    return Ok(FrameOutcome::Goodbye);
                }
                Frame::Handover {
                    ring_bytes,
                    dictionary_bytes,
                } => self.accept_handover(process, ring_bytes, dictionary_bytes, collected),
                Frame::Drained(positions) => {
                    for RingPosition { ring, position } in positions {
                        if usize::try_from(ring).is_ok_and(|ring| ring < MAX_RINGS) {
                            self.draining.insert(ring, position);
                        } else {
                            collected.refuse(process);
                        }
                    }
                }
                Frame::Unknown(_) => {}
                Frame::Welcome(_) | Frame::Refused { .. } | Frame::Ack { .. } => {
                    return Err(ClientError::Misplaced("a frame of the server's"));
                }
            }
        }
        if self.reader.pending_bytes() == 0 {
            // No frame is left that they could belong to.
            self.descriptors.clear();
        }
        Ok(FrameOutcome::Consumed)
    }

    /// What was announced to be received is.
    fn receive_drained(&mut self, collected: &mut Collected) {
        let positions = std::mem::take(&mut self.draining).into_iter();
        let positions = positions.map(|(ring, position)| RingPosition { ring, position });
        collected.drained.extend(positions);
    }

    fn accept_handover(
        &mut self,
        process: ProcessNumber,
        ring_bytes: u64,
        dictionary_bytes: u64,
        collected: &mut Collected,
    ) {
        let descriptor = self.descriptors.pop_front();
        let [rings, dictionaries] = &mut self.handed;
        let (kind, bytes, count) = match (ring_bytes, dictionary_bytes) {
            (1.., 0) => (SegmentKind::Rings, ring_bytes, rings),
            (0, 1..) => (SegmentKind::Dictionary, dictionary_bytes, dictionaries),
            _neither_or_both => return collected.refuse(process),
        };
        let number = *count;
        // Also without a descriptor: the next one is the next one.
        *count = count.saturating_add(1);
        if let Some(descriptor) = descriptor {
            collected.handed.push(HandedSegment {
                kind,
                number,
                bytes,
                descriptor,
            });
        }
    }

    fn end_resync(
        &mut self,
        process: ProcessNumber,
        end: ResyncEnd,
        collected: &mut Collected,
    ) -> Result<(), ClientError> {
        let resync = self
            .resync
            .take()
            .ok_or(ClientError::Misplaced("a resync end"))?;
        self.next_sequence = end.next_sequence;
        collected.flush(process, None);
        collected.commands.push(Command::Resync {
            process,
            resync: ttmem_ledger::Resync {
                definitions: resync.definitions,
                state: resync.state,
                clock: self.clock,
                lost_events: end.lost_events,
                elided_events: end.elided_events,
            },
        });
        collected.wants_answer = true;
        self.synced = true;
        Ok(())
    }
}

impl Resync {
    fn grow(&mut self, bytes: usize) -> Result<(), ClientError> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > MAX_RESYNC_BYTES {
            Err(ClientError::ResyncTooLarge)
        } else {
            Ok(())
        }
    }
}

impl Collected {
    /// A record that is no event of this protocol.
    fn refuse(&mut self, process: ProcessNumber) {
        self.commands.push(Command::Refuse {
            process,
            anomaly: Anomaly::Malformed,
            count: 1,
        });
    }

    /// Makes a command of the events so far; with an answer if the client waits for one.
    pub(super) fn flush(
        &mut self,
        process: ProcessNumber,
        acknowledge: Option<(SessionNumber, u64)>,
    ) {
        if !self.events.is_empty() || acknowledge.is_some() {
            let events = std::mem::take(&mut self.events);
            self.commands.push(Command::Events {
                process,
                events,
                acknowledge,
            });
        }
    }

    /// Ends a read: the client is answered once, however many frames it sent.
    pub(super) fn finish(
        &mut self,
        process: ProcessNumber,
        session: SessionNumber,
        next_sequence: u64,
    ) -> bool {
        let answer = std::mem::take(&mut self.wants_answer);
        self.flush(process, answer.then_some((session, next_sequence)));
        answer
    }
}

/// Takes the events of a batch: none twice, and none missing unnoticed.
fn decode_events(
    next_sequence: &mut u64,
    clock: &Clock,
    process: ProcessNumber,
    first_sequence: u64,
    records: &[u8],
    collected: &mut Collected,
) {
    let events = Frame::events(records);
    let count = events.len() as u64;
    let decoded = |event: Event| Event {
        time: clock.unix_nanos_at(event.time),
        ..event
    };
    let known = next_sequence.saturating_sub(first_sequence);
    let missing = first_sequence.saturating_sub(*next_sequence);
    *next_sequence = (*next_sequence).max(first_sequence.saturating_add(count));
    if missing > 0 {
        let kind = EventKind::EventsLost { count: missing };
        collected.events.push(Event {
            time: unix_nanos(),
            kind,
        });
    }
    for event in events.skip(usize::try_from(known).unwrap_or(usize::MAX)) {
        match event {
            // Which words are this sender's own is for the ledger to know.
            Ok(event) => collected.events.push(decoded(event)),
            Err(_) => collected.refuse(process),
        }
    }
}

/// What a definition costs while it is kept aside.
fn memory_bytes(definition: &Definition) -> usize {
    let beside = match definition {
        Definition::Text { text, .. } => text.len(),
        Definition::Mesh(mesh) => size_of_val(mesh.devices.as_slice()),
        Definition::Cores { .. } | Definition::Device(_) => 0,
    };
    size_of::<Definition>() + beside
}
