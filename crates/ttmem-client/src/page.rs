//! The one page that every tracker call looks at, and that a fork wipes.
//!
//! A child of a fork, however it was made, finds the page zeroed: it neither
//! writes into its parent's rings nor uses a lock that a vanished thread held.
//! What a child may inherit (the configuration, counters) lies elsewhere.

use crate::client::Client;
use rustix::io::Errno;
use rustix::mm::Advice;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// Bytes of a page on the systems we run on; larger pages make advising fail, and tracking is off.
const PAGE_BYTES: usize = 4096;

/// Nothing was decided yet: the first call starts the client.
pub(crate) const UNDECIDED: u32 = 0;
pub(crate) const OFF: u32 = 1;
/// A thread is starting the client.
pub(crate) const STARTING: u32 = 2;
/// Another copy of this library in the process does the work.
pub(crate) const FORWARDING: u32 = 3;
/// Words from here on are the number of the client that is running.
pub(crate) const FIRST_GENERATION: u32 = 16;

#[derive(Debug)]
#[repr(C, align(4096))]
pub(crate) struct Page {
    word: AtomicU32,
    client: AtomicPtr<Client>,
    padding: [u8; PAGE_BYTES - 16],
}

const _: () = assert!(size_of::<Page>() == PAGE_BYTES);

/// It starts as zeroes and is alone on its page, so it lies in memory that belongs to no file.
pub(crate) static PAGE: Page = Page {
    word: AtomicU32::new(UNDECIDED),
    client: AtomicPtr::new(std::ptr::null_mut()),
    padding: [0; PAGE_BYTES - 16],
};

impl Page {
    /// Whether tracking is off, undecided, or which client runs.
    #[inline]
    pub(crate) fn word(&self) -> u32 {
        self.word.load(Ordering::Relaxed)
    }

    /// The same, for who goes on to use the client.
    pub(crate) fn settled_word(&self) -> u32 {
        // SYNC(decide): the client was made known before.
        self.word.load(Ordering::Acquire)
    }

    pub(crate) fn decide(&self, word: u32) {
        // SYNC(decide): what was decided is complete.
        self.word.store(word, Ordering::Release);
    }

    /// Takes it upon this thread to start the client; false when that was done or is being done.
    pub(crate) fn begin_start(&self) -> bool {
        self.word
            .compare_exchange(UNDECIDED, STARTING, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Asks the system to wipe the page in every child.
    pub(crate) fn wipe_on_fork(&self) -> Result<(), Errno> {
        let start = std::ptr::from_ref(self).cast_mut().cast();
        // SAFETY: exactly the page of this static; the advice changes nothing in this process.
        #[expect(unsafe_code, reason = "changes how the page is inherited")]
        unsafe {
            rustix::mm::madvise(start, PAGE_BYTES, Advice::LinuxWipeOnFork)
        }
    }

    /// Makes a client known; it stays for as long as the process lives.
    pub(crate) fn set_client(&self, client: &'static Client) {
        // SYNC(client): the client is complete.
        self.client
            .store(std::ptr::from_ref(client).cast_mut(), Ordering::Release);
    }

    /// The client that runs in this process.
    pub(crate) fn client(&self) -> Option<&'static Client> {
        // SYNC(client): the client is complete.
        let client = self.client.load(Ordering::Acquire);
        // SAFETY: null, or a reference that `set_client` was given, which stays for ever.
        #[expect(unsafe_code, reason = "clients stay")]
        unsafe {
            client.as_ref()
        }
    }
}
