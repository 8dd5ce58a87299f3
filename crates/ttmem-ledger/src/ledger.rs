//! The ledger itself: processes join, speak, and leave.

use crate::anomaly::{Anomalies, Anomaly};
use crate::apply::{ABSURD_BYTES, DeviceTable, Introduction, Scope};
use crate::device::{DeviceFacts, DeviceKey};
use crate::effect::{Change, Effect};
use crate::gauge::Peak;
use crate::mark::{Mark, Marks};
use crate::process::{Departure, Exit, Process, ProcessFacts, ProcessIdentity, ProcessState};
use crate::view::{DepartedView, ProcessView, View};
use std::collections::VecDeque;
use std::sync::Arc;
use ttmem_event::wire::{PeakRecord, ProgramCounters};
use ttmem_event::{Definition, Event, Source, What};

/// How much one process, and all of them, may have.
///
/// Each is far above what real programs have; together they bound what a
/// hostile client can make the server keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Devices in all.
    pub devices: usize,
    /// Devices of one process.
    pub devices_per_process: usize,
    /// The highest device number that old senders may use.
    pub last_legacy_device: u32,
    /// Mesh handles of one process.
    pub meshes_per_process: usize,
    /// Devices of all mesh handles of one process together.
    pub mesh_members_per_process: usize,
    /// Live buffers of one process.
    pub buffers_per_process: usize,
    /// Live programs of one process.
    pub programs_per_process: usize,
    /// Devices of all programs of one process together.
    pub parts_per_process: usize,
    /// Per-core storage and kernels of one process, on all devices together.
    pub placed_per_process: usize,
    /// Texts and core sets of one process.
    pub definitions_per_process: usize,
    /// Bytes of the texts of one process.
    pub text_bytes_per_process: usize,
    /// Config rings of one process.
    pub rings_per_process: usize,
    /// Traces of one process.
    pub traces_per_process: usize,
    /// Processes that are remembered after they left.
    pub departed: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            devices: 4096,
            devices_per_process: 1024,
            last_legacy_device: 1023,
            meshes_per_process: 16_384,
            mesh_members_per_process: 65_536,
            buffers_per_process: 16 << 20,
            programs_per_process: 4 << 20,
            parts_per_process: 1 << 20,
            placed_per_process: 8 << 20,
            definitions_per_process: 1 << 20,
            text_bytes_per_process: 64 << 20,
            rings_per_process: 4096,
            traces_per_process: 256,
            departed: 64,
        }
    }
}

/// The state a client carries over a reconnect, beyond its live set.
#[derive(Clone, Debug, Default)]
pub struct Carried {
    /// Its peaks.
    pub peaks: Vec<PeakRecord>,
    /// What its programs did.
    pub counters: Vec<ProgramCounters>,
    /// Events it lost so far.
    pub lost_events: u64,
    /// Events it elided so far.
    pub elided_events: u64,
}

/// Whether a process of this kind may send such an event.
///
/// One that speaks the old vocabulary has no words but the old ones, and those by
/// which its client tells what became of them.
fn may_send(source: Source, what: &What) -> bool {
    let of_any_client = matches!(
        what,
        What::EventsLost { .. } | What::EventsElided { .. } | What::Forked { .. }
    );
    if source == Source::Legacy {
        what.is_legacy() || of_any_client
    } else {
        !what.is_legacy()
    }
}

/// Who holds which bytes of which device, and who held them.
///
/// The same inputs in the same order give the same state: there is no clock and
/// no I/O in here.
#[derive(Debug, Default)]
pub struct Ledger {
    limits: Limits,
    table: DeviceTable,
    processes: Vec<Option<Process>>,
    departed: VecDeque<DepartedView>,
    anomalies: Anomalies,
    marks: Marks,
    events: u64,
    revision: u64,
    untold: u64,
}

