//! The recorded past: the ledger at any of its instants, and what happened between two of them.
//!
//! Readers ask for a [`Moment`], which has the view of one instant, or for something over time. Both come from
//! recordings: one that is replayed, or those that the server itself writes, of which the last still
//! grows. Files are hostile; what cannot be read of them is named and the rest is answered. Nothing
//! here holds up the ledger: players have ledgers of their own, few and bounded.

mod allocations;
mod error;
mod files;
mod live_buffers;
mod moment;
mod players;
mod survey;
mod tail;
mod texts;
mod timeline;
mod together;
mod totals;
mod walk;

#[cfg(test)]
pub(crate) mod tests;

pub(crate) use allocations::{DEFAULT_RECTANGLES, MAX_RECTANGLES};
pub(crate) use error::RecordedError;
pub(crate) use files::NamedFiles;
pub(crate) use moment::Moment;
pub(crate) use survey::{OverTime, Window};
pub(crate) use timeline::MAX_POINTS;

use crate::history::Histories;
use crate::lock;
use crate::recorder::RecordedFiles;
use files::{KnownFile, KnownFiles};
use moment::Moments;
use players::Players;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use survey::Survey;
use ttmem_ledger::{Audience, View};
use ttmem_report::{
    Allocations, History, LastEvents, Recording, RecordingSource, Timeline, Timestamp,
};

/// A way to the recorded past; clones share players and what they have worked out.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    source: RecordingSource,
    /// Whether all that is drawn over time will be asked for.
    draws_all: bool,
    looking: Mutex<Looking>,
    survey: Survey,
}

/// What is needed to look at an instant.
#[derive(Debug)]
struct Looking {
    files: KnownFiles,
    players: Players,
    moments: Moments,
    /// Logical and unique ids of devices, by the ledger's numbers.
    devices: Vec<(u32, Option<u64>)>,
}

impl Recorded {
    /// The past in some files, which a server still writes or which are all there is.
    pub(crate) fn new(source: RecordingSource, files: Arc<dyn RecordedFiles>) -> Self {
        Self::drawn(source, files, false)
    }

    /// The same; with `draws_all`, who asks for one class of a device over time will ask for all of them, and
    /// they are drawn together.
    pub(crate) fn drawn(
        source: RecordingSource,
        files: Arc<dyn RecordedFiles>,
        draws_all: bool,
    ) -> Self {
        let looking = Looking {
            files: KnownFiles::new(source, files),
            players: Players::default(),
            moments: Moments::default(),
            devices: Vec::new(),
        };
        Self {
            shared: Arc::new(Shared {
                source,
                draws_all,
                looking: Mutex::new(looking),
                survey: Survey::default(),
            }),
        }
    }

    /// Which instants there are, and what of them people want to look at.
    ///
    /// # Errors
    /// When nothing can be read.
    pub(crate) fn recording(&self) -> Result<Recording, RecordedError> {
        let mut looking = lock(&self.shared.looking);
        looking.files.refresh()?;
        // Where the end cannot be read, their unique ids are not known.
        if looking.files.noted_devices() > looking.devices.len()
            && let Ok(moment) = looking.moment(None, None)
        {
            let devices = moment.view.devices.iter().map(|device| &device.facts);
            let ids = devices.map(|facts| (facts.logical_id, facts.unique_id));
            looking.devices = ids.collect();
        }
        let (files, devices) = (looking.files.clone(), looking.devices.clone());
        drop(looking);
        files.document(self.shared.source, &devices)
    }

