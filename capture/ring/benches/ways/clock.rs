//! The clocks that a stamp can come from.

use std::arch::x86_64::{__rdtscp, _mm_lfence, _rdtsc};

pub(crate) trait Clock: Copy + Send + Sync + 'static {
    fn now() -> u64;
}

/// No clock: what the ring itself costs.
impl Clock for () {
    #[inline]
    fn now() -> u64 {
        0
    }
}

/// The cycle counter, read whenever the processor likes.
#[derive(Clone, Copy)]
pub(crate) struct Cycles;

impl Clock for Cycles {
    #[inline]
    fn now() -> u64 {
        // SAFETY: every processor of this architecture has the instruction.
        #[expect(unsafe_code, reason = "reads the cycle counter")]
        unsafe {
            _rdtsc()
        }
    }
}

/// The cycle counter, read after all earlier loads.
#[derive(Clone, Copy)]
pub(crate) struct CyclesAfterLoads;

impl Clock for CyclesAfterLoads {
    #[inline]
    fn now() -> u64 {
        let mut processor = 0;
        // SAFETY: every processor of the last fifteen years has the instruction.
        #[expect(unsafe_code, reason = "reads the cycle counter")]
        unsafe {
            __rdtscp(&raw mut processor)
        }
    }
}

/// The same by a fence.
#[derive(Clone, Copy)]
pub(crate) struct CyclesAfterFence;

impl Clock for CyclesAfterFence {
    #[inline]
    fn now() -> u64 {
        // SAFETY: every processor of this architecture has the instruction.
        #[expect(unsafe_code, reason = "waits for earlier loads")]
        unsafe {
            _mm_lfence();
        }
        Cycles::now()
    }
}

/// The system's clock.
#[derive(Clone, Copy)]
pub(crate) struct Monotonic;

impl Clock for Monotonic {
    #[inline]
    fn now() -> u64 {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
    }
}
