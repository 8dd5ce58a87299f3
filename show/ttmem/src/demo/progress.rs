//! How far a scenario is, shared by the thread that plays and the thread that shows.

use crate::scenarios;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use ttmem_event::{ClashKind, EventKind};
use ttmem_model::runtime::FailureKind;
use ttmem_model::scenario::StepDone;
use ttmem_report::format::bytes;

#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    pub(super) steps: u64,
    pub(super) doing: String,
    pub(super) mark: String,
    pub(super) failure: Option<Refused>,
    /// Failures so far.
    pub(super) failures: u64,
    /// Whether it waits at a failure until the user continues it.
    pub(super) held: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct SharedProgress(Arc<Mutex<Progress>>);

impl SharedProgress {
    pub(super) fn get(&self) -> Progress {
        self.lock().clone()
    }

    pub(super) fn step(&self, step: &StepDone<'_>) {
        let mut progress = self.lock();
        progress.steps += 1;
        if step.verb == "mark" {
            step.subject.clone_into(&mut progress.mark);
            progress.doing.clear();
        } else {
            // In place: a scenario takes steps faster than memory should be asked for.
            let Progress { doing, .. } = &mut *progress;
            doing.clear();
            doing.push_str(step.verb);
            doing.push(' ');
            doing.push_str(step.subject);
        }
    }

    pub(super) fn failed(&self, event: &EventKind) {
        let kind = match event {
            EventKind::Clashed { kind, .. } => match kind {
                ClashKind::BeyondL1 => FailureKind::BeyondL1,
                ClashKind::OutsideGrid => FailureKind::Refused,
                ClashKind::L1Buffer | ClashKind::ServiceCore => FailureKind::Clash,
            },
            _allocation => FailureKind::OutOfMemory,
        };
        let mut progress = self.lock();
        progress.failures += 1;
        progress.failure = Some(Refused {
            kind: kind.name(),
            meaning: scenarios::meaning(kind),
            figures: refused(event),
        });
    }

    pub(super) fn hold(&self, held: bool) {
        self.lock().held = held;
    }

    pub(super) fn failures(&self) -> u64 {
        self.lock().failures
    }

    /// Whatever became of the thread that had it last: it is only shown.
    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Clone, Debug)]
pub(super) struct Refused {
    pub(super) kind: &'static str,
    pub(super) meaning: &'static str,
    /// How far it was from going well.
    pub(super) figures: String,
}

/// The figures of an event that reports a refusal.
pub(super) fn refused(event: &EventKind) -> String {
    match *event {
        EventKind::AllocationFailed {
            class,
            banks,
            per_bank_bytes,
            free_bytes,
            largest_free_bytes,
            ..
        } => format!(
            "{} in each of {banks} banks of {} where {} are free and {} in one piece",
            bytes(per_bank_bytes),
            class.name(),
            bytes(free_bytes),
            bytes(largest_free_bytes)
        ),
        EventKind::Clashed {
            region_end, limit, ..
        } => format!(
            "circular buffers up to address {region_end} where {limit} is taken, {} too far",
            bytes(region_end.saturating_sub(limit))
        ),
        _other => event.name().to_owned(),
    }
}

#[cfg(test)]
mod tests;
