//! Which processes belong to a run.
//!
//! Whose a process is can be read from its environment while it lives, and of very many that ended
//! the server keeps the last ones only. So a thread asks for the snapshot a few times a second and
//! remembers whose processes they are and how each was seen last. No figure of the report is made of
//! this: they come from the server's account, after the end.

use crate::commands::reach::patiently;
use crate::threads;
use anyhow::{Result, anyhow};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use ttmem_reader::ApiClient;
use ttmem_report::{DeviceKey, Process, ProcessState, Snapshot};

/// The variable by which processes of a run are known: one tag for each run around them.
pub(super) const TAG_VARIABLE: &str = "TTMEM_RUN";

const TAG_SEPARATOR: u8 = b':';

/// Time between two looks: short for a process that opens devices, long for the server.
const PAUSE: Duration = Duration::from_millis(200);

/// Time between two looks when all has ended and the server is about to know it.
const SETTLE_PAUSE: Duration = Duration::from_millis(20);

/// How long the server may take to notice the end of a process.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(5);

/// Which processes of the server belong to the run.
#[derive(Clone, Debug)]
pub(super) enum Whose {
    /// All of them: the server was started for it.
    All,
    /// Those with this tag in their environment.
    Tagged(String),
}

/// A process as the server identifies it.
pub(super) type ProcessKey = (Option<u32>, Option<String>);

pub(super) fn key(process: &Process) -> ProcessKey {
    (process.pid, process.instance.clone())
}

#[derive(Clone, Debug)]
pub(super) struct Watched {
    whose: Whose,
    /// The pid of the program itself, once it is known.
    pub(super) program: Option<u32>,
    /// Processes of the run, as they were seen last.
    pub(super) processes: BTreeMap<ProcessKey, Process>,
    /// Processes that are not of the run.
    others: BTreeSet<ProcessKey>,
    /// Whether one of these lived beside the run; a server remembers many that have ended.
    pub(super) had_others: bool,
    /// Processes that came meanwhile and were gone before they could be asked whose they are.
    pub(super) unknown: BTreeSet<ProcessKey>,
    /// Devices that processes of the run were seen on.
    pub(super) devices: BTreeSet<DeviceKey>,
}

impl Watched {
    /// The beginning: whoever is there already is not of the run.
    pub(super) fn new(whose: Whose, before: &Snapshot) -> Self {
        let others = match &whose {
            Whose::All => BTreeSet::new(),
            Whose::Tagged(_tag) => before.processes.iter().map(key).collect(),
        };
        let is_alive = |process: &Process| process.state != ProcessState::Exited;
        let had_others = !others.is_empty() && before.processes.iter().any(is_alive);
        Self {
            whose,
            program: None,
            processes: BTreeMap::new(),
            others,
            had_others,
            unknown: BTreeSet::new(),
            devices: BTreeSet::new(),
        }
    }

    /// Takes note of the processes in a snapshot.
    pub(super) fn take(&mut self, snapshot: &Snapshot) {
        for process in &snapshot.processes {
            let key = key(process);
            if !self.is_ours(&key, process) {
                continue;
            }
            for device in &process.devices {
                self.devices.insert(device.key());
            }
            self.processes.insert(key, process.clone());
        }
    }

    fn is_ours(&mut self, key: &ProcessKey, process: &Process) -> bool {
        let Whose::Tagged(tag) = &self.whose else {
            return true;
        };
        if self.processes.contains_key(key) {
            return true;
        }
        if self.others.contains(key) {
            return false;
        }
        if process.pid.is_some() && process.pid == self.program {
            self.unknown.remove(key);
            return true;
        }
        let environment = process
            .pid
            .filter(|_pid| process.state != ProcessState::Exited)
            .and_then(|pid| std::fs::read(format!("/proc/{pid}/environ")).ok())
            // A process that is gone, or is just becoming another program, has none.
            .filter(|environment| !environment.is_empty());
        let Some(environment) = environment else {
            self.unknown.insert(key.clone());
            return false;
        };
        self.unknown.remove(key);
        let ours = has_tag(&environment, tag);
        if !ours {
            self.others.insert(key.clone());
            self.had_others = true;
        }
        ours
    }
}

#[derive(Debug)]
pub(super) struct Watch {
    server: ApiClient,
    end: SyncSender<()>,
    looking: JoinHandle<Watched>,
}

