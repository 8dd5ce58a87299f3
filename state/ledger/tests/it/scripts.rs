//! Arbitrary behaviour of processes: sensible, contradictory and hostile.
//!
//! Events are made from the table of the vocabulary itself, so that every kind
//! takes part, also those added later. Ids come from small ranges that reach one
//! beyond what is defined, numbers mostly from a plausible range and sometimes
//! from the far ends of their type: most events meet something that is live.

use crate::world::{Board, capacity, device, identity, mesh, state_of};
use proptest::collection::vec;
use proptest::prelude::*;
use std::sync::Arc;
use ttmem_event::catalogue::Arch;
use ttmem_event::event::kinds::LAYOUT;
use ttmem_event::event::layout::FieldLayout;
use ttmem_event::event::{EVENT_BYTES, Event};
use ttmem_event::wire::Clock;
use ttmem_event::{
    BinaryStatus, CacheResult, CbKind, ClashKind, Class, CoreRange, CoreSet, CoreType, CoresId,
    Definition, Direction, DispatchPath, EventKind, KernelKind, Layout, MeshId, Source, TextId,
};
use ttmem_ledger::testing::TestLedger;
use ttmem_ledger::{ApplyLimits, Capacity, Change, Departure, DeviceFacts, Ledger, Limits, Resync};

/// A chip so small that random events fill it, overlap and run over its edges.
pub(crate) const SMALL: Board = Board {
    arch: Arch::Wormhole,
    columns: 4,
    rows: 3,
    l1_bytes_per_core: 4096,
    l1_reserved_bytes: 256,
    classes: &[
        (Class::Dram, 4, 64, 2048),
        (Class::Trace, 4, 2112, 512),
        (Class::L1, 12, 256, 3584),
        (Class::L1Small, 12, 3840, 256),
    ],
};

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Define(Definition),
    Say(EventKind),
    Resync(Box<Sent>),
    /// It leaves, and another process takes its place.
    Leave(Departure),
}

/// What a state is made of: definitions, what the client lived through, damage on the way.
pub(crate) type Sent = (Vec<Definition>, Vec<EventKind>, Vec<(usize, u8)>);

/// What one process does, in order.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) name: &'static str,
    pub(crate) source: Source,
    pub(crate) visible: &'static str,
    pub(crate) steps: Vec<Step>,
}

const PLAUSIBLE: [u64; 12] = [64, 1, 256, 100, 32, 3840, 1000, 2112, 512, 0, 2000, 1500];
const HOSTILE: [u64; 7] = [
    u64::MAX,
    u64::MAX - 1,
    1 << 63,
    (1 << 48) + 1,
    1 << 48,
    100 << 30,
    1 << 30,
];

fn number(pick: u32) -> u64 {
    let pick = pick as usize;
    if pick % 32 == 31 {
        HOSTILE[pick / 32 % HOSTILE.len()]
    } else {
        PLAUSIBLE[pick % PLAUSIBLE.len()]
    }
}

/// One of `count` values, or the one that stands for all.
fn one_or_all(pick: u32, count: u64) -> u64 {
    let value = u64::from(pick) % (count + 1);
    if value == count { u64::MAX } else { value }
}

/// A value for a field, as the record holds it.
fn field_value(field: &FieldLayout, pick: u32) -> u64 {
    let below = |count: usize| u64::from(pick) % count as u64;
    match field.type_name {
        "bool" => below(2),
        // DRAM and L1 more often than the others: full allocators are wanted too.
        "Class" => [0, 0, 0, 0, 1, 1, 1, 1, 2, 3, 4][pick as usize % 11],
        "Layout" => below(Layout::ALL.len()),
        "Direction" => below(Direction::ALL.len()),
        "CbKind" => below(CbKind::ALL.len()),
        "KernelKind" => below(KernelKind::ALL.len()),
        "BinaryStatus" => below(BinaryStatus::ALL.len()),
        "CacheResult" => below(CacheResult::ALL.len()),
        "DispatchPath" => below(DispatchPath::ALL.len()),
        "ClashKind" => below(ClashKind::ALL.len()),
        "CoreType" => below(CoreType::ALL.len()),
        "Class, all ones = all" => one_or_all(pick, Class::COUNT as u64),
        "u32, all ones = all" | "KernelId, all ones = all" => one_or_all(pick, 3),
        "MeshId" | "CoresId" => below(5),
        "DeviceId" | "ProgramId" => below(4),
        "KernelId" | "TextId" => below(3),
        "TraceId" | "u8" => below(2),
        "BufferId" => below(12),
        // A device number of an old sender.
        "i32" => [0, 1, 2, u64::MAX, 1024][pick as usize % 5],
        "u16" => [4, 12, 1, 0, u64::MAX][pick as usize % 5],
        // The address or pointer that an old sender knows things by.
        "u64" if field.name == "id" => [64, 256, 1, u64::MAX][pick as usize % 4],
        _number => number(pick),
    }
}

/// An event of the vocabulary, old or new.
pub(crate) fn any_what(old: bool) -> impl Strategy<Value = EventKind> {
    any_what_as_often(move |kind| match kind {
        _other if old != (kind >= 64) => 0,
        // Buffers, storage, kernels and runs make most of what is live.
        1 => 25,
        2..=14 => 4,
        _rare => 1,
    })
}

