//! One process, and not whoever has its number after it.

use crate::exit::UsageError;
use anyhow::Result;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::os::fd::OwnedFd;
use std::time::Duration;
use ttmem_machine::{Processes, Reader, Roots, Unread};
use ttmem_report::{Process, ProcessState, Snapshot};

/// How far apart the same start may seem: the boot time has whole seconds.
const SLACK_NANOS: u64 = 2_000_000_000;

/// A process that is waited for.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) pid: u32,
    /// When it began; none if it was gone when we came.
    began: Option<u64>,
    /// None where there was no process to open, or the machine is not this one.
    pidfd: Option<OwnedFd>,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Running {
    Yes,
    Gone,
    /// Gone, and its number is that of a process that began at this instant.
    Reused(u64),
}

impl Watched {
    /// The process of a number; or the one that had it before, if the server knows that one and not this.
    pub(super) fn find(
        pid: u32,
        roots: &Roots,
        processes: &Processes,
        reader: &mut Reader,
        snapshot: Option<&Snapshot>,
    ) -> Result<Self> {
        let gone = Self {
            pid,
            began: None,
            pidfd: None,
        };
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let Some(number) = number else {
            return Ok(gone);
        };
        let pidfd = match roots.is_this_machine() {
            false => None,
            true => match pidfd_open(number, PidfdFlags::empty()) {
                Ok(pidfd) => Some(pidfd),
                Err(Errno::SRCH) => return Ok(gone),
                Err(Errno::INVAL | Errno::NOENT) => {
                    return Err(UsageError(format!("{pid} is a thread, and not a process")).into());
                }
                // A kernel without them: its number is asked for again and again.
                Err(_error) => None,
            },
        };
        let began = match processes.began(reader, number.as_raw_nonzero().get()) {
            Ok(began) => began,
            Err(Unread::Missing) if pidfd.is_none() => return Ok(gone),
            // Hidden from this user: it is there, and that is all.
            Err(_error) => 0,
        };
        let known = snapshot
            .map(|snapshot| snapshot.processes.as_slice())
            .unwrap_or_default();
        if belongs_to_another(pid, began, known) {
            return Ok(gone);
        }
        Ok(Self {
            pid,
            began: Some(began),
            pidfd,
        })
    }

    pub(super) fn state(&self, processes: &Processes, reader: &mut Reader) -> Running {
        if let Some(pidfd) = &self.pidfd
            && !has_ended(pidfd, Some(Duration::ZERO))
        {
            return Running::Yes;
        }
        let pid = i32::try_from(self.pid).unwrap_or_default();
        match (processes.began(reader, pid), self.began) {
            (Err(Unread::Missing), _) => Running::Gone,
            (Ok(now), _) if self.pidfd.is_some() => Running::Reused(now),
            (Ok(now), Some(began)) if now == began => Running::Yes,
            (Ok(now), _) => Running::Reused(now),
            // Unreadable: where the pidfd says that it ended, it did.
            (Err(_error), _) if self.pidfd.is_some() => Running::Gone,
            (Err(_error), _) => Running::Yes,
        }
    }

    /// Waits for its end, if it runs and that can be waited for.
    pub(super) fn wait(&self, left: Option<Duration>) -> bool {
        let Some(pidfd) = &self.pidfd else {
            return false;
        };
        if has_ended(pidfd, Some(Duration::ZERO)) {
            return false;
        }
        has_ended(pidfd, left);
        true
    }

    /// Whether an entry of the server is of this process.
    pub(super) fn is(&self, entry: &Process, state: Running) -> bool {
        if entry.pid != Some(self.pid) {
            return false;
        }
        match (state, self.began, entry.start_time) {
            (Running::Reused(now), Some(began), Some(entry)) => {
                entry.unix_nanos().abs_diff(began) <= entry.unix_nanos().abs_diff(now)
            }
            (Running::Reused(now), None, Some(entry)) => {
                entry.unix_nanos().abs_diff(now) > SLACK_NANOS
            }
            _ => true,
        }
    }
}

/// Whether the server knows processes of this number, and all of them ended before this one began.
fn belongs_to_another(pid: u32, began: u64, known: &[Process]) -> bool {
    let mut entries = known
        .iter()
        .filter(|entry| entry.pid == Some(pid))
        .peekable();
    let is_before = |entry: &Process| {
        let start = entry.start_time.map(|start| start.unix_nanos());
        let is_other = start.is_some_and(|start| start.abs_diff(began) > SLACK_NANOS);
        entry.state == ProcessState::Exited && began != 0 && is_other
    };
    entries.peek().is_some() && entries.all(is_before)
}

/// Whether a process ends within a time; without one, it is waited for.
fn has_ended(pidfd: &OwnedFd, within: Option<Duration>) -> bool {
    let within = within.and_then(|within| Timespec::try_from(within).ok());
    let mut polled = [PollFd::new(pidfd, PollFlags::IN)];
    // Interrupted: whoever asks asks again.
    poll(&mut polled, within.as_ref()).is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use ttmem_report::Timestamp;

    const SECOND: u64 = 1_000_000_000;

    fn entry(start: Option<u64>, state: &str) -> Process {
        let start = start.map(|start| Timestamp::from_unix_nanos(start * SECOND).to_string());
        let entry = json!({
            "pid": 77, "instance": null, "name": "python", "uid": 0, "start_time": start, "state": state,
            "source": "client", "incomplete": false, "resyncing": false, "lost_events": 0, "elided_events": 0,
            "claimed_pid": null, "anomalies": 0, "inherited_frees": 0, "leak_candidates": {"buffers": 0, "bytes": 0},
            "connections": 0, "devices": [], "released": null,
        });
        serde_json::from_value(entry).unwrap()
    }

    #[test]
    fn a_number_that_the_server_knows_of_another_process_is_reused() {
        let now = 1000 * SECOND;
        for (known, is_reused) in [
            (vec![], false),
            (vec![entry(Some(900), "exited")], true),
            (
                vec![entry(Some(900), "exited"), entry(Some(950), "exited")],
                true,
            ),
            // The one that runs, which did not say goodbye to its first connection.
            (vec![entry(Some(1000), "exited")], false),
            (
                vec![entry(Some(900), "exited"), entry(Some(1000), "live")],
                false,
            ),
            (vec![entry(Some(900), "detached")], false),
            (vec![entry(None, "exited")], false),
        ] {
            assert_eq!(belongs_to_another(77, now, &known), is_reused, "{known:?}");
        }
        assert!(!belongs_to_another(78, now, &[entry(Some(900), "exited")]));
        let hidden = 0;
        assert!(!belongs_to_another(
            77,
            hidden,
            &[entry(Some(900), "exited")]
        ));
    }

    #[test]
    fn what_the_next_process_of_a_number_holds_is_not_waited_for() {
        let watched = Watched {
            pid: 77,
            began: Some(900 * SECOND),
            pidfd: None,
        };
        let (own, next) = (entry(Some(901), "live"), entry(Some(1000), "live"));
        let state = Running::Reused(1000 * SECOND);
        assert!(watched.is(&own, state) && !watched.is(&next, state));
        assert!(watched.is(&entry(None, "live"), state), "not on a guess");
        assert!(watched.is(&own, Running::Gone) && watched.is(&own, Running::Yes));
        let came_late = Watched {
            began: None,
            ..watched
        };
        assert!(came_late.is(&own, state) && !came_late.is(&next, state));
    }
}
