//! Arbitrary behaviour of a process: sensible, contradictory and hostile.
//!
//! Events are made from the table of the vocabulary, so that every kind takes
//! part. Ids come from small ranges that reach beyond what is defined.

use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::HashMap;
use ttmem_event::catalogue::Arch;
use ttmem_event::event::EVENT_BYTES;
use ttmem_event::event::layout::FieldLayout;
use ttmem_event::event::vocabulary::LAYOUT;
use ttmem_event::{
    Class, CoreRange, CoreSet, CoresId, Definition, DeviceDefinition, DeviceId, Event,
    MeshDefinition, MeshId, MeshKind, ProgramId, TextId, TraceId, What,
};

/// Something a process does.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Define(Definition),
    Say(What),
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

fn one_or_all(pick: u32, count: u64) -> u64 {
    let value = u64::from(pick) % (count + 1);
    if value == count { u64::MAX } else { value }
}

/// A value for a field, as the record holds it.
fn field_value(field: &FieldLayout, pick: u32) -> u64 {
    let below = |count: u32| u64::from(pick % count);
    match field.type_name {
        "bool" | "Direction" | "DispatchPath" | "MeshKind" | "u8" | "TraceId" => below(2),
        "Class" => [0, 0, 0, 1, 1, 1, 2, 3, 4][pick as usize % 9],
        "Class, all ones = all" => one_or_all(pick, Class::COUNT as u64),
        "u32, all ones = all" | "KernelId, all ones = all" => one_or_all(pick, 3),
        "BinaryStatus" | "CacheResult" | "KernelId" | "TextId" => below(3),
        "CoreType" | "KernelKind" => [0, 0, 0, 0, 0, 1, 2, 3][pick as usize % 8],
        "ClashKind" | "DeviceId" | "ProgramId" => below(4),
        "CbKind" | "CoresId" | "Layout" => below(5),
        "MeshId" => below(7),
        "BufferId" => below(12),
        "i32" => [0, 1, 0, u64::MAX, 1024][pick as usize % 5],
        "u16" => [4, 12, 1, 0, u64::MAX][pick as usize % 5],
        "u32" if field.name == "cb" => below(3),
        "u32" if field.name == "core_count" => below(8),
        // Kernels are often reported again, and often with another size.
        "u64" if field.name == "binary_bytes" => [100, 100, 200, u64::MAX][pick as usize % 4],
        "u64" if field.name == "id" => [64, 256, 1, u64::MAX][pick as usize % 4],
        "u64" if field.name == "address" => [1000, 1032, 1064, 1200, 100, 0][pick as usize % 6],
        "u64" if field.name == "base" => [1000, 1000, 0, u64::MAX][pick as usize % 4],
        _number => number(pick),
    }
}

/// An event of one of the kinds that `often` gives a weight.
fn any_what(often: impl Fn(u8) -> usize) -> impl Strategy<Value = What> {
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
        event.what
    })
}

pub(super) fn device(id: u32, unique_id: Option<u64>) -> Definition {
    Definition::Device(DeviceDefinition {
        id: DeviceId(id),
        logical_id: id,
        unique_id,
        arch: Arch::Wormhole,
        board: TextId::NONE,
        remote: None,
        grid_columns: 4,
        grid_rows: 3,
        l1_bytes_per_core: 4096,
        l1_reserved_bytes: 256,
    })
}

pub(super) fn mesh(id: u32, devices: &[u32]) -> Definition {
    Definition::Mesh(MeshDefinition {
        id: MeshId(id),
        kind: MeshKind::Mesh,
        handle: u64::from(id),
        rows: 1,
        columns: 1,
        devices: devices.iter().map(|id| DeviceId(*id)).collect(),
    })
}

pub(super) fn cores(id: u32, cores: CoreSet) -> Definition {
    Definition::Cores {
        id: CoresId(id),
        cores,
    }
}

/// Three chips, each alone and in meshes that overlap; four core sets; one mesh with capacities.
pub(super) fn prelude() -> Vec<Step> {
    let corner = CoreRange {
        x_first: 3,
        y_first: 1,
        x_last: 4,
        y_last: 2,
    };
    let corner = CoreSet::from_ranges([corner]).expect("inside the grid");
    let definitions = [
        cores(1, CoreSet::grid(4, 3)),
        cores(2, CoreSet::grid(2, 2)),
        cores(3, corner),
        device(0, None),
        device(1, Some(1)),
        device(2, Some(2)),
        mesh(0, &[0, 1]),
        mesh(1, &[0]),
        mesh(2, &[2, 1, 0]),
        mesh(3, &[1]),
        mesh(4, &[2]),
    ];
    let mut steps: Vec<Step> = definitions.into_iter().map(Step::Define).collect();
    for (class, banks, base, per_bank_bytes) in [
        (Class::Dram, 4, 64, 2048),
        (Class::L1, 12, 256, 3584),
        (Class::Trace, 4, 2112, 512),
    ] {
        steps.push(Step::Say(What::CapacityReported {
            mesh: MeshId(0),
            class,
            banks,
            base,
            per_bank_bytes,
            alignment: 32,
        }));
    }
    steps
}

