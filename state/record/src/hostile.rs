//! Recordings that claim more than they have: made of a few steps, each repeated often.
//!
//! All checksums are right, so that what they claim reaches the decoders.

use crate::blocks::Blocks;
use crate::bytes::{put_bytes, put_number};
use crate::coding::{Record, put_entry};
use crate::columns;
use crate::format::{BlockHeader, BlockKind, FileHeader, TRAILER_BYTES, Trailer};
use std::sync::Arc;
use ttmem_account::Account;
use ttmem_event::catalogue::Arch;
use ttmem_event::wire::Clock;
use ttmem_event::{
    CoreSet, CoresId, Definition, DeviceDefinition, DeviceId, MeshDefinition, MeshId, MeshKind,
    Source, TextId,
};
use ttmem_ledger::{ApplyLimits, Change, Departure, Ledger, ProcessIdentity, Resync};

/// Bytes of one step: what it does, two bytes of how often, and one of its own.
const STEP_BYTES: usize = 4;

/// Steps of one recording, and bytes of what is made before it is packed.
const MAX_STEPS: usize = 64;
const MAX_RAW_BYTES: usize = 64 << 20;

/// A code of `put_entry` whose list is written by hand.
const SET_LABELS: u8 = 14;

struct Maker {
    blocks: Blocks<Vec<u8>>,
    entries: Vec<u8>,
    entry_count: u32,
    records: Vec<Record>,
    raw_bytes: usize,
    number: u64,
}

/// A recording of such steps.
///
/// # Panics
/// When memory cannot be written to, which does not happen.
#[must_use]
pub fn recording(steps: &[u8]) -> Vec<u8> {
    let mut maker = Maker {
        blocks: Blocks::new(Vec::new(), 1, None).expect("a packer"),
        entries: Vec::new(),
        entry_count: 0,
        records: Vec::new(),
        raw_bytes: 0,
        number: 0,
    };
    let written = maker.blocks.put(&FileHeader::new(false, 5).encode());
    written.expect("memory takes everything");
    maker.state(&Ledger::default());
    for step in steps.chunks_exact(STEP_BYTES).take(MAX_STEPS) {
        if maker.raw_bytes > MAX_RAW_BYTES {
            break;
        }
        let count = u32::from(u16::from_le_bytes([step[1], step[2]]));
        maker.step(step[0], count, step[3]);
    }
    maker.end_block();
    maker.finish()
}

fn identity(number: u64) -> ProcessIdentity {
    ProcessIdentity {
        pid: u32::try_from(number % 1000).ok(),
        start_time: None,
        instance: None,
        uid: 0,
        name: "".into(),
        command: "".into(),
        source: Source::Attached,
        visible_devices: "".into(),
    }
}

