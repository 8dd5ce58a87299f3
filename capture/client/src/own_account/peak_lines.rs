//! What was live at peaks, by the text that asked for it.

use super::{AskError, AtPeak, Lines, Part};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use ttmem_account::peak_composition;
use ttmem_account::totals::GaugeKind;
use ttmem_event::TextId;
use ttmem_ring::heap::Heap;

/// Buffers of one text that were live at a peak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) bytes: u64,
    pub(crate) count: u64,
    pub(crate) text: TextId,
    /// Whether they were placed before the stretch began.
    pub(crate) is_before: bool,
}

/// The largest lines at each peak, by device and gauge; none where they are not known.
pub(crate) type LinesAtPeaks = HashMap<(usize, GaugeKind), Vec<Line>>;

/// An error where there is no memory for them.
pub(crate) fn of(lines: &Lines) -> Result<LinesAtPeaks, AskError> {
    let mut found = LinesAtPeaks::new();
    let mut rest: Vec<&AtPeak> = lines.at.iter().collect();
    // Mostly all peaks are of one part: its rows are looked at once.
    while let Some(first) = rest.first() {
        let part = Arc::clone(&first.part);
        let (same, others) = rest
            .into_iter()
            .partition(|at| Arc::ptr_eq(&at.part, &part));
        in_part(&part, same, lines, &mut found)?;
        rest = others;
    }
    Ok(found)
}

/// A gauge, the event that reached its peak, a mesh, a text, and whether it is from before.
type Key = (GaugeKind, u64, u32, TextId, bool);

fn in_part(
    part: &Part,
    at: Vec<&AtPeak>,
    lines: &Lines,
    found: &mut LinesAtPeaks,
) -> Result<(), AskError> {
    let order = |at: &AtPeak| {
        let held = part.facts.devices.get(at.slot)?;
        Some(held.totals.gauge(at.kind).peak_order())
    };
    // Devices of a mesh have their peaks at once: there are few.
    let mut orders: BTreeMap<GaugeKind, BTreeSet<u64>> = BTreeMap::new();
    for at in &at {
        orders.entry(at.kind).or_default().extend(order(at));
    }
    let mut sums: BTreeMap<Key, (u64, u64)> = BTreeMap::new();
    for entry in peak_composition::buffers(&part.rows) {
        // The sums are many small blocks: the first that the system refuses is the last.
        if Heap::is_exhausted() {
            return Err(AskError::NoMemory);
        }
        let kind = entry.gauge();
        let is_before = !entry.is_placed_after(lines.begun_after);
        for order in orders.get(&kind).into_iter().flatten() {
            if entry.was_live_at(*order) {
                let key = (kind, *order, entry.place, entry.name, is_before);
                let (bytes, count) = sums.entry(key).or_default();
                *bytes = bytes.saturating_add(entry.bytes);
                *count += u64::from(entry.count);
            }
        }
    }
    for at in at {
        let Some(order) = order(at) else {
            continue;
        };
        found.insert(
            (at.slot, at.kind),
            of_device(part, at, order, &sums, lines.most)?,
        );
    }
    Ok(())
}

fn of_device(
    part: &Part,
    at: &AtPeak,
    order: u64,
    sums: &BTreeMap<Key, (u64, u64)>,
    most: usize,
) -> Result<Vec<Line>, AskError> {
    let is_on = |mesh: u32| {
        let mesh = part.facts.meshes.get(mesh as usize);
        mesh.is_some_and(|mesh| mesh.devices.iter().any(|slot| *slot as usize == at.slot))
    };
    let mut lines: BTreeMap<(TextId, bool), Line> = BTreeMap::new();
    for ((kind, at_order, mesh, text, is_before), (bytes, count)) in sums {
        if Heap::is_exhausted() {
            return Err(AskError::NoMemory);
        }
        if (*kind, *at_order) == (at.kind, order) && is_on(*mesh) {
            let line = lines.entry((*text, *is_before)).or_insert(Line {
                bytes: 0,
                count: 0,
                text: *text,
                is_before: *is_before,
            });
            line.bytes = line.bytes.saturating_add(*bytes);
            line.count += count;
        }
    }
    let mut largest = Vec::new();
    let reserved = largest.try_reserve_exact(lines.len());
    reserved.map_err(|_none| AskError::NoMemory)?;
    largest.extend(lines.into_values());
    largest.sort_unstable_by_key(|line: &Line| (Reverse(line.bytes), line.text, line.is_before));
    largest.truncate(most);
    Ok(largest)
}
