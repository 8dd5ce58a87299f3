//! Live buffers, what allocators can hand out, and peaks.
//!
//! The rules are the ledger's, including what it refuses: a buffer that it
//! refuses must not be here, for it may have pushed out one that was live. A
//! buffer is kept with the capacity it was placed under, because that decides
//! how many banks it takes when it is told again. Its call stack, if it has one, is told again
//! behind it.

use super::hash::CounterMap;
use super::meshes::Meshes;
use super::{ABSURD_BYTES, MAX_HELD_BYTES, Told};
use std::collections::{BTreeMap, HashSet};
use ttmem_event::wire::PeakRecord;
use ttmem_event::{BufferId, Class, CoresId, Event, What};

/// Reports of one allocator that are kept before unused ones are looked for.
const FEW_REPORTS: usize = 16;

/// A live buffer.
#[derive(Clone, Copy, Debug)]
struct Row {
    told: Told,
    mesh: u32,
    class: Class,
    address: u64,
    requested_bytes: u64,
    per_bank_bytes: u64,
    cores: CoresId,
    banks: u16,
    /// The sequence number of the capacity report it was placed under; 0 = none yet.
    report: u64,
}

impl Row {
    fn charged_bytes(&self) -> u64 {
        self.per_bank_bytes.saturating_mul(u64::from(self.banks))
    }

    fn says_the_same(&self, other: &Self) -> bool {
        let place = |row: &Self| (row.mesh, row.class, row.address, row.cores);
        let size = |row: &Self| (row.requested_bytes, row.per_bank_bytes, row.banks);
        place(self) == place(other) && size(self) == size(other)
    }
}

/// What an allocator can hand out.
#[derive(Clone, Copy, Debug)]
struct Capacity {
    banks: u16,
    total_bytes: u64,
}

/// One class of a mesh.
#[derive(Clone, Debug, Default)]
struct Allocator {
    capacity: Option<Capacity>,
    /// Accepted reports, oldest first; the last one holds.
    reports: Vec<Told>,
    charged_bytes: u64,
    /// Over the buffers that take every bank, as the runtime counts them.
    per_bank_bytes: u64,
    buffers: usize,
    /// The last comparison with the runtime's own figures, and whether it agreed.
    statistics: Option<(Told, bool)>,
}

/// What is held on one chip, of one class.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    charged_bytes: u64,
    requested_bytes: u64,
    peak_bytes: u64,
    peak_time: u64,
}

/// Live buffers with the totals that decide what is refused.
#[derive(Clone, Debug, Default)]
pub(super) struct Buffers {
    rows: CounterMap<Row>,
    /// The last call stack that was told of a live buffer, by its id; few buffers have one.
    stacks: CounterMap<Told>,
    allocators: BTreeMap<u32, [Allocator; Class::COUNT]>,
    held: Vec<[Held; Class::COUNT]>,
    highest: u64,
}

impl Buffers {
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn highest(&self) -> u64 {
        self.highest
    }

    pub(super) fn allocate(&mut self, meshes: &Meshes, told: Told) {
        let What::BufferAllocated {
            mesh,
            buffer,
            class,
            address,
            requested_bytes,
            per_bank_bytes,
            cores,
            banks,
            ..
        } = told.event.what
        else {
            return;
        };
        self.highest = self.highest.max(buffer.0);
        let Some(members) = meshes.members(mesh.0) else {
            return;
        };
        let allocator = &self.allocators.entry(mesh.0).or_default()[class.index()];
        let banks = if cores == CoresId::NONE {
            allocator.capacity.map_or(banks, |known| known.banks)
        } else {
            let Some(banks) = meshes
                .cores(cores)
                .and_then(|set| u16::try_from(set.len()).ok())
            else {
                return;
            };
            banks
        };
        let row = Row {
            told,
            mesh: mesh.0,
            class,
            address,
            requested_bytes,
            per_bank_bytes,
            cores,
            banks,
            report: allocator.reports.last().map_or(0, |report| report.sequence),
        };
        if let Some(old) = self.rows.get(&buffer.0) {
            if old.says_the_same(&row) {
                return;
            }
            self.free(meshes, buffer);
        }
        if self.is_refused(members, &row) {
            return;
        }
        let chips = members.iter().max().map_or(0, |last| last + 1);
        if self.held.len() < chips {
            self.held.resize(chips, Default::default());
        }
        if let Some(allocators) = self.allocators.get_mut(&mesh.0) {
            let allocator = &mut allocators[class.index()];
            allocator.charged_bytes += row.charged_bytes();
            allocator.per_bank_bytes += row.lockstep_bytes();
            allocator.buffers += 1;
        }
        for chip in members.iter() {
            let held = &mut self.held[*chip][class.index()];
            held.charged_bytes += row.charged_bytes();
            held.requested_bytes += requested_bytes;
            if held.charged_bytes > held.peak_bytes {
                held.peak_bytes = held.charged_bytes;
                held.peak_time = told.event.time;
            }
        }
        self.rows.insert(buffer.0, row);
    }

