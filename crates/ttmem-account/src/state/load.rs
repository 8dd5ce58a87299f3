//! Making an account of its state.

use super::codec::{Clock, Codec, MAX_COUNT, Reader};
use super::layout::{
    Head, SavedAllocator, SavedConfigRing, SavedDevice, SavedMark, SavedPart, SavedPlacement,
    SavedPrefetcher, SavedProgram, SavedRun, SavedSet, SavedTrace, fingerprint,
};
use crate::Map;
use crate::account::{Account, Capturing, ProgramKey};
use crate::anomaly::Anomaly;
use crate::apply::{Apply, MAX_PER_PROGRAM, Outcome};
use crate::buffers::BufferRow;
use crate::device::DeviceMoment;
use crate::gauge::Gauge;
use crate::legacy_cbs::LegacyCb;
use crate::limits::{ABSURD_BYTES, Limits, MAX_HELD_BYTES};
use crate::observer::{Holding, Observer};
use crate::peak_composition::{self as peak, Moment, PeakEntry};
use crate::program::{Cb, Cover, Kernel, Placement, ProgramOnDevice};
use crate::residency::{Captured, MAX_CAPTURED};
use crate::totals::GaugeKind;
use std::collections::BTreeMap;
use std::sync::Arc;
use ttmem_event::{Class, CoreSet, CoresId, MeshId};

impl Account {
    /// Makes of an account that has its definitions and nothing else the one that was saved.
    ///
    /// `clock` reads the times of the writer. What cannot be is counted and left out; bytes
    /// that cannot be read end the state there, and what came before them stands.
    #[must_use]
    pub fn load<O: Observer>(
        self,
        bytes: &[u8],
        clock: &dyn Fn(u64) -> u64,
        limits: &Limits,
        observer: &mut O,
    ) -> Self {
        let clock = Clock(clock);
        let mut read = Reader { bytes, clock };
        let mut loader = Loader {
            account: self,
            observer,
            limits,
            devices: Vec::new(),
            meshes: Vec::new(),
            devices_taken: 0,
            placements: Vec::new(),
            covers: Vec::new(),
            peaks: Vec::new(),
            peaks_before: Vec::new(),
        };
        let is_whole = loader.read_all(&mut read) && read.bytes.is_empty();
        if !is_whole {
            loader.account.facts.anomalies.count(Anomaly::Malformed);
        }
        loader.finish()
    }
}

struct Loader<'a, O> {
    account: Account,
    observer: &'a mut O,
    limits: &'a Limits,
    /// The slots of this account by those of the saved one.
    devices: Vec<Option<u32>>,
    meshes: Vec<Option<u32>>,
    devices_taken: u32,
    placements: Vec<Arc<Placement>>,
    covers: Vec<Arc<Cover>>,
    /// Peaks that are claimed, by slot of this account; held against what was live then.
    peaks: Vec<Vec<Gauge>>,
    /// Peaks of the devices before anything was booked.
    peaks_before: Vec<[u64; GaugeKind::COUNT]>,
}

