//! Time stamps: the processor's cycle counter, or the system's monotonic clock.
//!
//! The cycle counter is read by an instruction that waits for all earlier loads:
//! a thread that frees what another thread allocated has read so from memory, and
//! its stamp must not be older than the other's. A counter is used only if it
//! runs at one rate on all processors, which the system knows.

use crate::config::ClockChoice;
use rustix::time::{ClockId, DynamicClockId, clock_gettime_dynamic};
use std::ops::Add;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use ttmem_event::wire::Clock;

/// Whether [`ticks`] reads the cycle counter; decided once per process, before the first event.
static CYCLES: AtomicBool = AtomicBool::new(false);

/// After ten times this long a better rate is sent than at first.
const SHORTEST_BASE: Duration = Duration::from_millis(2);

#[inline]
pub(crate) fn ticks() -> u64 {
    if CYCLES.load(Ordering::Relaxed) {
        cycles()
    } else {
        system_ticks()
    }
}

#[cold]
#[inline(never)]
fn system_ticks() -> u64 {
    system_nanos(ClockId::Monotonic)
}

/// Reads the clock such that what is loaded afterwards is not older.
pub(crate) fn horizon() -> u64 {
    let now = ticks();
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has the instruction.
    #[expect(unsafe_code, reason = "keeps later loads from being done earlier")]
    unsafe {
        std::arch::x86_64::_mm_lfence();
    }
    // SYNC(horizon): the heads of the rings are loaded later. The other end is every stamp, which
    // waits for earlier loads; `merge` in the models of `ttmem-ring` has both.
    std::sync::atomic::fence(Ordering::SeqCst);
    now
}

