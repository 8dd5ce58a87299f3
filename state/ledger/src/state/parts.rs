//! The structures of a ledger's state.

use super::Held;
use crate::counts::DeviceCounts;
use crate::device::{Device, DeviceFacts, DeviceKey};
use crate::failures::{FailureMoment, Failures, MAX_BLOCKS, MAX_FAILURES, MomentBlock, OfCall};
use crate::growth::{
    Births, MAX_NAMES, MAX_STEPS as MAX_KEPT_STEPS, MAX_USERS, ReaderSeries, Series, Step, Steps,
    Sum,
};
use crate::incomplete::{IncompleteReason, IncompleteReasons};
use crate::left_behind::{LeftBehind, LeftBuffers, LeftGroup, MAX_GROUPS, MAX_STEPS};
use crate::peak_composition::{DepartedAtPeak, KeptPeaks, OwnPeaks, PeakGroup};
use crate::process::{Departure, Exit, Process, ProcessFacts, ProcessIdentity, ProcessState};
use crate::shares::Holder;
use crate::view::DepartedView;
use std::collections::VecDeque;
use std::sync::Arc;
use ttmem_account::state::codec::{Codec, MAX_COUNT, Out, Reader};
use ttmem_account::state::{get_vacated, put_vacated};
use ttmem_account::{Account, CacheCounters, Capacity, GaugeKind, Totals, Vacated};
use ttmem_event::{Class, Source, TextId};

/// Counts of things in groups, of which many are summed up.
const MAX_GROUP_COUNT: u64 = 1 << 48;

/// Heights above this are noise.
const MAX_HEIGHT: u64 = 1 << 56;

/// A device; how many use it follows from them.
#[derive(Debug)]
pub(super) struct SavedDevice {
    pub(super) key: DeviceKey,
    facts: DeviceFacts,
    source: Option<Source>,
    totals: Totals,
    caches: CacheCounters,
    counts: DeviceCounts,
    peaks: [u64; GaugeKind::COUNT],
    departed_at_peak: [Option<Arc<DepartedAtPeak>>; GaugeKind::COUNT],
    vacated: SavedVacated,
    announced_l1_peak: u64,
    charged: Option<Holder>,
    described_by: Option<Holder>,
    last_user: Option<u32>,
    configured: Option<[Option<Capacity>; Class::COUNT]>,
}

impl SavedDevice {
    pub(super) fn of(device: &Device) -> Self {
        Self {
            key: device.key.clone(),
            facts: device.facts.clone(),
            source: device.source,
            totals: device.totals,
            caches: device.caches,
            counts: device.counts,
            peaks: device.peaks,
            departed_at_peak: device.departed_at_peak.clone(),
            vacated: SavedVacated(device.vacated.clone()),
            announced_l1_peak: device.announced_l1_peak,
            charged: device.charged,
            described_by: device.described_by,
            last_user: device.last_user,
            configured: device.configured,
        }
    }

    /// The device that processes hold so much on; none if it says something else.
    pub(super) fn into_device(self, held: &Held) -> Option<Device> {
        let (mut saved, mut counted) = (self.totals, held.totals);
        let mut figures = saved.figures().zip(counted.figures());
        let adds_up = figures.all(|((.., saved), (.., counted))| *saved == *counted);
        let is_charged = |holder: &Holder| held.holders.contains(holder);
        let can_be = adds_up
            && self.charged.as_ref().is_none_or(is_charged)
            && self.announced_l1_peak <= MAX_HEIGHT
            && self.peaks.iter().all(|peaks| *peaks <= MAX_COUNT);
        can_be.then_some(Device {
            key: self.key,
            facts: self.facts,
            source: self.source,
            totals: self.totals,
            caches: self.caches,
            counts: self.counts,
            peaks: self.peaks,
            departed_at_peak: self.departed_at_peak,
            vacated: self.vacated.0,
            announced_l1_peak: self.announced_l1_peak,
            changed: false,
            references: u32::try_from(held.holders.len()).ok()?,
            charged: self.charged,
            described_by: self.described_by,
            last_user: self.last_user,
            configured: self.configured,
        })
    }
}

/// Cores whose last program belonged to a process that is gone.
#[derive(Debug)]
struct SavedVacated(Option<Arc<Vacated>>);

impl Codec for SavedVacated {
    const NAME: &'static str = "vacated";
    fn put(&self, out: &mut Out) {
        put_vacated(self.0.as_deref(), out);
    }

    fn get(read: &mut Reader<'_>) -> Option<Self> {
        get_vacated(read).map(Self)
    }
}

/// A process; its account follows.
#[derive(Debug)]
pub(super) struct SavedProcess {
    facts: ProcessFacts,
    devices: Vec<u32>,
    copied_blocks: u64,
    left_at_close: Arc<LeftBuffers>,
}

impl SavedProcess {
    pub(super) fn of(process: &Process) -> Self {
        Self {
            facts: process.facts.clone(),
            devices: process.devices.clone(),
            copied_blocks: process.copied_blocks,
            left_at_close: Arc::clone(&process.left_at_close),
        }
    }

