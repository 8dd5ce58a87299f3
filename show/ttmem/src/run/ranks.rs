//! The ranks of a run that a launcher started as many processes: a row for each, and what is wrong
//! with some.
//!
//! Which rank a process is comes from its labels, its own word: nothing but this table is made of it.

use super::contents::Figure;
use serde::Serialize;
use std::collections::BTreeMap;
use ttmem_report::{
    LeakCandidates, MemoryClass, PeakBytes, Process, ProcessState, Released, Timestamp,
};

/// A world larger than this is nobody's: its missing ranks would be a list without end.
const MAX_WORLD: u32 = 1 << 20;

/// Ranks that a list of missing ones names.
const MAX_MISSING: usize = 4096;

/// A rank whose peak is so many percent of the others' median stands out.
const OUTSTANDING_PERCENT: u64 = 125;

/// Differences below this matter to nobody.
const NEGLIGIBLE_BYTES: u64 = 1 << 20;

/// The ranks of a run, as far as its processes say which they are.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Ranks {
    /// How many ranks there are, as they say.
    pub(crate) world_size: Option<u32>,
    /// Those that reported to the server of this run.
    pub(crate) ranks: Vec<Rank>,
    /// Those that did not.
    pub(crate) missing: Vec<u32>,
    /// Ranks that took far more than the others.
    pub(crate) imbalances: Vec<Imbalance>,
    /// The first to end without a word, where the run failed.
    pub(crate) first_ended: Option<FirstEnded>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Rank {
    pub(crate) rank: u32,
    /// Its processes that use devices.
    pub(crate) pids: Vec<u32>,
    /// The devices that it used, by number.
    pub(crate) devices: Vec<u32>,
    /// The most of each class that it held on one device.
    #[serde(rename = "peak_bytes")]
    pub(crate) peaks: PeakBytes,
    /// What it still held when it closed its devices.
    pub(crate) held_at_close: LeakCandidates,
    /// Whether its figures may not be all that it has.
    pub(crate) incomplete: bool,
    /// When it was gone, and whether it had said so.
    #[serde(skip)]
    ended: Option<(Timestamp, bool)>,
}

/// One rank's peak beside those of the others.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Imbalance {
    pub(crate) class: MemoryClass,
    pub(crate) rank: u32,
    pub(crate) bytes: u64,
    /// The median of the other ranks.
    pub(crate) median_bytes: u64,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct FirstEnded {
    pub(crate) rank: u32,
    pub(crate) time: Timestamp,
}

/// A label of a process that should be a number, and is none that counts.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct RefusedLabel {
    pub(crate) pid: Option<u32>,
    pub(crate) label: &'static str,
    pub(crate) value: String,
}

impl RefusedLabel {
    pub(crate) fn sentence(&self) -> String {
        let Self { label, value, .. } = self;
        format!(
            "its label {label}, {value:?}, is not a number up to {MAX_WORLD} and does not count"
        )
    }
}

/// Labels that should be numbers and do not count.
pub(super) fn refused_labels(processes: &[Process]) -> Vec<RefusedLabel> {
    let of = |process: &Process| {
        let pid = process.pid;
        let labels = process.labels.clone();
        ["rank", "world_size"].into_iter().filter_map(move |label| {
            let value = labels.get(label)?.clone();
            let counts = value.parse().is_ok_and(|number: u32| number <= MAX_WORLD);
            (!counts).then_some(RefusedLabel { pid, label, value })
        })
    };
    processes.iter().flat_map(of).collect()
}

impl Ranks {
    /// What the processes of a run say; `failed` = the run ended otherwise than with code 0.
    pub(super) fn new(processes: &[Process], failed: bool) -> Self {
        let mut of_rank: BTreeMap<u32, Vec<&Process>> = BTreeMap::new();
        for process in processes {
            if let Some(rank) = label(process, "rank").filter(|rank| *rank <= MAX_WORLD) {
                of_rank.entry(rank).or_default().push(process);
            }
        }
        let sizes = processes
            .iter()
            .filter_map(|process| label(process, "world_size"));
        let world_size = sizes.max().filter(|size| (1..=MAX_WORLD).contains(size));
        let ranks: Vec<Rank> = of_rank
            .iter()
            .map(|(rank, processes)| Rank::new(*rank, processes))
            .collect();
        let missing = (0..world_size.unwrap_or(0)).filter(|rank| !of_rank.contains_key(rank));
        Self {
            world_size,
            missing: missing.take(MAX_MISSING).collect(),
            imbalances: imbalances(&ranks),
            first_ended: failed.then(|| first_ended(&ranks)).flatten(),
            ranks,
        }
    }

    /// The rank that a process is, where there are several.
    pub(crate) fn of(&self, pid: u32) -> Option<u32> {
        let mut ranks = self.ranks.iter().filter(|_rank| self.are_several());
        Some(ranks.find(|rank| rank.pids.contains(&pid))?.rank)
    }

    /// Whether there is anything to say: one rank of one is a program like any other.
    pub(crate) fn are_several(&self) -> bool {
        self.ranks.len() + self.missing.len() > 1
    }
}

