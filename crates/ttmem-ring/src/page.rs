//! The one page that every tracker call looks at, and that a fork wipes.
//!
//! A child of a fork, however it was made, finds the page zeroed: it neither
//! writes into its parent's rings nor uses a lock that a vanished thread held.
//! What a child may inherit (the configuration, counters) lies elsewhere.

use crate::published::Published;
use crate::sync::{AtomicU32, Ordering};

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

/// A word that says who does the work, and the client that does it.
///
/// It starts as zeroes and is alone on its page, so as a static it lies in memory that belongs to
/// no file.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct Page<C: 'static> {
    word: AtomicU32,
    client: Published<C>,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Page<()>>() == PAGE_BYTES);

impl<C: Sync> Page<C> {
    #[cfg(not(loom))]
    #[must_use]
    pub const fn undecided() -> Self {
        Self {
            word: AtomicU32::new(UNDECIDED),
            client: Published::unset(),
        }
    }

    #[cfg(loom)]
    pub fn undecided() -> Self {
        Self {
            word: AtomicU32::new(UNDECIDED),
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
        // SYNC(decide): the client was published before.
        self.word.store(word, Ordering::Release);
    }

    /// Makes this thread the one that starts the client; false when there was or is another.
    pub fn begin_start(&self) -> bool {
        self.word
            .compare_exchange(UNDECIDED, STARTING, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }

    /// Makes a client known; it stays for as long as the process lives.
    pub fn set_client(&self, client: &'static C) {
        self.client.set(client);
    }

    /// The client that runs in this process.
    pub fn client(&self) -> Option<&'static C> {
        self.client.get()
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
