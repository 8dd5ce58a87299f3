//! The account itself: its parts, and how it is fed.

use crate::anomaly::{Anomalies, Anomaly};
use crate::apply::Apply;
use crate::buffers::{BufferBook, BufferRow};
use crate::config_ring::{ConfigRing, Prefetcher};
use crate::definitions::Definitions;
use crate::device::{ChipKey, DeviceMoment, HeldDevice};
use crate::freed::{Freed, FreedEntries, FreedList};
use crate::legacy_cbs::{LegacyCb, LegacyCbs};
use crate::limits::Limits;
use crate::mark::Marks;
use crate::mesh::Mesh;
use crate::observer::Observer;
use crate::pages::{Pages, PagesView};
use crate::program::Program;
use crate::residency::{Trace, TraceKey};
use crate::totals::GaugeKind;
use crate::untracked::Untracked;
use crate::{Map, Set};
use std::collections::BTreeMap;
use std::sync::Arc;
use ttmem_event::{
    Class, CoreType, Definition, DeviceDefinition, Event, EventKind, KernelId, MeshId, ProgramId,
    TextId,
};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Released {
    pub buffers: u64,
    /// Their charged bytes, over all devices.
    pub buffer_bytes: u64,
    pub cbs: u64,
    pub cb_bytes: u64,
    pub kernels: u64,
    pub kernel_bytes: u64,
}

/// A config ring's place: mesh, sub-device, core type.
pub type ConfigRingKey = (u32, u8, CoreType);

/// Everything of an account but its rows.
#[derive(Clone, Debug, Default)]
pub struct AccountFacts {
    /// Events that the process lost: its totals are not to be trusted.
    pub lost_events: u64,
    /// Events that it left out: its totals are exact, its history is not.
    pub elided_events: u64,
    /// Frees of buffers that belong to the process it was forked from.
    pub inherited_frees: u64,
    /// What it still held when it closed its devices.
    pub leak_candidates: Released,
    pub anomalies: Anomalies,
    /// What it does not report, each once.
    pub untracked: Vec<Untracked>,
    pub devices: Vec<HeldDevice>,
    pub meshes: Vec<Mesh>,
    pub definitions: Arc<Definitions>,
    pub config_rings: BTreeMap<ConfigRingKey, Arc<ConfigRing>>,
    /// Its prefetcher caches, by mesh.
    pub prefetchers: BTreeMap<u32, Arc<Prefetcher>>,
    /// Its own marks, by the text that names each.
    pub marks: Arc<Marks<TextId>>,
    pub(crate) traces: BTreeMap<TraceKey, Trace>,
}

/// The rows of an account at one moment, for a reader to keep.
#[derive(Clone, Debug, Default)]
pub struct AccountRows {
    pub buffers: PagesView<BufferRow>,
    pub programs: PagesView<Program>,
    pub legacy_cbs: PagesView<LegacyCb>,
    /// What was live at a peak and is freed.
    pub(crate) freed: PagesView<Freed>,
}

/// Where a program's id comes from: an old sender's kernels have ids of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ProgramKey {
    Tracked(ProgramId),
    /// The id an old sender gave a kernel.
    LegacyKernel(u64),
}

