//! The snapshot document: every total of a view, with what is unknown left unknown.
//!
//! Runs on the reader's thread. Lists that a hostile client could make arbitrarily long are cut,
//! and the snapshot says so in its errors; totals are never cut.

use super::device::{Listed, Listings, device};
use super::host::{self, HostOf};
use super::vocabulary;
use crate::machine::Joined;
use std::collections::BTreeMap;
use ttmem_event::Class;
use ttmem_ledger::{
    DepartedView, Device, DeviceKey, Exit, GaugeKind, Geometry, IncompleteReasons, Labels,
    NotTracked, ProcessIdentity, ProcessView, View,
};
use ttmem_report::{
    Anomalies, DeviceDetail, FailureCount, HexId, IncompleteReason, LeakCandidates, Mark,
    PeakBytes, Process, ProcessDevice, Released, SCHEMA, Server, Snapshot, Timestamp,
};

/// More entries of one list than any machine gives rise to, and few enough to send.
pub(super) const MAX_LISTED: usize = 65_536;

/// What the server knows about itself when a snapshot is taken.
#[derive(Clone, Debug)]
pub struct ServerFacts {
    pub time: Timestamp,
    pub host: String,
    /// All but its uptime and the events, which a snapshot fills in.
    pub server: Server,
    /// What the server failed to do and a reader should know of.
    pub errors: Vec<String>,
}

/// How many entries of a list may still be given.
#[derive(Debug)]
pub(super) struct Budget {
    left: usize,
    left_out: u64,
}

impl Budget {
    pub(super) fn new(most: usize) -> Self {
        Self {
            left: most,
            left_out: 0,
        }
    }

    /// Whether one more entry may be given; counts it either way.
    pub(super) fn take(&mut self) -> bool {
        if self.left == 0 {
            self.left_out += 1;
            return false;
        }
        self.left -= 1;
        true
    }

    /// What the reader should know about entries that were not given.
    pub(super) fn complaint(&self, noun: &str) -> Option<String> {
        (self.left_out > 0).then(|| format!("{} {noun} are not listed", self.left_out))
    }
}

pub(super) fn snapshot(
    view: &View,
    geometry: &Geometry,
    facts: ServerFacts,
    (host_of, machine): (HostOf, Option<&Joined>),
    wanted: Option<&[usize]>,
) -> Snapshot {
    let ServerFacts {
        time,
        host,
        server,
        mut errors,
    } = facts;
    let uptime_nanos = time
        .unix_nanos()
        .saturating_sub(server.started.unix_nanos());
    let Listings {
        on_device,
        complaints,
    } = Listings::of(view, geometry);
    errors.extend(complaints);
    let devices = on_device.into_iter().enumerate();
    let is_wanted = |index: usize| match wanted {
        Some(wanted) => wanted.contains(&index),
        None => machine.is_none_or(|machine| !machine.is_known_otherwise(view, index)),
    };
    let devices = devices.filter(|(index, _listed)| is_wanted(*index));
    let devices = devices.map(|(index, listed)| {
        let mut device = one_device(view, geometry, index, listed);
        if let Some(machine) = machine {
            machine.add_to(index, &mut device);
        }
        device
    });
    let devices = devices.collect();

    let (processes, complaint) = processes(view, host_of);
    errors.extend(complaint);

    let mut snapshot = Snapshot {
        schema: SCHEMA,
        time,
        host,
        server: Server {
            uptime_seconds: uptime_nanos / 1_000_000_000,
            events_applied: view.events,
            events_lost: view.counts.lost_events,
            events_elided: view.counts.elided_events,
            ..server
        },
        devices,
        processes,
        marks: marks(view),
        anomalies: Anomalies(
            view.anomalies
                .iter()
                .map(|(anomaly, count)| (anomaly.name().to_owned(), count))
                .collect(),
        ),
        errors,
        failures: FailureCount {
            count: view.failures.count(),
            newest: view.failures.newest().map(|moment| {
                let time = moment.last_time;
                Timestamp::from_unix_nanos(time)
            }),
        },
        machine: machine.map(Joined::machine),
    };
    if wanted.is_some() {
        snapshot.keep_own_devices();
    }
    snapshot
}

/// Every process, and what had to be left out of them.
pub(super) fn processes(view: &View, host_of: HostOf) -> (Vec<Process>, Option<String>) {
    let mut budget = Budget::new(MAX_LISTED);
    let live = view
        .processes
        .iter()
        .map(|each| process(view, each, &mut budget, host_of));
    let gone = view.departed.iter().map(|each| departed(view, each));
    let processes = live.chain(gone).collect();
    (processes, budget.complaint("devices of processes"))
}

fn one_device(
    view: &View,
    geometry: &Geometry,
    index: usize,
    listed: Listed,
) -> ttmem_report::Device {
    let each = &view.devices[index];
    let running = each.totals.since_mark();
    let peaks = view.marks.peaks_since(index, running);
    let peaks = peaks.map(|(_mark, peaks)| peaks).collect();
    device(each, &geometry.devices[index], listed, peaks)
}

