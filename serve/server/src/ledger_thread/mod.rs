//! The thread that owns the ledger.
//!
//! Sessions decode and send [`Command`]s; this thread applies them one after the
//! other, so that no lock is needed and every answer is about a definite moment.
//! Each process has a lane of its own: its commands are done in their order, those of different
//! processes in turn, by what they cost ([`turns`]).
//! It never waits for a reader, a session or the log: answers are bounded by what
//! sessions may have outstanding, log entries that find no room are counted. Readers
//! take the view that it has published.

mod command;
mod handle;
mod latency;
mod old_clients;
mod processes;
mod published;
mod queue;
mod turns;

pub(crate) use command::{
    Answer, Command, ForgetError, ProcessCommand, ProcessNumber, Reports, ResyncMemory,
    SessionNumber, definition_bytes,
};
pub(crate) use handle::LedgerHandle;
pub(crate) use latency::{LATENCY_BOUNDS, LatencyCounts};
pub(crate) use queue::{Lane, Pushed};

use crate::freed_memory;
use crate::hardware::KnownDevice;
use crate::journal::{Journal, NamedBatch};
use crate::log::{DumpKind, LogEntry, LogHandle, Note};
use crate::recorder::Tap;
use crossbeam_channel::Sender;
pub(crate) use published::Publisher;
use queue::Queue;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use ttmem_event::wire::Frame;
use ttmem_ledger::{Account, ApplyLimits, Change, ChangeOutcome, Effect, Ledger, Limits, View};

/// Log entries handed over at once.
const LOG_BATCH: usize = 4096;

/// Units after which those who wait for answers are woken although more is to do: somebody
/// else's burst must not hold them up.
const ANSWER_UNITS: u64 = 8192;

/// What each of these costs besides what it touches, in work units.
const DEFINITION_UNITS: u64 = 4;
const COMMAND_UNITS: u64 = 32;
/// A dump: its view is cloned, and all of it becomes text in another thread.
const PRINT_UNITS: u64 = 2048;

/// Units that are done of what waits when the thread is to end: full lanes of thirty plain clients,
/// in a fraction of a second.
const STOP_UNITS: u64 = 4 << 20;

/// No other state is saved for so many times what the last one took: a thirtieth of the time at most.
const SAVED_REST: u32 = 30;

/// Accounts that may wait to be dropped.
const DROPPED_LATER: usize = 64;

/// Dead processes whose memory is being applied at a time: each may take as much as
/// [`Recovery`](crate::ingest::Recovery) reads at once.
const MAX_RECOVERING: usize = 4;

#[derive(Debug)]
pub(crate) struct LedgerThreadConfig {
    pub(crate) devices: Vec<KnownDevice>,
    pub(crate) log: LogHandle,
    /// Where answers to sessions go; sending must not wait.
    pub(crate) answers: Sender<Answer>,
    /// Wakes the sessions when there is an answer.
    pub(crate) wake: Arc<OwnedFd>,
    /// The server's own user, who may forget any process.
    pub(crate) uid: u32,
    pub(crate) journal: Journal,
    /// Who records what the ledger is given.
    pub(crate) taps: Vec<Tap>,
}

pub(crate) fn start(config: LedgerThreadConfig) -> std::io::Result<(LedgerHandle, JoinHandle<()>)> {
    let (handle, queue, publisher) = LedgerHandle::new(Arc::clone(&config.wake));
    let thread = std::thread::Builder::new()
        .name("ttmem-ledger".to_owned())
        .spawn(move || LedgerThread::new(config, publisher, queue).run())?;
    Ok((handle, thread))
}

/// A thread that drops accounts; without it, or without room, the sender drops them itself.
fn start_dropper() -> Sender<Account> {
    let (sender, accounts) = crossbeam_channel::bounded::<Account>(DROPPED_LATER);
    let thread = std::thread::Builder::new().name("ttmem-drop".to_owned());
    let _none = thread.spawn(move || {
        for account in accounts {
            let rows = account.len() as u64;
            drop(account);
            freed_memory::note_dropped(rows);
        }
    });
    sender
}

struct LedgerThread {
    config: LedgerThreadConfig,
    ledger: Ledger,
    publisher: Publisher,
    queue: Queue,
    slots: HashMap<ProcessNumber, u32>,
    effects: Vec<Effect>,
    entries: Vec<LogEntry>,
    /// Events for a log that has them as they are, and how many.
    batches: Vec<NamedBatch>,
    batched_events: usize,
    /// Whether somebody is to be woken, and the units that were done since.
    answered: bool,
    unanswered_units: u64,
    /// What the last view cost, less what was done since: views take half of the time at most.
    view_debt: u64,
    /// Dead processes whose memory is being applied.
    recovering: usize,
    /// Where accounts of the dead are dropped: one may have millions of allocations.
    dropper: Sender<Account>,
    /// Marks that readers have set.
    marks: u64,
    taps: Vec<Tap>,
    /// Until when no other state is saved for those who record.
    saved_rest: Option<Instant>,
}

