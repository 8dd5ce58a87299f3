//! Playing a window of the past, step by step.
//!
//! A window that has more than can be played while somebody waits is looked at in stretches, one in each of
//! fewer steps: what a step says then holds of its stretch, and what was not looked at is counted.

use super::error::RecordedError;
use super::files::{FilePlayer, KnownFile, KnownFiles};
use super::survey::Window;
use std::sync::Arc;
use ttmem_record::{Follow, ReadError, Turn, Until};

/// What one walk may cost, in events: a few seconds.
pub(super) const BUDGET: u64 = 8_000_000;

/// Bytes of a state that are read in the time of one event.
const STATE_BYTES_PER_EVENT: u64 = 24;

/// Events of a stretch that are worth reading a state for.
const SHORTEST_STRETCH: u64 = 40_000;

/// Who walks through a window.
pub(super) trait Walker: Follow {
    /// The ledger is at a place from which it is played on; whether the step begins there as well.
    fn begin(&mut self, player: &mut FilePlayer, time: u64, is_new_step: bool);

    /// A step has ended; there may be no ledger to ask when nothing could be read.
    ///
    /// # Errors
    /// When there is no work or memory left for it, or the reader has gone.
    fn end_step(&mut self, player: Option<&mut FilePlayer>) -> Result<(), ReadError>;
}

/// How a window is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grain {
    /// Every event of it.
    Whole,
    /// So many events of each step.
    Stretches(u64),
}

/// In how many steps a window is looked at, at most so many, and how.
pub(super) fn grain(files: &[Arc<KnownFile>], window: Window, steps: u64) -> (u64, Grain) {
    let (mut events, mut states, mut bytes) = (0_u64, 0_u64, 0_u64);
    for file in files.iter().filter(|file| window.touches(file)) {
        let before = file.events_up_to(window.from);
        events = events.saturating_add(file.events_up_to(window.to).saturating_sub(before));
        let within = file.states.iter();
        let within = within.filter(|state| state.time <= window.to);
        for state in within {
            states += 1;
            bytes = bytes.saturating_add(state.bytes);
        }
    }
    let state_cost = bytes / states.max(1) / STATE_BYTES_PER_EVENT;
    if events <= BUDGET {
        return (steps.max(1), Grain::Whole);
    }
    let affordable = BUDGET / (state_cost + SHORTEST_STRETCH);
    let steps = steps.min(affordable).max(1);
    let stretch = (BUDGET / steps).saturating_sub(state_cost);
    (steps, Grain::Stretches(stretch.max(SHORTEST_STRETCH)))
}

/// Walks through steps, given by their edges; how many events were not looked at.
///
/// `peak` is an instant and its event that are not to be missed; the walk is the work of one turn.
pub(super) fn walk(
    files: &KnownFiles,
    edges: &[u64],
    grain: Grain,
    (peak, turn): (Option<(u64, u64)>, Turn),
    walker: &mut impl Walker,
) -> Result<u64, RecordedError> {
    let mut walk = Walk {
        edges,
        turn,
        step: 0,
        begun: None,
        player: None,
        played: 0,
        damage: None,
    };
    let walked = walk.all(files, (grain, peak), walker);
    files.spend(walk.take_turn().spent());
    walked
}

struct Walk<'a> {
    edges: &'a [u64],
    turn: Turn,
    step: usize,
    /// The step that a stretch was played of.
    begun: Option<usize>,
    player: Option<FilePlayer>,
    /// Events that were played.
    played: u64,
    damage: Option<ttmem_record::Damage>,
}

