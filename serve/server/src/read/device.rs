//! One device of a snapshot: its classes, its L1, its programs, and who allocates on it.
//!
//! Totals come from the ledger as they are; whatever needs to know where things lie comes from the
//! geometry and is null where a sender reported no places.

use super::snapshot::{Budget, MAX_LISTED, identity, peak_bytes};
use super::vocabulary;
use ttmem_event::{CbKind, Class, CoreType, KernelKind, ProgramId, Source};
use ttmem_ledger::config_ring::{ConfigRing, Prefetcher};
use ttmem_ledger::geometry::{AllocatorGeometry, DeviceGeometry};
use ttmem_ledger::{ConfigRingKey, Mesh};
use ttmem_ledger::{Device, DeviceCounts, FailureKind, Geometry, Peak, PeakSet, ProcessView, View};
use ttmem_report::{
    AllocatorUsage, CacheCounts, CbUsage, ClassUsage, ConfigRingUsage, FailureCounts, KernelUsage,
    PrefetchUsage, Timestamp,
};

/// The runtime's rings have eight entries; beyond this many the oldest are not listed.
const MAX_RING_ENTRIES: usize = 64;

/// What lies on one device because a process says so.
#[derive(Debug, Default)]
pub(super) struct Listed {
    allocators: Vec<AllocatorUsage>,
    rings: Vec<ConfigRingUsage>,
    prefetchers: Vec<PrefetchUsage>,
    verdict: Verdict,
    /// Whether an allocator that is open reports the capacity of each class.
    has_capacity: [bool; Class::COUNT],
}

/// What the allocators' own statistics say about a device.
#[derive(Clone, Copy, Debug, Default)]
struct Verdict {
    equal: bool,
    different: bool,
    /// An allocator that holds something was never compared.
    open: bool,
}

impl Verdict {
    fn add(&mut self, verified: Option<bool>, buffers: u64) {
        match verified {
            Some(true) => self.equal = true,
            Some(false) => self.different = true,
            None => self.open |= buffers > 0,
        }
    }

    fn verified(self) -> Option<bool> {
        if self.different {
            Some(false)
        } else {
            (self.equal && !self.open).then_some(true)
        }
    }
}

/// The lists of all devices, by device.
#[derive(Debug)]
pub(super) struct Listings {
    pub(super) on_device: Vec<Listed>,
    /// What had to be left out.
    pub(super) complaints: Vec<String>,
}

impl Listings {
    pub(super) fn of(view: &View, geometry: &Geometry) -> Self {
        let mut on_device: Vec<Listed> = Vec::new();
        on_device.resize_with(view.devices.len(), Listed::default);
        let mut allocators = Budget::new(MAX_LISTED);
        for each in &geometry.allocators {
            let process = &view.processes[each.process as usize];
            let mesh = &process.account.meshes[each.mesh as usize];
            let its = &mesh.allocators[each.class.index()];
            for device in devices_of(process, mesh) {
                let listed = &mut on_device[device];
                // Buffers of single cores are in no statistics to compare with.
                listed.verdict.add(its.verified, its.per_bank_bytes);
                listed.has_capacity[each.class.index()] |= its.capacity.is_some();
                if allocators.take() {
                    listed.allocators.push(allocator(process, mesh, each));
                }
            }
        }
        let mut rings = Budget::new(MAX_LISTED);
        let mut prefetchers = Budget::new(MAX_LISTED);
        for process in &view.processes {
            for (key, each) in &process.account.config_rings {
                let mesh = &process.account.meshes[key.0 as usize];
                for device in devices_of(process, mesh).filter(|_device| rings.take()) {
                    on_device[device].rings.push(ring(process, mesh, key, each));
                }
            }
            for (slot, each) in &process.account.prefetchers {
                let mesh = &process.account.meshes[*slot as usize];
                for device in devices_of(process, mesh).filter(|_device| prefetchers.take()) {
                    let usage = prefetcher(process, mesh, each);
                    on_device[device].prefetchers.push(usage);
                }
            }
        }
        let complaints = [
            allocators.complaint("allocators"),
            rings.complaint("config rings"),
            prefetchers.complaint("prefetcher caches"),
        ];
        Self {
            on_device,
            complaints: complaints.into_iter().flatten().collect(),
        }
    }
}

/// The devices of a mesh, as the view counts them.
fn devices_of(process: &ProcessView, mesh: &Mesh) -> impl Iterator<Item = usize> {
    let devices = &process.devices;
    mesh.devices
        .iter()
        .map(|slot| devices[*slot as usize] as usize)
}

fn mesh_id(mesh: &Mesh) -> Option<u64> {
    mesh.id.map(|id| u64::from(id.0))
}

