//! A scenario on a thread of its own, at its pace, with a view of how far it is.
//!
//! The thread that shows it asks for its [`Progress`]; nothing that it does can delay the
//! scenario. Dropping the player, or [`Player::finish`], ends the scenario at its next step, in order:
//! everything it opened is closed.

use super::observed::{DemoObserver, Observed};
use super::progress::{Progress, SharedProgress};
use crate::interrupt::StopReason;
use crate::observer::ObservedTracker;
use crate::scenarios::ChosenScenario;
use crate::threads;
use anyhow::{Context, Result, anyhow};
use std::cell::RefCell;
use std::ops::ControlFlow;
use std::path::Path;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use ttmem_client::Tracker;
use ttmem_event::catalogue::BoardKind;
use ttmem_model::scenario::{Outcome, Pace, Play, StepDone, play};
use ttmem_reader::ApiClient;

/// Sleeps that are shorter than this are put together: waking up costs more than they are worth.
const SHORTEST_NAP: Duration = Duration::from_millis(20);

#[derive(Clone, Debug)]
pub(crate) struct PlayOptions {
    pub(crate) scenario: ChosenScenario,
    pub(crate) board: BoardKind,
    /// Where its random choices begin.
    pub(crate) seed: u64,
    /// Times as fast as the scenario says; 0 = as fast as it goes.
    pub(crate) speed: f64,
    /// Whether it waits at each failure, for somebody who looks at it.
    pub(crate) holds: bool,
}

#[derive(Debug)]
pub(crate) struct Played {
    pub(crate) outcome: Outcome,
    /// What was recorded and what the server knew on the way.
    pub(crate) observed: Observed,
    pub(crate) took: Duration,
}

#[derive(Debug)]
pub(crate) struct Player {
    thread: JoinHandle<Result<Played>>,
    progress: SharedProgress,
    /// Continues a scenario that waits; that it is gone says that the scenario is to end.
    go_on: SyncSender<()>,
}

impl Player {
    /// Begins to play into a tracker whose server listens on `socket`; sends a reason when it ends.
    pub(crate) fn start(
        options: PlayOptions,
        tracker: Tracker,
        socket: &Path,
        stop_reasons: SyncSender<StopReason>,
    ) -> Result<Self> {
        let (go_on, commands) = sync_channel(1);
        let progress = SharedProgress::default();
        let shown = progress.clone();
        let server = ApiClient::new(socket);
        let thread = threads::spawn("ttmem-scenario", "the scenario", move || {
            let _sent_at_the_end = EndNotice(stop_reasons);
            play_scenario(&options, tracker, server, shown, commands)
        })?;
        Ok(Self {
            thread,
            progress,
            go_on,
        })
    }

    /// Continues the scenario if it waits at a failure.
    pub(crate) fn go_on(&self) {
        if self.progress.get().held {
            // Full: it was asked to already.
            let _asked = self.go_on.try_send(());
        }
    }

    pub(crate) fn progress(&self) -> Progress {
        self.progress.get()
    }

    /// Ends the scenario if it has not ended, and returns what became of it.
    pub(crate) fn finish(self) -> Result<Played> {
        let Self { thread, go_on, .. } = self;
        drop(go_on);
        thread
            .join()
            .map_err(|_panic| anyhow!("the scenario's thread failed"))?
    }
}

/// Sends that a thread has ended, however it did.
struct EndNotice(SyncSender<StopReason>);

impl Drop for EndNotice {
    fn drop(&mut self) {
        // Full means that whoever listens has something to react to already.
        let _sent = self.0.try_send(StopReason::Ended);
    }
}

fn play_scenario(
    options: &PlayOptions,
    tracker: Tracker,
    server: ApiClient,
    progress: SharedProgress,
    commands: Receiver<()>,
) -> Result<Played> {
    let begun = Instant::now();
    let observer = DemoObserver::new(tracker, server, progress.clone());
    let observer = Rc::new(RefCell::new(observer));
    let mut pacer = Pacer {
        speed: options.speed,
        due: begun,
        progress,
        commands,
        holds: options.holds,
        failures: 0,
    };
    let hooks = ObservedTracker::new(tracker, Rc::clone(&observer));
    let asked = Play {
        scenario: options.scenario.scenario(),
        board: Some(options.board),
        seed: options.seed,
    };
    let outcome = play(&asked, Box::new(hooks), &mut pacer)
        .context("the scenario did not go as it is written")?;
    let observed = observer.borrow_mut().finish()?;
    Ok(Played {
        outcome,
        observed,
        took: begun.elapsed(),
    })
}

struct Pacer {
    speed: f64,
    /// When the next step is to begin.
    due: Instant,
    progress: SharedProgress,
    commands: Receiver<()>,
    holds: bool,
    /// Failures that it has waited at.
    failures: u64,
}

impl Pacer {
    /// Waits at a failure that came with the last step until it is continued, or is to end.
    fn hold(&mut self) -> ControlFlow<()> {
        let failures = self.progress.failures();
        if !self.holds || failures == self.failures {
            return ControlFlow::Continue(());
        }
        self.failures = failures;
        self.progress.hold(true);
        let command = self.commands.recv();
        self.progress.hold(false);
        self.due = Instant::now();
        match command {
            Ok(()) => ControlFlow::Continue(()),
            Err(_gone) => ControlFlow::Break(()),
        }
    }
}

impl Pace for Pacer {
    fn after(&mut self, step: &StepDone<'_>) -> ControlFlow<()> {
        self.progress.step(step);
        self.hold()?;
        let nap = if self.speed > 0.0 {
            let lasts = step.nominal.as_secs_f64() / self.speed;
            // A time beyond the clock is as good as never: the user will interrupt it.
            let lasts = Duration::try_from_secs_f64(lasts).unwrap_or(Duration::MAX);
            self.due = self.due.checked_add(lasts).unwrap_or(self.due);
            self.due.saturating_duration_since(Instant::now())
        } else {
            Duration::ZERO
        };
        if nap < SHORTEST_NAP {
            return match self.commands.try_recv() {
                Err(TryRecvError::Disconnected) => ControlFlow::Break(()),
                Ok(()) | Err(TryRecvError::Empty) => ControlFlow::Continue(()),
            };
        }
        match self.commands.recv_timeout(nap) {
            Err(RecvTimeoutError::Disconnected) => ControlFlow::Break(()),
            Ok(()) | Err(RecvTimeoutError::Timeout) => ControlFlow::Continue(()),
        }
    }
}
