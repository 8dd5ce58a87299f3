//! A physical device: who it is, what is on it, and what its peaks were.

use crate::counts::DeviceCounts;
use crate::peak_composition::DepartedAtPeak;
use crate::shares::{Holder, is_same_user};
use std::sync::Arc;
use ttmem_account::{CacheCounters, Capacity, ComputeL1, GaugeKind, Totals, Vacated};
use ttmem_event::catalogue::Arch;
use ttmem_event::{Class, DeviceDefinition, Source};

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
    pub counts: DeviceCounts,
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
    /// Which of them its facts are from.
    pub(crate) described_by: Option<Holder>,
    /// The user of the last process that used it.
    pub(crate) last_user: Option<u32>,
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
            counts: DeviceCounts::default(),
            peaks: [0; GaugeKind::COUNT],
            departed_at_peak: Default::default(),
            vacated: None,
            announced_l1_peak: 0,
            changed: false,
            references: 0,
            charged: None,
            described_by: None,
            last_user: None,
            configured: None,
        }
    }

    /// Whether a process uses it now.
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        self.references > 0
    }

    /// Whether it is known without any process: from a setting, or from the driver.
    #[must_use]
    pub fn is_configured(&self) -> bool {
        self.configured.is_some()
    }

    /// Whether facts are taken from this process: not from another user's than those that are known, unless
    /// it is root's. A chip is what its first user says, or anybody could make it another one.
    pub(crate) fn is_described_by(&mut self, holder: Holder) -> bool {
        let is_granted = match self.described_by {
            Some(by) => by == holder || is_same_user(by.uid, holder.uid) || holder.uid == 0,
            None => true,
        };
        if is_granted {
            self.described_by = Some(holder);
        }
        is_granted
    }

    /// What a runtime reports replaces what was known; what it leaves out stays.
    pub(crate) fn describe(&mut self, definition: &DeviceDefinition, board: Option<&str>) {
        let facts = &mut self.facts;
        facts.logical_id = definition.logical_id;
        facts.arch = Some(definition.arch);
        if let Some(board) = board {
            facts.board = Some(board.into());
        }
        facts.remote = definition.remote.or(facts.remote);
        facts.compute = ComputeL1::of(definition).or(facts.compute);
    }
}
