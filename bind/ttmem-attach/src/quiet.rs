//! Moments at which the allocator and our events agree.
//!
//! Between the allocator's change and the event that tells of it, and the other way
//! round when memory is given back, the two differ. Statistics are compared with the
//! events before them, so they may be taken only when no thread is in between, and no
//! thread may begin before they are recorded. Threads that change something announce
//! it; the one that takes statistics closes a gate, looks whether it is alone, and the
//! others wait at the gate for the microsecond that takes.
//!
//! Changes happen all the time and statistics hardly ever, so announcing must cost next
//! to nothing. Every thread has a seat of its own, where it writes without a locked
//! instruction and without a fence: it is the one who looks that asks the system to have
//! every thread pass a fence. Where the system cannot do that, threads pass one themselves.

#![expect(unsafe_code, reason = "makes a system call")]

use crate::thread;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering, compiler_fence, fence};
use std::time::{Duration, Instant};

/// The moment for which the gate is closed; 0 = it is open.
static CLOSED: AtomicU64 = AtomicU64::new(0);

/// Moments so far: each has a number of its own.
static MOMENTS: AtomicU64 = AtomicU64::new(0);

/// Nobody waits longer at the gate, whatever has become of the thread that closed it.
const PATIENCE: Duration = Duration::from_millis(100);

/// A thread's seat; on a cache line of its own, so that threads do not disturb each other.
#[repr(align(64))]
#[derive(Debug)]
struct Seat {
    taken: AtomicBool,
    /// Whether the thread is between a change and its event.
    changing: AtomicBool,
}

/// The seats, for more threads than programs use devices from.
static SEATS: [Seat; 64] = [const {
    Seat {
        taken: AtomicBool::new(false),
        changing: AtomicBool::new(false),
    }
}; 64];

/// The number of a thread that found no seat free: it stands, and is counted.
const STANDING: usize = usize::MAX >> 1;
/// The same while it is between a change and its event.
const STANDING_CHANGING: usize = STANDING + 1;

static BEGUN_STANDING: AtomicU64 = AtomicU64::new(0);
static ENDED_STANDING: AtomicU64 = AtomicU64::new(0);

/// Whether the system lets a thread have all others pass a fence: not known, yes, no.
static FENCES_FOR_ALL: AtomicU8 = AtomicU8::new(UNKNOWN);
const UNKNOWN: u8 = 0;
const YES: u8 = 1;
const NO: u8 = 2;

/// Gives the seat back when the thread ends.
#[derive(Debug)]
struct Leaving;

thread_local! {
    static LEAVING: Leaving = const { Leaving };
}

impl Drop for Leaving {
    fn drop(&mut self) {
        thread::with(|block| {
            if let Some(seat) = seat_of(block.seat.replace(STANDING)) {
                seat.changing.store(false, Ordering::Release);
                seat.taken.store(false, Ordering::Release);
            }
        });
    }
}

/// The seat of a number.
#[inline]
fn seat_of(number: usize) -> Option<&'static Seat> {
    SEATS.get(number.wrapping_sub(1))
}

/// Takes a seat for this thread; its number, or that of one that stands.
#[cold]
fn sit_down() -> usize {
    // A thread that is ending could not give it back.
    let can_give_back = LEAVING.try_with(|_leaving| ()).is_ok();
    let free = |seat: &Seat| !seat.taken.swap(true, Ordering::Acquire);
    let found = can_give_back.then(|| SEATS.iter().position(free)).flatten();
    found.map_or(STANDING, |index| index + 1)
}

/// Begins anew, in a child in which only this thread exists.
pub(crate) fn forget() {
    CLOSED.store(0, Ordering::SeqCst);
    let own = thread::with(|block| block.seat.get());
    for (index, seat) in SEATS.iter().enumerate() {
        if index + 1 != own {
            seat.changing.store(false, Ordering::Relaxed);
            seat.taken.store(false, Ordering::Relaxed);
        }
    }
    ENDED_STANDING.store(0, Ordering::SeqCst);
    BEGUN_STANDING.store(u64::from(own == STANDING_CHANGING), Ordering::SeqCst);
}

/// Announces a change by this thread.
///
/// One that is still announced was given up by an exception: it counts on as this one.
#[inline]
pub(crate) fn begin() {
    let number = thread::with(|block| block.seat.get());
    let Some(seat) = seat_of(number) else {
        return begin_without_seat(number);
    };
    seat.changing.store(true, Ordering::Relaxed);
    pass_fence();
    wait_at_gate();
}

/// What the other side's fence for all is paired with.
#[inline]
fn pass_fence() {
    // SYNC(gate): announced before the gate is looked at; the other side closes before it looks.
    if FENCES_FOR_ALL.load(Ordering::Relaxed) == YES {
        compiler_fence(Ordering::SeqCst);
    } else {
        fence(Ordering::SeqCst);
    }
}

