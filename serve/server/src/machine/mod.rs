//! What the machine says by itself, for readers: the driver's values and TT-Metal's counters (ADR 39).
//!
//! A thread of its own looks, and publishes what it found as a whole; readers take the latest and wait for
//! nothing. The ledger knows nothing of it. What a reader is shown is put together with a view of the ledger
//! in `joined`, on the reader's thread.

mod figures;
mod joined;
mod matching;

pub(crate) use joined::Joined;

use crate::hardware::devices_of_chips;
use crate::lock;
use crate::read::snapshot::device_figures;
use rustix::time::{ClockId, clock_gettime};
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};
use ttmem_ledger::{ApplyLimits, Change, Ledger, Limits};
use ttmem_machine::{Roots, Sample, Watch};
use ttmem_report::Timestamp;

/// How often the machine is looked at while somebody reads.
const WATCHED: Duration = Duration::from_secs(1);

/// How often while nobody does: who comes next is shown nothing older.
const IDLE: Duration = Duration::from_secs(10);

/// Looking rests so many times as long as it took processor time: whoever makes it long makes it rare, and no more than that.
const RESTS: u32 = 100;

/// How long after a reader's question it counts as reading: longer than viewers wait between two.
const READS_FOR: Duration = Duration::from_secs(5);

/// Figures that are older are not shown: looking hangs.
const STALE: Duration = Duration::from_secs(30);

/// What was found, and when.
#[derive(Debug)]
pub(crate) struct Looked {
    pub(crate) sample: Sample,
    pub(crate) time: Timestamp,
    at: Instant,
}

impl Looked {
    fn now(sample: Sample) -> Self {
        Self {
            sample,
            time: Timestamp::from_unix_nanos(crate::clock::unix_nanos()),
            at: Instant::now(),
        }
    }

    /// For how long nothing was found any more, if that is too long.
    fn stale_for(&self) -> Option<Duration> {
        let age = self.at.elapsed();
        (age > STALE).then_some(age)
    }
}

#[derive(Debug, Default)]
struct State {
    latest: Option<Arc<Looked>>,
    /// Processor time that the latest took, or more if the server had other things to do.
    cost: Duration,
    asked: Option<Instant>,
    has_ended: bool,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

/// Where readers find what the machine says. Without anybody who looks, it says nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct MachineFigures {
    shared: Arc<Shared>,
}

impl MachineFigures {
    /// The latest, without waiting for anything.
    pub(crate) fn latest(&self) -> Option<Arc<Looked>> {
        let mut state = lock(&self.shared.state);
        let before = state.asked.replace(Instant::now());
        if before.is_none_or(|before| before.elapsed() >= READS_FOR) {
            self.shared.changed.notify_all();
        }
        state.latest.clone()
    }

    #[cfg(test)]
    pub(crate) fn publish(&self, sample: Sample) {
        lock(&self.shared.state).latest = Some(Arc::new(Looked::now(sample)));
    }

    /// Looks, and shows what was found.
    fn look(&self, watch: &mut Watch) -> Arc<Looked> {
        let before = processor_time();
        let looked = Arc::new(Looked::now(watch.look()));
        let mut state = lock(&self.shared.state);
        state.cost = processor_time().saturating_sub(before);
        state.latest = Some(Arc::clone(&looked));
        looked
    }

    /// Waits until it is time to look again; false once nobody wants it any more.
    fn wait(&self) -> bool {
        let mut state = lock(&self.shared.state);
        loop {
            if state.has_ended {
                return false;
            }
            let is_read = state.asked.is_some_and(|asked| asked.elapsed() < READS_FOR);
            let interval = interval(is_read, state.cost);
            let age = state.latest.as_ref().map(|latest| latest.at.elapsed());
            let Some(left) = age.and_then(|age| interval.checked_sub(age)) else {
                return true;
            };
            let waited = self.shared.changed.wait_timeout(state, left);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// The thread that looks. Nobody waits for it at the end: it may hang in a file, and has nothing to finish.
#[derive(Debug)]
pub(crate) struct Looker {
    figures: MachineFigures,
}

impl Looker {
    /// Begins to look, unless there is nowhere to.
    pub(crate) fn start(watch: Watch, figures: MachineFigures) -> io::Result<Self> {
        let shared = figures.clone();
        let thread = std::thread::Builder::new().name("ttmem-machine".to_owned());
        thread.spawn(move || {
            let mut watch = watch;
            while shared.wait() {
                shared.look(&mut watch);
            }
        })?;
        Ok(Self { figures })
    }
}

impl Drop for Looker {
    fn drop(&mut self) {
        lock(&self.figures.shared.state).has_ended = true;
        self.figures.shared.changed.notify_all();
    }
}

/// The machine, and its chips as they are when the server starts.
pub(crate) fn first_look(
    roots: &Roots,
    figures: &MachineFigures,
) -> (Watch, Vec<ttmem_machine::Chip>) {
    let mut watch = Watch::new(roots.clone());
    let chips = figures.look(&mut watch).sample.chips.clone();
    (watch, chips)
}

/// How long after a look the next one is due.
fn interval(is_read: bool, cost: Duration) -> Duration {
    let least = if is_read { WATCHED } else { IDLE };
    cost.saturating_mul(RESTS).clamp(least, IDLE)
}

/// What all threads of this process have used so far.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.try_into().unwrap_or_default()
}

/// What one look at a machine found, as the documents of a server have it to which nothing is attached.
#[must_use]
pub fn describe_machine(sample: Sample) -> (Vec<ttmem_report::Device>, ttmem_report::Machine) {
    let mut ledger = Ledger::new(Limits::default());
    for device in devices_of_chips(&sample.chips) {
        let configure = Change::ConfigureDevice(Box::new(device.facts));
        ledger.apply(&configure, ApplyLimits::NONE, None);
    }
    let view = ledger.view();
    let geometry = view.geometry();
    let joined = Joined::with(&view, Arc::new(Looked::now(sample)));
    let devices = (0..view.devices.len()).map(|index| {
        let mut device = device_figures(&view, &geometry, index);
        joined.add_to(index, &mut device);
        device
    });
    (devices.collect(), joined.machine())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_that_takes_long_is_rare_and_figures_stay_younger_than_stale() {
        let millis = Duration::from_millis;
        assert_eq!(interval(true, millis(5)), WATCHED);
        assert_eq!(interval(true, millis(50)), millis(5000));
        assert_eq!(interval(true, Duration::MAX), IDLE);
        assert_eq!(interval(false, millis(1)), IDLE);
        assert!(IDLE < STALE);
    }
}
