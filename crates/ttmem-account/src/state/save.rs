//! Writing an account's state.

use super::codec::{Codec, put_list};
use super::layout::{
    Head, SavedAllocator, SavedDevice, SavedFreed, SavedMark, SavedPart, SavedPeak, SavedPlacement,
    SavedPrefetcher, SavedProgram, SavedRing, SavedRun, SavedSet, SavedTrace, SavedVacancy,
    fingerprint,
};
use crate::Map;
use crate::account::Account;
use crate::buffers::BufferRow;
use crate::device::{ChipKey, HeldDevice};
use crate::freed::FreedEntries;
use crate::legacy_cbs::LegacyCb;
use crate::program::{Cover, Placement, Program, ProgramOnDevice};
use crate::totals::GaugeKind;
use std::sync::Arc;
use ttmem_event::{Class, CoreType};

impl Account {
    /// Appends everything that a server must know of the process besides its definitions.
    pub fn save(&self, out: &mut Vec<u8>) {
        let facts = &self.facts;
        self.head().put(out);
        let marks: Vec<SavedMark> = facts
            .marks
            .iter()
            .map(|(mark, peaks)| SavedMark {
                name: mark.name,
                number: mark.number,
                peaks: peaks.to_vec(),
                time: mark.time,
            })
            .collect();
        marks.put(out);
        let devices: Vec<SavedDevice> = facts.devices.iter().map(saved_device).collect();
        devices.put(out);
        self.allocators().put(out);

        let rows = self.buffers.rows.iter().map(|(_slot, row)| row);
        let mut rows: Vec<&BufferRow> = rows.collect();
        rows.sort_unstable_by_key(|row| row.order);
        put_list(out, rows.into_iter());
        put_freed(out, &self.freed_buffers);
        let rows = self.legacy_cbs.rows.iter().map(|(_slot, row)| row);
        let mut rows: Vec<&LegacyCb> = rows.collect();
        rows.sort_unstable_by_key(|row| row.cb.order);
        put_list(out, rows.into_iter());

        self.save_programs(out);
        put_freed(out, &self.freed_cbs);
        put_freed(out, &self.freed_kernels);
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
        Head {
            layout: fingerprint(),
            order: self.order,
            runs: self.runs,
            inherited_frees: facts.inherited_frees,
            first_own_buffer: self.first_own_buffer,
            highest_buffer: self.highest_buffer,
            last_report: self.last_report,
            leak_candidates: facts.leak_candidates,
            anomalies: facts
                .anomalies
                .iter()
                .map(|(_anomaly, count)| count)
                .collect(),
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
        (placements.shared.len() as u64).put(out);
        for placement in &placements.shared {
            let placement = SavedPlacement {
                cbs: placement.cbs().to_vec(),
                kernels: placement.kernels().to_vec(),
            };
            placement.put(out);
        }
        (covers.shared.len() as u64).put(out);
        for cover in &covers.shared {
            let sets: Vec<SavedSet> = cover.sets().to_vec();
            sets.put(out);
        }
        (self.programs.len() as u64).put(out);
        for program in programs() {
            saved_program(program, &placements, &covers).put(out);
        }
        let traces: Vec<SavedTrace> = self.saved_traces(&covers);
        traces.put(out);
    }

    fn saved_traces(&self, covers: &Numbered<Cover>) -> Vec<SavedTrace> {
        let traces = self.facts.traces.iter();
        let saved = traces.map(|(key, trace)| SavedTrace {
            mesh: key.0,
            trace: key.1,
            next: trace.next,
            ended: trace.ended,
            capturing: self.capturing.values().any(|each| each.trace == *key),
            replay: trace.replay.map(|replay| replay.run),
            replay_time: trace.replay.map_or(0, |replay| replay.time),
            captured: trace
                .captured
                .iter()
                .map(|(number, run)| SavedRun {
                    number: *number,
                    program: run.program,
                    mesh: run.mesh,
                    covers: run
                        .covers
                        .iter()
                        .map(|cover| covers.number(cover))
                        .collect(),
                })
                .collect(),
        });
        saved.collect()
    }

    fn save_caches(&self, out: &mut Vec<u8>) {
        let rings = self.facts.config_rings.iter();
        let rings: Vec<SavedRing> = rings
            .map(|((mesh, sub_device, core_type), ring)| SavedRing {
                mesh: *mesh,
                sub_device: *sub_device,
                core_type: *core_type,
                base: ring.base,
                size_bytes: ring.size_bytes,
                last_address: ring.last_address,
                filled: ring.filled,
                filled_until: ring.filled_until,
                wraps: ring.wraps,
                evictions: ring.evictions,
                stalls: ring.stalls,
                reserves: ring.reserves,
                entries: ring.entries().copied().collect(),
            })
            .collect();
        rings.put(out);
        let caches = self.facts.prefetchers.iter();
        let caches: Vec<SavedPrefetcher> = caches
            .map(|(mesh, cache)| SavedPrefetcher {
                mesh: *mesh,
                size_bytes: cache.size_bytes,
                hits: cache.hits,
                misses: cache.misses,
                evictions: cache.evictions,
                resets: cache.resets,
                entries: cache
                    .entries
                    .iter()
                    .map(|(at, entry)| (*at, *entry))
                    .collect(),
            })
            .collect();
        caches.put(out);
    }
}

fn saved_device(held: &HeldDevice) -> SavedDevice {
    let peaks = GaugeKind::all().map(|gauge| {
        let total = held.totals.gauge(gauge);
        SavedPeak {
            order: total.peak_order(),
            peak: total.peak(),
            since_mark: total.since_mark(),
        }
    });
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
        peaks: peaks.collect(),
        vacancies,
    }
}

