//! Writing an account's state.

use super::codec::{Codec, Out, put_list};
use super::layout::{
    Head, SavedAllocator, SavedDevice, SavedMark, SavedPlacement, SavedRun, SavedVacancy,
    fingerprint,
};
use crate::Map;
use crate::account::Account;
use crate::buffers::BufferRow;
use crate::device::{ChipKey, HeldDevice};
use crate::legacy_cbs::LegacyCb;
use crate::peak_composition::PeakEntry;
use crate::program::{Cover, Placement};
use crate::totals::GaugeKind;
use std::sync::Arc;
use ttmem_event::{Class, CoreType};

impl Account {
    /// Appends everything that a server must know of the process besides its definitions.
    pub fn save(&self, out: &mut Vec<u8>) {
        let mut saved = Out::after(std::mem::take(out));
        self.put(&mut saved);
        *out = saved.bytes;
    }

    fn put(&self, out: &mut Out) {
        let facts = &self.facts;
        self.head().put(out);
        let marks = facts.marks.iter();
        let marks = marks.map(|(mark, peaks)| SavedMark {
            mark: mark.clone(),
            peaks: peaks.to_vec(),
        });
        put_each(out, marks);
        put_each(out, facts.devices.iter().map(saved_device));
        self.allocators().put(out);
        put_list(out, self.buffers_by_age().iter().map(|(_slot, row)| *row));
        put_list(
            out,
            self.legacy_cbs_by_age().iter().map(|(_slot, row)| *row),
        );
        self.save_programs(out);
        put_list(out, self.freed_by_age().iter().map(|(_slot, entry)| *entry));
        self.save_caches(out);
    }

    pub(super) fn buffers_by_age(&self) -> Vec<(u32, &BufferRow)> {
        by_age(self.buffers.rows.iter(), |row| row.order)
    }

    pub(super) fn legacy_cbs_by_age(&self) -> Vec<(u32, &LegacyCb)> {
        by_age(self.legacy_cbs.rows.iter(), |row| row.cb.order)
    }

    /// What was live at a peak and is freed; those of one list as they stand there.
    pub(super) fn freed_by_age(&self) -> Vec<(u32, &PeakEntry)> {
        let meshes = self.facts.meshes.iter();
        let buffers = meshes.flat_map(|mesh| mesh.allocators.iter().map(|each| each.freed));
        let devices = self.on_device.iter();
        let others = devices.flat_map(|on| [on.freed_cbs, on.freed_kernels]);
        let entries = buffers.chain(others).flat_map(|list| self.freed.of(list));
        by_age(entries, |entry| entry.freed)
    }

    fn head(&self) -> Head {
        let facts = &self.facts;
        let number = |held: &HeldDevice| match (held.id, held.key) {
            (Some(id), _) => id.0,
            (None, ChipKey::Logical(number)) => number,
            (None, ChipKey::Unique(_)) => u32::MAX,
        };
        let handle = |handle: u64| u32::try_from(handle).unwrap_or(u32::MAX);
        let meshes = facts.meshes.iter();
        let anomalies = facts.anomalies.iter();
        Head {
            layout: fingerprint(),
            order: self.order,
            runs: self.runs,
            inherited_frees: facts.inherited_frees,
            first_own_buffer: self.first_own_buffer,
            highest_buffer: self.highest_buffer,
            last_report: self.last_report,
            leak_candidates: facts.leak_candidates,
            anomalies: anomalies.map(|(_anomaly, count)| count).collect(),
            untracked: facts.untracked.clone(),
            devices: facts.devices.iter().map(number).collect(),
            meshes: meshes
                .map(|mesh| mesh.id.map_or(handle(mesh.handle), |id| id.0))
                .collect(),
        }
    }

    fn allocators(&self) -> Vec<SavedAllocator> {
        let mut allocators = Vec::new();
        for (mesh, known) in (0..).zip(&self.facts.meshes) {
            for (class, allocator) in Class::ALL.iter().zip(&known.allocators) {
                if allocator.capacity.is_some() || allocator.verified.is_some() {
                    allocators.push(SavedAllocator {
                        mesh,
                        class: *class,
                        capacity: allocator.capacity,
                        verified: allocator.verified,
                    });
                }
            }
        }
        allocators
    }

