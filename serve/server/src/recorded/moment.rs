//! One instant of the past, with what was worked out about it.

use super::error::RecordedError;
use super::files::KnownFiles;
use super::players::Players;
use super::tail;
use crate::journal::Journal;
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use ttmem_ledger::{Geometry, View};
use ttmem_record::{Charge, ReadError, Turn};

/// Work units of any document.
const DOCUMENT_WORK: u64 = 4000;

/// Moments that are kept: the documents of a screen ask for one of them, and two people look at two.
const KEPT: usize = 6;

/// The ledger at an instant.
#[derive(Debug)]
pub(crate) struct Moment {
    pub(crate) time: u64,
    pub(crate) view: Arc<View>,
    /// What a document of it costs, in work units.
    pub(super) work: u64,
    geometry: OnceLock<Option<Arc<Geometry>>>,
    /// The work allowed for a question about this moment.
    turn: Turn,
    journal: OnceLock<Journal>,
    _charge: Option<Charge>,
}

impl Moment {
    /// A moment with so many rows, whose view takes what is charged, and a turn to look at it.
    pub(super) fn new(
        (time, turn): (u64, Turn),
        view: View,
        (rows, charge): (u64, Option<Charge>),
    ) -> Self {
        let things = 16 * view.processes.len() + 16 * view.devices.len();
        Self {
            time,
            work: DOCUMENT_WORK + things as u64 + rows,
            _charge: charge,
            view: Arc::new(view),
            geometry: OnceLock::new(),
            turn,
            journal: OnceLock::new(),
        }
    }

    /// The geometry, computed once, within the work of one question.
    ///
    /// # Errors
    /// When it takes more.
    pub(crate) fn geometry(&self) -> Result<Arc<Geometry>, RecordedError> {
        let geometry = self.geometry.get_or_init(|| {
            let (geometry, _work) = self.view.geometry_within(self.turn.most());
            geometry.map(Arc::new)
        });
        let over = || ReadError::OverBudget(self.turn.over());
        geometry.clone().ok_or_else(|| over().into())
    }

    /// The last events up to it, read once.
    pub(super) fn journal(
        &self,
        files: &mut KnownFiles,
        players: &mut Players,
        turn: Turn,
    ) -> Result<Journal, RecordedError> {
        if let Some(known) = self.journal.get() {
            return Ok(known.clone());
        }
        let file = files.of(self.time)?;
        let read = tail::read(&file, (players, turn), self)?;
        Ok(self.journal.get_or_init(|| read).clone())
    }
}

/// The moments that were looked at last, the newest behind.
#[derive(Debug, Default)]
pub(super) struct Moments {
    kept: VecDeque<Arc<Moment>>,
}

impl Moments {
    /// Keeps none: what they take is needed.
    pub(super) fn clear(&mut self) {
        self.kept.clear();
    }

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