fn allocator(process: &ProcessView, mesh: &Mesh, geometry: &AllocatorGeometry) -> AllocatorUsage {
    let identity = &process.facts.identity;
    let its = &mesh.allocators[geometry.class.index()];
    let mut usage = AllocatorUsage {
        pid: identity.pid,
        instance: identity.instance.map(vocabulary::instance),
        mesh: mesh_id(mesh),
        class: vocabulary::class(geometry.class),
        charged_bytes: its.charged_bytes,
        capacity_bytes: its.capacity.map(|capacity| capacity.total_bytes()),
        banks: its.capacity.map(|capacity| capacity.banks),
        largest_free_bytes_per_bank: geometry.largest_free_bytes,
        fragmentation: None,
        buffers: its.buffers,
        verified: its.verified,
    };
    let permille = usage.fragmented_permille();
    usage.fragmentation = permille.map(|permille| f64::from(permille) / 1000.0);
    usage
}

fn ring(
    process: &ProcessView,
    mesh: &Mesh,
    key: &ConfigRingKey,
    ring: &ConfigRing,
) -> ConfigRingUsage {
    let (_mesh, sub_device, core_type) = *key;
    let oldest_listed = ring.entries().len().saturating_sub(MAX_RING_ENTRIES);
    let entries = ring.entries().skip(oldest_listed);
    ConfigRingUsage {
        pid: process.facts.identity.pid,
        mesh: mesh_id(mesh),
        core_type: vocabulary::core_type(core_type),
        sub_device: Some(u32::from(sub_device)),
        capacity_bytes: Some(ring.size_bytes),
        used_bytes: ring.used_bytes,
        entry_count: ring.entries().len() as u64,
        entries: entries
            .map(|entry| ttmem_report::ConfigRingEntry {
                program: (entry.program != ProgramId(0)).then_some(entry.program.0),
                address: entry.address,
                size_bytes: entry.size_bytes,
                sync: Some(entry.sync),
            })
            .collect(),
        wraps: ring.wraps,
        evictions: ring.evictions,
        stalls: ring.stalls,
        reserves: ring.reserves,
    }
}

fn prefetcher(process: &ProcessView, mesh: &Mesh, cache: &Prefetcher) -> PrefetchUsage {
    PrefetchUsage {
        pid: process.facts.identity.pid,
        mesh: mesh_id(mesh),
        capacity_bytes: Some(cache.size_bytes),
        used_bytes: cache.used_bytes,
        entries: cache.entries.len() as u64,
        hits: cache.hits,
        misses: cache.misses,
        evictions: cache.evictions,
        resets: cache.resets,
    }
}

pub(super) fn device(
    device: &Device,
    geometry: &DeviceGeometry,
    listed: Listed,
    since_marks: Vec<PeakSet>,
) -> ttmem_report::Device {
    let has_places = matches!(
        device.source,
        Some(Source::Attached | Source::Model | Source::Client)
    );
    let class = |class: Class| class_usage(device, geometry, class, &listed, has_places);
    let compute = device.facts.compute;
    let (id, unique_id, scope) = identity(device);
    let described = ttmem_report::Device {
        id,
        unique_id,
        scope,
        arch: device.facts.arch.and_then(vocabulary::arch),
        board: device
            .facts
            .board
            .as_deref()
            .and_then(vocabulary::known_text),
        remote: device.facts.remote,
        source: device.source.map(vocabulary::source),
        verified: listed.verdict.verified(),
        dram: class(Class::Dram),
        l1: ClassUsage {
            physical_bytes: compute.map(|compute| compute.physical_bytes()),
            reserved_bytes: compute
                .map(|compute| compute.reserved_bytes * u64::from(compute.cores.len())),
            occupied_bytes: geometry.occupied_bytes.filter(|_known| has_places),
            ..class(Class::L1)
        },
        l1_small: class(Class::L1Small),
        trace: class(Class::Trace),
        system: class(Class::System),
        cb: cb_usage(device, geometry, has_places),
        kernel: kernel_usage(device, geometry, has_places),
        ring: listed.rings,
        prefetch: listed.prefetchers,
        caches: cache_counts(device, has_places),
        dispatches: device.caches.dispatches,
        trace_replays: device.caches.trace_replays,
        cb_headroom_bytes: geometry.cb_headroom_bytes.filter(|_known| has_places),
        failures: failure_counts(&device.counts),
        ring_stalls: device.counts.ring_stalls,
        allocators: listed.allocators,
        peaks_since_marks: since_marks
            .iter()
            .map(|peaks| peak_bytes(|kind| peaks.peak(kind).bytes))
            .collect(),
        regions: Vec::new(),
        // What the machine says is added where it is known.
        names: None,
        telemetry: None,
        upstream: None,
    };
    let regions = ttmem_report::explain::regions(&described, &described.peaks());
    ttmem_report::Device {
        regions,
        ..described
    }
}