    fn is_refused(&self, members: &[usize], row: &Row) -> bool {
        let Some(charged) = row.per_bank_bytes.checked_mul(u64::from(row.banks)) else {
            return true;
        };
        let allocator = self
            .allocators
            .get(&row.mesh)
            .map(|all| &all[row.class.index()]);
        let taken = allocator.map_or(0, |allocator| allocator.charged_bytes);
        let most = allocator.and_then(|allocator| allocator.capacity);
        let most_bytes = most.map_or(ABSURD_BYTES, |known| known.total_bytes);
        let full = most.is_some() && taken.saturating_add(charged) > most_bytes;
        let held = members.iter().any(|chip| {
            let held = self.held.get(*chip).map(|held| held[row.class.index()]);
            let held = held.unwrap_or_default();
            held.charged_bytes.saturating_add(charged) > MAX_HELD_BYTES
                || held.requested_bytes.saturating_add(row.requested_bytes) > MAX_HELD_BYTES
        });
        charged == 0
            || charged > most_bytes
            || row.requested_bytes > most_bytes.max(ABSURD_BYTES)
            || full
            || held
    }

    pub(super) fn free(&mut self, meshes: &Meshes, buffer: BufferId) {
        if let Some(row) = self.rows.remove(&buffer.0) {
            self.stacks.remove(&buffer.0);
            self.settle(meshes, &row);
        }
    }

    /// Keeps the call stack of a live buffer.
    pub(super) fn note_stack(&mut self, buffer: BufferId, told: Told) {
        if self.rows.contains_key(&buffer.0) {
            self.stacks.insert(buffer.0, told);
        }
    }

    /// Takes a removed row off the totals.
    fn settle(&mut self, meshes: &Meshes, row: &Row) {
        if let Some(allocators) = self.allocators.get_mut(&row.mesh) {
            let allocator = &mut allocators[row.class.index()];
            allocator.charged_bytes -= row.charged_bytes();
            allocator.per_bank_bytes -= row.lockstep_bytes();
            allocator.buffers -= 1;
        }
        for chip in meshes
            .members(row.mesh)
            .into_iter()
            .flat_map(|members| members.iter())
        {
            let held = &mut self.held[*chip][row.class.index()];
            held.charged_bytes -= row.charged_bytes();
            held.requested_bytes -= row.requested_bytes;
        }
    }

    /// Everything of one mesh, or of one of its classes, was given back.
    pub(super) fn release(&mut self, meshes: &Meshes, mesh: u32, class: Option<Class>) {
        let concerned = |each: Class| class.is_none_or(|class| class == each);
        let holds = self.allocators.get(&mesh).is_some_and(|allocators| {
            let mut pairs = Class::ALL.iter().zip(allocators);
            pairs.any(|(each, allocator)| concerned(*each) && allocator.buffers > 0)
        });
        if !holds {
            return;
        }
        let gone = |_id: &u64, row: &mut Row| row.mesh == mesh && concerned(row.class);
        let gone: Vec<(u64, Row)> = self.rows.extract_if(gone).collect();
        for (id, row) in &gone {
            self.stacks.remove(id);
            self.settle(meshes, row);
        }
    }

