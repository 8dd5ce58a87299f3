//! How many connections a process and a user may bring in a time, and have waiting at once.
//!
//! Pure: [`door`](super::door) asks it before anything else is done for a connection, so a refusal
//! costs an accept, the peer's credentials and a close. What a connection leads to is charged when it
//! is known: finding its process costs far more than a document for a reader.

use super::rate::{Allowance, Rate};
use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};
use ttmem_ledger::{Holder, Shares};

/// Finding the process behind a connection, and taking it in and out of the ledger: in connections
/// that lead to nothing.
pub(super) const PROCESS_UNITS: u32 = 7;

/// A program connects once, the fastest viewer a hundred times a second; the burst is for tests and
/// scripts. A storm comes from few processes, since each new one costs its user more than us.
const OF_PROCESS: Rate = Rate {
    burst: 2048,
    interval: Duration::from_millis(4),
};

/// Two thousand ranks that start at once, and two thousand new processes in every second after that.
const OF_USER: Rate = Rate {
    burst: 16_384,
    interval: Duration::from_nanos(62_500),
};

/// Processes and users that are remembered before those with nothing to make up for are forgotten.
const REMEMBERED: usize = 1024;

/// Connections of a process that may wait whatever others do.
const LEAST_WAITING: u64 = 8;

#[derive(Debug)]
pub(super) struct Entrance {
    processes: Allowances<Holder>,
    users: Allowances<u32>,
    /// Connections that were let in and not taken over yet.
    waiting: Shares,
}

impl Entrance {
    /// An entrance behind which so many connections may wait.
    pub(super) fn new(waiting: usize) -> Self {
        Self {
            processes: Allowances::default(),
            users: Allowances::default(),
            waiting: Shares::new(waiting as u64, LEAST_WAITING),
        }
    }

    /// Lets a connection in: it is charged, and waits until it is taken over.
    ///
    /// # Errors
    /// Why it is refused, for the log.
    pub(super) fn admit(&mut self, holder: Holder, now: Instant) -> Result<(), &'static str> {
        let is_within_rate = self.users.of(holder.uid, now).has(OF_USER, now)
            && self.processes.of(holder, now).has(OF_PROCESS, now);
        if !is_within_rate {
            return Err("its process or user connects too often");
        }
        if !self.waiting.take(holder, 1) {
            return Err("its process or user has its share of the connections that wait");
        }
        self.charge(holder, 1, now);
        Ok(())
    }

    /// A connection that was let in waits no longer.
    pub(super) fn take_over(&mut self, holder: Holder) {
        self.waiting.give_back(holder, 1);
    }

    /// Charges the peer of a connection with what it led to.
    pub(super) fn charge(&mut self, holder: Holder, units: u32, now: Instant) {
        self.users.of(holder.uid, now).charge(OF_USER, units, now);
        let process = self.processes.of(holder, now);
        process.charge(OF_PROCESS, units, now);
    }
}

#[derive(Debug)]
struct Allowances<K> {
    left: HashMap<K, Allowance>,
    /// How many there may be before they are looked through.
    most: usize,
}

impl<K> Default for Allowances<K> {
    fn default() -> Self {
        Self {
            left: HashMap::new(),
            most: REMEMBERED,
        }
    }
}

impl<K: Eq + Hash> Allowances<K> {
    fn of(&mut self, key: K, now: Instant) -> &mut Allowance {
        if self.left.len() >= self.most {
            self.left.retain(|_key, left| !left.is_whole(now));
            // Not again before as many more have come.
            self.most = REMEMBERED.max(2 * self.left.len());
        }
        self.left.entry(key).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(uid: u32, process: u64) -> Holder {
        Holder { uid, process }
    }

    /// Whether a connection is let in, which is taken over at once.
    fn let_in(entrance: &mut Entrance, of: Holder, now: Instant) -> bool {
        let is_admitted = entrance.admit(of, now).is_ok();
        if is_admitted {
            entrance.take_over(of);
        }
        is_admitted
    }

    fn admitted(entrance: &mut Entrance, of: Holder, tries: u32, now: Instant) -> u32 {
        let admitted = (0..tries).filter(|_try| let_in(entrance, of, now)).count();
        u32::try_from(admitted).unwrap()
    }

    #[test]
    fn waiting_connections_of_a_user_leave_room_for_others() {
        let (mut entrance, now) = (Entrance::new(1024), Instant::now());
        for process in 0..1000 {
            while entrance.admit(holder(1, process), now).is_ok() {}
        }
        let of_others = (0..200).filter(|_try| entrance.admit(holder(2, 1), now).is_ok());
        assert!(of_others.count() >= 8);
        assert!(entrance.waiting.used() <= 1024);
        // Taken over, they make room.
        let waited = entrance.waiting.of_user(1);
        entrance.take_over(holder(1, 0));
        assert_eq!(entrance.waiting.of_user(1), waited - 1);
    }

    #[test]
    fn process_in_a_loop_is_held_to_its_rate() {
        let (mut entrance, start) = (Entrance::new(4096), Instant::now());
        let storm = holder(7, 1);
        assert_eq!(
            admitted(&mut entrance, storm, 100_000, start),
            OF_PROCESS.burst
        );
        // Others find the door open, also those of the same user.
        for other in [holder(7, 2), holder(8, 1)] {
            assert_eq!(admitted(&mut entrance, other, 100, start), 100);
        }
        let later = start + OF_PROCESS.interval * 10;
        assert_eq!(admitted(&mut entrance, storm, 100_000, later), 10);
        let rested = start + OF_PROCESS.interval * OF_PROCESS.burst * 2;
        assert_eq!(
            admitted(&mut entrance, storm, 100_000, rested),
            OF_PROCESS.burst
        );
    }

    #[test]
    fn ranks_that_start_at_once_are_let_in() {
        let (mut entrance, start) = (Entrance::new(4096), Instant::now());
        for rank in 0..2000 {
            assert!(let_in(&mut entrance, holder(1, rank), start), "rank {rank}");
            entrance.charge(holder(1, rank), PROCESS_UNITS, start);
        }
    }

    #[test]
    fn many_processes_of_a_user_leave_others_alone() {
        let (mut entrance, start) = (Entrance::new(4096), Instant::now());
        let mut count = 0;
        for process in 0..100_000 {
            if let_in(&mut entrance, holder(1, process), start) {
                entrance.charge(holder(1, process), PROCESS_UNITS, start);
                count += 1;
            }
        }
        assert_eq!(count, OF_USER.burst / (1 + PROCESS_UNITS));
        assert_eq!(admitted(&mut entrance, holder(2, 1), 1000, start), 1000);
        let later = start + Duration::from_secs(1);
        let next = (200_000..300_000).filter(|process| {
            let is_let_in = let_in(&mut entrance, holder(1, *process), later);
            if is_let_in {
                entrance.charge(holder(1, *process), PROCESS_UNITS, later);
            }
            is_let_in
        });
        assert_eq!(next.count(), 2000, "a second later");
    }

    #[test]
    fn processes_are_forgotten_when_nothing_is_left_to_make_up() {
        let (mut entrance, start) = (Entrance::new(4096), Instant::now());
        for process in 0..100_000 {
            // Ten a second.
            let now = start + Duration::from_millis(100) * process;
            assert!(let_in(&mut entrance, holder(1, process.into()), now));
        }
        assert!(entrance.processes.left.len() <= REMEMBERED);
    }
}
