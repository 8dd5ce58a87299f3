//! How callers ask the pump for something: a doorbell, and numbered flushes.
//!
//! The words of [`Doorbell`] and [`Flush`] are futexes: who waits on one passes
//! the value that it saw, so a change in between is not slept through.

use crate::sync::{AtomicBool, AtomicU32, Ordering};

/// Counts reasons for the pump to wake up early; it sleeps on this word.
#[derive(Debug, Default)]
pub struct Doorbell(AtomicU32);

impl Doorbell {
    /// Counts a reason; the caller wakes who sleeps on [`Self::word`].
    pub fn ring(&self) {
        // SYNC(doorbell): what the pump is to look at was stored before.
        self.0.fetch_add(1, Ordering::Release);
    }

    /// The count, to be read before anything that somebody may ring for.
    pub fn read(&self) -> u32 {
        // SYNC(doorbell): who sees the count sees what was stored before it.
        self.0.load(Ordering::Acquire)
    }

    /// The word to sleep on.
    #[cfg(not(loom))]
    pub fn word(&self) -> &AtomicU32 {
        &self.0
    }

    /// What the kernel finds when it puts the pump to sleep.
    #[cfg(all(loom, test))]
    pub(crate) fn count(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

/// In [`Flush::progress`]: the pump has ended.
const ENDED: u32 = 1;

/// Requests to have everything recorded so far confirmed by a server.
#[derive(Debug, Default)]
pub struct Flush {
    /// How often it was asked for.
    requested: AtomicU32,
    /// Whether the pump is to end after the last one.
    closing: AtomicBool,
    /// Twice the number of the last one that is done, and whether the pump has ended: one word,
    /// so that nobody sees the end before what was done.
    progress: AtomicU32,
}

/// How far the pump had come at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress(u32);

impl Progress {
    /// Whether the flush of this number is done.
    #[must_use]
    pub fn has_done(self, number: u32) -> bool {
        let ahead = (self.0 & !ENDED).wrapping_sub(number << 1);
        ahead.cast_signed() >= 0
    }

    /// Whether the pump has ended: nothing more will be done.
    #[must_use]
    pub fn has_ended(self) -> bool {
        self.0 & ENDED != 0
    }

    /// The value of [`Flush::progress_word`] at that moment.
    #[must_use]
    pub fn word(self) -> u32 {
        self.0
    }
}

impl Flush {
    /// Asks for a flush; its number.
    pub fn request(&self) -> u32 {
        // SYNC(flush): every event that this thread recorded is in its ring.
        let before = self.requested.fetch_add(1, Ordering::Release);
        before.wrapping_add(1)
    }

    /// Asks for a flush after which the pump ends, unless another is asked for; its number.
    pub fn request_close(&self) -> u32 {
        self.closing.store(true, Ordering::Relaxed);
        self.request()
    }

    /// The number of the last flush that was asked for.
    pub fn requested(&self) -> u32 {
        // SYNC(flush): who sees the number sees every event recorded before it was asked for, and
        // that the pump is to end.
        self.requested.load(Ordering::Acquire)
    }

    /// Whether the pump is to end after the flush of this number.
    pub fn is_last(&self, number: u32) -> bool {
        self.requested() == number && self.closing.load(Ordering::Relaxed)
    }

    /// The flush of this number is done; the caller wakes who sleeps on [`Self::progress_word`].
    pub fn complete(&self, number: u32, has_ended: bool) {
        let progress = (number << 1) | (u32::from(has_ended) * ENDED);
        // SYNC(flushed): the figures of the client were stored before.
        self.progress.store(progress, Ordering::Release);
    }

    /// The pump ends without having done what was asked for since.
    pub fn abandon(&self) {
        self.progress.fetch_or(ENDED, Ordering::Relaxed);
    }

    /// How far the pump has come.
    pub fn progress(&self) -> Progress {
        // SYNC(flushed): who sees that a flush is done reads the figures as of its end.
        Progress(self.progress.load(Ordering::Acquire))
    }

    /// The word that changes with [`Self::progress`], to sleep on.
    #[cfg(not(loom))]
    pub fn progress_word(&self) -> &AtomicU32 {
        &self.progress
    }
}