/// The figures of one device, without the lists of what processes have on it.
pub(crate) fn device_figures(
    view: &View,
    geometry: &Geometry,
    index: usize,
) -> ttmem_report::Device {
    let each = &view.devices[index];
    device(
        each,
        &geometry.devices[index],
        Listed::default(),
        Vec::new(),
    )
}

/// One device, and of its processes what they have on it.
pub(super) fn device_detail(
    view: &View,
    geometry: &Geometry,
    index: usize,
    (time, host_of): (Timestamp, HostOf),
    machine: Option<&Joined>,
) -> DeviceDetail {
    let mut listings = Listings::of(view, geometry);
    let mut device = one_device(view, geometry, index, listings.on_device.swap_remove(index));
    if let Some(machine) = machine {
        machine.add_to(index, &mut device);
    }
    let mut budget = Budget::new(MAX_LISTED);
    let number = u32::try_from(index).unwrap_or(u32::MAX);
    let holders = view.processes.iter().filter_map(|each| {
        let held = each
            .account
            .devices
            .get(each.device_slot(number)? as usize)?;
        let devices = vec![process_device(view.devices.get(index)?, &held.totals)];
        Some(Process {
            devices,
            ..process(view, each, &mut budget, host_of)
        })
    });
    DeviceDetail {
        schema: SCHEMA,
        time,
        device,
        processes: holders.collect(),
        users: machine.map_or_else(Vec::new, |machine| machine.users_of(index)),
    }
}

pub(super) fn marks(view: &View) -> Vec<Mark> {
    let marks = view.marks.owned();
    marks
        .map(|(owner, mark)| Mark {
            name: vocabulary::text(&mark.name),
            name_hidden: !view.audience.may_see_mark(owner),
            number: mark.number,
            time: Timestamp::from_unix_nanos(mark.time),
        })
        .collect()
}

/// What distinguishes one device from another: its logical id, the chip's own, and the set of visible devices
/// under which the first counts.
pub(crate) fn identity(device: &Device) -> (u32, Option<HexId>, Option<String>) {
    let facts = &device.facts;
    (
        facts.logical_id,
        facts.unique_id.map(HexId),
        scope(&device.key),
    )
}

/// The set of visible devices that a device is counted in; none of one with an id of its own.
pub(crate) fn scope(key: &DeviceKey) -> Option<String> {
    match key {
        DeviceKey::Unique(_) => None,
        DeviceKey::Logical { visible, .. } => vocabulary::known_text(visible),
    }
}

fn process(view: &View, process: &ProcessView, budget: &mut Budget, host_of: HostOf) -> Process {
    let (facts, account) = (&process.facts, &process.account);
    let held = account.devices.iter().zip(&process.devices);
    let held = held.filter(|_held| budget.take());
    let devices = held.filter_map(|(held, device)| {
        let device = view.devices.get(*device as usize)?;
        Some(process_device(device, &held.totals))
    });
    let reasons = reasons_of(process);
    Process {
        state: vocabulary::process_state(facts.state),
        resyncing: facts.resyncing,
        incomplete: !reasons.is_empty(),
        incomplete_reasons: reasons,
        lost_events: account.lost_events,
        elided_events: account.elided_events,
        claimed_pid: facts.claimed_pid,
        labels: labels(&facts.labels),
        anomalies: account.anomalies.total(),
        inherited_frees: account.inherited_frees,
        leak_candidates: leak_candidates(&account.leak_candidates),
        connections: facts.connections,
        devices: devices.collect(),
        names_hidden: facts.names_are_hidden,
        host: host_of(&facts.identity).map(|mut host| {
            host.command = host.command.filter(|_command| !facts.names_are_hidden);
            host
        }),
        ..identified(&facts.identity)
    }
}

fn reasons_of(process: &ProcessView) -> Vec<IncompleteReason> {
    let reasons = IncompleteReasons::of_process(&process.facts, &process.account);
    let not_tracked = process.account.not_tracked();
    incomplete_reasons(&reasons, &not_tracked, process.facts.names_are_hidden)
}

/// Whether figures of a process may not be all that it has.
pub(super) fn is_incomplete(process: &ProcessView) -> bool {
    !reasons_of(process).is_empty()
}

/// What totals come to now.
pub(super) fn held_bytes(totals: &ttmem_ledger::Totals) -> PeakBytes {
    peak_bytes(|kind| totals.gauge(kind).bytes())
}

