//! Whose turn it is: lanes of commands, served in turn by what they cost.
//!
//! Deficit round robin over counts of work, without a clock. Each turn gives a lane [`QUANTUM`]
//! units. What a command costs is known only after it was done: a lane that took more than it had
//! is in debt, and passes until its further turns have made up for it. Lanes are in three classes
//! that take turns themselves, so that any number of lanes in one costs another no more than
//! its share.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// Units of a turn: some hundred plain events.
pub(super) const QUANTUM: i64 = 4096;

/// The most bytes that may wait in one lane before its senders have to stop.
const LANE_BYTES: usize = 1 << 20;

/// What waits in all lanes, as far as senders stop when they have to: with many lanes each has
/// room for less, and [`LEAST_LANE_BYTES`] at least.
const ALL_BYTES: usize = 128 << 20;
const LEAST_LANE_BYTES: usize = 32 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// What readers and signals ask for.
    Control,
    Living,
    /// Processes that are gone, until all of theirs is released.
    Dead,
}

const CLASSES: [Class; 3] = [Class::Control, Class::Living, Class::Dead];

#[derive(Debug)]
struct Waiting<C> {
    command: C,
    bytes: usize,
}

#[derive(Debug)]
struct Lane<C> {
    class: Class,
    waiting: VecDeque<Waiting<C>>,
    /// Bytes of what waits and of what is being done.
    bytes: usize,
    /// Units it may still use; negative when it is in debt.
    credit: i64,
    /// How far its class had come when it last had nothing to do.
    idle_since: i64,
    /// Whether it has a turn, or waits for one.
    is_active: bool,
    /// Whether it is forgotten once it is empty.
    ends: bool,
    /// Whether its senders were asked to stop.
    is_full: bool,
}

/// Lanes of commands, and which of them has its turn.
#[derive(Debug)]
pub(super) struct Turns<K, C> {
    lanes: HashMap<K, Lane<C>>,
    /// By class: the lanes that wait for a turn.
    queues: [VecDeque<K>; CLASSES.len()],
    /// By class: units that each active lane was given so far.
    given: [i64; CLASSES.len()],
    next_class: usize,
    serving: Option<K>,
    /// The bytes of the command that is being done.
    in_hand: usize,
    active: usize,
}

impl<K: Copy + Eq + Hash, C> Default for Turns<K, C> {
    fn default() -> Self {
        Self {
            lanes: HashMap::new(),
            queues: Default::default(),
            given: Default::default(),
            next_class: 0,
            serving: None,
            in_hand: 0,
            active: 0,
        }
    }
}

impl<K: Copy + Eq + Hash, C> Turns<K, C> {
    /// Adds a command to a lane, which is new if it is not known. True if the lane is full now.
    ///
    /// A new lane ends when it is empty if `ends` says so, else when it is told to.
    pub(super) fn push(
        &mut self,
        key: K,
        class: Class,
        ends: bool,
        command: C,
        bytes: usize,
    ) -> bool {
        let lane = self.lanes.entry(key).or_insert_with(|| Lane {
            class,
            waiting: VecDeque::new(),
            bytes: 0,
            credit: 0,
            idle_since: 0,
            is_active: false,
            ends,
            is_full: false,
        });
        lane.waiting.push_back(Waiting { command, bytes });
        lane.bytes += bytes;
        if !lane.is_active {
            lane.is_active = true;
            self.active += 1;
            let class = lane.class as usize;
            // A debt is made up for while others have their turns.
            let given = self.given[class] - lane.idle_since;
            lane.credit = lane.credit.saturating_add(given).min(0);
            self.queues[class].push_back(key);
        }
        let room = Self::room_of_each(self.active);
        let Some(lane) = self.lanes.get_mut(&key) else {
            return false;
        };
        lane.is_full |= lane.bytes > room;
        lane.is_full
    }

    /// How many bytes a lane has room for before it is full.
    pub(super) fn room(&self, key: K) -> usize {
        let bytes = self.lanes.get(&key).map_or(0, |lane| lane.bytes);
        Self::room_of_each(self.active).saturating_sub(bytes)
    }

    fn room_of_each(active: usize) -> usize {
        (ALL_BYTES / active.max(1)).clamp(LEAST_LANE_BYTES, LANE_BYTES)
    }

