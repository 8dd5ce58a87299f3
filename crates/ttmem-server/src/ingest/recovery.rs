//! The memory a client handed over, and reading it after the client's death.
//!
//! While a process lives its segments are only kept. After its death what it had
//! recorded and not sent is read from them and becomes commands like any other
//! report. Segments are read and never mapped: corrupt contents can yield
//! wrong data but never a fault. Everything has a bound, so that a process that hands over
//! nonsense costs no more than one that hands over a full ring.

use super::Ingest;
use crate::clock::unix_nanos;
use crate::ledger_thread::{ProcessCommand, ProcessNumber};
use crate::log::OrUnknown;
use rustix::fs::{FileType, SealFlags};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use ttmem_event::Event;
use ttmem_event::event::EVENT_BYTES;
use ttmem_event::wire::{Clock, DefinitionIter, RingPosition};
use ttmem_ledger::{Anomaly, Departure, Holder};
use ttmem_ring::recovery::{
    DICTIONARY_HEADER_BYTES, MAX_RINGS, Merged, RING_HEADER_BYTES, RingHeader, published_bytes,
};
use ttmem_ring::{MAX_DICTIONARY_SEGMENTS, MAX_RING_SEGMENTS, RINGS_PER_SEGMENT};

/// The longest ring segment: eight rings of a million events.
const MAX_RING_SEGMENT_BYTES: u64 =
    RING_HEADER_BYTES as u64 + RINGS_PER_SEGMENT as u64 * (1 << 20) * EVENT_BYTES as u64;

const MAX_DICTIONARY_SEGMENT_BYTES: u64 = 16 << 20;

/// Events that are read of one dead process; what it left beyond that is counted as lost.
const MAX_EVENTS: u64 = 1 << 20;

/// Bytes of definitions that are read of one dead process: as much text as one may define.
const MAX_DEFINITION_BYTES: u64 = 64 << 20;

/// Events or definitions of one command.
const BATCH: usize = 16_384;

/// Without these the owner could make a file shorter while it is read.
const SEALS: SealFlags = SealFlags::SHRINK
    .union(SealFlags::GROW)
    .union(SealFlags::SEAL);

/// In the order in which they are read: events refer to definitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SegmentKind {
    Dictionary,
    Rings,
}

#[derive(Debug)]
pub(super) struct HandedSegment {
    pub(super) kind: SegmentKind,
    /// Which of its kind, counted from 0 on each connection.
    pub(super) number: usize,
    /// Its length, as the frame claims it.
    pub(super) bytes: u64,
    pub(super) descriptor: OwnedFd,
}

#[derive(Debug, thiserror::Error)]
enum KeepSegmentError {
    #[error("it is number {0} of its kind, more than are kept")]
    Number(usize),
    #[error("{0} bytes are more than any may have")]
    TooLarge(u64),
    #[error("not a memfd: {0}")]
    NoMemory(rustix::io::Errno),
    #[error("not a regular file")]
    Irregular,
    #[error("it is not sealed against a change of its length")]
    Unsealed,
    #[error("it has {actual} bytes and not {claimed}")]
    Length { claimed: u64, actual: i64 },
}

#[derive(Debug)]
struct Segment {
    file: File,
    bytes: u64,
}