/// A late definition; a device comes with a mesh of its own, as in the prelude.
///
/// Counts can be carried exactly only where meshes tell the chips apart.
fn any_definition() -> impl Strategy<Value = Vec<Step>> {
    let alone = |id: u32| mesh(10 + id, &[id]);
    prop_oneof![
        (0..6_u32, 0..4_u16, 0..4_u16).prop_map(|(id, x, y)| vec![cores(id, CoreSet::grid(x, y))]),
        (0..5_u32, proptest::option::of(0..3_u64))
            .prop_map(move |(id, unique)| vec![device(id, unique), alone(id)]),
        (0..7_u32, vec(0..5_u32, 0..4)).prop_map(|(id, devices)| vec![mesh(id, &devices)]),
    ]
    .prop_map(|definitions| definitions.into_iter().map(Step::Define).collect())
}

fn with_prelude(steps: impl Strategy<Value = Vec<Step>>) -> impl Strategy<Value = Vec<Step>> {
    steps.prop_map(|steps| prelude().into_iter().chain(steps).collect())
}

/// Everything but traces; ids of programs come back after their destruction.
pub(super) fn any_script(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let what = any_what(|kind| match kind {
        1 => 20,
        2 | 4 | 11 | 14 => 6,
        3 | 5..=13 => 3,
        15..=19 | 32 => 2,
        40 => 4,
        24..=27 | 64.. => 0,
        _rare => 1,
    });
    let step = prop_oneof![
        30 => what.prop_map(|what| vec![Step::Say(what)]),
        1 => any_definition(),
    ];
    with_prelude(vec(step, 0..most).prop_map(|steps| steps.concat()))
}

/// Programs and traces; a destroyed program's id is not used again, as a client's are not.
pub(super) fn any_script_with_traces(most: usize) -> impl Strategy<Value = Vec<Step>> {
    any_traces(most, |kind| match kind {
        14 => 10,
        4 | 11 => 6,
        24..=27 => 4,
        5 | 10 | 12 => 2,
        6 | 29 | 31 => 1,
        _other => 0,
    })
}

/// Captures that overlap: one trace each on three meshes, of which two are parts of the third.
pub(super) fn any_script_of_captures(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let steps = any_traces(most, |kind| match kind {
        14 => 12,
        4 | 24..=26 => 4,
        5 | 10 | 27 => 1,
        _other => 0,
    });
    steps.prop_map(|mut steps| {
        for step in &mut steps {
            if let Step::Say(
                What::TraceBegan { mesh, trace }
                | What::TraceEnded { mesh, trace, .. }
                | What::TraceReplayed { mesh, trace }
                | What::TraceReleased { mesh, trace },
            ) = step
            {
                *mesh = MeshId(mesh.0 % 3);
                *trace = TraceId(0);
            }
        }
        steps
    })
}

fn any_traces(most: usize, often: impl Fn(u8) -> usize) -> impl Strategy<Value = Vec<Step>> {
    let what = any_what(often);
    // What a trace captured shows only when it is replayed.
    let replays = vec(any_what(|kind| usize::from(kind == 26)), 0..6);
    let whats = (vec(what, 0..most), replays).prop_map(|(whats, replays)| {
        let whats = whats.into_iter().chain(replays);
        whats.map(Step::Say).collect()
    });
    with_prelude(whats).prop_map(|mut steps: Vec<Step>| {
        let mut lives: HashMap<u64, u64> = HashMap::new();
        for step in &mut steps {
            if let Step::Say(what) = step {
                let destroyed = matches!(what, What::ProgramDestroyed { .. });
                if let Some(program) = program_mut(what) {
                    let life = lives.entry(program.0).or_insert(0);
                    program.0 += 100 * *life;
                    *life += u64::from(destroyed);
                }
            }
        }
        steps
    })
}

fn program_mut(what: &mut What) -> Option<&mut ProgramId> {
    match what {
        What::ProgramCreated { program, .. }
        | What::CbAllocated { program, .. }
        | What::CbFreed { program, .. }
        | What::KernelLoaded { program, .. }
        | What::KernelUnloaded { program, .. }
        | What::ProgramDestroyed { program }
        | What::Dispatched { program, .. } => Some(program),
        _other => None,
    }
}

/// What an old sender says.
pub(super) fn any_legacy_script(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let what = any_what(|kind| match kind {
        64 | 66 | 68 => 3,
        65 | 67 => 2,
        69 => 1,
        _newer => 0,
    });
    vec(what.prop_map(Step::Say), 0..most)
}
