//! Reading a recording: finding its blocks, and taking them apart.

use crate::bytes::Cursor;
use crate::coding::{Events, get_entry};
use crate::columns;
use crate::format::{
    BLOCK_HEADER_BYTES, BlockHeader, BlockKind, FileHeader, HEADER_BYTES, OLDEST_VERSION,
    TRAILER_BYTES, Trailer, VERSION,
};
use crate::index::{BlockPlace, Index, follows};
use crate::input::Input;
use crate::notes::Summary;
use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;
use ttmem_ledger::{Ledger, Limits};

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
}

/// A recording whose blocks are known.
#[derive(Debug)]
pub struct Recording<R> {
    source: R,
    file: FileHeader,
    pub(crate) index: Index,
    summary: Summary,
    damage: Option<Damage>,
    unknown_events: u64,
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

/// The inputs of one block, with their times.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    pub(crate) list: Vec<(u64, Input)>,
}

impl<R: Read + Seek> Recording<R> {
    /// Opens a recording by its index; one that was not finished, or whose index is damaged, by
    /// looking at the header of each block.
    ///
    /// # Errors
    /// When it is no recording, or not even its first state can be found.
    pub fn open(mut source: R) -> Result<Self, OpenError> {
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
        let mut recording = Self {
            source,
            file,
            index: Index::default(),
            summary: Summary::default(),
            damage: None,
            unknown_events: 0,
        };
        if !recording.read_index(end)? {
            recording.scan(end)?;
        }
        let first = recording.index.blocks.first().map(|block| block.header);
        if first.is_none_or(|first| first.kind != BlockKind::State || !first.is_start) {
            let damage = recording.damage.take();
            let damage = damage.unwrap_or_else(|| recording.damaged(HEADER_BYTES as u64, NO_START));
            return Err(OpenError::Damaged(damage));
        }
        Ok(recording)
    }

    /// Reads the index, if the recording was finished and it is whole.
    fn read_index(&mut self, end: u64) -> std::io::Result<bool> {
        let Some(at) = end.checked_sub(TRAILER_BYTES as u64) else {
            return Ok(false);
        };
        let mut trailer = [0; TRAILER_BYTES];
        self.source.seek(SeekFrom::Start(at))?;
        self.source.read_exact(&mut trailer)?;
        let Some(trailer) = Trailer::decode(&trailer).filter(|it| it.file_bytes == end) else {
            return Ok(false);
        };
        let Some(header) = self.header_at(trailer.index_offset, end)? else {
            return Ok(false);
        };
        let place = BlockPlace {
            offset: trailer.index_offset,
            header,
        };
        if header.kind != BlockKind::Index {
            return Ok(false);
        }
        let Ok(payload) = self.payload(&place)? else {
            return Ok(false);
        };
        let mut cursor = Cursor::new(&payload);
        let read = Index::get(&mut cursor).zip(Summary::get(&mut cursor));
        let Some((index, summary)) = read else {
            return Ok(false);
        };
        self.index = index;
        self.summary = summary;
        Ok(true)
    }

    /// Finds blocks one after the other, up to the first that is not whole.
    fn scan(&mut self, end: u64) -> std::io::Result<()> {
        let mut offset = HEADER_BYTES as u64;
        self.summary = Summary::default();
        self.index = Index::default();
        loop {
            let Some(header) = self.header_at(offset, end)? else {
                let what = match end - offset {
                    0 => UNFINISHED,
                    left if left < BLOCK_HEADER_BYTES as u64 => CUT_HEADER,
                    _more => self.why_no_block(offset)?,
                };
                self.damage = Some(self.damaged(offset, what));
                return Ok(());
            };
            let place = BlockPlace { offset, header };
            if header.kind == BlockKind::Index {
                self.damage = Some(self.damaged(offset, BAD_INDEX));
                return Ok(());
            }
            let is_next = self
                .index
                .blocks
                .last()
                .is_none_or(|last| follows(last, &place));
            if !is_next {
                self.damage = Some(self.damaged(offset, OUT_OF_ORDER));
                return Ok(());
            }
            if self.index.blocks.is_empty() {
                self.summary.from = header.first_time;
                self.summary.first_event = header.first_event;
            }
            if header.kind == BlockKind::Notes {
                let notes = self.payload(&place)?.ok();
                let notes = notes.and_then(|bytes| Summary::get(&mut Cursor::new(&bytes)));
                if let Some(mut notes) = notes {
                    notes.events = 0;
                    self.summary.merge(notes);
                }
            }
            self.index.push(place);
            self.summary.to = self.summary.to.max(header.last_time);
            self.summary.events = self.summary.events.saturating_add(header.counted_events());
            offset += header.bytes();
        }
    }

