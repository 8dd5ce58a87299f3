//! A story on a thread of its own, at its pace, with a view of how far it is.
//!
//! The thread that shows the story asks for its [`Progress`]; nothing that it does can delay the
//! story. Dropping the player, or [`Player::finish`], ends the story at its next step, in order:
//! everything it opened is closed.

use super::progress::{Progress, SharedProgress};
use super::witness::{Testimony, Witness};
use crate::interrupt::News;
use crate::overheard::Overheard;
use crate::story::Story;
use anyhow::{Context, Result, anyhow};
use std::cell::RefCell;
use std::ops::ControlFlow;
use std::path::Path;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use ttmem_api::ApiClient;
use ttmem_client::Tracker;
use ttmem_event::catalogue::BoardKind;
use ttmem_sim::scenario::{Outcome, Pace, Play, StepDone, play};

/// Sleeps that are shorter than this are put together: waking up costs more than they are worth.
const SHORTEST_NAP: Duration = Duration::from_millis(20);

/// What is played, and how fast.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub(crate) story: Story,
    pub(crate) board: BoardKind,
    /// Where its random choices begin.
    pub(crate) seed: u64,
    /// Times as fast as the scenario says; 0 = as fast as it goes.
    pub(crate) speed: f64,
}

/// A story that was played.
#[derive(Debug)]
pub(crate) struct Performance {
    pub(crate) outcome: Outcome,
    /// What was recorded and what the server knew on the way.
    pub(crate) testimony: Testimony,
    pub(crate) took: Duration,
}

#[derive(Debug)]
pub(crate) struct Player {
    thread: JoinHandle<Result<Performance>>,
    progress: SharedProgress,
    /// Never sent on: that it is gone says that the story is to end.
    _stop: SyncSender<()>,
}

impl Player {
    /// Begins to play into a tracker whose server listens on `socket`; tells when it ends.
    pub(crate) fn start(
        piece: Piece,
        tracker: Tracker,
        socket: &Path,
        news: SyncSender<News>,
    ) -> Result<Self> {
        let (stop, stopped) = sync_channel(1);
        let progress = SharedProgress::default();
        let shown = progress.clone();
        let server = ApiClient::new(socket);
        let thread = std::thread::Builder::new()
            .name("ttmem-story".to_owned())
            .spawn(move || {
                let _told_at_the_end = Notice(news);
                perform(&piece, tracker, server, shown, stopped)
            })
            .context("cannot start a thread for the story")?;
        Ok(Self {
            thread,
            progress,
            _stop: stop,
        })
    }

    pub(crate) fn progress(&self) -> Progress {
        self.progress.get()
    }

    /// Ends the story if it has not ended, and returns what became of it.
    pub(crate) fn finish(self) -> Result<Performance> {
        let Self { thread, _stop, .. } = self;
        drop(_stop);
        thread
            .join()
            .map_err(|_panic| anyhow!("the story's thread failed"))?
    }
}

/// Tells that a thread has ended, however it did.
struct Notice(SyncSender<News>);

impl Drop for Notice {
    fn drop(&mut self) {
        // Full means that whoever listens has something to react to already.
        let _told = self.0.try_send(News::Ended);
    }
}

fn perform(
    piece: &Piece,
    tracker: Tracker,
    server: ApiClient,
    progress: SharedProgress,
    stopped: Receiver<()>,
) -> Result<Performance> {
    let begun = Instant::now();
    let witness = Witness::new(tracker, server, progress.clone());
    let witness = Rc::new(RefCell::new(witness));
    let mut metronome = Metronome {
        speed: piece.speed,
        due: begun,
        progress,
        stopped,
    };
    let hooks = Overheard::new(tracker, Rc::clone(&witness));
    let asked = Play {
        scenario: piece.story.scenario(),
        board: Some(piece.board),
        seed: piece.seed,
    };
    let outcome = play(&asked, Box::new(hooks), &mut metronome)
        .context("the story did not go as it is written")?;
    let testimony = witness.borrow_mut().testify()?;
    Ok(Performance {
        outcome,
        testimony,
        took: begun.elapsed(),
    })
}

/// Keeps the time of a story.
struct Metronome {
    speed: f64,
    /// When the next step is to begin.
    due: Instant,
    progress: SharedProgress,
    stopped: Receiver<()>,
}

impl Pace for Metronome {
    fn after(&mut self, step: &StepDone<'_>) -> ControlFlow<()> {
        self.progress.step(step);
        let nap = if self.speed > 0.0 {
            let lasts = step.nominal.as_secs_f64() / self.speed;
            // What no clock can tell is as good as never: the user will interrupt it.
            let lasts = Duration::try_from_secs_f64(lasts).unwrap_or(Duration::MAX);
            self.due = self.due.checked_add(lasts).unwrap_or(self.due);
            self.due.saturating_duration_since(Instant::now())
        } else {
            Duration::ZERO
        };
        if nap < SHORTEST_NAP {
            return match self.stopped.try_recv() {
                Err(TryRecvError::Disconnected) => ControlFlow::Break(()),
                Ok(()) | Err(TryRecvError::Empty) => ControlFlow::Continue(()),
            };
        }
        match self.stopped.recv_timeout(nap) {
            Err(RecvTimeoutError::Disconnected) => ControlFlow::Break(()),
            Ok(()) | Err(RecvTimeoutError::Timeout) => ControlFlow::Continue(()),
        }
    }
}