impl Rank {
    fn new(rank: u32, processes: &[&Process]) -> Self {
        let held = processes.iter().flat_map(|process| &process.devices);
        let mut devices: Vec<u32> = { held.clone() }.map(|on| on.id).collect();
        devices.sort_unstable();
        devices.dedup();
        let leaks = processes.iter().map(|process| process.leak_candidates);
        // As long as one of its processes lives, so does the rank.
        let gone = processes
            .iter()
            .all(|process| process.state == ProcessState::Exited);
        let ends = processes
            .iter()
            .filter_map(|process| process.released.as_ref());
        let ended = ends
            .map(|released| (released.time, said_so(released)))
            .max();
        Self {
            rank,
            pids: processes.iter().filter_map(|process| process.pid).collect(),
            devices,
            peaks: PeakBytes::highest(held.filter_map(|on| on.peak)),
            held_at_close: leaks.fold(LeakCandidates::default(), |sum, one| LeakCandidates {
                buffers: sum.buffers.saturating_add(one.buffers),
                bytes: sum.bytes.saturating_add(one.bytes),
            }),
            incomplete: processes.iter().any(|process| process.incomplete),
            ended: ended.filter(|_ended| gone),
        }
    }
}

fn label(process: &Process, key: &str) -> Option<u32> {
    process.labels.get(key)?.parse().ok()
}

/// Whether a process told the server that it ends.
fn said_so(released: &Released) -> bool {
    released.reason != "ended"
}

/// Of DRAM and of L1, the rank that held far more than the others.
fn imbalances(ranks: &[Rank]) -> Vec<Imbalance> {
    let classes: [(MemoryClass, Figure); 2] = [
        (MemoryClass::Dram, |peaks| peaks.dram),
        (MemoryClass::L1, |peaks| peaks.l1),
    ];
    let outstanding = |(class, figure): (MemoryClass, Figure)| {
        let mut figures: Vec<(u64, u32)> = ranks
            .iter()
            .map(|rank| (figure(&rank.peaks), rank.rank))
            .collect();
        figures.sort_unstable();
        let (bytes, rank) = figures.pop()?;
        let (median_bytes, _rank) = *figures.get(figures.len() / 2)?;
        let least = median_bytes.saturating_mul(OUTSTANDING_PERCENT) / 100;
        let stands_out = bytes >= least && bytes - median_bytes >= NEGLIGIBLE_BYTES;
        stands_out.then_some(Imbalance {
            class,
            rank,
            bytes,
            median_bytes,
        })
    };
    classes.into_iter().filter_map(outstanding).collect()
}

/// The launcher ends all others after one that died: the first of them is the one to look at.
fn first_ended(ranks: &[Rank]) -> Option<FirstEnded> {
    let ends = ranks
        .iter()
        .filter_map(|rank| Some((rank.ended?, rank.rank)));
    let silent = ends.filter(|((_time, said_so), _rank)| !said_so);
    let ((time, _said_so), rank) = silent.min()?;
    Some(FirstEnded { rank, time })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::tests::{device, process};

    fn rank(rank: u32, dram: u64) -> Process {
        let mut process = process(100 + rank, "python", &[device(0, 1)]);
        let labels = [("rank", rank.to_string()), ("world_size", "4".to_owned())];
        process.labels = labels.map(|(key, value)| (key.to_owned(), value)).into();
        process.devices[0].id = rank;
        process.devices[0].peak = Some(PeakBytes {
            dram,
            ..PeakBytes::default()
        });
        process
    }

    #[test]
    fn ranks_that_did_not_report_are_missing() {
        let ranks = Ranks::new(&[rank(0, 1), rank(3, 1)], false);
        assert_eq!(ranks.missing, [1, 2]);
        assert!(ranks.are_several());
        assert_eq!(ranks.imbalances, []);
        let mut lone = rank(0, 1);
        lone.labels.insert("world_size".to_owned(), "1".to_owned());
        assert!(!Ranks::new(&[lone], false).are_several());
    }

    #[test]
    fn a_world_that_cannot_be_is_not_believed() {
        for size in ["4294967295", "-1", "x", "0", ""] {
            let mut process = rank(0, 1);
            process
                .labels
                .insert("world_size".to_owned(), size.to_owned());
            assert_eq!(Ranks::new(&[process], false).world_size, None, "{size}");
        }
    }

    #[test]
    fn a_rank_that_took_far_more_than_the_others_is_named() {
        let mib = 1 << 20;
        let peaks = [100 * mib, 101 * mib, 99 * mib, 130 * mib];
        let processes: Vec<Process> = (0..).zip(peaks).map(|(n, dram)| rank(n, dram)).collect();
        let named = Imbalance {
            class: MemoryClass::Dram,
            rank: 3,
            bytes: 130 * mib,
            median_bytes: 100 * mib,
        };
        assert_eq!(Ranks::new(&processes, false).imbalances, [named]);
        assert_eq!(Ranks::new(&processes[..3], false).imbalances, []);
        assert_eq!(Ranks::new(&[], true).imbalances, []);
    }

    #[test]
    fn the_first_to_end_without_a_word_is_named_when_the_run_failed() {
        let ended = |number, time, reason: &str| {
            let mut process = rank(number, 1);
            process.state = ProcessState::Exited;
            process.released = Some(Released {
                buffers: 0,
                cbs: 0,
                kernels: 0,
                bytes: 0,
                buffer_bytes: 0,
                time: Timestamp::from_unix_nanos(time),
                reason: reason.to_owned(),
            });
            process
        };
        let processes = [
            ended(0, 50, "ended"),
            ended(1, 10, "exited"),
            ended(2, 40, "ended"),
            rank(3, 1),
        ];
        let first = FirstEnded {
            rank: 2,
            time: Timestamp::from_unix_nanos(40),
        };
        assert_eq!(Ranks::new(&processes, true).first_ended, Some(first));
        assert_eq!(Ranks::new(&processes, false).first_ended, None);
    }
}
