//! What each process held over time, as this view saw it, and which of them only grow.
//!
//! Bounded: so many values of each process of the latest snapshot. The server keeps no history of
//! processes; this one begins when the view does.

use crate::labels::{held, is_gone};
use std::collections::{BTreeMap, VecDeque};
use ttmem_api::{Process, Snapshot, Timestamp};

/// Values that are kept of a process: at two a second, two minutes.
const KEPT: usize = 240;

/// A process that was higher at each of so many marks than at the one before grows.
const GROWS_AT: usize = 4;

type Key = (Option<u32>, Option<String>);

#[derive(Debug, Clone, Default)]
pub(crate) struct Trends {
    of: BTreeMap<Key, Trend>,
}

#[derive(Debug, Clone, Default)]
struct Trend {
    dram: VecDeque<(Timestamp, u64)>,
    /// The latest marks at which it was looked at, and what it held then.
    at_marks: VecDeque<(Timestamp, u64)>,
}

fn key(process: &Process) -> Key {
    (process.pid, process.instance.clone())
}

impl Trends {
    pub(crate) fn take(&mut self, snapshot: &Snapshot) {
        let mut before = std::mem::take(&mut self.of);
        for process in &snapshot.processes {
            let mut trend = before.remove(&key(process)).unwrap_or_default();
            if !is_gone(process) {
                trend.add(held(&process.devices, |on| on.dram_bytes), snapshot);
            }
            self.of.insert(key(process), trend);
        }
    }

    /// DRAM on all its devices, oldest first.
    pub(crate) fn of(&self, process: &Process) -> Vec<u64> {
        let trend = self.of.get(&key(process));
        trend.map_or_else(Vec::new, |trend| {
            trend.dram.iter().map(|(_time, bytes)| *bytes).collect()
        })
    }

    /// When the oldest of its values was.
    pub(crate) fn since(&self, process: &Process) -> Option<Timestamp> {
        let (time, _bytes) = self.of.get(&key(process))?.dram.front()?;
        Some(*time)
    }

    /// By how much a process grew over the latest marks, if it grew at each, and how many these are.
    pub(crate) fn grown(&self, process: &Process) -> Option<(u64, usize)> {
        let marks = &self.of.get(&key(process))?.at_marks;
        let values = || marks.iter().map(|(_mark, bytes)| *bytes);
        let grows = values().zip(values().skip(1)).all(|(one, next)| next > one);
        let (first, last) = (values().next()?, values().next_back()?);
        (marks.len() >= GROWS_AT && grows).then(|| (last - first, marks.len()))
    }
}

impl Trend {
    fn add(&mut self, bytes: u64, snapshot: &Snapshot) {
        self.dram.push_back((snapshot.time, bytes));
        if self.dram.len() > KEPT {
            self.dram.pop_front();
        }
        // Of marks that came since the last snapshot the newest is the one that the value is of.
        if let Some(mark) = snapshot.marks.last()
            && self
                .at_marks
                .back()
                .is_none_or(|(known, _)| *known < mark.time)
        {
            self.at_marks.push_back((mark.time, bytes));
            if self.at_marks.len() > GROWS_AT {
                self.at_marks.pop_front();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::world::{Names, World};

    #[test]
    fn what_grows_at_every_mark_is_found_and_nothing_else() {
        let world = World {
            devices: 2,
            processes: 1,
            busy: false,
            names: Names::Usual,
        };
        let mut snapshot = world.data().totals().expect("a snapshot").clone();
        let mut trends = Trends::default();
        let mut look = |bytes: u64, mark: u64| {
            snapshot.processes[0].devices[0].dram_bytes = bytes;
            snapshot.marks[0].time = Timestamp::from_unix_nanos(mark);
            snapshot.marks.truncate(1);
            trends.take(&snapshot);
            trends.grown(&snapshot.processes[0])
        };
        assert_eq!(look(10, 1), None);
        assert_eq!(look(30, 2), None);
        // The same mark again is no growth, whatever is held meanwhile.
        assert_eq!(look(20, 2), None);
        assert_eq!(look(40, 3), None);
        assert_eq!(look(50, 4), Some((40, 4)));
        assert_eq!(look(50, 5), None);
        for _ in 0..1000 {
            look(1, 6);
        }
        assert_eq!(trends.of(&snapshot.processes[0]).len(), KEPT);
        snapshot.processes.clear();
        trends.take(&snapshot);
        assert!(trends.of.is_empty());
    }
}