impl Ledger {
    /// An empty ledger.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    /// Adds a device that is known before anybody speaks of it.
    pub fn configure_device(&mut self, facts: DeviceFacts) {
        self.revision += 1;
        let key = match facts.unique_id {
            Some(unique_id) => DeviceKey::Unique(unique_id),
            None => DeviceKey::Logical {
                visible: Arc::from(""),
                id: facts.logical_id,
            },
        };
        let capacities = facts.capacities;
        if let Ok(index) = self.table.find_or_add(key, || facts, self.limits.devices) {
            self.table.devices[index as usize].configured = Some(capacities);
        }
    }

    /// A process appears; its slot is its name in every later call.
    pub fn join(&mut self, identity: ProcessIdentity) -> u32 {
        self.revision += 1;
        let process = Process::new(identity);
        let free = self.processes.iter().position(Option::is_none);
        let slot = match free {
            Some(slot) => {
                self.processes[slot] = Some(process);
                slot
            }
            None => {
                self.processes.push(Some(process));
                self.processes.len() - 1
            }
        };
        u32::try_from(slot).expect("fewer processes than a pid can count")
    }

    /// A process's connection ended or came back while it lives.
    ///
    /// Returns the state it was in.
    pub fn set_state(&mut self, process: u32, state: ProcessState) -> Option<ProcessState> {
        let known = &mut self.process_mut(process)?.facts.state;
        Some(std::mem::replace(known, state))
    }

    /// How many connections a process has.
    pub fn set_connections(&mut self, process: u32, connections: u32) {
        if let Some(process) = self.process_mut(process) {
            process.facts.connections = connections;
        }
    }

    /// A pid that a process claims to have; shown, never used.
    pub fn set_claimed_pid(&mut self, process: u32, pid: i64) {
        if let Some(process) = self.process_mut(process) {
            process.facts.claimed_pid = Some(pid);
        }
    }

    /// A process began to send its whole state anew; until it is complete the old view stays.
    pub fn set_resyncing(&mut self, process: u32, resyncing: bool) {
        if let Some(process) = self.process_mut(process) {
            process.facts.resyncing = resyncing;
        }
    }

    /// A process is gone: all that it held is released.
    pub fn depart(&mut self, process: u32, departure: Departure, time: u64) -> Option<Exit> {
        let slot = self.processes.get_mut(process as usize)?;
        let gone = slot.take()?;
        let exit = Exit {
            time,
            departure,
            released: gone.holdings(),
        };
        self.let_go(process, &gone);
        if self.departed.len() >= self.limits.departed {
            self.departed.pop_front();
        }
        self.departed
            .push_back(DepartedView::new(&gone.facts, exit));
        Some(exit)
    }

    /// Takes a process's holdings off the devices.
    fn let_go(&mut self, index: u32, process: &Process) {
        self.revision += 1;
        for held in &process.facts.devices {
            let device = &mut self.table.devices[held.device as usize];
            device.totals.subtract(&held.totals);
            device.residency.clear(|owner| owner.process == index);
            device.references -= 1;
        }
    }