/// How often a kernel binary is loaded, by the bytes of each load; mostly all are alike.
#[derive(Clone, Debug, Default)]
pub(crate) struct Loads {
    pub(crate) largest: (u64, u32),
    pub(crate) others: BTreeMap<u64, u32>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct DeviceIndex {
    pub(crate) programs: Set<u32>,
    /// Meshes with it that were used since they were last closed.
    pub(crate) meshes: Set<u32>,
    pub(crate) kernels: Map<KernelId, Loads>,
    pub(crate) freed_cbs: FreedList,
    pub(crate) freed_kernels: FreedList,
}

#[derive(Clone, Debug)]
pub(crate) struct Capturing {
    pub(crate) trace: TraceKey,
    /// The number of the last captured run of each program on each mesh.
    ///
    /// Not by the program's slot: another program may have it before the capture ends.
    pub(crate) last: Map<(ProgramId, u32), u64>,
}

/// What one process holds, and how it came to.
///
/// A clone shares the pages of rows until one of the two writes to them.
#[derive(Clone, Debug, Default)]
pub struct Account {
    /// Whether it belongs to an old sender.
    pub(crate) legacy: bool,
    pub(crate) facts: AccountFacts,
    pub(crate) buffers: BufferBook,
    pub(crate) programs: Pages<Program>,
    pub(crate) legacy_cbs: LegacyCbs,
    pub(crate) freed: FreedEntries,
    pub(crate) program_index: Map<ProgramKey, u32>,
    pub(crate) device_ids: Map<u32, u32>,
    pub(crate) chips: Map<ChipKey, u32>,
    /// The definitions of its devices: the one it was opened by counts.
    pub(crate) device_definitions: Map<u32, DeviceDefinition>,
    pub(crate) mesh_ids: Map<u32, u32>,
    pub(crate) legacy_meshes: Map<u32, u32>,
    /// By device of the process.
    pub(crate) on_device: Vec<DeviceIndex>,
    /// Devices of all meshes together.
    pub(crate) mesh_members: usize,
    /// Devices of all programs together.
    pub(crate) parts: usize,
    /// Per-core storage and kernels on all devices together.
    pub(crate) placed: usize,
    /// Traces that are being captured, by mesh id.
    pub(crate) capturing: BTreeMap<MeshId, Capturing>,
    /// Buffers below this id belong to the process this one was forked from.
    pub(crate) first_own_buffer: u64,
    pub(crate) highest_buffer: u64,
    /// The time given to an old sender's last report.
    pub(crate) last_report: u64,
    pub(crate) order: u64,
    pub(crate) runs: u64,
    /// What all buffers take and asked for, each once: no device has more of either.
    pub(crate) buffer_bytes: u128,
    /// Rows, devices and cores that were touched so far.
    pub(crate) work: u64,
    /// The work after which an event that is large pauses; 0 if none does.
    pub(crate) pause_at: u64,
    /// Whether the last event paused.
    pub(crate) unfinished: bool,
}

impl Account {
    /// An empty account; `legacy` if it belongs to an old sender.
    #[must_use]
    pub fn new(legacy: bool) -> Self {
        Self {
            legacy,
            buffers: BufferBook::new(legacy),
            ..Self::default()
        }
    }

    /// Whether it belongs to an old sender.
    #[must_use]
    pub fn is_legacy(&self) -> bool {
        self.legacy
    }

    /// The definition that a device was last opened by, and its board.
    #[must_use]
    pub fn description(&self, slot: u32) -> Option<(&DeviceDefinition, Option<&str>)> {
        let opened = self.facts.devices.get(slot as usize)?.opened?;
        let definition = self.device_definitions.get(&opened.0)?;
        let board = self.facts.definitions.text(definition.board);
        Some((definition, board.map(|board| &**board)))
    }

    #[must_use]
    pub fn facts(&self) -> &AccountFacts {
        &self.facts
    }

    /// Everything but its rows as it is now, for a reader.
    ///
    /// What is being captured has not run: no reader asks for it, and a reader that held it would
    /// make the next captured run copy it.
    #[must_use]
    pub fn facts_now(&self) -> AccountFacts {
        let mut facts = self.facts.clone();
        for trace in facts.traces.values_mut().filter(|trace| !trace.ended) {
            trace.captured = Arc::default();
        }
        facts
    }

    #[must_use]
    pub fn rows(&self) -> AccountRows {
        AccountRows {
            buffers: self.buffers.rows.view(),
            programs: self.programs.view(),
            legacy_cbs: self.legacy_cbs.rows.view(),
            freed: self.freed.view(),
        }
    }

    /// Events so far.
    #[must_use]
    pub fn order(&self) -> u64 {
        self.order
    }

