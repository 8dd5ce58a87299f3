//! A device as one process sees it.

use crate::anomaly::Anomaly;
use crate::limits::MAX_HELD_BYTES;
use crate::residency::Vacated;
use crate::totals::{GaugeKind, Totals};
use std::sync::Arc;
use ttmem_event::{Class, CoreSet, DeviceDefinition, DeviceId};

/// A chip's identity within a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChipKey {
    Unique(u64),
    /// Its number among the devices that the process can see.
    Logical(u32),
}

/// What an allocator can hand out on one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    pub banks: u32,
    pub base: u64,
    pub per_bank_bytes: u64,
}

impl Capacity {
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        u64::from(self.banks).saturating_mul(self.per_bank_bytes)
    }

    /// Refuses what no device has.
    pub(crate) fn check(&self) -> Result<(), Anomaly> {
        let total = u64::from(self.banks).checked_mul(self.per_bank_bytes);
        let fits = total.is_some_and(|total| total <= MAX_HELD_BYTES);
        fits.then_some(()).ok_or(Anomaly::AbsurdSize)
    }

    /// Of two reports on one device, the larger: a sub-mesh sees no more than its parent.
    #[must_use]
    pub fn larger(self, other: Self) -> Self {
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
    pub cores: CoreSet,
    pub bytes_per_core: u64,
    /// Bytes at the bottom of each that no allocator hands out.
    pub reserved_bytes: u64,
}

impl ComputeL1 {
    #[must_use]
    pub fn physical_bytes(&self) -> u64 {
        u64::from(self.cores.len()).saturating_mul(self.bytes_per_core)
    }

    /// The compute cores of a definition, where it has them.
    #[must_use]
    pub fn of(definition: &DeviceDefinition) -> Option<Self> {
        let bytes_per_core = u64::from(definition.l1_bytes_per_core);
        let cores = definition.compute_cores();
        cores.filter(|_known| bytes_per_core > 0).map(|cores| Self {
            cores,
            bytes_per_core,
            reserved_bytes: u64::from(definition.l1_reserved_bytes).min(bytes_per_core),
        })
    }
}

macro_rules! counters {
    ($($(#[$about:meta])* $name:ident,)*) => {
        /// Totals of the four caches and of dispatches.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct CacheCounters {
            $($(#[$about])* pub $name: u64,)*
        }

        impl CacheCounters {
            #[inline]
            pub fn add(&mut self, more: &Self) {
                $(self.$name = self.$name.saturating_add(more.$name);)*
            }

            /// What these count beyond others.
            #[must_use]
            pub fn beyond(&self, others: &Self) -> Self {
                Self { $($name: self.$name.saturating_sub(others.$name),)* }
            }
        }
    };
}

counters! {
    dispatches,
    /// Programs found in the program cache.
    program_cache_hits,
    program_cache_misses,
    /// Binaries found on the device.
    binary_reuses,
    /// Workloads found in the prefetcher cache.
    prefetch_hits,
    jit_disk_hits,
    jit_disk_misses,
    trace_replays,
}

/// The moment of a device's peak in the order of one process's events.
///
/// Other processes raise a device's peak, too. The first event of this process
/// after that notes how far its own events had come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceMoment {
    /// Which of the device's peaks this is about; counts from 1.
    pub peak_number: u64,
    /// The last event of the process before it.
    pub order: u64,
}

impl DeviceMoment {
    /// The last event of the process before a peak of the device.
    ///
    /// Without an event since then, everything is as it was.
    #[must_use]
    pub fn order_of(self, peak_number: u64) -> u64 {
        if self.peak_number == peak_number {
            self.order
        } else {
            u64::MAX
        }
    }
}

/// What one process holds on one device.
#[derive(Clone, Debug)]
pub struct HeldDevice {
    pub key: ChipKey,
    /// The first id it has in the process's events; old senders have only device numbers.
    pub id: Option<DeviceId>,
    /// The id it was last opened by: its definition has the grid that is in use.
    pub opened: Option<DeviceId>,
    pub compute: Option<ComputeL1>,
    /// What the allocators last reported that they can hand out, whether or not they still do.
    pub capacities: [Option<Capacity>; Class::COUNT],
    pub totals: Totals,
    pub caches: CacheCounters,
    /// When the device had its peaks, for [`crate::peak_composition`].
    pub moments: [DeviceMoment; GaugeKind::COUNT],
    /// Cores whose last program is gone.
    pub(crate) vacated: Option<Arc<Vacated>>,
}

impl HeldDevice {
    pub(crate) fn new(key: ChipKey) -> Self {
        Self {
            key,
            id: None,
            opened: None,
            compute: None,
            capacities: Default::default(),
            totals: Totals::default(),
            caches: CacheCounters::default(),
            moments: Default::default(),
            vacated: None,
        }
    }
}
