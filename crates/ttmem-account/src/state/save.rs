//! Writing an account's state.

use super::gauge_number;
use crate::Map;
use crate::account::Account;
use crate::anomaly::Anomaly;
use crate::buffers::BufferRow;
use crate::freed::{Freed, FreedEntries};
use crate::program::{Cb, Cover, Kernel, Placement};
use crate::totals::GaugeKind;
use std::sync::Arc;
use ttmem_event::state::{StateRecord, Time};
use ttmem_event::{BufferId, Class, CoreType, MeshId};

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

/// Where records go.
type Give<'a> = &'a mut dyn FnMut(StateRecord);

impl Account {
    /// Gives everything that a server must know of the process besides its definitions.
    pub fn save(&self, mut give: impl FnMut(StateRecord)) {
        let give: &mut dyn FnMut(StateRecord) = &mut give;
        self.save_figures(give);
        self.save_devices(give);
        self.save_capacities(give);
        self.save_buffers(give);
        self.save_programs(give);
        self.save_caches(give);
    }

    /// The number of a mesh in records: its id, or an old sender's device number.
    fn mesh_number(&self, slot: u32) -> u32 {
        let mesh = &self.facts.meshes[slot as usize];
        let number = u32::try_from(mesh.handle).unwrap_or(u32::MAX);
        mesh.id.map_or(number, |id| id.0)
    }

    fn mesh_id(&self, slot: u32) -> MeshId {
        MeshId(self.mesh_number(slot))
    }

    /// The number of a device in records: its first id, or an old sender's number.
    fn device_number(&self, slot: u32) -> u32 {
        let held = &self.facts.devices[slot as usize];
        match (held.id, held.key) {
            (Some(id), _) => id.0,
            (None, crate::ChipKey::Logical(number)) => number,
            (None, crate::ChipKey::Unique(_)) => u32::MAX,
        }
    }

    fn save_figures(&self, give: Give<'_>) {
        let facts = &self.facts;
        give(StateRecord::Account {
            order: self.order,
            runs: self.runs,
            inherited_frees: facts.inherited_frees,
            first_own_buffer: BufferId(self.first_own_buffer),
            highest_buffer: BufferId(self.highest_buffer),
            last_report: Time(self.last_report),
        });
        let leaks = &facts.leak_candidates;
        give(StateRecord::Leaks {
            buffers: leaks.buffers,
            buffer_bytes: leaks.buffer_bytes,
        });
        for (anomaly, count) in facts.anomalies.iter().filter(|(_, count)| *count > 0) {
            let anomaly = Anomaly::number(anomaly);
            give(StateRecord::Anomaly { anomaly, count });
        }
        for (mark, peaks) in facts.marks.iter() {
            give(StateRecord::Mark {
                time: Time(mark.time),
                name: mark.name,
                number: mark.number,
            });
            for (slot, peaks) in (0..).zip(peaks) {
                for gauge in GaugeKind::all() {
                    let peak = peaks.peak(gauge);
                    if peak.bytes > 0 || peak.time > 0 {
                        give(StateRecord::MarkPeak {
                            device: self.device_number(slot),
                            gauge: gauge_number(gauge),
                            bytes: peak.bytes,
                            time: Time(peak.time),
                        });
                    }
                }
            }
        }
    }

    fn save_devices(&self, give: Give<'_>) {
        for (slot, held) in (0..).zip(&self.facts.devices) {
            let device = self.device_number(slot);
            if let Some(device) = held.opened {
                give(StateRecord::Opened { device });
            }
            let caches = &held.caches;
            give(StateRecord::Caches {
                device,
                dispatches: caches.dispatches,
                program_cache_hits: caches.program_cache_hits,
                program_cache_misses: caches.program_cache_misses,
                binary_reuses: caches.binary_reuses,
                prefetch_hits: caches.prefetch_hits,
                jit_disk_hits: caches.jit_disk_hits,
                jit_disk_misses: caches.jit_disk_misses,
                trace_replays: caches.trace_replays,
            });
            for gauge in GaugeKind::all() {
                let total = held.totals.gauge(gauge);
                let (peak, since_mark) = (total.peak(), total.since_mark());
                if peak.bytes > 0 || since_mark.time > 0 {
                    give(StateRecord::Peak {
                        device,
                        gauge: gauge_number(gauge),
                        bytes: peak.bytes,
                        time: Time(peak.time),
                        order: total.peak_order(),
                        mark_bytes: since_mark.bytes,
                        mark_time: Time(since_mark.time),
                    });
                }
            }
            for core_type in CoreType::ALL {
                let claims = held.vacated.iter();
                for (run, time, cores) in claims.flat_map(|vacated| vacated.claims(core_type)) {
                    for (row, columns) in cores.rows() {
                        give(StateRecord::Vacated {
                            device,
                            core_type,
                            run,
                            time: Time(time),
                            row,
                            columns,
                        });
                    }
                }
            }
        }
        for (slot, mesh) in (0..).zip(&self.facts.meshes) {
            for (class, allocator) in Class::ALL.iter().zip(&mesh.allocators) {
                if allocator.capacity.is_none() && allocator.verified.is_none() {
                    continue;
                }
                let capacity = allocator.capacity;
                give(StateRecord::Allocator {
                    mesh: self.mesh_number(slot),
                    class: *class,
                    banks: capacity.map_or(0, |capacity| capacity.banks),
                    base: capacity.map_or(0, |capacity| capacity.base),
                    per_bank_bytes: capacity.map(|capacity| capacity.per_bank_bytes),
                    verified: match allocator.verified {
                        None => 0,
                        Some(true) => 1,
                        Some(false) => 2,
                    },
                });
            }
        }
    }

