//! L1 of one device: every core's share, and one core from address 0 to the top.

use super::rows;
use super::vocabulary;
use std::collections::{BTreeMap, BTreeSet};
use ttmem_event::core::GRID_SIDE;
use ttmem_event::{Class, CoreType};
use ttmem_ledger::geometry::{Occupant, Placed};
use ttmem_ledger::{Geometry, Owner, ProcessView, View, last_replays};
use ttmem_report::{
    Block, HexId, L1Column, L1Core, L1Map, Resident, SCHEMA, Segment, SegmentKind, Timestamp,
};

/// The most blocks that are listed; a screen has far fewer lines.
const MAX_BLOCKS: usize = 4096;

/// Everything that lies in L1 of a device, and on one core of it.
pub(super) fn l1_map(
    view: &View,
    geometry: &Geometry,
    index: usize,
    core: Option<(u16, u16)>,
    time: Timestamp,
) -> L1Map {
    let facts = &view.devices[index].facts;
    let cores = view.l1_cores(geometry, index).unwrap_or_default();
    let (residents, places) = residents(view, geometry, index);
    let side = |of: fn(&ttmem_ledger::geometry::CoreL1) -> u16| {
        cores.iter().map(|core| u32::from(of(core)) + 1).max()
    };
    let mut buffers: Vec<Block> = Vec::new();
    let mut left_out = 0;
    for (process, row) in view.blocks(index, &[Class::L1, Class::L1Small]) {
        if buffers.len() == MAX_BLOCKS {
            left_out += 1;
        } else {
            buffers.push(block(process, row));
        }
    }
    buffers.sort_by_key(|block| block.address);
    L1Map {
        schema: SCHEMA,
        time,
        device: facts.logical_id,
        unique_id: facts.unique_id.map(HexId),
        columns: side(|core| core.x),
        rows: side(|core| core.y),
        bytes_per_core: facts.compute.map(|compute| compute.bytes_per_core),
        reserved_bytes: facts.compute.map(|compute| compute.reserved_bytes),
        cores: cores
            .iter()
            .map(|core| L1Core {
                x: u32::from(core.x),
                y: u32::from(core.y),
                occupied_bytes: core.occupied_bytes,
                cb_bytes: core.cb_bytes,
                cb_end: core.cb_end,
                lowest_buffer: core.lowest_buffer,
                resident: core.owner.and_then(|owner| places.get(&owner).copied()),
            })
            .collect(),
        buffers,
        buffers_left_out: left_out,
        residents,
        core: core.map(|(x, y)| column(view, geometry, index, x, y)),
    }
}

/// The programs that ran last on some core, and their places in that list.
fn residents(
    view: &View,
    geometry: &Geometry,
    index: usize,
) -> (Vec<Resident>, BTreeMap<Owner, u32>) {
    let mut residents = Vec::new();
    let mut places = BTreeMap::new();
    let mut replays: BTreeMap<u32, BTreeMap<u32, u64>> = BTreeMap::new();
    for (owner, cores) in &geometry.residents[index][CoreType::Tensix as usize] {
        let Some(process) = view.process(owner.process) else {
            continue;
        };
        let Some(program) = process.rows.programs.get(owner.program) else {
            continue;
        };
        let replays = replays
            .entry(owner.process)
            .or_insert_with(|| last_replays(&process.account, &process.rows));
        let slot = process.device_slot(u32::try_from(index).unwrap_or(u32::MAX));
        let on = slot.and_then(|slot| program.on_device(slot));
        places.insert(*owner, u32::try_from(residents.len()).unwrap_or(u32::MAX));
        residents.push(Resident {
            pid: process.facts.identity.pid,
            program: rows::is_tracked(process).then_some(program.id.0),
            name: rows::defined_text(process, program.name),
            // A program of a trace runs whenever the trace does.
            time: on
                .and_then(|on| on.last_dispatch)
                .max(replays.get(&owner.program).copied())
                .map(Timestamp::from_unix_nanos),
            cores: cores.len(),
        });
    }
    (residents, places)
}

/// A buffer as a block of its bank.
pub(super) fn block(process: &ProcessView, row: &ttmem_ledger::BufferRow) -> Block {
    let mesh = process.account.meshes.get(row.mesh as usize);
    Block {
        address: row.address,
        size_bytes: row.per_bank_bytes,
        class: vocabulary::class(row.class),
        pid: process.facts.identity.pid,
        mesh: mesh.and_then(|mesh| mesh.id).map(|id| u64::from(id.0)),
        buffer: HexId(row.id),
        operation: rows::defined_text(process, row.operation),
        line: rows::python_line(process, row.operation),
        time: Some(Timestamp::from_unix_nanos(row.time)),
    }
}

/// Whether a device can have a core: it has, or its cores are not known.
pub(super) fn has_core(view: &View, index: usize, x: u16, y: u16) -> bool {
    let compute = view.devices[index].facts.compute;
    x < GRID_SIDE && y < GRID_SIDE && compute.is_none_or(|known| known.cores.contains(x, y))
}

