//! Writing an account's state.

use super::codec::{Codec, put_list};
use super::layout::{
    Head, SavedAllocator, SavedDevice, SavedMark, SavedPlacement, SavedRun, SavedVacancy,
    fingerprint,
};
use crate::Map;
use crate::account::Account;
use crate::device::{ChipKey, HeldDevice};
use crate::pages::Pages;
use crate::program::{Cover, Placement};
use crate::totals::GaugeKind;
use std::sync::Arc;
use ttmem_event::{Class, CoreType};

impl Account {
    /// Appends everything that a server must know of the process besides its definitions.
    pub fn save(&self, out: &mut Vec<u8>) {
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
        put_sorted(out, &self.buffers.rows, |row| row.order);
        put_sorted(out, &self.legacy_cbs.rows, |row| row.cb.order);
        self.save_programs(out);
        let mut freed: Vec<_> = self.freed.iter().collect();
        freed.sort_unstable_by_key(|entry| entry.freed);
        put_list(out, freed.into_iter());
        self.save_caches(out);
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

    fn save_programs(&self, out: &mut Vec<u8>) {
        let mut placements: Numbered<Placement> = Numbered::default();
        let mut covers: Numbered<Cover> = Numbered::default();
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
        put_each(out, covers.shared.iter().map(|cover| cover.sets().to_vec()));
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

    fn save_caches(&self, out: &mut Vec<u8>) {
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

fn put_each<T: Codec>(out: &mut Vec<u8>, items: impl ExactSizeIterator<Item = T>) {
    (items.len() as u64).put(out);
    items.for_each(|item| item.put(out));
}

fn put_sorted<T: Codec + Clone>(out: &mut Vec<u8>, rows: &Pages<T>, order: fn(&T) -> u64) {
    let mut rows: Vec<&T> = rows.iter().map(|(_slot, row)| row).collect();
    rows.sort_unstable_by_key(|row| order(row));
    put_list(out, rows.into_iter());
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

/// Its identity: the account keeps it alive meanwhile.
fn address<T>(shared: &Arc<T>) -> usize {
    Arc::as_ptr(shared).addr()
}
