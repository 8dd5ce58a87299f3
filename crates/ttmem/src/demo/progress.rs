//! How far a story is, told by the thread that plays to the thread that shows.

use crate::{render, story};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use ttmem_event::{ClashKind, EventKind};
use ttmem_sim::runtime::FailureKind;
use ttmem_sim::scenario::StepDone;

/// How far a story is.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    pub(super) steps: u64,
    /// The last one.
    pub(super) doing: String,
    /// The last mark.
    pub(super) mark: String,
    /// The last thing that was refused.
    pub(super) failure: Option<render::Refused>,
}

/// Progress that two threads look at.
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
            // In place: a story takes steps faster than memory should be asked for.
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
        self.lock().failure = Some(render::Refused {
            kind: kind.name(),
            meaning: story::meaning(kind),
            figures: render::refused(event),
        });
    }

    /// Whatever became of the thread that had it last: it is only shown.
    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
