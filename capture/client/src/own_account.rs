//! Asking the process's own account: what it holds now, without a server.
//!
//! The pump has the account. A thread that asks leaves its question in a queue, wakes the pump and
//! waits for the answer: a view of the account as of its question or later, from which it makes
//! the [document](document) itself, so that the pump goes on.

mod document;
mod json;
pub(crate) mod peak_lines;

use crate::client::{Client, Deadline};
use crate::host::Uncancelled;
use crate::room;
pub(crate) use json::boxed;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;
use ttmem_account::totals::GaugeKind;
use ttmem_account::{Account, AccountFacts, AccountRows, BufferRow, Peak};
use ttmem_event::Class;
use ttmem_ring::heap::Fallible;

/// The most lines that are named of a peak.
pub(crate) const PEAK_LINES: u32 = 50;

/// How long to wait before looking whether the pump is still there.
const PATIENCE: Duration = Duration::from_millis(100);

/// What to ask the account of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// What is held, and the peaks of a stretch; 0 is the one since the start or the last reset.
    Figures { stretch: u64 },
    /// The same with the largest buffers; of a stretch, those that were placed in it.
    Snapshot { stretch: u64, max_rows: u32 },
    /// Peaks begin anew, on one device or on all.
    Reset { device: Option<u32> },
    /// A stretch of its own begins, beside all others.
    Begin,
    /// A stretch ends: its peaks with what was live at them, and the largest of what was placed in
    /// it and is still held, or was when its mesh was closed.
    End { stretch: u64, max_rows: u32 },
    /// Figures, and the lines that held most at each peak of a stretch.
    Peaks { stretch: u64, max_rows: u32 },
}

/// Why the account did not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    #[error("tracking is off")]
    Disabled,
    /// The question names a stretch that is not open, or is none.
    #[error("there is no such stretch")]
    Value,
    #[error("the account did not answer in time")]
    TimedOut,
    #[error("too many stretches are open")]
    TooMany,
    #[error("there is no memory for the answer")]
    NoMemory,
}

impl Question {
    /// The question as numbers: which it is, a stretch or a device, and how many rows.
    #[must_use]
    pub fn words(self) -> [u64; 3] {
        match self {
            Self::Figures { stretch } => [0, stretch, 0],
            Self::Snapshot { stretch, max_rows } => [1, stretch, max_rows.into()],
            Self::Reset { device } => [2, device.map_or(u64::MAX, u64::from), 0],
            Self::Begin => [3, 0, 0],
            Self::End { stretch, max_rows } => [4, stretch, max_rows.into()],
            Self::Peaks { stretch, max_rows } => [5, stretch, max_rows.into()],
        }
    }

    /// The question of these numbers, if they are one.
    #[must_use]
    pub fn from_words(words: [u64; 3]) -> Option<Self> {
        let [which, subject, rows] = words;
        let max_rows = u32::try_from(rows).unwrap_or(u32::MAX);
        Some(match which {
            0 => Self::Figures { stretch: subject },
            1 => Self::Snapshot {
                stretch: subject,
                max_rows,
            },
            2 if subject == u64::MAX => Self::Reset { device: None },
            2 => Self::Reset {
                device: Some(u32::try_from(subject).ok()?),
            },
            3 => Self::Begin,
            4 => Self::End {
                stretch: subject,
                max_rows,
            },
            5 => Self::Peaks {
                stretch: subject,
                max_rows,
            },
            _unknown => return None,
        })
    }
}

impl Question {
    /// Whether the answer has buffers, of which there may be many.
    pub(crate) fn has_rows(self) -> bool {
        !matches!(self, Self::Figures { .. } | Self::Reset { .. })
    }
}

impl AskError {
    /// The number of it for C: those of `ttmem.h` where that has one.
    #[must_use]
    pub fn code(self) -> i32 {
        match self {
            Self::Disabled => -1,
            Self::Value => -3,
            Self::TimedOut => -5,
            Self::TooMany => -6,
            Self::NoMemory => -7,
        }
    }

    pub(crate) fn from_code(code: i32) -> Self {
        let all = [Self::Value, Self::TimedOut, Self::TooMany, Self::NoMemory];
        let found = all.into_iter().find(|error| error.code() == code);
        found.unwrap_or(Self::Disabled)
    }
}

/// The account at one moment, for whoever asked.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) facts: AccountFacts,
    pub(crate) devices: Vec<Described>,
    /// By device, since the stretch began.
    pub(crate) peaks: Vec<Peaks>,
    pub(crate) stretch: u64,
    /// Events so far: what is placed next has a higher number.
    pub(crate) order: u64,
    pub(crate) rows: Option<Rows>,
    pub(crate) lines: Option<Lines>,
    pub(crate) timeline: Vec<Point>,
}