#[inline]
fn wait_at_gate() {
    let moment = CLOSED.load(Ordering::Relaxed);
    if moment != 0 {
        wait(moment);
    }
}

#[cold]
fn begin_without_seat(number: usize) {
    if number == 0 {
        let number = sit_down();
        thread::with(|block| block.seat.set(number));
        return begin();
    }
    if number == STANDING {
        thread::with(|block| block.seat.set(STANDING_CHANGING));
        BEGUN_STANDING.fetch_add(1, Ordering::SeqCst);
        pass_fence();
        wait_at_gate();
    }
}

/// The allocator and the events agree again.
#[inline]
pub(crate) fn end() {
    let number = thread::with(|block| block.seat.get());
    match seat_of(number) {
        Some(seat) => seat.changing.store(false, Ordering::Release),
        None => end_without_seat(number),
    }
}

#[cold]
fn end_without_seat(number: usize) {
    if number == STANDING_CHANGING {
        thread::with(|block| block.seat.set(STANDING));
        ENDED_STANDING.fetch_add(1, Ordering::SeqCst);
    }
}

#[cold]
fn wait(mut moment: u64) {
    let begin = Instant::now();
    while moment != 0 {
        if begin.elapsed() > PATIENCE {
            open_after(moment);
            return;
        }
        std::thread::yield_now();
        moment = CLOSED.load(Ordering::SeqCst);
    }
}

/// Opens the gate, if it is still closed for this moment.
fn open_after(moment: u64) {
    let relaxed = Ordering::Relaxed;
    let _another = CLOSED.compare_exchange(moment, 0, Ordering::SeqCst, relaxed);
}

/// Has every thread of the process pass a fence; false when that cannot be known.
fn fence_for_all() -> bool {
    fence(Ordering::SeqCst);
    match FENCES_FOR_ALL.load(Ordering::Relaxed) {
        YES => {
            if membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED) {
                return true;
            }
            // Others may have relied on it until now: from the next time on they do not.
            FENCES_FOR_ALL.store(NO, Ordering::SeqCst);
            false
        }
        UNKNOWN => {
            let can = membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
            FENCES_FOR_ALL.store(if can { YES } else { NO }, Ordering::SeqCst);
            // Nobody relied on it before.
            true
        }
        _no => true,
    }
}

fn membarrier(command: libc::c_int) -> bool {
    let none: libc::c_int = 0;
    // SAFETY: neither command touches memory of the process.
    unsafe { libc::syscall(libc::SYS_membarrier, command, none, none) == 0 }
}

/// A moment in which no other thread changes anything, by its number; ends when dropped.
#[derive(Debug)]
pub(crate) struct Moment(u64);

impl Moment {
    /// A quiet moment, if this is one. This thread itself must not be changing anything.
    pub(crate) fn find() -> Option<Self> {
        let number = MOMENTS.fetch_add(1, Ordering::Relaxed) + 1;
        let closed = CLOSED.compare_exchange(0, number, Ordering::SeqCst, Ordering::Relaxed);
        let moment = Self(closed.ok().map(|_open| number)?);
        // SYNC(gate): closed before it is looked who has announced what.
        let ordered = fence_for_all();
        let sitting = |seat: &Seat| !seat.changing.load(Ordering::Acquire);
        // ENDED first: it never runs ahead of BEGUN.
        let ended = ENDED_STANDING.load(Ordering::SeqCst);
        let standing = BEGUN_STANDING.load(Ordering::SeqCst) == ended;
        (ordered && standing && SEATS.iter().all(sitting)).then_some(moment)
    }
}

impl Moment {
    /// Whether nobody has lost patience so far, and gone on.
    pub(crate) fn lasts(&self) -> bool {
        CLOSED.load(Ordering::SeqCst) == self.0
    }
}

impl Drop for Moment {
    fn drop(&mut self) {
        open_after(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

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
        threads_without_a_seat_are_counted();
        seats_are_given_back();
    }

    fn threads_without_a_seat_are_counted() {
        let stand = || thread::with(|block| block.seat.set(STANDING));
        let (announced, asked) = (Barrier::new(2), Barrier::new(2));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                stand();
                begin();
                begin();
                announced.wait();
                asked.wait();
                end();
                end();
            });
            announced.wait();
            let found = Moment::find().is_some();
            asked.wait();
            assert!(!found, "a thread without a seat changes something");
        });
        drop(Moment::find().expect("it has ended"));
    }

    fn seats_are_given_back() {
        let taken = || {
            let seats = SEATS.iter();
            seats
                .filter(|seat| seat.taken.load(Ordering::Relaxed))
                .count()
        };
        let before = taken();
        let threads = (0..2 * SEATS.len()).map(|_number| std::thread::spawn(begin));
        // Each ends in the middle of a change, which then counts as ended.
        threads.for_each(|thread| thread.join().expect("it does not panic"));
        assert_eq!(taken(), before);
        drop(Moment::find().expect("nobody is left"));
    }
}
