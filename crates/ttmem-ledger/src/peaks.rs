//! Who held what when a device was fullest.

use crate::device::Device;
use crate::view::View;
use std::sync::Arc;
use ttmem_account::peak::{self, Moment, PeakEntry};
use ttmem_account::{Account, GaugeKind, Peak};

/// Entries of departed processes that are kept of each peak; of the rest, the sum.
const KEPT_ENTRIES: usize = 1024;

/// What departed processes had in a peak of a device.
#[derive(Clone, Debug, Default)]
pub(crate) struct DepartedAtPeak {
    /// Which of the device's peaks.
    number: u64,
    entries: Vec<PeakEntry>,
    more: u64,
    more_bytes: u64,
}

/// Whose an entry of a peak's composition is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PeakOwner {
    /// A process of the view, by its slot.
    Process(u32),
    /// A process that is gone.
    Departed,
}

/// What was live when a device, or a process on it, held most.
#[derive(Clone, Debug)]
pub struct PeakComposition {
    /// The peak.
    pub peak: Peak,
    /// What was live, largest first.
    pub entries: Vec<(PeakOwner, PeakEntry)>,
    /// Entries of departed processes that were not kept one by one.
    pub more: u64,
    /// Their bytes.
    pub more_bytes: u64,
}

impl PeakComposition {
    /// The bytes of everything in it: the peak.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let entries = self.entries.iter().map(|(_owner, entry)| entry.bytes());
        entries.fold(self.more_bytes, u64::saturating_add)
    }

    fn sort(&mut self) {
        self.entries
            .sort_by_key(|(owner, entry)| (std::cmp::Reverse(entry.bytes()), *owner));
    }
}

impl View {
    /// What was live when a device held most of something, over all processes.
    #[must_use]
    pub fn device_peak(&self, device: usize, gauge: GaugeKind) -> Option<PeakComposition> {
        let known = self.devices.get(device)?;
        let number = known.peaks[gauge.index()];
        let index = u32::try_from(device).ok()?;
        let mut composition = PeakComposition {
            peak: known.totals.gauge(gauge).peak(),
            entries: Vec::new(),
            more: 0,
            more_bytes: 0,
        };
        for process in &self.processes {
            let Some(slot) = process.device_slot(index) else {
                continue;
            };
            let moment = Moment::OfDevice(number);
            let entries = peak::at(&process.account, &process.rows, slot, gauge, moment);
            let owner = PeakOwner::Process(process.index);
            composition
                .entries
                .extend(entries.map(|entry| (owner, entry)));
        }
        let departed = known.departed_at_peak[gauge.index()].as_ref();
        if let Some(departed) = departed.filter(|departed| departed.number == number) {
            let entries = departed.entries.iter();
            let owned = entries.map(|entry| (PeakOwner::Departed, *entry));
            composition.entries.extend(owned);
            composition.more = departed.more;
            composition.more_bytes = departed.more_bytes;
        }
        composition.sort();
        Some(composition)
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
        let entries = peak::at(
            &process.account,
            &process.rows,
            slot,
            gauge,
            Moment::OfProcess,
        );
        let owner = PeakOwner::Process(process.index);
        let mut composition = PeakComposition {
            peak: held.totals.gauge(gauge).peak(),
            entries: entries.map(|entry| (owner, entry)).collect(),
            more: 0,
            more_bytes: 0,
        };
        composition.sort();
        Some(composition)
    }
}

impl DepartedAtPeak {
    fn add(&mut self, entry: PeakEntry) {
        self.entries.push(entry);
        // Not with each: what is sorted out is at least as much as what is kept.
        if self.entries.len() >= 2 * KEPT_ENTRIES {
            self.keep_largest();
        }
    }

    fn keep_largest(&mut self) {
        if self.entries.len() > KEPT_ENTRIES {
            let largest_first = |entry: &PeakEntry| std::cmp::Reverse(entry.bytes());
            self.entries
                .select_nth_unstable_by_key(KEPT_ENTRIES, largest_first);
            for rest in self.entries.drain(KEPT_ENTRIES..) {
                self.more += 1;
                self.more_bytes = self.more_bytes.saturating_add(rest.bytes());
            }
        }
    }
}

/// Keeps what an account that goes had in the present peaks of its devices.
pub(crate) fn keep_departed(devices: &mut [Device], indices: &[u32], account: &Account) {
    let numbers: Vec<_> = indices
        .iter()
        .map(|index| devices[*index as usize].peaks)
        .collect();
    let rows = account.rows();
    let mut touched = std::collections::BTreeSet::new();
    peak::at_all_devices(account.facts(), &rows, &numbers, |slot, gauge, entry| {
        let index = indices[slot as usize];
        let device = &mut devices[index as usize];
        let number = device.peaks[gauge.index()];
        let kept = &mut device.departed_at_peak[gauge.index()];
        let kept = Arc::make_mut(kept.get_or_insert_default());
        if kept.number != number {
            *kept = DepartedAtPeak {
                number,
                ..DepartedAtPeak::default()
            };
        }
        kept.add(entry);
        touched.insert((index, gauge));
    });
    for (index, gauge) in touched {
        let kept = &mut devices[index as usize].departed_at_peak[gauge.index()];
        if let Some(kept) = kept {
            let kept = Arc::make_mut(kept);
            kept.keep_largest();
            kept.entries.shrink_to_fit();
        }
    }
}
