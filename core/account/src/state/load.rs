//! Making an account of its state.

use super::codec::{Clock, Codec, MAX_COUNT, Reader, Room};
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
use crate::mark::MarkOwner;
use crate::observer::{Holding, Observer};
use crate::peak_composition::PeakEntry;
use crate::program::{Cb, Cover, Kernel, Placement, ProgramOnDevice};
use crate::residency::{Captured, MAX_CAPTURED, Vacated};
use crate::totals::{GaugeKind, PeakSet};
use std::collections::BTreeMap;
use std::sync::Arc;
use ttmem_event::{Class, CoreSet, CoreType, CoresId, MeshId, ProgramId, TextId};

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
        let mut loading = Loading::new(self);
        while !loading.go_on(bytes, clock, limits, observer, u64::MAX) {}
        loading.account
    }
}

/// What an item costs in work units: as much as an event, for it is a new row of a table that no cache
/// holds.
const ITEM_WORK: u64 = 8;

/// What a row takes besides twice its size: its place in indexes.
const ROW_BYTES: usize = 64;

/// What an entry takes in two trees.
const TREE_BYTES: usize = 256;

/// What the cores that were left on a device take.
fn vacated_bytes(device: &SavedDevice) -> usize {
    let of_type = |core_type: &CoreType| {
        device
            .vacancies
            .iter()
            .any(|left| left.core_type == *core_type)
    };
    let types = CoreType::ALL.iter().filter(|core_type| of_type(core_type));
    ROW_BYTES + types.count() * Vacated::BOX_BYTES
}

/// An account on its way to become the one that was saved, a part at a time.
#[derive(Debug)]
pub struct Loading {
    account: Account,
    /// How many of the bytes were read, which of the lists comes next, and how many of its items
    /// are left if it has begun.
    read: usize,
    list: usize,
    left: Option<u64>,
    /// The slots of this account by those of the saved one.
    devices: Vec<Option<u32>>,
    meshes: Vec<Option<u32>>,
    devices_taken: u32,
    placements: Vec<Arc<Placement>>,
    covers: Vec<Arc<Cover>>,
    /// Peaks that are claimed, by slot of this account; held against what was live then.
    peaks: Vec<Vec<Gauge>>,
    /// By slot: the bytes that were live at the peaks that are claimed.
    at_peaks: Vec<[u64; GaugeKind::COUNT]>,
    /// Peaks of the devices before anything was booked.
    peaks_before: Vec<[u64; GaugeKind::COUNT]>,
    /// The latest time of anything that was booked.
    latest: u64,
    room: Room,
}

impl Loading {
    /// Begins with an account that has its definitions and nothing else.
    #[must_use]
    pub fn new(account: Account) -> Self {
        Self::within(account, Room::default())
    }

    /// The same, with so much room for what is made of the bytes.
    pub(super) fn within(account: Account, room: Room) -> Self {
        Self {
            account,
            read: 0,
            list: 0,
            left: None,
            devices: Vec::new(),
            meshes: Vec::new(),
            devices_taken: 0,
            placements: Vec::new(),
            covers: Vec::new(),
            peaks: Vec::new(),
            at_peaks: Vec::new(),
            peaks_before: Vec::new(),
            latest: 0,
            room,
        }
    }

    #[must_use]
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// The account, and the latest time of anything that was booked.
    #[must_use]
    pub fn finish(self) -> (Account, u64) {
        (self.account, self.latest)
    }

    /// The account, and the room that it took.
    pub(super) fn into_whole(self) -> (Account, Room) {
        (self.account, self.room)
    }

