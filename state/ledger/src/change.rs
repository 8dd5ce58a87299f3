//! Everything that changes a ledger.

use crate::device::DeviceFacts;
use crate::effect::Effect;
use crate::incomplete::IncompleteReason;
use crate::labels::Labels;
use crate::ledger::Ledger;
use crate::process::{Departure, ProcessIdentity, ProcessState};
use crate::resync::Resync;
use std::ops::Range;
use std::sync::Arc;
use ttmem_account::Anomaly;
use ttmem_event::{Definition, Event};

/// One change of a ledger, as its owner makes it. Processes are named by their slots.
///
/// A clone shares what is large.
#[derive(Clone, Debug)]
pub enum Change {
    ConfigureDevice(Box<DeviceFacts>),
    /// The process gets the next free slot, as it did in the ledger that was recorded.
    Join {
        identity: ProcessIdentity,
        claimed_pid: i64,
    },
    /// What a process says of where it runs.
    SetLabels {
        process: u32,
        labels: Labels,
    },
    SetState {
        process: u32,
        state: ProcessState,
        connections: u32,
    },
    Define {
        process: u32,
        definitions: Arc<Vec<Definition>>,
    },
    Apply(Batch),
    /// A large event was applied as far as so many work units go; it comes again, as the next
    /// event of its process.
    ApplyPart {
        process: u32,
        event: Event,
        work: u64,
    },
    Refuse {
        process: u32,
        anomaly: Anomaly,
        count: u64,
    },
    MarkIncomplete {
        process: u32,
        reason: IncompleteReason,
        count: u64,
    },
    /// The process began to send its whole state.
    BeginResync {
        process: u32,
    },
    /// That state is complete and replaces what was known.
    Resync {
        process: u32,
        resync: Arc<Resync>,
    },
    Depart {
        process: u32,
        departure: Departure,
        time: u64,
    },
    /// A reader set a mark.
    SetMark {
        user: u32,
        time: u64,
        name: Arc<str>,
        number: u64,
    },
}

/// Events of one process that were applied one after the other.
#[derive(Clone, Debug)]
pub struct Batch {
    pub process: u32,
    /// Whether they were read from its memory after its death.
    pub recovered: bool,
    pub events: Arc<Vec<Event>>,
    /// Those of them that were applied at this time.
    pub range: Range<usize>,
}

impl Batch {
    /// All events of a list.
    #[must_use]
    pub fn whole(process: u32, events: Arc<Vec<Event>>) -> Self {
        let range = 0..events.len();
        Self {
            process,
            recovered: false,
            events,
            range,
        }
    }

    /// The events; none if the range is not one of theirs.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        self.events.get(self.range.clone()).unwrap_or_default()
    }
}

impl Change {
    /// Makes the change.
    pub fn apply(&self, ledger: &mut Ledger) {
        self.apply_with(ledger, None);
    }

    /// Makes the change; what events changed is appended to `effects`, if it is given.
    pub fn apply_with(&self, ledger: &mut Ledger, mut effects: Option<&mut Vec<Effect>>) {
        match self {
            Self::ConfigureDevice(facts) => ledger.configure_device(DeviceFacts::clone(facts)),
            Self::Join {
                identity,
                claimed_pid,
            } => {
                // A file may say that there are millions.
                if ledger.has_room() {
                    let process = ledger.join(identity.clone());
                    ledger.set_claimed_pid(process, *claimed_pid);
                }
            }
            Self::SetLabels { process, labels } => ledger.set_labels(*process, labels.clone()),
            Self::SetState {
                process,
                state,
                connections,
            } => {
                ledger.set_state(*process, *state);
                ledger.set_connections(*process, *connections);
            }
            Self::Define {
                process,
                definitions,
            } => {
                for definition in definitions.iter() {
                    // A refusal is counted where it happens.
                    let _refused = ledger.define(*process, definition);
                }
            }
            Self::Apply(batch) => {
                for event in batch.events() {
                    // Likewise.
                    let _refused = ledger.apply(batch.process, event, effects.as_deref_mut());
                }
            }
            Self::ApplyPart {
                process,
                event,
                work,
            } => {
                // Likewise.
                let _unfinished = ledger.apply_within(*process, event, effects, *work);
            }
            Self::Refuse {
                process,
                anomaly,
                count,
            } => ledger.refuse(*process, *anomaly, *count),
            Self::MarkIncomplete {
                process,
                reason,
                count,
            } => ledger.mark_incomplete(*process, *reason, *count),
            Self::BeginResync { process } => ledger.set_resyncing(*process, true),
            Self::Resync { process, resync } => ledger.resync(*process, resync),
            Self::Depart {
                process,
                departure,
                time,
            } => drop(ledger.depart(*process, *departure, *time)),
            Self::SetMark {
                user,
                time,
                name,
                number,
            } => ledger.set_mark(*user, *time, Arc::clone(name), *number),
        }
        // Notes for a log that a recording does not have.
        drop(ledger.take_newly_incomplete());
    }

    /// The process that it is about, by its slot; none of one that joins and of what is about no process.
    #[must_use]
    pub fn process(&self) -> Option<u32> {
        match self {
            Self::ConfigureDevice(_) | Self::Join { .. } | Self::SetMark { .. } => None,
            Self::Apply(batch) => Some(batch.process),
            Self::SetLabels { process, .. }
            | Self::SetState { process, .. }
            | Self::Define { process, .. }
            | Self::ApplyPart { process, .. }
            | Self::Refuse { process, .. }
            | Self::MarkIncomplete { process, .. }
            | Self::BeginResync { process }
            | Self::Resync { process, .. }
            | Self::Depart { process, .. } => Some(*process),
        }
    }

    /// The same of a process in another slot.
    #[must_use]
    pub fn moved_to(&self, slot: u32) -> Self {
        let mut moved = self.clone();
        match &mut moved {
            Self::ConfigureDevice(_) | Self::Join { .. } | Self::SetMark { .. } => {}
            Self::Apply(batch) => batch.process = slot,
            Self::SetLabels { process, .. }
            | Self::SetState { process, .. }
            | Self::Define { process, .. }
            | Self::ApplyPart { process, .. }
            | Self::Refuse { process, .. }
            | Self::MarkIncomplete { process, .. }
            | Self::BeginResync { process }
            | Self::Resync { process, .. }
            | Self::Depart { process, .. } => *process = slot,
        }
        moved
    }

    /// How many events it applies.
    #[must_use]
    pub fn event_count(&self) -> usize {
        match self {
            Self::Apply(batch) => batch.events().len(),
            _other => 0,
        }
    }
}
