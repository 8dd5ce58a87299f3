//! Devices of a snapshot: memory by class, circular buffers, kernels, rings and allocators.
//!
//! The definitions of *requested*, *charged*, *registered*, *resident* and *occupied* are the
//! ledger's. Here is also the one definition of the bytes that a percentage is of, so that every
//! viewer shows the same.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    CoreType, DeviceNames, DeviceUser, HexId, MemoryClass, PeakOf, Process, SchemaVersion, Setting,
    Source, Telemetry, Timestamp, Upstream,
};

/// One chip.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Device {
    /// Its logical id, as the runtime counts it.
    pub id: u32,
    /// The chip's own id; with it, two logical ids are known to be one chip.
    pub unique_id: Option<HexId>,
    /// The visible-device set under which `id` counts; `null` is the default.
    pub scope: Option<String>,
    /// Architecture, such as `wormhole_b0`.
    pub arch: Option<String>,
    /// Board, such as `n300`.
    pub board: Option<String>,
    /// Reached through another chip rather than over PCIe.
    pub remote: Option<bool>,
    /// How its figures are known; `null` until a process speaks of it.
    pub source: Option<Source>,
    /// Compared with the allocators' own statistics: equal, different, or never compared.
    pub verified: Option<bool>,
    /// DRAM, without the trace region.
    pub dram: ClassUsage,
    /// L1, without the small region.
    pub l1: ClassUsage,
    /// The small region of L1.
    pub l1_small: ClassUsage,
    /// The trace region of DRAM.
    pub trace: ClassUsage,
    /// Host memory booked for this device.
    pub system: ClassUsage,
    /// Circular buffers, dataflow buffers, scratchpads.
    pub cb: CbUsage,
    /// Kernel code.
    pub kernel: KernelUsage,
    /// Kernel config rings: one per process, mesh, sub-device and core type.
    pub ring: Vec<ConfigRingUsage>,
    /// Prefetcher caches, one per process and mesh.
    pub prefetch: Vec<PrefetchUsage>,
    /// Hits and misses of the four caches.
    pub caches: CacheCounts,
    /// Programs dispatched to this device.
    pub dispatches: u64,
    /// Traces run on this device.
    pub trace_replays: u64,
    /// Bytes between the end of the resident programs' circular buffers and the lowest L1 buffer, on
    /// the core where they are fewest; below 0 where both lie at one place. `null` while no program
    /// with circular buffers is resident.
    #[serde(default)]
    pub cb_headroom_bytes: Option<i64>,
    /// What failed on this device, by what it came down to. A failure on a mesh counts on each of its devices.
    #[serde(default)]
    pub failures: FailureCounts,
    /// How often programs waited for room in a config ring of this device, processes that are gone included.
    #[serde(default)]
    pub ring_stalls: u64,
    /// Every allocator over this device.
    pub allocators: Vec<AllocatorUsage>,
    /// The highest values since each mark of the snapshot, in the order of the marks.
    pub peaks_since_marks: Vec<PeakBytes>,
    /// Regions that were given or used: the size that would have done.
    #[serde(default)]
    pub regions: Vec<Setting>,
    /// Its other names; `null` where the driver does not list it.
    #[serde(default)]
    pub names: Option<DeviceNames>,
    /// What the driver says of it; `null` of a chip behind another, in a recording, and where nothing was read.
    #[serde(default)]
    pub telemetry: Option<Telemetry>,
    /// What TT-Metal's own counters say of it; `null` where there are none.
    #[serde(default)]
    pub upstream: Option<Upstream>,
}

/// Failures on one device since the server started, those of processes that are gone included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailureCounts {
    /// Less was free than was needed.
    pub capacity: u64,
    /// Enough was free, but in no single block.
    pub fragmentation: u64,
    /// A program's storage would have overlapped memory that was in use.
    pub clash: u64,
    /// A region whose size is set when the device is opened was too small.
    pub region_too_small: u64,
    /// What is known does not decide it.
    pub unknown: u64,
}

/// One device, and of each process what it has there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceDetail {
    /// The version of the format.
    pub schema: SchemaVersion,
    /// When these figures held.
    pub time: Timestamp,
    /// The device.
    pub device: Device,
    /// The processes that hold something on it; of each only what is on this device.
    pub processes: Vec<Process>,
    /// Processes that have it open, or that TT-Metal's counters know on it; attached or not.
    #[serde(default)]
    pub users: Vec<DeviceUser>,
}

