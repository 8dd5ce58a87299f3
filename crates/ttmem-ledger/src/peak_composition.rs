//! Who held what when a device was fullest.
//!
//! An account knows what was live at a peak ([`ttmem_account::peak_composition`]). Here that is
//! put together for a device, whose processes come and go, and grouped by who asked
//! for it: the operation of a buffer, the program of storage and kernels.

use crate::device::Device;
use crate::process::ProcessFacts;
use crate::view::{ProcessView, View};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use ttmem_account::peak_composition::{self as peak, Moment, PeakEntry};
use ttmem_account::{Account, Definitions, GaugeKind, Peak};
use ttmem_event::TextId;

/// Groups of departed processes that are kept of each peak; of the rest, the sum.
const KEPT_GROUPS: usize = 1024;

/// What one process had of a peak for one purpose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeakGroup {
    pub pid: Option<u32>,
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
        groups.sort_by(|one, other| {
            let rank = |group: &PeakGroup| (Reverse(group.bytes), group.pid);
            (rank(one), &one.name).cmp(&(rank(other), &other.name))
        });
        Self { peak, groups }
    }
}

/// What departed processes had in a peak of a device.
#[derive(Clone, Debug, Default)]
pub(crate) struct DepartedAtPeak {
    /// Which of the device's peaks.
    number: u64,
    groups: Vec<PeakGroup>,
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
            groups.extend_from_slice(&departed.groups);
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
        self,
        process: &ProcessFacts,
        definitions: &Definitions,
        departed: bool,
    ) -> Vec<PeakGroup> {
        let groups = self.by_name.into_iter();
        let groups = groups.map(|(name, (count, bytes))| PeakGroup {
            pid: process.identity.pid,
            departed,
            name: definitions.text(name).cloned(),
            count,
            bytes,
        });
        groups.collect()
    }
}

/// Keeps what an account that goes had in the present peaks of its devices.
pub(crate) fn keep_departed(
    devices: &mut [Device],
    indices: &[u32],
    process: &ProcessFacts,
    account: &Account,
) {
    let numbers: Vec<_> = indices
        .iter()
        .map(|index| devices[*index as usize].peaks)
        .collect();
    let mut found: BTreeMap<(u32, GaugeKind), Groups> = BTreeMap::new();
    let (facts, rows) = (account.facts(), account.rows());
    peak::at_all_devices(facts, &rows, &numbers, |slot, gauge, entry| {
        found.entry((slot, gauge)).or_default().add(&entry);
    });
    for ((slot, gauge), groups) in found {
        let device = &mut devices[indices[slot as usize] as usize];
        let number = device.peaks[gauge.index()];
        let kept = &mut device.departed_at_peak[gauge.index()];
        let kept = Arc::make_mut(kept.get_or_insert_default());
        if kept.number != number {
            kept.number = number;
            kept.groups.clear();
        }
        kept.groups
            .extend(groups.named(process, &facts.definitions, true));
        kept.keep_largest();
    }
}

impl DepartedAtPeak {
    /// Puts the smallest together when there are too many.
    fn keep_largest(&mut self) {
        if self.groups.len() <= KEPT_GROUPS {
            return;
        }
        self.groups.sort_by_key(|group| Reverse(group.bytes));
        let rest: Vec<PeakGroup> = self.groups.drain(KEPT_GROUPS - 1..).collect();
        self.groups.push(PeakGroup {
            pid: None,
            departed: true,
            name: None,
            count: rest.iter().map(|group| group.count).sum(),
            bytes: rest
                .iter()
                .map(|group| group.bytes)
                .fold(0, u64::saturating_add),
        });
    }
}