    #[must_use]
    pub fn mesh(&self, id: MeshId) -> Option<&Mesh> {
        self.facts.meshes.get(*self.mesh_ids.get(&id.0)? as usize)
    }

    #[must_use]
    pub fn program(&self, id: ProgramId) -> Option<&Program> {
        let slot = self.program_index.get(&ProgramKey::Tracked(id))?;
        self.programs.get(*slot)
    }

    /// The live buffers of one allocator, in no order; costs what it has.
    pub fn allocator_rows(&self, mesh: MeshId, class: Class) -> impl Iterator<Item = &BufferRow> {
        let first = self.mesh(mesh);
        let first = first.and_then(|mesh| mesh.allocators[class.index()].list.first());
        let row = |slot: u32| self.buffers.rows.get(slot);
        std::iter::successors(first.and_then(row), move |last| row(last.next))
    }

    /// About how many records its state has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.buffers.rows.len() + self.placed + self.parts + self.freed.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[must_use]
    pub fn highest_buffer(&self) -> u64 {
        self.highest_buffer
    }

    /// Applies an event.
    ///
    /// # Errors
    /// When the event was refused: it booked nothing. What it contradicts is settled
    /// first: a live buffer whose id was allocated anew is gone in any case.
    #[inline]
    pub fn apply<O: Observer>(
        &mut self,
        event: &Event,
        limits: &Limits,
        observer: &mut O,
    ) -> Result<(), Anomaly> {
        self.order += 1;
        let mut apply = Apply {
            account: self,
            observer,
            limits,
            time: event.time,
        };
        let outcome = apply.event(&event.kind);
        outcome.inspect_err(|anomaly| self.facts.anomalies.count(*anomaly))
    }

    /// Applies an event as far as so many work units go; false if it is to be applied again, for
    /// the rest of it.
    ///
    /// An event that gives back a million rows takes as many calls as it needs, and nothing else
    /// may be applied in between.
    ///
    /// # Errors
    /// As [`Account::apply`].
    #[inline]
    pub fn apply_within<O: Observer>(
        &mut self,
        event: &Event,
        limits: &Limits,
        observer: &mut O,
        work: u64,
    ) -> Result<bool, Anomaly> {
        if std::mem::take(&mut self.unfinished) {
            self.order -= 1;
        }
        self.pause_at = self.work.saturating_add(work.max(1));
        let outcome = self.apply(event, limits, observer);
        self.pause_at = 0;
        outcome.map(|()| !self.unfinished)
    }

    /// Pauses the event at work if it has used what it may; true if it is to return.
    pub(crate) fn pauses(&mut self) -> bool {
        self.unfinished |= self.pause_at != 0 && self.work >= self.pause_at;
        self.unfinished
    }

    /// Whether the last event is to be applied again, for the rest of it.
    #[must_use]
    pub fn is_unfinished(&self) -> bool {
        self.unfinished
    }

    /// Work units so far: rows, devices and cores that events touched, beyond one for each event.
    ///
    /// A count and no time: the same events cost the same everywhere.
    #[must_use]
    pub fn work(&self) -> u64 {
        self.work
    }

    /// What its tables of rows take: they grow by whole pages.
    #[must_use]
    #[inline]
    pub fn page_bytes(&self) -> u64 {
        let pages = self.buffers.rows.page_bytes()
            + self.programs.page_bytes()
            + self.legacy_cbs.rows.page_bytes()
            + self.freed.pages().page_bytes();
        pages as u64
    }

    /// Programs and their parts, which are looked at one by one to measure it, and captured runs.
    #[must_use]
    pub fn programs_looked_at(&self) -> u64 {
        let captured = self.facts.traces.values();
        let captured: usize = captured.map(|trace| trace.captured.len()).sum();
        // Pages are looked at whole.
        let pages = self.programs.page_bytes() / 512;
        (self.parts + captured + pages) as u64
    }

    /// Per-core storage and kernels that it has, each on every device.
    #[must_use]
    pub fn placed(&self) -> usize {
        self.placed
    }