/// The highest value of each total over some time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PeakBytes {
    /// Charged in DRAM.
    pub dram: u64,
    /// Charged in L1.
    pub l1: u64,
    /// Charged in the small region of L1.
    pub l1_small: u64,
    /// Charged in the trace region.
    pub trace: u64,
    /// Charged of host memory.
    pub system: u64,
    /// Registered circular buffers.
    pub cb: u64,
    /// Registered kernels.
    pub kernel: u64,
}

impl PeakBytes {
    /// All of it.
    #[must_use]
    pub fn total(&self) -> u64 {
        let programs = self.cb.saturating_add(self.kernel);
        self.buffers().saturating_add(programs)
    }

    /// Buffers of all classes.
    #[must_use]
    pub fn buffers(&self) -> u64 {
        let buffers = [self.dram, self.l1, self.l1_small, self.trace, self.system];
        buffers.into_iter().fold(0, u64::saturating_add)
    }

    /// The highest of each total.
    ///
    /// Peaks are of different moments: their sum would be a peak of nothing.
    #[must_use]
    pub fn highest(peaks: impl Iterator<Item = Self>) -> Self {
        peaks.fold(Self::default(), |most, peak| Self {
            dram: most.dram.max(peak.dram),
            l1: most.l1.max(peak.l1),
            l1_small: most.l1_small.max(peak.l1_small),
            trace: most.trace.max(peak.trace),
            system: most.system.max(peak.system),
            cb: most.cb.max(peak.cb),
            kernel: most.kernel.max(peak.kernel),
        })
    }
}

impl Device {
    /// The highest value of each total.
    #[must_use]
    pub fn peaks(&self) -> PeakBytes {
        PeakBytes {
            dram: self.dram.peak_bytes,
            l1: self.l1.peak_bytes,
            l1_small: self.l1_small.peak_bytes,
            trace: self.trace.peak_bytes,
            system: self.system.peak_bytes,
            cb: self.cb.peak_bytes,
            kernel: self.kernel.peak_bytes,
        }
    }

    /// Device memory that more than one allocator handed out.
    #[must_use]
    pub fn overlap_bytes(&self) -> u64 {
        [self.dram, self.l1, self.l1_small, self.trace, self.system]
            .iter()
            .filter_map(|class| class.overlap_bytes)
            .fold(0, u64::saturating_add)
    }

    /// What is booked now, of each kind that has a peak.
    #[must_use]
    pub fn held(&self) -> PeakBytes {
        PeakBytes {
            dram: self.dram.charged_bytes,
            l1: self.l1.charged_bytes,
            l1_small: self.l1_small.charged_bytes,
            trace: self.trace.charged_bytes,
            system: self.system.charged_bytes,
            cb: self.cb.registered_bytes,
            kernel: self.kernel.registered_bytes,
        }
    }
}

/// One class of memory on one device, summed over its allocators.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClassUsage {
    /// What an allocator can hand out: banks times bank size.
    pub capacity_bytes: Option<u64>,
    /// Banks.
    pub banks: Option<u32>,
    /// What callers asked for.
    pub requested_bytes: u64,
    /// What the allocators take; above the union when allocators overlap.
    pub charged_bytes: u64,
    /// Bytes at least one allocator takes.
    pub union_bytes: Option<u64>,
    /// Charged beyond the union: the same bytes handed out twice.
    pub overlap_bytes: Option<u64>,
    /// Highest charged value since the server saw the device.
    pub peak_bytes: u64,
    /// When that was.
    pub peak_time: Option<Timestamp>,
    /// Live buffers.
    pub buffers: u64,
    /// Largest contiguous free block of a bank.
    pub largest_free_bytes_per_bank: Option<u64>,
    /// Whether an allocator that is open now reports the capacity. `false`: it is the last one that
    /// was reported, or the one the server was configured with.
    pub capacity_is_current: Option<bool>,
    /// Only of L1, what is there: compute cores times L1 per core.
    pub physical_bytes: Option<u64>,
    /// Only of L1, taken by the runtime before any allocator, on all cores.
    pub reserved_bytes: Option<u64>,
    /// Only of L1, the union of reserved, buffers and resident circular buffers; at most physical.
    pub occupied_bytes: Option<u64>,
}

