//! Moments at which the allocator and our events agree.
//!
//! Between the allocator's change and the event that tells of it, and the other way
//! round when memory is given back, the two differ. Statistics are compared with the
//! events before them, so they may be taken only when no thread is in between, and no
//! thread may begin before they are recorded. Threads that change something announce
//! it; the one that takes statistics closes a gate, looks whether it is alone, and the
//! others wait at the gate for the microsecond that takes.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

static CLOSED: AtomicBool = AtomicBool::new(false);
static BEGUN: AtomicU64 = AtomicU64::new(0);
static ENDED: AtomicU64 = AtomicU64::new(0);

/// A gate that stays closed for longer was closed by a thread that a fork left behind.
const PATIENCE: Duration = Duration::from_millis(20);

thread_local! {
    /// Whether this thread is between a change and its event.
    static CHANGING: Cell<bool> = const { Cell::new(false) };
}

/// Begins anew, in a child in which only this thread exists.
pub(crate) fn forget() {
    CLOSED.store(false, Ordering::SeqCst);
    let changing = CHANGING.try_with(Cell::get).unwrap_or(false);
    ENDED.store(0, Ordering::SeqCst);
    BEGUN.store(u64::from(changing), Ordering::SeqCst);
}

/// Announces a change by this thread.
///
/// One that is still announced was given up by an exception: it counts on as this one.
#[inline]
pub(crate) fn begin() {
    if CHANGING.try_with(|changing| changing.replace(true)) != Ok(false) {
        return;
    }
    // SYNC(gate): counted before the gate is looked at; the other side closes before it counts.
    BEGUN.fetch_add(1, Ordering::SeqCst);
    if CLOSED.load(Ordering::SeqCst) {
        wait();
    }
}

/// The allocator and the events agree again.
#[inline]
pub(crate) fn end() {
    if CHANGING.try_with(|changing| changing.replace(false)) == Ok(true) {
        ENDED.fetch_add(1, Ordering::SeqCst);
    }
}

#[cold]
fn wait() {
    let begin = Instant::now();
    while CLOSED.load(Ordering::SeqCst) {
        if begin.elapsed() > PATIENCE {
            CLOSED.store(false, Ordering::SeqCst);
            return;
        }
        std::thread::yield_now();
    }
}

/// A moment in which no other thread changes anything; ends when dropped.
#[derive(Debug)]
pub(crate) struct Moment(());

impl Moment {
    /// A quiet moment, if this is one. This thread itself must not be changing anything.
    pub(crate) fn find() -> Option<Self> {
        if CLOSED.swap(true, Ordering::SeqCst) {
            return None;
        }
        let moment = Self(());
        // SYNC(gate): closed before it is counted. ENDED first: it never runs ahead of BEGUN.
        let ended = ENDED.load(Ordering::SeqCst);
        (BEGUN.load(Ordering::SeqCst) == ended).then_some(moment)
    }
}

impl Drop for Moment {
    fn drop(&mut self) {
        CLOSED.store(false, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_quiet_moment_only_between_changes() {
        // One test for all: the gate is the process's.
        drop(Moment::find().expect("nothing happens"));
        begin();
        begin();
        let other = std::thread::spawn(|| Moment::find().is_some());
        assert!(!other.join().expect("it does not panic"));
        end();
        end();
        let moment = Moment::find().expect("both ends were announced");
        assert!(Moment::find().is_none(), "there is one at a time");
        let other = std::thread::spawn(|| {
            begin();
            end();
        });
        std::thread::sleep(Duration::from_millis(2));
        let waiting = !other.is_finished();
        drop(moment);
        other.join().expect("it does not panic");
        assert!(waiting, "a change waits for the end of the moment");
        drop(Moment::find().expect("it ended"));
    }
}
