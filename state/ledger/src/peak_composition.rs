//! Who held what when a device was fullest.
//!
//! An account knows what was live at a peak ([`ttmem_account::peak_composition`]). Here that is
//! put together for a device, whose processes come and go, and grouped by who asked
//! for it: the operation of a buffer, the program of storage and kernels.

use crate::device::Device;
use crate::growth::Series;
use crate::left_behind::LeftBuffers;
use crate::process::{Process, ProcessFacts};
use crate::view::{DepartedView, ProcessView, View};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use ttmem_account::peak_composition::{self as peak, Moment, PeakEntry, Walk};
use ttmem_account::{Account, BufferRow, Definitions, GaugeKind, Peak};
use ttmem_event::TextId;

/// Groups of departed processes that are kept of each peak; of the rest, the sum.
const KEPT_GROUPS: usize = 1024;

/// Groups that are kept of all peaks of a departed process; of a list that does not fit, the largest.
const KEPT_OWN_GROUPS: usize = 4096;

/// What was live at each peak of a process on a device, by gauge.
pub(crate) type OwnPeaks = [Arc<[PeakGroup]>; GaugeKind::COUNT];

/// The same on each device of a process that is gone.
#[derive(Clone, Debug)]
pub(crate) struct KeptPeaks(pub(crate) Vec<OwnPeaks>);

/// What one process had of a peak for one purpose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeakGroup {
    pub pid: Option<u32>,
    /// The user of that process.
    pub uid: Option<u32>,
    pub departed: bool,
    /// The operation or program, where known.
    pub name: Option<Arc<str>>,
    /// Buffers, storage entries or kernels.
    pub count: u64,
    pub bytes: u64,
}

/// What was live when a device, or a process on it, held most.
#[derive(Clone, Debug, Default)]
pub struct PeakComposition {
    pub peak: Peak,
    /// What was live, the most bytes first.
    pub groups: Vec<PeakGroup>,
}

impl PeakComposition {
    /// The bytes of everything in it: the peak.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let groups = self.groups.iter().map(|group| group.bytes);
        groups.fold(0, u64::saturating_add)
    }

    fn new(peak: Peak, mut groups: Vec<PeakGroup>) -> Self {
        sort(&mut groups);
        Self { peak, groups }
    }
}

fn sort(groups: &mut [PeakGroup]) {
    groups.sort_by(|one, other| {
        let rank = |group: &PeakGroup| (Reverse(group.bytes), group.pid);
        (rank(one), &one.name).cmp(&(rank(other), &other.name))
    });
}

/// Puts the smallest together when there are too many.
fn keep_largest(groups: &mut Vec<PeakGroup>, most: usize) {
    if groups.len() <= most {
        return;
    }
    groups.sort_by_key(|group| Reverse(group.bytes));
    let rest: Vec<PeakGroup> = groups.drain(most.saturating_sub(1)..).collect();
    groups.push(PeakGroup {
        pid: None,
        uid: None,
        departed: true,
        name: None,
        count: rest.iter().map(|group| group.count).sum(),
        bytes: rest
            .iter()
            .map(|group| group.bytes)
            .fold(0, u64::saturating_add),
    });
}

/// What departed processes had in a peak of a device.
#[derive(Clone, Debug, Default)]
pub(crate) struct DepartedAtPeak {
    /// Which of the device's peaks.
    pub(crate) number: u64,
    pub(crate) groups: Vec<PeakGroup>,
}

impl View {
    /// What was live when a device held most of something, over all processes.
    #[must_use]
    pub fn device_peak(&self, device: usize, gauge: GaugeKind) -> Option<PeakComposition> {
        let known = self.devices.get(device)?;
        let number = known.peaks[gauge.index()];
        let index = u32::try_from(device).ok()?;
        let mut groups = Vec::new();
        for process in &self.processes {
            if let Some(slot) = process.device_slot(index) {
                groups.extend(groups_at(process, slot, gauge, Moment::OfDevice(number)));
            }
        }
        let departed = known.departed_at_peak[gauge.index()].as_ref();
        if let Some(departed) = departed.filter(|departed| departed.number == number) {
            groups.extend(self.shown(&departed.groups));
        }
        let peak = known.totals.gauge(gauge).peak();
        Some(PeakComposition::new(peak, groups))
    }