    /// The header of a block that lies in the file; none if there is none.
    fn header_at(&mut self, offset: u64, end: u64) -> std::io::Result<Option<BlockHeader>> {
        if offset
            .checked_add(BLOCK_HEADER_BYTES as u64)
            .is_none_or(|behind| behind > end)
        {
            return Ok(None);
        }
        let mut bytes = [0; BLOCK_HEADER_BYTES];
        self.source.seek(SeekFrom::Start(offset))?;
        self.source.read_exact(&mut bytes)?;
        let header = BlockHeader::decode(&bytes);
        let is_inside = |header: &BlockHeader| {
            let behind = offset.checked_add(header.bytes());
            behind.is_some_and(|behind| behind <= end)
        };
        Ok(header.filter(is_inside))
    }

    fn why_no_block(&mut self, offset: u64) -> std::io::Result<&'static str> {
        let mut bytes = [0; BLOCK_HEADER_BYTES];
        self.source.seek(SeekFrom::Start(offset))?;
        self.source.read_exact(&mut bytes)?;
        Ok(match BlockHeader::decode(&bytes) {
            Some(_whole) => CUT_BLOCK,
            None => BAD_HEADER,
        })
    }

    /// The unpacked payload of a block, or what is wrong with it.
    fn payload(&mut self, block: &BlockPlace) -> std::io::Result<Result<Vec<u8>, &'static str>> {
        let mut bytes = [0; BLOCK_HEADER_BYTES];
        self.source.seek(SeekFrom::Start(block.offset))?;
        if let Err(error) = self.source.read_exact(&mut bytes) {
            return cut(error, CUT_BLOCK);
        }
        if BlockHeader::decode(&bytes) != Some(block.header) {
            return Ok(Err(BAD_HEADER));
        }
        let stored = u64::from(block.header.stored_bytes);
        // Not more than there is is taken for what the header says.
        let mut packed = Vec::new();
        self.source.by_ref().take(stored).read_to_end(&mut packed)?;
        if packed.len() as u64 != stored {
            return Ok(Err(CUT_BLOCK));
        }
        if crc32fast::hash(&packed) != block.header.payload_sum {
            return Ok(Err(BAD_SUM));
        }
        Ok(unpack(&packed, block.header.raw_bytes).ok_or(BAD_PACKING))
    }

    /// The inputs of a block.
    pub(crate) fn entries(&mut self, number: usize) -> Result<Entries, ReadError> {
        let place = self.index.blocks[number];
        let payload = self.payload(&place)?;
        let read = payload.and_then(|bytes| parse(&bytes, &place.header).ok_or(BAD_ENTRIES));
        match read {
            Ok((entries, unknown)) => {
                self.unknown_events += unknown;
                Ok(entries)
            }
            Err(what) => Err(self.damage_at(number, what).into()),
        }
    }

    /// The ledger of a state.
    pub(crate) fn state(&mut self, number: usize) -> Result<Ledger, ReadError> {
        let place = self.index.blocks[number];
        let payload = self.payload(&place)?;
        let read = payload
            .and_then(|bytes| Ledger::load(&bytes, Limits::default()).map_err(|_other| BAD_STATE));
        let is_right = |ledger: &Ledger| ledger.events() == place.header.first_event;
        match read {
            Ok(ledger) if is_right(&ledger) => Ok(ledger),
            Ok(_other) => Err(self.damage_at(number, BAD_STATE).into()),
            Err(what) => Err(self.damage_at(number, what).into()),
        }
    }

    fn damage_at(&self, number: usize, what: &'static str) -> Damage {
        let place = self.index.blocks[number];
        let before = self.index.blocks[..number].iter();
        let events = before.map(|block| block.header.counted_events());
        let events = events.fold(0, u64::saturating_add);
        Damage {
            offset: place.offset,
            what,
            events_before: events,
            time: place.header.first_time,
        }
    }

    fn damaged(&self, offset: u64, what: &'static str) -> Damage {
        Damage {
            offset,
            what,
            events_before: self.summary.events,
            time: self.summary.to,
        }
    }

    /// Reads everything; the first part that cannot be read, if there is one.
    ///
    /// # Errors
    /// When the file cannot be read at all.
    pub fn verify(&mut self) -> std::io::Result<Option<Damage>> {
        for number in 0..self.index.blocks.len() {
            let read = match self.index.blocks[number].header.kind {
                BlockKind::State => self.state(number).map(drop),
                _inputs => self.entries(number).map(drop),
            };
            match read {
                Ok(()) => {}
                Err(ReadError::Damaged(damage)) => return Ok(Some(damage)),
                Err(ReadError::Io(error)) => return Err(error),
            }
        }
        Ok(self.damage.clone())
    }

    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// What ends the recording before its end, or is wrong with its index; other parts are only looked
    /// at when they are read.
    pub fn damage(&self) -> Option<&Damage> {
        self.damage.as_ref()
    }

    /// Whether all that is missing is its end: nothing of it is damaged.
    pub fn is_unfinished(&self) -> bool {
        let damage = self.damage.as_ref();
        damage.is_some_and(|damage| damage.what == UNFINISHED)
    }

    /// The states that playing can begin with, in their order.
    pub fn states(&self) -> impl Iterator<Item = StatePlace> {
        let blocks = self.index.blocks.iter().map(|block| block.header);
        let states = blocks.filter(|header| header.kind == BlockKind::State);
        states.map(|header| StatePlace {
            time: header.last_time,
            event: header.first_event,
            bytes: header.raw_bytes.into(),
        })
    }

    /// Whether names, paths and command lines were left out.
    pub fn is_redacted(&self) -> bool {
        self.file.redacted
    }

    /// Events that were read and are of kinds that are not known here: a newer package wrote them.
    pub fn unknown_events(&self) -> u64 {
        self.unknown_events
    }
}