    fn save_capacities(&self, give: Give<'_>) {
        for (slot, held) in (0..).zip(&self.facts.devices) {
            for (class, capacity) in Class::ALL.iter().zip(held.capacities) {
                if let Some(capacity) = capacity {
                    give(StateRecord::Capacity {
                        device: self.device_number(slot),
                        class: *class,
                        banks: capacity.banks,
                        base: capacity.base,
                        per_bank_bytes: capacity.per_bank_bytes,
                    });
                }
            }
        }
    }

    fn save_buffers(&self, give: Give<'_>) {
        let record = |row: &BufferRow| StateRecord::Buffer {
            mesh: self.mesh_number(row.mesh),
            buffer: BufferId(row.id),
            class: row.class,
            layout: row.layout,
            direction: row.direction,
            address: row.address,
            requested_bytes: row.requested_bytes,
            per_bank_bytes: row.per_bank_bytes,
            page_bytes: row.page_bytes,
            cores: row.cores_id,
            operation: row.operation,
            stack: row.stack,
            banks: row.banks,
            references: row.references,
            time: Time(row.time),
            order: row.order,
        };
        let rows = self.buffers.rows.iter().map(|(_slot, row)| row);
        let mut rows: Vec<&BufferRow> = rows.collect();
        rows.sort_unstable_by_key(|row| row.order);
        rows.into_iter().map(record).for_each(&mut *give);
        for freed in in_order(&self.freed_buffers) {
            give(StateRecord::Freed { order: freed.freed });
            give(record(&freed.entry));
        }
        let mut cbs: Vec<_> = self.legacy_cbs.rows.iter().collect();
        cbs.sort_unstable_by_key(|(_slot, row)| row.cb.order);
        for (_slot, row) in cbs {
            give(StateRecord::LegacyCb {
                device: self.device_number(row.device),
                address: row.cb.address,
                size_bytes: row.cb.size_bytes,
                time: Time(row.cb.time),
                order: row.cb.order,
            });
        }
    }

    fn save_programs(&self, give: Give<'_>) {
        let mut placements: Numbered<Placement> = Numbered::default();
        let mut covers: Numbered<Cover> = Numbered::default();
        let programs = || self.programs.iter().map(|(_slot, program)| program);
        for on in programs().flat_map(|program| &program.on) {
            on.placement
                .iter()
                .for_each(|placed| placements.add(placed));
            on.ran.iter().for_each(|cover| covers.add(cover));
        }
        let captured = || {
            self.facts
                .traces
                .values()
                .flat_map(|trace| trace.captured.values())
        };
        for cover in captured().flat_map(|captured| &captured.covers) {
            covers.add(cover);
        }
        for placement in &placements.shared {
            give(StateRecord::Placement {});
            placement.cbs().iter().map(cb_record).for_each(&mut *give);
            let kernels = placement.kernels().iter();
            kernels.map(kernel_record).for_each(&mut *give);
        }
        for cover in &covers.shared {
            give(StateRecord::Cover {});
            for (core_type, cores) in cover.sets() {
                let (core_type, cores) = (*core_type, *cores);
                give(StateRecord::CoverSet { core_type, cores });
            }
        }
        for program in programs() {
            give(StateRecord::Program {
                program: program.id,
                name: program.name,
                runtime_id: program.runtime_id,
                pointer: program.pointer,
                created: Time(program.created),
                jit_disk_hits: program.jit_disk_hits,
            });
            if let Some(sizes) = program.finalized {
                give(StateRecord::Finalized {
                    time: Time(sizes.time),
                    config_bytes: sizes.config_bytes,
                    text_bytes: sizes.text_bytes,
                    binary_bytes: sizes.binary_bytes,
                });
            }
            for on in &program.on {
                give(StateRecord::Part {
                    device: self.device_number(on.device),
                    binary_status: on.binary_status,
                    placement: on
                        .placement
                        .as_ref()
                        .map(|placed| placements.number(placed)),
                    cover: on.ran.as_ref().map(|ran| covers.number(ran)),
                    run: on.run,
                    command_bytes: on.command_bytes,
                    sent_bytes: on.sent_bytes,
                    dispatches: on.dispatches,
                    program_cache_hits: on.program_cache_hits,
                    program_cache_misses: on.program_cache_misses,
                    binary_reuses: on.binary_reuses,
                    first_dispatch: on.first_dispatch.map(Time),
                    last_dispatch: on.last_dispatch.map(Time),
                });
            }
        }
        self.save_traces(&covers, give);
        self.save_freed(&self.freed_cbs, cb_record, give);
        self.save_freed(&self.freed_kernels, kernel_record, give);
    }

