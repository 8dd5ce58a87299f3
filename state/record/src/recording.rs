//! Reading a recording: what is in its blocks.
//!
//! What is decoded is drawn from a [`Budget`] before it is reserved, and counted as work of a [`Turn`]:
//! both follow from how many bytes are stored.

mod finder;
mod payload;

use crate::bytes::Cursor;
use crate::coding::{Events, get_entry};
use crate::columns;
use crate::format::{BlockHeader, BlockKind, FileHeader, HEADER_BYTES, OLDEST_VERSION, VERSION};
use crate::index::{BlockPlace, Index};
use crate::notes::Summary;
use finder::{Finder, UNFINISHED};
use payload::{Drawn, Fault, STATE_BYTES_PER_UNIT, payload};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use ttmem_account::budget::{Budget, Charge, OverBudget, Turn, TurnEnd};
use ttmem_account::state::codec::Room;
use ttmem_ledger::{Change, Ledger, Limits, LoadError};

/// Work units for an entry of a block, and for the record of an event.
const ENTRY_WORK: u64 = 8;
const RECORD_WORK: u64 = 2;

/// Why a file cannot be opened as a recording.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("cannot read the recording")]
    Io(#[from] std::io::Error),
    #[error("this is no recording of ttmem")]
    NotARecording,
    #[error("the recording is of version {0}; this package reads {OLDEST_VERSION} to {VERSION}")]
    Version(u16),
    #[error("nothing of the recording can be read: {0}")]
    Damaged(Damage),
    #[error("the recording {0}")]
    OverBudget(OverBudget),
    #[error("the reader has gone")]
    Gone,
}

/// A part of a recording that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at byte {offset}: {what}; {events_before} events before it can be read")]
pub struct Damage {
    /// Where in the file.
    pub offset: u64,
    pub what: &'static str,
    /// Events of the recording before it.
    pub events_before: u64,
    /// The instant up to which all is there.
    pub time: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("cannot read the recording")]
    Io(#[from] std::io::Error),
    #[error("the recording is damaged {0}")]
    Damaged(#[from] Damage),
    #[error("the recording {0}")]
    OverBudget(#[from] OverBudget),
    #[error("the reader has gone")]
    Gone,
}

impl From<TurnEnd> for ReadError {
    fn from(end: TurnEnd) -> Self {
        match end {
            TurnEnd::OverBudget(over) => Self::OverBudget(over),
            TurnEnd::Gone => Self::Gone,
        }
    }
}

impl From<ReadError> for OpenError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Io(error) => Self::Io(error),
            ReadError::Damaged(damage) => Self::Damaged(damage),
            ReadError::OverBudget(over) => Self::OverBudget(over),
            ReadError::Gone => Self::Gone,
        }
    }
}

/// A recording whose blocks are known.
#[derive(Debug)]
pub struct Recording<R> {
    source: R,
    contents: Arc<Contents>,
    budget: Budget,
    pub(crate) turn: Turn,
    /// Blocks that could not be read: they are not tried again.
    broken: BTreeMap<usize, &'static str>,
    unknown_events: u64,
}

/// What a recording has and where: for others to read the same file with.
#[derive(Debug)]
pub struct Contents {
    file: FileHeader,
    stored: u64,
    pub(crate) index: Index,
    summary: Summary,
    damage: Option<Damage>,
    _charge: Charge,
}

/// Where a state of the whole ledger stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatePlace {
    /// The instant that it is of.
    pub time: u64,
    /// Events of the ledger before it.
    pub event: u64,
    /// What it takes, unpacked: half of what its ledger takes in memory, or more.
    pub bytes: u64,
}

/// The changes of one block, with their times.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    pub(crate) list: Vec<(u64, Change)>,
    _charge: Option<Charge>,
}

impl<R: Read + Seek> Recording<R> {
    /// Opens a recording by its index; one that was not finished, or whose index is wrong, by
    /// looking at the header of each block. It has a budget of its own.
    ///
    /// # Errors
    /// When it is no recording, not even its first state can be found, or it needs more than its budget.
    pub fn open(mut source: R) -> Result<Self, OpenError> {
        let stored = source.seek(SeekFrom::End(0))?;
        Self::open_within(source, &Budget::of_stored(stored), None)
    }

