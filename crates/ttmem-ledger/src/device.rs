//! A physical device: who it is, what is on it, and what its peaks were.

use crate::peak_composition::DepartedAtPeak;
use crate::shares::Holder;
use std::sync::Arc;
use ttmem_account::{CacheCounters, Capacity, ComputeL1, GaugeKind, Totals, Vacated};
use ttmem_event::catalogue::Arch;
use ttmem_event::{Class, Source};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeviceKey {
    Unique(u64),
    /// Its number among the devices that a process can see.
    ///
    /// Numbers change with the set of visible devices, so the set is part of the key.
    Logical {
        /// The set; empty = all devices.
        visible: Arc<str>,
        id: u32,
    },
}

/// What is known of a device besides its memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceFacts {
    pub logical_id: u32,
    pub unique_id: Option<u64>,
    pub arch: Option<Arch>,
    pub board: Option<Arc<str>>,
    /// Whether it is reached through another chip.
    pub remote: Option<bool>,
    pub compute: Option<ComputeL1>,
    /// Its capacities, as last reported or as the catalogue has them.
    pub capacities: [Option<Capacity>; Class::COUNT],
}

#[derive(Clone, Debug)]
pub struct Device {
    pub key: DeviceKey,
    pub facts: DeviceFacts,
    /// How its events become known; `None` until a process uses it.
    pub source: Option<Source>,
    /// What all processes hold on it.
    pub totals: Totals,
    pub caches: CacheCounters,
    /// How often each gauge was higher than ever.
    pub(crate) peaks: [u64; GaugeKind::COUNT],
    /// What processes that are gone had in the present peaks.
    pub(crate) departed_at_peak: [Option<Arc<DepartedAtPeak>>; GaugeKind::COUNT],
    /// Cores whose last program belonged to a process that is gone.
    pub(crate) vacated: Option<Arc<Vacated>>,
    /// The highest L1 total that was announced as a peak.
    pub(crate) announced_l1_peak: u64,
    /// Whether it changed since a view was last taken.
    pub(crate) changed: bool,
    /// Processes that use it.
    pub(crate) references: u32,
    /// Which of them is charged with it.
    pub(crate) charged: Option<Holder>,
    /// The capacities it was configured with; a configured device stays.
    pub(crate) configured: Option<[Option<Capacity>; Class::COUNT]>,
}

impl Device {
    pub(crate) fn new(key: DeviceKey, facts: DeviceFacts) -> Self {
        Self {
            key,
            facts,
            source: None,
            totals: Totals::default(),
            caches: CacheCounters::default(),
            peaks: [0; GaugeKind::COUNT],
            departed_at_peak: Default::default(),
            vacated: None,
            announced_l1_peak: 0,
            changed: false,
            references: 0,
            charged: None,
            configured: None,
        }
    }
}
