//! Changes as bytes: a list of entries, and beside them the records of their events.
//!
//! An entry is its kind, the step of its time from the entry before, and its fields. Definitions,
//! events and states are in their forms of the wire.

use crate::bytes::{Cursor, put_bytes, put_number, put_optional};
use std::sync::Arc;
use ttmem_event::catalogue::Arch;
use ttmem_event::event::EVENT_BYTES;
use ttmem_event::wire::{Clock, DefinitionIter};
use ttmem_event::{Class, CoreSet, Definition, Event, Source};
use ttmem_ledger::{
    Anomaly, Batch, Capacity, Change, ComputeL1, Departure, DeviceFacts, IncompleteReason, Labels,
    MAX_LABELS, ProcessIdentity, ProcessState, Resync,
};

pub(crate) type Record = [u8; EVENT_BYTES];

const CONFIGURE_DEVICE: u8 = 1;
const JOIN: u8 = 2;
const SET_STATE: u8 = 3;
const DEFINE: u8 = 4;
const APPLY: u8 = 5;
const APPLY_RECOVERED: u8 = 6;
const APPLY_PART: u8 = 7;
const REFUSE: u8 = 8;
const MARK_INCOMPLETE: u8 = 9;
const BEGIN_RESYNC: u8 = 10;
const RESYNC: u8 = 11;
const DEPART: u8 = 12;
const SET_MARK: u8 = 13;
const SET_LABELS: u8 = 14;

const STATES: [ProcessState; 3] = [
    ProcessState::Live,
    ProcessState::Detached,
    ProcessState::Exited,
];

const DEPARTURES: [Departure; 4] = [
    Departure::Exited,
    Departure::Ended,
    Departure::Replaced,
    Departure::Forgotten,
];

/// Appends an entry without its events; `step` is that of its time.
pub(crate) fn put_entry(out: &mut Vec<u8>, step: u64, change: &Change) {
    let kind = match change {
        Change::ConfigureDevice(_) => CONFIGURE_DEVICE,
        Change::Join { .. } => JOIN,
        Change::SetState { .. } => SET_STATE,
        Change::Define { .. } => DEFINE,
        Change::Apply(batch) if batch.recovered => APPLY_RECOVERED,
        Change::Apply(_) => APPLY,
        Change::ApplyEvent { .. } => APPLY_PART,
        Change::Refuse { .. } => REFUSE,
        Change::MarkIncomplete { .. } => MARK_INCOMPLETE,
        Change::BeginResync { .. } => BEGIN_RESYNC,
        Change::Resync { .. } => RESYNC,
        Change::Depart { .. } => DEPART,
        Change::SetMark { .. } => SET_MARK,
        Change::SetLabels { .. } => SET_LABELS,
    };
    out.push(kind);
    put_number(out, step);
    put_fields(out, change);
}

fn put_fields(out: &mut Vec<u8>, change: &Change) {
    let mut number = |number: u64| put_number(out, number);
    match change {
        Change::ConfigureDevice(facts) => put_device(out, facts),
        Change::Join {
            identity,
            claimed_pid,
        } => {
            put_identity(out, identity);
            out.extend_from_slice(&claimed_pid.to_le_bytes());
        }
        Change::SetLabels { process, labels } => {
            number((*process).into());
            number(labels.iter().count() as u64);
            for (key, value) in labels.iter() {
                put_bytes(out, key.as_bytes());
                put_bytes(out, value.as_bytes());
            }
        }
        Change::SetState {
            process,
            state,
            connections,
        } => {
            number((*process).into());
            number((*connections).into());
            out.push(place(&STATES, state));
        }
        Change::Define {
            process,
            definitions,
        } => {
            number((*process).into());
            put_definitions(out, definitions);
        }
        Change::Apply(batch) => {
            number(batch.process.into());
            number(batch.events().len() as u64);
        }
        Change::ApplyEvent { process, work, .. } => {
            number((*process).into());
            number(*work);
        }
        Change::Refuse {
            process,
            anomaly,
            count,
        } => {
            number((*process).into());
            number(*count);
            out.push(place(Anomaly::ALL, anomaly));
        }
        Change::MarkIncomplete {
            process,
            reason,
            count,
        } => {
            number((*process).into());
            number(*count);
            out.push(place(IncompleteReason::ALL, reason));
        }
        Change::BeginResync { process } => number((*process).into()),
        Change::Resync { process, resync } => {
            number((*process).into());
            number(resync.lost_events);
            number(resync.elided_events);
            number(resync.clock.ticks);
            number(resync.clock.unix_nanos);
            number(resync.clock.nanos_per_tick_q32);
            put_definitions(out, &resync.definitions);
            put_bytes(out, &resync.state);
        }
        Change::Depart {
            process,
            departure,
            time,
        } => {
            number((*process).into());
            number(*time);
            out.push(place(&DEPARTURES, departure));
        }
        Change::SetMark {
            user,
            time,
            name,
            number: mark,
        } => {
            number((*user).into());
            number(*time);
            number(*mark);
            put_bytes(out, name.as_bytes());
        }
    }
}

