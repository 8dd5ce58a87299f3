//! The pump: one thread that takes events from the rings to the server.
//!
//! Each turn it merges what the threads recorded into the [`history`], in the
//! order of the time stamps, and lets the [`link`] send. It never waits for the
//! server: a ring that fills up is emptied into the history, and a history that
//! reaches its bound is folded into the account.

mod definitions;
mod history;
mod link;
mod present;
mod rings;
mod socket;

use crate::client::{Client, PAGE};
use crate::clock::Calibration;
use crate::futex;
use crate::host::{self, SignalsBlocked};
use crate::own_account::{AskError, Asked};
use crate::room;
use crate::start::HIGHEST_BUFFER;
use definitions::Definitions;
use history::History;
use link::Link;
use rings::Rings;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use ttmem_account::Account;
use ttmem_event::wire::{Frame, FrameKind};
use ttmem_event::{Event, EventKind, Source};
use ttmem_ring::heap::Heap;

/// How long the pump sleeps after a turn that found as many events as it should.
const SHORTEST_SLEEP: Duration = Duration::from_micros(500);
/// How long it sleeps at most while events come.
const BUSY_SLEEP: Duration = Duration::from_millis(10);
/// How long it sleeps at most when none come: the first event wakes it, and the only thing seen
/// that late is a server that went away.
const IDLE_SLEEP: Duration = Duration::from_secs(1);
/// The same where nobody can be relied on to wake it: events are seen after that time at the latest.
const UNWOKEN_SLEEP: Duration = Duration::from_millis(50);
/// Turns without an event before it counts as idle.
const IDLE_TURNS: u32 = 20;
/// Events merged in one turn, at most: the server is to be served in between.
const MERGED_AT_ONCE: u64 = 16 << 10;
/// Events folded into the account in one turn, at least; some hundred microseconds.
const FOLDED_AT_ONCE: usize = 4096;
/// Events that the account as of now follows in one turn; a few milliseconds.
const FOLLOWED_AT_ONCE: usize = 32 << 10;
/// An account from this size on is put into frames beside the pump's own work.
const LARGE_STATE: usize = 20_000;
/// How long it waits for a server that does not read, before it looks at the rings again.
const BLOCKED_WAIT: Duration = Duration::from_millis(1);

/// Connects to the server, hands it the memory, and starts the pump of a client.
///
/// By the thread that makes the first call: what it records next is found by the server even if
/// the process ends before the pump first runs. Nothing is waited for.
pub(crate) fn spawn(client: &'static Client, calibration: Calibration) -> io::Result<()> {
    let mut pump = Pump::new(client, calibration);
    pump.link
        .turn(client, &mut pump.history, &mut pump.definitions);
    // The thread inherits the mask: the program's signals are not ours to take.
    let _blocked = SignalsBlocked::begin();
    host::spawn(c"ttmem-pump", move || {
        // A failure of ours ends the tracking, not the program.
        let run = std::panic::AssertUnwindSafe(|| pump.run());
        let ended = std::panic::catch_unwind(run).unwrap_or(Err("the pump failed"));
        if let Err(why) = ended {
            crate::start::disable();
            client.abandon();
            host::complain(&format!("tracking is off: {why}"));
        }
    })
}

/// Has the next thread that records wake the pump; false where the system cannot make that certain.
fn announce_sleep() -> bool {
    PAGE.announce_sleep();
    // SYNC(sleep): a thread that published an event before this and did not see the announcement
    // is seen by the next look at the rings.
    let passed = host::fence_all_threads();
    if !passed {
        PAGE.take_sleeper();
    }
    passed
}

/// The frames that begin a resync: ready to send, so that the pump never copies a million rows.
fn saved(account: &Account) -> Vec<u8> {
    let mut bytes = Vec::new();
    account.save(&mut bytes);
    let mut frames = Vec::new();
    Frame::put(&mut frames, FrameKind::ResyncBegin, |_out| {});
    Frame::put_state(&mut frames, &bytes);
    frames
}

