//! The ledger itself: processes join, send events, and leave.

use crate::audience::Audience;
use crate::counts::{Counts, DeviceCounts, FailureKind};
use crate::device::{Device, DeviceFacts, DeviceKey};
use crate::effect::{Effect, EffectKind};
use crate::failures::Failures;
use crate::follower::Follower;
use crate::growth::{ReaderSeries, Series};
use crate::incomplete::{IncompleteReason, IncompleteReasons};
use crate::labels::Labels;
use crate::peak_composition::LeavingPeaks;
use crate::process::{DepartedProcess, Departure, Exit, Process, ProcessIdentity, ProcessState};
use crate::shares::Holder;
use crate::tables::{DeviceTable, ProcessViews};
use crate::view::{DepartedView, ProcessRef, ProcessView, Table, View};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use ttmem_account::{
    Account, AccountRows, Anomalies, Anomaly, GaugeKind, MAX_HELD_BYTES, Mark, MarkOwner, Marks,
    Pages, PeakSet, oldest_of_largest, residents,
};
use ttmem_event::{CoreType, Definition, Event, EventKind};

/// What copying a device costs for a view, in work units: it is larger than a row.
const WORK_OF_DEVICE_VIEW: u64 = 8;

/// What ending the stretch of a device costs: all its peaks are copied.
const WORK_OF_MARK: u64 = 4;

/// How much one process, and all of them, may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    pub devices: usize,
    /// Processes that are remembered after they left.
    pub departed: usize,
    pub account: ttmem_account::Limits,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            devices: 4096,
            departed: 64,
            account: ttmem_account::Limits::default(),
        }
    }
}

/// A process on its way out of the ledger.
#[derive(Debug)]
pub(crate) struct Leaving {
    peaks: LeavingPeaks,
}

/// Who holds which bytes of which device, and who held them.
///
/// The same changes in the same order give the same state: there is no clock and
/// no I/O in here. [`Ledger::apply`] is the only method that makes one.
#[derive(Debug)]
pub struct Ledger {
    pub(crate) limits: Limits,
    pub(crate) table: DeviceTable,
    pub(crate) processes: Vec<Option<Process>>,
    pub(crate) free_slots: Vec<u32>,
    pub(crate) departed: Arc<VecDeque<DepartedView>>,
    pub(crate) anomalies: Anomalies,
    pub(crate) counts: Counts,
    pub(crate) marks: Arc<Marks>,
    /// The marks that readers set.
    pub(crate) series: Arc<ReaderSeries>,
    pub(crate) failures: Arc<Failures>,
    pub(crate) events: u64,
    pub(crate) revision: u64,
    pub(crate) omitted_effects: u64,
    /// Grows with each event that contradicts others, is refused or reports a moment worth keeping, so
    /// that others cost one comparison.
    pub(crate) exceptions: u64,
    pub(crate) work: u64,
    pub(crate) newly_incomplete: Vec<(u32, IncompleteReason)>,
    /// What the last view had, for the next one.
    device_views: Pages<Arc<Device>>,
    pub(crate) process_views: ProcessViews,
}