    /// The same within a budget that it shares with others; once `gone` is set nobody waits for it.
    ///
    /// # Errors
    /// As [`Recording::open`].
    pub fn open_within(
        mut source: R,
        budget: &Budget,
        gone: Option<Arc<AtomicBool>>,
    ) -> Result<Self, OpenError> {
        let end = source.seek(SeekFrom::End(0))?;
        source.rewind()?;
        let mut header = [0; HEADER_BYTES];
        if end < HEADER_BYTES as u64 {
            return Err(OpenError::NotARecording);
        }
        source.read_exact(&mut header)?;
        let file = FileHeader::decode(&header).ok_or(OpenError::NotARecording)?;
        if !(OLDEST_VERSION..=VERSION).contains(&file.version) {
            return Err(OpenError::Version(file.version));
        }
        let mut finder = Finder {
            source,
            end,
            budget: budget.clone(),
            turn: Turn::new(end, gone),
        };
        let contents = finder.contents(file).map_err(|fault| match fault {
            Fault::Io(error) => OpenError::Io(error),
            Fault::Damaged(_block) => OpenError::NotARecording,
            Fault::NoStart(damage) => OpenError::Damaged(damage),
            Fault::End(end) => ReadError::from(end).into(),
        })?;
        Ok(Self {
            turn: finder.turn,
            ..Self::of(finder.source, Arc::new(contents), budget)
        })
    }

    /// Another reader of a file whose contents are known.
    #[must_use]
    pub fn of(source: R, contents: Arc<Contents>, budget: &Budget) -> Self {
        Self {
            source,
            turn: Turn::new(contents.stored, None),
            contents,
            budget: budget.clone(),
            broken: BTreeMap::new(),
            unknown_events: 0,
        }
    }

    /// What it has, for other readers.
    #[must_use]
    pub fn contents(&self) -> &Arc<Contents> {
        &self.contents
    }

    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }

    pub(crate) fn index(&self) -> &Index {
        &self.contents.index
    }

    /// Begins to answer another question, whose work is counted there; the turn before it.
    pub fn begin_turn(&mut self, turn: Turn) -> Turn {
        std::mem::replace(&mut self.turn, turn)
    }

    /// The unpacked payload of a block.
    fn payload(&mut self, block: &BlockPlace) -> Result<Drawn<Vec<u8>>, Fault> {
        let how = (&self.budget, &mut self.turn);
        payload(&mut self.source, block, how)
    }

    /// The changes of a block.
    pub(crate) fn entries(&mut self, number: usize) -> Result<Entries, ReadError> {
        let place = self.index().blocks[number];
        let read = match self.broken.get(&number) {
            Some(what) => Err(Fault::Damaged(what)),
            None => self
                .payload(&place)
                .and_then(|payload| parse(&payload.value, &place.header, self.room())),
        };
        match read {
            Ok((entries, unknown)) => {
                self.unknown_events += unknown;
                let work = entries.list.len() as u64 * ENTRY_WORK;
                self.turn.spend(work)?;
                Ok(entries)
            }
            Err(fault) => Err(self.fault_at(number, fault)),
        }
    }

    fn room(&self) -> Room {
        Room::of(self.budget.charge(), self.turn.clone())
    }

    /// The ledger of a state.
    pub(crate) fn state(&mut self, number: usize) -> Result<Ledger, ReadError> {
        let place = self.index().blocks[number];
        let read = match self.broken.get(&number) {
            Some(what) => Err(Fault::Damaged(what)),
            None => self.load(&place),
        };
        read.map_err(|fault| self.fault_at(number, fault))
    }

    fn load(&mut self, place: &BlockPlace) -> Result<Ledger, Fault> {
        let payload = self.payload(place)?;
        let work = payload.value.len() as u64 / STATE_BYTES_PER_UNIT;
        self.turn.spend(work)?;
        let how = (&self.budget, &self.turn);
        let loaded = Ledger::load_within(&payload.value, Limits::default(), how);
        let ledger = loaded.map_err(|error| match error {
            LoadError::OverBudget(over) => over.into(),
            LoadError::Gone => Fault::End(TurnEnd::Gone),
            LoadError::Layout | LoadError::Invalid(_) => Fault::Damaged(BAD_STATE),
        })?;
        self.turn.spend(ledger.work())?;
        if ledger.events() != place.header.first_event {
            return Err(Fault::Damaged(BAD_STATE));
        }
        Ok(ledger)
    }

    fn fault_at(&mut self, number: usize, fault: Fault) -> ReadError {
        match fault {
            Fault::Io(error) => ReadError::Io(error),
            Fault::NoStart(damage) => damage.into(),
            Fault::End(end) => end.into(),
            Fault::Damaged(what) => {
                self.broken.insert(number, what);
                self.damage_at(number, what).into()
            }
        }
    }

    fn damage_at(&self, number: usize, what: &'static str) -> Damage {
        let place = self.index().blocks[number];
        let before = self.index().blocks[..number].iter();
        let events = before.map(|block| block.header.counted_events());
        let events = events.fold(0, u64::saturating_add);
        Damage {
            offset: place.offset,
            what,
            events_before: events,
            time: place.header.first_time,
        }
    }

    /// Reads everything; the first part that cannot be read, if there is one.
    ///
    /// # Errors
    /// When the file cannot be read at all, or needs more than its budget.
    pub fn verify(&mut self) -> Result<Option<Damage>, ReadError> {
        for number in 0..self.index().blocks.len() {
            let read = match self.index().blocks[number].header.kind {
                BlockKind::State => self.state(number).map(drop),
                _changes => self.entries(number).map(drop),
            };
            match read {
                Ok(()) => {}
                Err(ReadError::Damaged(damage)) => return Ok(Some(damage)),
                Err(error) => return Err(error),
            }
        }
        Ok(self.damage().cloned())
    }

    pub fn summary(&self) -> &Summary {
        self.contents.summary()
    }

    /// What ends the recording before its end, or is wrong with its index; other parts are only looked
    /// at when they are read.
    pub fn damage(&self) -> Option<&Damage> {
        self.contents.damage.as_ref()
    }

    /// Whether all that is missing is its end: nothing of it is damaged.
    pub fn is_unfinished(&self) -> bool {
        self.damage()
            .is_some_and(|damage| damage.what == UNFINISHED)
    }

    /// The states that playing can begin with, in their order.
    pub fn states(&self) -> impl Iterator<Item = StatePlace> {
        let blocks = self.index().blocks.iter().map(|block| block.header);
        let states = blocks.filter(|header| header.kind == BlockKind::State);
        states.map(|header| StatePlace {
            time: header.last_time,
            event: header.first_event,
            bytes: header.raw_bytes.into(),
        })
    }

    /// Whether names, paths and command lines were left out.
    pub fn is_redacted(&self) -> bool {
        self.contents.file.redacted
    }

    /// Events that were read and are of kinds that are not known here: a newer package wrote them.
    pub fn unknown_events(&self) -> u64 {
        self.unknown_events
    }
}

