//! What grows from mark to mark.
//!
//! A live buffer has the time at which it was placed. Where a program sets a mark in each of its steps,
//! the buffers that were placed between two marks and are still held are what that step has left
//! behind: what was placed once is of one step, what is replaced is of the last, and what leaks is of
//! all of them. So growth is worked out of rows and marks when somebody asks, and no event costs more
//! for it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

/// Marks that are kept of a series; when there are more, every second one goes.
pub(crate) const MAX_STEPS: usize = 128;

/// Names of marks that are counted apart.
pub(crate) const MAX_NAMES: usize = 8;

/// Users whose marks are kept apart.
pub(crate) const MAX_USERS: usize = 16;

pub(crate) const ROOT: u32 = 0;

/// Marks that make a series.
const MIN_STEPS: u64 = 3;

/// Steps that have left something behind before it is called growth: a few are a program that warms up.
const MIN_GROWN: usize = 5;

/// A mark of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    pub time: u64,
    /// Which one of the series, from 1.
    pub ordinal: u64,
    /// The user's number.
    pub number: u64,
}

/// Repeated marks; of many, each so many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steps {
    /// The name that all of them have.
    pub name: Option<Arc<str>>,
    pub(crate) kept: Vec<Step>,
    pub(crate) every: u64,
    pub(crate) count: u64,
}

impl Steps {
    fn new(name: Option<Arc<str>>) -> Self {
        Self {
            name,
            kept: Vec::new(),
            every: 1,
            count: 0,
        }
    }

    fn push(&mut self, time: u64, number: u64) {
        if self.kept.last().is_some_and(|last| time < last.time) {
            // A clock was set back: what was placed when is not known by it.
            return;
        }
        self.count += 1;
        if self.kept.len() == MAX_STEPS && self.is_kept(self.count) {
            self.every *= 2;
            let every = self.every;
            self.kept
                .retain(|step| (step.ordinal - 1).is_multiple_of(every));
        }
        if self.is_kept(self.count) {
            let ordinal = self.count;
            self.kept.push(Step {
                time,
                ordinal,
                number,
            });
        }
    }

    fn is_kept(&self, ordinal: u64) -> bool {
        (ordinal - 1).is_multiple_of(self.every)
    }

    /// How many marks there were from a time on.
    fn count_since(&self, time: u64) -> u64 {
        let before = self.kept.partition_point(|step| step.time < time);
        (self.kept.len() - before) as u64 * self.every
    }

    /// The kept mark behind which a time lies.
    fn place(&self, time: u64) -> Option<usize> {
        let behind = self.kept.partition_point(|step| step.time <= time);
        behind.checked_sub(1)
    }
}

/// The marks of a process, or of those who read: all of them, and by name.
#[derive(Clone, Debug)]
pub struct Series {
    pub(crate) all: Steps,
    pub(crate) named: Vec<Steps>,
    /// Whether readers set them, who were there before a process began.
    pub(crate) of_readers: bool,
}

impl Default for Series {
    fn default() -> Self {
        Self {
            all: Steps::new(None),
            named: Vec::new(),
            of_readers: false,
        }
    }
}

impl Series {
    pub(crate) fn of_readers() -> Self {
        Self {
            of_readers: true,
            ..Self::default()
        }
    }

    pub(crate) fn push(&mut self, time: u64, name: &Arc<str>, number: u64) {
        self.all.push(time, number);
        let known = self.named.iter_mut();
        let mut known = known.filter(|steps| steps.name.as_ref() == Some(name));
        if let Some(steps) = known.next() {
            steps.push(time, number);
        } else if self.named.len() < MAX_NAMES {
            let mut steps = Steps::new(Some(Arc::clone(name)));
            steps.push(time, number);
            self.named.push(steps);
        }
    }

    /// The marks by which the growth of a process that began at a time is measured: those of one name,
    /// if that came again and again since then.
    #[must_use]
    pub fn steps(&self, began: u64) -> &Steps {
        let began = self.relevant(began);
        let count = |steps: &&Steps| steps.count_since(began);
        let named = self.named.iter().filter(|steps| count(steps) >= MIN_STEPS);
        named.max_by_key(count).unwrap_or(&self.all)
    }