impl Segment {
    fn check(handed: HandedSegment) -> Result<Self, KeepSegmentError> {
        let (most, most_bytes) = match handed.kind {
            SegmentKind::Rings => (MAX_RING_SEGMENTS, MAX_RING_SEGMENT_BYTES),
            SegmentKind::Dictionary => (MAX_DICTIONARY_SEGMENTS, MAX_DICTIONARY_SEGMENT_BYTES),
        };
        if handed.number >= most {
            return Err(KeepSegmentError::Number(handed.number));
        }
        if handed.bytes > most_bytes {
            return Err(KeepSegmentError::TooLarge(handed.bytes));
        }
        // Only memory files have seals that can be asked for.
        let seals = rustix::fs::fcntl_get_seals(&handed.descriptor);
        let seals = seals.map_err(KeepSegmentError::NoMemory)?;
        if !seals.contains(SEALS) {
            return Err(KeepSegmentError::Unsealed);
        }
        let stat = rustix::fs::fstat(&handed.descriptor).map_err(KeepSegmentError::NoMemory)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(KeepSegmentError::Irregular);
        }
        if u64::try_from(stat.st_size) != Ok(handed.bytes) {
            return Err(KeepSegmentError::Length {
                claimed: handed.bytes,
                actual: stat.st_size,
            });
        }
        Ok(Self {
            file: handed.descriptor.into(),
            bytes: handed.bytes,
        })
    }

    /// Reads a piece; its length is never more than what the caller has a bound for.
    fn read(&self, piece: Range<u64>) -> io::Result<Vec<u8>> {
        let len = piece.end.saturating_sub(piece.start);
        let mut bytes = vec![0; usize::try_from(len).map_err(io::Error::other)?];
        self.file.read_exact_at(&mut bytes, piece.start)?;
        Ok(bytes)
    }

    /// Reads the beginning; a file that is shorter gives what it has.
    fn read_header(&self, len: usize) -> io::Result<Vec<u8>> {
        self.read(0..self.bytes.min(len as u64))
    }
}

/// What a process handed over, and how much of it was received in other ways.
#[derive(Debug, Default)]
pub(super) struct HandedMemory {
    segments: BTreeMap<(SegmentKind, usize), Segment>,
    /// By ring: everything before this position was received.
    drained: BTreeMap<u32, u64>,
    refused: u64,
}

impl HandedMemory {
    /// Remembers how far rings were received. Positions only grow.
    pub(super) fn drain_to(&mut self, positions: impl IntoIterator<Item = RingPosition>) {
        for RingPosition { ring, position } in positions {
            if usize::try_from(ring).is_ok_and(|ring| ring < MAX_RINGS) {
                let drained = self.drained.entry(ring).or_default();
                *drained = position.max(*drained);
            }
        }
    }

    /// Whether keeping this would take one more descriptor.
    fn is_new(&self, handed: &HandedSegment) -> bool {
        !self.segments.contains_key(&(handed.kind, handed.number))
    }

    /// Keeps a segment; after a reconnect each takes the place of the same one before.
    fn keep(&mut self, handed: HandedSegment) -> Result<(), KeepSegmentError> {
        let key = (handed.kind, handed.number);
        self.segments.insert(key, Segment::check(handed)?);
        Ok(())
    }

    /// Reads all that was recorded and not received; true when its process exited cleanly.
    fn recover(&self, clock: &Clock, send: &mut dyn FnMut(ProcessCommand)) -> bool {
        let mut found = Found::default();
        let mut definition_bytes = MAX_DEFINITION_BYTES;
        for ((kind, number), segment) in &self.segments {
            let read = match kind {
                SegmentKind::Dictionary => define(segment, &mut definition_bytes, send),
                SegmentKind::Rings => self.collect(*number, segment, &mut found),
            };
            found.malformed += u64::from(read.is_none());
        }
        if found.gone_events > 0 || found.lost_events > 0 {
            send(ProcessCommand::Lost {
                gone_events: found.gone_events,
                lost_events: found.lost_events,
                time: unix_nanos(),
            });
        }
        let mut merged = Merged::new(found.rings.iter().map(Vec::as_slice));
        loop {
            let events = merged.by_ref().take(BATCH).map(|event| Event {
                time: clock.unix_nanos_at(event.time),
                ..event
            });
            let events: Vec<Event> = events.collect();
            if events.is_empty() {
                break;
            }
            send(ProcessCommand::Recovered(events));
        }
        let malformed = found.malformed + merged.malformed();
        if malformed > 0 {
            send(ProcessCommand::Refuse(Anomaly::Malformed, malformed));
        }
        found.leaving
    }

