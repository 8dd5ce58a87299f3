//! A ledger at an instant of a recording.

use crate::format::BlockKind;
use crate::input::Input;
use crate::recording::{Entries, ReadError, Recording};
use crate::writer::instant;
use std::io::{Read, Seek};
use ttmem_event::Event;
use ttmem_ledger::{Anomaly, Effect, Ledger, View};

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
    /// Any other input.
    Input(&'a Input),
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

    /// An input other than events is about to be applied.
    fn before(&mut self, _ledger: &Ledger, _input: &Input) {}

    /// Something was applied at an instant.
    fn after(&mut self, ledger: &Ledger, time: u64, played: Played<'_>);
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
}

impl<R: Read + Seek> Player<R> {
    /// Begins at the start of a recording.
    ///
    /// # Errors
    /// When its first state cannot be read.
    pub fn new(mut recording: Recording<R>) -> Result<Self, ReadError> {
        let ledger = recording.state(0)?;
        let now = recording.index.blocks[0].header.last_time;
        Ok(Self {
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
        let from = self.state_before(until)?;
        if let Some((number, ledger)) = from {
            self.ledger = ledger;
            self.now = self.recording.index.blocks[number].header.last_time;
            (self.block, self.entry, self.event) = (number + 1, 0, 0);
            self.entries = None;
        }
        self.play(until, |_ledger, _time, _played| {})
    }

    /// Whether an instant is reached by going on from here, without another state.
    #[must_use]
    pub fn is_near(&self, time: u64) -> bool {
        let mut states = self
            .recording
            .index
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
        let candidates: Vec<usize> = self
            .recording
            .index
            .states_before(|header| match until {
                Until::Time(time) | Until::First { time, .. } => header.last_time <= time,
                Until::Event(number) => header.first_event <= number,
                Until::End => true,
            })
            .collect();
        let mut first_damage = None;
        for number in candidates {
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

    /// Applies the next event or other input and says what it was; none at the end.
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

    /// Plays on to a place, and gives the ledger after every event and every other input, with the
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
        while let Some(block) = self.recording.index.blocks.get(self.block).copied() {
            if block.header.kind == BlockKind::State {
                if block.header.is_start {
                    let time = block.header.last_time;
                    if !goes_on(&self.ledger, time) {
                        return Ok(());
                    }
                    self.ledger = self.recording.state(self.block)?;
                    self.now = time;
                    follower.after(&self.ledger, time, Played::Start);
                }
                self.block += 1;
                continue;
            }
            let entries = match self.entries.take() {
                Some(entries) => entries,
                None => self.recording.entries(self.block)?,
            };
            let is_played = self.play_block(&entries, &mut goes_on, follower);
            if !is_played {
                self.entries = Some(entries);
                return Ok(());
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
    ) -> bool {
        let mut effects = Vec::new();
        while let Some((time, input)) = entries.list.get(self.entry) {
            if let Input::Apply(batch) = input {
                let (process, recovered) = (batch.process, batch.recovered);
                for event in batch.events().get(self.event..).unwrap_or_default() {
                    let at = instant(self.now, event.time, *time);
                    if !goes_on(&self.ledger, at) {
                        return false;
                    }
                    effects.clear();
                    let wanted = F::WANTS_EFFECTS.then_some(&mut effects);
                    let refused = self.ledger.apply(process, event, wanted).err();
                    (self.now, self.event) = (at, self.event + 1);
                    let played = Played::Event {
                        process,
                        event,
                        recovered,
                        refused,
                        effects: &effects,
                    };
                    follower.after(&self.ledger, at, played);
                }
                drop(self.ledger.take_newly_incomplete());
            } else {
                let at = (*time).max(self.now);
                if !goes_on(&self.ledger, at) {
                    return false;
                }
                follower.before(&self.ledger, input);
                effects.clear();
                let wanted = F::WANTS_EFFECTS.then_some(&mut effects);
                input.apply_with(&mut self.ledger, wanted);
                self.now = at;
                let played = match input {
                    Input::ApplyPart { process, .. } => Played::Part {
                        process: *process,
                        effects: &effects,
                    },
                    _other => Played::Input(input),
                };
                follower.after(&self.ledger, at, played);
            }
            (self.entry, self.event) = (self.entry + 1, 0);
        }
        true
    }
}

/// The follower of who only wants to get somewhere.
fn nobody(_ledger: &Ledger, _time: u64, _played: Played<'_>) {}