    /// The process with its account; none if the two do not belong together.
    pub(super) fn into_process(self, account: Account) -> Option<Process> {
        let is_legacy = self.facts.identity.source == Source::Legacy;
        (account.is_legacy() == is_legacy).then_some(Process {
            facts: self.facts,
            account,
            devices: self.devices,
            copied_blocks: self.copied_blocks,
            left_at_close: self.left_at_close,
            leaving: None,
            resyncing: None,
        })
    }
}

ttmem_account::codec! { describe_structures:
    SavedDevice {
        key, facts, source, totals, caches, counts, peaks, departed_at_peak, vacated, announced_l1_peak,
        charged, described_by, last_user, configured,
    };
    SavedProcess { facts, devices, copied_blocks, left_at_close };
    DeviceFacts { logical_id, unique_id, arch, board, remote, compute, capacities };
    Holder { uid, process };
    ProcessFacts {
        identity, state, connections, claimed_pid, labels, resyncing, refused, series, names_are_hidden,
    };
    ProcessIdentity {
        pid, start_time, instance, uid, name, command, source, visible_devices,
    };
    Exit { time, departure, released };
    DepartedAtPeak { groups } counts { number };
    DepartedView {
        identity, exit, claimed_pid, labels, not_tracked, incomplete, leak_candidates, devices, own_peaks,
        left_at_close, left_at_exit, names_are_hidden, lost_events, elided_events, anomalies,
        inherited_frees,
    };
    LeftBehind { series, groups };
    LeftGroup { class, operation, stack, bytes, births };
    Step { time, ordinal, number };
    MomentBlock { address, per_bank_bytes, time, origin, of_call };
    FailureMoment {
        time, last_time, identity, devices, event, origin, cores, storage_start, is_dataflow, arch,
        capacity, blocks,
    } counts { times };
}

