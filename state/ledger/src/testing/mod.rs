//! The most frequent changes for tests and benchmarks, each in one call of [`Ledger::apply`].

use crate::change::{ApplyLimits, Change, ChangeOutcome};
use crate::effect::Effect;
use crate::ledger::Ledger;
use crate::process::{Departure, Exit, ProcessIdentity};
use crate::resync::Resync;
use std::sync::Arc;
use ttmem_account::Anomaly;
use ttmem_event::{Definition, Event};

/// Shorter forms of [`Ledger::apply`].
pub trait TestLedger {
    /// Makes a whole change.
    fn make(&mut self, change: Change) -> ChangeOutcome;

    /// A process joins and claims its own pid; returns its slot.
    ///
    /// # Panics
    /// If the ledger has no room.
    fn join(&mut self, identity: ProcessIdentity) -> u32 {
        let claimed_pid = identity.pid.unwrap_or_default().into();
        let joined = self.make(Change::Join {
            identity,
            claimed_pid,
        });
        joined.slot.expect("the ledger has room")
    }

    /// # Errors
    /// If the definition is refused.
    fn define(&mut self, process: u32, definition: &Definition) -> Result<(), Anomaly> {
        let definitions = Arc::new(vec![definition.clone()]);
        let defined = self.make(Change::Define {
            process,
            definitions,
        });
        defined.refused.map_or(Ok(()), Err)
    }

    /// Applies an event.
    ///
    /// # Errors
    /// If the event is refused.
    fn tell(&mut self, process: u32, event: &Event) -> Result<(), Anomaly> {
        self.tell_with(process, event, None)
    }

    /// Applies an event, and appends what it changed to `effects`.
    ///
    /// # Errors
    /// If the event is refused.
    fn tell_with(
        &mut self,
        process: u32,
        event: &Event,
        effects: Option<&mut Vec<Effect>>,
    ) -> Result<(), Anomaly>;

    /// Replaces the state of a process.
    fn resync(&mut self, process: u32, resync: impl Into<Arc<Resync>>) {
        let resync = resync.into();
        self.make(Change::Resync { process, resync });
    }

    /// A process exits; returns how, if it is known.
    fn depart(&mut self, process: u32, departure: Departure, time: u64) -> Option<Exit> {
        let departed = self.make(Change::Depart {
            process,
            departure,
            time,
        });
        departed.departed.map(|process| process.exit)
    }
}

impl TestLedger for Ledger {
    fn make(&mut self, change: Change) -> ChangeOutcome {
        self.apply(&change, ApplyLimits::NONE, None)
    }

    fn tell_with(
        &mut self,
        process: u32,
        event: &Event,
        effects: Option<&mut Vec<Effect>>,
    ) -> Result<(), Anomaly> {
        let change = Change::event(process, *event);
        let told = self.apply(&change, ApplyLimits::NONE, effects);
        told.refused.map_or(Ok(()), Err)
    }
}