fn saved_program(
    program: &Program,
    placements: &Numbered<Placement>,
    covers: &Numbered<Cover>,
) -> SavedProgram {
    let part = |on: &ProgramOnDevice| SavedPart {
        device: on.device,
        binary_status: on.binary_status,
        placement: on
            .placement
            .as_ref()
            .map(|placed| placements.number(placed)),
        cover: on.ran.as_ref().map(|cover| covers.number(cover)),
        run: on.run,
        command_bytes: on.command_bytes,
        sent_bytes: on.sent_bytes,
        dispatches: on.dispatches,
        program_cache_hits: on.program_cache_hits,
        program_cache_misses: on.program_cache_misses,
        binary_reuses: on.binary_reuses,
        first_dispatch: on.first_dispatch,
        last_dispatch: on.last_dispatch,
    };
    SavedProgram {
        id: program.id,
        name: program.name,
        runtime_id: program.runtime_id,
        pointer: program.pointer,
        finalized: program.finalized,
        jit_disk_hits: program.jit_disk_hits,
        parts: program.on.iter().map(part).collect(),
        created: program.created,
    }
}

/// Writes freed entries in the order of their releases.
fn put_freed<T: Copy>(out: &mut Vec<u8>, freed: &FreedEntries<T>)
where
    SavedFreed<T>: Codec,
{
    let mut entries: Vec<SavedFreed<T>> = freed
        .iter()
        .map(|entry| SavedFreed {
            freed: entry.freed,
            entry: entry.entry,
        })
        .collect();
    entries.sort_unstable_by_key(|entry| entry.freed);
    entries.put(out);
}

/// Numbers what is shared, each when it is first met.
struct Numbered<T> {
    known: Map<usize, u32>,
    shared: Vec<Arc<T>>,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Self {
            known: Map::default(),
            shared: Vec::new(),
        }
    }
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

/// What tells it from others: the account keeps it alive meanwhile.
fn address<T>(shared: &Arc<T>) -> usize {
    Arc::as_ptr(shared).addr()
}