impl Watch {
    /// Begins to look at a server; before the program is started.
    pub(super) fn begin(server: &ApiClient, whose: Whose) -> Result<Self> {
        let before = patiently(|| server.snapshot())?;
        let mut watched = Watched::new(whose, &before);
        let (end, ended) = sync_channel(0);
        let asked = server.clone();
        let looking = threads::spawn("ttmem-watch", "watching", move || {
            while ended.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
                // What is missed now is seen at the next look, or when all has ended.
                if let Ok(snapshot) = asked.snapshot() {
                    watched.take(&snapshot);
                }
            }
            watched
        })?;
        Ok(Self {
            server: server.clone(),
            end,
            looking,
        })
    }

    /// What was seen, and the account after the end of the program with this pid.
    pub(super) fn end(self, program: i32) -> Result<(Watched, Snapshot)> {
        drop(self.end);
        let watched = self.looking.join();
        let mut watched = watched.map_err(|_panic| anyhow!("the thread that watches failed"))?;
        // However short it was: nobody else had its pid before it was waited for.
        watched.program = u32::try_from(program).ok();
        let after = settled(&self.server, &mut watched)?;
        Ok((watched, after))
    }
}

/// The account when the server has read all that was sent and knows who is gone.
fn settled(server: &ApiClient, watched: &mut Watched) -> Result<Snapshot> {
    let begun = Instant::now();
    let mut before = None;
    loop {
        let snapshot = patiently(|| server.snapshot())?;
        watched.take(&snapshot);
        let now = (
            snapshot.server.events_applied,
            snapshot.server.clients,
            snapshot.processes.len(),
        );
        let quiet = before.replace(now) == Some(now);
        let gone_unnoticed = snapshot.processes.iter().any(|process| {
            watched.processes.contains_key(&key(process))
                && process.state != ProcessState::Exited
                && process.pid.is_some_and(has_ended)
        });
        if (quiet && !gone_unnoticed) || begun.elapsed() > SETTLE_TIMEOUT {
            return Ok(snapshot);
        }
        std::thread::sleep(SETTLE_PAUSE);
    }
}

/// Whether a process is gone, or only waits for its parent to notice.
fn has_ended(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return true;
    };
    // Its name comes before, in parentheses, and may hold any of them.
    let state = stat.rsplit_once(") ").map(|(_name, rest)| rest);
    state.is_some_and(|state| state.starts_with(['Z', 'X']))
}

/// A tag that no other run has.
pub(super) fn new_tag() -> String {
    let begun = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let nanos = begun.map_or(0, |since| since.as_nanos());
    format!("{}-{nanos}", std::process::id())
}

/// The variable's value with a tag more.
pub(super) fn tagged(before: Option<OsString>, tag: &str) -> OsString {
    match before.filter(|before| !before.is_empty()) {
        Some(mut tags) => {
            tags.push(":");
            tags.push(tag);
            tags
        }
        None => OsString::from(tag),
    }
}

fn has_tag(environment: &[u8], tag: &str) -> bool {
    let mut variables = environment.split(|byte| *byte == 0);
    variables.any(|variable| {
        variable
            .strip_prefix(TAG_VARIABLE.as_bytes())
            .and_then(|rest| rest.strip_prefix(b"="))
            .is_some_and(|tags| {
                let mut tags = tags.split(|byte| *byte == TAG_SEPARATOR);
                tags.any(|each| each == OsString::from(tag).as_bytes())
            })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_found_among_those_of_other_runs() {
        let tags = tagged(Some(tagged(None, "1-2")), "3-4");
        assert_eq!(tags, "1-2:3-4");
        let environment = b"PATH=/bin\0TTMEM_RUN=1-2:3-4\0TTMEM_RUNS=5-6\0";
        assert!(has_tag(environment, "1-2") && has_tag(environment, "3-4"));
        for other in ["1", "5-6", "1-2:3-4", ""] {
            assert!(!has_tag(environment, other), "{other}");
        }
        assert!(!has_tag(b"", "1-2"));
    }

    #[test]
    fn who_is_gone_is_known() {
        assert!(!has_ended(std::process::id()));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        // Not waited for: it stays, as one that has ended.
        while !has_ended(pid) {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(has_ended(pid));
    }
}
