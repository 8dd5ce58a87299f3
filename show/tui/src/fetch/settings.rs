//! What the app wants of the threads that fetch.

use super::document::Document;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use ttmem_report::Timestamp;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Documents to keep fresh besides the totals: those of the view on screen only.
    pub(crate) documents: Vec<Document>,
    pub(crate) streams_events: bool,
    /// The instant that they are wanted of.
    pub(crate) at: Option<Timestamp>,
    /// Whether some events are enough where there are more than anybody can read.
    pub(crate) samples_events: bool,
    pub(crate) interval: Duration,
    pub(crate) paused: bool,
    /// Grows when everything is to be fetched anew.
    pub(crate) refreshes: u64,
    pub(crate) marks: u32,
}

#[derive(Debug)]
pub(super) struct SharedSettings {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    settings: Settings,
    ended: bool,
    failed: bool,
}

impl SharedSettings {
    pub(super) fn new(interval: Duration) -> Self {
        let settings = Settings {
            interval,
            ..Settings::default()
        };
        Self {
            state: Mutex::new(State {
                settings,
                ended: false,
                failed: false,
            }),
            changed: Condvar::new(),
        }
    }

    /// Wakes the threads if anything changed: set with every frame, mostly nothing did.
    pub(super) fn set(&self, settings: Settings) {
        let mut state = self.lock();
        if state.settings != settings {
            state.settings = settings;
            self.changed.notify_all();
        }
    }

    pub(super) fn end(&self, failed: bool) {
        let mut state = self.lock();
        state.ended = true;
        state.failed |= failed;
        self.changed.notify_all();
    }

    pub(super) fn has_failed(&self) -> bool {
        self.lock().failed
    }

    pub(super) fn get(&self) -> Option<Settings> {
        let state = self.lock();
        (!state.ended).then(|| state.settings.clone())
    }

    /// Waits until a moment, or until the settings are others than those that were seen.
    pub(super) fn wait_until(&self, moment: Instant, seen: &Settings) {
        let mut state = self.lock();
        while !state.ended && state.settings == *seen {
            let left = moment.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