/// An event of one of the kinds that `often` gives a weight.
pub(crate) fn any_what_as_often(often: impl Fn(u8) -> usize) -> impl Strategy<Value = EventKind> {
    let rows: Vec<_> = LAYOUT
        .iter()
        .flat_map(|row| std::iter::repeat_n(row, often(row.kind)))
        .collect();
    let row = proptest::sample::select(rows);
    (row, proptest::array::uniform16(0..4096_u32)).prop_map(|(row, picks)| {
        let mut record = [0; EVENT_BYTES];
        record[0] = row.kind;
        for (field, pick) in row.fields.iter().zip(picks) {
            let value = field_value(field, pick).to_le_bytes();
            record[field.offset..][..field.width].copy_from_slice(&value[..field.width]);
        }
        let event = Event::decode(&record).expect("every field holds a value of its type");
        event.kind
    })
}

fn any_cores() -> impl Strategy<Value = CoreSet> {
    let corner = (0..6_u16, 0..5_u16, 0..3_u16, 0..3_u16);
    vec(corner, 0..3).prop_map(|corners| {
        let ranges = corners.into_iter().map(|(x, y, columns, rows)| CoreRange {
            x_first: x,
            y_first: y,
            x_last: x + columns,
            y_last: y + rows,
        });
        CoreSet::from_ranges(ranges).expect("inside the grid")
    })
}

pub(crate) fn any_definition() -> impl Strategy<Value = Definition> {
    let board = prop_oneof![
        Just(SMALL),
        Just(Board::N150),
        Just(Board {
            columns: u16::MAX,
            rows: u16::MAX,
            l1_bytes_per_core: u32::MAX,
            l1_reserved_bytes: u32::MAX,
            ..SMALL
        }),
        Just(Board {
            l1_bytes_per_core: 0,
            ..SMALL
        }),
    ];
    prop_oneof![
        (0..5_u32, any_cores()).prop_map(|(id, cores)| Definition::Cores {
            id: CoresId(id),
            cores
        }),
        (0..4_u32, "[ab]?").prop_map(|(id, text)| Definition::Text {
            id: TextId(id),
            text
        }),
        (0..4_u32, proptest::option::of(0..3_u64), board)
            .prop_map(|(id, unique_id, board)| device(id, unique_id, &board)),
        (0..5_u32, vec(0..4_u32, 0..4)).prop_map(|(id, devices)| mesh(id, &devices)),
    ]
}

/// Bytes of a state that are changed on the way: where, and to what.
fn any_mutations() -> impl Strategy<Value = Vec<(usize, u8)>> {
    let mutation = (8..4096_usize, any::<u8>());
    prop_oneof![Just(Vec::new()), vec(mutation, 1..6)]
}

/// A state as a broken or hostile client would send it.
fn damage(state: &mut [u8], mutations: &[(usize, u8)]) {
    for (place, value) in mutations {
        let place = place % state.len();
        // Without its fingerprint none of it would be read.
        state[place.max(8)] = *value;
    }
}

fn any_departure() -> impl Strategy<Value = Departure> {
    prop_oneof![
        Just(Departure::Exited),
        Just(Departure::Ended),
        Just(Departure::Replaced),
        Just(Departure::Forgotten),
    ]
}

fn any_step() -> impl Strategy<Value = Step> {
    let resync = (
        vec(any_definition(), 0..4),
        vec(any_what(false), 0..12),
        any_mutations(),
    );
    prop_oneof![
        80 => any_what(false).prop_map(Step::Say),
        8 => any_definition().prop_map(Step::Define),
        // What this sender may not say at all.
        1 => any_what(true).prop_map(Step::Say),
        2 => resync.prop_map(|(more, whats, mutations)| {
            let definitions = prelude().into_iter().filter_map(|step| match step {
                Step::Define(definition) => Some(definition),
                _other => None,
            });
            Step::Resync(Box::new((definitions.chain(more).collect(), whats, mutations)))
        }),
        1 => any_departure().prop_map(Step::Leave),
    ]
}

fn any_old_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        40 => any_what(true).prop_map(Step::Say),
        1 => any_what(false).prop_map(Step::Say),
        1 => any_departure().prop_map(Step::Leave),
    ]
}

/// Three chips, a mesh of two of them, a mesh of one, one of all, and one whose
/// capacities nobody reports.
pub(crate) fn prelude() -> Vec<Step> {
    let ranges = [
        (1, CoreSet::grid(4, 3)),
        (2, CoreSet::grid(2, 2)),
        (3, CoreSet::grid(6, 1)),
    ];
    let mut steps: Vec<Step> = ranges
        .into_iter()
        .map(|(id, cores)| Definition::Cores {
            id: CoresId(id),
            cores,
        })
        .chain([
            device(0, None, &SMALL),
            device(1, Some(1), &SMALL),
            device(2, Some(2), &SMALL),
            mesh(0, &[0, 1]),
            mesh(1, &[0]),
            mesh(2, &[2, 1, 0]),
            mesh(3, &[1]),
        ])
        .map(Step::Define)
        .collect();
    for mesh in 0..3 {
        for (class, banks, base, per_bank) in SMALL.classes {
            let content = capacity(MeshId(mesh), *class, *banks, *base, *per_bank);
            steps.push(Step::Say(content));
        }
    }
    steps
}

