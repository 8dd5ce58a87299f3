//! The memory a client handed over, and reading it after the client's death.
//!
//! While a process lives its segments are only kept. After its death what it had
//! recorded and not sent is read from them and becomes commands like any other
//! report, a batch at a time and in the turns of its process ([`Recovery`]). Segments are read and never mapped: corrupt contents can yield
//! wrong data but never a fault. Everything has a bound, so that a process that hands over
//! nonsense costs no more than one that hands over a full ring.

use super::Ingest;
use crate::clock::unix_nanos;
use crate::ledger_thread::{ProcessCommand, ProcessNumber, Reports};
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
    DICTIONARY_HEADER_BYTES, Merged, RING_HEADER_START_BYTES, RingHeader, published_bytes,
};
use ttmem_ring::{MAX_DICTIONARY_SEGMENTS, MAX_RING_SEGMENTS, MAX_RINGS};

/// Bytes of all ring segments of a process, as long as they claim to be: most of a long one is
/// not allocated.
const MAX_RING_BYTES: u64 = 16 << 30;

/// Bytes of all dictionary segments of a process.
const MAX_DICTIONARY_BYTES: u64 = 128 << 20;

/// Events that are read of one dead process; what it left beyond that is counted as lost.
const MAX_EVENTS: u64 = 1 << 20;

/// Bytes of definitions that are read of one dead process: as much text as one may define.
const MAX_DEFINITION_BYTES: u64 = 64 << 20;

/// Events or definitions of one command.
const BATCH: usize = 1024;