impl ClassUsage {
    /// The bytes that count against the capacity: the union, or what is charged if unknown.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.union_bytes.unwrap_or(self.charged_bytes)
    }

    /// What is not taken of the capacity.
    #[must_use]
    pub fn free_bytes(&self) -> Option<u64> {
        Some(self.capacity_bytes?.saturating_sub(self.used_bytes()))
    }

    /// The largest interleaved request that would be granted now: the largest free block of a bank,
    /// in every bank.
    #[must_use]
    pub fn largest_fit_bytes(&self) -> Option<u64> {
        fit_bytes(
            self.largest_free_bytes_per_bank,
            self.banks,
            self.free_bytes(),
        )
    }

    /// Thousandths of what is free that no single request can have: 1 - largest fit / free.
    #[must_use]
    pub fn fragmented_permille(&self) -> Option<u16> {
        fragmented_permille(self.largest_fit_bytes(), self.free_bytes())
    }
}

fn fit_bytes(per_bank: Option<u64>, banks: Option<u32>, free: Option<u64>) -> Option<u64> {
    let fit = per_bank?.saturating_mul(u64::from(banks?));
    Some(fit.min(free.unwrap_or(u64::MAX)))
}

/// 1 - fit / free in thousandths, rounded up: 0 only where everything is in one piece.
pub(crate) fn fragmented_permille(fit: Option<u64>, free: Option<u64>) -> Option<u16> {
    let (fit, free) = (fit?, free?);
    // With nothing free nothing is in pieces.
    let share = (u128::from(fit) * 1000).checked_div(u128::from(free));
    let share = share.unwrap_or(1000).min(1000);
    u16::try_from(1000 - share).ok()
}

impl AllocatorUsage {
    /// What it can still hand out.
    #[must_use]
    pub fn free_bytes(&self) -> Option<u64> {
        Some(self.capacity_bytes?.saturating_sub(self.charged_bytes))
    }

    /// The largest interleaved request that it would grant now.
    #[must_use]
    pub fn largest_fit_bytes(&self) -> Option<u64> {
        fit_bytes(
            self.largest_free_bytes_per_bank,
            self.banks,
            self.free_bytes(),
        )
    }

    /// Thousandths of what is free that no single request can have: 1 - largest fit / free.
    #[must_use]
    pub fn fragmented_permille(&self) -> Option<u16> {
        fragmented_permille(self.largest_fit_bytes(), self.free_bytes())
    }
}

/// Circular buffers of one device; the parts are of `registered_bytes`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CbUsage {
    /// Bytes times cores over every live program, cached ones included.
    pub registered_bytes: u64,
    /// Bytes of the programs last dispatched, per core.
    pub resident_bytes: Option<u64>,
    /// Placed by their programs.
    pub local_bytes: Option<u64>,
    /// Inside L1 buffers.
    pub global_bytes: Option<u64>,
    /// Dataflow buffers.
    pub dataflow_bytes: Option<u64>,
    /// Dataflow buffers inside L1 buffers.
    pub dataflow_borrowed_bytes: Option<u64>,
    /// Scratchpads.
    pub scratchpad_bytes: Option<u64>,
    /// How many are live.
    pub count: u64,
    /// Highest registered value.
    pub peak_bytes: u64,
    /// When that was.
    pub peak_time: Option<Timestamp>,
}

/// Kernel code of one device; the parts by kind and by core type are of `registered_bytes`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KernelUsage {
    /// Bytes times cores over every live program, cached ones included.
    pub registered_bytes: u64,
    /// Bytes of the programs last dispatched, per core.
    pub resident_bytes: Option<u64>,
    /// Of user programs.
    pub application_bytes: u64,
    /// Of the fabric.
    pub fabric_bytes: u64,
    /// Of dispatch.
    pub dispatch_bytes: u64,
    /// Of a kind the sender did not name.
    pub unknown_bytes: u64,
    /// Each kernel once, however many programs use it.
    pub unique_bytes: u64,
    /// Registered beyond that.
    pub shared_bytes: u64,
    /// On compute cores.
    pub tensix_bytes: Option<u64>,
    /// On Ethernet cores with a link.
    pub active_eth_bytes: Option<u64>,
    /// On Ethernet cores without one.
    pub idle_eth_bytes: Option<u64>,
    /// On cores of DRAM banks.
    pub dram_core_bytes: Option<u64>,
    /// How many are live.
    pub count: u64,
    /// Highest registered value.
    pub peak_bytes: u64,
    /// When that was.
    pub peak_time: Option<Timestamp>,
}