/// How much a command cost, and what is left of it.
struct Done {
    units: u64,
    rest: Option<Command>,
}

impl LedgerThread {
    fn new(config: LedgerThreadConfig, publisher: Publisher, queue: Queue) -> Self {
        let mut ledger = Ledger::new(Limits::default());
        for device in &config.devices {
            let configure = Change::ConfigureDevice(Box::new(device.facts.clone()));
            ledger.apply(&configure, ApplyLimits::NONE, None);
        }
        let mut config = config;
        let taps = std::mem::take(&mut config.taps);
        let mut thread = Self {
            config,
            ledger,
            publisher,
            queue,
            slots: HashMap::new(),
            effects: Vec::new(),
            entries: Vec::new(),
            batches: Vec::new(),
            batched_events: 0,
            answered: false,
            unanswered_units: 0,
            view_debt: 0,
            recovering: 0,
            dropper: start_dropper(),
            marks: 0,
            taps,
            saved_rest: None,
        };
        thread.tend_taps(false);
        thread
    }

    fn run(mut self) {
        self.serve();
        self.flush();
        // What is missing there is missing, but it ends as the ledger does.
        self.tend_taps(true);
        self.taps.clear();
        let (reports, processes) = self.queue.left_over();
        if reports > 0 {
            self.config.log.error(format!(
                "stopped before {reports} reports of {processes} processes were applied"
            ));
        }
        if !self.config.log.options.quiet {
            self.print(DumpKind::Summary);
        }
    }

    /// Does what comes until it is stopped, and of what waits then a bounded part.
    fn serve(&mut self) {
        let mut units_to_stop = STOP_UNITS;
        while units_to_stop > 0 {
            let Some(units) = self.step() else {
                // Nothing to do: those who wait for answers, lines or views get them now.
                self.flush();
                self.publish_if_requested();
                self.tend_taps(false);
                if self.queue.is_stopping() {
                    break;
                }
                self.queue.wait();
                self.publish_if_requested();
                continue;
            };
            if self.queue.is_stopping() {
                units_to_stop = units_to_stop.saturating_sub(units);
            }
        }
    }

    /// Does a part of whose turn it is; its units, or `None` when there is nothing to do.
    fn step(&mut self) -> Option<u64> {
        let (command, budget) = self.queue.next()?;
        if command.is_change() {
            self.publisher.invalidate();
        }
        let work = self.ledger.work();
        let Done { units, rest } = self.execute(command, budget);
        let units = units + (self.ledger.work() - work);
        self.tend_taps(false);
        self.answered |= self.queue.done(units, rest);
        self.view_debt = self.view_debt.saturating_sub(units);
        if self.view_debt == 0 {
            self.publish_if_requested();
        }
        self.unanswered_units += units;
        let logged = self.entries.len() + self.batched_events;
        let is_due = self.answered && self.unanswered_units >= ANSWER_UNITS;
        if logged >= LOG_BATCH || is_due {
            self.flush();
        }
        Some(units)
    }

    /// Makes a whole change, and hands it to those who record.
    fn make(&mut self, change: Change) -> ChangeOutcome {
        let outcome = self.ledger.apply(&change, ApplyLimits::NONE, None);
        self.record(|| change);
        outcome
    }

    /// Hands a change that was made to those who record.
    fn record(&mut self, change: impl FnOnce() -> Change) {
        if self.taps.is_empty() {
            return;
        }
        let (time, change) = (crate::clock::unix_nanos(), change());
        for tap in &mut self.taps {
            tap.push(time, change.clone());
        }
    }

    /// Gives recordings that begin or broke off a state to go on from, and forgets those that have ended.
    ///
    /// One state is for all that wait. Saving it takes this thread's time, so that they may have to wait
    /// longer; at the end they do not.
    fn tend_taps(&mut self, is_end: bool) {
        if self.taps.is_empty() {
            return;
        }
        let mut is_wanted = false;
        self.taps.retain_mut(|tap| {
            is_wanted |= tap.wants_state(is_end);
            tap.is_open()
        });
        if !is_wanted {
            return;
        }
        let begun = Instant::now();
        let rests = self.saved_rest.is_some_and(|until| begun < until);
        if (rests && !is_end) || !self.ledger.can_save() {
            return;
        }
        let mut saved = Vec::new();
        self.ledger.save(&mut saved);
        let saved = Arc::new(saved);
        let ended = Instant::now();
        self.saved_rest = Some(ended + (ended - begun) * SAVED_REST);
        let waiting = self.taps.iter_mut();
        let waiting = waiting.filter_map(|tap| tap.wants_state(is_end).then_some(tap));
        waiting.for_each(|tap| tap.resume(&saved));
    }

