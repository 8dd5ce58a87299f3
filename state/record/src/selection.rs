//! Recording a part of what a ledger is given: one process, or those that use one device.
//!
//! Changes name processes by slots of the ledger that is recorded. The recording has a ledger of its own with
//! fewer processes, in other slots, so that each change is left out or given its slot there. What a process
//! did before it used the device is kept for a while; of one that did much before, a state is wanted.

use std::collections::HashMap;
use std::sync::Arc;
use ttmem_event::{Definition, Event};
use ttmem_ledger::{Change, DeviceKey, Ledger, Part};

/// Changes of a process that are kept until it uses the device, and of all such processes together.
const MAX_EARLY: usize = 64;
const MAX_ALL_EARLY: usize = 1 << 12;

/// Events of a change that is kept so.
const MAX_EARLY_EVENTS: usize = 256;

/// A process of which nothing is recorded.
#[derive(Debug)]
struct Other {
    visible_devices: Arc<str>,
    /// All that came of it so far; none if that was too much.
    early: Option<Vec<(u64, Change)>>,
}

#[derive(Debug)]
pub(crate) struct Selection {
    part: Part,
    /// Free slots of the ledger that is recorded, as it gives them out, and how many it has.
    free_slots: Vec<u32>,
    slots: u32,
    /// The slots of recorded processes there, and in the recording.
    recorded: HashMap<u32, u32>,
    others: HashMap<u32, Other>,
    early: usize,
    /// Events of processes that are to be recorded and are not, until the next state.
    missing_events: u64,
    wants_state: bool,
}

impl Selection {
    pub(crate) fn new(part: Part) -> Self {
        Self {
            part,
            free_slots: Vec::new(),
            slots: 0,
            recorded: HashMap::new(),
            others: HashMap::new(),
            early: 0,
            missing_events: 0,
            wants_state: false,
        }
    }

    /// The ledger to go on from, made of the one that is recorded.
    pub(crate) fn begin(&mut self, ledger: Ledger) -> Ledger {
        let (free, slots) = ledger.slots();
        (self.free_slots, self.slots) = (free.to_vec(), slots);
        let processes: Vec<u32> = ledger.process_slots().collect();
        let visible = |slot: &u32| Some(Arc::clone(&ledger.identity(*slot)?.visible_devices));
        let mut visible: HashMap<u32, Arc<str>> = processes
            .iter()
            .filter_map(|slot| Some((*slot, visible(slot)?)))
            .collect();
        let ledger = ledger.part(&self.part);
        // They keep their slots.
        self.recorded = ledger.process_slots().map(|slot| (slot, slot)).collect();
        visible.retain(|slot, _visible| !self.recorded.contains_key(slot));
        let others = visible.into_iter().map(|(slot, visible_devices)| {
            let early = None;
            (
                slot,
                Other {
                    visible_devices,
                    early,
                },
            )
        });
        self.others = others.collect();
        self.early = 0;
        self.wants_state = false;
        ledger
    }

    /// Whether the recording is to go on from a new state.
    pub(crate) fn wants_state(&self) -> bool {
        self.wants_state
    }

    /// Events that were missed until a state came.
    pub(crate) fn take_missing(&mut self) -> u64 {
        std::mem::take(&mut self.missing_events)
    }

