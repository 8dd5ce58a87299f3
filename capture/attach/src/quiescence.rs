//! Moments of quiescence, at which the allocator and our events agree.
//!
//! Between the allocator's change and the event that reports it, and the other way
//! round when memory is given back, the two differ. Statistics are compared with the
//! events before them, so they may be taken only when no thread is in between, and no
//! thread may begin before they are recorded. Threads that change something announce
//! it; the one that takes statistics closes a gate ([`Gate`]), looks whether it is alone, and
//! the others wait at the gate for the microsecond that takes.
//!
//! Changes happen all the time and statistics hardly ever, so announcing must cost next
//! to nothing, not even a fence: it is the one who looks that asks the system to have
//! every thread pass one (`membarrier`). Where the system cannot do that, threads pass one
//! themselves.

#![expect(unsafe_code, reason = "makes a system call")]

use crate::lock_free::gate::{Gate, Member, Slot};
use crate::thread;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU8, Ordering, compiler_fence, fence};
use std::time::Duration;
use ttmem_client::Instant;
use ttmem_ring::thread_exit::ThreadExit;

/// The gate, with slots for more threads than programs use devices from.
static GATE: Gate<SLOTS> = Gate::new([const { Slot::new() }; SLOTS]);
const SLOTS: usize = 64;

/// No thread waits longer at the gate, even if the thread that closed it never opens it.
const GATE_TIMEOUT: Duration = Duration::from_millis(100);

/// A thread's number in its block: 0 = not joined, 1..=SLOTS = its slot + 1, or one of these.
const COUNTED: usize = usize::MAX >> 1;
/// A thread without a slot while it is between a change and its event.
const COUNTED_CHANGING: usize = COUNTED + 1;

/// Whether the system has process-wide barriers: not known, yes, no.
static MEMBARRIER: AtomicU8 = AtomicU8::new(UNKNOWN);
const UNKNOWN: u8 = 0;
const YES: u8 = 1;
const NO: u8 = 2;

/// Gives the slot back when the thread ends.
static LEAVING: ThreadExit = ThreadExit::new(leave);

extern "C" fn leave(_value: *mut c_void) {
    thread::with(|block| {
        if let Some(slot) = slot_of(block.gate_member.replace(COUNTED)) {
            GATE.leave(slot);
        }
    });
}

#[inline]
fn slot_of(number: usize) -> Member {
    let slot = number.wrapping_sub(1);
    (slot < SLOTS).then_some(slot)
}

#[cold]
fn join() -> usize {
    // A thread whose end goes by unnoticed could not give a slot back.
    match LEAVING.arm().then(|| GATE.join()) {
        Some(Some(slot)) => slot + 1,
        _counted => COUNTED,
    }
}

/// Starts over in a forked child, where only this thread exists.
pub(crate) fn reset_after_fork() {
    let number = thread::with(|block| block.gate_member.get());
    GATE.reset(slot_of(number), number == COUNTED_CHANGING);
}

/// Announces a change by this thread.
///
/// One that is still announced was given up by an exception: it counts on as this one.
#[inline(always)]
pub(crate) fn begin() {
    let number = thread::with(|block| block.gate_member.get());
    match slot_of(number) {
        member @ Some(_) => begin_as(member),
        None => begin_without_slot(number),
    }
}

#[inline]
fn begin_as(member: Member) {
    let moment = GATE.begin(member, || {
        if MEMBARRIER.load(Ordering::Relaxed) == YES {
            // SYNC(gate): the other side has this thread pass a fence.
            compiler_fence(Ordering::SeqCst);
        } else {
            // SYNC(gate): pairs with the fence of who closes the gate.
            fence(Ordering::SeqCst);
        }
    });
    if moment != 0 {
        wait(moment);
    }
}

#[cold]
#[inline(never)]
fn begin_without_slot(number: usize) {
    if number == 0 {
        let number = join();
        thread::with(|block| block.gate_member.set(number));
        return begin();
    }
    if number == COUNTED {
        thread::with(|block| block.gate_member.set(COUNTED_CHANGING));
        begin_as(None);
    }
}

