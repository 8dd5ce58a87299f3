//! One class of a device bank by bank: how full, by what, and where the holes are.

use super::l1map::block;
use super::vocabulary;
use std::cmp::Reverse;
use ttmem_event::Class;
use ttmem_ledger::{BufferRow, Capacity, Geometry, ProcessView, View};
use ttmem_report::{Block, BlockMap, SCHEMA, Stretch, Timestamp};

pub(super) const DEFAULT_CELLS: u32 = 256;

pub(super) const MAX_CELLS: u32 = 4096;

/// The most blocks and the most holes that are listed.
const MAX_LISTED: usize = 64;

/// The banks of one class of a device, which are all alike.
pub(super) fn block_map(
    view: &View,
    geometry: &Geometry,
    index: usize,
    class: Class,
    cells: u32,
    time: Timestamp,
) -> BlockMap {
    let capacity = geometry.devices[index].classes[class.index()].capacity;
    let wanted = [class];
    let mut rows: Vec<_> = view.blocks(index, &wanted).collect();
    let span = |row: &BufferRow| {
        let end = row.address.saturating_add(row.per_bank_bytes);
        (row.address, end)
    };
    let mut occupied: Vec<(u64, u64)> = rows.iter().map(|(_process, row)| span(row)).collect();
    occupied.sort_unstable();
    let unions = merged(&occupied);
    let (mut free, free_bytes) = capacity.map_or((Vec::new(), None), |capacity| {
        let holes = holes(&unions, capacity);
        let bytes = holes.iter().map(|hole| hole.size_bytes).sum();
        (holes, Some(bytes))
    });
    let free_count = free.len() as u64;
    free.sort_by_key(|hole| Reverse(hole.size_bytes));
    free.truncate(MAX_LISTED);
    BlockMap {
        schema: SCHEMA,
        time,
        device: view.devices[index].facts.logical_id,
        class: vocabulary::class(class),
        banks: capacity.map(|capacity| capacity.banks),
        base: capacity.map(|capacity| capacity.base),
        per_bank_bytes: capacity.map(|capacity| capacity.per_bank_bytes),
        cells: capacity.map_or_else(Vec::new, |capacity| fill(&unions, capacity, cells)),
        largest: largest(&mut rows),
        free,
        free_count,
        free_bytes,
    }
}

/// The largest blocks, by size and then by address; the rows are left in any order.
fn largest(rows: &mut Vec<(&ProcessView, &BufferRow)>) -> Vec<Block> {
    let order = |(_process, row): &(&ProcessView, &BufferRow)| {
        (Reverse(row.per_bank_bytes), row.address, row.id)
    };
    if rows.len() > MAX_LISTED {
        rows.select_nth_unstable_by_key(MAX_LISTED, order);
        rows.truncate(MAX_LISTED);
    }
    rows.sort_unstable_by_key(order);
    let blocks = rows.iter().map(|(process, row)| block(process, row));
    blocks.collect()
}

/// Sorted stretches without overlaps.
fn merged(occupied: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut unions: Vec<(u64, u64)> = Vec::new();
    for &(from, to) in occupied {
        match unions.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _other => unions.push((from, to)),
        }
    }
    unions
}

fn holes(unions: &[(u64, u64)], capacity: Capacity) -> Vec<Stretch> {
    let end = capacity.base.saturating_add(capacity.per_bank_bytes);
    let mut from = capacity.base;
    let mut holes = Vec::new();
    for &(address, to) in unions.iter().chain([&(end, end)]) {
        let until = address.min(end);
        if until > from {
            holes.push(Stretch {
                address: from,
                size_bytes: until - from,
            });
        }
        from = from.max(to);
    }
    holes
}

/// Bytes taken in each of so many parts of a bank; the parts differ by one byte at most.
fn fill(unions: &[(u64, u64)], capacity: Capacity, cells: u32) -> Vec<u64> {
    let size = capacity.per_bank_bytes;
    let cells = u64::from(cells).min(size);
    let edge = |cell: u64| {
        let part = u128::from(size) * u128::from(cell) / u128::from(cells.max(1));
        capacity
            .base
            .saturating_add(u64::try_from(part).unwrap_or(u64::MAX))
    };
    let mut first = 0;
    (0..cells)
        .map(|cell| {
            let (from, to) = (edge(cell), edge(cell + 1));
            while unions.get(first).is_some_and(|one| one.1 <= from) {
                first += 1;
            }
            let inside = unions[first..].iter().take_while(|one| one.0 < to);
            inside.map(|one| one.1.min(to) - one.0.max(from)).sum()
        })
        .collect()
}