/// Chooses the clock of this process.
pub(crate) fn choose(choice: ClockChoice) {
    let cycles = match choice {
        ClockChoice::Automatic => has_counter() && is_constant() && system_trusts_counter(),
        // Whoever asks for it knows more than we do; only the instruction must be there.
        ClockChoice::Tsc => has_counter(),
        ClockChoice::Monotonic => false,
    };
    CYCLES.store(cycles, Ordering::Relaxed);
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn cycles() -> u64 {
    let mut processor = 0;
    // SAFETY: only called where `has_counter` found the instruction.
    #[expect(unsafe_code, reason = "reads the cycle counter")]
    unsafe {
        std::arch::x86_64::__rdtscp(&raw mut processor)
    }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn cycles() -> u64 {
    system_nanos(ClockId::Monotonic)
}

/// Whether there is an instruction that reads the counter after all earlier loads.
#[cfg(target_arch = "x86_64")]
fn has_counter() -> bool {
    extended(0x8000_0001).is_some_and(|flags| flags & (1 << 27) != 0)
}

#[cfg(not(target_arch = "x86_64"))]
fn has_counter() -> bool {
    false
}

/// Whether the counter runs at a constant rate and stops for nothing.
#[cfg(target_arch = "x86_64")]
fn is_constant() -> bool {
    extended(0x8000_0007).is_some_and(|flags| flags & (1 << 8) != 0)
}

#[cfg(not(target_arch = "x86_64"))]
fn is_constant() -> bool {
    false
}

/// The EDX flags of a page of the processor's description, if it has that page.
#[cfg(target_arch = "x86_64")]
fn extended(page: u32) -> Option<u32> {
    use std::arch::x86_64::__cpuid;
    (__cpuid(0x8000_0000).eax >= page).then(|| __cpuid(page).edx)
}

/// The system drops the counter from its clocks when processors disagree about it.
fn system_trusts_counter() -> bool {
    let path = "/sys/devices/system/clocksource/clocksource0/available_clocksource";
    std::fs::read_to_string(path)
        .is_ok_and(|clocks| clocks.split_whitespace().any(|clock| clock == "tsc"))
}

/// Whether the system refused a clock that events need.
static IS_REFUSED: AtomicBool = AtomicBool::new(false);

/// Whether the system refuses to tell the time, by a seccomp filter: nothing can be tracked then.
pub(crate) fn is_refused() -> bool {
    IS_REFUSED.load(Ordering::Relaxed)
}

fn system_nanos(clock: ClockId) -> u64 {
    nanos(clock).unwrap_or_else(|| {
        IS_REFUSED.store(true, Ordering::Relaxed);
        u64::MAX
    })
}

/// The CPU time of the calling thread, where the system tells it.
pub(crate) fn thread_cpu_nanos() -> Option<u64> {
    nanos(ClockId::ThreadCPUTime)
}

/// A clock; `None` if it is refused, where the other calls of `std` and `rustix` would panic.
fn nanos(clock: ClockId) -> Option<u64> {
    let time = clock_gettime_dynamic(DynamicClockId::Known(clock)).ok()?;
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    Some(seconds.wrapping_mul(1_000_000_000).wrapping_add(nanos))
}

/// A moment of the monotonic clock, like that of `std`; where the clock is refused, the end of time, so
/// that every wait is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(Duration);

impl Instant {
    /// The moment of the call.
    #[must_use]
    pub fn now() -> Self {
        Self(Duration::from_nanos(system_nanos(ClockId::Monotonic)))
    }

    /// The time since this moment.
    #[must_use]
    pub fn elapsed(self) -> Duration {
        Self::now().saturating_duration_since(self)
    }

    pub(crate) fn saturating_duration_since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    pub(crate) fn checked_add(self, time: Duration) -> Option<Self> {
        self.0.checked_add(time).map(Self)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, time: Duration) -> Self {
        Self(self.0.saturating_add(time))
    }
}

/// Learns how ticks become wall-clock time.
#[derive(Debug)]
pub(crate) struct Calibration {
    base: Sample,
    began: Instant,
    sent: u32,
}

/// Both clocks, read together.
#[derive(Clone, Copy, Debug)]
struct Sample {
    ticks: u64,
    monotonic_nanos: u64,
}

impl Sample {
    /// The reading least disturbed of a few.
    fn take() -> Self {
        let readings = (0..5).map(|_reading| {
            let before = ticks();
            let monotonic_nanos = system_nanos(ClockId::Monotonic);
            let after = ticks();
            let width = after.wrapping_sub(before);
            let ticks = before.wrapping_add(width / 2);
            (
                width,
                Self {
                    ticks,
                    monotonic_nanos,
                },
            )
        });
        let best = readings.min_by_key(|(width, _sample)| *width);
        best.map_or(
            Self {
                ticks: 0,
                monotonic_nanos: 0,
            },
            |(_width, sample)| sample,
        )
    }
}

impl Calibration {
    pub(crate) fn begin() -> Self {
        Self {
            base: Sample::take(),
            began: Instant::now(),
            sent: 0,
        }
    }

    /// Whether a better measurement than the last is to be had: each ten times as long.
    pub(crate) fn is_due(&self) -> bool {
        let next = SHORTEST_BASE * 10_u32.saturating_pow(self.sent.min(5));
        self.sent == 0 || self.began.elapsed() >= next
    }

    /// How ticks become wall-clock time, as known now.
    pub(crate) fn clock(&mut self) -> Clock {
        self.sent = match self.sent {
            // Five steps reach minutes; from there on once per that time.
            5.. => {
                self.began = Instant::now();
                5
            }
            sent => sent + 1,
        };
        let now = Sample::take();
        let realtime = system_nanos(ClockId::Realtime);
        let elapsed_ticks = now.ticks.wrapping_sub(self.base.ticks);
        let elapsed = now.monotonic_nanos.wrapping_sub(self.base.monotonic_nanos);
        let rate = (u128::from(elapsed.max(1)) << 32) / u128::from(elapsed_ticks.max(1));
        Clock {
            ticks: ticks(),
            unix_nanos: realtime,
            nanos_per_tick_q32: u64::try_from(rate).unwrap_or(1 << 32),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::sync::Mutex;

    /// Held by tests that choose the clock, of which the process has one.
    pub(crate) static CHOOSING: Mutex<()> = Mutex::new(());

    fn check(choice: ClockChoice) {
        choose(choice);
        let before = ticks();
        let mut calibration = Calibration::begin();
        std::thread::sleep(SHORTEST_BASE);
        let clock = calibration.clock();
        assert!(ticks() >= before && horizon() >= before);
        let wall = std::time::SystemTime::now();
        let wall = wall.duration_since(std::time::UNIX_EPOCH).unwrap();
        let ours = Duration::from_nanos(clock.unix_nanos_at(ticks()));
        let apart = ours.abs_diff(wall);
        // Generous: the machine may be busy between the two readings.
        assert!(apart < Duration::from_secs(1), "{apart:?} apart");
    }

    #[test]
    fn ticks_become_wall_clock_time_with_the_systems_clock() {
        let _alone = CHOOSING.lock();
        check(ClockChoice::Monotonic);
        assert!(!CYCLES.load(Ordering::Relaxed));
    }

    #[test]
    fn ticks_become_wall_clock_time_with_the_chosen_clock() {
        let _alone = CHOOSING.lock();
        check(ClockChoice::Automatic);
    }

    #[test]
    fn the_clock_is_measured_again_at_growing_intervals() {
        let mut calibration = Calibration::begin();
        assert!(calibration.is_due());
        calibration.clock();
        assert!(!calibration.is_due() || calibration.began.elapsed() > SHORTEST_BASE * 10);
    }
}
