//! Giving memory back to the system after a large client has left.
//!
//! The C library keeps what was freed for later, whole heaps of it: rows are small, and one that is
//! still in use keeps its heap. Asked to, it gives back every free page, wherever it lies. That
//! takes a lock that allocating needs too, for some milliseconds per 100 MB, so it is asked only
//! when there is much to give back, seldom, by a thread that nobody waits for, and at a moment when
//! nobody reports anything, if there is one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use ttmem_ledger::View;

/// Rows that must have gone: some 16 MB at least.
const MANY_ROWS: u64 = 1 << 16;

/// How long it is not asked again.
const REST: Duration = Duration::from_secs(10);

/// How long a quiet moment is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// Rows of accounts that were dropped since the last look: one may come and go between two views.
static DROPPED_ROWS: AtomicU64 = AtomicU64::new(0);

/// An account with so many rows was dropped.
pub(crate) fn note_dropped(rows: u64) {
    DROPPED_ROWS.fetch_add(rows, Ordering::Relaxed);
}

/// Follows how much there is in the ledger, from view to view.
#[derive(Debug, Default)]
pub(crate) struct FreedMemory {
    /// The most rows of a view since memory was last given back.
    most_rows: u64,
    /// Since when much has gone; in the next view what readers held of it is free as well.
    due_since: Option<Instant>,
    /// Events that were applied when the last view was taken.
    events: u64,
    rests_until: Option<Instant>,
}

impl FreedMemory {
    /// Whether memory is to be given back now, where there are so many rows after so many events.
    fn is_to_be_returned(&mut self, rows: u64, events: u64, now: Instant) -> bool {
        let is_quiet = std::mem::replace(&mut self.events, events) == events;
        self.most_rows = self.most_rows.max(rows);
        if self.most_rows - rows < MANY_ROWS {
            self.due_since = None;
            return false;
        }
        let Some(due_since) = self.due_since else {
            self.due_since = Some(now);
            return false;
        };
        let is_late = now.duration_since(due_since) >= PATIENCE;
        let is_resting = self.rests_until.is_some_and(|until| now < until);
        if is_resting || !(is_quiet || is_late) {
            return false;
        }
        *self = Self {
            most_rows: rows,
            events,
            rests_until: Some(now + REST),
            due_since: None,
        };
        true
    }

    /// Looks at a view and lets it go; gives memory back if that is worth it.
    pub(crate) fn look(&mut self, view: impl std::ops::Deref<Target = View>) {
        let processes = view.processes.iter();
        let rows = processes.map(|process| {
            let rows = &process.rows;
            rows.buffers.len() + rows.programs.len() + rows.legacy_cbs.len()
        });
        let rows = rows.sum::<usize>() as u64;
        let events = view.events;
        drop(view);
        let dropped = DROPPED_ROWS.swap(0, Ordering::Relaxed);
        self.most_rows = self.most_rows.max(rows.saturating_add(dropped));
        if self.is_to_be_returned(rows, events, Instant::now()) {
            return_to_system();
        }
    }
}

#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "asks the C library")]
fn return_to_system() {
    // SAFETY: it may be called at any time, by any thread.
    unsafe { nix::libc::malloc_trim(0) };
}

/// Other C libraries give pages back by themselves.
#[cfg(not(target_env = "gnu"))]
fn return_to_system() {}

/// Makes all threads share one heap where addresses are limited (`ulimit -v`): each heap takes 64 MiB of them.
pub(crate) fn share_one_heap_under_limits() {
    let addresses = rustix::process::getrlimit(rustix::process::Resource::As);
    if addresses.current.is_some() {
        share_one_heap();
    }
}

/// Makes all threads share one heap, so that a thread uses the memory another thread has freed.
///
/// The C library otherwise gives each thread a heap, and each keeps its freed memory: the budget of a
/// recording would be exceeded by as many heaps as threads have made documents of it.
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "a setting of the C library")]
pub(crate) fn share_one_heap() {
    // SAFETY: it may be called at any time, by any thread.
    unsafe { nix::libc::mallopt(nix::libc::M_ARENA_MAX, 1) };
}

#[cfg(not(target_env = "gnu"))]
pub(crate) fn share_one_heap() {}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is decided where so many rows are found second by second, with or without new events.
    fn decisions(rows: &[u64], busy: bool) -> Vec<bool> {
        let mut freed = FreedMemory::default();
        let start = Instant::now();
        let seconds = (0..).zip(rows);
        let decided = seconds.map(|(second, rows)| {
            let events = if busy { second } else { 7 };
            freed.is_to_be_returned(*rows, events, start + Duration::from_secs(second))
        });
        decided.collect()
    }

    fn returned_at(rows: &[u64], busy: bool) -> Vec<usize> {
        let decided = decisions(rows, busy).into_iter().enumerate();
        let returned = decided.filter(|(_second, returned)| *returned);
        returned.map(|(second, _returned)| second).collect()
    }

    const MANY: u64 = 10 * MANY_ROWS;

    #[test]
    fn memory_is_returned_once_after_much_has_gone() {
        let mut rows = vec![0, MANY, MANY];
        rows.resize(60, 0);
        // In the view after the first in which it has gone.
        assert_eq!(returned_at(&rows, false), [4]);
        // The next time too soon: after a rest.
        rows[6] = MANY;
        assert_eq!(returned_at(&rows, false), [4, 14]);
    }

    #[test]
    fn a_quiet_moment_is_waited_for_but_not_for_ever() {
        let mut rows = vec![MANY; 3];
        rows.resize(60, 0);
        assert_eq!(returned_at(&rows, true), [3 + 30]);
    }

    #[test]
    fn little_is_not_worth_it_and_what_comes_and_goes_is_needed_again() {
        let mut rows = vec![MANY_ROWS - 1];
        rows.resize(60, 0);
        assert!(returned_at(&rows, false).is_empty());
        let pulse = [MANY, 0, MANY, 0, MANY, 0, MANY];
        assert!(returned_at(&pulse, false).is_empty());
    }
}
