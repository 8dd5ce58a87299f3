//! Where everything lies, worked out once per state of the ledger.
//!
//! Viewers ask several times a second, and between two questions often nothing
//! happened: the answer to the last one is then the answer to this one.

use std::sync::{Arc, Mutex, PoisonError};
use ttmem_ledger::{Geometry, View};

/// The geometry of the last view that somebody asked about.
#[derive(Clone, Debug, Default)]
pub struct Places {
    last: Arc<Mutex<Option<Known>>>,
}

/// A revision of the ledger and where everything lay then.
type Known = (u64, Arc<Geometry>);

impl Places {
    /// The geometry of a view.
    #[must_use]
    pub fn of(&self, view: &View) -> Arc<Geometry> {
        let known = self
            .last
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        if let Some((revision, geometry)) = known
            && revision == view.revision
        {
            return geometry;
        }
        // Not under the lock: askers about different states do not wait for each other.
        let geometry = Arc::new(view.geometry());
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last
            .as_ref()
            .is_none_or(|(revision, _older)| *revision < view.revision)
        {
            *last = Some((view.revision, Arc::clone(&geometry)));
        }
        geometry
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ttmem_ledger::{Ledger, Limits};

    #[test]
    fn a_state_is_worked_out_once_and_a_new_one_anew() {
        let mut ledger = Ledger::new(Limits::default());
        let places = Places::default();
        let first = places.of(&ledger.view());
        assert!(Arc::ptr_eq(&first, &places.of(&ledger.view())));
        ledger.configure_device(ttmem_ledger::DeviceFacts::default());
        let second = places.of(&ledger.view());
        assert!(!Arc::ptr_eq(&first, &second));
        assert_eq!((first.devices.len(), second.devices.len()), (0, 1));
    }
}
