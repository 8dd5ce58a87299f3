//! Dumps that old clients ask for: each is up to megabytes of log, so they are rationed.
//!
//! By process, and by how many there may be in all: many processes must not do together what one
//! may not.

use super::rate::{Allowance, Rate};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// A program asks for one or two at its end, and a few on the way.
const OF_A_PROCESS: Rate = Rate {
    burst: 8,
    interval: Duration::from_secs(10),
};

const OF_ALL: Rate = Rate {
    burst: 64,
    interval: Duration::from_secs(1),
};

/// Processes whose requests are remembered.
const MAX_PROCESSES: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DumpRequest {
    Granted,
    /// Left out; whether that is to be logged: once, until it may ask as before.
    LeftOut {
        is_first: bool,
    },
}

#[derive(Debug, Default)]
pub(super) struct DumpRequests {
    all: Asked,
    by_pid: HashMap<Option<u32>, Asked>,
}

#[derive(Debug, Default)]
struct Asked {
    left: Allowance,
    is_logged: bool,
}

impl Asked {
    fn ask(&mut self, rate: Rate, now: Instant) -> DumpRequest {
        if self.left.is_whole(now) {
            self.is_logged = false;
        }
        if self.left.take(rate, now) {
            return DumpRequest::Granted;
        }
        let is_first = !std::mem::replace(&mut self.is_logged, true);
        DumpRequest::LeftOut { is_first }
    }
}

impl DumpRequests {
    pub(super) fn ask(&mut self, pid: Option<u32>, now: Instant) -> DumpRequest {
        if self.by_pid.len() >= MAX_PROCESSES && !self.by_pid.contains_key(&pid) {
            self.by_pid.retain(|_pid, asked| !asked.left.is_whole(now));
            if self.by_pid.len() >= MAX_PROCESSES {
                return self.all.ask(OF_ALL, now);
            }
        }
        match self.by_pid.entry(pid).or_default().ask(OF_A_PROCESS, now) {
            DumpRequest::Granted => self.all.ask(OF_ALL, now),
            left_out => left_out,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn granted(
        requests: &mut DumpRequests,
        pid: u32,
        count: usize,
        now: Instant,
    ) -> (usize, usize) {
        let asked: Vec<_> = (0..count).map(|_| requests.ask(Some(pid), now)).collect();
        let count = |wanted| asked.iter().filter(|each| **each == wanted).count();
        let logged = DumpRequest::LeftOut { is_first: true };
        (count(DumpRequest::Granted), count(logged))
    }

    #[test]
    fn a_flood_of_one_is_rationed_and_logged_once_and_others_have_theirs() {
        let mut requests = DumpRequests::default();
        let start = Instant::now();
        assert_eq!(granted(&mut requests, 1, 1000, start), (8, 1));
        assert_eq!(granted(&mut requests, 2, 3, start), (3, 0));
        let later = start + Duration::from_secs(20);
        assert_eq!(granted(&mut requests, 1, 1000, later), (2, 0));
        let much_later = start + Duration::from_secs(1000);
        assert_eq!(granted(&mut requests, 1, 1000, much_later), (8, 1));
    }

    #[test]
    fn many_are_rationed_together_and_none_is_remembered_for_ever() {
        let mut requests = DumpRequests::default();
        let start = Instant::now();
        let ask = |requests: &mut DumpRequests, pid| requests.ask(Some(pid), start);
        let all: Vec<_> = (0..10_000).map(|pid| ask(&mut requests, pid)).collect();
        let count = |wanted| all.iter().filter(|each| **each == wanted).count();
        assert_eq!(count(DumpRequest::Granted), 64);
        assert_eq!(count(DumpRequest::LeftOut { is_first: true }), 1);
        assert!(requests.by_pid.len() <= MAX_PROCESSES);
    }
}
