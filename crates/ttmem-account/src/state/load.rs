//! Making an account of its state.

use super::gauge_numbered;
use crate::account::{Account, Capturing, ProgramKey};
use crate::anomaly::Anomaly;
use crate::apply::Apply;
use crate::buffers::{BufferKey, BufferRow};
use crate::config_ring::{CachedWorkload, ConfigRing, ConfigRingEntry, Prefetcher};
use crate::device::{CacheCounters, Capacity, DeviceMoment};
use crate::freed::FreedStorage;
use crate::gauge::Peak;
use crate::legacy_cbs::LegacyCb;
use crate::limits::{ABSURD_BYTES, Limits, MAX_HELD_BYTES};
use crate::mark::Mark;
use crate::observer::{Holding, Observer};
use crate::peak::{self, Moment};
use crate::program::{Cb, Cover, Finalized, Kernel, Placement, Program, ProgramOnDevice};
use crate::residency::{Captured, Replay, Trace, TraceKey};
use crate::totals::{GaugeKind, PeakSet};
use crate::{ConfigRingKey, Map};
use std::sync::Arc;
use ttmem_event::state::StateRecord;
use ttmem_event::{CbKind, CoreSet, CoresId, DeviceId, ProgramId, TextId};

/// Counters beyond this are noise, and must not overflow when they go on counting.
const MAX_COUNT: u64 = 1 << 62;

/// Most storage and kernels that one placement may have, as for events.
const MAX_PER_PROGRAM: usize = 1024;

/// What the next buffer, storage or kernel belongs to.
#[derive(Clone, Copy, Debug)]
enum Next {
    Live,
    Freed(u64),
    FreedStorage {
        device: u32,
        program: ProgramId,
        name: TextId,
        freed: u64,
    },
}

/// A peak that was claimed, to be held against its composition.
#[derive(Clone, Copy, Debug)]
struct Claimed {
    peak: Peak,
    order: u64,
    since_mark: Peak,
}

/// Makes an account of records, one after the other.
#[derive(Debug)]
pub struct Loader<'a, O> {
    account: Account,
    observer: &'a mut O,
    limits: &'a Limits,
    /// Peaks of the devices before anything was booked.
    peaks_before: Vec<[u64; GaugeKind::COUNT]>,
    /// Whether the first record was taken.
    begun: bool,
    next: Next,
    placements: Vec<Arc<Placement>>,
    covers: Vec<Arc<Cover>>,
    program: Option<u32>,
    ring: Option<ConfigRingKey>,
    prefetcher: Option<u32>,
    trace: Option<TraceKey>,
    captured: Option<u64>,
    mark: Option<(Mark<TextId>, Vec<PeakSet>)>,
    claimed: Vec<[Option<Claimed>; GaugeKind::COUNT]>,
    refused: Vec<Anomaly>,
}

impl<'a, O: Observer> Loader<'a, O> {
    /// A loader for an account that has its definitions and nothing else.
    #[must_use]
    pub fn new(account: Account, limits: &'a Limits, observer: &'a mut O) -> Self {
        let mut loader = Self {
            account,
            observer,
            limits,
            peaks_before: Vec::new(),
            begun: false,
            next: Next::Live,
            placements: Vec::new(),
            covers: Vec::new(),
            program: None,
            ring: None,
            prefetcher: None,
            trace: None,
            captured: None,
            mark: None,
            claimed: Vec::new(),
            refused: Vec::new(),
        };
        loader.note_device_peaks();
        loader
    }

    /// Notes how many peaks the devices had before anything was booked.
    fn note_device_peaks(&mut self) {
        let devices = u32::try_from(self.account.facts.devices.len()).unwrap_or(u32::MAX);
        let known = u32::try_from(self.peaks_before.len()).unwrap_or(u32::MAX);
        for slot in known..devices {
            let mut peaks = [0; GaugeKind::COUNT];
            for gauge in GaugeKind::all() {
                peaks[gauge.index()] = self.observer.device_peaks(slot, gauge);
            }
            self.peaks_before.push(peaks);
        }
    }

    /// Takes one record; one that cannot be is counted and left out.
    pub fn record(&mut self, record: &StateRecord) {
        if let Err(anomaly) = self.take(record) {
            self.account.facts.anomalies.count(anomaly);
            self.refused.push(anomaly);
            self.refused.truncate(1 << 16);
        }
    }