    /// What a process held on a device when it held most of something there.
    #[must_use]
    pub fn process_peak(
        &self,
        process: u32,
        device: usize,
        gauge: GaugeKind,
    ) -> Option<PeakComposition> {
        let process = self.process(process)?;
        let slot = process.device_slot(u32::try_from(device).ok()?)?;
        let held = process.account.devices.get(slot as usize)?;
        let peak = held.totals.gauge(gauge).peak();
        let groups = groups_at(process, slot, gauge, Moment::OfProcess);
        Some(PeakComposition::new(peak, groups))
    }

    /// The same of a process that is gone, as far as it was kept.
    #[must_use]
    pub fn departed_peak(
        &self,
        process: &DepartedView,
        device: usize,
        gauge: GaugeKind,
    ) -> Option<PeakComposition> {
        let key = &self.devices.get(device)?.key;
        let mut devices = process.devices.iter().zip(&process.own_peaks.0);
        let ((_key, totals), groups) = devices.find(|((held, _totals), _groups)| held == key)?;
        let peak = totals.gauge(gauge).peak();
        let groups = self.shown(&groups[gauge.index()]).collect();
        Some(PeakComposition::new(peak, groups))
    }

    /// Groups of departed processes, with the names that the audience may see.
    fn shown(&self, groups: &[PeakGroup]) -> impl Iterator<Item = PeakGroup> {
        groups.iter().map(|group| {
            let name = group.name.clone();
            PeakGroup {
                name: name.filter(|_name| self.audience.may_see(group.uid)),
                ..group.clone()
            }
        })
    }
}

/// What a process on a device had in a peak.
fn groups_at(process: &ProcessView, slot: u32, gauge: GaugeKind, moment: Moment) -> Vec<PeakGroup> {
    let mut groups = Groups::default();
    peak::at(&process.account, &process.rows, slot, gauge, moment)
        .for_each(|entry| groups.add(&entry));
    groups.named(&process.facts, &process.account.definitions, false)
}

/// Entries of one process by the text that names their purpose.
#[derive(Debug, Default)]
struct Groups {
    /// How many there are, and their bytes.
    by_name: HashMap<TextId, (u64, u64)>,
}

impl Groups {
    fn add(&mut self, entry: &PeakEntry) {
        let (count, bytes) = self.by_name.entry(entry.name).or_default();
        *count += u64::from(entry.count);
        *bytes = bytes.saturating_add(entry.bytes);
    }

    fn named(
        &self,
        process: &ProcessFacts,
        definitions: &Definitions,
        departed: bool,
    ) -> Vec<PeakGroup> {
        // In an order that does not depend on the seed of a table.
        let mut groups: Vec<_> = self.by_name.iter().collect();
        groups.sort_unstable_by_key(|(name, _sums)| **name);
        let groups = groups.into_iter();
        let groups = groups.map(|(name, (count, bytes))| PeakGroup {
            pid: process.identity.pid,
            uid: Some(process.identity.uid),
            departed,
            name: definitions.text(*name).cloned(),
            count: *count,
            bytes: *bytes,
        });
        groups.collect()
    }
}

type GroupsByGauge = BTreeMap<(u32, GaugeKind), Groups>;

/// What an account that goes had in the peaks of its devices and in its own, found a part at a time.
#[derive(Debug)]
pub(crate) struct LeavingPeaks {
    walk: Walk,
    /// By slot: how many peaks each device had, and the last event of the process before the last.
    numbers: Vec<[u64; GaugeKind::COUNT]>,
    orders: Vec<[u64; GaugeKind::COUNT]>,
    /// By slot: the event of the process that reached its own peak.
    own_orders: Vec<[u64; GaugeKind::COUNT]>,
    at_peaks: GroupsByGauge,
    /// At its own peaks that are at another moment than the device's.
    at_own_peaks: GroupsByGauge,
    /// All that lives: a peak that comes before the account is gone has that.
    live: GroupsByGauge,
    pub(crate) left: LeftBuffers,
}