/// What has become of a state that another thread makes.
enum Made {
    NotYet,
    State(Vec<u8>),
    Failed,
}

fn locked(made: &Mutex<Made>) -> MutexGuard<'_, Made> {
    made.lock().unwrap_or_else(|poison| poison.into_inner())
}

/// The account again, once nobody else has it.
fn own(account: Arc<Account>) -> Account {
    // A failure of ours ends the tracking: without its account there is nothing to go on with.
    Arc::into_inner(account).expect("the thread that it was lent to has ended")
}

struct Pump {
    client: &'static Client,
    rings: Rings,
    history: History,
    definitions: Definitions,
    link: Link,
    /// Flushes that wait for events up to a sequence number.
    flushing: Option<Flushing>,
    /// The number of the last flush that is done.
    flushed: u32,
    /// Questions to the account, with the events that they wait for.
    asked: Vec<(Asked, Option<u64>)>,
    sleep: Duration,
    idle_turns: u32,
}

#[derive(Clone, Copy, Debug)]
struct Flushing {
    number: u32,
    until: u64,
}

#[derive(Clone, Copy, Debug)]
struct Turn {
    events: u64,
    ended: bool,
}

impl Pump {
    fn new(client: &'static Client, calibration: Calibration) -> Self {
        Self {
            client,
            rings: Rings::default(),
            history: History::new(
                client.config.history_events,
                client.config.source == Source::Legacy,
            ),
            definitions: Definitions::default(),
            link: Link::new(calibration),
            flushing: None,
            flushed: 0,
            asked: Vec::new(),
            sleep: SHORTEST_SLEEP,
            idle_turns: 0,
        }
    }