    fn apply(&mut self, time: u64) -> Apply<'_, O> {
        Apply {
            account: &mut self.account,
            observer: self.observer,
            limits: self.limits,
            time,
        }
    }

    fn take(&mut self, record: &StateRecord) -> Result<(), Anomaly> {
        // The others are held against how far the account has come.
        let is_first = !std::mem::replace(&mut self.begun, true);
        if is_first != matches!(record, StateRecord::Account { .. }) {
            return Err(Anomaly::Malformed);
        }
        match *record {
            StateRecord::Account { .. }
            | StateRecord::Leaks { .. }
            | StateRecord::Anomaly { .. }
            | StateRecord::Mark { .. }
            | StateRecord::MarkPeak { .. } => self.take_figures(record),
            StateRecord::Opened { .. }
            | StateRecord::Caches { .. }
            | StateRecord::Peak { .. }
            | StateRecord::Vacated { .. }
            | StateRecord::Allocator { .. }
            | StateRecord::Capacity { .. } => self.take_device(record),
            StateRecord::Buffer { .. } => self.take_buffer(record),
            StateRecord::Freed { order } => {
                self.next = Next::Freed(order);
                Ok(())
            }
            StateRecord::FreedStorage {
                device,
                program,
                name,
                order,
            } => {
                let device = self.device_slot(device)?;
                self.next = Next::FreedStorage {
                    device,
                    program,
                    name,
                    freed: order,
                };
                Ok(())
            }
            StateRecord::LegacyCb { .. } => self.take_legacy_cb(record),
            StateRecord::Placement {}
            | StateRecord::Cb { .. }
            | StateRecord::Kernel { .. }
            | StateRecord::Cover {}
            | StateRecord::CoverSet { .. }
            | StateRecord::Program { .. }
            | StateRecord::Finalized { .. }
            | StateRecord::Part { .. } => self.take_program(record),
            StateRecord::ConfigRing { .. }
            | StateRecord::ConfigRingEntry { .. }
            | StateRecord::Prefetcher { .. }
            | StateRecord::Prefetched { .. } => self.take_cache(record),
            StateRecord::Trace { .. }
            | StateRecord::Captured { .. }
            | StateRecord::CapturedCover { .. } => self.take_trace(record),
        }
    }

    fn mesh_slot(&mut self, number: u32) -> Result<u32, Anomaly> {
        let known = if self.account.legacy {
            &self.account.legacy_meshes
        } else {
            &self.account.mesh_ids
        };
        match known.get(&number) {
            Some(slot) => Ok(*slot),
            None if self.account.legacy && number <= self.limits.last_legacy_device => {
                let mesh = self.apply(0).add_legacy_mesh(number);
                self.note_device_peaks();
                mesh
            }
            None => Err(Anomaly::Undefined),
        }
    }

    fn device_slot(&mut self, number: u32) -> Result<u32, Anomaly> {
        if self.account.legacy {
            let mesh = self.mesh_slot(number)?;
            let devices = &self.account.facts.meshes[mesh as usize].devices;
            return devices.first().copied().ok_or(Anomaly::Undefined);
        }
        let slot = self.account.device_ids.get(&number);
        slot.copied().ok_or(Anomaly::Undefined)
    }

    fn take_figures(&mut self, record: &StateRecord) -> Result<(), Anomaly> {
        let facts = &mut self.account.facts;
        match *record {
            StateRecord::Account {
                order,
                runs,
                inherited_frees,
                first_own_buffer,
                highest_buffer,
                last_report,
            } => {
                facts.inherited_frees = inherited_frees.min(MAX_COUNT);
                self.account.order = order.min(MAX_COUNT);
                self.account.runs = runs.min(MAX_COUNT);
                self.account.first_own_buffer = first_own_buffer.0;
                self.account.highest_buffer = highest_buffer.0;
                self.account.last_report = last_report.0;
            }
            StateRecord::Leaks {
                buffers,
                buffer_bytes,
            } => {
                facts.leak_candidates.buffers = buffers.min(MAX_COUNT);
                facts.leak_candidates.buffer_bytes = buffer_bytes.min(MAX_COUNT);
            }
            StateRecord::Anomaly { anomaly, count } => {
                let anomaly = Anomaly::numbered(anomaly).ok_or(Anomaly::Malformed)?;
                let known = facts.anomalies.of(anomaly);
                let beyond = count.min(MAX_COUNT).saturating_sub(known);
                facts.anomalies.add(anomaly, beyond);
            }
            StateRecord::Mark { time, name, number } => {
                self.end_mark();
                let time = time.0;
                self.mark = Some((Mark { time, name, number }, Vec::new()));
            }
            StateRecord::MarkPeak {
                device,
                gauge,
                bytes,
                time,
            } => {
                let slot = self.device_slot(device)? as usize;
                let gauge = gauge_numbered(gauge).ok_or(Anomaly::Malformed)?;
                let (_mark, peaks) = self.mark.as_mut().ok_or(Anomaly::Malformed)?;
                if peaks.len() <= slot {
                    peaks.resize(slot + 1, PeakSet::default());
                }
                let time = time.0;
                *peaks[slot].peak_mut(gauge) = Peak { bytes, time };
            }
            _other => return Err(Anomaly::Malformed),
        }
        Ok(())
    }

    fn end_mark(&mut self) {
        if let Some((mark, peaks)) = self.mark.take() {
            Arc::make_mut(&mut self.account.facts.marks).restore(mark, peaks);
        }
    }

    fn take_device(&mut self, record: &StateRecord) -> Result<(), Anomaly> {
        match *record {
            StateRecord::Opened {
                device: DeviceId(id),
            } => {
                let slot = self.device_slot(id)?;
                self.apply(0).describe_device(slot, DeviceId(id));
            }
            StateRecord::Caches {
                device,
                dispatches,
                program_cache_hits,
                program_cache_misses,
                binary_reuses,
                prefetch_hits,
                jit_disk_hits,
                jit_disk_misses,
                trace_replays,
            } => {
                let slot = self.device_slot(device)?;
                let counts = [
                    dispatches,
                    program_cache_hits,
                    program_cache_misses,
                    binary_reuses,
                    prefetch_hits,
                    jit_disk_hits,
                    jit_disk_misses,
                    trace_replays,
                ];
                let caches = CacheCounters::from_counts(counts.map(|count| count.min(MAX_COUNT)));
                self.account.facts.devices[slot as usize].caches = caches;
            }
            StateRecord::Peak {
                device,
                gauge,
                bytes,
                time,
                order,
                mark_bytes,
                mark_time,
            } => {
                let slot = self.device_slot(device)? as usize;
                let gauge = gauge_numbered(gauge).ok_or(Anomaly::Malformed)?;
                if self.claimed.len() <= slot {
                    self.claimed.resize(slot + 1, Default::default());
                }
                let peak = |bytes: u64, time: u64| Peak { bytes, time };
                self.claimed[slot][gauge.index()] = Some(Claimed {
                    peak: peak(bytes, time.0),
                    order,
                    since_mark: peak(mark_bytes, mark_time.0),
                });
            }
            StateRecord::Vacated {
                device,
                core_type,
                run,
                time,
                row,
                columns,
            } => {
                let slot = self.device_slot(device)?;
                let mut cores = CoreSet::default();
                cores.insert_row(row, columns);
                if run > self.account.runs {
                    return Err(Anomaly::Malformed);
                }
                let held = &mut self.account.facts.devices[slot as usize];
                let vacated = Arc::make_mut(held.vacated.get_or_insert_default());
                vacated.leave(core_type, &cores, run, time.0);
            }
            StateRecord::Capacity {
                device,
                class,
                banks,
                base,
                per_bank_bytes,
            } => {
                let slot = self.device_slot(device)?;
                let total = u64::from(banks).checked_mul(per_bank_bytes);
                if total.is_none_or(|total| total > MAX_HELD_BYTES) {
                    return Err(Anomaly::AbsurdSize);
                }
                let capacity = Capacity {
                    banks,
                    base,
                    per_bank_bytes,
                };
                self.apply(0).note_capacity(slot, class, capacity);
            }
            StateRecord::Allocator {
                mesh,
                class,
                banks,
                base,
                per_bank_bytes,
                verified,
            } => {
                let mesh = self.mesh_slot(mesh)?;
                if let Some(per_bank_bytes) = per_bank_bytes {
                    let capacity = Capacity {
                        banks,
                        base,
                        per_bank_bytes,
                    };
                    self.apply(0).set_capacity(mesh, class, capacity)?;
                }
                self.apply(0).use_mesh(mesh);
                let mesh = &mut self.account.facts.meshes[mesh as usize];
                mesh.allocators[class.index()].verified = match verified {
                    0 => None,
                    1 => Some(true),
                    2 => Some(false),
                    _other => return Err(Anomaly::Malformed),
                };
            }
            _other => return Err(Anomaly::Malformed),
        }
        Ok(())
    }

    fn take_buffer(&mut self, record: &StateRecord) -> Result<(), Anomaly> {
        let next = std::mem::replace(&mut self.next, Next::Live);
        let StateRecord::Buffer {
            mesh,
            buffer,
            class,
            layout,
            direction,
            address,
            requested_bytes,
            per_bank_bytes,
            page_bytes,
            cores,
            operation,
            stack,
            banks,
            references,
            time,
            order,
        } = *record
        else {
            return Err(Anomaly::Malformed);
        };
        let mesh = self.mesh_slot(mesh)?;
        let row = BufferRow {
            address,
            requested_bytes,
            per_bank_bytes,
            time: time.0,
            order,
            operation,
            stack,
            page_bytes,
            cores_id: cores,
            references,
            banks,
            layout,
            direction,
            ..BufferRow::new(mesh, class, buffer.0)
        };
        let on_cores = self.account.facts.definitions.cores(cores);
        if cores != CoresId::NONE && on_cores.map(|cores| cores.len()) != Some(u32::from(banks)) {
            return Err(Anomaly::Undefined);
        }
        match next {
            Next::Live => {
                let key = if self.account.legacy {
                    BufferKey::Address {
                        mesh,
                        class,
                        address: buffer.0,
                    }
                } else {
                    BufferKey::Id(buffer.0)
                };
                if self.account.buffers.find(key).is_some() || order > self.account.order {
                    return Err(Anomaly::Malformed);
                }
                let mut apply = self.apply(time.0);
                apply.check_size(&row)?;
                apply.book_row(row)
            }
            Next::Freed(freed) => {
                self.check_freed(order, freed, self.account.freed_buffers.len())?;
                if row.charged_bytes() > ABSURD_BYTES * 1024 {
                    return Err(Anomaly::AbsurdSize);
                }
                let mesh = &mut self.account.facts.meshes[mesh as usize];
                let list = &mut mesh.allocators[class.index()].freed;
                self.account.freed_buffers.push(list, row, freed);
                Ok(())
            }
            Next::FreedStorage { .. } => Err(Anomaly::Malformed),
        }
    }

    /// Refuses what cannot have been live at a peak and released since.
    fn check_freed(&self, order: u64, freed: u64, known: usize) -> Result<(), Anomaly> {
        if order >= freed || freed > self.account.order {
            return Err(Anomaly::Malformed);
        }
        if known >= self.limits.buffers {
            return Err(Anomaly::LimitReached);
        }
        Ok(())
    }

    fn take_legacy_cb(&mut self, record: &StateRecord) -> Result<(), Anomaly> {
        let StateRecord::LegacyCb {
            device,
            address,
            size_bytes,
            time,
            order,
        } = *record
        else {
            return Err(Anomaly::Malformed);
        };
        if !self.account.legacy || order > self.account.order {
            return Err(Anomaly::Malformed);
        }
        let device = self.device_slot(device)?;
        let cb = Cb {
            number: 0,
            kind: CbKind::Local,
            address,
            size_bytes,
            cores_id: CoresId::NONE,
            core_count: 1,
            time: time.0,
            order,
        };
        self.apply(time.0).book_legacy_cb(LegacyCb { device, cb })
    }

    fn take_program(&mut self, record: &StateRecord) -> Result<(), Anomaly> {
        match *record {
            StateRecord::Placement {} => {
                // Never more than there can be parts that have one.
                if self.placements.len() >= self.limits.parts {
                    return Err(Anomaly::LimitReached);
                }
                self.placements.push(Arc::default());
                Ok(())
            }
            StateRecord::Cb { .. } => self.take_cb(record),
            StateRecord::Kernel { .. } => self.take_kernel(record),
            StateRecord::Cover {} => {
                if self.covers.len() >= 2 * self.limits.parts {
                    return Err(Anomaly::LimitReached);
                }
                self.covers.push(Arc::default());
                Ok(())
            }
            StateRecord::CoverSet { core_type, cores } => {
                let known = self.account.facts.definitions.cores(cores);
                known.ok_or(Anomaly::Undefined)?;
                let cover = self.covers.last_mut().ok_or(Anomaly::Malformed)?;
                Arc::make_mut(cover).insert(core_type, cores, 2 * MAX_PER_PROGRAM)
            }
            StateRecord::Program {
                program,
                name,
                runtime_id,
                pointer,
                created,
                jit_disk_hits,
            } => {
                self.program = None;
                let key = if self.account.legacy {
                    ProgramKey::LegacyKernel(program.0)
                } else {
                    ProgramKey::Tracked(program)
                };
                if self.account.program_index.contains_key(&key) {
                    return Err(Anomaly::Malformed);
                }
                let slot = self.apply(created.0).program_slot_or_add(key, program)?;
                let live = self.account.programs.get_mut(slot);
                let live = live.ok_or(Anomaly::LimitReached)?;
                *live = Program {
                    name,
                    runtime_id,
                    pointer,
                    jit_disk_hits: jit_disk_hits.min(MAX_COUNT),
                    ..Program::new(program, created.0)
                };
                self.program = Some(slot);
                Ok(())
            }
            StateRecord::Finalized {
                time,
                config_bytes,
                text_bytes,
                binary_bytes,
            } => {
                let slot = self.program.ok_or(Anomaly::Malformed)?;
                let live = self.account.programs.get_mut(slot);
                live.ok_or(Anomaly::Malformed)?.finalized = Some(Finalized {
                    time: time.0,
                    config_bytes,
                    text_bytes,
                    binary_bytes,
                });
                Ok(())
            }
            _part => self.take_part(record),
        }
    }

    fn take_cb(&mut self, record: &StateRecord) -> Result<(), Anomaly> {
        let next = std::mem::replace(&mut self.next, Next::Live);
        let StateRecord::Cb {
            number,
            kind,
            address,
            size_bytes,
            cores,
            time,
            order,
        } = *record
        else {
            return Err(Anomaly::Malformed);
        };
        let core_count = match self.account.facts.definitions.cores(cores) {
            Some(cores) => cores.len(),
            // Those of old senders are on no cores that are known.
            None if cores == CoresId::NONE && self.account.legacy => 1,
            None => return Err(Anomaly::Undefined),
        };
        if size_bytes > ABSURD_BYTES || order > self.account.order {
            return Err(Anomaly::AbsurdSize);
        }
        let cb = Cb {
            number,
            kind,
            address,
            size_bytes,
            cores_id: cores,
            core_count,
            time: time.0,
            order,
        };
        match next {
            Next::Live => {
                let placement = self.placements.last_mut().ok_or(Anomaly::Malformed)?;
                Arc::make_mut(placement).put_cb(cb, MAX_PER_PROGRAM)?;
                Ok(())
            }
            Next::FreedStorage {
                device,
                program,
                name,
                freed,
            } => {
                self.check_freed(order, freed, self.account.freed_cbs.len())?;
                let entry = FreedStorage {
                    device,
                    program,
                    name,
                    entry: cb,
                };
                let list = &mut self.account.on_device[device as usize].freed_cbs;
                self.account.freed_cbs.push(list, entry, freed);
                Ok(())
            }
            Next::Freed(_) => Err(Anomaly::Malformed),
        }
    }

    fn take_kernel(&mut self, record: &StateRecord) -> Result<(), Anomaly> {
        let next = std::mem::replace(&mut self.next, Next::Live);
        let StateRecord::Kernel {
            kernel,
            name,
            kind,
            core_type,
            binary_bytes,
            cores,
            core_count,
            total_bytes,
            time,
            order,
        } = *record
        else {
            return Err(Anomaly::Malformed);
        };
        let on_cores = self.account.facts.definitions.cores(cores);
        let count = on_cores.map_or(core_count, |cores| cores.len());
        let product = binary_bytes.and_then(|bytes| bytes.checked_mul(u64::from(count)));
        let adds_up = binary_bytes.is_none() || product == Some(total_bytes);
        let is_known = cores == CoresId::NONE || on_cores.is_some();
        if !adds_up || !is_known || total_bytes > ABSURD_BYTES || order > self.account.order {
            return Err(Anomaly::Malformed);
        }
        let kernel = Kernel {
            id: kernel,
            name,
            kind,
            core_type,
            binary_bytes,
            core_count: binary_bytes.map(|_known| count),
            cores_id: cores,
            total_bytes,
            time: time.0,
            order,
        };
        match next {
            Next::Live => {
                let placement = self.placements.last_mut().ok_or(Anomaly::Malformed)?;
                Arc::make_mut(placement).put_kernel(kernel, MAX_PER_PROGRAM)?;
                Ok(())
            }
            Next::FreedStorage {
                device,
                program,
                name,
                freed,
            } => {
                self.check_freed(order, freed, self.account.freed_kernels.len())?;
                let entry = FreedStorage {
                    device,
                    program,
                    name,
                    entry: kernel,
                };
                let list = &mut self.account.on_device[device as usize].freed_kernels;
                self.account.freed_kernels.push(list, entry, freed);
                Ok(())
            }
            Next::Freed(_) => Err(Anomaly::Malformed),
        }
    }

    fn take_part(&mut self, record: &StateRecord) -> Result<(), Anomaly> {
        let StateRecord::Part {
            device,
            binary_status,
            placement,
            cover,
            run,
            command_bytes,
            sent_bytes,
            dispatches,
            program_cache_hits,
            program_cache_misses,
            binary_reuses,
            first_dispatch,
            last_dispatch,
        } = *record
        else {
            return Err(Anomaly::Malformed);
        };
        let program = self.program.ok_or(Anomaly::Malformed)?;
        let slot = self.device_slot(device)?;
        let placement = shared(&self.placements, placement)?;
        let ran = shared(&self.covers, cover)?;
        let live = self.account.programs.get(program);
        let live = live.ok_or(Anomaly::Malformed)?;
        if live.on_device(slot).is_some() || run > self.account.runs {
            return Err(Anomaly::Malformed);
        }
        let id = live.id;
        let (cbs, kernels) = placement.as_ref().map_or((&[][..], &[][..]), |placed| {
            (placed.cbs(), placed.kernels())
        });
        let cb_bytes = cbs.iter().map(Cb::total_bytes);
        let cb_bytes = cb_bytes.fold(0, u64::saturating_add);
        let kernel_bytes = kernels.iter().map(|kernel| kernel.total_bytes);
        let kernel_bytes = kernel_bytes.fold(0, u64::saturating_add);
        let mut apply = self.apply(0);
        apply.check_held(&[slot], |totals| totals.cb.registered.bytes(), cb_bytes)?;
        let registered = |totals: &crate::Totals| totals.kernel.registered.bytes();
        apply.check_held(&[slot], registered, kernel_bytes)?;
        if apply.most_placed(cbs.len() + kernels.len(), 1) == 0 {
            return Err(Anomaly::LimitReached);
        }
        let on = apply.part_mut(program, slot)?;
        *on = ProgramOnDevice {
            binary_status,
            ran,
            run,
            command_bytes,
            sent_bytes,
            dispatches: dispatches.min(MAX_COUNT),
            program_cache_hits: program_cache_hits.min(MAX_COUNT),
            program_cache_misses: program_cache_misses.min(MAX_COUNT),
            binary_reuses: binary_reuses.min(MAX_COUNT),
            first_dispatch: first_dispatch.map(|time| time.0),
            last_dispatch: last_dispatch.map(|time| time.0),
            ..ProgramOnDevice::new(slot)
        };
        for cb in cbs {
            apply.time = cb.time;
            apply.book_storage(slot, &Holding::Cb(id, cb));
        }
        for kernel in kernels {
            apply.time = kernel.time;
            apply.change_unique(slot, kernel, true);
            apply.book_storage(slot, &Holding::Kernel(id, kernel));
        }
        apply.part_mut(program, slot)?.placement = placement;
        Ok(())
    }

    fn take_cache(&mut self, record: &StateRecord) -> Result<(), Anomaly> {
        match *record {
            StateRecord::ConfigRing {
                mesh,
                sub_device,
                core_type,
                base,
                size_bytes,
                last_address,
                filled,
                filled_until,
                wraps,
                evictions,
                stalls,
                reserves,
            } => {
                self.ring = None;
                let key = (self.mesh_slot(mesh.0)?, sub_device, core_type);
                self.apply(0).open_ring(key, base, size_bytes)?;
                let ring = self.account.facts.config_rings.get_mut(&key);
                let ring = Arc::make_mut(ring.ok_or(Anomaly::LimitReached)?);
                ring.last_address = last_address;
                ring.filled = filled;
                ring.filled_until = filled_until;
                ring.wraps = wraps.min(MAX_COUNT);
                ring.evictions = evictions.min(MAX_COUNT);
                ring.stalls = stalls.min(MAX_COUNT);
                ring.reserves = reserves.min(MAX_COUNT);
                self.ring = Some(key);
            }
            StateRecord::ConfigRingEntry {
                program,
                address,
                size_bytes,
                sync,
            } => {
                let key = self.ring.ok_or(Anomaly::Malformed)?;
                let ring = self.account.facts.config_rings.get_mut(&key);
                let ring: &mut ConfigRing = Arc::make_mut(ring.ok_or(Anomaly::Malformed)?);
                let entry = ConfigRingEntry {
                    program,
                    address,
                    size_bytes,
                    sync,
                };
                if !ring.restore(entry) {
                    return Err(Anomaly::OutsideRing);
                }
            }
            StateRecord::Prefetcher {
                mesh,
                size_bytes,
                hits,
                misses,
                evictions,
                resets,
            } => {
                self.prefetcher = None;
                let mesh = self.mesh_slot(mesh.0)?;
                self.apply(0).open_prefetcher(mesh, size_bytes)?;
                let cache = self.prefetcher_mut(mesh)?;
                cache.hits = hits.min(MAX_COUNT);
                cache.misses = misses.min(MAX_COUNT);
                cache.evictions = evictions.min(MAX_COUNT);
                cache.resets = resets.min(MAX_COUNT);
                self.prefetcher = Some(mesh);
            }
            StateRecord::Prefetched {
                offset,
                workload,
                size_bytes,
            } => {
                let mesh = self.prefetcher.ok_or(Anomaly::Malformed)?;
                let cache = self.prefetcher_mut(mesh)?;
                let entry = CachedWorkload {
                    workload,
                    size_bytes,
                };
                if !cache.place(offset, entry) {
                    return Err(Anomaly::OutsideRing);
                }
            }
            _other => return Err(Anomaly::Malformed),
        }
        Ok(())
    }

    fn prefetcher_mut(&mut self, mesh: u32) -> Result<&mut Prefetcher, Anomaly> {
        let cache = self.account.facts.prefetchers.get_mut(&mesh);
        Ok(Arc::make_mut(cache.ok_or(Anomaly::Malformed)?))
    }

    fn take_trace(&mut self, record: &StateRecord) -> Result<(), Anomaly> {
        match *record {
            StateRecord::Trace {
                mesh,
                trace,
                captured,
                ended,
                capturing,
                replay_run,
                replay_time,
            } => {
                (self.trace, self.captured) = (None, None);
                let slot = self.mesh_slot(mesh.0)?;
                let beyond =
                    replay_run.is_some_and(|run| run.saturating_add(captured) > self.account.runs);
                if beyond || captured > MAX_COUNT {
                    return Err(Anomaly::Malformed);
                }
                let key = (slot, trace);
                let traces = &mut self.account.facts.traces;
                if traces.len() >= self.limits.traces || traces.contains_key(&key) {
                    return Err(Anomaly::LimitReached);
                }
                let time = replay_time.0;
                let replay = replay_run.map(|run| Replay { run, time });
                traces.insert(
                    key,
                    Trace {
                        captured: Arc::default(),
                        next: captured,
                        ended,
                        replay,
                    },
                );
                if capturing {
                    let last = Map::default();
                    let trace = key;
                    self.account
                        .capturing
                        .insert(mesh, Capturing { trace, last });
                }
                self.apply(0).use_mesh(slot);
                self.trace = Some(key);
            }
            StateRecord::Captured {
                number,
                program,
                mesh,
            } => {
                self.captured = None;
                let key = self.trace.ok_or(Anomaly::Malformed)?;
                let mesh = self.mesh_slot(mesh.0)?;
                let index = &self.account.program_index;
                // The slot of a program that is gone names none.
                let slot = index.get(&ProgramKey::Tracked(program));
                let slot = slot.copied().unwrap_or(u32::MAX);
                let trace = self.account.facts.traces.get_mut(&key);
                let trace = trace.ok_or(Anomaly::Malformed)?;
                if number > trace.next || trace.captured.len() >= 1 << 16 {
                    return Err(Anomaly::LimitReached);
                }
                let run = Captured {
                    program,
                    slot,
                    mesh,
                    covers: Vec::new(),
                };
                Arc::make_mut(&mut trace.captured).insert(number, run);
                let mut capturing = self.account.capturing.values_mut();
                if let Some(capturing) = capturing.find(|each| each.trace == key) {
                    capturing.last.insert((slot, mesh), number);
                }
                self.captured = Some(number);
            }
            StateRecord::CapturedCover { cover } => {
                let (trace, number) = self.trace.zip(self.captured).ok_or(Anomaly::Malformed)?;
                let cover = shared(&self.covers, Some(cover))?.ok_or(Anomaly::Malformed)?;
                let trace = self.account.facts.traces.get_mut(&trace);
                let captured = Arc::make_mut(&mut trace.ok_or(Anomaly::Malformed)?.captured);
                let run = captured.get_mut(&number).ok_or(Anomaly::Malformed)?;
                let devices = &self.account.facts.meshes[run.mesh as usize].devices;
                if run.covers.len() >= devices.len() {
                    return Err(Anomaly::Malformed);
                }
                run.covers.push(cover);
            }
            _other => return Err(Anomaly::Malformed),
        }
        Ok(())
    }

    /// The account, and what was wrong with its records.
    #[must_use]
    pub fn finish(mut self) -> (Account, Vec<Anomaly>) {
        self.end_mark();
        let order = self.account.order;
        let rows = self.account.rows();
        let slots = u32::try_from(self.account.facts.devices.len()).unwrap_or(u32::MAX);
        self.claimed.resize(slots as usize, Default::default());
        for slot in 0..slots {
            self.account.facts.devices[slot as usize]
                .totals
                .forget_peaks();
            for gauge in GaugeKind::all() {
                let claimed = self.claimed[slot as usize][gauge.index()];
                let held = &mut self.account.facts.devices[slot as usize];
                let total = held.totals.gauge_mut(gauge);
                let now = Peak {
                    bytes: total.bytes(),
                    time: 0,
                };
                total.remember_since_mark(now);
                total.remember(now, order);
                if let Some(claimed) = claimed {
                    total.remember_since_mark(claimed.since_mark);
                    total.remember(claimed.peak, claimed.order.min(order));
                }
                let known = total.peak().bytes;
                // A device's peak that came with these records has all that lives in it, an
                // earlier one has none of it.
                let peak_number = self.observer.device_peaks(slot, gauge);
                let before = self.peaks_before[slot as usize][gauge.index()];
                held.moments[gauge.index()] = DeviceMoment {
                    peak_number,
                    order: if peak_number == before { 0 } else { order },
                };
                let facts = &self.account.facts;
                let at_peak = peak::at(facts, &rows, slot, gauge, Moment::OfProcess);
                let sum = at_peak
                    .map(|entry| entry.bytes())
                    .fold(0, u64::saturating_add);
                if sum != known {
                    let held = &mut self.account.facts.devices[slot as usize];
                    let total = held.totals.gauge_mut(gauge);
                    *total = total.without_peaks();
                    total.remember(now, order);
                    total.remember_since_mark(now);
                    self.account.facts.anomalies.count(Anomaly::Malformed);
                    self.refused.push(Anomaly::Malformed);
                }
            }
        }
        (self.account, self.refused)
    }
}

/// What a record shares by its number.
fn shared<T>(known: &[Arc<T>], number: Option<u32>) -> Result<Option<Arc<T>>, Anomaly> {
    let Some(number) = number else {
        return Ok(None);
    };
    let found = known.get(number as usize).map(Arc::clone);
    found.map(Some).ok_or(Anomaly::Malformed)
}
