//! The pump: one thread that takes events from the rings to the server.
//!
//! Each turn it merges what the threads recorded into the [`history`], in the
//! order of the time stamps, and lets the [`link`] send. It never waits for the
//! server: a ring that fills up is emptied into the history, and a history that
//! reaches its bound is folded into the account.

mod definitions;
mod history;
mod link;
mod rings;
mod socket;

use crate::client::Client;
use crate::futex;
use crate::host::SignalsBlocked;
use crate::start::HIGHEST_BUFFER;
use definitions::Definitions;
use history::History;
use link::Link;
use rings::Rings;
use rustix::time::ClockId;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use ttmem_account::Account;
use ttmem_event::wire::{Frame, FrameKind};
use ttmem_event::{BufferId, Event, EventKind, Source};

/// The pump's own stack: it never goes deep.
const STACK_BYTES: usize = 256 << 10;

/// How long the pump sleeps after a turn that found as many events as it should.
const SHORTEST_SLEEP: Duration = Duration::from_micros(500);
/// How long it sleeps at most while events come.
const BUSY_SLEEP: Duration = Duration::from_millis(10);
/// How long it sleeps at most when none come: events are seen after that time at the latest.
const IDLE_SLEEP: Duration = Duration::from_millis(50);
/// Turns without an event before it counts as idle.
const IDLE_TURNS: u32 = 20;
/// Events merged in one turn, at most: the server is to be served in between.
const MERGED_AT_ONCE: u64 = 16 << 10;
/// Events folded into the account in one turn, at least; some hundred microseconds.
const FOLDED_AT_ONCE: usize = 4096;
/// An account from this size on is put into frames beside the pump's own work.
const LARGE_STATE: usize = 20_000;
/// How long it waits for a server that does not read, before it looks at the rings again.
const BLOCKED_WAIT: Duration = Duration::from_millis(1);

/// Starts the pump of a client.
pub(crate) fn spawn(client: &'static Client) -> io::Result<()> {
    // The thread inherits the mask: the program's signals are not ours to take.
    let _blocked = SignalsBlocked::begin();
    std::thread::Builder::new()
        .name("ttmem-pump".to_owned())
        .stack_size(STACK_BYTES)
        .spawn(move || {
            // A failure of ours ends the tracking, not the program.
            let run = std::panic::AssertUnwindSafe(|| Pump::new(client).run());
            if std::panic::catch_unwind(run).is_err() {
                crate::start::disable();
                client.flush.abandon();
                futex::wake_all(client.flush.progress_word());
                crate::host::complain("tracking is off: the pump failed");
            }
        })?;
    Ok(())
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
    fn new(client: &'static Client) -> Self {
        let mut pump = Self {
            client,
            rings: Rings::default(),
            history: History::new(
                client.config.history_events,
                client.config.source == Source::Legacy,
            ),
            definitions: Definitions::default(),
            link: Link::new(),
            flushing: None,
            flushed: 0,
            sleep: SHORTEST_SLEEP,
            idle_turns: 0,
        };
        if let Some(first_buffer) = client.forked {
            let first_buffer = BufferId(first_buffer);
            pump.push_own(EventKind::Forked { first_buffer });
        }
        pump
    }

    fn run(mut self) {
        loop {
            let doorbell = self.client.doorbell.read();
            let turn = self.turn();
            if turn.ended {
                return;
            }
            self.rest(&turn, doorbell);
        }
    }

    fn turn(&mut self) -> Turn {
        // Before the rings: what was recorded before a request is then in them.
        let requested = self.client.flush.requested();
        let horizon = crate::clock::horizon();
        self.rings.look(self.client);
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
        flush.complete(number, closing);
        futex::wake_all(flush.progress_word());
        closing
    }

    /// How many events to merge in this turn: all there are, when somebody waits for them.
    fn most(&self, requested: u32) -> u64 {
        if requested == self.noted() {
            MERGED_AT_ONCE
        } else {
            u64::MAX
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
        // It inherits the blocked signals of this thread.
        let maker = std::thread::Builder::new()
            .name("ttmem-state".to_owned())
            .spawn(move || saved(&lent));
        let Ok(maker) = maker else {
            let state = saved(&account);
            return (own(account), state);
        };
        while !maker.is_finished() {
            let horizon = crate::clock::horizon();
            self.rings.look(self.client);
            self.rings.merge(horizon, MERGED_AT_ONCE, &mut self.history);
            self.rings.free(self.client, &self.history);
            std::thread::sleep(SHORTEST_SLEEP);
        }
        let state = maker.join().ok();
        let state = state.unwrap_or_else(|| saved(&account));
        (own(account), state)
    }

    fn publish_figures(&self) {
        let figures = &self.client.figures;
        let set = |figure: &AtomicU64, value| figure.store(value, Ordering::Relaxed);
        set(&figures.lost_events, self.rings.lost());
        set(&figures.elided_events, self.history.elided());
        set(&figures.resyncs, self.link.resyncs());
        let cpu_nanos = crate::clock::system_nanos(ClockId::ThreadCPUTime);
        set(&figures.pump_cpu_nanos, cpu_nanos);
        let connected = self.link.is_synced();
        figures.connected.store(connected, Ordering::Relaxed);
        HIGHEST_BUFFER.fetch_max(self.history.highest_buffer(), Ordering::Relaxed);
    }

    /// Sleeps as long as the rings can do without.
    fn rest(&mut self, turn: &Turn, doorbell: u32) {
        let few = self.rings.capacity() / 16;
        self.idle_turns = if turn.events == 0 {
            self.idle_turns.saturating_add(1)
        } else {
            0
        };
        let most = if self.idle_turns > IDLE_TURNS {
            IDLE_SLEEP
        } else {
            BUSY_SLEEP
        };
        self.sleep = if turn.events > 2 * few {
            (self.sleep / 2).max(SHORTEST_SLEEP)
        } else if turn.events < few {
            (self.sleep * 2).min(most)
        } else {
            self.sleep.min(most)
        };
        if turn.events > 4 * few {
            // More is there already.
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
