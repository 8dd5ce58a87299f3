//! A ledger at an instant of a recording.

use crate::format::BlockKind;
use crate::growth::{Before, Growth, copy_of};
use crate::recording::{Entries, ReadError, Recording};
use crate::writer::instant;
use std::io::{Read, Seek};
use std::sync::Arc;
use ttmem_account::budget::{Charge, OverBudget, Turn};
use ttmem_event::Event;
use ttmem_ledger::{Anomaly, ApplyLimits, Change, Effect, Ledger, View};

/// Something that was just applied.
#[derive(Clone, Copy, Debug)]
pub enum Played<'a> {
    /// An event of a process.
    Event {
        process: u32,
        event: &'a Event,
        /// Whether it was read from the process's memory after its death.
        recovered: bool,
        /// Why the ledger refused it, if it did.
        refused: Option<Anomaly>,
        /// What it changed, for those who [want](Follow::WANTS_EFFECTS) to know.
        effects: &'a [Effect],
    },
    /// A large event, as far as one turn got with it; it comes again.
    Part { process: u32, effects: &'a [Effect] },
    /// Any other change.
    Change(&'a Change),
    /// The ledger begins anew: what led from the state before to this one is missing.
    Start,
}

/// Where playing is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Behind everything that happened at this instant or before.
    Time(u64),
    /// When the ledger has so many events.
    Event(u64),
    /// Whichever of both comes first.
    First {
        time: u64,
        event: u64,
    },
    End,
}

/// Who follows what is played: a closure, or something that wants to know more.
pub trait Follow {
    /// Whether it wants to know what events change.
    const WANTS_EFFECTS: bool = false;

    /// A change other than events is about to be applied.
    fn before(&mut self, _ledger: &Ledger, _change: &Change) {}

    /// Something was applied at an instant.
    fn after(&mut self, ledger: &Ledger, time: u64, played: Played<'_>);

    /// Work units since this was last asked: they count as the player's own.
    fn take_work(&mut self) -> u64 {
        0
    }

    /// Whether it needs more memory than there is.
    fn over_budget(&self) -> Option<OverBudget> {
        None
    }
}

impl<F: FnMut(&Ledger, u64, Played<'_>)> Follow for F {
    fn after(&mut self, ledger: &Ledger, time: u64, played: Played<'_>) {
        self(ledger, time, played);
    }
}

/// A recording that is played: its ledger is that of the recorded one at the same place.
///
/// An error leaves it where it was before what cannot be read; it can be moved elsewhere.
#[derive(Debug)]
pub struct Player<R> {
    recording: Recording<R>,
    ledger: Ledger,
    /// The block that is played, the entry in it and the event in that.
    block: usize,
    entries: Option<Entries>,
    entry: usize,
    event: usize,
    now: u64,
    growth: Growth,
}

impl<R: Read + Seek> Player<R> {
    /// Begins at the start of a recording.
    ///
    /// # Errors
    /// When its first state cannot be read.
    pub fn new(mut recording: Recording<R>) -> Result<Self, ReadError> {
        let ledger = recording.state(0)?;
        let mut growth = Growth::new(recording.budget().charge());
        growth.measure(&ledger, &mut recording.turn)?;
        let now = recording.index().blocks[0].header.last_time;
        Ok(Self {
            growth,
            recording,
            ledger,
            block: 1,
            entries: None,
            entry: 0,
            event: 0,
            now,
        })
    }

    pub fn recording(&self) -> &Recording<R> {
        &self.recording
    }

    pub fn into_recording(self) -> Recording<R> {
        self.recording
    }

    /// The instant of what was applied last.
    pub fn time(&self) -> u64 {
        self.now
    }

    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    pub fn view(&mut self) -> View {
        self.ledger.view()
    }

    /// Draws what a view of it takes once the ledger is another one.
    ///
    /// # Errors
    /// When the budget does not have that much.
    pub fn charge_of_view(&self) -> Result<Charge, OverBudget> {
        copy_of(&self.growth)
    }

    /// Begins to answer another question: see [`Recording::begin_turn`].
    pub fn begin_turn(&mut self, turn: Turn) -> Turn {
        self.recording.begin_turn(turn)
    }

    #[must_use]
    pub fn turn(&self) -> &Turn {
        &self.recording.turn
    }

    /// What its ledger takes.
    #[must_use]
    pub fn ledger_bytes(&self) -> u64 {
        self.growth.bytes()
    }

    /// Counts work that is done with the ledger.
    ///
    /// # Errors
    /// When there is no more for this turn, or its reader has gone.
    pub fn spend(&mut self, units: u64) -> Result<(), ReadError> {
        Ok(self.recording.turn.spend(units)?)
    }

