//! Everything that changes a ledger, and the one method that does.
//!
//! The live ledger thread, recordings and replay all go through [`Ledger::apply`], so they cannot differ.

use crate::device::DeviceFacts;
use crate::effect::Effect;
use crate::incomplete::IncompleteReason;
use crate::labels::Labels;
use crate::ledger::Ledger;
use crate::process::{DepartedProcess, Departure, ProcessIdentity, ProcessState};
use crate::resync::Resync;
use std::ops::Range;
use std::sync::Arc;
use ttmem_account::{Anomalies, Anomaly};
use ttmem_event::{Definition, Event, EventKind};

/// One change of a ledger. Processes are named by their slots.
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
    /// One event, up to this many work units. A large event that is not finished then comes again, as
    /// the next event of its process.
    ApplyEvent {
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
    /// That state is complete and replaces what was known. To continue, apply the same one again.
    Resync {
        process: u32,
        resync: Arc<Resync>,
    },
    /// The process exited; everything that it held is released. Until that is finished nothing else
    /// may change about the process.
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
    /// One event, with all of its work.
    #[must_use]
    pub fn event(process: u32, event: Event) -> Self {
        Self::ApplyEvent {
            process,
            event,
            work: u64::MAX,
        }
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
            | Self::ApplyEvent { process, .. }
            | Self::Refuse { process, .. }
            | Self::MarkIncomplete { process, .. }
            | Self::BeginResync { process }
            | Self::Resync { process, .. }
            | Self::Depart { process, .. } => Some(*process),
        }
    }

    /// The same of a process in another slot.
    #[must_use]
    pub fn moved_to(mut self, slot: u32) -> Self {
        match &mut self {
            Self::ConfigureDevice(_) | Self::Join { .. } | Self::SetMark { .. } => {}
            Self::Apply(batch) => batch.process = slot,
            Self::SetLabels { process, .. }
            | Self::SetState { process, .. }
            | Self::Define { process, .. }
            | Self::ApplyEvent { process, .. }
            | Self::Refuse { process, .. }
            | Self::MarkIncomplete { process, .. }
            | Self::BeginResync { process }
            | Self::Resync { process, .. }
            | Self::Depart { process, .. } => *process = slot,
        }
        self
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

/// What an event costs besides the rows, devices and cores that it touches, in work units.
pub const EVENT_WORK: u64 = 8;

/// How much of a change one call of [`Ledger::apply`] makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApplyLimits {
    /// Work units, [`EVENT_WORK`] for each event of a batch included.
    pub work: u64,
    /// Effects in the list, after an event of a batch.
    pub effects: usize,
    /// Whether to return after each event of a batch that reports a failure.
    pub stops_at_failures: bool,
}

impl ApplyLimits {
    /// The whole change in one call.
    pub const NONE: Self = Self {
        work: u64::MAX,
        effects: usize::MAX,
        stops_at_failures: false,
    };
}

/// What a change led to.
#[derive(Debug, Default)]
pub struct ChangeOutcome {
    /// The slot of a process that joined; `None` if there was no room.
    pub slot: Option<u32>,
    /// The state of the process before it was given another.
    pub state_before: Option<ProcessState>,
    /// A process that left.
    pub departed: Option<Box<DepartedProcess>>,
    /// Why the first refused event or definition was refused.
    pub refused: Option<Anomaly>,
    /// Events of a batch that were applied.
    pub applied: usize,
    /// What was wrong with events of a batch, by their indices in its list. An event that was booked
    /// in spite of a contradiction is not refused.
    pub anomalies: Vec<(usize, Anomaly)>,
    /// Whether it returned after an event that reports a failure, now the newest of
    /// [`Ledger::failures`].
    pub is_failure: bool,
    /// The event of a batch that is not finished, and the work units that it was given: a recording
    /// needs both, as [`Change::ApplyEvent`].
    pub unfinished: Option<(Event, u64)>,
    /// The change that continues this one.
    pub rest: Option<Change>,
}

