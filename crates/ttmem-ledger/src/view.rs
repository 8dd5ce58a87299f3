//! The ledger at one moment, for a reader to keep and work on in its own thread.

use crate::anomaly::Anomalies;
use crate::buffers::BufferRow;
use crate::device::Device;
use crate::mark::Marks;
use crate::pages::PagesView;
use crate::process::{Exit, Process, ProcessFacts, ProcessIdentity, Released};
use crate::program::Program;

/// Everything the ledger knew at one moment.
#[derive(Clone, Debug)]
pub struct View {
    /// Devices, in the order they became known.
    pub devices: Vec<Device>,
    /// Processes that may hold something, by their slot.
    pub processes: Vec<ProcessView>,
    /// Processes that left, oldest first.
    pub departed: Vec<DepartedView>,
    /// What was wrong with events, over all processes.
    pub anomalies: Anomalies,
    /// The marks.
    pub marks: Marks,
    /// Events applied.
    pub events: u64,
    /// Grows with every change: equal revisions of one ledger are equal states.
    pub revision: u64,
}

/// A process with its rows.
#[derive(Clone, Debug)]
pub struct ProcessView {
    /// Its slot in the ledger.
    pub index: u32,
    /// What is known of it.
    pub facts: ProcessFacts,
    /// Its live buffers.
    pub buffers: PagesView<BufferRow>,
    /// Its live programs.
    pub programs: PagesView<Program>,
}

impl ProcessView {
    pub(crate) fn new(index: u32, process: &Process) -> Self {
        Self {
            index,
            facts: process.facts.clone(),
            buffers: process.buffers.rows.view(),
            programs: process.programs.view(),
        }
    }

    /// The process's slot for a device of the ledger.
    #[must_use]
    pub fn device_slot(&self, device: u32) -> Option<u32> {
        let slot = self
            .facts
            .devices
            .iter()
            .position(|held| held.device == device)?;
        u32::try_from(slot).ok()
    }
}

/// A process that left.
#[derive(Clone, Debug)]
pub struct DepartedView {
    /// Who it was.
    pub identity: ProcessIdentity,
    /// How it ended.
    pub exit: Exit,
    /// The pid it claimed.
    pub claimed_pid: Option<i64>,
    /// Events it lost.
    pub lost_events: u64,
    /// Events it left out.
    pub elided_events: u64,
    /// What was wrong with its events.
    pub anomalies: u64,
    /// Frees of buffers that belong to the process it was forked from.
    pub inherited_frees: u64,
    /// What it still held when it closed its devices.
    pub leak_candidates: Released,
}

impl DepartedView {
    pub(crate) fn new(facts: &ProcessFacts, exit: Exit) -> Self {
        Self {
            identity: facts.identity.clone(),
            exit,
            claimed_pid: facts.claimed_pid,
            lost_events: facts.lost_events,
            elided_events: facts.elided_events,
            anomalies: facts.anomalies.total(),
            inherited_frees: facts.inherited_frees,
            leak_candidates: facts.leak_candidates,
        }
    }
}

impl View {
    /// The process in a slot of the ledger.
    #[must_use]
    pub fn process(&self, index: u32) -> Option<&ProcessView> {
        let place = self
            .processes
            .binary_search_by_key(&index, |process| process.index)
            .ok()?;
        self.processes.get(place)
    }
}