impl Maker {
    fn step(&mut self, what: u8, count: u32, own: u8) {
        let process = u32::from(own);
        match what % 16 {
            0 => self.repeat(count, |number| Change::Join {
                identity: identity(number),
                claimed_pid: 0,
            }),
            1 => {
                // Empty pairs, more than any process has labels.
                self.entries.push(SET_LABELS);
                put_number(&mut self.entries, 0);
                put_number(&mut self.entries, process.into());
                let pairs = count as usize * 256;
                put_number(&mut self.entries, pairs as u64);
                self.entries.resize(self.entries.len() + 2 * pairs, 0);
                self.entry_count += 1;
            }
            2 => self.repeat(count % 4096, |number| {
                let definition = Definition::Text {
                    id: TextId(u32::try_from(number + 1).unwrap_or(u32::MAX)),
                    text: "x".repeat(16 * usize::from(own)),
                };
                define(0, vec![definition])
            }),
            3 => self.put(&define(process, world(count % 512 + 1))),
            4 => self.events(process, count, |number| number),
            5 => self.events(process, count, |_number| 1),
            6 => self.repeat(count, |number| Change::Depart {
                process: u32::try_from(number % (256 << (own % 8))).unwrap_or(0),
                departure: Departure::Ended,
                time: number,
            }),
            7 => self.repeat(count % 4096, |number| Change::SetMark {
                user: process,
                time: number,
                name: "".into(),
                number,
            }),
            8 => self.end_block(),
            9 => {
                // A state with many processes and nothing in them.
                let mut ledger = Ledger::default();
                for number in 0..count % 4096 {
                    let join = Change::Join {
                        identity: identity(number.into()),
                        claimed_pid: 0,
                    };
                    ledger.apply(&join, ApplyLimits::NONE, None);
                }
                (0..=own % 8).for_each(|_state| self.state(&ledger));
            }
            10 => self.notes(count),
            11 => {
                let zeros = vec![0; count as usize * 256];
                self.block(BlockKind::Inputs, (count, count), &zeros);
            }
            12 => {
                // A state whose lists are longer than what they lead to.
                let mut state = ttmem_ledger::state_fingerprint().to_le_bytes().to_vec();
                state.extend_from_slice(&(u64::from(count) * 64).to_le_bytes());
                state.resize(state.len() + count as usize * 512, own / 128);
                self.block(BlockKind::State, (0, 0), &state);
            }
            13 => self.index(count, own),
            14 => {
                let definitions = vec![definition_of_cores(own); count as usize];
                self.put(&define(process, definitions));
            }
            _rest if own.is_multiple_of(2) => {
                self.repeat(count, |_number| Change::BeginResync { process });
            }
            _rest => self.repeat(count, |number| Change::Resync {
                process: u32::try_from(number % 256).unwrap_or(0),
                resync: Arc::new(empty_resync()),
            }),
        }
    }

    fn put(&mut self, change: &Change) {
        put_entry(&mut self.entries, 0, change);
        self.entry_count += 1;
        if self.entry_count == 1 << 16 {
            self.end_block();
        }
    }

    fn repeat(&mut self, count: u32, make: impl Fn(u64) -> Change) {
        for _change in 0..count {
            self.number += 1;
            self.put(&make(self.number));
        }
    }

    /// Events of one kind in a batch of a process; what they are about is given by their number.
    fn events(&mut self, process: u32, count: u32, about: impl Fn(u64) -> u64) {
        const APPLY: u8 = 5;
        let kind = u8::try_from(self.number % 40).unwrap_or(1);
        self.entries.push(APPLY);
        put_number(&mut self.entries, 0);
        put_number(&mut self.entries, 0);
        put_number(&mut self.entries, count.into());
        self.entry_count += 1;
        for number in 0..u64::from(count) {
            let mut record = [0; 64];
            record[0] = if process == 0 {
                kind
            } else {
                process.to_le_bytes()[0]
            };
            record[4] = 1;
            record[8..16].copy_from_slice(&number.to_le_bytes());
            record[16..24].copy_from_slice(&about(number + 1).to_le_bytes());
            for at in (24..64).step_by(8) {
                record[at] = 1;
            }
            self.records.push(record);
        }
        self.number += 1;
        if self.records.len() > 1 << 16 {
            self.end_block();
        }
    }

    fn end_block(&mut self) {
        if self.entry_count == 0 {
            return;
        }
        let mut payload = Vec::new();
        let length = u32::try_from(self.entries.len()).unwrap_or(u32::MAX);
        payload.extend_from_slice(&length.to_le_bytes());
        payload.append(&mut self.entries);
        columns::put(&self.records, 5, &mut payload);
        let events = u32::try_from(self.records.len()).unwrap_or(u32::MAX);
        let entries = std::mem::take(&mut self.entry_count);
        self.records.clear();
        self.block(BlockKind::Inputs, (entries, events), &payload);
    }

    fn state(&mut self, ledger: &Ledger) {
        let mut state = Vec::new();
        ledger.save(&mut state);
        self.block(BlockKind::State, (0, 0), &state);
    }

    fn notes(&mut self, count: u32) {
        let mut notes = vec![0; 5];
        put_number(&mut notes, count.into());
        for _mark in 0..count {
            notes.extend_from_slice(&[0; 5]);
            put_bytes(&mut notes, b"");
        }
        notes.extend_from_slice(&[0; 3]);
        self.block(BlockKind::Notes, (0, 0), &notes);
    }