fn process_device(device: &Device, totals: &ttmem_ledger::Totals) -> ProcessDevice {
    let (id, unique_id, scope) = identity(device);
    let held = held_bytes(totals);
    ProcessDevice {
        id,
        unique_id,
        scope,
        dram_bytes: held.dram,
        l1_bytes: held.l1,
        l1_small_bytes: held.l1_small,
        trace_bytes: held.trace,
        system_bytes: held.system,
        cb_bytes: held.cb,
        kernel_bytes: held.kernel,
        buffers: totals.buffers(),
        peak: Some(peak_bytes(|kind| totals.gauge(kind).peak().bytes)),
    }
}

pub(super) fn peak_bytes(figure: impl Fn(GaugeKind) -> u64) -> PeakBytes {
    let class = |class| figure(GaugeKind::Class(class));
    PeakBytes {
        dram: class(Class::Dram),
        l1: class(Class::L1),
        l1_small: class(Class::L1Small),
        trace: class(Class::Trace),
        system: class(Class::System),
        cb: figure(GaugeKind::Cb),
        kernel: figure(GaugeKind::Kernel),
    }
}

fn departed(view: &View, departed: &DepartedView) -> Process {
    let devices = departed.devices.iter().filter_map(|(key, totals)| {
        let device = view.devices.iter().find(|device| device.key == *key)?;
        let (id, unique_id, scope) = identity(device);
        Some(ProcessDevice {
            id,
            unique_id,
            scope,
            dram_bytes: 0,
            l1_bytes: 0,
            l1_small_bytes: 0,
            trace_bytes: 0,
            system_bytes: 0,
            cb_bytes: 0,
            kernel_bytes: 0,
            buffers: 0,
            peak: Some(peak_bytes(|kind| totals.gauge(kind).peak().bytes)),
        })
    });
    let reasons = incomplete_reasons(
        &departed.incomplete,
        &departed.not_tracked,
        departed.names_are_hidden,
    );
    Process {
        devices: devices.collect(),
        names_hidden: departed.names_are_hidden,
        state: ttmem_report::ProcessState::Exited,
        incomplete: !reasons.is_empty(),
        incomplete_reasons: reasons,
        lost_events: departed.lost_events,
        elided_events: departed.elided_events,
        claimed_pid: departed.claimed_pid,
        labels: labels(&departed.labels),
        anomalies: departed.anomalies,
        inherited_frees: departed.inherited_frees,
        leak_candidates: leak_candidates(&departed.leak_candidates),
        released: Some(released_at(&departed.exit)),
        host: Some(host::gone_process(&departed.identity)),
        ..identified(&departed.identity)
    }
}

fn incomplete_reasons(
    reasons: &IncompleteReasons,
    not_tracked: &[NotTracked],
    names_are_hidden: bool,
) -> Vec<IncompleteReason> {
    let reasons = reasons.iter().map(|(reason, count)| IncompleteReason {
        reason: reason.name().to_owned(),
        count,
        detail: None,
    });
    let not_tracked = not_tracked.iter().map(|untracked| IncompleteReason {
        reason: "not_tracked".to_owned(),
        count: 1,
        detail: (!names_are_hidden).then(|| vocabulary::text(&untracked.to_string())),
    });
    reasons.chain(not_tracked).collect()
}

fn labels(labels: &Labels) -> BTreeMap<String, String> {
    let labels = labels.iter();
    labels
        .map(|(key, value)| (key.to_owned(), vocabulary::text(value)))
        .collect()
}

fn leak_candidates(held: &ttmem_ledger::Released) -> LeakCandidates {
    LeakCandidates {
        buffers: held.buffers,
        bytes: held.buffer_bytes,
    }
}

pub(crate) fn released_at(exit: &Exit) -> Released {
    released(&exit.released, exit.time, exit.departure.name())
}

pub(super) fn released(released: &ttmem_ledger::Released, time: u64, reason: &str) -> Released {
    Released {
        buffers: released.buffers,
        cbs: released.cbs,
        kernels: released.kernels,
        bytes: released
            .buffer_bytes
            .saturating_add(released.cb_bytes)
            .saturating_add(released.kernel_bytes),
        buffer_bytes: released.buffer_bytes,
        time: Timestamp::from_unix_nanos(time),
        reason: reason.to_owned(),
    }
}

/// A process of which nothing but its identity is known.
fn identified(identity: &ProcessIdentity) -> Process {
    Process {
        pid: identity.pid,
        instance: identity.instance.map(vocabulary::instance),
        name: vocabulary::known_text(&identity.name),
        names_hidden: false,
        uid: vocabulary::known_user(identity.uid),
        start_time: identity.start_time.map(Timestamp::from_unix_nanos),
        state: ttmem_report::ProcessState::Exited,
        source: vocabulary::source(identity.source),
        incomplete: false,
        incomplete_reasons: Vec::new(),
        resyncing: false,
        lost_events: 0,
        elided_events: 0,
        claimed_pid: None,
        labels: BTreeMap::new(),
        anomalies: 0,
        inherited_frees: 0,
        leak_candidates: LeakCandidates::default(),
        connections: 0,
        devices: Vec::new(),
        released: None,
        host: None,
    }
}