/// Reads the next entry, with its events out of `events`.
pub(crate) fn get_entry(cursor: &mut Cursor<'_>, events: &mut Events<'_>) -> Option<(u64, Change)> {
    let (kind, step) = (cursor.byte()?, cursor.number()?);
    let change = match kind {
        CONFIGURE_DEVICE => Change::ConfigureDevice(Box::new(get_device(cursor)?)),
        JOIN => {
            let identity = get_identity(cursor)?;
            let claimed_pid = i64::from_le_bytes(cursor.take(8)?.try_into().ok()?);
            Change::Join {
                identity,
                claimed_pid,
            }
        }
        SET_STATE => Change::SetState {
            process: cursor.small()?,
            connections: cursor.small()?,
            state: at(&STATES, cursor.byte()?)?,
        },
        DEFINE => Change::Define {
            process: cursor.small()?,
            definitions: Arc::new(get_definitions(cursor)?),
        },
        APPLY | APPLY_RECOVERED => {
            let process = cursor.small()?;
            let range = events.take(cursor.small()?)?;
            Change::Apply(Batch {
                process,
                recovered: kind == APPLY_RECOVERED,
                // Shared by all batches of the block; put in its place when that is read.
                events: Arc::default(),
                range,
            })
        }
        APPLY_PART => {
            let (process, work) = (cursor.small()?, cursor.number()?);
            let place = events.take(1)?.start;
            let event = *events.decoded.get(place)?;
            events.decoded.pop();
            Change::ApplyEvent {
                process,
                event,
                work,
            }
        }
        REFUSE => Change::Refuse {
            process: cursor.small()?,
            count: cursor.number()?,
            anomaly: at(Anomaly::ALL, cursor.byte()?)?,
        },
        MARK_INCOMPLETE => Change::MarkIncomplete {
            process: cursor.small()?,
            count: cursor.number()?,
            reason: at(IncompleteReason::ALL, cursor.byte()?)?,
        },
        BEGIN_RESYNC => Change::BeginResync {
            process: cursor.small()?,
        },
        RESYNC => {
            let process = cursor.small()?;
            let (lost_events, elided_events) = (cursor.number()?, cursor.number()?);
            let clock = Clock {
                ticks: cursor.number()?,
                unix_nanos: cursor.number()?,
                nanos_per_tick_q32: cursor.number()?,
            };
            let definitions = get_definitions(cursor)?;
            let state = cursor.bytes()?;
            cursor.draw(state.len())?;
            let resync = Resync {
                definitions,
                state: state.to_vec(),
                clock,
                lost_events,
                elided_events,
            };
            Change::Resync {
                process,
                resync: Arc::new(resync),
            }
        }
        DEPART => Change::Depart {
            process: cursor.small()?,
            time: cursor.number()?,
            departure: at(&DEPARTURES, cursor.byte()?)?,
        },
        SET_MARK => Change::SetMark {
            user: cursor.small()?,
            time: cursor.number()?,
            number: cursor.number()?,
            name: cursor.text()?,
        },
        SET_LABELS => {
            let process = cursor.small()?;
            // A writer has no more than can be kept.
            let labels = cursor.list_up_to(MAX_LABELS as u64, |cursor| {
                Some((cursor.text()?, cursor.text()?))
            })?;
            let labels = labels.iter().map(|(key, value)| (&**key, &**value));
            Change::SetLabels {
                process,
                labels: Labels::new(labels),
            }
        }
        _unknown => return None,
    };
    Some((step, change))
}

/// The events of a block on their way into its entries.
#[derive(Debug)]
pub(crate) struct Events<'a> {
    records: std::slice::Iter<'a, Record>,
    pub(crate) decoded: Vec<Event>,
    /// Records of kinds that are not known here.
    pub(crate) unknown: u64,
}

impl<'a> Events<'a> {
    /// What so many events take: as records, in columns, and decoded.
    pub(crate) fn room_for(events: usize) -> usize {
        events * (EVENT_BYTES + size_of::<Event>() + 24)
    }

    pub(crate) fn new(records: &'a [Record]) -> Self {
        Self {
            records: records.iter(),
            decoded: Vec::with_capacity(records.len()),
            unknown: 0,
        }
    }

    /// The next records; where they are among the events that could be read.
    fn take(&mut self, count: usize) -> Option<std::ops::Range<usize>> {
        let start = self.decoded.len();
        for _record in 0..count {
            match Event::decode(self.records.next()?) {
                Ok(event) => self.decoded.push(event),
                Err(_unknown) => self.unknown += 1,
            }
        }
        Some(start..self.decoded.len())
    }

    pub(crate) fn is_done(&self) -> bool {
        self.records.len() == 0
    }
}