    /// A process's own marks are all since it began, whatever the clocks say.
    fn relevant(&self, began: u64) -> u64 {
        if self.of_readers { began } else { 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.count == 0
    }

    /// The same without the names of marks: those of one name are still counted together.
    pub(crate) fn without_names(&self) -> Self {
        let named = self.named.iter().map(|steps| Steps {
            name: None,
            ..steps.clone()
        });
        Self {
            named: named.collect(),
            ..self.clone()
        }
    }

    /// This series, or another one if it has no marks.
    #[must_use]
    pub fn or<'s>(self: &'s Arc<Self>, other: &'s Arc<Self>) -> &'s Arc<Self> {
        if self.is_empty() { other } else { self }
    }
}

/// The marks that readers set, by user: nobody's marks decide what grows in another's processes.
#[derive(Clone, Debug, Default)]
pub struct ReaderSeries {
    pub(crate) by_user: BTreeMap<u32, Arc<Series>>,
    none: Arc<Series>,
}

impl ReaderSeries {
    pub(crate) fn push(&mut self, user: u32, time: u64, name: &Arc<str>, number: u64) {
        if self.by_user.len() >= MAX_USERS && !self.by_user.contains_key(&user) {
            let last = |series: &Arc<Series>| series.all.kept.last().map_or(0, |step| step.time);
            let idlest = self
                .by_user
                .iter()
                .min_by_key(|(_user, series)| last(series));
            if let Some(idlest) = idlest.map(|(user, _series)| *user) {
                self.by_user.remove(&idlest);
            }
        }
        let series = self.by_user.entry(user);
        let series = series.or_insert_with(|| Arc::new(Series::of_readers()));
        Arc::make_mut(series).push(time, name, number);
    }

    /// The same with the names of those users' marks whose names are shown.
    pub(crate) fn with_names_of(&self, is_shown: impl Fn(u32) -> bool) -> Self {
        let by_user = self.by_user.iter().map(|(user, series)| {
            let shown = if is_shown(*user) {
                Arc::clone(series)
            } else {
                Arc::new(series.without_names())
            };
            (*user, shown)
        });
        Self {
            by_user: by_user.collect(),
            none: Arc::clone(&self.none),
        }
    }

    /// Those that count for a user's processes: its own, or else those of root, as which the server's
    /// user counts.
    #[must_use]
    pub fn of(&self, user: u32) -> &Arc<Series> {
        let own = self.by_user.get(&user);
        own.or_else(|| self.by_user.get(&ROOT))
            .unwrap_or(&self.none)
    }
}

/// How many buffers, and their bytes on each device that they lie on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    pub buffers: u64,
    pub bytes: u64,
}

impl Sum {
    fn add(&mut self, other: Self) {
        self.buffers += other.buffers;
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

/// Buffers that are still held, by the step in which they were placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Births {
    pub sum: Sum,
    pub(crate) smallest: u64,
    pub(crate) largest: u64,
    /// By the time of the mark behind which they were placed: marks are thinned out later.
    pub(crate) by_step: BTreeMap<u64, Sum>,
}

impl Default for Births {
    fn default() -> Self {
        Self {
            sum: Sum::default(),
            smallest: u64::MAX,
            largest: 0,
            by_step: BTreeMap::new(),
        }
    }
}

/// What grows, and since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Growth {
    /// The mark that the first step began with.
    pub since: Step,
    /// How many steps it has grown over.
    pub steps: u64,
    /// What they have left behind.
    pub sum: Sum,
    /// What a usual one of them leaves behind, in bytes: never 0, and never more than all do.
    pub per_step: u64,
}

