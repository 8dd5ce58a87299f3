//! What each process held over time, as this view saw it.
//!
//! Bounded: so many values of each process of the latest snapshot. The server keeps no history of
//! processes; this one begins when the view does.

use std::collections::{BTreeMap, VecDeque};
use ttmem_report::labels::{held, is_gone};
use ttmem_report::machine_labels::has_sizes;
use ttmem_report::{Process, Snapshot, Timestamp};

/// Values that are kept of a process: at two a second, two minutes.
const KEPT: usize = 240;

type Key = (Option<u32>, Option<String>);

#[derive(Debug, Clone, Default)]
pub(crate) struct Trends {
    of: BTreeMap<Key, Trend>,
}

#[derive(Debug, Clone, Default)]
struct Trend {
    dram: VecDeque<(Timestamp, u64)>,
}

fn key(process: &Process) -> Key {
    (process.pid, process.instance.clone())
}

impl Trends {
    pub(crate) fn take(&mut self, snapshot: &Snapshot) {
        let mut before = std::mem::take(&mut self.of);
        for process in &snapshot.processes {
            let mut trend = before.remove(&key(process)).unwrap_or_default();
            if !is_gone(process) && has_sizes(process) {
                let bytes = held(&process.devices, |on| on.dram_bytes);
                trend.add(snapshot.time, bytes);
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
}

impl Trend {
    fn add(&mut self, time: Timestamp, bytes: u64) {
        self.dram.push_back((time, bytes));
        if self.dram.len() > KEPT {
            self.dram.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::world::{Names, World};

    #[test]
    fn so_many_values_are_kept_of_each_process_that_is_there() {
        let world = World {
            devices: 2,
            processes: 1,
            busy: false,
            names: Names::Usual,
        };
        let mut snapshot = world.data().totals().expect("a snapshot").clone();
        let mut trends = Trends::default();
        for bytes in 0..1000 {
            snapshot.processes[0].devices[0].dram_bytes = bytes;
            trends.take(&snapshot);
        }
        let kept = trends.of(&snapshot.processes[0]);
        assert_eq!((kept.len(), kept.last()), (KEPT, Some(&999)));
        snapshot.processes.clear();
        trends.take(&snapshot);
        assert!(trends.of.is_empty());
    }
}