    /// Whether the one process that is recorded is gone.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.part, Part::Process { .. }) && self.recorded.is_empty()
    }

    /// What is to be recorded of a change, in the slots of `own`, with the times at which it came.
    pub(crate) fn take(&mut self, time: u64, change: &Change, own: &Ledger) -> Vec<(u64, Change)> {
        let process = match change {
            Change::ConfigureDevice(_) => return Vec::new(),
            Change::SetMark { .. } => return vec![(time, change.clone())],
            Change::Join { .. } => return self.join(time, change, own),
            Change::Depart { process, .. } => {
                self.free_slots.push(*process);
                *process
            }
            other => other.process().unwrap_or(u32::MAX),
        };
        if let Some(slot) = self.recorded.get(&process) {
            let moved = change.clone().moved_to(*slot);
            if matches!(change, Change::Depart { .. }) {
                self.recorded.remove(&process);
            }
            return vec![(time, moved)];
        }
        self.take_of_other(process, time, change, own)
    }

    fn join(&mut self, time: u64, change: &Change, own: &Ledger) -> Vec<(u64, Change)> {
        let Change::Join { identity, .. } = change else {
            return Vec::new();
        };
        let slot = self.free_slots.pop().unwrap_or_else(|| {
            self.slots += 1;
            self.slots - 1
        });
        if self.part.is_process(identity) {
            self.recorded.insert(slot, own.next_slot());
            return vec![(time, change.clone())];
        }
        let can_come = matches!(self.part, Part::Device(_)) && self.early < MAX_ALL_EARLY;
        self.early += usize::from(can_come);
        let other = Other {
            visible_devices: Arc::clone(&identity.visible_devices),
            early: can_come.then(|| vec![(time, change.clone())]),
        };
        self.others.insert(slot, other);
        Vec::new()
    }

    fn take_of_other(
        &mut self,
        process: u32,
        time: u64,
        change: &Change,
        own: &Ledger,
    ) -> Vec<(u64, Change)> {
        let Some(other) = self.others.get_mut(&process) else {
            return Vec::new();
        };
        let is_wanted = uses(&self.part, &other.visible_devices, change);
        let fits = change.event_count() <= MAX_EARLY_EVENTS && self.early < MAX_ALL_EARLY;
        match &mut other.early {
            Some(early) if is_wanted => {
                let early = std::mem::take(early);
                self.early -= early.len();
                self.others.remove(&process);
                let slot = own.next_slot();
                self.recorded.insert(process, slot);
                let all = early.into_iter().chain([(time, change.clone())]);
                return all
                    .map(|(time, change)| (time, change.moved_to(slot)))
                    .collect();
            }
            Some(early) if fits && early.len() < MAX_EARLY => {
                early.push((time, change.clone()));
                self.early += 1;
            }
            Some(early) => {
                self.early -= early.len();
                other.early = None;
            }
            None => {}
        }
        if is_wanted {
            self.wants_state = true;
        }
        if self.wants_state {
            // Those of others, too: which of them are wanted the state will show.
            self.missing_events += change.event_count() as u64;
        }
        if matches!(change, Change::Depart { .. })
            && let Some(gone) = self.others.remove(&process)
        {
            self.early -= gone.early.map_or(0, |early| early.len());
        }
        Vec::new()
    }
}

/// Whether a process uses the device from this change on.
fn uses(part: &Part, visible_devices: &Arc<str>, change: &Change) -> bool {
    let Part::Device(device) = part else {
        return false;
    };
    let is_logical = |number: u32| {
        let DeviceKey::Logical { visible, id } = device else {
            return false;
        };
        visible == visible_devices && *id == number
    };
    let defines = |definitions: &[Definition]| {
        let mut devices = definitions.iter();
        devices.any(|definition| match definition {
            Definition::Device(defined) => match defined.unique_id {
                Some(id) => *device == DeviceKey::Unique(id),
                None => is_logical(defined.logical_id),
            },
            _other => false,
        })
    };
    let reports = |event: &Event| {
        let number = event.kind.legacy_device();
        let number = number.and_then(|number| u32::try_from(number).ok());
        number.is_some_and(is_logical)
    };
    match change {
        Change::Define { definitions, .. } => defines(definitions),
        // The state of an old client's process names devices by their numbers alone.
        Change::Resync { resync, .. } => {
            defines(&resync.definitions) || matches!(device, DeviceKey::Logical { .. })
        }
        Change::Apply(batch) => batch.events().iter().any(reports),
        Change::ApplyEvent { event, .. } => reports(event),
        _other => false,
    }
}