fn column(view: &View, geometry: &Geometry, index: usize, x: u16, y: u16) -> L1Column {
    let placed = view.l1_column(geometry, index, x, y);
    let compute = view.devices[index].facts.compute;
    let end = compute.map_or(0, |compute| compute.bytes_per_core);
    // Buffers grow down from where the small region begins, if there is one.
    let capacity = geometry.devices[index].classes[Class::L1.index()].capacity;
    let top = capacity.map_or(end, |capacity| {
        capacity.base.saturating_add(capacity.per_bank_bytes)
    });
    let ends = placed.iter().filter_map(|one| match one.occupant {
        Occupant::Cb(..) => Some(end_of(one)),
        _other => None,
    });
    let bottom = compute.map(|compute| ends.max().unwrap_or(compute.reserved_bytes));
    let begins = placed.iter().filter_map(|one| match one.occupant {
        Occupant::Buffer(..) => Some(one.address),
        _other => None,
    });
    let lowest = begins.min().map_or(top, |lowest| lowest.min(top));
    L1Column {
        x: u32::from(x),
        y: u32::from(y),
        segments: segments(&placed, end),
        gap_bytes: bottom.map(|bottom| lowest.saturating_sub(bottom)),
    }
}

fn end_of(placed: &Placed<'_>) -> u64 {
    placed.address.saturating_add(placed.size_bytes)
}

/// What lies where, without overlaps: where several do, the one that says most.
///
/// `placed` is in order of address. Whatever a client reports, this takes no more than sorting.
fn segments(placed: &[Placed<'_>], end: u64) -> Vec<Segment> {
    let mut cuts: Vec<u64> = placed
        .iter()
        .flat_map(|one| [one.address, end_of(one)])
        .chain([0, end])
        .filter(|cut| *cut <= end)
        .collect();
    cuts.sort_unstable();
    cuts.dedup();
    let mut segments: Vec<(Option<usize>, Segment)> = Vec::new();
    let mut begun = 0;
    // What lies at the cut, by weight; and the same by where it ends.
    let mut open: BTreeSet<(u8, usize)> = BTreeSet::new();
    let mut ends: BTreeSet<(u64, usize)> = BTreeSet::new();
    let mut open_of_weight = [0_u32; WEIGHTS];
    for cut in cuts.windows(2) {
        let (from, to) = (cut[0], cut[1]);
        while let Some(&(ended, one)) = ends.first()
            && ended <= from
        {
            ends.pop_first();
            let weight = weight(&placed[one]);
            open.remove(&(weight, one));
            open_of_weight[usize::from(weight)] -= 1;
        }
        while let Some(next) = placed.get(begun).filter(|next| next.address <= from) {
            if end_of(next) > from {
                open.insert((weight(next), begun));
                ends.insert((end_of(next), begun));
                open_of_weight[usize::from(weight(next))] += 1;
            }
            begun += 1;
        }
        let shown = open.last().copied();
        let more = shown.map_or(0, |(weight, _one)| open_of_weight[usize::from(weight)] - 1);
        let shown = shown.map(|(_weight, one)| one);
        match segments.last_mut() {
            Some((last, segment)) if *last == shown && segment.more == more => {
                segment.size_bytes = to - segment.address;
            }
            _other => {
                let occupant = shown.map(|one| &placed[one]);
                segments.push((shown, segment(from, to - from, occupant, more)));
            }
        }
    }
    segments
        .into_iter()
        .map(|(_shown, segment)| segment)
        .collect()
}

const WEIGHTS: usize = 4;

/// Of several at one place the highest is shown: the runtime's own part contains the ring.
fn weight(placed: &Placed<'_>) -> u8 {
    match placed.occupant {
        Occupant::Reserved => 0,
        Occupant::ConfigRing(..) => 1,
        Occupant::Cb(..) => 2,
        Occupant::Buffer(..) => 3,
    }
}

fn segment(address: u64, size_bytes: u64, placed: Option<&Placed<'_>>, more: u32) -> Segment {
    let nothing = Segment {
        address,
        size_bytes,
        kind: SegmentKind::Free,
        cb_kind: None,
        pid: None,
        owner: None,
        line: None,
        buffer: None,
        time: None,
        more,
    };
    let Some(placed) = placed else {
        return nothing;
    };
    let time = |nanos| Some(Timestamp::from_unix_nanos(nanos));
    match placed.occupant {
        Occupant::Reserved => Segment {
            kind: SegmentKind::Reserved,
            ..nothing
        },
        Occupant::ConfigRing(process, _ring) => Segment {
            kind: SegmentKind::ConfigRing,
            pid: process.facts.identity.pid,
            ..nothing
        },
        Occupant::Cb(process, program, cb) => Segment {
            kind: SegmentKind::Cb,
            cb_kind: Some(vocabulary::cb_kind(cb.kind)),
            pid: process.facts.identity.pid,
            owner: rows::defined_text(process, program.name),
            line: rows::python_line(process, program.name),
            time: time(cb.time),
            ..nothing
        },
        Occupant::Buffer(process, row) => Segment {
            kind: if row.class == Class::L1Small {
                SegmentKind::L1Small
            } else {
                SegmentKind::Buffer
            },
            pid: process.facts.identity.pid,
            owner: rows::defined_text(process, row.operation),
            line: rows::python_line(process, row.operation),
            buffer: Some(HexId(row.id)),
            time: time(row.time),
            ..nothing
        },
    }
}