    /// Takes over what later events refer to.
    pub fn define<O: Observer>(
        &mut self,
        definition: &Definition,
        limits: &Limits,
        observer: &mut O,
    ) -> Result<(), Anomaly> {
        let mut apply = Apply {
            account: self,
            observer,
            limits,
            time: 0,
        };
        let outcome = apply.define(definition);
        outcome.inspect_err(|anomaly| self.facts.anomalies.count(*anomaly))
    }

    /// Counts reports that never became events: they were refused while they were read.
    pub fn refuse(&mut self, anomaly: Anomaly, count: u64) {
        self.facts.anomalies.add(anomaly, count);
    }

    /// Starts a new stretch between marks: another process set one.
    pub fn mark(&mut self, time: u64) {
        for held in &mut self.facts.devices {
            held.totals.mark(time);
        }
    }

    /// Has the highest peaks begin anew, too: what was live at the old ones is forgotten.
    pub fn restart_peaks(&mut self, time: u64) {
        for held in &mut self.facts.devices {
            for gauge in GaugeKind::all() {
                held.totals.gauge_mut(gauge).restart(time, self.order);
            }
        }
    }

    /// What it holds, over all devices.
    #[must_use]
    pub fn holdings(&self) -> Released {
        let mut held = Released::default();
        for device in &self.facts.devices {
            let totals = &device.totals;
            for class in &totals.classes {
                held.buffer_bytes += class.charged.bytes();
            }
            held.cbs += totals.cb.count;
            held.cb_bytes += totals.cb.registered.bytes();
            held.kernels += totals.kernel.count;
            held.kernel_bytes += totals.kernel.registered.bytes();
        }
        held.buffers = self.buffers.rows.len() as u64;
        held
    }

    /// Notes how far it had come when a device had a peak.
    pub fn set_moment(&mut self, slot: u32, gauge: GaugeKind, peak_number: u64, order: u64) {
        if let Some(held) = self.facts.devices.get_mut(slot as usize) {
            held.moments[gauge.index()] = DeviceMoment { peak_number, order };
        }
    }

    /// Takes over what was counted of the process before it sent its state, where that is more.
    pub fn take_over(&mut self, before: &Self, lost_events: u64, elided_events: u64) {
        self.first_own_buffer = self.first_own_buffer.max(before.first_own_buffer);
        let (facts, before) = (&mut self.facts, &before.facts);
        facts.lost_events = lost_events;
        facts.elided_events = elided_events;
        facts.inherited_frees = facts.inherited_frees.max(before.inherited_frees);
        let (leaks, known) = (&mut facts.leak_candidates, &before.leak_candidates);
        leaks.buffers = leaks.buffers.max(known.buffers);
        leaks.buffer_bytes = leaks.buffer_bytes.max(known.buffer_bytes);
        facts.anomalies.raise_to(&before.anomalies);
    }

    /// Another process's mark is newer than its own: peaks since then are those that were seen.
    pub fn restart_stretch(&mut self, time: u64, before: &AccountFacts) {
        self.mark(time);
        let before: Map<ChipKey, &HeldDevice> = before
            .devices
            .iter()
            .map(|known| (known.key, known))
            .collect();
        for held in &mut self.facts.devices {
            let known = before.get(&held.key);
            for gauge in known.iter().flat_map(|_known| GaugeKind::all()) {
                let seen = known.map(|known| known.totals.gauge(gauge).since_mark());
                let total = held.totals.gauge_mut(gauge);
                total.remember_since_mark(seen.unwrap_or_default());
            }
        }
    }

    /// Whether a process of its kind may send such an event.
    ///
    /// An old sender has the old events, and those by which its client reports what became
    /// of them.
    #[inline]
    pub(crate) fn may_send(&self, kind: &EventKind) -> bool {
        kind.is_legacy() == self.legacy
            || self.legacy
                && matches!(
                    kind,
                    EventKind::EventsLost { .. }
                        | EventKind::EventsElided { .. }
                        | EventKind::Forked { .. }
                )
    }
}
