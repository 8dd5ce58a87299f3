//! Finding the blocks of a file: by its index, if that has what the file has, and by their headers.

use super::payload::{
    BAD_HEADER, BLOCK_WORK, CUT_BLOCK, Drawn, Fault, STATE_BYTES_PER_UNIT, payload,
};
use super::{Contents, Damage};
use crate::bytes::Cursor;
use crate::format::{
    BLOCK_HEADER_BYTES, BlockHeader, BlockKind, FileHeader, HEADER_BYTES, TRAILER_BYTES, Trailer,
};
use crate::index::{BlockPlace, Index, follows};
use crate::notes::Summary;
use std::cell::RefCell;
use std::io::{Read, Seek, SeekFrom};
use ttmem_account::budget::{Budget, Charge, Turn, TurnEnd};
use ttmem_account::state::codec::Room;

pub(super) const UNFINISHED: &str = "the recording was not finished";
const CUT_HEADER: &str = "the file ends in the header of a block";
const BAD_INDEX: &str = "the index is damaged";
const OUT_OF_ORDER: &str = "a block is out of order";
const NO_START: &str = "there is no state to begin with";

/// Finds the blocks of a file.
pub(super) struct Finder<R> {
    pub(super) source: R,
    pub(super) end: u64,
    pub(super) budget: Budget,
    pub(super) turn: Turn,
}

/// The blocks in front of the first that is not whole, and why it is not.
struct Chain {
    blocks: Vec<BlockPlace>,
    damage: (u64, &'static str),
}

impl<R: Read + Seek> Finder<R> {
    /// The contents by the index if it has what the file has, and by the blocks themselves otherwise.
    pub(super) fn contents(&mut self, file: FileHeader) -> Result<Contents, Fault> {
        let mut charge = self.budget.charge();
        let chain = self.chain(&mut charge)?;
        let indexed = self.indexed(&chain)?;
        let (index, summary, damage, summary_charge) = match indexed {
            Some(Drawn {
                value: (index, summary),
                charge,
            }) => (index, summary, None, charge),
            None => {
                let (summary, charge) = self.summary(&chain)?;
                let (offset, what) = chain.damage;
                let damage = Damage {
                    offset,
                    what,
                    events_before: summary.events,
                    time: summary.to,
                };
                let mut index = Index::default();
                chain.blocks.into_iter().for_each(|block| index.push(block));
                (index, summary, Some(damage), charge)
            }
        };
        charge.set(size_of_val(&index.blocks[..]) as u64 + summary_charge.bytes())?;
        drop(summary_charge);
        let first = index.blocks.first().map(|block| block.header);
        if first.is_none_or(|first| first.kind != BlockKind::State || !first.is_start) {
            let nothing = || Damage {
                offset: HEADER_BYTES as u64,
                what: NO_START,
                events_before: summary.events,
                time: summary.to,
            };
            return Err(Fault::NoStart(damage.unwrap_or_else(nothing)));
        }
        Ok(Contents {
            file,
            stored: self.end,
            index,
            summary,
            damage,
            _charge: charge,
        })
    }

    /// Finds blocks one after the other, up to the first that is not whole.
    fn chain(&mut self, charge: &mut Charge) -> Result<Chain, Fault> {
        let mut blocks: Vec<BlockPlace> = Vec::new();
        // Notes may be of any time before.
        let mut last: Option<BlockPlace> = None;
        let mut offset = HEADER_BYTES as u64;
        loop {
            self.turn.spend(BLOCK_WORK)?;
            let what = match self.header_at(offset)? {
                None => match self.end - offset {
                    0 => UNFINISHED,
                    left if left < BLOCK_HEADER_BYTES as u64 => CUT_HEADER,
                    _more => self.why_no_block(offset)?,
                },
                Some(header) => {
                    let place = BlockPlace { offset, header };
                    let is_next = |last: &BlockPlace| follows(last, &place);
                    if header.kind == BlockKind::Index {
                        BAD_INDEX
                    } else if !last.as_ref().is_none_or(is_next) {
                        OUT_OF_ORDER
                    } else {
                        charge.draw(2 * size_of::<BlockPlace>() as u64)?;
                        blocks.push(place);
                        if header.kind != BlockKind::Notes {
                            last = Some(place);
                        }
                        offset += header.bytes();
                        continue;
                    }
                }
            };
            let damage = (offset, what);
            return Ok(Chain { blocks, damage });
        }
    }