    /// The ledger at an instant: the nearest there is, and the last of all without one; for a reader who
    /// sets `gone` when it does not wait any more.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) fn moment(
        &self,
        at: Option<Timestamp>,
        gone: Option<&Arc<AtomicBool>>,
    ) -> Result<Arc<Moment>, RecordedError> {
        let mut looking = lock(&self.shared.looking);
        let moment = looking.moment(at.map(Timestamp::unix_nanos), gone)?;
        looking.files.spend(moment.work);
        Ok(moment)
    }

    /// Counts work that is done with what was answered.
    pub(crate) fn spend(&self, units: u64) {
        lock(&self.shared.looking).files.spend(units);
    }

    /// Whether all answers together have taken as much work as one may, and so much besides.
    pub(crate) fn is_over_budget(&self, besides: u64) -> bool {
        let looking = lock(&self.shared.looking);
        looking.files.spent() > looking.files.turn(None).most().saturating_add(besides)
    }

    /// The last `count` events up to a moment, of a process or of all, by a view of it; for a reader as in
    /// [`Recorded::moment`].
    ///
    /// # Errors
    /// When they cannot be read.
    pub(crate) fn last(
        &self,
        moment: &Moment,
        view: &View,
        (count, pid): (usize, Option<u32>),
        gone: Option<&Arc<AtomicBool>>,
    ) -> Result<LastEvents, RecordedError> {
        let journal = {
            let mut looking = lock(&self.shared.looking);
            let Looking { files, players, .. } = &mut *looking;
            let turn = files.turn(gone.cloned());
            moment.journal(files, players, turn)?
        };
        Ok(journal.last(count, pid).document(view))
    }

    /// Draws something over time; what others keep for the next question makes room if it has to.
    fn draw<T>(
        &self,
        draw: impl Fn(&KnownFiles) -> Result<T, RecordedError>,
    ) -> Result<T, RecordedError> {
        let files = lock(&self.shared.looking).files.clone();
        match draw(&files) {
            Err(error) if error.is_over_memory() => {
                lock(&self.shared.looking).give_up_room();
                self.shared.survey.give_up_room();
                draw(&files)
            }
            drawn => drawn,
        }
    }

    /// Totals over time up to a moment, so many seconds back, in at most so many steps if a number is given;
    /// for a reader as in [`Recorded::moment`].
    ///
    /// # Errors
    /// When they cannot be read, or too many ask for such things at once.
    pub(crate) fn history(
        &self,
        moment: &Moment,
        (seconds, points): (u32, Option<u32>),
        gone: Option<&Arc<AtomicBool>>,
    ) -> Result<History, RecordedError> {
        let seconds = seconds.min(Histories::longest_seconds());
        let how = (seconds, points);
        self.draw(|files| {
            let turn = files.turn(gone.cloned());
            let what = (moment.time, moment.view.devices.len(), turn);
            self.shared.survey.history(files, what, how)
        })
    }

    pub(crate) fn draws_all(&self) -> bool {
        self.shared.draws_all
    }

    /// A class of a device over time; the others may be asked for next.
    ///
    /// # Errors
    /// As [`Recorded::history`].
    pub(crate) fn timeline(
        &self,
        over: (&OverTime, &[OverTime]),
        by: ttmem_report::GroupBy,
        (points, audience): (u32, Audience),
    ) -> Result<Timeline, RecordedError> {
        let how = (points, audience);
        self.draw(|files| self.shared.survey.timeline(files, over, by, how))
    }

    /// Where the buffers of a class of a device lay, and how long.
    ///
    /// # Errors
    /// As [`Recorded::history`].
    pub(crate) fn allocations(
        &self,
        over: &OverTime,
        (limit, audience): (u32, Audience),
    ) -> Result<Allocations, RecordedError> {
        let how = (limit, audience);
        self.draw(|files| self.shared.survey.allocations(files, over, how))
    }

    /// The part of the past between two instants, each within what there is.
    ///
    /// # Errors
    /// When nothing can be read.
    pub(crate) fn window(
        &self,
        from: Option<Timestamp>,
        to: Option<Timestamp>,
    ) -> Result<Window, RecordedError> {
        let mut looking = lock(&self.shared.looking);
        let wanted = to.map_or(u64::MAX, Timestamp::unix_nanos);
        looking.files.reach(wanted)?;
        let (first, last) = looking.files.span()?;
        let within = |at: Timestamp| at.unix_nanos().clamp(first, last);
        Ok(Window {
            from: from.map_or(first, within),
            to: to.map_or(last, within),
        })
    }
}

impl Looking {
    fn moment(
        &mut self,
        at: Option<u64>,
        gone: Option<&Arc<AtomicBool>>,
    ) -> Result<Arc<Moment>, RecordedError> {
        self.files.reach(at.unwrap_or(u64::MAX))?;
        let (first, last) = self.files.span()?;
        let time = at.unwrap_or(last).clamp(first, last);
        if let Some(known) = self.moments.of(time) {
            return Ok(known);
        }
        let file = self.files.of(time)?;
        let moment = match self.reach(&file, time, gone) {
            Err(error) if error.is_over_memory() => {
                self.give_up_room();
                self.reach(&file, time, gone)
            }
            moment => moment,
        };
        let moment = Arc::new(moment?);
        // More may still happen at the last instant of what is being written.
        if time < last || !self.files.grows() {
            self.moments.keep(Arc::clone(&moment), file.is_large());
        }
        Ok(moment)
    }

    /// Plays to an instant.
    fn reach(
        &mut self,
        file: &KnownFile,
        time: u64,
        gone: Option<&Arc<AtomicBool>>,
    ) -> Result<Moment, RecordedError> {
        let turn = self.files.turn(gone.cloned());
        let player = self.players.at(file, time, turn)?;
        let before = player.ledger().work();
        let view = player.view();
        let work = player.ledger().work() - before;
        let rows = player.ledger().rows_in_use();
        let played = player.spend(work);
        self.files.spend(player.turn().spent());
        played?;
        let charge = player.charge_of_view().ok();
        let charge = match charge {
            Some(charge) => Some(charge),
            None => {
                // The view keeps the rows that the player has, which goes no further.
                let bytes = player.ledger_bytes();
                self.give_up_room();
                let mut charge = file.budget.charge();
                charge.draw(bytes).map_err(ttmem_record::ReadError::from)?;
                Some(charge)
            }
        };
        let turn = self.files.turn(None);
        Ok(Moment::new((time, turn), view, (rows, charge)))
    }

    /// Gives back what is kept for the next question.
    fn give_up_room(&mut self) {
        self.moments.clear();
        self.players.clear();
    }
}