impl Ledger {
    /// Makes a change, within limits.
    ///
    /// What events changed is appended to `effects`, if it is given.
    pub fn apply(
        &mut self,
        change: &Change,
        limits: ApplyLimits,
        effects: Option<&mut Vec<Effect>>,
    ) -> ChangeOutcome {
        let mut outcome = ChangeOutcome::default();
        match change {
            Change::ConfigureDevice(facts) => self.configure_device(DeviceFacts::clone(facts)),
            Change::Join {
                identity,
                claimed_pid,
            } => {
                // A file may contain millions.
                if self.has_room() {
                    let process = self.join(identity.clone());
                    self.set_claimed_pid(process, *claimed_pid);
                    outcome.slot = Some(process);
                }
            }
            Change::SetLabels { process, labels } => self.set_labels(*process, labels.clone()),
            Change::SetState {
                process,
                state,
                connections,
            } => {
                outcome.state_before = self.set_state(*process, *state);
                self.set_connections(*process, *connections);
            }
            Change::Define {
                process,
                definitions,
            } => {
                for definition in definitions.iter() {
                    let defined = self.define(*process, definition);
                    outcome.refused = outcome.refused.or(defined.err());
                }
            }
            Change::Apply(batch) => self.apply_batch(batch, limits, effects, &mut outcome),
            Change::ApplyEvent {
                process,
                event,
                work,
            } => match self.apply_one(*process, event, effects, limits.work.min(*work)) {
                Ok(true) => {}
                Ok(false) => outcome.rest = Some(change.clone()),
                Err(anomaly) => outcome.refused = Some(anomaly),
            },
            Change::Refuse {
                process,
                anomaly,
                count,
            } => self.refuse(*process, *anomaly, *count),
            Change::MarkIncomplete {
                process,
                reason,
                count,
            } => self.mark_incomplete(*process, *reason, *count),
            Change::BeginResync { process } => self.set_resyncing(*process, true),
            Change::Resync { process, resync } => {
                if !self.resync(*process, resync, limits.work) {
                    outcome.rest = Some(change.clone());
                }
            }
            Change::Depart {
                process,
                departure,
                time,
            } => {
                outcome.departed = self.depart(*process, *departure, *time, limits.work);
                if self.process(*process).is_some() {
                    outcome.rest = Some(change.clone());
                }
            }
            Change::SetMark {
                user,
                time,
                name,
                number,
            } => self.set_mark(*user, *time, Arc::clone(name), *number),
        }
        outcome
    }

    /// Applies one event: see [`Ledger::apply_event`], which is inlined into the loop over a batch.
    #[inline(never)]
    fn apply_one(
        &mut self,
        process: u32,
        event: &Event,
        effects: Option<&mut Vec<Effect>>,
        work: u64,
    ) -> Result<bool, Anomaly> {
        self.apply_event(process, event, effects, work)
    }

    /// Applies events one after the other until a limit is reached.
    #[inline(never)]
    fn apply_batch(
        &mut self,
        batch: &Batch,
        limits: ApplyLimits,
        mut effects: Option<&mut Vec<Effect>>,
        outcome: &mut ChangeOutcome,
    ) {
        let events = batch.events();
        let first = batch.range.start;
        let mut known = self.anomalies_of(batch.process).cloned();
        // Work at which to return: less with each event.
        let mut until = self.work().saturating_add(limits.work);
        let mut exceptions = self.exceptions;
        let mut applied = 0;
        for event in events {
            if self.work() >= until {
                break;
            }
            let left = until - self.work();
            let done = self.apply_event(batch.process, event, effects.as_deref_mut(), left);
            if done == Ok(false) {
                outcome.unfinished = Some((*event, left));
                break;
            }
            applied += 1;
            until = until.saturating_sub(EVENT_WORK);
            if self.exceptions != exceptions {
                exceptions = self.exceptions;
                let refused = done.err();
                outcome.refused = outcome.refused.or(refused);
                let anomaly = self.new_anomaly(batch.process, &mut known, refused);
                let index = first + applied - 1;
                outcome.anomalies.extend(anomaly.map(|kind| (index, kind)));
                if limits.stops_at_failures && done.is_ok() && is_failure(&event.kind) {
                    outcome.is_failure = true;
                    break;
                }
            }
            if let Some(effects) = &effects
                && effects.len() >= limits.effects
            {
                break;
            }
        }
        outcome.applied = applied;
        if applied < events.len() {
            outcome.rest = Some(Change::Apply(Batch {
                range: first + applied..batch.range.end,
                ..batch.clone()
            }));
        }
    }

    fn anomalies_of(&self, process: u32) -> Option<&Anomalies> {
        Some(&self.process(process)?.account.anomalies)
    }

    /// What is wrong with an event of a process, by the counts before it, which are brought up to date.
    ///
    /// An event that was booked in spite of a contradiction was not refused, but it is counted.
    #[cold]
    fn new_anomaly(
        &self,
        process: u32,
        known: &mut Option<Anomalies>,
        refused: Option<Anomaly>,
    ) -> Option<Anomaly> {
        let (now, known) = (self.anomalies_of(process)?, known.as_mut()?);
        if now == known {
            return None;
        }
        let mut counted = now.iter().filter(|(kind, count)| *count > known.of(*kind));
        let anomaly = refused.or(counted.next().map(|(kind, _count)| kind));
        *known = now.clone();
        anomaly
    }
}

const fn is_failure(event: &EventKind) -> bool {
    matches!(
        event,
        EventKind::AllocationFailed { .. } | EventKind::Clashed { .. }
    )
}