    /// Replaces all that is known of a process by what it sent anew.
    pub fn resync<'e>(
        &mut self,
        index: u32,
        definitions: impl IntoIterator<Item = &'e Definition>,
        events: impl IntoIterator<Item = &'e Event>,
        carried: &Carried,
    ) {
        let Some(slot) = self.processes.get_mut(index as usize) else {
            return;
        };
        let Some(old) = slot.take() else { return };
        self.let_go(index, &old);
        let mut fresh = Process::new(old.facts.identity);
        fresh.facts.anomalies = old.facts.anomalies;
        fresh.facts.claimed_pid = old.facts.claimed_pid;
        fresh.facts.connections = old.facts.connections;
        fresh.facts.inherited_frees = old.facts.inherited_frees;
        fresh.first_own_buffer = old.first_own_buffer;
        fresh.facts.leak_candidates = old.facts.leak_candidates;
        fresh.facts.lost_events = carried.lost_events;
        fresh.facts.elided_events = carried.elided_events;
        self.processes[index as usize] = Some(fresh);
        for definition in definitions {
            // A refusal is counted where it happens.
            let _refused = self.define(index, definition);
        }
        for event in events {
            let _refused = self.apply(index, event, None);
        }
        self.restore(index, carried);
    }

    fn restore(&mut self, index: u32, carried: &Carried) {
        let Some(process) = self
            .processes
            .get_mut(index as usize)
            .and_then(Option::as_mut)
        else {
            return;
        };
        let is_old = process.facts.identity.source == Source::Legacy;
        for record in &carried.peaks {
            let slot = if is_old {
                let (table, limits) = (&mut self.table, &self.limits);
                let mut introduction = Introduction {
                    process,
                    table,
                    limits,
                };
                introduction.legacy_device(record.device.0)
            } else {
                process.device_ids.get(&record.device.0).copied()
            };
            let Some(slot) = slot else { continue };
            let held = &mut process.facts.devices[slot as usize];
            let peak = Peak {
                bytes: record.bytes,
                time: record.time,
            };
            held.totals.classes[record.class.index()]
                .charged
                .remember(peak);
            let device = &mut self.table.devices[held.device as usize];
            // A process may be wrong about itself; it may not put a peak on a device
            // that the device cannot have.
            let most = device.facts.capacities[record.class.index()];
            if peak.bytes <= most.map_or(ABSURD_BYTES, |capacity| capacity.total_bytes()) {
                device.totals.classes[record.class.index()]
                    .charged
                    .remember(peak);
            }
        }
        for record in &carried.counters {
            process.restore_counters(record, self.limits.parts_per_process);
        }
    }

    /// A process introduces what its events refer to.
    ///
    /// # Errors
    /// When it contradicts an earlier definition or there are too many.
    pub fn define(&mut self, index: u32, definition: &Definition) -> Result<(), Anomaly> {
        self.revision += 1;
        let process = self
            .processes
            .get_mut(index as usize)
            .and_then(Option::as_mut);
        let process = process.ok_or(Anomaly::Undefined)?;
        let (table, limits) = (&mut self.table, &self.limits);
        let outcome = Introduction {
            process,
            table,
            limits,
        }
        .define(definition);
        self.count_refusal(index, outcome)
    }

    /// Applies an event of a process.
    ///
    /// What it changed is appended to `effects`, if somebody wants to know.
    ///
    /// # Errors
    /// When the event was refused: it booked nothing. What it contradicts is settled
    /// first: a live buffer whose id was allocated anew is gone in any case.
    pub fn apply(
        &mut self,
        index: u32,
        event: &Event,
        mut effects: Option<&mut Vec<Effect>>,
    ) -> Result<(), Anomaly> {
        self.events += 1;
        self.revision += 1;
        let process = self
            .processes
            .get_mut(index as usize)
            .and_then(Option::as_mut);
        let process = process.ok_or(Anomaly::Undefined)?;
        let may_mark = process.facts.identity.source != Source::Legacy;
        if let (What::Marked { name, number }, true) = (event.what, may_mark) {
            let name = process.facts.definitions.text(name).cloned();
            self.set_mark(event.time, name.unwrap_or_else(|| Arc::from("")), number);
        }
        let outcome = self.apply_inner(index, event, effects.as_deref_mut());
        if let (Err(anomaly), Some(effects)) = (outcome, effects) {
            let change = Change::Contradicted {
                anomaly,
                what: event.what,
            };
            effects.push(Effect {
                time: event.time,
                process: index,
                device: None,
                change,
            });
        }
        self.count_refusal(index, outcome)
    }

    fn apply_inner(
        &mut self,
        index: u32,
        event: &Event,
        effects: Option<&mut Vec<Effect>>,
    ) -> Result<(), Anomaly> {
        let process = self
            .processes
            .get_mut(index as usize)
            .and_then(Option::as_mut);
        let process = process.ok_or(Anomaly::Undefined)?;
        if !may_send(process.facts.identity.source, &event.what) {
            return Err(Anomaly::Malformed);
        }
        let mesh = match event.what.legacy_device() {
            Some(device) => {
                let (table, limits) = (&mut self.table, &self.limits);
                let mut introduction = Introduction {
                    process,
                    table,
                    limits,
                };
                match introduction.legacy_mesh(device, &event.what) {
                    Ok(mesh) => Some(mesh),
                    Err(anomaly) => return process.excuse_inherited(&event.what, anomaly),
                }
            }
            None => None,
        };
        let mut scope = Scope {
            index,
            process,
            devices: &mut self.table.devices,
            anomalies: &mut self.anomalies,
            limits: &self.limits,
            time: event.time,
            effects,
            untold: &mut self.untold,
        };
        match mesh {
            Some(mesh) => match scope.apply_legacy(mesh, &event.what) {
                Ok(()) => Ok(()),
                Err(anomaly) => scope.process.excuse_inherited(&event.what, anomaly),
            },
            None => scope.apply(&event.what),
        }
    }

    /// Counts reports that never became events: they were refused while they were read.
    pub fn refuse(&mut self, index: u32, anomaly: Anomaly, count: u64) {
        self.anomalies.add(anomaly, count);
        if let Some(process) = self.process_mut(index) {
            process.facts.anomalies.add(anomaly, count);
        }
    }

    fn count_refusal(&mut self, index: u32, outcome: Result<(), Anomaly>) -> Result<(), Anomaly> {
        if let Err(anomaly) = outcome {
            self.anomalies.count(anomaly);
            if let Some(process) = self.process_mut(index) {
                process.facts.anomalies.count(anomaly);
            }
        }
        outcome
    }

    /// Sets a mark: peaks are kept from here on as well.
    pub fn set_mark(&mut self, time: u64, name: Arc<str>, number: u64) {
        let ended = self
            .table
            .devices
            .iter_mut()
            .map(|device| device.totals.mark(time))
            .collect();
        for process in self.processes.iter_mut().flatten() {
            for held in &mut process.facts.devices {
                held.totals.mark(time);
            }
        }
        self.marks.push(Mark { time, name, number }, ended);
        self.revision += 1;
    }

    fn process_mut(&mut self, index: u32) -> Option<&mut Process> {
        self.processes.get_mut(index as usize)?.as_mut()
    }

    /// Effects that were left out since this was last asked, for want of room.
    pub fn take_untold(&mut self) -> u64 {
        std::mem::take(&mut self.untold)
    }

    /// Events applied so far.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Everything as it is now, for a reader to keep.
    #[must_use]
    pub fn view(&self) -> View {
        let processes = self
            .processes
            .iter()
            .enumerate()
            .filter_map(|(index, process)| {
                let index = u32::try_from(index).ok()?;
                Some(ProcessView::new(index, process.as_ref()?))
            });
        View {
            devices: self.table.devices.clone(),
            processes: processes.collect(),
            departed: self.departed.iter().cloned().collect(),
            anomalies: self.anomalies.clone(),
            marks: self.marks.clone(),
            events: self.events,
            revision: self.revision,
        }
    }

    /// What is held on a device, by its place in the ledger.
    #[must_use]
    pub fn device(&self, index: u32) -> Option<&crate::device::Device> {
        self.table.devices.get(index as usize)
    }

    /// All devices, by their places in the ledger.
    #[must_use]
    pub fn devices(&self) -> &[crate::device::Device] {
        &self.table.devices
    }

    /// How many devices there are.
    #[must_use]
    pub fn device_count(&self) -> usize {
        self.table.devices.len()
    }

    /// Everything that is known of a process, its rows aside.
    #[must_use]
    pub fn facts(&self, index: u32) -> Option<&ProcessFacts> {
        Some(&self.processes.get(index as usize)?.as_ref()?.facts)
    }

    /// Who a process is.
    #[must_use]
    pub fn identity(&self, index: u32) -> Option<&ProcessIdentity> {
        Some(&self.facts(index)?.identity)
    }
}