/// Buffers that are asked for.
#[derive(Debug)]
pub(crate) struct Rows {
    pub(crate) held: AccountRows,
    /// Those that were held when their mesh was closed.
    pub(crate) left: Vec<BufferRow>,
    /// How many more of them there are, and their bytes.
    pub(crate) unlisted: (u64, u64),
    /// Those that were placed by later events than this are meant.
    pub(crate) since_order: u64,
    pub(crate) most: usize,
}

/// By gauge.
pub(crate) type Peaks = [Peak; GaugeKind::COUNT];

/// The account at the end of a part of the run: it knows what was live at the peaks of the part.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) facts: AccountFacts,
    pub(crate) rows: AccountRows,
}

impl Part {
    pub(crate) fn of(account: &Account) -> Self {
        Self {
            facts: account.facts_now(),
            rows: account.rows(),
        }
    }
}

/// Lines at peaks that are asked for.
#[derive(Debug)]
pub(crate) struct Lines {
    pub(crate) at: Vec<AtPeak>,
    /// The last event before the stretch.
    pub(crate) begun_after: u64,
    pub(crate) most: usize,
}

/// A peak, and the part of the run that it was in.
#[derive(Debug)]
pub(crate) struct AtPeak {
    pub(crate) slot: usize,
    pub(crate) kind: GaugeKind,
    pub(crate) part: Arc<Part>,
}

/// How a device is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Described {
    pub(crate) logical_id: Option<u32>,
    pub(crate) unique_id: Option<u64>,
    pub(crate) board: Option<String>,
}

/// What all devices together held at a time, in the ticks of the process's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Point {
    pub(crate) time: u64,
    pub(crate) bytes: [u64; Class::COUNT],
}

type Outcome = Result<Answer, AskError>;

/// Where the answer to a question appears.
///
/// A channel of the standard library would have the C library note a destructor of this thread,
/// which ends the process where there is no memory for that.
#[derive(Debug, Default)]
struct Reply {
    outcome: Mutex<Option<Outcome>>,
    is_there: Condvar,
}

impl Reply {
    fn put(&self, outcome: Outcome) {
        locked(&self.outcome).get_or_insert(outcome);
        self.is_there.notify_all();
    }

    /// Waits for so long at most.
    fn take(&self, longest: Duration) -> Option<Outcome> {
        let outcome = locked(&self.outcome);
        let waited = self
            .is_there
            .wait_timeout_while(outcome, longest, |outcome| outcome.is_none());
        let (mut outcome, _timeout) = waited.unwrap_or_else(|poison| poison.into_inner());
        outcome.take()
    }
}

/// A question that waits for the pump.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) question: Question,
    reply: Arc<Reply>,
}

impl Asked {
    /// Answers; who no longer waits has been given up on.
    pub(crate) fn answer(&self, outcome: Outcome) {
        self.reply.put(outcome);
    }
}

impl Drop for Asked {
    /// One that was dropped with the pump is answered as well.
    fn drop(&mut self) {
        self.answer(Err(AskError::Disabled));
    }
}

/// Questions that the pump has not taken yet.
#[derive(Debug, Default)]
pub(crate) struct Questions(Mutex<Vec<Asked>>);

impl Questions {
    /// Takes them all; whatever was recorded before any of them is in the rings by now.
    pub(crate) fn take(&self) -> Vec<Asked> {
        std::mem::take(&mut *locked(&self.0))
    }

    fn put(&self, asked: Asked) {
        locked(&self.0).push(asked);
    }
}

fn locked<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(|poison| poison.into_inner())
}

/// Asks the pump and writes what it answers as a JSON document.
pub(crate) fn ask(
    client: &Client,
    question: Question,
    timeout: Duration,
) -> Result<Box<[u8]>, AskError> {
    // Also for what the pump needs to take the question.
    if !room::is_there(0) {
        return Err(AskError::NoMemory);
    }
    let _fallible = Fallible::begin();
    // A cancelled thread would be unwound through Rust, which aborts.
    let _uncancelled = Uncancelled::begin();
    let deadline = Deadline::after(timeout);
    let reply = Arc::new(Reply::default());
    client.questions.put(Asked {
        question,
        reply: Arc::clone(&reply),
    });
    client.ring_doorbell();
    loop {
        match reply.take(deadline.left().min(PATIENCE)) {
            Some(outcome) => return outcome.and_then(|answer| document::write(&answer)),
            None if client.flush.progress().has_ended() => return Err(AskError::Disabled),
            None if deadline.left().is_zero() => return Err(AskError::TimedOut),
            None => {}
        }
    }
}