    /// Goes to an instant: everything that happened at it or before is applied, nothing after it.
    ///
    /// # Errors
    /// When something on the way there cannot be read; the ledger is as of before that.
    pub fn seek(&mut self, time: u64) -> Result<(), ReadError> {
        self.go(Until::Time(time))
    }

    /// Goes to where the ledger has so many events.
    ///
    /// # Errors
    /// As [`Player::seek`].
    pub fn seek_event(&mut self, number: u64) -> Result<(), ReadError> {
        self.go(Until::Event(number))
    }

    fn go(&mut self, until: Until) -> Result<(), ReadError> {
        let from = match self.state_before(until) {
            Err(ReadError::OverBudget(_)) if self.ledger.events() > 0 || self.block > 0 => {
                // There may be room for it without the ledger at hand.
                self.forget();
                self.state_before(until)?
            }
            found => found?,
        };
        if let Some((number, ledger)) = from {
            self.replace(ledger)?;
            self.now = self.recording.index().blocks[number].header.last_time;
            (self.block, self.entry, self.event) = (number + 1, 0, 0);
            self.entries = None;
        }
        self.play(until, |_ledger, _time, _played| {})
    }

    /// Stands in front of the first state, without a ledger.
    fn forget(&mut self) {
        self.ledger = Ledger::default();
        self.growth.clear();
        (self.block, self.entry, self.event, self.now) = (0, 0, 0, 0);
        self.entries = None;
    }

    /// Goes on from another ledger.
    fn replace(&mut self, ledger: Ledger) -> Result<(), ReadError> {
        self.ledger = ledger;
        let measured = self.growth.measure(&self.ledger, &mut self.recording.turn);
        if measured.is_err() {
            self.forget();
        }
        Ok(measured?)
    }

    /// Whether an instant is reached by going on from here, without another state.
    #[must_use]
    pub fn is_near(&self, time: u64) -> bool {
        let mut states = self
            .recording
            .index()
            .states_before(|header| header.last_time <= time);
        time >= self.now && states.next().is_none_or(|number| number < self.block)
    }

    /// The last readable state before a place, unless going on from here is as near.
    fn state_before(&mut self, until: Until) -> Result<Option<(usize, Ledger)>, ReadError> {
        let is_ahead = match until {
            Until::Time(time) | Until::First { time, .. } => time >= self.now,
            Until::Event(number) => number >= self.ledger.events(),
            Until::End => true,
        };
        let contents = Arc::clone(self.recording.contents());
        let candidates = contents.index.states_before(|header| match until {
            Until::Time(time) | Until::First { time, .. } => header.last_time <= time,
            Until::Event(number) => header.first_event <= number,
            Until::End => true,
        });
        let mut first_damage = None;
        for number in candidates {
            self.recording.turn.spend(1)?;
            if is_ahead && number < self.block {
                return Ok(None);
            }
            match self.recording.state(number) {
                Ok(ledger) => return Ok(Some((number, ledger))),
                // An earlier one leads there, too.
                Err(ReadError::Damaged(damage)) => {
                    first_damage.get_or_insert(damage);
                }
                Err(error) => return Err(error),
            }
        }
        match first_damage {
            Some(damage) => Err(damage.into()),
            // Before the beginning: its start is the nearest there is.
            None => Ok(Some((0, self.recording.state(0)?))),
        }
    }

    /// Applies the next event or other change and says what it was; none at the end.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn step(&mut self) -> Result<bool, ReadError> {
        let mut is_done = false;
        let goes_on = |_ledger: &Ledger, _time| !std::mem::replace(&mut is_done, true);
        let follower: &mut fn(&Ledger, u64, Played<'_>) = &mut (nobody as _);
        self.play_while(goes_on, follower)?;
        Ok(is_done)
    }