/// Bytes that are copied from a segment at the cost of one work unit.
const BYTES_PER_UNIT: u64 = 128;

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
    #[error("with {0} bytes they are more than a process may have")]
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
    /// Checks a segment, beside which its process has others of its kind with so many bytes.
    fn check(handed: HandedSegment, others: u64) -> Result<Self, KeepSegmentError> {
        let (most, most_bytes) = match handed.kind {
            SegmentKind::Rings => (MAX_RING_SEGMENTS, MAX_RING_BYTES),
            SegmentKind::Dictionary => (MAX_DICTIONARY_SEGMENTS, MAX_DICTIONARY_BYTES),
        };
        if handed.number >= most {
            return Err(KeepSegmentError::Number(handed.number));
        }
        let all = others.saturating_add(handed.bytes);
        if all > most_bytes {
            return Err(KeepSegmentError::TooLarge(all));
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
        let others = self.segments.iter().filter(|(other, _segment)| {
            let (kind, _number) = **other;
            kind == handed.kind && **other != key
        });
        let others = others.map(|(_other, segment)| segment.bytes).sum();
        self.segments.insert(key, Segment::check(handed, others)?);
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Whether its process exited cleanly, by its own word.
    fn left_in_order(&self) -> bool {
        let header = self
            .segments
            .get(&(SegmentKind::Rings, 0))
            .and_then(|rings| {
                let start = rings.read_header(RING_HEADER_START_BYTES).ok()?;
                let header_bytes = RingHeader::bytes_of(&start, rings.bytes).ok()?;
                let header = rings.read_header(header_bytes).ok()?;
                RingHeader::read(&header, rings.bytes).ok()
            });
        header.is_some_and(|header| header.leaving)
    }

    /// Reads the rings of a segment; `None` if it is not a valid ring segment.
    fn collect(&self, segment: &Segment, found: &mut Found) -> Option<()> {
        let start = segment.read_header(RING_HEADER_START_BYTES).ok()?;
        let header_bytes = RingHeader::bytes_of(&start, segment.bytes).ok()?;
        let header = segment.read_header(header_bytes).ok()?;
        let header = RingHeader::read(&header, segment.bytes).ok()?;
        // Segments that overlap are not those of a client, and would have no end.
        if header.first_ring < found.next_ring {
            return None;
        }
        found.next_ring = header.first_ring + u32::try_from(header.marks.len()).ok()?;
        let numbered = (header.first_ring..).zip(header.marks.iter().enumerate());
        for (ring_number, (ring, marks)) in numbered {
            found.lost_events = found.lost_events.saturating_add(marks.lost_events);
            let drained = self.drained.get(&ring_number).copied();
            let Ok(unread) = header.unread(ring, drained.unwrap_or(0)) else {
                found.malformed += 1;
                continue;
            };
            let mut gone = unread.gone_events;
            let count = unread.events();
            if found.events + count > MAX_EVENTS {
                gone = gone.saturating_add(count);
            } else if count > 0 {
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
    /// The number after the last ring of the segments so far.
    next_ring: u32,
    events: u64,
    /// Events that left their ring and never came.
    gone_events: u64,
    /// Events that found no room in their ring, ever.
    lost_events: u64,
    malformed: u64,
}

/// What a dead process left in its memory, on its way to the ledger.
///
/// Read a batch at a time, because there may be much of it and others have their turns.
#[derive(Debug)]
pub(crate) struct Recovery {
    /// Who is charged with its descriptors.
    pub(crate) holder: Holder,
    memory: HandedMemory,
    clock: Clock,
    stage: Stage,
    /// Commands that come before what is read next, the first one last.
    ready: Vec<ProcessCommand>,
    malformed: u64,
}

#[derive(Debug)]
enum Stage {
    NotBegun,
    Dictionaries {
        /// The next one, and the bytes of definitions that may still be read.
        number: usize,
        left: u64,
        /// The one that is being read, and how far.
        bytes: Vec<u8>,
        read: usize,
    },
    Rings(Merged<Vec<u8>>),
    Done,
}

impl Recovery {
    fn new(memory: HandedMemory, clock: Clock, holder: Holder) -> Self {
        Self {
            holder,
            memory,
            clock,
            stage: Stage::NotBegun,
            ready: Vec::new(),
            malformed: 0,
        }
    }

    pub(crate) fn has_begun(&self) -> bool {
        !matches!(self.stage, Stage::NotBegun)
    }

    /// Descriptors that it holds.
    pub(crate) fn segments(&self) -> usize {
        self.memory.segments.len()
    }

    /// Gives back what could not be done of a command.
    pub(crate) fn put_back(&mut self, rest: Option<ProcessCommand>) {
        self.ready.extend(rest);
    }

    /// The next thing to do, and what it cost to find it, in work units.
    pub(crate) fn next(&mut self) -> Option<(ProcessCommand, u64)> {
        let mut units = 0;
        loop {
            if let Some(command) = self.ready.pop() {
                return Some((command, units));
            }
            units += match std::mem::replace(&mut self.stage, Stage::Done) {
                Stage::NotBegun => {
                    self.stage = Stage::Dictionaries {
                        number: 0,
                        left: MAX_DEFINITION_BYTES,
                        bytes: Vec::new(),
                        read: 0,
                    };
                    0
                }
                Stage::Dictionaries {
                    number,
                    left,
                    bytes,
                    read,
                } if read < bytes.len() => self.read_definitions(number, left, bytes, read),
                Stage::Dictionaries { number, left, .. } => self.open_dictionary(number, left),
                Stage::Rings(merged) => self.read_events(merged),
                Stage::Done => return None,
            };
        }
    }

    /// Reads the next dictionary; after the last one, the rings.
    fn open_dictionary(&mut self, number: usize, mut left: u64) -> u64 {
        let known = (SegmentKind::Dictionary, number)..(SegmentKind::Rings, 0);
        let next = self.memory.segments.range(known).next();
        let Some((number, segment)) = next.map(|((_kind, number), segment)| (*number, segment))
        else {
            return self.open_rings();
        };
        let bytes = read_dictionary(segment, &mut left);
        self.malformed += u64::from(bytes.is_none());
        let bytes = bytes.unwrap_or_default();
        let units = bytes.len() as u64 / BYTES_PER_UNIT;
        self.stage = Stage::Dictionaries {
            number: number + 1,
            left,
            bytes,
            read: 0,
        };
        units
    }

    fn read_definitions(&mut self, number: usize, left: u64, bytes: Vec<u8>, read: usize) -> u64 {
        let mut definitions = DefinitionIter::new(&bytes[read..]);
        let mut batch = Vec::new();
        for definition in definitions.by_ref().take(BATCH) {
            match definition {
                Ok(definition) => batch.push(definition),
                Err(_torn) => self.malformed += 1,
            }
        }
        let read = bytes.len() - definitions.rest().len();
        let units = batch.len() as u64;
        if !batch.is_empty() {
            self.ready.push(ProcessCommand::define(batch));
        }
        self.stage = Stage::Dictionaries {
            number,
            left,
            bytes,
            read,
        };
        units
    }

    fn open_rings(&mut self) -> u64 {
        let mut found = Found::default();
        let rings = self.memory.segments.range((SegmentKind::Rings, 0)..);
        for segment in rings.map(|(_key, segment)| segment) {
            let read = self.memory.collect(segment, &mut found);
            found.malformed += u64::from(read.is_none());
        }
        self.malformed += found.malformed;
        if found.gone_events > 0 || found.lost_events > 0 {
            self.ready.push(ProcessCommand::Lost {
                gone_events: found.gone_events,
                lost_events: found.lost_events,
                time: unix_nanos(),
            });
        }
        self.stage = Stage::Rings(Merged::new(found.rings));
        found.events * EVENT_BYTES as u64 / BYTES_PER_UNIT
    }

    fn read_events(&mut self, mut merged: Merged<Vec<u8>>) -> u64 {
        let events = merged.by_ref().take(BATCH).map(|event| Event {
            time: self.clock.unix_nanos_at(event.time),
            ..event
        });
        let events: Vec<Event> = events.collect();
        let units = events.len() as u64;
        if events.is_empty() {
            let malformed = self.malformed + merged.malformed();
            if malformed > 0 {
                let refuse = ProcessCommand::refuse(Anomaly::Malformed, malformed);
                self.ready.push(refuse);
            }
            return units;
        }
        let reports = Reports::recovered(events);
        self.ready.push(ProcessCommand::Events(reports));
        self.stage = Stage::Rings(merged);
        units
    }
}

/// Reads the definitions of a dictionary segment; `None` when something is wrong with it.
fn read_dictionary(segment: &Segment, left: &mut u64) -> Option<Vec<u8>> {
    let header = segment.read_header(DICTIONARY_HEADER_BYTES).ok()?;
    let published = published_bytes(&header, segment.bytes).ok()?;
    *left = left.checked_sub(published)?;
    let begin = DICTIONARY_HEADER_BYTES as u64;
    segment.read(begin..begin + published).ok()
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
                self.send_for(process, ProcessCommand::refuse(Anomaly::Malformed, 1));
            }
        }
    }

    /// Has applied what a process recorded and could no longer send; returns how it ended.
    pub(super) fn recover(
        &mut self,
        process: ProcessNumber,
        holder: Holder,
        memory: HandedMemory,
        clock: Clock,
        departure: Departure,
    ) -> Departure {
        if memory.is_empty() || !matches!(departure, Departure::Ended | Departure::Replaced) {
            let segments = &mut self.shares.segments;
            segments.give_back(holder, memory.segments.len() as u64);
            return departure;
        }
        let left_in_order = memory.left_in_order();
        let recovery = Box::new(Recovery::new(memory, clock, holder));
        self.send_for(process, ProcessCommand::Recover(recovery));
        match departure {
            Departure::Ended if left_in_order => Departure::Exited,
            other => other,
        }
    }
}

#[cfg(test)]
mod tests;
