//! The new protocol: frames of a client become commands for the ledger thread.

use super::collected::Collected;
use super::rate::{Allowance, Rate};
use super::recovery::{HandedSegment, SegmentKind};
use crate::clock::unix_nanos;
use crate::ledger_thread::{ProcessCommand, definition_bytes};
use crate::peer;
use std::collections::{BTreeMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::os::fd::OwnedFd;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};
use ttmem_event::catalogue::is_device_list;
use ttmem_event::wire::{
    Clock, DecodeFrameError, Frame, FrameKind, FrameReader, PREAMBLE_BYTES, Preamble, ResyncEnd,
    RingPosition,
};
use ttmem_event::{Definition, Event, EventKind};
use ttmem_ledger::{Anomaly, Labels, MAX_LABEL_CHARS, ProcessIdentity};
use ttmem_ring::MAX_RINGS;

/// Descriptors that may wait for their frames: a read ends with the message that brings one, so
/// that only a frame cut in two can leave one waiting.
const MAX_DESCRIPTORS: usize = 2;

/// Frames without events that a client may send: far more than any that has something to report.
///
/// Those of a newer client that this server does not know are among them. Each is little to read,
/// and little to send: without a limit they would keep this thread busy for nothing.
const EMPTY_FRAMES: Rate = Rate {
    burst: 8192,
    interval: Duration::from_micros(20),
};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ClientError {
    #[error(transparent)]
    Decode(#[from] DecodeFrameError),
    #[error("it sent a frame before its hello")]
    MissingHello,
    #[error("{0} out of place")]
    Misplaced(&'static str),
    #[error("too many frames without events in a short time")]
    TooManyEmptyFrames,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum FrameOutcome {
    /// All frames so far are handled.
    Consumed,
    /// It introduced itself: the caller finds its process and sets [`ClientProtocol::progress`].
    ///
    /// As the client claims, with its pid; the kernel's credentials complete it.
    Hello(Introduction),
    /// It begins to report, and its process is [not looked for](ClientProtocol::introduction) yet.
    Reports,
    Goodbye,
}

/// What a client says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Introduction {
    pub(super) identity: ProcessIdentity,
    pub(super) claimed_pid: u32,
    pub(super) labels: Labels,
}

/// What is known of a client from one connection to the next.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClientProgress {
    /// The sequence number after the last event it sent.
    pub(super) next_sequence: u64,
    /// Whether its whole state is known; not so from the beginning of a resync to its end.
    pub(super) synced: bool,
    /// How to read its time stamps.
    pub(super) clock: Clock,
}

impl Default for ClientProgress {
    fn default() -> Self {
        Self {
            next_sequence: 0,
            synced: false,
            clock: Clock::UNIX_NANOS,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct ClientProtocol {
    preamble: Vec<u8>,
    version: Option<u16>,
    reader: FrameReader,
    /// With what earlier connections brought; `None` until its process is known.
    pub(super) progress: Option<ClientProgress>,
    /// As long as it reports nothing, its process need not be found.
    pub(super) introduction: Option<Introduction>,
    resync: Option<Resync>,
    /// Descriptors whose frames are not read yet.
    descriptors: VecDeque<OwnedFd>,
    /// Segments handed over on this connection: rings, dictionaries.
    handed: [usize; 2],
    /// By ring: what is received with the next events or resync end.
    draining: BTreeMap<u32, u64>,
    empty_frames: Allowance,
    /// Completed units: frames outside of a resync, and whole resyncs.
    pub(super) completed: u64,
}

/// The state a client is sending, kept aside until it is complete.
#[derive(Debug, Default)]
struct Resync {
    definitions: Vec<Definition>,
    state: Vec<u8>,
    bytes: u64,
}

impl ClientProtocol {
    /// Takes descriptors that came beside bytes; those that cannot belong to a frame are closed.
    pub(super) fn take_descriptors(&mut self, descriptors: impl Iterator<Item = OwnedFd>) {
        for descriptor in descriptors {
            if self.descriptors.len() < MAX_DESCRIPTORS {
                self.descriptors.push_back(descriptor);
            }
        }
    }

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

    pub(super) fn version(&self) -> u16 {
        self.version.unwrap_or(0)
    }

    pub(super) fn resync_bytes(&self) -> u64 {
        self.resync.as_ref().map_or(0, |resync| resync.bytes)
    }

    pub(super) fn unfinished_bytes(&self) -> u64 {
        self.reader.pending_bytes() as u64
    }

    /// Bytes of what has begun and not ended; a state without content has begun as well.
    pub(super) fn begun_bytes(&self) -> u64 {
        u64::from(self.resync.is_some()) + self.resync_bytes() + self.unfinished_bytes()
    }

    /// Handles whole frames until there is a reason to stop.
    pub(super) fn read_frames(
        &mut self,
        collected: &mut Collected,
        now: Instant,
    ) -> Result<FrameOutcome, ClientError> {
        loop {
            if self.introduction.is_some() && self.reader.next_kind().is_some_and(is_report) {
                return Ok(FrameOutcome::Reports);
            }
            let Some(frame) = self.reader.next_frame()? else {
                break;
            };
            let is_empty = matches!(
                frame,
                Frame::Unknown(_) | Frame::Flush | Frame::Clock(_) | Frame::Drained(_)
            );
            if is_empty && !self.empty_frames.take(EMPTY_FRAMES, now) {
                return Err(ClientError::TooManyEmptyFrames);
            }
            let Some(progress) = &mut self.progress else {
                let Frame::Hello(hello) = frame else {
                    return Err(ClientError::MissingHello);
                };
                let identity = ProcessIdentity {
                    pid: None,
                    start_time: None,
                    instance: Some(hello.instance),
                    uid: 0,
                    name: peer::printable(hello.name.as_bytes())
                        .unwrap_or_default()
                        .into(),
                    source: hello.source,
                    command: "".into(),
                    visible_devices: device_list(hello.visible_devices),
                };
                return Ok(FrameOutcome::Hello(Introduction {
                    identity,
                    claimed_pid: hello.pid,
                    labels: labels_of(&hello.labels),
                }));
            };
            if self.resync.is_none() || matches!(frame, Frame::ResyncEnd(_)) {
                self.completed += 1;
            }
            match frame {
                Frame::Hello(_) => return Err(ClientError::Misplaced("a second hello")),
                Frame::Define(definitions) => {
                    let definitions: Vec<Definition> = definitions.collect::<Result<_, _>>()?;
                    match &mut self.resync {
                        Some(resync) => {
                            let bytes = definitions.iter().map(definition_bytes);
                            resync.bytes += bytes.sum::<usize>() as u64;
                            resync.definitions.extend(definitions);
                        }
                        None => collected.push_for_process(ProcessCommand::define(definitions)),
                    }
                }
                Frame::Clock(clock) => progress.clock = clock,
                Frame::Events {
                    first_sequence,
                    records,
                } => {
                    collected.answers = 1;
                    if self.resync.is_some() {
                        return Err(ClientError::Misplaced("events"));
                    }
                    progress.decode_events(first_sequence, records, collected);
                    self.receive_drained(collected);
                }
                Frame::ResyncBegin => {
                    self.resync = Some(Resync::default());
                    // It had a reason to send its state: if it breaks off it is asked again.
                    progress.synced = false;
                    collected.push_for_process(ProcessCommand::begin_resync());
                }
                Frame::State(part) => {
                    let resync = self.resync.as_mut();
                    let resync = resync.ok_or(ClientError::Misplaced("state"))?;
                    resync.bytes += part.len() as u64;
                    resync.state.extend_from_slice(part);
                }
                Frame::ResyncEnd(end) => {
                    let resync = self.resync.take();
                    let resync = resync.ok_or(ClientError::Misplaced("a resync end"))?;
                    progress.next_sequence = end.next_sequence;
                    progress.synced = true;
                    collected.complete_resync(resync.complete(progress.clock, end));
                    collected.answers = 1;
                    self.receive_drained(collected);
                }
                Frame::Flush => collected.answers = 1,
                Frame::Goodbye(_goodbye) => return Ok(FrameOutcome::Goodbye),
                Frame::Handover {
                    ring_bytes,
                    dictionary_bytes,
                } => self.accept_handover(ring_bytes, dictionary_bytes, collected),
                Frame::Drained(positions) => {
                    for RingPosition { ring, position } in positions {
                        if usize::try_from(ring).is_ok_and(|ring| ring < MAX_RINGS) {
                            self.draining.insert(ring, position);
                        } else {
                            collected.refuse(Anomaly::Malformed);
                        }
                    }
                }
                Frame::Unknown(_) => {}
                Frame::Welcome(_) | Frame::Refused { .. } | Frame::Ack { .. } => {
                    return Err(ClientError::Misplaced("a server-to-client frame"));
                }
            }
        }
        if self.reader.pending_bytes() == 0 {
            // No frame is left that they could belong to.
            self.descriptors.clear();
        }
        Ok(FrameOutcome::Consumed)
    }

    /// Marks the announced ring positions as received.
    fn receive_drained(&mut self, collected: &mut Collected) {
        let positions = std::mem::take(&mut self.draining).into_iter();
        let positions = positions.map(|(ring, position)| RingPosition { ring, position });
        collected.drained.extend(positions);
    }

    fn accept_handover(
        &mut self,
        ring_bytes: u64,
        dictionary_bytes: u64,
        collected: &mut Collected,
    ) {
        let descriptor = self.descriptors.pop_front();
        let [rings, dictionaries] = &mut self.handed;
        let (kind, bytes, count) = match (ring_bytes, dictionary_bytes) {
            (1.., 0) => (SegmentKind::Rings, ring_bytes, rings),
            (0, 1..) => (SegmentKind::Dictionary, dictionary_bytes, dictionaries),
            _neither_or_both => return collected.refuse(Anomaly::Malformed),
        };
        let number = *count;
        // Counted even without a descriptor: segments are numbered by position.
        *count = count.saturating_add(1);
        collected
            .handed
            .extend(descriptor.map(|descriptor| HandedSegment {
                kind,
                number,
                bytes,
                descriptor,
            }));
    }
}

/// The set of devices that a client counts its numbers in.
///
/// The set tells devices apart in documents for all readers, so a text that is not a list of devices is replaced by one
/// that says only which texts are the same.
fn device_list(text: &str) -> Arc<str> {
    /// Keyed: nobody finds a text by trying its likely values.
    static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    if is_device_list(text) {
        return Arc::from(text);
    }
    Arc::from(format!("set-{:016x}", KEY.hash_one(text)))
}

/// Whether a frame is about the process that sends it, or wants an answer about it.
fn is_report(kind: u8) -> bool {
    let kind = FrameKind::from_code(kind);
    kind.is_some_and(|kind| !matches!(kind, FrameKind::Clock | FrameKind::Goodbye))
}

/// What a client says of where it runs, as far as it can be shown.
fn labels_of(said: &[(&str, &str)]) -> Labels {
    let shown = said.iter().filter_map(|(key, value)| {
        let value = peer::printable_up_to(MAX_LABEL_CHARS, value.as_bytes())?;
        Some((*key, value))
    });
    let shown: Vec<(&str, String)> = shown.collect();
    Labels::new(shown.iter().map(|(key, value)| (*key, value.as_str())))
}

impl Resync {
    fn complete(self, clock: Clock, end: ResyncEnd) -> (ttmem_ledger::Resync, u64) {
        let resync = ttmem_ledger::Resync {
            definitions: self.definitions,
            state: self.state,
            clock,
            lost_events: end.lost_events,
            elided_events: end.elided_events,
        };
        (resync, self.bytes)
    }
}

impl ClientProgress {
    /// Takes the events of a batch: none twice, and none missing unnoticed.
    fn decode_events(&mut self, first_sequence: u64, records: &[u8], collected: &mut Collected) {
        let events = Frame::events(records);
        let known = self.next_sequence.saturating_sub(first_sequence);
        let missing = first_sequence.saturating_sub(self.next_sequence);
        let end = first_sequence.saturating_add(events.len() as u64);
        self.next_sequence = self.next_sequence.max(end);
        if missing > 0 {
            let kind = EventKind::EventsLost { count: missing };
            let time = unix_nanos();
            collected.events.push(Event { time, kind });
        }
        for event in events.skip(usize::try_from(known).unwrap_or(usize::MAX)) {
            match event {
                // Which words are this sender's own is for the ledger to know.
                Ok(Event { time, kind }) => {
                    let time = self.clock.unix_nanos_at(time);
                    collected.events.push(Event { time, kind });
                }
                Err(_) => collected.refuse(Anomaly::Malformed),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_as_long_as_is_promised() {
        let long = "x".repeat(300);
        let labels = labels_of(&[("job", &long), ("rank", "3\u{1b}"), ("team", " ")]);
        let found: Vec<_> = labels.iter().collect();
        assert_eq!(found, [("job", &long[..128]), ("rank", "3?")]);
    }
}