pub(super) fn describe(give: &mut dyn FnMut(&'static str, &'static str, &'static str)) {
    describe_structures(give);
}

ttmem_account::codec_as_numbers! {
    ProcessState: u8 = |state| state as u8, |code| {
        [ProcessState::Live, ProcessState::Detached, ProcessState::Exited]
            .get(usize::from(code))
            .copied()
    };
    Departure: u8 = |departure| departure as u8, |code| {
        [
            Departure::Exited,
            Departure::Ended,
            Departure::Replaced,
            Departure::Forgotten,
        ]
        .get(usize::from(code))
        .copied()
    };
}

impl Codec for OfCall {
    const NAME: &'static str = "OfCall";
    fn put(&self, out: &mut Out) {
        self.0.put(out);
    }

    fn get(read: &mut Reader<'_>) -> Option<Self> {
        if !read.has_calls {
            return Some(Self::default());
        }
        read.get().map(Self)
    }
}

impl Codec for DeviceKey {
    const NAME: &'static str = "DeviceKey";
    fn put(&self, out: &mut Out) {
        match self {
            Self::Unique(id) => (0_u8, *id).put(out),
            Self::Logical { visible, id } => (1_u8, *id, Arc::clone(visible)).put(out),
        }
    }

    fn get(read: &mut Reader<'_>) -> Option<Self> {
        match read.get::<u8>()? {
            0 => Some(Self::Unique(read.get()?)),
            1 => {
                let (id, visible) = read.get()?;
                Some(Self::Logical { visible, id })
            }
            _other => None,
        }
    }
}

impl Codec for IncompleteReasons {
    const NAME: &'static str = "IncompleteReasons";
    fn put(&self, out: &mut Out) {
        let counts = IncompleteReason::ALL.iter();
        let counts: Vec<u64> = counts.map(|reason| self.of(*reason)).collect();
        counts.put(out);
    }

    fn get(read: &mut Reader<'_>) -> Option<Self> {
        Self::of_counts(&read.get::<Vec<u64>>()?)
    }
}

impl Codec for PeakGroup {
    const NAME: &'static str = "PeakGroup";
    fn put(&self, out: &mut Out) {
        (self.pid, self.uid, self.departed).put(out);
        (self.name.clone(), self.count, self.bytes).put(out);
    }

    fn get(read: &mut Reader<'_>) -> Option<Self> {
        let (pid, uid, departed) = read.get()?;
        let (name, count, bytes) = read.get()?;
        (count <= MAX_GROUP_COUNT).then_some(Self {
            pid,
            uid,
            departed,
            name,
            count,
            bytes,
        })
    }
}

/// The devices of a mesh mostly hold the same: what is that of the device before is not written again.
impl Codec for KeptPeaks {
    const NAME: &'static str = "KeptPeaks";
    fn put(&self, out: &mut Out) {
        (self.0.len() as u64).put(out);
        for (place, peaks) in self.0.iter().enumerate() {
            let before = place.checked_sub(1).map(|before| &self.0[before]);
            for (gauge, groups) in peaks.iter().enumerate() {
                let is_new = before.is_none_or(|before| !Arc::ptr_eq(&before[gauge], groups));
                is_new.then(|| Arc::clone(groups)).put(out);
            }
        }
    }

    fn get(read: &mut Reader<'_>) -> Option<Self> {
        let mut all: Vec<OwnPeaks> = Vec::new();
        for _device in 0..read.get::<u64>()? {
            let written: [Option<Arc<[PeakGroup]>>; GaugeKind::COUNT] = read.item()?;
            let mut peaks: OwnPeaks = std::array::from_fn(|_gauge| Arc::from([]));
            for (gauge, groups) in written.into_iter().enumerate() {
                let before = || Some(Arc::clone(&all.last()?[gauge]));
                peaks[gauge] = groups.or_else(before)?;
            }
            all.push(peaks);
        }
        Some(Self(all))
    }
}

impl Codec for Failures {
    const NAME: &'static str = "Failures";
    fn put(&self, out: &mut Out) {
        self.omitted.put(out);
        self.kept.put(out);
    }

    fn get(read: &mut Reader<'_>) -> Option<Self> {
        let omitted = read.count()?;
        let kept: VecDeque<Arc<FailureMoment>> = read.get()?;
        let blocks = kept.iter().flat_map(|moment| &moment.blocks);
        let blocks = blocks.map(|blocks| blocks.len()).sum();
        let can_be = kept.len() <= MAX_FAILURES && (blocks <= MAX_BLOCKS || kept.len() == 1);
        can_be.then_some(Self {
            kept,
            blocks,
            omitted,
        })
    }
}

impl Codec for Steps {
    const NAME: &'static str = "Steps";
    fn put(&self, out: &mut Out) {
        self.name.put(out);
        self.kept.put(out);
        self.every.put(out);
        self.count.put(out);
    }

    fn get(read: &mut Reader<'_>) -> Option<Self> {
        let steps = Self {
            name: read.get()?,
            kept: read.get()?,
            every: read.get()?,
            count: read.count()?,
        };
        let in_order = steps
            .kept
            .windows(2)
            .all(|pair| pair[0].ordinal < pair[1].ordinal && pair[0].time <= pair[1].time);
        let first = steps.kept.first().map_or(1, |step| step.ordinal);
        let last = steps.kept.last().map_or(0, |step| step.ordinal);
        let can_be = in_order
            && first >= 1
            && last <= steps.count
            && steps.kept.len() <= MAX_KEPT_STEPS
            && steps.every.is_power_of_two()
            && steps.every <= 1 << 48;
        can_be.then_some(steps)
    }
}

impl Codec for Series {
    const NAME: &'static str = "Series";
    fn put(&self, out: &mut Out) {
        self.all.put(out);
        self.named.put(out);
        self.of_readers.put(out);
    }

    fn get(read: &mut Reader<'_>) -> Option<Self> {
        let series = Self {
            all: read.get()?,
            named: read.get()?,
            of_readers: read.get()?,
        };
        (series.named.len() <= MAX_NAMES).then_some(series)
    }
}

impl Codec for ReaderSeries {
    const NAME: &'static str = "ReaderSeries";
    fn put(&self, out: &mut Out) {
        self.by_user.put(out);
    }

    fn get(read: &mut Reader<'_>) -> Option<Self> {
        let mut series = Self::default();
        series.by_user = read.get()?;
        (series.by_user.len() <= MAX_USERS).then_some(series)
    }
}

impl Codec for Sum {
    const NAME: &'static str = "Sum";
    fn put(&self, out: &mut Out) {
        (self.buffers, self.bytes).put(out);
    }

    fn get(read: &mut Reader<'_>) -> Option<Self> {
        let (buffers, bytes) = read.get()?;
        (buffers <= MAX_GROUP_COUNT).then_some(Self { buffers, bytes })
    }
}

impl Codec for Births {
    const NAME: &'static str = "Births";
    fn put(&self, out: &mut Out) {
        self.sum.put(out);
        (self.smallest, self.largest).put(out);
        self.by_step.put(out);
    }

    fn get(read: &mut Reader<'_>) -> Option<Self> {
        let sum = read.get()?;
        let (smallest, largest) = read.get()?;
        Some(Self {
            sum,
            smallest,
            largest,
            by_step: read.get()?,
        })
    }
}

impl Codec for LeftBuffers {
    const NAME: &'static str = "LeftBuffers";
    fn put(&self, out: &mut Out) {
        self.series.put(out);
        let mut groups: Vec<_> = self.groups.iter().collect();
        groups.sort_unstable_by_key(|((class, operation, stack), _)| {
            (class.index(), operation.0, stack.0)
        });
        (groups.len() as u64).put(out);
        for (key, (bytes, births)) in groups {
            key.put(out);
            bytes.put(out);
            births.put(out);
        }
        (self.steps_left as u64).put(out);
    }

    fn get(read: &mut Reader<'_>) -> Option<Self> {
        let mut left = Self::new(&read.get()?);
        let is_whole = read.each(|group: ((Class, TextId, TextId), (u64, Births))| {
            left.groups.insert(group.0, group.1);
        });
        left.steps_left = usize::try_from(read.get::<u64>()?).ok()?;
        let can_be = is_whole
            // One more for each class stands for the rest.
            && left.groups.len() <= MAX_GROUPS + Class::COUNT
            && left.steps_left <= MAX_STEPS;
        can_be.then_some(left)
    }
}