    pub(super) fn report_capacity(&mut self, meshes: &Meshes, told: Told) {
        let What::CapacityReported {
            mesh,
            class,
            banks,
            per_bank_bytes,
            ..
        } = told.event.what
        else {
            return;
        };
        let total = u64::from(banks).checked_mul(per_bank_bytes);
        let Some(total_bytes) = total.filter(|total| *total <= MAX_HELD_BYTES) else {
            return;
        };
        if !meshes.is_mesh(mesh.0) {
            return;
        }
        let allocator = &mut self.allocators.entry(mesh.0).or_default()[class.index()];
        if total_bytes < allocator.charged_bytes {
            return;
        }
        allocator.capacity = Some(Capacity { banks, total_bytes });
        allocator.reports.push(told);
        if allocator.reports.len() > FEW_REPORTS.max(2 * allocator.buffers) {
            self.forget_reports(mesh.0, class);
        }
    }

    /// Drops the reports of an allocator under which no live buffer was placed.
    fn forget_reports(&mut self, mesh: u32, class: Class) {
        let of_allocator = |row: &&Row| row.mesh == mesh && row.class == class;
        let rows = self.rows.values().filter(of_allocator);
        let used: HashSet<u64> = rows.map(|row| row.report).collect();
        if let Some(allocators) = self.allocators.get_mut(&mesh) {
            let reports = &mut allocators[class.index()].reports;
            let last = reports.last().map_or(0, |last| last.sequence);
            reports.retain(|each| each.sequence == last || used.contains(&each.sequence));
        }
    }

    pub(super) fn compare_statistics(&mut self, meshes: &Meshes, told: Told) {
        let What::StatisticsReported {
            mesh,
            class,
            allocated_bytes,
            ..
        } = told.event.what
        else {
            return;
        };
        if meshes.is_mesh(mesh.0) {
            let allocator = &mut self.allocators.entry(mesh.0).or_default()[class.index()];
            let agrees = allocator.per_bank_bytes == allocated_bytes;
            allocator.statistics = Some((told, agrees));
        }
    }

    /// Buffers, and the capacities they were placed under.
    pub(super) fn tell(&self, told: &mut Vec<Told>) {
        told.extend(self.rows.values().map(|row| row.told));
        told.extend(self.stacks.values());
        let used: HashSet<u64> = self.rows.values().map(|row| row.report).collect();
        for allocator in self.allocators.values().flatten() {
            let last = allocator.reports.last().map_or(0, |last| last.sequence);
            let needed = allocator
                .reports
                .iter()
                .filter(|each| each.sequence == last || used.contains(&each.sequence));
            told.extend(needed);
        }
    }

    /// The verdicts of past comparisons, for figures that hold after the replay.
    pub(super) fn tell_verdicts(&self, events: &mut Vec<Event>) {
        let mut verdicts: Vec<(Told, u64)> = Vec::new();
        for allocator in self.allocators.values().flatten() {
            if let Some((told, agrees)) = allocator.statistics {
                let same = allocator.per_bank_bytes;
                verdicts.push((told, if agrees { same } else { same + 1 }));
            }
        }
        verdicts.sort_unstable_by_key(|(told, _figure)| told.sequence);
        for (told, figure) in verdicts {
            let mut event = told.event;
            if let What::StatisticsReported {
                allocated_bytes, ..
            } = &mut event.what
            {
                *allocated_bytes = figure;
            }
            events.push(event);
        }
    }

    pub(super) fn peaks(&self, meshes: &Meshes) -> Vec<PeakRecord> {
        let mut peaks = Vec::new();
        for (device, held) in meshes.first_ids().iter().zip(&self.held) {
            for (class, held) in Class::ALL.iter().zip(held) {
                if held.peak_bytes > 0 {
                    peaks.push(PeakRecord {
                        device: *device,
                        class: *class,
                        bytes: held.peak_bytes,
                        time: held.peak_time,
                    });
                }
            }
        }
        peaks
    }
}

impl Row {
    /// What it takes of every bank; 0 for a buffer that takes only those of some cores.
    fn lockstep_bytes(&self) -> u64 {
        if self.cores == CoresId::NONE {
            self.per_bank_bytes
        } else {
            0
        }
    }
}
