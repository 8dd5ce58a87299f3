//! How much memory the client may take of its host.
//!
//! Two bounds: the budget that rings may have, and what the process's control
//! group has left. Everything large that the client takes is asked for here
//! first; what is refused the client does without.

use crate::cgroup;
use std::sync::atomic::{AtomicU64, Ordering};
use ttmem_ring::heap::footprint;

/// What is left to the program: tracking stops short of a limit by this much.
pub(crate) const MARGIN_BYTES: u64 = 16 << 20;

/// The same of the system: the account takes over what the history has no room for, and neither it nor
/// the program must find that there is none.
const SYSTEM_MARGIN_BYTES: usize = 256 << 10;

/// Bytes that one look at the control group is good for, if it has them.
const CREDIT_BYTES: u64 = 4 << 20;

/// Why there is no memory for the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoRoom {
    #[error("{0} bytes of rings are all that it may have (TTMEM_RING_MEMORY_MIB)")]
    Budget(u64),
    #[error("only {0} bytes are left to its control group")]
    ControlGroup(u64),
    #[error("the process's limits of memory (ulimit) leave no room for them")]
    Limits,
    #[error("the system has no memory for them")]
    System,
    #[error("a process has no more than {} rings", ttmem_ring::MAX_RINGS)]
    Rings,
    #[error("a thread that was adding some did not come back")]
    Stuck,
}

/// What rings take, and what may be taken without another look.
#[derive(Debug)]
pub(crate) struct Room {
    budget: u64,
    rings: AtomicU64,
    credit: AtomicU64,
    available: fn() -> Option<u64>,
}

impl Room {
    pub(crate) fn new(budget: u64) -> Self {
        Self::within(budget, cgroup::available_bytes)
    }

    /// The same where `available` says how much is left to the process.
    pub(crate) fn within(budget: u64, available: fn() -> Option<u64>) -> Self {
        Self {
            budget,
            rings: AtomicU64::new(0),
            credit: AtomicU64::new(0),
            available,
        }
    }

    /// Takes memory for rings.
    pub(crate) fn take(&self, bytes: usize) -> Result<(), NoRoom> {
        let more = bytes as u64;
        let within = |rings: u64| rings.checked_add(more).filter(|sum| *sum <= self.budget);
        let taken = self
            .rings
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, within);
        if taken.is_err() {
            return Err(NoRoom::Budget(self.budget));
        }
        let allowed = self.use_credit(more);
        if allowed.is_err() {
            self.give_back(bytes);
        }
        allowed
    }

    pub(crate) fn give_back(&self, bytes: usize) {
        self.rings.fetch_sub(bytes as u64, Ordering::Relaxed);
    }

    /// Uses what the last look allows, or looks again.
    fn use_credit(&self, bytes: u64) -> Result<(), NoRoom> {
        let less = |credit: u64| credit.checked_sub(bytes);
        let used = self
            .credit
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        if used.is_ok() {
            return Ok(());
        }
        let spare = spare_after(bytes, (self.available)())?;
        // A part of it: others take memory meanwhile.
        let credit = (spare / 4).min(CREDIT_BYTES);
        self.credit.store(credit, Ordering::Relaxed);
        Ok(())
    }
}

/// Whether the system has so much now, and some more for whoever else needs it in the meantime.
///
/// Taking memory without asking would end the program, which may well do with what it has.
pub(crate) fn is_there(bytes: usize) -> bool {
    let is_allowed = bytes == 0 || allows(bytes);
    is_allowed && footprint::is_there(SYSTEM_MARGIN_BYTES.saturating_add(bytes))
}

/// Whether something other than a ring can be taken now, with the margin left.
pub(crate) fn allows(bytes: usize) -> bool {
    footprint::allows(bytes) && spare_after(bytes as u64, cgroup::available_bytes()).is_ok()
}

/// What is left above the margin after so many bytes were taken.
fn spare_after(bytes: u64, available: Option<u64>) -> Result<u64, NoRoom> {
    let Some(left) = available else {
        return Ok(u64::MAX);
    };
    let spare = left.checked_sub(MARGIN_BYTES.saturating_add(bytes));
    spare.ok_or(NoRoom::ControlGroup(left))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn room(available: fn() -> Option<u64>) -> Room {
        Room::within(12 * MIB as u64, available)
    }

    #[test]
    fn the_budget_is_what_rings_have_at_one_time() {
        let room = room(|| None);
        assert_eq!(room.take(6 * MIB), Ok(()));
        let refused = Err(NoRoom::Budget(12 * MIB as u64));
        assert_eq!(room.take(7 * MIB), refused);
        assert_eq!(room.take(6 * MIB), Ok(()));
        assert_eq!(room.take(1), refused);
        room.give_back(5 * MIB);
        assert_eq!(room.take(5 * MIB), Ok(()));
    }

    #[test]
    fn the_margin_of_a_control_group_is_left_alone() {
        let room = room(|| Some(MARGIN_BYTES + (5 << 20)));
        assert_eq!(room.take(5 * MIB), Ok(()));
        let refused = Err(NoRoom::ControlGroup(MARGIN_BYTES + (5 << 20)));
        assert_eq!(room.take(5 * MIB + 1), refused);
        // What was refused is not counted.
        assert_eq!(room.take(5 * MIB), Ok(()));
    }

    #[test]
    fn a_look_is_good_for_a_part_of_what_is_left() {
        let room = room(|| Some(MARGIN_BYTES + (4 << 20)));
        assert_eq!(room.take(1), Ok(()));
        let room = Room {
            available: || Some(0),
            ..room
        };
        assert_eq!(room.take(MIB - 1), Ok(()), "of the credit");
        assert_eq!(room.take(1), Err(NoRoom::ControlGroup(0)));
    }
}