    /// An index of blocks that are not there, and the trailer that leads to it.
    fn index(&mut self, count: u32, own: u8) {
        self.end_block();
        let header = header(BlockKind::State, (0, 0));
        let mut index = Vec::new();
        let entries = u64::from(count) * 16;
        put_number(&mut index, entries);
        for _block in 0..entries {
            put_number(&mut index, own.into());
            index.extend_from_slice(&header.encode());
        }
        index.extend_from_slice(&[0; 16]);
        self.end(&index);
    }

    fn finish(mut self) -> Vec<u8> {
        if self.number.is_multiple_of(2) {
            let mut index = Vec::new();
            self.blocks.index.put(&mut index);
            index.extend_from_slice(&[0; 16]);
            self.end(&index);
        }
        self.blocks.out
    }

    fn end(&mut self, index: &[u8]) {
        let index_offset = self.blocks.bytes;
        self.block(BlockKind::Index, (0, 0), index);
        let trailer = Trailer {
            index_offset,
            file_bytes: self.blocks.bytes + TRAILER_BYTES as u64,
        };
        let written = self.blocks.put(&trailer.encode());
        written.expect("memory takes everything");
    }

    fn block(&mut self, kind: BlockKind, (entries, events): (u32, u32), payload: &[u8]) {
        self.raw_bytes += payload.len();
        let is_first = self.blocks.index.blocks.is_empty();
        let header = BlockHeader {
            is_start: kind == BlockKind::State && (is_first || entries == 0),
            ..header(kind, (entries, events))
        };
        // What is too large for a block is left out.
        if payload.len() as u64 <= kind.most_bytes()
            && events as usize <= 1 << 17
            && entries <= 1 << 16
        {
            let written = self.blocks.block(header, payload);
            written.expect("memory takes everything");
        }
    }
}

fn header(kind: BlockKind, (entries, events): (u32, u32)) -> BlockHeader {
    BlockHeader {
        kind,
        is_start: false,
        stored_bytes: 0,
        raw_bytes: 0,
        entries,
        events,
        first_time: 5,
        last_time: 5,
        first_event: 0,
        last_event: 0,
        payload_sum: 0,
    }
}

fn define(process: u32, definitions: Vec<Definition>) -> Change {
    Change::Define {
        process,
        definitions: Arc::new(definitions),
    }
}

/// A process sends that it holds nothing.
fn empty_resync() -> Resync {
    let mut state = Vec::new();
    Account::new(false).save(&mut state);
    Resync {
        definitions: Vec::new(),
        state,
        clock: Clock::UNIX_NANOS,
        lost_events: 0,
        elided_events: 0,
    }
}

fn definition_of_cores(own: u8) -> Definition {
    let mut cores = CoreSet::default();
    cores.insert_row(own % 8, u32::from(own) + 1);
    Definition::Cores {
        id: CoresId(1),
        cores,
    }
}

/// So many devices, meshes of all of them, and a core set.
fn world(devices: u32) -> Vec<Definition> {
    let device = |number: u32| DeviceDefinition {
        id: DeviceId(number),
        logical_id: number,
        unique_id: Some(number.into()),
        arch: Arch::from_code(1),
        board: TextId::NONE,
        remote: None,
        grid_columns: 8,
        grid_rows: 8,
        l1_bytes_per_core: 1 << 20,
        l1_reserved_bytes: 0,
    };
    let mesh = |number: u32| MeshDefinition {
        id: MeshId(number),
        kind: MeshKind::Mesh,
        handle: number.into(),
        rows: 1,
        columns: 1,
        devices: (1..=devices).map(DeviceId).collect(),
    };
    let mut all: Vec<Definition> = (1..=devices)
        .map(|number| Definition::Device(device(number)))
        .collect();
    all.extend((1..=devices).map(|number| Definition::Mesh(mesh(number))));
    all.push(definition_of_cores(3));
    all
}
