//! Stretches of a run whose peaks somebody wants to know, and what was live at them.

use super::Timeline;
use crate::own_account::{Part, Peaks};
use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use ttmem_account::totals::GaugeKind;
use ttmem_account::{Account, HeldDevice};

/// Parts of the run that are kept; of peaks in older ones it is not known what was live.
const MAX_PARTS: usize = 32;

fn peaks(held: &HeldDevice) -> Peaks {
    let mut peaks = Peaks::default();
    for kind in GaugeKind::all() {
        peaks[kind.index()] = held.totals.gauge(kind).peak();
    }
    peaks
}

/// A part of the run that ends now; it is made when the first stretch needs it.
#[derive(Debug)]
pub(super) struct Ending<'a> {
    account: &'a Account,
    part: Option<Arc<Part>>,
}

impl<'a> Ending<'a> {
    pub(super) fn new(account: &'a Account) -> Self {
        Self {
            account,
            part: None,
        }
    }

    fn part(&mut self) -> Weak<Part> {
        let account = self.account;
        let part = self.part.get_or_insert_with(|| Arc::new(Part::of(account)));
        Arc::downgrade(part)
    }
}

/// The parts that stretches refer to, oldest first.
#[derive(Debug, Default)]
pub(super) struct Parts(VecDeque<Arc<Part>>);

impl Parts {
    pub(super) fn keep(&mut self, ended: Ending<'_>) {
        self.forget_unused();
        self.0.extend(ended.part);
        if self.0.len() > MAX_PARTS {
            self.0.pop_front();
        }
    }

    pub(super) fn forget_unused(&mut self) {
        self.0.retain(|part| Arc::weak_count(part) > 0);
    }
}

/// A device in the parts of a stretch that have ended.
#[derive(Clone, Debug, Default)]
struct Ended {
    peaks: Peaks,
    /// The part that each peak was in.
    parts: [Weak<Part>; GaugeKind::COUNT],
}

#[derive(Debug, Default)]
pub(super) struct Stretch {
    /// By device.
    ended: Vec<Ended>,
    /// The last event before it.
    pub(super) begun_after: u64,
    pub(super) timeline: Option<Timeline>,
    /// Buffers that were held at a close and are not kept, and their bytes.
    pub(super) unlisted: (u64, u64),
}

impl Stretch {
    pub(super) fn new(begun_after: u64, timeline: Timeline) -> Self {
        Self {
            begun_after,
            timeline: Some(timeline),
            ..Self::default()
        }
    }

    /// Takes over the peaks of a part that are higher than those before it.
    pub(super) fn take_over(&mut self, part: &mut Ending<'_>) {
        let devices = &part.account.facts().devices;
        self.ended.resize(devices.len(), Ended::default());
        for (ended, held) in self.ended.iter_mut().zip(devices) {
            for (index, peak) in peaks(held).into_iter().enumerate() {
                if peak.bytes > ended.peaks[index].bytes {
                    ended.peaks[index] = peak;
                    ended.parts[index] = part.part();
                }
            }
        }
    }

    /// Peaks up to now, by device.
    pub(super) fn peaks(&self, devices: &[HeldDevice]) -> Vec<Peaks> {
        let ended = |slot: usize| self.ended.get(slot).map(|ended| ended.peaks);
        let with_ended = devices.iter().enumerate().map(|(slot, held)| {
            let (before, now) = (ended(slot).unwrap_or_default(), peaks(held));
            std::array::from_fn(|index| before[index].max(now[index]))
        });
        with_ended.collect()
    }

    /// The part that a peak was in, the present one or another; none if it is no longer kept.
    pub(super) fn part_of_peak(
        &self,
        slot: usize,
        kind: GaugeKind,
        now: &Arc<Part>,
    ) -> Option<Arc<Part>> {
        let held = now.facts.devices.get(slot)?;
        let present = held.totals.gauge(kind).peak().bytes;
        match self.ended.get(slot) {
            Some(ended) if ended.peaks[kind.index()].bytes >= present.max(1) => {
                ended.parts[kind.index()].upgrade()
            }
            _higher_now => Some(Arc::clone(now)),
        }
    }

    /// Forgets the peaks of some devices.
    pub(super) fn forget(&mut self, is_meant: impl Fn(usize) -> bool) {
        for (slot, ended) in self.ended.iter_mut().enumerate() {
            if is_meant(slot) {
                *ended = Ended::default();
            }
        }
    }

    /// Counts a buffer that was held at a close and is not kept.
    pub(super) fn leave(&mut self, order: u64, bytes: u64) {
        if order > self.begun_after {
            self.unlisted.0 += 1;
            self.unlisted.1 = self.unlisted.1.saturating_add(bytes);
        }
    }
}