    fn run(mut self) -> Result<(), &'static str> {
        // Where memory has run out, what is held here goes back to the program.
        while !Heap::is_exhausted() {
            let doorbell = self.client.doorbell.read();
            let turn = self.turn();
            if turn.ended {
                return Ok(());
            }
            if crate::clock::is_refused() {
                return Err("this system does not tell the time any more");
            }
            self.rest(&turn, doorbell);
            if self.idle_turns > IDLE_TURNS && Heap::has_last_threads() {
                // The C library ends the process with this thread, as it would have without it.
                return Ok(());
            }
        }
        Ok(())
    }

    fn turn(&mut self) -> Turn {
        // Before the rings: what was recorded before a request is then in them.
        let requested = self.client.flush.requested();
        let asked = self.client.questions.take();
        self.asked
            .extend(asked.into_iter().map(|asked| (asked, None)));
        let horizon = crate::clock::horizon();
        self.rings.refresh(self.client);
        let lost = self.rings.take_lost();
        if lost > 0 {
            self.push_own(EventKind::EventsLost { count: lost });
        }
        // Before the events that use them: those are in the rings since the last look.
        self.definitions.learn(self.client, &mut self.history);
        let merged = self
            .rings
            .merge(horizon, self.most(requested), &mut self.history);
        if merged.events > 0 {
            // Before anything that takes long: threads may wait for room.
            self.rings.free(self.client, &self.history);
        }
        let folded = usize::try_from(2 * merged.events).unwrap_or(usize::MAX);
        self.history.keep_to_bound(folded.max(FOLDED_AT_ONCE));
        self.note_flush(requested, merged.complete);
        self.answer(merged.complete);
        if self.link.is_state_due(&self.history) {
            self.send_state();
        }
        self.link
            .turn(self.client, &mut self.history, &mut self.definitions);
        self.rings.free(self.client, &self.history);
        let ended = self.finish_flush();
        self.publish_figures();
        Turn {
            events: merged.events,
            ended,
        }
    }

    /// An event of the pump's own, which comes from no ring.
    fn push_own(&mut self, event: EventKind) {
        let time = crate::clock::ticks();
        self.history
            .push(&Event { time, kind: event }.encode(), None);
    }

    /// The number of the last flush that is done or waits for the server.
    fn noted(&self) -> u32 {
        self.flushing
            .map_or(self.flushed, |flushing| flushing.number)
    }

    fn note_flush(&mut self, number: u32, complete: bool) {
        if number != self.noted() && complete {
            let until = self.history.end();
            self.flushing = Some(Flushing { number, until });
        }
    }

    /// Answers who waits for a flush; true when that was the last thing to do.
    fn finish_flush(&mut self) -> bool {
        let settled = |flushing: &Flushing| self.link.is_settled(&self.history, flushing.until);
        let Some(Flushing { number, .. }) = self.flushing.take_if(|flushing| settled(flushing))
        else {
            return false;
        };
        self.flushed = number;
        let flush = &self.client.flush;
        let closing = flush.is_last(number);
        if closing {
            self.link.goodbye(&self.history);
        }
        // The figures that a thread reads after its flush are those of its end.
        self.publish_figures();
        flush.complete(number, closing);
        futex::wake_all(flush.progress_word());
        closing
    }

    /// How many events to merge in this turn: all there are, when somebody waits for them.
    fn most(&self, requested: u32) -> u64 {
        if requested == self.noted() && self.asked.is_empty() {
            MERGED_AT_ONCE
        } else {
            u64::MAX
        }
    }

    /// Answers questions to the account whose events it has; `complete` if all were merged.
    fn answer(&mut self, complete: bool) {
        if self.asked.is_empty() {
            return;
        }
        let is_first = self.history.present().is_none();
        let has_rows = self
            .asked
            .iter()
            .any(|(asked, _until)| asked.question.has_rows());
        let bytes = if is_first || has_rows {
            self.history.account_bytes()
        } else {
            0
        };
        if !room::is_there(bytes) {
            for (asked, _until) in self.asked.drain(..) {
                asked.answer(Err(AskError::NoMemory));
            }
            return;
        }
        if is_first {
            let texts = definitions::texts(self.client);
            self.history.begin_present(texts);
        }
        let end = self.history.end();
        for (_asked, until) in &mut self.asked {
            if complete {
                until.get_or_insert(end);
            }
        }
        self.history.follow(FOLLOWED_AT_ONCE);
        let time = crate::clock::ticks();
        let Some(present) = self.history.present() else {
            return;
        };
        let next = present.next();
        let ready = |until: &Option<u64>| until.is_some_and(|until| until <= next);
        for (asked, _until) in self.asked.extract_if(.., |(_asked, until)| ready(until)) {
            let answer = present.answer(asked.question, time);
            asked.answer(answer);
        }
    }

    /// Makes the whole state and gives it to the link.
    ///
    /// A large one takes longer than the rings last: a thread makes it, and the rings are emptied
    /// in the meantime.
    fn send_state(&mut self) {
        self.history.rewind();
        let Some(account) = self.history.lend_account() else {
            return;
        };
        let (account, state) = if account.len() < LARGE_STATE {
            let state = saved(&account);
            (account, state)
        } else {
            self.make_state_beside(account)
        };
        self.history.take_back_account(account);
        self.link
            .put_state(self.client, state, &self.history, &mut self.definitions);
    }

    fn make_state_beside(&mut self, account: Account) -> (Account, Vec<u8>) {
        let lent = Arc::new(account);
        let account = Arc::clone(&lent);
        let made = Arc::new(Mutex::new(Made::NotYet));
        let result = Arc::clone(&made);
        let maker = host::spawn(c"ttmem-state", move || {
            let make = std::panic::AssertUnwindSafe(|| saved(&lent));
            let state = std::panic::catch_unwind(make);
            // Before it is said to be made: the pump then has the account for itself.
            drop(lent);
            *locked(&result) = state.map_or(Made::Failed, Made::State);
        });
        if maker.is_err() {
            let state = saved(&account);
            return (own(account), state);
        }
        loop {
            match std::mem::replace(&mut *locked(&made), Made::NotYet) {
                Made::State(state) => return (own(account), state),
                Made::Failed => {
                    let state = saved(&account);
                    return (own(account), state);
                }
                Made::NotYet if Heap::is_exhausted() => Heap::stop_thread(),
                Made::NotYet => {}
            }
            let horizon = crate::clock::horizon();
            self.rings.refresh(self.client);
            self.rings.merge(horizon, MERGED_AT_ONCE, &mut self.history);
            self.rings.free(self.client, &self.history);
            host::sleep(SHORTEST_SLEEP);
        }
    }

    fn publish_figures(&self) {
        let figures = &self.client.figures;
        let set = |figure: &AtomicU64, value| figure.store(value, Ordering::Relaxed);
        set(&figures.lost_events, self.rings.lost());
        set(&figures.elided_events, self.history.elided());
        set(&figures.resyncs, self.link.resyncs());
        if let Some(cpu_nanos) = crate::clock::thread_cpu_nanos() {
            set(&figures.pump_cpu_nanos, cpu_nanos);
        }
        let connected = self.link.is_synced();
        figures.connected.store(connected, Ordering::Relaxed);
        HIGHEST_BUFFER.fetch_max(self.history.highest_buffer(), Ordering::Relaxed);
    }

    /// Sleeps as long as the rings can do without.
    fn rest(&mut self, turn: &Turn, doorbell: u32) {
        let few = self.rings.capacity() / 16;
        if turn.events == 0 {
            self.idle_turns = self.idle_turns.saturating_add(1);
        } else if std::mem::take(&mut self.idle_turns) > IDLE_TURNS {
            // After the first event there may be any number.
            self.sleep = SHORTEST_SLEEP;
        }
        let most = if self.idle_turns <= IDLE_TURNS {
            BUSY_SLEEP
        } else if PAGE.is_pump_asleep() {
            IDLE_SLEEP
        } else if announce_sleep() {
            // The rings are looked at once more before anybody relies on it.
            return;
        } else {
            UNWOKEN_SLEEP
        };
        self.sleep = if turn.events > 2 * few {
            (self.sleep / 2).max(SHORTEST_SLEEP)
        } else if turn.events < few {
            (self.sleep * 2).min(most)
        } else {
            self.sleep.min(most)
        };
        if turn.events > 4 * few || !self.asked.is_empty() {
            // More is there already, or somebody waits.
            return;
        }
        let impatient = self.flushing.is_some();
        match self.link.wait_before_next(&self.history, impatient) {
            link::Wait::Socket => self.link.wait(BLOCKED_WAIT),
            link::Wait::AtMost(longest) => {
                futex::wait(
                    self.client.doorbell.word(),
                    doorbell,
                    self.sleep.min(longest),
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::tracker::Tracker;
    use std::time::Instant;

    /// How often anybody rang for the pump.
    fn rings() -> u32 {
        PAGE.client().unwrap().doorbell.read()
    }

    fn wait_until_the_pump_sleeps() {
        let begun = Instant::now();
        while !PAGE.is_pump_asleep() {
            assert!(begun.elapsed() < Duration::from_secs(30), "it never sleeps");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn the_first_event_after_a_pause_wakes_the_pump_once() {
        let tracker = Tracker::start(Config {
            socket: Some("/nonexistent/ttmem.sock".into()),
            ..Config::default()
        });
        let event = EventKind::EventsLost { count: 0 };
        let choosing = crate::clock::tests::CHOOSING.lock();
        tracker.track(event);
        drop(choosing);
        if !host::fence_all_threads() {
            // It wakes up by itself: nobody has to.
            return;
        }
        for _pause in 0..3 {
            wait_until_the_pump_sleeps();
            let before = rings();
            tracker.track(event);
            assert_eq!(rings(), before + 1);
            wait_until_the_pump_sleeps();
            assert_eq!(rings(), before + 1, "without an event nobody rings");
        }
        wait_until_the_pump_sleeps();
        let before = rings();
        let _defined = tracker.text("something new");
        assert_eq!(rings(), before + 1);
    }
}
