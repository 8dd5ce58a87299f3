//! The one page that every tracker call looks at, and that a fork wipes.
//!
//! A child of a fork, however it was made, finds the page zeroed: it neither
//! writes into its parent's rings nor uses a lock that a vanished thread held.
//! What a child may inherit (the configuration, counters) lies elsewhere.

use crate::published::Published;
use crate::sync::{AtomicU32, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::compiler_fence;

/// Bytes of a page on the systems we run on; larger pages make advising fail, and tracking is off.
#[cfg(not(loom))]
const PAGE_BYTES: usize = 4096;

/// Nothing was decided yet: the first call starts the client.
pub const UNDECIDED: u32 = 0;
pub const OFF: u32 = 1;
/// A thread is starting the client.
pub const STARTING: u32 = 2;
/// Another copy of this library in the process does the work.
pub const FORWARDING: u32 = 3;
/// Words from here on are the number of the client that is running.
pub const FIRST_GENERATION: u32 = 16;

/// What a copy of this library in the process says to the others, in the first word of its page.
const CANDIDATE: u32 = 1;
const LEADER: u32 = 2;

/// What another copy of this library in the process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rival {
    None,
    /// It would do the work, as this copy would.
    Candidate,
    /// It does the work.
    Leader,
}

impl Rival {
    /// By the first word of its page.
    pub fn of(claim: &AtomicU32) -> Self {
        match claim.load(Ordering::Relaxed) {
            CANDIDATE => Self::Candidate,
            LEADER => Self::Leader,
            _none => Self::None,
        }
    }
}

/// A word that says who does the work, whether its pump sleeps, and the client that does it.
///
/// It starts as zeroes and is alone on its page, so as a static it lies in memory that belongs to
/// no file.
#[derive(Debug)]
// The model checker's stacks are too small for whole pages.
#[cfg_attr(not(loom), repr(C, align(4096)))]
pub struct Page<C: 'static> {
    /// For other copies of this library, of whatever version: it stays the first.
    claim: AtomicU32,
    word: AtomicU32,
    /// Whether whoever records is to wake the pump. Beside the word, which every call reads: asking
    /// for it costs no cache line.
    asleep: AtomicU32,
    client: Published<C>,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Page<()>>() == PAGE_BYTES);

impl<C: Sync> Page<C> {
    #[cfg(not(loom))]
    #[must_use]
    pub const fn undecided() -> Self {
        Self {
            claim: AtomicU32::new(0),
            word: AtomicU32::new(UNDECIDED),
            asleep: AtomicU32::new(0),
            client: Published::unset(),
        }
    }

    #[cfg(loom)]
    pub fn undecided() -> Self {
        Self {
            claim: AtomicU32::new(0),
            word: AtomicU32::new(UNDECIDED),
            asleep: AtomicU32::new(0),
            client: Published::unset(),
        }
    }

    /// Whether tracking is off, undecided, or which client runs.
    #[inline]
    pub fn word(&self) -> u32 {
        self.word.load(Ordering::Relaxed)
    }

    /// The same, for who goes on to use the client.
    pub fn settled_word(&self) -> u32 {
        // SYNC(decide): who sees the decision sees the client.
        self.word.load(Ordering::Acquire)
    }

    pub fn decide(&self, word: u32) {
        if word < FIRST_GENERATION {
            self.withdraw();
        }
        // SYNC(decide): the client was published before.
        self.word.store(word, Ordering::Release);
    }

    /// Makes this thread the one that starts the client; false when there was or is another.
    pub fn begin_start(&self) -> bool {
        self.word
            .compare_exchange(UNDECIDED, STARTING, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }

    /// Says to other copies that this one would do the work; their claims are looked at next.
    pub fn claim(&self) {
        self.claim_unfenced();
        // SYNC(copies): of two copies that claim at the same time, at least one sees the other.
        fence(Ordering::SeqCst);
    }

    pub(crate) fn claim_unfenced(&self) {
        self.claim.store(CANDIDATE, Ordering::Relaxed);
    }

    /// Leaves the work to others.
    pub fn withdraw(&self) {
        self.claim.store(0, Ordering::Relaxed);
    }

    /// Says that this copy does the work; it has claimed it since, and saw no other that does.
    pub fn lead(&self) {
        self.claim.store(LEADER, Ordering::Relaxed);
    }

    /// What another copy finds out about this one.
    #[cfg(all(loom, test))]
    pub(crate) fn as_rival(&self) -> Rival {
        Rival::of(&self.claim)
    }

    /// Where it is, with its claim at the beginning.
    pub fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Makes a client known; it stays for as long as the process lives.
    pub fn set_client(&self, client: &'static C) {
        self.client.set(client);
    }

    /// The client that runs in this process.
    pub fn client(&self) -> Option<&'static C> {
        self.client.get()
    }

    /// Says that the pump is about to sleep until somebody wakes it.
    ///
    /// The caller has every thread of the process pass a fence, and then looks at the rings once
    /// more before it sleeps.
    pub fn announce_sleep(&self) {
        self.asleep.store(1, Ordering::Relaxed);
    }

    /// Whether the pump still relies on being woken.
    pub fn is_pump_asleep(&self) -> bool {
        self.asleep.load(Ordering::Relaxed) != 0
    }

    /// Whether a thread that has just published an event is to call [`Self::take_sleeper`].
    #[inline(always)]
    pub fn must_wake_pump(&self) -> bool {
        // SYNC(sleep): either this sees that the pump sleeps, or the pump's last look sees the
        // event. The pump has this thread pass the fence (membarrier), so that the compiler's is
        // enough here.
        #[cfg(not(loom))]
        compiler_fence(Ordering::SeqCst);
        #[cfg(loom)]
        fence(Ordering::SeqCst);
        self.is_pump_asleep()
    }

    /// Whether the pump sleeps and this caller is the one who wakes it.
    pub fn take_sleeper(&self) -> bool {
        self.asleep.swap(0, Ordering::Relaxed) != 0
    }

    /// Asks the system to wipe the page in every child.
    #[cfg(not(loom))]
    pub fn wipe_on_fork(&'static self) -> Result<(), rustix::io::Errno> {
        let start = std::ptr::from_ref(self).cast_mut().cast();
        // SAFETY: exactly this page, which is all of the static; the advice changes nothing in
        // this process.
        #[expect(unsafe_code, reason = "changes how the page is inherited")]
        unsafe {
            rustix::mm::madvise(start, PAGE_BYTES, rustix::mm::Advice::LinuxWipeOnFork)
        }
    }
}
