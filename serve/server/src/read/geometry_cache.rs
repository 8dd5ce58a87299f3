//! The geometry of the ledger, worked out once per state of it.
//!
//! Viewers ask several times a second, and between two questions often nothing
//! happened: the answer to the last one is then the answer to this one.

use crate::lock;
use std::sync::{Arc, Mutex};
use ttmem_ledger::{Geometry, View};

/// The geometry of the last view that somebody asked about.
#[derive(Clone, Debug, Default)]
pub struct GeometryCache {
    last: Arc<Mutex<Option<Known>>>,
}

/// A revision of the ledger, and its geometry.
type Known = (u64, Arc<Geometry>);

impl GeometryCache {
    #[must_use]
    pub fn of(&self, view: &View) -> Arc<Geometry> {
        if let Some((revision, geometry)) = &*lock(&self.last)
            && *revision == view.revision
        {
            return Arc::clone(geometry);
        }
        // Not under the lock: askers about different states do not wait for each other.
        let geometry = Arc::new(view.geometry());
        let mut last = lock(&self.last);
        let is_older = |(revision, _geometry): &Known| *revision < view.revision;
        if last.as_ref().is_none_or(is_older) {
            *last = Some((view.revision, Arc::clone(&geometry)));
        }
        geometry
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ttmem_ledger::testing::TestLedger;
    use ttmem_ledger::{Change, Ledger, Limits};

    #[test]
    fn a_state_is_worked_out_once_and_a_new_one_anew() {
        let mut ledger = Ledger::new(Limits::default());
        let cache = GeometryCache::default();
        let first = cache.of(&ledger.view());
        assert!(Arc::ptr_eq(&first, &cache.of(&ledger.view())));
        ledger.make(Change::ConfigureDevice(Box::default()));
        let second = cache.of(&ledger.view());
        assert!(!Arc::ptr_eq(&first, &second));
        assert_eq!((first.devices.len(), second.devices.len()), (0, 1));
    }
}