impl<O: Observer> Loader<'_, O> {
    /// Reads list after list; false when the bytes break off.
    fn read_all(&mut self, read: &mut Reader<'_>) -> bool {
        let Some(head) = read.get::<Head>() else {
            return false;
        };
        if head.layout != fingerprint() {
            return false;
        }
        self.take_head(&head);
        self.each(read, Self::take_mark)
            && self.each(read, Self::take_device)
            && self.each(read, Self::take_allocator)
            && self.each(read, Self::take_buffer)
            && self.each(read, Self::take_legacy_cb)
            && self.each(read, Self::take_placement)
            && self.each(read, Self::take_cover)
            && self.each(read, Self::take_program)
            && self.each(read, Self::take_trace)
            && self.each(read, Self::take_freed)
            && self.each(read, Self::take_config_ring)
            && self.each(read, Self::take_prefetcher)
    }

    /// Takes every item of a list; false when it breaks off.
    fn each<T: Codec>(
        &mut self,
        read: &mut Reader<'_>,
        take: impl Fn(&mut Self, T) -> Outcome,
    ) -> bool {
        read.each(|item| self.note(|loader| take(loader, item)))
    }

    fn note(&mut self, take: impl FnOnce(&mut Self) -> Outcome) {
        if let Err(anomaly) = take(self) {
            self.account.facts.anomalies.count(anomaly);
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

    fn device(&self, saved: u32) -> Result<u32, Anomaly> {
        let slot = self.devices.get(saved as usize).copied().flatten();
        slot.ok_or(Anomaly::Undefined)
    }

    fn mesh(&self, saved: u32) -> Result<u32, Anomaly> {
        let slot = self.meshes.get(saved as usize).copied().flatten();
        slot.ok_or(Anomaly::Undefined)
    }

    fn take_head(&mut self, head: &Head) {
        if self.account.legacy {
            for number in &head.meshes {
                if *number <= self.limits.last_legacy_device {
                    // Without room for it, what is on it finds no device.
                    let _refused = self.apply(0).add_legacy_mesh(*number);
                }
            }
        }
        let account = &mut self.account;
        let (devices, meshes) = if account.legacy {
            let meshes = &account.legacy_meshes;
            let device = |mesh: u32| account.facts.meshes[mesh as usize].devices.first().copied();
            let device = |number: &u32| meshes.get(number).copied().and_then(device);
            (head.devices.iter().map(device).collect(), meshes)
        } else {
            let ids = &account.device_ids;
            let device = |number: &u32| ids.get(number).copied();
            (head.devices.iter().map(device).collect(), &account.mesh_ids)
        };
        self.meshes = head
            .meshes
            .iter()
            .map(|id| meshes.get(id).copied())
            .collect();
        self.devices = devices;
        account.order = head.order.min(MAX_COUNT);
        account.runs = head.runs.min(MAX_COUNT);
        account.first_own_buffer = head.first_own_buffer;
        account.highest_buffer = head.highest_buffer;
        account.last_report = head.last_report;
        let facts = &mut account.facts;
        facts.inherited_frees = head.inherited_frees.min(MAX_COUNT);
        facts.leak_candidates = head.leak_candidates;
        for (anomaly, count) in Anomaly::ALL.iter().zip(&head.anomalies) {
            let known = facts.anomalies.of(*anomaly);
            let beyond = (*count).min(MAX_COUNT).saturating_sub(known);
            facts.anomalies.add(*anomaly, beyond);
        }
        for untracked in &head.untracked {
            facts.note_untracked(*untracked);
        }
        let slots = 0..u32::try_from(facts.devices.len()).unwrap_or(u32::MAX);
        self.peaks.resize(slots.len(), Vec::new());
        for slot in slots {
            let mut peaks = [0; GaugeKind::COUNT];
            for gauge in GaugeKind::all() {
                peaks[gauge.index()] = self.observer.device_peaks(slot, gauge);
            }
            self.peaks_before.push(peaks);
        }
    }

    fn take_mark(&mut self, saved: SavedMark) -> Outcome {
        let facts = &mut self.account.facts;
        let mut peaks = Vec::new();
        if !saved.peaks.is_empty() {
            peaks.resize(facts.devices.len(), Default::default());
        }
        for (slot, peak) in self.devices.iter().zip(saved.peaks) {
            if let Some(slot) = slot {
                peaks[*slot as usize] = peak;
            }
        }
        Arc::make_mut(&mut facts.marks).restore(saved.mark, peaks);
        Ok(())
    }

    fn take_device(&mut self, device: SavedDevice) -> Outcome {
        let saved = self.devices_taken;
        self.devices_taken += 1;
        let slot = self.device(saved)?;
        if let Some(id) = device.opened
            && self.account.device_ids.get(&id.0) == Some(&slot)
        {
            self.apply(0).describe_device(slot, id);
        }
        for (class, capacity) in Class::ALL.iter().zip(device.capacities) {
            if let Some(capacity) = capacity {
                capacity.check()?;
                self.apply(0).note_capacity(slot, *class, capacity);
            }
        }
        let runs = self.account.runs;
        let held = &mut self.account.facts.devices[slot as usize];
        held.caches = device.caches;
        for left in device.vacancies.iter().filter(|left| left.run <= runs) {
            let mut cores = CoreSet::default();
            cores.insert_row(left.row, left.columns);
            let vacated = Arc::make_mut(held.vacated.get_or_insert_default());
            vacated.leave(left.core_type, &cores, left.run, left.time);
        }
        self.peaks[slot as usize] = device.peaks;
        Ok(())
    }

    fn take_allocator(&mut self, saved: SavedAllocator) -> Outcome {
        let mesh = self.mesh(saved.mesh)?;
        self.apply(0).use_mesh(mesh);
        let known = &mut self.account.facts.meshes[mesh as usize];
        known.allocators[saved.class.index()].verified = saved.verified;
        match saved.capacity {
            Some(capacity) => self.apply(0).set_capacity(mesh, saved.class, capacity),
            None => Ok(()),
        }
    }

    fn take_buffer(&mut self, mut row: BufferRow) -> Outcome {
        row.mesh = self.mesh(row.mesh)?;
        let cores = self.account.facts.definitions.cores(row.cores_id);
        let banks = cores.map(|cores| cores.len());
        if row.cores_id != CoresId::NONE && banks != Some(u32::from(row.banks)) {
            return Err(Anomaly::Undefined);
        }
        let buffers = &self.account.buffers;
        let is_known = buffers.find(buffers.key_of(&row)).is_some();
        if is_known || row.order > self.account.order {
            return Err(Anomaly::Malformed);
        }
        let mut apply = self.apply(row.time);
        apply.check_size(&row)?;
        apply.book_row(row)
    }

    /// Takes what was live at a peak; what cannot have been released since is refused.
    fn take_freed(&mut self, mut entry: PeakEntry) -> Outcome {
        if entry.placed >= entry.freed || entry.freed > self.account.order || entry.count == 0 {
            return Err(Anomaly::Malformed);
        }
        if entry.bytes > MAX_HELD_BYTES {
            return Err(Anomaly::AbsurdSize);
        }
        if self.account.freed.len() >= self.limits.buffers {
            return Err(Anomaly::LimitReached);
        }
        entry.place = match entry.gauge {
            GaugeKind::Class(_class) => self.mesh(entry.place)?,
            GaugeKind::Cb | GaugeKind::Kernel => self.device(entry.place)?,
        };
        let place = entry.place as usize;
        let list = match entry.gauge {
            GaugeKind::Class(class) => {
                &mut self.account.facts.meshes[place].allocators[class.index()].freed
            }
            GaugeKind::Cb => &mut self.account.on_device[place].freed_cbs,
            GaugeKind::Kernel => &mut self.account.on_device[place].freed_kernels,
        };
        self.account.freed.push(list, entry, u64::MAX);
        Ok(())
    }

    fn take_legacy_cb(&mut self, mut row: LegacyCb) -> Outcome {
        row.device = self.device(row.device)?;
        let cb = &row.cb;
        let is_legacy = self.account.legacy && cb.cores_id == CoresId::NONE && cb.core_count == 1;
        if !is_legacy || cb.order > self.account.order || cb.size_bytes > ABSURD_BYTES {
            return Err(Anomaly::Malformed);
        }
        self.apply(cb.time).book_legacy_cb(row)
    }

    /// Takes what programs have; one that cannot be has nothing in it, but keeps its number.
    fn take_placement(&mut self, saved: SavedPlacement) -> Outcome {
        let mut placement = Placement::default();
        for cb in saved.cbs {
            self.note(|loader| {
                loader.check_cb(&cb)?;
                placement.put(cb, MAX_PER_PROGRAM).map(drop)
            });
        }
        for kernel in saved.kernels {
            self.note(|loader| {
                loader.check_kernel(&kernel)?;
                placement.put(kernel, MAX_PER_PROGRAM).map(drop)
            });
        }
        self.placements.push(Arc::new(placement));
        Ok(())
    }

    fn check_cb(&self, cb: &Cb) -> Outcome {
        let cores = self.account.facts.definitions.cores(cb.cores_id);
        let count = match cores {
            Some(cores) => cores.len(),
            // Those of old senders are on no cores that are known.
            None if cb.cores_id == CoresId::NONE && self.account.legacy => 1,
            None => return Err(Anomaly::Undefined),
        };
        if cb.core_count != count || cb.size_bytes > ABSURD_BYTES || cb.order > self.account.order {
            return Err(Anomaly::Malformed);
        }
        Ok(())
    }

    fn check_kernel(&self, kernel: &Kernel) -> Outcome {
        let cores = self.account.facts.definitions.cores(kernel.cores_id);
        let is_known = kernel.cores_id == CoresId::NONE || cores.is_some();
        let count_fits = cores.is_none_or(|cores| kernel.core_count == Some(cores.len()));
        let adds_up = match (kernel.binary_bytes, kernel.core_count) {
            (Some(bytes), Some(count)) => {
                bytes.checked_mul(u64::from(count)) == Some(kernel.total_bytes)
            }
            (None, None) => true,
            _half_known => false,
        };
        let too_large = kernel.total_bytes > ABSURD_BYTES || kernel.order > self.account.order;
        if !is_known || !count_fits || !adds_up || too_large {
            return Err(Anomaly::Malformed);
        }
        Ok(())
    }

    fn take_cover(&mut self, sets: Vec<SavedSet>) -> Outcome {
        let mut cover = Cover::default();
        for (core_type, cores) in sets {
            self.note(|loader| {
                let known = loader.account.facts.definitions.cores(cores);
                known.ok_or(Anomaly::Undefined)?;
                cover.insert(core_type, cores, 2 * MAX_PER_PROGRAM)
            });
        }
        self.covers.push(Arc::new(cover));
        Ok(())
    }

    fn take_program(&mut self, saved: SavedProgram) -> Outcome {
        let (id, created) = (saved.program.id, saved.program.created);
        let key = if self.account.legacy {
            ProgramKey::LegacyKernel(id.0)
        } else {
            ProgramKey::Tracked(id)
        };
        if self.account.program_index.contains_key(&key) {
            return Err(Anomaly::Malformed);
        }
        let slot = self.apply(created).program_slot_or_add(key, id)?;
        let live = self.account.programs.get_mut(slot);
        *live.ok_or(Anomaly::LimitReached)? = saved.program;
        for part in saved.parts {
            self.note(|loader| loader.take_part(slot, part));
        }
        Ok(())
    }

    fn take_part(&mut self, program: u32, saved: SavedPart) -> Outcome {
        let slot = self.device(saved.part.device)?;
        let placement = shared(&self.placements, saved.placement)?;
        let ran = shared(&self.covers, saved.cover)?;
        let live = self.account.programs.get(program);
        let live = live.ok_or(Anomaly::Malformed)?;
        if live.on_device(slot).is_some() || saved.part.run > self.account.runs {
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
        apply.check_held(&[slot], GaugeKind::Cb, cb_bytes)?;
        apply.check_held(&[slot], GaugeKind::Kernel, kernel_bytes)?;
        if apply.account.placed + cbs.len() + kernels.len() > apply.limits.placed {
            return Err(Anomaly::LimitReached);
        }
        let on = apply.part_mut(program, slot)?;
        *on = ProgramOnDevice {
            device: slot,
            placement: placement.clone(),
            ran,
            ..saved.part
        };
        for cb in cbs {
            apply.time = cb.time;
            apply.book_holding(slot, &Holding::Cb(id, cb));
        }
        for kernel in kernels {
            apply.time = kernel.time;
            apply.book_holding(slot, &Holding::Kernel(id, kernel));
        }
        Ok(())
    }

    fn take_trace(&mut self, saved: SavedTrace) -> Outcome {
        let mesh = self.mesh(saved.mesh)?;
        let mut trace = saved.trace;
        let last_run = trace.replay.map_or(0, |replay| replay.run);
        let last_run = last_run.saturating_add(trace.next);
        let ran = trace.replay.is_some();
        if (ran && last_run > self.account.runs) || trace.next > MAX_COUNT {
            return Err(Anomaly::Malformed);
        }
        let key = (mesh, saved.id);
        let traces = &self.account.facts.traces;
        if traces.len() >= self.limits.traces || traces.contains_key(&key) {
            return Err(Anomaly::LimitReached);
        }
        let mut last = Map::default();
        let mut captured = BTreeMap::new();
        for run in saved.captured {
            if captured.len() == MAX_CAPTURED || run.number > trace.next {
                return Err(Anomaly::LimitReached);
            }
            let number = run.number;
            let run = self.captured(run)?;
            last.insert((run.program, run.mesh), number);
            captured.insert(number, run);
        }
        trace.captured = Arc::new(captured);
        self.account.facts.traces.insert(key, trace);
        let id = self.account.facts.meshes[mesh as usize].id;
        if let Some(id) = id.filter(|_id: &MeshId| saved.capturing) {
            let capturing = Capturing { trace: key, last };
            self.account.capturing.insert(id, capturing);
        }
        self.apply(0).use_mesh(mesh);
        Ok(())
    }

    fn captured(&self, saved: SavedRun) -> Result<Captured, Anomaly> {
        let mesh = self.mesh(saved.mesh)?;
        let key = ProgramKey::Tracked(saved.program);
        let slot = self.account.program_index.get(&key);
        let covers = saved.covers.iter();
        let covers: Result<Vec<_>, _> = covers
            .map(|cover| shared(&self.covers, Some(*cover))?.ok_or(Anomaly::Malformed))
            .collect();
        let covers = covers?;
        let devices = &self.account.facts.meshes[mesh as usize].devices;
        if covers.len() > devices.len() {
            return Err(Anomaly::Malformed);
        }
        Ok(Captured {
            program: saved.program,
            // The slot of a program that is gone names none.
            slot: slot.copied().unwrap_or(u32::MAX),
            mesh,
            covers,
        })
    }

    fn take_config_ring(&mut self, saved: SavedConfigRing) -> Outcome {
        let key = (self.mesh(saved.mesh)?, saved.sub_device, saved.core_type);
        let (base, size_bytes) = (saved.config_ring.base, saved.config_ring.size_bytes);
        self.apply(0).open_config_ring(key, base, size_bytes)?;
        let config_ring = self.account.facts.config_rings.get_mut(&key);
        let config_ring = Arc::make_mut(config_ring.ok_or(Anomaly::LimitReached)?);
        config_ring.restore(saved.config_ring, saved.entries)
    }

    fn take_prefetcher(&mut self, saved: SavedPrefetcher) -> Outcome {
        let mesh = self.mesh(saved.mesh)?;
        let size_bytes = saved.prefetcher.size_bytes;
        self.apply(0).open_prefetcher(mesh, size_bytes)?;
        let cache = self.account.facts.prefetchers.get_mut(&mesh);
        let cache = Arc::make_mut(cache.ok_or(Anomaly::LimitReached)?);
        cache.restore(saved.prefetcher, saved.entries)
    }

    /// Holds the peaks that are claimed against what was live then.
    fn finish(mut self) -> Account {
        let order = self.account.order;
        let rows = self.account.rows();
        for (slot, claimed) in (0_u32..).zip(std::mem::take(&mut self.peaks)) {
            for gauge in GaugeKind::all() {
                let facts = &mut self.account.facts;
                let held = &mut facts.devices[slot as usize];
                // A device's peak that came with this state has all that lives in it, an
                // earlier one has none of it.
                let peak_number = self.observer.device_peaks(slot, gauge);
                let before = self.peaks_before[slot as usize][gauge.index()];
                held.moments[gauge.index()] = DeviceMoment {
                    peak_number,
                    order: if peak_number == before { 0 } else { order },
                };
                let total = held.totals.gauge_mut(gauge);
                *total = total.at_peak(order);
                let now = *total;
                if let Some(claimed) = claimed.get(gauge.index()) {
                    total.remember_since_mark(claimed.since_mark());
                    total.remember(claimed.peak(), claimed.peak_order().min(order));
                }
                let highest = total.peak().bytes;
                let at_peak = peak::at(facts, &rows, slot, gauge, Moment::OfProcess);
                let sum = at_peak
                    .map(|entry| entry.bytes)
                    .fold(0, u64::saturating_add);
                if sum != highest {
                    *facts.devices[slot as usize].totals.gauge_mut(gauge) = now;
                    facts.anomalies.count(Anomaly::Malformed);
                }
            }
        }
        self.account
    }
}

/// What is shared, by its number.
fn shared<T>(known: &[Arc<T>], number: Option<u32>) -> Result<Option<Arc<T>>, Anomaly> {
    let Some(number) = number else {
        return Ok(None);
    };
    let found = known.get(number as usize).map(Arc::clone);
    found.map(Some).ok_or(Anomaly::Malformed)
}