    /// The index and its summary, if the recording was finished and they are whole.
    fn index(&mut self) -> Result<Option<Drawn<(Index, Summary)>>, Fault> {
        let Some(at) = self.end.checked_sub(TRAILER_BYTES as u64) else {
            return Ok(None);
        };
        let mut trailer = [0; TRAILER_BYTES];
        self.source.seek(SeekFrom::Start(at))?;
        self.source.read_exact(&mut trailer)?;
        let Some(trailer) = Trailer::decode(&trailer).filter(|it| it.file_bytes == self.end) else {
            return Ok(None);
        };
        let offset = trailer.index_offset;
        let header = self.header_at(offset)?;
        let Some(header) = header.filter(|header| header.kind == BlockKind::Index) else {
            return Ok(None);
        };
        let place = BlockPlace { offset, header };
        let how = (&self.budget, &mut self.turn);
        let payload = match payload(&mut self.source, &place, how) {
            Ok(payload) => payload,
            // What the index is too large for, the blocks themselves may not be.
            Err(Fault::Damaged(_) | Fault::End(TurnEnd::OverBudget(_))) => return Ok(None),
            Err(fault) => return Err(fault),
        };
        self.turn
            .spend(payload.value.len() as u64 / STATE_BYTES_PER_UNIT)?;
        let room = RefCell::new(Room::of(self.budget.charge(), self.turn.clone()));
        let mut cursor = Cursor::within(&payload.value, &room);
        let read = Index::get(&mut cursor, offset).zip(Summary::get(&mut cursor));
        let charge = room.into_inner().into_charge();
        Ok(read
            .zip(charge)
            .map(|(value, charge)| Drawn { value, charge }))
    }

    /// The same, unless the blocks that stand in the file are others.
    fn indexed(&mut self, chain: &Chain) -> Result<Option<Drawn<(Index, Summary)>>, Fault> {
        let Some(known) = self.index()? else {
            return Ok(None);
        };
        let index = &known.value.0;
        let has_place = |block: &&BlockPlace| block.header.kind != BlockKind::Notes;
        let found = chain.blocks.iter().filter(has_place);
        if found.clone().eq(&index.blocks) {
            return Ok(Some(known));
        }
        // Where a block is damaged, those behind it are found by the index alone.
        let mut readable = 0;
        for block in &index.blocks {
            self.turn.spend(BLOCK_WORK)?;
            let header = self.header_at(block.offset)?;
            readable += usize::from(header == Some(block.header));
        }
        Ok((readable >= found.count()).then_some(known))
    }

    /// What the notes of blocks say.
    fn summary(&mut self, chain: &Chain) -> Result<(Summary, Charge), Fault> {
        let mut summary = Summary::default();
        let mut charge = self.budget.charge();
        if let Some(first) = chain.blocks.first() {
            summary.from = first.header.first_time;
            summary.first_event = first.header.first_event;
        }
        for block in &chain.blocks {
            if block.header.kind == BlockKind::Notes {
                let how = (&self.budget, &mut self.turn);
                let payload = match payload(&mut self.source, block, how) {
                    Ok(payload) => Some(payload),
                    Err(Fault::Damaged(_)) => None,
                    Err(fault) => return Err(fault),
                };
                if let Some(payload) = payload {
                    let work = payload.value.len() as u64 / STATE_BYTES_PER_UNIT;
                    self.turn.spend(work + summary.peaks.len() as u64 / 8)?;
                    let room = RefCell::new(Room::of(self.budget.charge(), self.turn.clone()));
                    let notes = Summary::get(&mut Cursor::within(&payload.value, &room));
                    let room = room.into_inner();
                    if let Some(end) = room.over() {
                        return Err(end.into());
                    }
                    if let Some(mut notes) = notes {
                        notes.events = 0;
                        charge.draw(room.into_charge().map_or(0, |charge| charge.bytes()))?;
                        summary.merge(notes);
                    }
                }
            }
            summary.to = summary.to.max(block.header.last_time);
            let counted = block.header.counted_events();
            summary.events = summary.events.saturating_add(counted);
        }
        Ok((summary, charge))
    }

    /// The header of a block that lies in the file; none if there is none.
    fn header_at(&mut self, offset: u64) -> std::io::Result<Option<BlockHeader>> {
        let behind = offset.checked_add(BLOCK_HEADER_BYTES as u64);
        if behind.is_none_or(|behind| behind > self.end) {
            return Ok(None);
        }
        let mut bytes = [0; BLOCK_HEADER_BYTES];
        self.source.seek(SeekFrom::Start(offset))?;
        self.source.read_exact(&mut bytes)?;
        let header = BlockHeader::decode(&bytes);
        let is_inside = |header: &BlockHeader| {
            let behind = offset.checked_add(header.bytes());
            behind.is_some_and(|behind| behind <= self.end)
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
}