/// Three clients, two of them with the same devices, and two old senders.
pub(crate) fn any_scripts(most_steps: usize) -> impl Strategy<Value = Vec<Script>> {
    let client = move |name, visible| {
        vec(any_step(), 0..most_steps).prop_map(move |steps| Script {
            name,
            source: Source::Attached,
            visible,
            steps: prelude().into_iter().chain(steps).collect(),
        })
    };
    let old = move |name| {
        vec(any_old_step(), 0..most_steps).prop_map(move |steps| Script {
            name,
            source: Source::Legacy,
            visible: "",
            steps,
        })
    };
    let scripts = (
        client("one", ""),
        client("two", ""),
        client("elsewhere", "1,2"),
        old("old"),
        old("older"),
    );
    scripts.prop_map(|(one, two, elsewhere, old, older)| vec![one, two, elsewhere, old, older])
}

/// An order of steps: each number names one of the processes that have steps left.
pub(crate) fn interleaved<'s>(scripts: &'s [Script], order: &[usize]) -> Vec<(usize, &'s Step)> {
    let mut left: Vec<_> = scripts.iter().map(|script| script.steps.iter()).collect();
    let mut steps = Vec::new();
    let mut turns = order.iter().copied().chain(std::iter::repeat(0));
    loop {
        let waiting: Vec<usize> = (0..left.len()).filter(|who| left[*who].len() > 0).collect();
        let (Some(turn), false) = (turns.next(), waiting.is_empty()) else {
            return steps;
        };
        let who = waiting[turn % waiting.len()];
        steps.extend(left[who].next().map(|step| (who, step)));
    }
}

/// The ledger while scripts are played to it.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) ledger: Ledger,
    pub(crate) slots: Vec<u32>,
    identities: Vec<(&'static str, Source, &'static str)>,
    now: u64,
}

impl Stage {
    pub(crate) fn new(scripts: &[Script]) -> Self {
        let mut ledger = Ledger::new(Limits::default());
        let mut capacities = [None; Class::COUNT];
        capacities[Class::Dram.index()] = Some(Capacity {
            banks: 1,
            base: 0,
            per_bank_bytes: 3000,
        });
        ledger.make(Change::ConfigureDevice(Box::new(DeviceFacts {
            capacities,
            ..DeviceFacts::default()
        })));
        let identities: Vec<_> = scripts
            .iter()
            .map(|script| (script.name, script.source, script.visible))
            .collect();
        let slots = identities
            .iter()
            .map(|(name, source, visible)| ledger.join(identity(name, *source, visible)))
            .collect();
        Self {
            ledger,
            slots,
            identities,
            now: 0,
        }
    }

    /// The same play with another ledger.
    pub(crate) fn with_ledger(&self, ledger: Ledger) -> Self {
        Self {
            ledger,
            slots: self.slots.clone(),
            identities: self.identities.clone(),
            now: self.now,
        }
    }

    /// Plays one step; refusals are part of the play.
    pub(crate) fn play(&mut self, who: usize, step: &Step) {
        self.now += 3;
        let (slot, time) = (self.slots[who], self.now);
        match step {
            Step::Define(definition) => {
                let _refused = self.ledger.define(slot, definition);
            }
            Step::Say(content) => {
                let mut effects = Vec::new();
                let event = Event {
                    time,
                    kind: *content,
                };
                // In the smallest steps: whoever applies it at once takes the same ones.
                let change = Change::ApplyEvent {
                    process: slot,
                    event,
                    work: 1,
                };
                while self
                    .ledger
                    .apply(&change, ApplyLimits::NONE, Some(&mut effects))
                    .rest
                    .is_some()
                {}
            }
            Step::Resync(state) => {
                let (definitions, whats, mutations) = &**state;
                // The same bytes in every order of the processes, so that they are damaged alike.
                let events = whats.iter().map(|content| Event {
                    time: 7,
                    kind: *content,
                });
                let mut state = state_of(Source::Attached, definitions, events);
                damage(&mut state, mutations);
                let resync = Resync {
                    definitions: definitions.clone(),
                    state,
                    clock: Clock::UNIX_NANOS,
                    lost_events: 0,
                    elided_events: 0,
                };
                self.ledger.make(Change::BeginResync { process: slot });
                let change = Change::Resync {
                    process: slot,
                    resync: Arc::new(resync),
                };
                let limits = ApplyLimits {
                    work: 1,
                    ..ApplyLimits::NONE
                };
                while self.ledger.apply(&change, limits, None).rest.is_some() {}
            }
            Step::Leave(departure) => {
                let exit = self.ledger.depart(slot, *departure, time);
                assert!(exit.is_some(), "whoever plays is there");
                let (name, source, visible) = self.identities[who];
                self.slots[who] = self.ledger.join(identity(name, source, visible));
            }
        }
    }
}