impl Contents {
    #[must_use]
    pub fn summary(&self) -> &Summary {
        &self.summary
    }
}

const BAD_ENTRIES: &str = "a block has something that is no input";
const BAD_STATE: &str = "a state cannot be read";

fn parse(bytes: &[u8], header: &BlockHeader, mut room: Room) -> Result<(Entries, u64), Fault> {
    let events = u64::from(header.events);
    let drawn = room.draw(Events::room_for(header.events as usize));
    let drawn = drawn.and_then(|()| room.spend(events * RECORD_WORK));
    let room = RefCell::new(room);
    let read = drawn.and_then(|()| read_entries(bytes, header, &room));
    let room = room.into_inner();
    if let Some(end) = room.over() {
        return Err(end.into());
    }
    let (list, unknown) = read.ok_or(Fault::Damaged(BAD_ENTRIES))?;
    let _charge = room.into_charge();
    Ok((Entries { list, _charge }, unknown))
}

type Timed = Vec<(u64, Change)>;

fn read_entries(bytes: &[u8], header: &BlockHeader, room: &RefCell<Room>) -> Option<(Timed, u64)> {
    let mut cursor = Cursor::within(bytes, room);
    let length = u32::from_le_bytes(cursor.take(4)?.try_into().ok()?);
    let entries = cursor.take(usize::try_from(length).ok()?)?;
    let mut entries = cursor.part(entries);
    let records = columns::get(cursor.rest, header.events as usize, header.first_time)?;
    let mut events = Events::new(&records);
    let mut list = Vec::new();
    let mut time = header.first_time;
    for _entry in 0..header.entries {
        entries.draw(2 * size_of::<(u64, Change)>())?;
        let (step, change) = get_entry(&mut entries, &mut events)?;
        time = time.checked_add(step)?;
        list.push((time, change));
    }
    if !entries.rest.is_empty() || !events.is_done() {
        return None;
    }
    let unknown = events.unknown;
    let shared = Arc::new(events.decoded);
    for (_time, change) in &mut list {
        if let Change::Apply(batch) = change {
            batch.events = Arc::clone(&shared);
        }
    }
    Some((list, unknown))
}