impl Walk<'_> {
    /// The turn, with what was spent of it.
    fn take_turn(&mut self) -> Turn {
        if let Some(player) = self.player.take() {
            self.turn = player.turn().clone();
        }
        self.turn.clone()
    }

    fn all(
        &mut self,
        files: &KnownFiles,
        (grain, peak): (Grain, Option<(u64, u64)>),
        walker: &mut impl Walker,
    ) -> Result<u64, RecordedError> {
        let (Some(&from), Some(&to)) = (self.edges.first(), self.edges.last()) else {
            return Ok(0);
        };
        let window = Window { from, to };
        let touched: Vec<_> = files
            .all()
            .iter()
            .filter(|file| window.touches(file))
            .cloned()
            .collect();
        let mut expected = 0_u64;
        for (number, file) in touched.iter().enumerate() {
            // Where files overlap, the later one counts.
            let next = touched.get(number + 1).map_or(u64::MAX, |next| next.from);
            let part = Window {
                from: from.max(file.from),
                to: to.min(file.to).min(next),
            };
            let before = file.events_up_to(part.from);
            expected = expected.saturating_add(file.events_up_to(part.to).saturating_sub(before));
            if part.from > part.to {
                continue;
            }
            self.open(file)?;
            match grain {
                Grain::Whole => self.whole(file, part, number == 0, walker)?,
                Grain::Stretches(events) => self.stretches(file, part, (events, peak), walker)?,
            }
        }
        self.end_steps_before(u64::MAX, walker)?;
        match self.damage.take() {
            // Not a single place could be read.
            Some(damage) if self.played == 0 && self.player.is_none() => {
                Err(ReadError::Damaged(damage).into())
            }
            Some(_damage) => Ok(expected.saturating_sub(self.played).max(1)),
            None if grain == Grain::Whole => Ok(0),
            None => Ok(expected.saturating_sub(self.played)),
        }
    }

    fn steps(&self) -> usize {
        self.edges.len() - 1
    }

    fn open(&mut self, file: &KnownFile) -> Result<(), RecordedError> {
        let turn = self.take_turn();
        match file.player(turn) {
            Ok(player) => {
                self.player = Some(player);
                Ok(())
            }
            Err(RecordedError::Open {
                source: ttmem_record::OpenError::Damaged(damage),
                ..
            }) => {
                self.player = None;
                self.damage = Some(damage);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Ends all steps that end at an instant or before.
    fn end_steps_before(&mut self, time: u64, walker: &mut impl Walker) -> Result<(), ReadError> {
        let is_end = time == u64::MAX;
        while self.step < self.steps() && (is_end || self.edges[self.step + 1] <= time) {
            walker.end_step(self.player.as_mut())?;
            self.step += 1;
        }
        Ok(())
    }

    /// Plays all of a file's part of the window, around what is damaged of it.
    fn whole(
        &mut self,
        file: &KnownFile,
        part: Window,
        is_first: bool,
        walker: &mut impl Walker,
    ) -> Result<(), RecordedError> {
        let mut start = Until::Time(part.from);
        let mut is_new_step = is_first;
        while let Some(from) = self.seek(file, start, part.to)? {
            self.end_steps_before(from.saturating_sub(1), walker)?;
            self.begin(from, is_new_step, walker);
            is_new_step = false;
            let Some(behind) = self.play(part.to, u64::MAX, walker)? else {
                break;
            };
            start = Until::Time(behind);
        }
        Ok(())
    }

    /// Plays a stretch of each step that begins in a file's part of the window.
    fn stretches(
        &mut self,
        file: &KnownFile,
        part: Window,
        (events, peak): (u64, Option<(u64, u64)>),
        walker: &mut impl Walker,
    ) -> Result<(), RecordedError> {
        while self.step < self.steps() && self.edges[self.step] <= part.to {
            let (begin, end) = (self.edges[self.step], self.edges[self.step + 1]);
            let is_last = self.step + 1 == self.steps();
            let is_within = |time: u64| time >= begin && (time < end || is_last);
            let state = file.states.iter().find(|state| is_within(state.time));
            let start = match (peak, state) {
                (Some((time, event)), _) if is_within(time) => Until::Event(event),
                (_, Some(state)) => Until::Time(state.time),
                _none => Until::Time(begin.max(part.from)),
            };
            if let Some(from) = self.seek(file, start, end.min(part.to))? {
                let is_new_step = self.begun != Some(self.step);
                self.begun = Some(self.step);
                self.begin(from.max(begin), is_new_step, walker);
                self.play(end.min(part.to), events, walker)?;
            }
            if end > part.to {
                // The rest of it is in the next file, if there is one.
                return Ok(());
            }
            walker.end_step(self.player.as_mut())?;
            self.step += 1;
        }
        Ok(())
    }

    fn begin(&mut self, from: u64, is_new_step: bool, walker: &mut impl Walker) {
        if let Some(player) = &mut self.player {
            walker.begin(player, from, is_new_step);
        }
    }

    /// Goes to a place, or to the first state behind it that can be read; the instant, unless none is left.
    fn seek(
        &mut self,
        file: &KnownFile,
        start: Until,
        last: u64,
    ) -> Result<Option<u64>, RecordedError> {
        let Some(player) = &mut self.player else {
            return Ok(None);
        };
        let sought = match start {
            Until::Event(number) => player.seek_event(number),
            Until::Time(time) | Until::First { time, .. } => player.seek(time),
            Until::End => return Ok(None),
        };
        let mut damage = match (sought, start) {
            (Ok(()), Until::Time(time)) => return Ok(Some(time)),
            (Ok(()), _event) => return Ok(Some(player.time())),
            (Err(ReadError::Damaged(damage)), _) => damage,
            (Err(error), _) => return Err(error.into()),
        };
        let behind = match start {
            Until::Time(time) => time,
            _other => damage.time,
        };
        for state in file.states.iter().filter(|state| state.time > behind) {
            if state.time > last {
                break;
            }
            match player.seek(state.time) {
                Ok(()) => {
                    self.damage.get_or_insert(damage);
                    return Ok(Some(state.time));
                }
                Err(ReadError::Damaged(other)) => damage = other,
                Err(error) => return Err(error.into()),
            }
        }
        self.damage.get_or_insert(damage);
        Ok(None)
    }

    /// Plays up to an instant, or so many events; where to go on if something cannot be read.
    fn play(
        &mut self,
        to: u64,
        events: u64,
        walker: &mut impl Walker,
    ) -> Result<Option<u64>, RecordedError> {
        let Some(player) = &mut self.player else {
            return Ok(None);
        };
        let begun = player.ledger().events();
        let last = begun.saturating_add(events);
        loop {
            let edge = self.edges[(self.step + 1).min(self.edges.len() - 1)];
            let time = edge.min(to);
            let outcome = player.follow(Until::First { time, event: last }, walker);
            match outcome {
                Ok(()) => {}
                Err(ReadError::Damaged(damage)) => {
                    let behind = damage.time.max(player.time());
                    self.played += player.ledger().events().saturating_sub(begun);
                    self.damage.get_or_insert(damage);
                    return Ok(Some(behind.saturating_add(1)));
                }
                Err(error) => return Err(error.into()),
            }
            let is_last_step = self.step + 2 >= self.edges.len();
            if edge > to || is_last_step || events != u64::MAX {
                self.played += player.ledger().events().saturating_sub(begun);
                return Ok(None);
            }
            walker.end_step(Some(player))?;
            self.step += 1;
        }
    }
}