    /// Goes on for so many work units; true when all is done. Each call is given the same state.
    pub fn go_on<O: Observer>(
        &mut self,
        bytes: &[u8],
        clock: &dyn Fn(u64) -> u64,
        limits: &Limits,
        observer: &mut O,
        work: u64,
    ) -> bool {
        let clock = Clock(clock);
        let rest = bytes.get(self.read..).unwrap_or_default();
        let mut read = Reader {
            bytes: rest,
            clock,
            texts: &[],
            is_first_layout: false,
            has_calls: true,
            room: std::mem::take(&mut self.room),
        };
        let until = self.account.work.saturating_add(work);
        let mut loader = Loader {
            loading: self,
            observer,
            limits,
            until,
        };
        let came = loader.read_all(&mut read);
        loader.loading.read = bytes.len() - read.bytes.len();
        loader.loading.room = std::mem::take(&mut read.room);
        if came == Came::Paused {
            return false;
        }
        if came == Came::Broken || !read.bytes.is_empty() {
            loader
                .loading
                .account
                .facts
                .anomalies
                .count(Anomaly::Malformed);
        }
        loader.finish();
        true
    }
}

/// How far reading came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Came {
    ToTheEnd,
    /// The work it may do is done.
    Paused,
    /// The bytes break off.
    Broken,
}

struct Loader<'a, O> {
    loading: &'a mut Loading,
    observer: &'a mut O,
    limits: &'a Limits,
    /// The work of the account at which to pause.
    until: u64,
}