    fn save_traces(&self, covers: &Numbered<Cover>, give: Give<'_>) {
        for ((mesh, trace), state) in &self.facts.traces {
            let mut capturing = self.capturing.values();
            give(StateRecord::Trace {
                mesh: self.mesh_id(*mesh),
                trace: *trace,
                captured: state.next,
                ended: state.ended,
                capturing: capturing.any(|each| each.trace == (*mesh, *trace)),
                replay_run: state.replay.map(|replay| replay.run),
                replay_time: Time(state.replay.map_or(0, |replay| replay.time)),
            });
            for (number, captured) in state.captured.iter() {
                give(StateRecord::Captured {
                    number: *number,
                    program: captured.program,
                    mesh: self.mesh_id(captured.mesh),
                });
                for cover in &captured.covers {
                    let cover = covers.number(cover);
                    give(StateRecord::CapturedCover { cover });
                }
            }
        }
    }

    fn save_freed<T: Copy>(
        &self,
        freed: &FreedEntries<crate::FreedStorage<T>>,
        record: impl Fn(&T) -> StateRecord,
        give: Give<'_>,
    ) {
        for freed in in_order(freed) {
            let was = &freed.entry;
            give(StateRecord::FreedStorage {
                device: self.device_number(was.device),
                program: was.program,
                name: was.name,
                order: freed.freed,
            });
            give(record(&was.entry));
        }
    }

    fn save_caches(&self, give: Give<'_>) {
        for ((mesh, sub_device, core_type), ring) in &self.facts.config_rings {
            give(StateRecord::ConfigRing {
                mesh: self.mesh_id(*mesh),
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
            });
            for entry in ring.entries() {
                give(StateRecord::ConfigRingEntry {
                    program: entry.program,
                    address: entry.address,
                    size_bytes: entry.size_bytes,
                    sync: entry.sync,
                });
            }
        }
        for (mesh, cache) in &self.facts.prefetchers {
            give(StateRecord::Prefetcher {
                mesh: self.mesh_id(*mesh),
                size_bytes: cache.size_bytes,
                hits: cache.hits,
                misses: cache.misses,
                evictions: cache.evictions,
                resets: cache.resets,
            });
            for (offset, entry) in &cache.entries {
                give(StateRecord::Prefetched {
                    offset: *offset,
                    workload: entry.workload,
                    size_bytes: entry.size_bytes,
                });
            }
        }
    }
}

fn cb_record(cb: &Cb) -> StateRecord {
    StateRecord::Cb {
        number: cb.number,
        kind: cb.kind,
        address: cb.address,
        size_bytes: cb.size_bytes,
        cores: cb.cores_id,
        time: Time(cb.time),
        order: cb.order,
    }
}

fn kernel_record(kernel: &Kernel) -> StateRecord {
    StateRecord::Kernel {
        kernel: kernel.id,
        name: kernel.name,
        kind: kernel.kind,
        core_type: kernel.core_type,
        binary_bytes: kernel.binary_bytes,
        cores: kernel.cores_id,
        core_count: kernel.core_count.unwrap_or(0),
        total_bytes: kernel.total_bytes,
        time: Time(kernel.time),
        order: kernel.order,
    }
}

/// Freed entries in the order of their releases.
fn in_order<T: Copy>(freed: &FreedEntries<T>) -> Vec<&Freed<T>> {
    let mut entries: Vec<&Freed<T>> = freed.iter().collect();
    entries.sort_unstable_by_key(|entry| entry.freed);
    entries
}