    fn save_programs(&self, out: &mut Out) {
        let mut placements: Numbered<Placement> = Numbered::default();
        let mut covers = NumberedCovers::default();
        let programs = || self.programs.iter().map(|(_slot, program)| program);
        for on in programs().flat_map(|program| &program.on) {
            on.placement
                .iter()
                .for_each(|placed| placements.add(placed));
            on.ran.iter().for_each(|cover| covers.add(cover));
        }
        let traces = self.facts.traces.values();
        let captured = traces.flat_map(|trace| trace.captured.values());
        for cover in captured.flat_map(|captured| &captured.covers) {
            covers.add(cover);
        }
        put_each(
            out,
            placements.shared.iter().map(|placement| SavedPlacement {
                cbs: placement.cbs().to_vec(),
                kernels: placement.kernels().to_vec(),
            }),
        );
        put_each(
            out,
            covers
                .numbered
                .shared
                .iter()
                .map(|cover| cover.sets().to_vec()),
        );
        (self.programs.len() as u64).put(out);
        for program in programs() {
            program.put(out);
            (program.on.len() as u64).put(out);
            for on in &program.on {
                on.put(out);
                let placement = on.placement.as_ref();
                placement.map(|placed| placements.number(placed)).put(out);
                on.ran.as_ref().map(|cover| covers.number(cover)).put(out);
            }
        }
        (self.facts.traces.len() as u64).put(out);
        for (key, trace) in &self.facts.traces {
            key.put(out);
            trace.put(out);
            let capturing = self.capturing.values().any(|each| each.trace == *key);
            capturing.put(out);
            let captured = trace.captured.iter();
            put_each(
                out,
                captured.map(|(number, run)| SavedRun {
                    number: *number,
                    program: run.program,
                    mesh: run.mesh,
                    covers: run
                        .covers
                        .iter()
                        .map(|cover| covers.number(cover))
                        .collect(),
                }),
            );
        }
    }

    fn save_caches(&self, out: &mut Out) {
        (self.facts.config_rings.len() as u64).put(out);
        for ((mesh, sub_device, core_type), config_ring) in &self.facts.config_rings {
            mesh.put(out);
            sub_device.put(out);
            core_type.put(out);
            config_ring.put(out);
            put_list(out, config_ring.entries());
        }
        (self.facts.prefetchers.len() as u64).put(out);
        for (mesh, cache) in &self.facts.prefetchers {
            mesh.put(out);
            cache.put(out);
            put_each(out, cache.entries.iter().map(|(at, entry)| (*at, *entry)));
        }
    }
}

fn saved_device(held: &HeldDevice) -> SavedDevice {
    let mut vacancies = Vec::new();
    for core_type in CoreType::ALL {
        let claims = held.vacated.iter();
        for (run, time, cores) in claims.flat_map(|vacated| vacated.claims(core_type)) {
            vacancies.extend(cores.rows().map(|(row, columns)| SavedVacancy {
                core_type,
                row,
                columns,
                run,
                time,
            }));
        }
    }
    SavedDevice {
        opened: held.opened,
        capacities: held.capacities,
        caches: held.caches,
        peaks: GaugeKind::all()
            .map(|gauge| *held.totals.gauge(gauge))
            .collect(),
        vacancies,
    }
}

pub(super) fn put_each<T: Codec>(out: &mut Out, items: impl ExactSizeIterator<Item = T>) {
    (items.len() as u64).put(out);
    items.for_each(|item| item.put(out));
}

/// Rows with their slots, the oldest first; those of one age stay as they stand.
fn by_age<'r, T>(
    rows: impl Iterator<Item = (u32, &'r T)>,
    order: fn(&T) -> u64,
) -> Vec<(u32, &'r T)> {
    let mut rows: Vec<(u32, &T)> = rows.collect();
    rows.sort_by_key(|(_slot, row)| order(row));
    rows
}

/// Numbers what is shared, each when it is first met.
#[derive(Default)]
struct Numbered<T> {
    known: Map<usize, u32>,
    shared: Vec<Arc<T>>,
}

impl<T> Numbered<T> {
    fn add(&mut self, shared: &Arc<T>) {
        let next = u32::try_from(self.shared.len()).unwrap_or(u32::MAX);
        let number = *self.known.entry(address(shared)).or_insert(next);
        if number == next {
            self.shared.push(Arc::clone(shared));
        }
    }

    fn number(&self, shared: &Arc<T>) -> u32 {
        let known = self.known.get(&address(shared));
        known.copied().unwrap_or(u32::MAX)
    }
}

/// Numbers covers, those that are alike once: which of them are shared depends on how they came to be.
#[derive(Default)]
struct NumberedCovers {
    numbered: Numbered<Cover>,
    alike: Map<Arc<Cover>, u32>,
}

impl NumberedCovers {
    fn add(&mut self, cover: &Arc<Cover>) {
        if self.numbered.known.contains_key(&address(cover)) {
            return;
        }
        match self.alike.get(cover) {
            Some(number) => {
                self.numbered.known.insert(address(cover), *number);
            }
            None => {
                self.numbered.add(cover);
                self.alike
                    .insert(Arc::clone(cover), self.numbered.number(cover));
            }
        }
    }

    fn number(&self, cover: &Arc<Cover>) -> u32 {
        self.numbered.number(cover)
    }
}

/// Its identity: the account keeps it alive meanwhile.
fn address<T>(shared: &Arc<T>) -> usize {
    Arc::as_ptr(shared).addr()
}