/// The allocator and the events agree again.
#[inline]
pub(crate) fn end() {
    let number = thread::with(|block| block.gate_member.get());
    match slot_of(number) {
        member @ Some(_) => GATE.end(member),
        None => end_without_slot(number),
    }
}

#[cold]
#[inline(never)]
fn end_without_slot(number: usize) {
    if number == COUNTED_CHANGING {
        thread::with(|block| block.gate_member.set(COUNTED));
        GATE.end(None);
    }
}

#[cold]
fn wait(mut moment: u64) {
    let begin = Instant::now();
    while moment != 0 {
        if begin.elapsed() > GATE_TIMEOUT {
            GATE.open(moment);
            return;
        }
        std::thread::yield_now();
        moment = GATE.closed_for();
    }
}

/// Issues a process-wide barrier; false when it is unknown whether every thread passed it.
fn fence_for_all() -> bool {
    match MEMBARRIER.load(Ordering::Relaxed) {
        YES => {
            let have_passed = membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED);
            if !have_passed {
                // Others may have relied on it until now: from the next time on they do not.
                MEMBARRIER.store(NO, Ordering::Relaxed);
            }
            have_passed
        }
        UNKNOWN => {
            let can = membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
            MEMBARRIER.store(if can { YES } else { NO }, Ordering::Relaxed);
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

/// A section in which no other thread changes anything, by its number; ends when dropped.
#[derive(Debug)]
pub(crate) struct QuiescentSection(u64);

impl QuiescentSection {
    /// Enters the section unless another thread is changing something. This thread must not be.
    pub(crate) fn try_enter() -> Option<Self> {
        let (number, is_moment) = GATE.close(fence_for_all)?;
        let moment = Self(number);
        is_moment.then_some(moment)
    }

    /// Whether no waiting thread has timed out so far.
    pub(crate) fn is_valid(&self) -> bool {
        GATE.closed_for() == self.0
    }
}

impl Drop for QuiescentSection {
    fn drop(&mut self) {
        GATE.open(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn there_is_a_moment_only_between_changes() {
        // One test for all: the gate is the process's.
        drop(QuiescentSection::try_enter().expect("nothing happens"));
        begin();
        begin();
        let other = std::thread::spawn(|| QuiescentSection::try_enter().is_some());
        assert!(!other.join().expect("it does not panic"));
        end();
        end();
        let moment = QuiescentSection::try_enter().expect("both ends were announced");
        assert!(
            QuiescentSection::try_enter().is_none(),
            "there is one at a time"
        );
        let other = std::thread::spawn(|| {
            begin();
            end();
        });
        std::thread::sleep(Duration::from_millis(2));
        let waiting = !other.is_finished();
        drop(moment);
        other.join().expect("it does not panic");
        assert!(waiting, "a change waits for the end of the moment");
        drop(QuiescentSection::try_enter().expect("it ended"));
        threads_without_a_slot_are_counted();
        slots_are_given_back();
    }

    fn threads_without_a_slot_are_counted() {
        let without_slot = || thread::with(|block| block.gate_member.set(COUNTED));
        let (announced, asked) = (Barrier::new(2), Barrier::new(2));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                without_slot();
                begin();
                begin();
                announced.wait();
                asked.wait();
                end();
                end();
            });
            announced.wait();
            let found = QuiescentSection::try_enter().is_some();
            asked.wait();
            assert!(!found, "a thread without a slot changes something");
        });
        drop(QuiescentSection::try_enter().expect("it has ended"));
    }

    fn slots_are_given_back() {
        let before = GATE.members();
        let threads = (0..2 * SLOTS).map(|_number| std::thread::spawn(begin));
        // Each ends in the middle of a change, which then counts as ended.
        threads.for_each(|thread| thread.join().expect("it does not panic"));
        assert_eq!(GATE.members(), before);
        drop(QuiescentSection::try_enter().expect("nobody is left"));
    }
}