impl Births {
    /// Adds a buffer that was placed at a time; its step is noted while `room` has a place for it.
    pub(crate) fn add(&mut self, time: u64, bytes: u64, series: &Series, room: &mut usize) {
        let one = Sum { buffers: 1, bytes };
        self.sum.add(one);
        self.smallest = self.smallest.min(bytes);
        self.largest = self.largest.max(bytes);
        // By all marks: which of them are steps is said when somebody asks.
        let Some(place) = series.all.place(time) else {
            return;
        };
        match self.by_step.entry(series.all.kept[place].time) {
            Entry::Occupied(mut known) => known.get_mut().add(one),
            Entry::Vacant(free) if *room > 0 => {
                free.insert(one);
                *room -= 1;
            }
            Entry::Vacant(_) => {}
        }
    }

    /// Forgets the steps: what has been given back grows no more, whatever is left behind later.
    pub(crate) fn forget_steps(&mut self) {
        self.by_step.clear();
    }

    pub fn merge(&mut self, other: &Self) {
        self.sum.add(other.sum);
        self.smallest = self.smallest.min(other.smallest);
        self.largest = self.largest.max(other.largest);
        for (time, sum) in &other.by_step {
            self.by_step.entry(*time).or_default().add(*sum);
        }
    }

    /// The size of each, if all have one.
    #[must_use]
    pub fn each_bytes(&self) -> Option<u64> {
        (self.smallest == self.largest).then_some(self.largest)
    }

    /// Whether they grow: steps have left some behind again and again, up to the last that is over,
    /// for at least half of all steps since their process began, and lately about as often as before.
    ///
    /// What lives for a fixed number of steps looks the same at first. But it is never older than
    /// that, so that it is not taken for growth once there are twice as many steps. A cache that fills
    /// leaves something behind ever more seldom.
    #[must_use]
    pub fn growth(&self, series: &Series, began: u64) -> Option<Growth> {
        let (steps, began) = (series.steps(began), series.relevant(began));
        // The last step is not over: what it has placed may be in use.
        let over = steps.kept.len().checked_sub(1)?;
        let before = steps.kept.partition_point(|step| step.time < began);
        let lived = over.saturating_sub(before);
        let mut by_place: BTreeMap<usize, Sum> = BTreeMap::new();
        for (time, sum) in &self.by_step {
            if let Some(place) = steps.place(*time) {
                by_place.entry(place).or_default().add(*sum);
            }
        }
        let gap = (lived / 5).max(1);
        let (mut first, mut found, mut sum) = (over, 0, Sum::default());
        for (place, placed) in by_place.range(..over).rev() {
            if first - place > gap {
                break;
            }
            first = *place;
            found += 1;
            sum.add(*placed);
        }
        if found < MIN_GROWN || 2 * (over - first) < lived || levels_off(&by_place, first, over) {
            return None;
        }
        let left = (first..over).map(|place| by_place.get(&place).map_or(0, |sum| sum.bytes));
        let per_step = usual(&left.collect::<Vec<u64>>()) / steps.every;
        let since = steps.kept[first];
        let steps = steps.kept[over].ordinal - since.ordinal;
        (per_step > 0).then_some(Growth {
            since,
            steps,
            sum,
            per_step,
        })
    }
}

/// Whether fewer of the later steps have left something behind than of the earlier ones.
fn levels_off(by_place: &BTreeMap<usize, Sum>, first: usize, over: usize) -> bool {
    let half = (over - first) / 2;
    let early = by_place.range(first..first + half).count();
    let late = by_place.range(over - half..over).count();
    // A quarter fewer may be chance.
    4 * late < 3 * early
}

/// What a usual step leaves behind: the median over stretches of a quarter of them.
///
/// Of steps that differ it is an average, and one that loaded weights on the same line does not count.
fn usual(left: &[u64]) -> u64 {
    let stretch = (left.len() / 4).max(1);
    let sums = left.windows(stretch).map(|stretch| {
        let sum = stretch
            .iter()
            .fold(0, |sum: u64, bytes| sum.saturating_add(*bytes));
        sum / stretch.len() as u64
    });
    let mut sums: Vec<u64> = sums.collect();
    if sums.is_empty() {
        return 0;
    }
    let middle = (sums.len() - 1) / 2;
    *sums.select_nth_unstable(middle).1
}

#[cfg(test)]
mod tests;