    fn publish_if_requested(&mut self) {
        let work = self.ledger.work();
        self.publisher.publish_if_requested(&mut self.ledger);
        self.view_debt += self.ledger.work() - work;
    }

    fn flush(&mut self) {
        let log = &self.config.log;
        if !self.entries.is_empty() {
            log.entries(std::mem::take(&mut self.entries));
        }
        if !self.batches.is_empty() {
            let count = std::mem::take(&mut self.batched_events);
            log.batches(std::mem::take(&mut self.batches), count);
        }
        self.unanswered_units = 0;
        if std::mem::take(&mut self.answered) {
            self.queue.wake();
        }
    }

    /// Does a command, or as much of it as the budget allows.
    fn execute(&mut self, command: Command, budget: u64) -> Done {
        let mut units = COMMAND_UNITS;
        match command {
            Command::Join(process, identity, claimed_pid) => {
                let (pid, name) = (identity.pid, identity.name.to_string());
                let joined = self.make(Change::Join {
                    identity,
                    claimed_pid,
                });
                let Some(slot) = joined.slot else {
                    return Done { units, rest: None };
                };
                self.slots.insert(process, slot);
                self.note(Note::ProcessJoined { pid, name });
            }
            Command::Process(
                process,
                ProcessCommand::Change(Change::Depart {
                    departure, time, ..
                }),
            ) => {
                self.let_go(process, departure, time, budget);
                let rest = || Command::Process(process, ProcessCommand::depart(departure, time));
                let rest = self.slots.contains_key(&process).then(rest);
                return Done { units, rest };
            }
            Command::Process(process, command) => {
                let Some(slot) = self.slots.get(&process) else {
                    self.abandon(command);
                    return Done { units, rest: None };
                };
                let (units, rest) = self.update_process(*slot, command, budget);
                for (slot, reason) in self.ledger.take_newly_incomplete() {
                    let pid = self.pid(slot);
                    self.note(Note::ProcessIncomplete { pid, reason });
                }
                let rest = rest.map(|rest| Command::Process(process, rest));
                return Done { units, rest };
            }
            Command::Acknowledge(session, next_sequence) => {
                let mut bytes = Vec::new();
                Frame::put_ack(&mut bytes, next_sequence);
                self.answer(Answer::Bytes(session, bytes));
            }
            Command::LegacyQuery(session, generation, request) => {
                let bytes = self.legacy_answer(generation, &request);
                self.answer(Answer::Bytes(session, bytes));
                units += self.ledger.devices().len() as u64 / 4;
            }
            Command::Print(kind) => {
                units += PRINT_UNITS;
                self.print(kind);
            }
            Command::Pass(reply) => {
                // A requester that went away needs no reply.
                let _last = Arc::into_inner(reply).map(|reply| reply.send(()));
            }
            Command::Forget {
                pid,
                uid,
                time,
                reply,
            } => {
                units += self.slots.len() as u64;
                reply.send(self.forget(pid, uid, time)).ok();
            }
            Command::Record(tap) => self.taps.push(tap),
            Command::Mark {
                uid,
                name,
                time,
                reply,
            } => {
                self.marks += 1;
                // What the server's user sets is meant for everybody, as what root sets.
                let user = if uid == self.config.uid { 0 } else { uid };
                let number = self.marks;
                self.make(Change::SetMark {
                    user,
                    time,
                    name,
                    number,
                });
                reply.send(self.marks).ok();
            }
        }
        Done { units, rest: None }
    }

    fn answer(&mut self, answer: Answer) {
        // Sessions stop reading before many are outstanding, so this never grows large.
        let _stopped = self.config.answers.send(answer);
        self.answered = true;
    }

    fn print(&mut self, kind: DumpKind) {
        self.flush();
        let view = self.publisher.publish(&mut self.ledger);
        self.config.log.dump(kind, View::clone(&view));
    }

    fn note(&mut self, note: Note) {
        // Keeps its place among the events around it.
        self.flush();
        self.config.log.note(note);
    }
}

#[cfg(test)]
mod tests;
