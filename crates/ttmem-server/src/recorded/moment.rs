//! One instant of the past, with what was worked out about it.

use super::error::RecordedError;
use super::files::KnownFiles;
use super::players::Players;
use super::tail;
use crate::journal::Journal;
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use ttmem_ledger::{Geometry, View};

/// Moments that are kept: the documents of a screen ask for one of them, and two people look at two.
const KEPT: usize = 6;

/// The ledger at an instant.
#[derive(Debug)]
pub(crate) struct Moment {
    pub(crate) time: u64,
    pub(crate) view: Arc<View>,
    geometry: OnceLock<Arc<Geometry>>,
    journal: OnceLock<Journal>,
}

impl Moment {
    pub(super) fn new(time: u64, view: View) -> Self {
        Self {
            time,
            view: Arc::new(view),
            geometry: OnceLock::new(),
            journal: OnceLock::new(),
        }
    }

    /// Where everything lay, worked out once.
    pub(crate) fn geometry(&self) -> Arc<Geometry> {
        let geometry = self.geometry.get_or_init(|| Arc::new(self.view.geometry()));
        Arc::clone(geometry)
    }

    /// The last events up to it, read once.
    pub(super) fn journal(
        &self,
        files: &mut KnownFiles,
        players: &mut Players,
    ) -> Result<Journal, RecordedError> {
        if let Some(known) = self.journal.get() {
            return Ok(known.clone());
        }
        let file = files.of(self.time)?;
        let read = tail::read(&file, players, self)?;
        Ok(self.journal.get_or_init(|| read).clone())
    }
}

/// The moments that were looked at last, the newest behind.
#[derive(Debug, Default)]
pub(super) struct Moments {
    kept: VecDeque<Arc<Moment>>,
}

impl Moments {
    pub(super) fn of(&mut self, time: u64) -> Option<Arc<Moment>> {
        let place = self.kept.iter().position(|moment| moment.time == time)?;
        let moment = self.kept.remove(place)?;
        self.kept.push_back(Arc::clone(&moment));
        Some(moment)
    }

    /// Keeps a moment, fewer if they are large: each has what its player has changed since.
    pub(super) fn keep(&mut self, moment: Arc<Moment>, is_large: bool) {
        let most = if is_large { 2 } else { KEPT };
        self.kept.push_back(moment);
        while self.kept.len() > most {
            self.kept.pop_front();
        }
    }
}