/// One kernel config ring.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigRingUsage {
    /// The process that fills it; `null` from another pid namespace.
    pub pid: Option<u32>,
    /// The mesh it belongs to.
    pub mesh: Option<u64>,
    /// The kind of core it is on.
    pub core_type: CoreType,
    /// The sub-device.
    pub sub_device: Option<u32>,
    /// Its size on each core.
    pub capacity_bytes: Option<u64>,
    /// Taken on each core.
    pub used_bytes: u64,
    /// How many programs lie in it.
    pub entry_count: u64,
    /// What lies in it, oldest first; of very many only the newest.
    pub entries: Vec<ConfigRingEntry>,
    /// How often it began anew.
    pub wraps: u64,
    /// Entries thrown out for newer ones.
    pub evictions: u64,
    /// How often a program had to wait for room.
    pub stalls: u64,
    /// Reservations asked for.
    pub reserves: u64,
}

/// One program's configuration in a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigRingEntry {
    /// The program.
    pub program: Option<u64>,
    /// L1 address.
    pub address: u64,
    /// Size on each core.
    pub size_bytes: u64,
    /// The completion count after which it may be overwritten.
    pub sync: Option<u64>,
}

/// The prefetcher cache of one process and mesh.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PrefetchUsage {
    /// The process that fills it; `null` from another pid namespace.
    pub pid: Option<u32>,
    /// The mesh it belongs to.
    pub mesh: Option<u64>,
    /// Its size.
    pub capacity_bytes: Option<u64>,
    /// Taken.
    pub used_bytes: u64,
    /// Programs in it.
    pub entries: u64,
    /// Programs found in it.
    pub hits: u64,
    /// Programs not found in it.
    pub misses: u64,
    /// Programs thrown out for newer ones.
    pub evictions: u64,
    /// How often it was emptied.
    pub resets: u64,
}

/// What the caches saved; `null` where no sender reports it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CacheCounts {
    /// Operations that found their program.
    pub program_cache_hits: Option<u64>,
    /// Operations that built one.
    pub program_cache_misses: Option<u64>,
    /// Runs that found their binaries on the device.
    pub binary_reuses: Option<u64>,
    /// Runs that found their commands in the prefetcher.
    pub prefetch_hits: Option<u64>,
    /// Kernels found compiled on disk.
    pub jit_disk_hits: Option<u64>,
    /// Kernels that had to be compiled.
    pub jit_disk_misses: Option<u64>,
}

/// One allocator: a process, a mesh and a class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AllocatorUsage {
    /// Its process; `null` from another pid namespace.
    pub pid: Option<u32>,
    /// The instance of that process, as 32 hex digits.
    pub instance: Option<String>,
    /// Its mesh; `null` when the sender does not name one.
    pub mesh: Option<u64>,
    /// Where it allocates.
    pub class: MemoryClass,
    /// What it takes on this device; at most its capacity.
    pub charged_bytes: u64,
    /// What it can hand out.
    pub capacity_bytes: Option<u64>,
    /// Banks.
    pub banks: Option<u32>,
    /// Largest contiguous free block of a bank.
    pub largest_free_bytes_per_bank: Option<u64>,
    /// 1 − largest fit / free in thousandths, from 0 (one block) towards 1.
    pub fragmentation: Option<f64>,
    /// Live buffers.
    pub buffers: u64,
    /// Compared with its own statistics: equal, different, or never compared.
    pub verified: Option<bool>,
}

/// A peak of a device, or of a process on it, and what it was made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PeakContents {
    /// The version of the format.
    pub schema: SchemaVersion,
    /// When this was asked.
    pub time: Timestamp,
    /// The device's logical id.
    pub device: u32,
    /// The chip's burnt-in id, where known.
    pub unique_id: Option<HexId>,
    /// The process whose peak it is; `null` for the peak of the device over all of them.
    pub pid: Option<u32>,
    /// Of what it is the peak.
    pub of: PeakOf,
    /// The highest total.
    pub peak_bytes: u64,
    /// When it was reached; `null` before anything was held.
    pub peak_time: Option<Timestamp>,
    /// What was live then, the most bytes first. The bytes of all groups are `peak_bytes`.
    pub groups: Vec<PeakGroup>,
}

/// What one process had of a peak for one purpose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PeakGroup {
    /// The process; `null` where it is not known, and of small groups that are put together.
    pub pid: Option<u32>,
    /// Whether the process is gone.
    pub departed: bool,
    /// The operation of buffers or the program of storage and kernels, where known.
    pub name: Option<String>,
    /// The line of Python that they come from, where lines are reported.
    pub line: Option<String>,
    /// Where the user's code called that line from, the most bytes first; the first four.
    #[serde(default)]
    pub callers: Vec<String>,
    /// How many buffers, storage entries or kernels.
    pub count: u64,
    /// Their bytes on the device.
    pub bytes: u64,
}