/// When a peak was; a total that never was above zero has none.
fn peak_time(peak: Peak) -> Option<Timestamp> {
    (peak.bytes > 0).then(|| Timestamp::from_unix_nanos(peak.time))
}

fn class_usage(
    device: &Device,
    geometry: &DeviceGeometry,
    class: Class,
    listed: &Listed,
    has_places: bool,
) -> ClassUsage {
    let totals = device.totals.class(class);
    let geometry = &geometry.classes[class.index()];
    let peak = totals.charged.peak();
    ClassUsage {
        capacity_bytes: geometry.capacity.map(|capacity| capacity.total_bytes()),
        banks: geometry.capacity.map(|capacity| capacity.banks),
        requested_bytes: totals.requested_bytes,
        charged_bytes: totals.charged.bytes(),
        union_bytes: Some(geometry.union_bytes),
        overlap_bytes: Some(geometry.overlap_bytes),
        peak_bytes: peak.bytes,
        peak_time: peak_time(peak),
        buffers: totals.buffers,
        largest_free_bytes_per_bank: geometry.largest_free_bytes.filter(|_known| has_places),
        capacity_is_current: geometry
            .capacity
            .map(|_known| listed.has_capacity[class.index()]),
        ..ClassUsage::default()
    }
}

fn cb_usage(device: &Device, geometry: &DeviceGeometry, has_places: bool) -> CbUsage {
    let totals = &device.totals.cb;
    let peak = totals.registered.peak();
    // Old senders do not say what their circular buffers are, nor on which cores.
    let has_kinds = has_places && totals.unplaced == 0;
    let kind = |kind: CbKind| has_kinds.then(|| totals.by_kind[kind as usize]);
    CbUsage {
        registered_bytes: totals.registered.bytes(),
        resident_bytes: geometry.cb_resident_bytes.filter(|_known| has_places),
        local_bytes: kind(CbKind::Local),
        global_bytes: kind(CbKind::Global),
        dataflow_bytes: kind(CbKind::Dataflow),
        dataflow_borrowed_bytes: kind(CbKind::DataflowBorrowed),
        scratchpad_bytes: kind(CbKind::Scratchpad),
        count: totals.count,
        peak_bytes: peak.bytes,
        peak_time: peak_time(peak),
    }
}

fn kernel_usage(device: &Device, geometry: &DeviceGeometry, has_places: bool) -> KernelUsage {
    let totals = &device.totals.kernel;
    let registered = totals.registered.bytes();
    let peak = totals.registered.peak();
    let kind = |kind: KernelKind| totals.by_kind[kind as usize];
    let has_core_types = has_places && totals.by_core_type.iter().sum::<u64>() == registered;
    let core_type =
        |core_type: CoreType| has_core_types.then(|| totals.by_core_type[core_type as usize]);
    KernelUsage {
        registered_bytes: registered,
        resident_bytes: geometry.kernel_resident_bytes.filter(|_known| has_places),
        application_bytes: kind(KernelKind::Application),
        fabric_bytes: kind(KernelKind::Fabric),
        dispatch_bytes: kind(KernelKind::Dispatch),
        unknown_bytes: kind(KernelKind::Unknown),
        unique_bytes: totals.unique_bytes,
        shared_bytes: registered.saturating_sub(totals.unique_bytes),
        tensix_bytes: core_type(CoreType::Tensix),
        active_eth_bytes: core_type(CoreType::ActiveEth),
        idle_eth_bytes: core_type(CoreType::IdleEth),
        dram_core_bytes: core_type(CoreType::Dram),
        count: totals.count,
        peak_bytes: peak.bytes,
        peak_time: peak_time(peak),
    }
}

fn failure_counts(counts: &DeviceCounts) -> FailureCounts {
    let mut failures = FailureCounts::default();
    for (kind, count) in counts.failures() {
        *match kind {
            FailureKind::Capacity => &mut failures.capacity,
            FailureKind::Fragmentation => &mut failures.fragmentation,
            FailureKind::Clash => &mut failures.clash,
            FailureKind::RegionTooSmall => &mut failures.region_too_small,
            FailureKind::Unknown => &mut failures.unknown,
        } = count;
    }
    failures
}

/// Old senders report no cache.
fn cache_counts(device: &Device, reported: bool) -> CacheCounts {
    let caches = &device.caches;
    let known = |count: u64| reported.then_some(count);
    CacheCounts {
        program_cache_hits: known(caches.program_cache_hits),
        program_cache_misses: known(caches.program_cache_misses),
        binary_reuses: known(caches.binary_reuses),
        prefetch_hits: known(caches.prefetch_hits),
        jit_disk_hits: known(caches.jit_disk_hits),
        jit_disk_misses: known(caches.jit_disk_misses),
    }
}