    /// Reads the rings of a segment; `None` if it is not a valid ring segment.
    fn collect(&self, number: usize, segment: &Segment, found: &mut Found) -> Option<()> {
        let header = segment.read_header(RING_HEADER_BYTES).ok()?;
        let header = RingHeader::read(&header, number, segment.bytes).ok()?;
        found.leaving |= number == 0 && header.leaving;
        for (ring, marks) in header.marks.iter().enumerate() {
            found.lost_events = found.lost_events.saturating_add(marks.lost_events);
            let drained = u32::try_from(number * RINGS_PER_SEGMENT + ring)
                .ok()
                .and_then(|ring| self.drained.get(&ring));
            let Ok(unread) = header.unread(ring, drained.copied().unwrap_or(0)) else {
                found.malformed += 1;
                continue;
            };
            let mut gone = unread.gone_events;
            let count = unread.events();
            if found.events + count > MAX_EVENTS {
                gone = gone.saturating_add(count);
            } else {
                let [first, second] = unread.pieces;
                match (segment.read(first), segment.read(second)) {
                    (Ok(mut records), Ok(rest)) => {
                        records.extend_from_slice(&rest);
                        found.events += count;
                        found.rings.push(records);
                    }
                    (Err(_unreadable), _) | (_, Err(_unreadable)) => {
                        found.malformed += 1;
                        gone = gone.saturating_add(count);
                    }
                }
            }
            found.gone_events = found.gone_events.saturating_add(gone);
        }
        Some(())
    }
}

#[derive(Debug, Default)]
struct Found {
    rings: Vec<Vec<u8>>,
    events: u64,
    /// Events that left their ring and never came.
    gone_events: u64,
    /// Events that found no room in their ring, ever.
    lost_events: u64,
    malformed: u64,
    leaving: bool,
}

/// Sends the definitions of a dictionary segment; `None` when something is wrong with it.
fn define(segment: &Segment, left: &mut u64, send: &mut dyn FnMut(ProcessCommand)) -> Option<()> {
    let header = segment.read_header(DICTIONARY_HEADER_BYTES).ok()?;
    let published = published_bytes(&header, segment.bytes).ok()?;
    *left = left.checked_sub(published)?;
    let begin = DICTIONARY_HEADER_BYTES as u64;
    let bytes = segment.read(begin..begin + published).ok()?;
    let mut definitions = DefinitionIter::new(&bytes);
    let mut is_whole = Some(());
    loop {
        let mut batch = Vec::new();
        for definition in definitions.by_ref().take(BATCH) {
            match definition {
                Ok(definition) => batch.push(definition),
                Err(_torn) => is_whole = None,
            }
        }
        if batch.is_empty() {
            return is_whole;
        }
        send(ProcessCommand::Define(batch));
    }
}

impl Ingest {
    /// Keeps memory that a process handed over, if it is what it should be and there is room.
    pub(super) fn keep(&mut self, process: ProcessNumber, handed: HandedSegment) {
        let Some(entry) = self.processes.get_mut(process) else {
            return;
        };
        let (is_new, holder) = (entry.memory.is_new(&handed), entry.holder);
        if is_new && !self.shares.segments.take(holder, 1) {
            if !std::mem::replace(&mut self.segment_limit_logged, true) {
                let pid = OrUnknown(entry.key.pid());
                self.config.log.error(format!(
                    "process {pid}, or its user, has its share of the descriptors of clients' \
                     memory: what it does not send before it dies is lost"
                ));
            }
            return;
        }
        match entry.memory.keep(handed) {
            Ok(()) => {}
            Err(error) => {
                self.shares.segments.give_back(holder, is_new.into());
                entry.memory.refused += 1;
                if entry.memory.refused == 1 {
                    let pid = OrUnknown(entry.key.pid());
                    self.config.log.error(format!(
                        "the memory that process {pid} handed over is not kept: {error}"
                    ));
                }
                self.send_for(process, ProcessCommand::Refuse(Anomaly::Malformed, 1));
            }
        }
    }

    /// Applies what a process recorded and could no longer send; returns how it ended.
    pub(super) fn recover(
        &mut self,
        process: ProcessNumber,
        holder: Holder,
        memory: &HandedMemory,
        clock: &Clock,
        departure: Departure,
    ) -> Departure {
        let segments = &mut self.shares.segments;
        segments.give_back(holder, memory.segments.len() as u64);
        if !matches!(departure, Departure::Died | Departure::Replaced) {
            return departure;
        }
        let mut send = |command| self.send_for(process, command);
        let left_in_order = memory.recover(clock, &mut send);
        match departure {
            Departure::Died if left_in_order => Departure::Goodbye,
            other => other,
        }
    }
}

#[cfg(test)]
mod tests;