    /// Plays on to a place, and gives the ledger after every event and every other change, with the
    /// instant of each.
    ///
    /// # Errors
    /// As [`Player::seek`].
    pub fn play(
        &mut self,
        until: Until,
        mut visit: impl FnMut(&Ledger, u64, Played<'_>),
    ) -> Result<(), ReadError> {
        self.follow(until, &mut visit)
    }

    /// The same for any follower.
    ///
    /// # Errors
    /// As [`Player::seek`].
    pub fn follow(&mut self, until: Until, follower: &mut impl Follow) -> Result<(), ReadError> {
        let goes_on = |ledger: &Ledger, time: u64| match until {
            Until::Time(last) => time <= last,
            Until::Event(number) => ledger.events() < number,
            Until::First { time: last, event } => time <= last && ledger.events() < event,
            Until::End => true,
        };
        self.play_while(goes_on, follower)
    }

    /// Plays while a place is wanted, given by the ledger before it and its instant.
    fn play_while(
        &mut self,
        mut goes_on: impl FnMut(&Ledger, u64) -> bool,
        follower: &mut impl Follow,
    ) -> Result<(), ReadError> {
        while let Some(block) = self.recording.index().blocks.get(self.block).copied() {
            if block.header.kind == BlockKind::State {
                if block.header.is_start {
                    let time = block.header.last_time;
                    if !goes_on(&self.ledger, time) {
                        return Ok(());
                    }
                    let ledger = self.recording.state(self.block)?;
                    let block = self.block;
                    self.replace(ledger)?;
                    (self.block, self.now) = (block, time);
                    follower.after(&self.ledger, time, Played::Start);
                }
                self.block += 1;
                continue;
            }
            let entries = match self.entries.take() {
                Some(entries) => entries,
                None => match self.recording.entries(self.block) {
                    Err(ReadError::OverBudget(_)) => {
                        // What is kept for changes to come may be what is missing.
                        self.growth.give_up_rest();
                        self.recording.entries(self.block)?
                    }
                    entries => entries?,
                },
            };
            let played = self.play_block(&entries, &mut goes_on, follower);
            if !matches!(played, Ok(true)) {
                self.entries = Some(entries);
                return played.map(drop);
            }
            (self.block, self.entry, self.event) = (self.block + 1, 0, 0);
        }
        Ok(())
    }

    /// Plays the rest of a block; false if something in it is not wanted any more.
    fn play_block<F: Follow>(
        &mut self,
        entries: &Entries,
        goes_on: &mut impl FnMut(&Ledger, u64) -> bool,
        follower: &mut F,
    ) -> Result<bool, ReadError> {
        let mut effects = Vec::new();
        while let Some((time, change)) = entries.list.get(self.entry) {
            if let Change::Apply(batch) = change {
                let (process, recovered) = (batch.process, batch.recovered);
                for event in batch.events().get(self.event..).unwrap_or_default() {
                    let at = instant(self.now, event.time, *time);
                    if !goes_on(&self.ledger, at) {
                        return Ok(false);
                    }
                    effects.clear();
                    let wanted = F::WANTS_EFFECTS.then_some(&mut effects);
                    let before = Before::of(&self.ledger, Some(process));
                    let change = Change::event(process, *event);
                    let refused = self
                        .ledger
                        .apply(&change, ApplyLimits::NONE, wanted)
                        .refused;
                    (self.now, self.event) = (at, self.event + 1);
                    let played = Played::Event {
                        process,
                        event,
                        recovered,
                        refused,
                        effects: &effects,
                    };
                    follower.after(&self.ledger, at, played);
                    let of = (process, &event.kind);
                    let turn = &mut self.recording.turn;
                    self.growth.count_event(&self.ledger, of, before, turn)?;
                    turn.spend(follower.take_work())?;
                }
                // Notes for a log, which a recording does not have.
                drop(self.ledger.take_newly_incomplete());
            } else {
                let at = (*time).max(self.now);
                if !goes_on(&self.ledger, at) {
                    return Ok(false);
                }
                let turn = &mut self.recording.turn;
                self.growth.expect(&self.ledger, change, turn)?;
                let before = Before::of(&self.ledger, change.process());
                follower.before(&self.ledger, change);
                effects.clear();
                let wanted = F::WANTS_EFFECTS.then_some(&mut effects);
                // A large event that is not finished comes again.
                let _rest = self.ledger.apply(change, ApplyLimits::NONE, wanted);
                drop(self.ledger.take_newly_incomplete());
                self.now = at;
                let played = match change {
                    Change::ApplyEvent { process, .. } => Played::Part {
                        process: *process,
                        effects: &effects,
                    },
                    _other => Played::Change(change),
                };
                follower.after(&self.ledger, at, played);
                // It is applied, whatever it turns out to take.
                (self.entry, self.event) = (self.entry + 1, 0);
                let turn = &mut self.recording.turn;
                self.growth
                    .count_change(&self.ledger, change, before, turn)?;
                turn.spend(follower.take_work())?;
                if let Some(over) = follower.over_budget() {
                    return Err(over.into());
                }
                continue;
            }
            (self.entry, self.event) = (self.entry + 1, 0);
            if let Some(over) = follower.over_budget() {
                return Err(over.into());
            }
        }
        Ok(true)
    }
}

/// The follower of who only wants to get somewhere.
fn nobody(_ledger: &Ledger, _time: u64, _played: Played<'_>) {}
