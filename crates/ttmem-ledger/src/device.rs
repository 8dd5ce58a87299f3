//! A physical device: who it is, what is on it, and what its peaks were.

use crate::residency::Residency;
use crate::totals::Totals;
use std::sync::Arc;
use ttmem_event::catalogue::Arch;
use ttmem_event::{Class, CoreSet, Source};

/// What tells one device from another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeviceKey {
    /// The chip's burnt-in id.
    Unique(u64),
    /// Its number among the devices that a process can see.
    ///
    /// Numbers change with the set of visible devices, so the set is part of the key.
    Logical {
        /// The set; empty = all devices.
        visible: Arc<str>,
        /// The number.
        id: u32,
    },
}

/// What an allocator can hand out on one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Banks.
    pub banks: u32,
    /// First address in a bank.
    pub base: u64,
    /// Bytes of a bank.
    pub per_bank_bytes: u64,
}

impl Capacity {
    /// Bytes over all banks.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        u64::from(self.banks).saturating_mul(self.per_bank_bytes)
    }

    /// Of two reports on one device, the larger: a sub-mesh sees no more than its parent.
    #[must_use]
    pub(crate) fn larger(self, other: Self) -> Self {
        let rank = |capacity: &Self| (capacity.total_bytes(), capacity.banks, capacity.base);
        if rank(&other) > rank(&self) {
            other
        } else {
            self
        }
    }
}

/// The L1 of a device's compute cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ComputeL1 {
    /// The compute cores.
    pub cores: CoreSet,
    /// Bytes of each.
    pub bytes_per_core: u64,
    /// Bytes at the bottom of each that no allocator hands out.
    pub reserved_bytes: u64,
}

impl ComputeL1 {
    /// Bytes that are there.
    #[must_use]
    pub fn physical_bytes(&self) -> u64 {
        u64::from(self.cores.len()).saturating_mul(self.bytes_per_core)
    }
}

/// What is known of a device besides its memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceFacts {
    /// The runtime's logical id.
    pub logical_id: u32,
    /// The chip's burnt-in id.
    pub unique_id: Option<u64>,
    /// The architecture.
    pub arch: Option<Arch>,
    /// The board's name.
    pub board: Option<Arc<str>>,
    /// Whether it is reached through another chip.
    pub remote: Option<bool>,
    /// Its compute cores.
    pub compute: Option<ComputeL1>,
    /// Its capacities, as last reported or as the catalogue has them.
    pub capacities: [Option<Capacity>; Class::COUNT],
}

/// Totals of the four caches and of dispatches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounters {
    /// Programs sent to run.
    pub dispatches: u64,
    /// Programs found in the program cache.
    pub program_cache_hits: u64,
    /// Programs built.
    pub program_cache_misses: u64,
    /// Binaries found on the device.
    pub binary_reuses: u64,
    /// Workloads found in the prefetcher cache.
    pub prefetch_hits: u64,
    /// Kernels found on disk.
    pub jit_disk_hits: u64,
    /// Kernels compiled.
    pub jit_disk_misses: u64,
    /// Traces run.
    pub trace_replays: u64,
}

/// A physical device.
#[derive(Clone, Debug)]
pub struct Device {
    /// What tells it from others.
    pub key: DeviceKey,
    /// What is known of it.
    pub facts: DeviceFacts,
    /// How its events become known; `None` until a process speaks of it.
    pub source: Option<Source>,
    /// What all processes hold on it.
    pub totals: Totals,
    /// The last program on each core.
    pub residency: Residency,
    /// What the caches did.
    pub caches: CacheCounters,
    /// The highest L1 total that was announced as a peak.
    pub(crate) announced_l1_peak: u64,
    /// Processes that speak of it.
    pub(crate) references: u32,
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
            residency: Residency::default(),
            caches: CacheCounters::default(),
            announced_l1_peak: 0,
            references: 0,
            configured: None,
        }
    }
}