    /// Nothing more comes for a lane, and what it has is served among the dead.
    pub(super) fn retire(&mut self, key: K) {
        let Some(lane) = self.lanes.get_mut(&key) else {
            return;
        };
        let before = std::mem::replace(&mut lane.class, Class::Dead);
        lane.ends = true;
        if !lane.is_active {
            self.lanes.remove(&key);
        } else if self.serving != Some(key) && before != Class::Dead {
            self.queues[before as usize].retain(|other| *other != key);
            self.queues[Class::Dead as usize].push_back(key);
        }
    }

    /// The next command and how many units it may use before it should give way.
    ///
    /// Whoever takes it calls [`Turns::done`] before the next.
    pub(super) fn next(&mut self) -> Option<(K, C, u64)> {
        loop {
            if let Some(key) = self.serving {
                if let Some(lane) = self.lanes.get_mut(&key)
                    && let Ok(budget @ 1..) = u64::try_from(lane.credit)
                    && let Some(next) = lane.waiting.pop_front()
                {
                    self.in_hand = next.bytes;
                    return Some((key, next.command, budget));
                }
                self.end_turn(key);
            }
            self.begin_turn()?;
        }
    }

    /// The command in hand cost so much; what is left of it comes first in its lane's next turn.
    ///
    /// Returns the lane if its senders may go on again.
    pub(super) fn done(&mut self, units: u64, rest: Option<C>) -> Option<K> {
        let (key, bytes) = (self.serving?, std::mem::take(&mut self.in_hand));
        let room = Self::room_of_each(self.active);
        let lane = self.lanes.get_mut(&key)?;
        let units = i64::try_from(units).unwrap_or(i64::MAX);
        lane.credit = lane.credit.saturating_sub(units);
        match rest {
            Some(command) => lane.waiting.push_front(Waiting { command, bytes }),
            None => lane.bytes -= bytes,
        }
        let resumes = lane.is_full && lane.bytes <= room / 2;
        lane.is_full &= !resumes;
        resumes.then_some(key)
    }

    fn begin_turn(&mut self) -> Option<()> {
        loop {
            for step in 0..CLASSES.len() {
                let class = (self.next_class + step) % CLASSES.len();
                for _lane in 0..self.queues[class].len() {
                    let key = self.queues[class].pop_front()?;
                    self.give(class, key, 1);
                    if self.lanes.get(&key).is_some_and(|lane| lane.credit > 0) {
                        self.next_class = class + 1;
                        self.serving = Some(key);
                        return Some(());
                    }
                    self.queues[class].push_back(key);
                }
            }
            self.pass_debts()?;
        }
    }

    /// Gives turns to a lane that waits.
    fn give(&mut self, class: usize, key: K, turns: i64) {
        if let Some(lane) = self.lanes.get_mut(&key) {
            let units = QUANTUM.saturating_mul(turns);
            lane.credit = lane.credit.saturating_add(units).min(QUANTUM);
            // With the one that was taken out.
            let lanes = i64::try_from(self.queues[class].len() + 1).unwrap_or(i64::MAX);
            self.given[class] = self.given[class].saturating_add(units / lanes);
        }
    }

    /// All that wait are in debt: the turns in which nobody would be served pass at once.
    fn pass_debts(&mut self) -> Option<()> {
        let queued = self.queues.iter().flatten();
        let debts = queued.filter_map(|key| Some(-self.lanes.get(key)?.credit));
        let turns = debts.min()? / QUANTUM;
        for class in 0..CLASSES.len() {
            for _lane in 0..self.queues[class].len() {
                let key = self.queues[class].pop_front()?;
                self.give(class, key, turns);
                self.queues[class].push_back(key);
            }
        }
        Some(())
    }

    fn end_turn(&mut self, key: K) {
        self.serving = None;
        let Some(lane) = self.lanes.get_mut(&key) else {
            return;
        };
        let class = lane.class as usize;
        if !lane.waiting.is_empty() {
            return self.queues[class].push_back(key);
        }
        lane.is_active = false;
        self.active -= 1;
        lane.credit = lane.credit.min(0);
        lane.idle_since = self.given[class];
        if lane.ends {
            self.lanes.remove(&key);
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.active == 0
    }

    /// The lanes that have something to do.
    pub(super) fn active(&self) -> Vec<K> {
        self.serving
            .iter()
            .chain(self.queues.iter().flatten())
            .copied()
            .collect()
    }

    /// What still waits, by lane.
    pub(super) fn waiting(&self) -> impl Iterator<Item = (K, &C)> {
        self.lanes
            .iter()
            .flat_map(|(key, lane)| lane.waiting.iter().map(|each| (*key, &each.command)))
    }
}

#[cfg(test)]
mod tests;