impl Default for Ledger {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

impl Ledger {
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            table: DeviceTable::new(limits.devices),
            limits,
            processes: Vec::new(),
            free_slots: Vec::new(),
            departed: Arc::default(),
            anomalies: Anomalies::default(),
            counts: Counts::default(),
            marks: Arc::default(),
            series: Arc::default(),
            failures: Arc::default(),
            events: 0,
            revision: 0,
            omitted_effects: 0,
            exceptions: 0,
            newly_incomplete: Vec::new(),
            work: 0,
            device_views: Pages::default(),
            process_views: ProcessViews::default(),
        }
    }

    /// Adds a device that is known before any process uses it.
    pub(crate) fn configure_device(&mut self, facts: DeviceFacts) {
        self.revision += 1;
        let key = match facts.unique_id {
            Some(unique_id) => DeviceKey::Unique(unique_id),
            None => DeviceKey::Logical {
                visible: Arc::from(""),
                id: facts.logical_id,
            },
        };
        self.table.configure(key, facts);
    }

    /// Whether one more process can join whose state could be saved: more connections than that no server takes.
    pub(crate) fn has_room(&self) -> bool {
        !self.free_slots.is_empty() || (self.processes.len() as u64) < crate::state::MAX_SLOTS
    }

    /// A process appears; its slot is its name in every later change.
    pub(crate) fn join(&mut self, identity: ProcessIdentity) -> u32 {
        self.revision += 1;
        let process = Some(Process::new(identity));
        let slot = match self.free_slots.pop() {
            Some(slot) => {
                self.processes[slot as usize] = process;
                slot
            }
            None => {
                self.processes.push(process);
                u32::try_from(self.processes.len() - 1)
                    .expect("fewer processes than a pid can count")
            }
        };
        self.process_views.change(slot);
        slot
    }

    /// A process's connection ended or came back while it lives.
    ///
    /// Returns the state it was in.
    pub(crate) fn set_state(&mut self, process: u32, state: ProcessState) -> Option<ProcessState> {
        let known = &mut self.process_mut(process)?.facts.state;
        Some(std::mem::replace(known, state))
    }

    pub(crate) fn set_connections(&mut self, process: u32, connections: u32) {
        if let Some(process) = self.process_mut(process) {
            process.facts.connections = connections;
        }
    }

    /// A pid that a process claims to have; shown, never used.
    pub(crate) fn set_claimed_pid(&mut self, process: u32, pid: i64) {
        if let Some(process) = self.process_mut(process) {
            process.facts.claimed_pid = Some(pid);
        }
    }

    /// What a process says of where it runs; shown, never used.
    pub(crate) fn set_labels(&mut self, process: u32, labels: Labels) {
        if let Some(process) = self.process_mut(process) {
            process.facts.labels = labels;
        }
    }

    /// This ledger without the labels of its processes.
    #[must_use]
    pub fn without_labels(mut self) -> Self {
        for (index, process) in (0..).zip(&mut self.processes) {
            if let Some(process) = process {
                process.facts.labels = Labels::default();
                self.process_views.change(index);
            }
        }
        for departed in Arc::make_mut(&mut self.departed) {
            departed.labels = Labels::default();
        }
        self
    }

    /// A process began to send its whole state anew; until it is complete the old view stays.
    pub(crate) fn set_resyncing(&mut self, process: u32, resyncing: bool) {
        if let Some(process) = self.process_mut(process) {
            process.facts.resyncing = resyncing;
        }
    }

    /// A process exited: releases everything that it held, within a limit on the work.
    ///
    /// `None` if there is no such process, or if more is to be done: then it is called again, and until
    /// it is done nothing else may change about the process.
    pub(crate) fn depart(
        &mut self,
        process: u32,
        departure: Departure,
        time: u64,
        work: u64,
    ) -> Option<Box<DepartedProcess>> {
        let begun = self.process_in(process)?.leaving.take();
        let mut leaving = match begun {
            Some(begun) => begun,
            None => Box::new(self.begin_leaving(process)?),
        };
        if !self.go_on_leaving(process, &mut leaving, work) {
            self.process_in(process)?.leaving = Some(leaving);
            return None;
        }
        self.leave(process, *leaving, departure, time)
    }

    /// A process, for work that changes nothing that a view shows.
    fn process_in(&mut self, process: u32) -> Option<&mut Process> {
        self.processes.get_mut(process as usize)?.as_mut()
    }

    /// Begins to release what a process held; `None` if there is no such process.
    pub(crate) fn begin_leaving(&self, process: u32) -> Option<Leaving> {
        let process = self.processes.get(process as usize)?.as_ref()?;
        let readers = self.series.of(process.facts.identity.uid);
        let series = process.facts.series.or(readers);
        let peaks = LeavingPeaks::new(&self.table.devices, process, series);
        Some(Leaving { peaks })
    }

    /// Continues up to this many work units; true when the process can leave.
    pub(crate) fn go_on_leaving(&mut self, process: u32, leaving: &mut Leaving, work: u64) -> bool {
        let process = self.processes.get(process as usize);
        let Some(process) = process.and_then(Option::as_ref) else {
            return true;
        };
        let (units, is_done) = leaving.peaks.go_on(&process.account, work);
        self.work += units;
        is_done
    }

    /// Takes a process out of the ledger.
    fn leave(
        &mut self,
        process: u32,
        leaving: Leaving,
        departure: Departure,
        time: u64,
    ) -> Option<Box<DepartedProcess>> {
        let slot = self.processes.get_mut(process as usize)?;
        let mut gone = slot.take()?;
        self.free_slots.push(process);
        let exit = Exit {
            time,
            departure,
            released: gone.account.holdings(),
        };
        let view = DepartedView::new(&gone, &self.table.devices, &leaving.peaks, exit);
        let logical_id = |device: &u32| self.logical_id(*device).unwrap_or_default();
        let logical_ids = gone.devices.iter().map(logical_id).collect();
        let undescribed = self.release_holdings(process, &gone, leaving);
        self.describe_devices(undescribed);
        let departed = Arc::make_mut(&mut self.departed);
        if departed.len() >= self.limits.departed {
            let place = oldest_of_largest(departed, |gone| (gone.identity.uid, ()));
            departed.remove(place);
        }
        departed.push_back(view);
        if let Some(begun) = gone.resyncing.take() {
            // Its new state will never be in place.
            self.abandon_resync(process, &begun);
        }
        Some(Box::new(DepartedProcess {
            exit,
            process: gone,
            logical_ids,
        }))
    }

    /// Takes a process's holdings off the devices; returns those it described and others still use.
    pub(crate) fn release_holdings(
        &mut self,
        index: u32,
        process: &Process,
        leaving: Leaving,
    ) -> HashSet<u32> {
        self.revision += 1;
        self.process_views.change(index);
        leaving.peaks.keep(&mut self.table.devices, process);
        self.work += (process.account.len() + process.devices.len()) as u64 / 4;
        let rows = process.account.rows();
        let resident = residents(process.account.facts(), &rows);
        let held = process.account.facts().devices.iter();
        let holder = process.holder(index);
        let mut uncharged = 0;
        let mut undescribed = HashSet::new();
        for ((index, held), resident) in process.devices.iter().zip(held).zip(&resident) {
            uncharged += usize::from(self.table.release(*index, holder));
            let device = self.table.change(*index);
            let was_described = device.described_by.take_if(|by| *by == holder).is_some();
            if was_described && device.references > 0 {
                undescribed.insert(*index);
            }
            device.totals.subtract(held.totals);
            for (core_type, programs) in CoreType::ALL.into_iter().zip(resident) {
                for resident in programs {
                    let left = Arc::make_mut(device.vacated.get_or_insert_default());
                    left.leave(core_type, &resident.cores, resident.time, resident.time);
                }
            }
        }
        if uncharged > 0 {
            self.transfer_devices(holder, uncharged);
        }
        undescribed
    }

    /// Devices are described by a process that uses them, as it knows them.
    pub(crate) fn describe_devices(&mut self, mut undescribed: HashSet<u32>) {
        for (index, process) in (0..).zip(&self.processes) {
            self.work += 1;
            let Some(process) = process.as_ref() else {
                continue;
            };
            if undescribed.is_empty() {
                return;
            }
            self.work += process.devices.len() as u64;
            let account = &process.account;
            let held = (0..).zip(&account.facts().devices);
            for (number, (slot, held)) in process.devices.iter().zip(held) {
                let Some((definition, board)) = account.description(slot) else {
                    continue;
                };
                if !undescribed.remove(number) {
                    continue;
                }
                let device = self.table.change(*number);
                device.described_by = Some(process.holder(index));
                device.describe(definition, board);
                for (known, reported) in device.facts.capacities.iter_mut().zip(held.capacities) {
                    *known = reported.or(*known);
                }
            }
        }
    }

    /// Charges others with so many devices that a process was charged with and they still use.
    fn transfer_devices(&mut self, from: Holder, mut count: usize) {
        for (index, process) in (0..).zip(&self.processes) {
            if count == 0 {
                return;
            }
            self.work += 1;
            let Some(process) = process.as_ref() else {
                continue;
            };
            self.work += process.devices.len() as u64;
            let to = process.holder(index);
            for device in &process.devices {
                count -= usize::from(self.table.transfer(*device, from, to));
            }
        }
    }

    /// Takes over what a process counted on its devices, and peaks that were not seen here.
    pub(crate) fn restore_devices(
        &mut self,
        index: u32,
        fresh: &mut Process,
        old: &Process,
        peaks_before: &[[u64; GaugeKind::COUNT]],
    ) {
        let mut unseen: HashMap<u32, Vec<(GaugeKind, u64)>> = HashMap::new();
        let mut moments = Vec::new();
        let slots = old.devices.iter().enumerate();
        let known: HashMap<u32, usize> = slots.map(|(slot, number)| (*number, slot)).collect();
        let held = fresh.account.facts().devices.iter();
        for ((slot, number), held) in (0..).zip(&fresh.devices).zip(held) {
            let before = known.get(number);
            let before = before.map(|slot| old.account.facts().devices[*slot].caches);
            let device = self.table.change(*number);
            let counted = held.caches.beyond(&before.unwrap_or_default());
            device.caches.add(&counted);
            for gauge in GaugeKind::all() {
                let total = held.totals.gauge(gauge);
                let peak = total.peak();
                let known = device.totals.gauge_mut(gauge);
                // What was booked just now was not reached just now.
                let before = peaks_before.get(*number as usize);
                let before = before.map_or(0, |peaks| peaks[gauge.index()]);
                let is_new = device.peaks[gauge.index()] != before;
                let is_higher = peak.bytes > known.peak().bytes;
                let is_equal = peak.bytes == known.peak().bytes && peak.bytes > 0;
                known.remember_since_mark(total.since_mark());
                if peak.bytes <= MAX_HELD_BYTES && (is_higher || (is_new && is_equal)) {
                    known.remember(peak, self.events);
                    device.peaks[gauge.index()] += 1;
                    let peak_number = device.peaks[gauge.index()];
                    unseen
                        .entry(*number)
                        .or_default()
                        .push((gauge, peak_number));
                    moments.push((slot, gauge, peak_number, total.peak_order()));
                }
            }
        }
        if !unseen.is_empty() {
            // Other processes on the devices were not seen to be there then.
            self.attribute_peaks(&unseen, index);
        }
        for (slot, gauge, peak_number, order) in moments {
            fresh.account.set_moment(slot, gauge, peak_number, order);
        }
    }

    /// Notes for all processes but one that they had no part in some peaks, given by device.
    ///
    /// All peaks in one walk: a state may have one for each gauge of each of its devices.
    fn attribute_peaks(&mut self, peaks: &HashMap<u32, Vec<(GaugeKind, u64)>>, owner: u32) {
        for (index, process) in (0..).zip(&mut self.processes) {
            let Some(process) = process.as_mut().filter(|_process| index != owner) else {
                continue;
            };
            for (slot, device) in (0..).zip(&process.devices) {
                let peaks = peaks.get(device);
                for (gauge, number) in peaks.into_iter().flatten() {
                    process.account.set_moment(slot, *gauge, *number, 0);
                    self.process_views.change(index);
                }
            }
        }
    }

    /// Takes over the marks of a process that are not known here.
    pub(crate) fn restore_marks(&mut self, fresh: &mut Process, old: &Process) {
        let facts = fresh.account.facts();
        let mut known: Vec<Mark> = self
            .marks
            .iter()
            .map(|(mark, _peaks)| mark.clone())
            .collect();
        let mut series = Series::default();
        for (mark, peaks) in facts.marks.iter() {
            let name = facts.definitions.text(mark.name).cloned();
            let name = name.unwrap_or_else(|| Arc::from(""));
            series.push(mark.time, &name, mark.number);
            // Its clock may have been set right since.
            let is_same = |known: &Mark| {
                let apart = known.time.abs_diff(mark.time);
                (&known.name, known.number) == (&name, mark.number) && apart < 1_000_000_000
            };
            if let Some(place) = known.iter().position(is_same) {
                known.remove(place);
                continue;
            }
            // The last one's stretch goes on: its peaks are the devices' own.
            let devices = if peaks.is_empty() {
                0
            } else {
                self.table.devices.len()
            };
            let mut by_device = vec![PeakSet::default(); devices];
            for (device, peaks) in fresh.devices.iter().zip(peaks) {
                by_device[*device as usize] = *peaks;
            }
            let mark = Mark {
                time: mark.time,
                name,
                number: mark.number,
            };
            Arc::make_mut(&mut self.marks).restore(
                mark_owner(&fresh.facts.identity),
                mark,
                by_device,
            );
        }
        let own = facts.marks.last().map_or(0, |mark| mark.time);
        if fresh.facts.series.is_empty() {
            fresh.facts.series = Arc::new(series);
        }
        let last = self.marks.last().map_or(0, |mark| mark.time);
        if last > own {
            fresh.account.restart_stretch(last, old.account.facts());
        }
    }

    /// A process introduces what its events refer to.
    pub(crate) fn define(&mut self, index: u32, definition: &Definition) -> Result<(), Anomaly> {
        self.revision += 1;
        self.follow(index, None, |account, limits, follower| {
            account.define(definition, limits, follower)
        })
    }

    /// Applies an event up to this many work units; false if it is to be applied again, for
    /// the rest of it, before any other event of its process.
    ///
    /// What it changed is appended to `effects`, if it is given.
    ///
    /// # Errors
    /// As [`ttmem_account::Account::apply`].
    #[inline(always)]
    pub(crate) fn apply_event(
        &mut self,
        index: u32,
        event: &Event,
        mut effects: Option<&mut Vec<Effect>>,
        work: u64,
    ) -> Result<bool, Anomaly> {
        let process = self.processes.get(index as usize);
        let process = process.and_then(Option::as_ref);
        let goes_on = process.is_some_and(|process| process.account.is_unfinished());
        self.events += u64::from(!goes_on);
        self.revision += 1;
        let outcome = self.follow(
            index,
            effects.as_deref_mut(),
            |account, limits, follower| account.apply_within(event, limits, follower, work),
        );
        match outcome {
            Ok(_finished) => {
                if matches!(
                    event.kind,
                    EventKind::Marked { .. }
                        | EventKind::AllocationFailed { .. }
                        | EventKind::Clashed { .. }
                        | EventKind::ConfigRingReserved { stalled: true, .. }
                        | EventKind::EventsLost { .. }
                        | EventKind::EventsElided { .. }
                ) {
                    self.note_moment(index, event);
                }
            }
            Err(anomaly) => {
                if let Some(effects) = effects {
                    effects.push(Effect {
                        time: event.time,
                        process: index,
                        device: None,
                        kind: EffectKind::Contradicted {
                            anomaly,
                            event: event.kind,
                        },
                    });
                }
            }
        }
        outcome
    }

    /// Keeps what a mark or a failure wants kept of its moment, and counts what is counted for good.
    #[cold]
    #[inline(never)]
    fn note_moment(&mut self, index: u32, event: &Event) {
        self.exceptions += 1;
        if let EventKind::Marked { name, number } = event.kind {
            let process = self.process(index);
            let name = process.and_then(|known| known.account.definitions.text(name));
            let name = name.cloned().unwrap_or_else(|| Arc::from(""));
            if let Some(process) = self.process_mut(index) {
                Arc::make_mut(&mut process.facts.series).push(event.time, &name, number);
            }
            let mark = Mark {
                time: event.time,
                name,
                number,
            };
            let owner = self
                .process(index)
                .map(|known| mark_owner(&known.facts.identity));
            return self.begin_stretch(owner.unwrap_or_default(), mark, Some(index));
        }
        match event.kind {
            EventKind::EventsLost { count } => return self.counts.add(count, 0),
            EventKind::EventsElided { count } => return self.counts.add(0, count),
            _on_devices => self.count_on_devices(index, &event.kind),
        }
        if FailureKind::of(&event.kind).is_none() {
            return;
        }
        let process = self.processes.get_mut(index as usize);
        if let Some(process) = process.and_then(Option::as_mut) {
            let devices = &self.table.devices;
            Arc::make_mut(&mut self.failures).keep(process, devices, event);
        }
    }

    /// Counts an event on each device of its mesh.
    fn count_on_devices(&mut self, index: u32, event: &EventKind) {
        let process = self.processes.get(index as usize);
        let counted = process
            .and_then(Option::as_ref)
            .zip(DeviceCounts::of(event));
        let Some((process, (mesh, counts))) = counted else {
            return;
        };
        let slots = process.account.mesh(mesh).map(|mesh| &*mesh.devices);
        let slots = slots.unwrap_or_default().iter();
        for number in slots.filter_map(|slot| process.devices.get(*slot as usize)) {
            self.table.change(*number).counts.add(&counts);
            self.work += 1;
        }
    }

    /// Lets an account work while devices and listeners follow it.
    #[inline(always)]
    fn follow<T>(
        &mut self,
        index: u32,
        effects: Option<&mut Vec<Effect>>,
        work: impl FnOnce(&mut Account, &ttmem_account::Limits, &mut Follower<'_>) -> Result<T, Anomaly>,
    ) -> Result<T, Anomaly> {
        let process = self.processes.get_mut(index as usize);
        let Some(process) = process.and_then(Option::as_mut) else {
            self.anomalies.count(Anomaly::Undefined);
            return Err(Anomaly::Undefined);
        };
        self.process_views.change(index);
        let mut follower = Follower {
            process: index,
            source: process.facts.identity.source,
            visible: &process.facts.identity.visible_devices,
            slots: &mut process.devices,
            table: &mut self.table,
            anomalies: &mut self.anomalies,
            effects,
            omitted_effects: &mut self.omitted_effects,
            exceptions: &mut self.exceptions,
            uid: process.facts.identity.uid,
            order: self.events,
            aside: false,
            left_at_close: &mut process.left_at_close,
            series: [
                &process.facts.series,
                self.series.of(process.facts.identity.uid),
            ],
        };
        let before = process.account.work();
        let outcome = work(&mut process.account, &self.limits.account, &mut follower);
        self.work += process.account.work() - before;
        if let Err(anomaly) = &outcome {
            self.anomalies.count(*anomaly);
            self.exceptions += 1;
            let reason = match anomaly {
                Anomaly::NoRoom => {
                    let refused = &mut process.facts.refused;
                    refused.add(IncompleteReason::DevicesRefused, 1);
                    IncompleteReason::DevicesRefused
                }
                Anomaly::LimitReached => IncompleteReason::LimitReached,
                _other => return outcome,
            };
            let reasons = IncompleteReasons::of_process(&process.facts, process.account.facts());
            if reasons.of(reason) == 1 {
                self.newly_incomplete.push((index, reason));
            }
        }
        outcome
    }

    /// Counts reports that never became events: they were refused while they were read.
    pub(crate) fn refuse(&mut self, index: u32, anomaly: Anomaly, count: u64) {
        self.anomalies.add(anomaly, count);
        if let Some(process) = self.process_mut(index) {
            process.account.refuse(anomaly, count);
        }
    }

    /// Something of a process was refused: its figures are not complete until it sends its state anew.
    pub(crate) fn mark_incomplete(&mut self, index: u32, reason: IncompleteReason, count: u64) {
        let Some(process) = self.process_mut(index) else {
            return;
        };
        let refused = &mut process.facts.refused;
        let is_new = refused.of(reason) == 0;
        refused.add(reason, count);
        if is_new && count > 0 {
            self.newly_incomplete.push((index, reason));
        }
    }

    /// Which processes have become incomplete since this was last asked, and why.
    pub fn take_newly_incomplete(&mut self) -> Vec<(u32, IncompleteReason)> {
        std::mem::take(&mut self.newly_incomplete)
    }

    /// Sets a mark of a user's: peaks are kept from here on as well.
    pub(crate) fn set_mark(&mut self, user: u32, time: u64, name: Arc<str>, number: u64) {
        Arc::make_mut(&mut self.series).push(user, time, &name, number);
        self.begin_stretch((user, None), Mark { time, name, number }, None);
        self.revision += 1;
    }

    /// Begins a stretch of peaks everywhere but in the account that began it by itself.
    fn begin_stretch(&mut self, owner: MarkOwner, mark: Mark, except: Option<u32>) {
        let time = mark.time;
        let mut ended = Vec::with_capacity(self.table.devices.len());
        self.work += WORK_OF_MARK * self.table.devices.len() as u64;
        for index in 0..self.table.devices.len() {
            let index = u32::try_from(index).unwrap_or(u32::MAX);
            ended.push(self.table.change(index).totals.mark(time));
        }
        for (index, process) in (0..).zip(&mut self.processes) {
            if let Some(process) = process.as_mut().filter(|_process| Some(index) != except) {
                process.account.mark(time);
                self.work += WORK_OF_MARK * (1 + process.devices.len() as u64);
                self.process_views.change(index);
            }
        }
        Arc::make_mut(&mut self.marks).push(owner, mark, ended);
    }

    fn process_mut(&mut self, index: u32) -> Option<&mut Process> {
        let process = self.processes.get_mut(index as usize)?.as_mut()?;
        self.process_views.change(index);
        self.revision += 1;
        Some(process)
    }

    /// Effects that were left out since this was last asked, for want of room.
    pub fn take_omitted_effects(&mut self) -> u64 {
        std::mem::take(&mut self.omitted_effects)
    }

    /// Work units so far: what events, marks, releases and views touched, beyond one for each.
    ///
    /// Who shares one ledger among clients charges each by how much this grows.
    #[must_use]
    pub fn work(&self) -> u64 {
        self.work
    }

    #[must_use]
    pub fn events(&self) -> u64 {
        self.events
    }

    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Everything as it is now, for a reader to keep: costs what changed since the last one.
    #[must_use]
    pub fn view(&mut self) -> View {
        for index in self.table.take_changed() {
            let device = Arc::new(self.table.devices[index as usize].clone());
            self.work += WORK_OF_DEVICE_VIEW;
            self.device_views.put(index, device);
        }
        for index in self.process_views.take_changed() {
            if let Some(process) = &self.processes[index as usize] {
                let view = Arc::new(ProcessView::new(index, process));
                let devices = process.devices.len() as u64;
                // Rows are shared by the page.
                self.work += WORK_OF_DEVICE_VIEW * devices + process.account.len() as u64 / 256;
                self.process_views.rows.put(index, view);
            }
        }
        View {
            devices: Table::new(self.device_views.view()),
            processes: Table::new(self.process_views.rows.view()),
            departed: Arc::clone(&self.departed),
            anomalies: self.anomalies.clone(),
            counts: self.counts,
            marks: Arc::clone(&self.marks),
            series: Arc::clone(&self.series),
            failures: Arc::clone(&self.failures),
            events: self.events,
            revision: self.revision,
            audience: Audience::Everything,
        }
    }

    /// The last failures, with the moments they happened in.
    #[must_use]
    pub fn failures(&self) -> &Failures {
        &self.failures
    }

    /// What is held on a device, by its place in the ledger.
    #[must_use]
    pub fn device(&self, index: u32) -> Option<&Device> {
        self.table.devices.get(index as usize)
    }

    /// All devices, by their places in the ledger.
    #[must_use]
    pub fn devices(&self) -> &[Device] {
        &self.table.devices
    }

    /// The number that runtimes have for a device.
    #[must_use]
    pub fn logical_id(&self, device: u32) -> Option<u32> {
        Some(self.device(device)?.facts.logical_id)
    }

    /// What is known of a process, its rows aside.
    #[must_use]
    pub fn process(&self, index: u32) -> Option<ProcessRef<'_>> {
        let process = self.processes.get(index as usize)?.as_ref()?;
        Some(ProcessRef {
            facts: &process.facts,
            account: process.account.facts(),
            devices: &process.devices,
        })
    }

    /// The rows of a process, which the ledger copies where it changes them while these are kept.
    #[must_use]
    pub fn rows(&self, index: u32) -> Option<AccountRows> {
        let process = self.processes.get(index as usize)?.as_ref()?;
        Some(process.account.rows())
    }

    /// Rows of all processes, of whatever kind.
    #[must_use]
    pub fn rows_in_use(&self) -> u64 {
        let processes = self.processes.iter().flatten();
        processes.map(|process| process.account.len() as u64).sum()
    }

    /// The slots of all processes that may hold something.
    pub fn process_slots(&self) -> impl Iterator<Item = u32> {
        let slots = (0..).zip(&self.processes);
        slots.filter_map(|(slot, process)| process.is_some().then_some(slot))
    }

    #[must_use]
    pub fn identity(&self, index: u32) -> Option<&ProcessIdentity> {
        Some(&self.process(index)?.facts.identity)
    }
}

/// Whose the marks of a process are.
fn mark_owner(identity: &ProcessIdentity) -> MarkOwner {
    (identity.uid, Some(identity.pid.unwrap_or(0)))
}