const UNFINISHED: &str = "the recording was not finished";
const CUT_HEADER: &str = "the file ends in the header of a block";
const CUT_BLOCK: &str = "the file ends in a block";
const BAD_HEADER: &str = "the header of a block is damaged";
const BAD_INDEX: &str = "the index is damaged";
const OUT_OF_ORDER: &str = "a block is out of order";
const BAD_SUM: &str = "a block has another checksum";
const BAD_PACKING: &str = "a block cannot be unpacked";
const BAD_ENTRIES: &str = "a block has something that is no input";
const BAD_STATE: &str = "a state cannot be read";
const NO_START: &str = "there is no state to begin with";

fn cut<T>(error: std::io::Error, what: &'static str) -> std::io::Result<Result<T, &'static str>> {
    match error.kind() {
        std::io::ErrorKind::UnexpectedEof => Ok(Err(what)),
        _other => Err(error),
    }
}

/// Unpacks bytes that are to be so many; none if they are more, fewer or damaged.
fn unpack(packed: &[u8], raw_bytes: u32) -> Option<Vec<u8>> {
    let decoder = zstd::stream::read::Decoder::with_buffer(packed).ok()?;
    let raw_bytes = u64::from(raw_bytes);
    let mut raw = Vec::new();
    // What it says is reserved only as far as packing can have made it smaller, mostly.
    let likely = raw_bytes.min(packed.len() as u64 * 64);
    raw.reserve(usize::try_from(likely).ok()?);
    decoder.take(raw_bytes + 1).read_to_end(&mut raw).ok()?;
    (raw.len() as u64 == raw_bytes).then_some(raw)
}

fn parse(bytes: &[u8], header: &BlockHeader) -> Option<(Entries, u64)> {
    let mut cursor = Cursor::new(bytes);
    let length = u32::from_le_bytes(cursor.take(4)?.try_into().ok()?);
    let mut entries = Cursor::new(cursor.take(usize::try_from(length).ok()?)?);
    let records = columns::get(cursor.rest, header.events as usize, header.first_time)?;
    let mut events = Events::new(&records);
    let mut list = Vec::new();
    let mut time = header.first_time;
    for _entry in 0..header.entries {
        let (step, input) = get_entry(&mut entries, &mut events)?;
        time = time.checked_add(step)?;
        list.push((time, input));
    }
    if !entries.rest.is_empty() || !events.is_done() {
        return None;
    }
    let unknown = events.unknown;
    let shared = Arc::new(events.decoded);
    for (_time, input) in &mut list {
        if let Input::Apply(batch) = input {
            batch.events = Arc::clone(&shared);
        }
    }
    Some((Entries { list }, unknown))
}
