//! What nearly every hook looks at, on one cache line.
//!
//! The code between two hooks evicts whatever they use from the first-level cache, so a hook
//! costs as much as it touches lines. One byte says whether the tracker is configured and paused,
//! whether any family of hooks is off, so that most need not be looked at, and whether call stacks
//! are asked for.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

/// The tracker is configured: somebody has asked for it.
pub(crate) const CONFIGURED: u8 = 1;
/// Hooks pass their calls on as if tracking were off: for a while, for a measurement.
pub(crate) const PAUSED: u8 = 2;
/// Some family of hooks is off, which each says of itself.
pub(crate) const SOME_OFF: u8 = 4;
/// Call stacks are reported.
pub(crate) const STACKS: u8 = 8;

#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct Hot {
    state: AtomicU8,
    /// The newest buffer that was reported.
    pub(crate) newest_buffer: AtomicU64,
    /// Buffers up to this one were this process's parent's when it forked.
    pub(crate) inherited_buffers: AtomicU64,
}

pub(crate) static HOT: Hot = Hot {
    state: AtomicU8::new(0),
    newest_buffer: AtomicU64::new(0),
    inherited_buffers: AtomicU64::new(0),
};

impl Hot {
    /// The bits above.
    #[inline]
    pub(crate) fn state(&self) -> u8 {
        self.state.load(Relaxed)
    }

    /// Changes one bit; the others are anybody's.
    pub(crate) fn set(&self, bit: u8, is_set: bool) {
        if is_set {
            self.state.fetch_or(bit, Relaxed);
        } else {
            self.state.fetch_and(!bit, Relaxed);
        }
    }
}
