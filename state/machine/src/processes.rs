//! Whether a process that a file names is there, and still the same one.

use crate::files::{MOST_NAMES, Reader, Reading, Unread};
use crate::roots::Roots;
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use std::collections::{BTreeMap, BTreeSet};

/// Clock ticks of `/proc/PID/stat` per second: the kernel's USER_HZ, 100 wherever cards are.
const TICKS_PER_SECOND: u64 = 100;

/// How much later than an entry a process may seem to have begun: the boot time has whole seconds.
const SLACK_NANOS: u64 = 2_000_000_000;

/// What is known of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// It runs, and began before the entry was written.
    Alive,
    /// There is no such process here.
    Dead,
    /// The process with this number began after the entry was written: it is another one.
    Reused,
    /// It cannot be told.
    Unknown(Unread),
}

/// Looks processes up.
#[derive(Debug)]
pub struct Processes {
    roots: Roots,
    boot_nanos: Option<u64>,
    stats: BTreeMap<i32, Reading<String>>,
    /// Whether procfs shows every process, so that one that it does not show is none.
    shows_all: bool,
}

impl Processes {
    /// Reads when the machine was started.
    pub fn new(roots: &Roots, reader: &mut Reader) -> Self {
        let stat = reader.text(roots.path("/proc/stat")).unwrap_or_default();
        let boot = stat.lines().find_map(|line| line.strip_prefix("btime "));
        let seconds = boot.and_then(|text| text.trim().parse::<u64>().ok());
        Self {
            roots: roots.clone(),
            boot_nanos: seconds.and_then(|seconds| seconds.checked_mul(1_000_000_000)),
            stats: BTreeMap::new(),
            shows_all: false,
        }
    }

    /// Reads what procfs says of some processes. Others write their numbers, and as many as they like: only those are
    /// asked for that are there.
    pub(crate) fn read(&mut self, reader: &mut Reader, pids: &BTreeSet<i32>) {
        if pids.is_empty() {
            return;
        }
        let names = reader.names(self.roots.path("/proc"));
        let names = names.ok().filter(|names| names.len() < MOST_NAMES);
        // With `hidepid` nobody but root sees the first of all.
        self.shows_all = names.iter().flatten().any(|name| name == "1");
        let there = names.map_or_else(
            || pids.clone(),
            |names| names.iter().filter_map(|name| name.parse().ok()).collect(),
        );
        let there: Vec<i32> = pids.intersection(&there).copied().collect();
        let path = |pid: &i32| self.roots.path(&format!("/proc/{pid}/stat"));
        let stats = reader.texts(there.iter().map(path).collect());
        self.stats = there.into_iter().zip(stats).collect();
    }

    /// Whether the process of an entry that was last written at an instant is still there; one that was read.
    #[must_use]
    pub fn liveness(&self, pid: i32, written_nanos: u64) -> Liveness {
        let stat = self.stats.get(&pid).cloned();
        let stat = match stat.unwrap_or(Err(Unread::Missing)) {
            Ok(stat) => stat,
            Err(Unread::Missing) => return self.unseen(pid),
            // Gone between opening and reading.
            Err(Unread::Failed(code)) if code == Errno::SRCH.raw_os_error() => {
                return Liveness::Dead;
            }
            Err(error) => return Liveness::Unknown(error),
        };
        let after_boot = match started(&stat) {
            Err(error) => return Liveness::Unknown(error),
            Ok(None) => return Liveness::Dead,
            Ok(Some(after_boot)) => after_boot,
        };
        let started = self
            .boot_nanos
            .and_then(|boot| boot.checked_add(after_boot));
        match started {
            Some(started)
                if written_nanos > 0 && started > written_nanos.saturating_add(SLACK_NANOS) =>
            {
                Liveness::Reused
            }
            _ => Liveness::Alive,
        }
    }

    /// When the process of a number began, in nanoseconds since the epoch, or since the machine was started where that is
    /// not known; `Missing` for one that has ended.
    pub fn began(&self, reader: &mut Reader, pid: i32) -> Reading<u64> {
        let stat = match reader.text(self.roots.path(&format!("/proc/{pid}/stat"))) {
            Err(Unread::Failed(code)) if code == Errno::SRCH.raw_os_error() => {
                return Err(Unread::Missing);
            }
            stat => stat?,
        };
        match started(&stat)? {
            None => Err(Unread::Missing),
            Some(after_boot) => Ok(self.boot_nanos.unwrap_or(0).saturating_add(after_boot)),
        }
    }

    /// A process that procfs does not show: with `hidepid`, one of another user may be there.
    fn unseen(&self, pid: i32) -> Liveness {
        if self.shows_all || !self.roots.is_this_machine() {
            return Liveness::Dead;
        }
        match Pid::from_raw(pid).map(test_kill_process) {
            Some(Ok(()) | Err(Errno::PERM)) => Liveness::Unknown(Unread::Denied),
            _ => Liveness::Dead,
        }
    }
}

/// When a process began, in nanoseconds after the machine, from its `stat`; none if it has ended, and nobody has
/// asked how yet: it holds nothing. One whose first thread alone has ended goes on with the others.
fn started(stat: &str) -> Reading<Option<u64>> {
    let malformed = || Unread::Malformed("stat".to_owned());
    // The name is in parentheses and may have any: the last one ends it.
    let (_name, fields) = stat.rsplit_once(')').ok_or_else(malformed)?;
    let mut fields = fields.split_ascii_whitespace();
    let state = fields.next().ok_or_else(malformed)?;
    // The 20th and 22nd fields of all; the state was the third.
    let threads = fields.nth(16).and_then(|field| field.parse::<u64>().ok());
    let threads = threads.ok_or_else(malformed)?;
    if matches!(state, "Z" | "X") && threads <= 1 {
        return Ok(None);
    }
    let ticks = fields.nth(1).and_then(|field| field.parse::<u64>().ok());
    let ticks = ticks.ok_or_else(malformed)?;
    let after_boot = ticks.checked_mul(1_000_000_000 / TICKS_PER_SECOND);
    after_boot.map(Some).ok_or_else(malformed)
}