impl<O: Observer> Loader<'_, O> {
    /// Reads list after list.
    fn read_all(&mut self, read: &mut Reader<'_>) -> Came {
        loop {
            let list = self.loading.list;
            let came = match list {
                0 => self.read_head(read),
                1 => {
                    let peaks = self.loading.devices.len() * size_of::<PeakSet>();
                    self.each_with(read, move |_mark: &SavedMark| 2 * peaks, Self::take_mark)
                }
                2 => self.each_with(read, vacated_bytes, Self::take_device),
                3 => self.each(read, Self::take_allocator),
                4 => self.each(read, Self::take_buffer),
                5 => self.each(read, Self::take_legacy_cb),
                6 => self.each(read, Self::take_placement),
                7 => self.each(read, Self::take_cover),
                8 => self.each(read, Self::take_program),
                9 => {
                    let extra = |trace: &SavedTrace| TREE_BYTES * trace.captured.len();
                    self.each_with(read, extra, Self::take_trace)
                }
                10 => self.each(read, Self::take_freed),
                11 => {
                    let extra = |ring: &SavedConfigRing| TREE_BYTES * ring.entries.len();
                    self.each_with(read, extra, Self::take_config_ring)
                }
                12 => {
                    let extra = |cache: &SavedPrefetcher| TREE_BYTES * cache.entries.len();
                    self.each_with(read, extra, Self::take_prefetcher)
                }
                _behind => return Came::ToTheEnd,
            };
            if came != Came::ToTheEnd {
                return came;
            }
            self.loading.list += 1;
        }
    }

    fn read_head(&mut self, read: &mut Reader<'_>) -> Came {
        match read.get::<Head>() {
            Some(head) if head.layout == fingerprint() => {
                self.take_head(&head);
                Came::ToTheEnd
            }
            _other => Came::Broken,
        }
    }

    /// Takes the items of a list.
    fn each<T: Codec>(
        &mut self,
        read: &mut Reader<'_>,
        take: impl Fn(&mut Self, T) -> Outcome,
    ) -> Came {
        self.each_with(read, |_item| ROW_BYTES, take)
    }

    /// The same of items that come to more than twice their size.
    fn each_with<T: Codec>(
        &mut self,
        read: &mut Reader<'_>,
        extra: impl Fn(&T) -> usize,
        take: impl Fn(&mut Self, T) -> Outcome,
    ) -> Came {
        let left = self.loading.left.take().or_else(|| read.get::<u64>());
        let Some(left) = left else {
            return Came::Broken;
        };
        for done in 0..left {
            if self.loading.account.work >= self.until {
                self.loading.left = Some(left - done);
                return Came::Paused;
            }
            let item = read.item::<T>();
            let Some(item) = item.filter(|item| read.room.draw(extra(item)).is_some()) else {
                return Came::Broken;
            };
            self.loading.account.work += ITEM_WORK;
            self.note(|loader| take(loader, item));
        }
        Came::ToTheEnd
    }

    fn note(&mut self, take: impl FnOnce(&mut Self) -> Outcome) {
        if let Err(anomaly) = take(self) {
            self.loading.account.facts.anomalies.count(anomaly);
        }
    }

    fn apply(&mut self, time: u64) -> Apply<'_, O> {
        Apply {
            account: &mut self.loading.account,
            observer: self.observer,
            limits: self.limits,
            time,
        }
    }

    fn device(&self, saved: u32) -> Result<u32, Anomaly> {
        let slot = self.loading.devices.get(saved as usize).copied().flatten();
        slot.ok_or(Anomaly::Undefined)
    }

    fn mesh(&self, saved: u32) -> Result<u32, Anomaly> {
        let slot = self.loading.meshes.get(saved as usize).copied().flatten();
        slot.ok_or(Anomaly::Undefined)
    }

    fn take_head(&mut self, head: &Head) {
        if self.loading.account.legacy {
            for number in &head.meshes {
                if *number <= self.limits.last_legacy_device {
                    // Without room for it, what is on it finds no device.
                    let _refused = self.apply(0).add_legacy_mesh(*number);
                }
            }
        }
        let account = &mut self.loading.account;
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
        self.loading.meshes = head
            .meshes
            .iter()
            .map(|id| meshes.get(id).copied())
            .collect();
        self.loading.devices = devices;
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
        self.loading.peaks.resize(slots.len(), Vec::new());
        let none = [0; GaugeKind::COUNT];
        self.loading.at_peaks.resize(slots.len(), none);
        for slot in slots {
            let mut peaks = [0; GaugeKind::COUNT];
            for gauge in GaugeKind::all() {
                peaks[gauge.index()] = self.observer.device_peaks(slot, gauge);
            }
            self.loading.peaks_before.push(peaks);
        }
    }

    fn take_mark(&mut self, saved: SavedMark) -> Outcome {
        let facts = &mut self.loading.account.facts;
        let mut peaks = Vec::new();
        for (slot, peak) in self.loading.devices.iter().zip(saved.peaks) {
            if let Some(slot) = slot.map(|slot| slot as usize) {
                if peaks.len() <= slot {
                    peaks.resize(slot + 1, Default::default());
                }
                peaks[slot] = peak;
            }
        }
        Arc::make_mut(&mut facts.marks).restore(MarkOwner::default(), saved.mark, peaks);
        Ok(())
    }

    fn take_device(&mut self, device: SavedDevice) -> Outcome {
        let saved = self.loading.devices_taken;
        self.loading.devices_taken += 1;
        let slot = self.device(saved)?;
        if let Some(id) = device.opened
            && self.loading.account.device_ids.get(&id.0) == Some(&slot)
        {
            self.apply(0).describe_device(slot, id);
        }
        for (class, capacity) in Class::ALL.iter().zip(device.capacities) {
            if let Some(capacity) = capacity {
                capacity.check()?;
                self.apply(0).note_capacity(slot, *class, capacity);
            }
        }
        let runs = self.loading.account.runs;
        let held = &mut self.loading.account.facts.devices[slot as usize];
        held.caches = device.caches;
        for left in device.vacancies.iter().filter(|left| left.run <= runs) {
            let mut cores = CoreSet::default();
            cores.insert_row(left.row, left.columns);
            let vacated = Arc::make_mut(held.vacated.get_or_insert_default());
            vacated.leave(left.core_type, &cores, left.run, left.time);
        }
        self.loading.peaks[slot as usize] = device.peaks;
        Ok(())
    }

    fn take_allocator(&mut self, saved: SavedAllocator) -> Outcome {
        let mesh = self.mesh(saved.mesh)?;
        self.apply(0).use_mesh(mesh);
        let known = &mut self.loading.account.facts.meshes[mesh as usize];
        known.allocators[saved.class.index()].verified = saved.verified;
        match saved.capacity {
            Some(capacity) => self.apply(0).set_capacity(mesh, saved.class, capacity),
            None => Ok(()),
        }
    }

    fn take_buffer(&mut self, mut row: BufferRow) -> Outcome {
        row.mesh = self.mesh(row.mesh)?;
        let cores = self.loading.account.facts.definitions.cores(row.cores_id);
        let banks = cores.map(|cores| cores.len());
        if row.cores_id != CoresId::NONE && banks != Some(u32::from(row.banks)) {
            return Err(Anomaly::Undefined);
        }
        let buffers = &self.loading.account.buffers;
        let is_known = buffers.find(buffers.key_of(&row)).is_some();
        if is_known || !self.is_event(row.order) {
            return Err(Anomaly::Malformed);
        }
        let mut apply = self.apply(row.time);
        apply.check_size(&row)?;
        apply.book_row(row)?;
        self.count_at_peaks(row.time, &PeakEntry::of_buffer(&row));
        Ok(())
    }

    /// Whether the account had an event of this number. Events count from 1: 0 stands for the time before
    /// them, when nothing was live.
    fn is_event(&self, order: u64) -> bool {
        (1..=self.loading.account.order).contains(&order)
    }

    /// Counts what was booked among what was live at the peaks that are claimed.
    fn count_at_peaks(&mut self, time: u64, entry: &PeakEntry) {
        let loading = &mut *self.loading;
        loading.latest = loading.latest.max(time);
        let (order, gauge) = (loading.account.order, entry.gauge.index());
        for slot in entry.devices(&loading.account.facts) {
            let claimed = loading.peaks.get(*slot as usize);
            let claimed = claimed.and_then(|gauges| gauges.get(gauge));
            if claimed.is_some_and(|gauge| entry.was_live_at(gauge.peak_order().min(order))) {
                let sum = &mut loading.at_peaks[*slot as usize][gauge];
                *sum = sum.saturating_add(entry.bytes);
            }
        }
    }

    /// Takes what was live at a peak; what cannot have been released since is refused.
    fn take_freed(&mut self, mut entry: PeakEntry) -> Outcome {
        let are_events = self.is_event(entry.placed) && self.is_event(entry.freed);
        if !are_events || entry.placed >= entry.freed || entry.count == 0 {
            return Err(Anomaly::Malformed);
        }
        if entry.bytes > MAX_HELD_BYTES {
            return Err(Anomaly::AbsurdSize);
        }
        if self.loading.account.freed.len() >= self.limits.buffers {
            return Err(Anomaly::LimitReached);
        }
        entry.place = match entry.gauge {
            GaugeKind::Class(_class) => self.mesh(entry.place)?,
            GaugeKind::Cb | GaugeKind::Kernel => self.device(entry.place)?,
        };
        let place = entry.place as usize;
        let list = match entry.gauge {
            GaugeKind::Class(class) => {
                &mut self.loading.account.facts.meshes[place].allocators[class.index()].freed
            }
            GaugeKind::Cb => &mut self.loading.account.on_device[place].freed_cbs,
            GaugeKind::Kernel => &mut self.loading.account.on_device[place].freed_kernels,
        };
        self.loading.account.freed.push(list, entry, u64::MAX);
        self.count_at_peaks(0, &entry);
        Ok(())
    }

    fn take_legacy_cb(&mut self, mut row: LegacyCb) -> Outcome {
        row.device = self.device(row.device)?;
        let cb = &row.cb;
        let is_legacy =
            self.loading.account.legacy && cb.cores_id == CoresId::NONE && cb.core_count == 1;
        if !is_legacy || !self.is_event(cb.order) || cb.size_bytes > ABSURD_BYTES {
            return Err(Anomaly::Malformed);
        }
        self.apply(cb.time).book_legacy_cb(row)?;
        let holding = Holding::Cb(ProgramId(0), &row.cb);
        let entry = PeakEntry::of_holding(row.device, TextId::NONE, &holding);
        self.count_at_peaks(row.cb.time, &entry);
        Ok(())
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
        self.loading.placements.push(Arc::new(placement));
        Ok(())
    }

    fn check_cb(&self, cb: &Cb) -> Outcome {
        let cores = self.loading.account.facts.definitions.cores(cb.cores_id);
        let count = match cores {
            Some(cores) => cores.len(),
            // Those of old senders are on no cores that are known.
            None if cb.cores_id == CoresId::NONE && self.loading.account.legacy => 1,
            None => return Err(Anomaly::Undefined),
        };
        let is_too_large = cb.size_bytes > ABSURD_BYTES;
        if cb.core_count != count || is_too_large || !self.is_event(cb.order) {
            return Err(Anomaly::Malformed);
        }
        Ok(())
    }

    fn check_kernel(&self, kernel: &Kernel) -> Outcome {
        let cores = self
            .loading
            .account
            .facts
            .definitions
            .cores(kernel.cores_id);
        let is_known = kernel.cores_id == CoresId::NONE || cores.is_some();
        let count_fits = cores.is_none_or(|cores| kernel.core_count == Some(cores.len()));
        let adds_up = match (kernel.binary_bytes, kernel.core_count) {
            (Some(bytes), Some(count)) => {
                bytes.checked_mul(u64::from(count)) == Some(kernel.total_bytes)
            }
            (None, None) => true,
            _half_known => false,
        };
        let is_sound = kernel.total_bytes <= ABSURD_BYTES && self.is_event(kernel.order);
        if !is_known || !count_fits || !adds_up || !is_sound {
            return Err(Anomaly::Malformed);
        }
        Ok(())
    }

    fn take_cover(&mut self, sets: Vec<SavedSet>) -> Outcome {
        let mut cover = Cover::default();
        for (core_type, cores) in sets {
            self.note(|loader| {
                let known = loader.loading.account.facts.definitions.cores(cores);
                known.ok_or(Anomaly::Undefined)?;
                cover.insert(core_type, cores, 2 * MAX_PER_PROGRAM)
            });
        }
        self.loading.covers.push(Arc::new(cover));
        Ok(())
    }

    fn take_program(&mut self, saved: SavedProgram) -> Outcome {
        let (id, created) = (saved.program.id, saved.program.created);
        let key = if self.loading.account.legacy {
            ProgramKey::LegacyKernel(id.0)
        } else {
            ProgramKey::Tracked(id)
        };
        if self.loading.account.program_index.contains_key(&key) {
            return Err(Anomaly::Malformed);
        }
        let slot = self.apply(created).program_slot_or_add(key, id)?;
        let live = self.loading.account.programs.get_mut(slot);
        *live.ok_or(Anomaly::LimitReached)? = saved.program;
        for part in saved.parts {
            self.note(|loader| loader.take_part(slot, part));
        }
        Ok(())
    }

    fn take_part(&mut self, program: u32, saved: SavedPart) -> Outcome {
        let slot = self.device(saved.part.device)?;
        let placement = shared(&self.loading.placements, saved.placement)?;
        let ran = shared(&self.loading.covers, saved.cover)?;
        let live = self.loading.account.programs.get(program);
        let live = live.ok_or(Anomaly::Malformed)?;
        if live.on_device(slot).is_some() || saved.part.run > self.loading.account.runs {
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
        self.loading.account.work += (cbs.len() + kernels.len()) as u64;
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
        let cbs = cbs.iter().map(|cb| (cb.time, Holding::Cb(id, cb)));
        let kernels = kernels.iter();
        let kernels = kernels.map(|kernel| (kernel.time, Holding::Kernel(id, kernel)));
        for (time, holding) in cbs.chain(kernels) {
            self.apply(time).book_holding(slot, &holding);
            // Its name is of no account here.
            let entry = PeakEntry::of_holding(slot, TextId::NONE, &holding);
            self.count_at_peaks(time, &entry);
        }
        Ok(())
    }

    fn take_trace(&mut self, saved: SavedTrace) -> Outcome {
        let mesh = self.mesh(saved.mesh)?;
        let mut trace = saved.trace;
        let last_run = trace.replay.map_or(0, |replay| replay.run);
        let last_run = last_run.saturating_add(trace.next);
        let ran = trace.replay.is_some();
        if (ran && last_run > self.loading.account.runs) || trace.next > MAX_COUNT {
            return Err(Anomaly::Malformed);
        }
        let key = (mesh, saved.id);
        let traces = &self.loading.account.facts.traces;
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
        self.loading.account.facts.traces.insert(key, trace);
        let id = self.loading.account.facts.meshes[mesh as usize].id;
        if let Some(id) = id.filter(|_id: &MeshId| saved.capturing) {
            let capturing = Capturing { trace: key, last };
            self.loading.account.capturing.insert(id, capturing);
        }
        self.apply(0).use_mesh(mesh);
        Ok(())
    }

    fn captured(&self, saved: SavedRun) -> Result<Captured, Anomaly> {
        let mesh = self.mesh(saved.mesh)?;
        let key = ProgramKey::Tracked(saved.program);
        let slot = self.loading.account.program_index.get(&key);
        let covers = saved.covers.iter();
        let covers: Result<Vec<_>, _> = covers
            .map(|cover| shared(&self.loading.covers, Some(*cover))?.ok_or(Anomaly::Malformed))
            .collect();
        let covers = covers?;
        let devices = &self.loading.account.facts.meshes[mesh as usize].devices;
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
        let config_ring = self.loading.account.facts.config_rings.get_mut(&key);
        let config_ring = Arc::make_mut(config_ring.ok_or(Anomaly::LimitReached)?);
        config_ring.restore(saved.config_ring, saved.entries)
    }

    fn take_prefetcher(&mut self, saved: SavedPrefetcher) -> Outcome {
        let mesh = self.mesh(saved.mesh)?;
        let size_bytes = saved.prefetcher.size_bytes;
        self.apply(0).open_prefetcher(mesh, size_bytes)?;
        let cache = self.loading.account.facts.prefetchers.get_mut(&mesh);
        let cache = Arc::make_mut(cache.ok_or(Anomaly::LimitReached)?);
        cache.restore(saved.prefetcher, saved.entries)
    }

    /// Holds the peaks that are claimed against what was live then.
    fn finish(&mut self) {
        let loading = &mut *self.loading;
        let order = loading.account.order;
        let facts = &mut loading.account.facts;
        for (slot, claimed) in (0_u32..).zip(std::mem::take(&mut loading.peaks)) {
            let at_peaks = loading.at_peaks[slot as usize];
            for gauge in GaugeKind::all() {
                let held = &mut facts.devices[slot as usize];
                // A device's peak that came with this state has all that lives in it, an
                // earlier one has none of it.
                let peak_number = self.observer.device_peaks(slot, gauge);
                let before = loading.peaks_before[slot as usize][gauge.index()];
                held.moments[gauge.index()] = DeviceMoment {
                    peak_number,
                    order: if peak_number == before { 0 } else { order },
                };
                let total = held.totals.gauge_mut(gauge);
                *total = total.at_peak(order);
                let now = *total;
                let Some(claimed) = claimed.get(gauge.index()) else {
                    continue;
                };
                total.remember_since_mark(claimed.since_mark());
                total.remember(claimed.peak(), claimed.peak_order().min(order));
                let at = |total: &Gauge| (total.peak(), total.peak_order());
                let is_claimed = at(total) != at(&now);
                if is_claimed && total.peak().bytes != at_peaks[gauge.index()] {
                    *total = now;
                    facts.anomalies.count(Anomaly::Malformed);
                }
            }
        }
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