fn put_definitions(out: &mut Vec<u8>, definitions: &[Definition]) {
    let mut bytes = Vec::new();
    for definition in definitions {
        definition.encode(&mut bytes);
    }
    put_bytes(out, &bytes);
}

/// Definitions; one that cannot be read ends them, as on the wire.
fn get_definitions(cursor: &mut Cursor<'_>) -> Option<Vec<Definition>> {
    let mut definitions = Vec::new();
    for definition in DefinitionIter::new(cursor.bytes()?) {
        let definition = definition.ok()?;
        let inside = match &definition {
            Definition::Text { text, .. } => text.len(),
            Definition::Mesh(mesh) => size_of_val(&mesh.devices[..]),
            Definition::Cores { .. } | Definition::Device(_) => 0,
        };
        cursor.draw(2 * size_of::<Definition>() + inside)?;
        definitions.push(definition);
    }
    Some(definitions)
}

fn put_identity(out: &mut Vec<u8>, identity: &ProcessIdentity) {
    let number = |out: &mut Vec<u8>, number: u64| put_number(out, number);
    put_optional(out, identity.pid.map(u64::from), number);
    put_optional(out, identity.start_time, number);
    put_optional(out, identity.instance, |out, id| {
        out.extend_from_slice(&id);
    });
    put_number(out, identity.uid.into());
    out.push(identity.source.code());
    for text in [&identity.name, &identity.command, &identity.visible_devices] {
        put_bytes(out, text.as_bytes());
    }
}

fn get_identity(cursor: &mut Cursor<'_>) -> Option<ProcessIdentity> {
    Some(ProcessIdentity {
        pid: cursor.optional(Cursor::small)?,
        start_time: cursor.optional(Cursor::number)?,
        instance: cursor.optional(|cursor| cursor.take(16)?.try_into().ok())?,
        uid: cursor.small()?,
        source: Source::from_code(cursor.byte()?)?,
        name: cursor.text()?,
        command: cursor.text()?,
        visible_devices: cursor.text()?,
    })
}

fn put_device(out: &mut Vec<u8>, facts: &DeviceFacts) {
    put_number(out, facts.logical_id.into());
    put_optional(out, facts.unique_id, put_number);
    put_optional(out, facts.arch, |out, arch| {
        put_number(out, arch.code().into());
    });
    put_optional(out, facts.board.as_ref(), |out, board| {
        put_bytes(out, board.as_bytes());
    });
    put_optional(out, facts.remote, |out, remote| out.push(u8::from(remote)));
    put_optional(out, facts.compute, |out, compute| {
        put_number(out, compute.bytes_per_core);
        put_number(out, compute.reserved_bytes);
        let rows: Vec<(u8, u32)> = compute.cores.rows().collect();
        put_number(out, rows.len() as u64);
        for (row, columns) in rows {
            out.push(row);
            put_number(out, columns.into());
        }
    });
    for capacity in facts.capacities {
        put_optional(out, capacity, |out, capacity: Capacity| {
            put_number(out, capacity.banks.into());
            put_number(out, capacity.base);
            put_number(out, capacity.per_bank_bytes);
        });
    }
}

fn get_device(cursor: &mut Cursor<'_>) -> Option<DeviceFacts> {
    let mut facts = DeviceFacts {
        logical_id: cursor.small()?,
        unique_id: cursor.optional(Cursor::number)?,
        arch: cursor.optional(|cursor| Some(Arch::from_code(cursor.small()?)))?,
        board: cursor.optional(Cursor::text)?,
        remote: cursor.optional(Cursor::flag)?,
        compute: cursor.optional(get_compute)?,
        capacities: [None; Class::COUNT],
    };
    for capacity in &mut facts.capacities {
        *capacity = cursor.optional(|cursor| {
            Some(Capacity {
                banks: cursor.small()?,
                base: cursor.number()?,
                per_bank_bytes: cursor.number()?,
            })
        })?;
    }
    Some(facts)
}

fn get_compute(cursor: &mut Cursor<'_>) -> Option<ComputeL1> {
    let (bytes_per_core, reserved_bytes) = (cursor.number()?, cursor.number()?);
    let mut cores = CoreSet::default();
    for (row, columns) in cursor.list(|cursor| Some((cursor.byte()?, cursor.small()?)))? {
        cores.insert_row(row, columns);
    }
    let can_be = reserved_bytes <= bytes_per_core && bytes_per_core <= u64::from(u32::MAX);
    can_be.then_some(ComputeL1 {
        cores,
        bytes_per_core,
        reserved_bytes,
    })
}

fn place<T: PartialEq>(all: &[T], one: &T) -> u8 {
    let place = all.iter().position(|each| each == one);
    place
        .and_then(|place| u8::try_from(place).ok())
        .unwrap_or(u8::MAX)
}

fn at<T: Copy>(all: &[T], place: u8) -> Option<T> {
    all.get(usize::from(place)).copied()
}