impl LeavingPeaks {
    pub(crate) fn new(devices: &[Device], process: &Process, series: &Arc<Series>) -> Self {
        let numbers = process.devices.iter();
        let numbers: Vec<_> = numbers
            .map(|index| devices[*index as usize].peaks)
            .collect();
        let held = process.account.facts().devices.iter();
        // 0 where there was no peak.
        let orders = held.zip(&numbers).map(|(held, numbers)| {
            std::array::from_fn(|gauge| match numbers[gauge] {
                0 => 0,
                number => held.moments[gauge].order_of(number),
            })
        });
        let held = process.account.facts().devices.iter();
        let own_orders = held.map(|held| {
            let mut orders = [0; GaugeKind::COUNT];
            for gauge in GaugeKind::all() {
                orders[gauge.index()] = held.totals.gauge(gauge).peak_order();
            }
            orders
        });
        Self {
            walk: Walk::default(),
            orders: orders.collect(),
            own_orders: own_orders.collect(),
            numbers,
            at_peaks: GroupsByGauge::new(),
            at_own_peaks: GroupsByGauge::new(),
            live: GroupsByGauge::new(),
            left: LeftBuffers::new(series),
        }
    }

    /// Goes on for so many work units; what that cost, and whether all is found.
    pub(crate) fn go_on(&mut self, account: &Account, work: u64) -> (u64, bool) {
        let (orders, own_orders) = (&self.orders, &self.own_orders);
        let (at_peaks, live) = (&mut self.at_peaks, &mut self.live);
        let (at_own_peaks, left) = (&mut self.at_own_peaks, &mut self.left);
        let visit = |slot: u32, entry: &PeakEntry| {
            let gauge = entry.gauge();
            let at = |orders: &[[u64; GaugeKind::COUNT]]| {
                let orders = orders.get(slot as usize);
                orders.map_or(0, |orders| orders[gauge.index()])
            };
            let (of_device, own) = (at(orders), at(own_orders));
            if entry.was_live_at(of_device) {
                at_peaks.entry((slot, gauge)).or_default().add(entry);
            }
            if own != of_device && entry.was_live_at(own) {
                at_own_peaks.entry((slot, gauge)).or_default().add(entry);
            }
            if entry.is_live() {
                live.entry((slot, gauge)).or_default().add(entry);
            }
        };
        let visit_buffer = |row: &BufferRow, devices| left.add(row, devices);
        self.walk.go_on(account, work, visit, visit_buffer)
    }

    /// What the process had at its own peaks, by slot.
    pub(crate) fn own_peaks(&self, process: &Process) -> Vec<OwnPeaks> {
        let definitions = &process.account.facts().definitions;
        let mut room = KEPT_OWN_GROUPS;
        let mut kept: Vec<OwnPeaks> = Vec::new();
        for (slot, (orders, own)) in (0..).zip(self.orders.iter().zip(&self.own_orders)) {
            let mut on_device: OwnPeaks = std::array::from_fn(|_gauge| Arc::from([]));
            for gauge in GaugeKind::all() {
                let index = gauge.index();
                let found = if own[index] == orders[index] {
                    &self.at_peaks
                } else {
                    &self.at_own_peaks
                };
                let Some(groups) = found.get(&(slot, gauge)) else {
                    continue;
                };
                let mut groups = groups.named(&process.facts, definitions, true);
                let before = kept.last().map(|before| &before[index]);
                sort(&mut groups);
                keep_largest(&mut groups, room.clamp(1, KEPT_GROUPS));
                // The devices of a mesh mostly hold the same.
                on_device[index] = match before.filter(|before| ***before == *groups) {
                    Some(before) => Arc::clone(before),
                    None => {
                        room = room.saturating_sub(groups.len());
                        Arc::from(groups)
                    }
                };
            }
            kept.push(on_device);
        }
        kept
    }

    /// Keeps what was found, with the devices.
    pub(crate) fn keep(mut self, devices: &mut [Device], process: &Process) {
        for (slot, index) in (0..).zip(&process.devices) {
            let device = &mut devices[*index as usize];
            for gauge in GaugeKind::all() {
                let number = device.peaks[gauge.index()];
                let known = self.numbers.get(slot as usize);
                let is_same = known.is_some_and(|numbers| numbers[gauge.index()] == number);
                let found = if is_same {
                    &mut self.at_peaks
                } else {
                    &mut self.live
                };
                let Some(groups) = found.remove(&(slot, gauge)) else {
                    continue;
                };
                let kept = &mut device.departed_at_peak[gauge.index()];
                let kept = Arc::make_mut(kept.get_or_insert_default());
                if kept.number != number {
                    kept.number = number;
                    kept.groups.clear();
                }
                let definitions = &process.account.facts().definitions;
                kept.groups
                    .extend(groups.named(&process.facts, definitions, true));
                keep_largest(&mut kept.groups, KEPT_GROUPS);
            }
        }
    }
}
