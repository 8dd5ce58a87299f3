//! What the bars of a device are made of, and what its user should be warned of.
//!
//! Pure: from the documents to numbers, nothing is drawn here.

use crate::theme::Ink;
use crate::widgets::Bar;
use std::collections::HashMap;
use ttmem_report::format;
use ttmem_report::labels;
use ttmem_report::machine_labels::{Whose, has_sizes};
use ttmem_report::{
    ClassUsage, Device, DeviceKey, NEARLY_FULL_PERMILLE, Share, Snapshot, percent, usage,
};

/// A memory of a device: what it is taken by and how much there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Filled {
    /// What it is taken by, in the order in which it lies there; parts of 0 are not there.
    pub(crate) parts: [(Ink, u64); 4],
    /// What is taken of it: the parts together. May be more than there is.
    pub(crate) used: u64,
    pub(crate) whole: Option<u64>,
    /// The exact maximum, where the ledger keeps one: not of L1, which is worked out when asked for.
    pub(crate) peak: Option<u64>,
    /// Of L1: whether all that lies in it is known, rather than its buffers only.
    pub(crate) is_occupied: bool,
    /// Whether anybody says what is taken of it.
    pub(crate) is_known: bool,
}

impl Filled {
    /// A class of which nothing but its allocators is known.
    pub(crate) fn class(ink: Ink, class: &ClassUsage) -> Self {
        let used = class.used_bytes();
        Self {
            parts: [(ink, used), (ink, 0), (ink, 0), (ink, 0)],
            used,
            whole: class.capacity_bytes,
            peak: Some(class.peak_bytes),
            is_occupied: false,
            is_known: true,
        }
    }

    /// A class of which TT-Metal's counters alone say something.
    fn counted(ink: Ink, counted: u64, class: &ClassUsage) -> Self {
        Self {
            parts: [(ink, counted), (ink, 0), (ink, 0), (ink, 0)],
            used: counted,
            peak: None,
            ..Self::class(ink, class)
        }
    }

    /// A class that is in use by nobody who says how much.
    fn unknown(ink: Ink, class: &ClassUsage) -> Self {
        Self {
            peak: None,
            is_known: false,
            ..Self::class(ink, class)
        }
    }

    /// L1 as *occupied* is split, where that is known; else the buffers that allocators gave out.
    pub(crate) fn l1(device: &Device) -> Self {
        let (Some(parts), Some(used), Some(physical)) = (
            usage::parts_of_l1(device),
            device.l1.occupied_bytes,
            device.l1.physical_bytes,
        ) else {
            return Self::class(Ink::L1, &device.l1);
        };
        Self {
            parts: parts.map(|(part, bytes)| (Ink::from(part), bytes)),
            used,
            whole: Some(physical),
            peak: None,
            is_occupied: true,
            is_known: true,
        }
    }

    pub(crate) fn share(&self) -> Option<Share> {
        Share::of(self.used, self.whole.filter(|_| self.is_known))
    }

    pub(crate) fn is_nearly_full(&self) -> bool {
        self.share()
            .is_some_and(|share| share.permille() >= NEARLY_FULL_PERMILLE)
    }

    /// Its percentage in seven columns: an exclamation mark says the same as the ink.
    pub(crate) fn percent(&self, unknown: &str) -> (String, Ink) {
        let (mark, ink) = if self.is_nearly_full() {
            ("!", Ink::Warning)
        } else {
            (" ", Ink::Text)
        };
        (percent(self.share(), unknown) + mark, ink)
    }

    pub(crate) fn bar(&self) -> Bar {
        let whole = self.whole.filter(|_| self.is_known);
        Bar::new(&self.parts, whole).with_peak(self.peak)
    }
}

/// A word, for rows, and what it is about, for cards.
pub(crate) type Warning = (&'static str, String);

#[derive(Debug, Clone)]
pub(crate) struct Figures<'d> {
    pub(crate) device: &'d Device,
    /// DRAM, without the trace region.
    pub(crate) dram: Filled,
    pub(crate) l1: Filled,
    pub(crate) whose: Whose,
    pub(crate) holders: Holders,
    pub(crate) warnings: Vec<Warning>,
}

impl<'d> Figures<'d> {
    pub(crate) fn of(device: &'d Device, holders: Holders) -> Self {
        let whose = Whose::of(device, holders.uncounted > 0);
        let (dram, l1) = match whose {
            Whose::Counters(counted) => (
                Filled::counted(Ink::Dram, counted.dram, &device.dram),
                Filled::counted(Ink::L1, counted.l1, &device.l1),
            ),
            Whose::Unknown => (
                Filled::unknown(Ink::Dram, &device.dram),
                Filled::unknown(Ink::L1, &device.l1),
            ),
            Whose::Attached => (Filled::class(Ink::Dram, &device.dram), Filled::l1(device)),
        };
        Self {
            device,
            dram,
            l1,
            whose,
            holders,
            warnings: warnings(device, &dram, &l1, holders),
        }
    }
}

fn warnings(device: &Device, dram: &Filled, l1: &Filled, holders: Holders) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut warn = |word, text: String| warnings.push((word, text));
    if holders.incomplete > 0 {
        let (one, many) = ("incomplete process", "incomplete processes");
        warn(
            "incomplete",
            format::counted_as(holders.incomplete, one, many),
        );
    }
    if device.verified == Some(false) {
        warn("differs", "differs from the allocator".to_owned());
    }
    let overlap = device.overlap_bytes();
    let more = labels::more_than_the_device_has(device);
    if overlap > 0 && more.is_empty() {
        warn("overlap", format!("{} overlap", format::bytes(overlap)));
    }
    for more in more {
        warn("overlap", more);
    }
    let beyond = usage::over_capacity(device);
    for (word, memory) in [("DRAM full", dram), ("L1 full", l1)] {
        let name = word.trim_end_matches(" full");
        // Anything above its capacity is reported below.
        let known = beyond.iter().any(|(known, _)| *known == name);
        if memory.is_nearly_full() && !known {
            warn(
                word,
                format!("{name} {} full", percent(memory.share(), "").trim()),
            );
        }
    }
    let beyond = beyond.into_iter().map(|(_name, text)| text);
    warnings.extend(beyond.map(|text| ("beyond 100%", text)));
    warnings
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Holders {
    /// All that hold something on it.
    pub(crate) processes: u64,
    /// Of these, those whose events were lost.
    pub(crate) incomplete: u64,
    /// Of these, those that are neither attached nor counted by TT-Metal.
    pub(crate) uncounted: u64,
}

pub(crate) fn holders(snapshot: &Snapshot) -> Vec<Holders> {
    let mut holders = vec![Holders::default(); snapshot.devices.len()];
    let devices = snapshot.devices.iter().enumerate();
    let places: HashMap<DeviceKey, usize> = devices
        .map(|(place, device)| (device.key(), place))
        .collect();
    let living = snapshot.processes.iter();
    for process in living.filter(|process| !ttmem_report::labels::is_gone(process)) {
        for device in &process.devices {
            let place = places.get(&device.key());
            if let Some(of) = place.and_then(|place| holders.get_mut(*place)) {
                of.processes += 1;
                of.incomplete += u64::from(process.incomplete);
                of.uncounted += u64::from(!has_sizes(process));
            }
        }
    }
    holders
}
