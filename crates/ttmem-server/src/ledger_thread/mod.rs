//! The thread that owns the ledger.
//!
//! Sessions decode and send [`Command`]s; this thread applies them one after the
//! other, so that no lock is needed and every answer is about a definite moment.
//! It never waits for a reader, a session or the log: answers are bounded by what
//! sessions may have outstanding, log entries that find no room are counted. Readers
//! take the view that it has published.

mod command;
mod published;

pub(crate) use command::{
    Answer, Command, ForgetError, ProcessCommand, ProcessNumber, ResyncMemory, SessionNumber,
};

use crate::hardware::{KnownDevice, info_of};
use crate::journal::{Batch, Journal, NamedBatch, Names};
use crate::log::{DumpKind, LogEntry, LogFormat, LogHandle, LogOptions, Note};
use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded};
use published::Published;
pub(crate) use published::Publisher;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::sync::oneshot;
use ttmem_event::legacy::{
    DeviceInfo, Generation, Request, RequestKind, Totals, encode_device_count, encode_device_info,
    encode_response,
};
use ttmem_event::wire::Frame;
use ttmem_event::{Class, Event, EventKind};
use ttmem_ledger::{
    Anomalies, Anomaly, Change, Departure, Effect, Ledger, Limits, ProcessState, Released, View,
};

/// Commands that may wait: enough to keep the thread busy, few enough that a
/// burst backs up into the sockets and not into memory.
const COMMAND_QUEUE: usize = 256;

/// Log entries handed over at once.
const LOG_BATCH: usize = 4096;

/// Commands that are done before those who wait for answers are woken although
/// more is to do: somebody else's burst must not hold them up.
const ANSWER_BATCH: u32 = 16;

#[derive(Clone, Debug)]
pub struct LedgerHandle {
    commands: Sender<Command>,
    published: Published,
}

impl LedgerHandle {
    /// A handle for senders of commands, and the receiver's way to publish views.
    pub(crate) fn to(commands: Sender<Command>) -> (Self, Publisher) {
        let published = Published::default();
        let publisher = Publisher::new(published.clone());
        let handle = Self {
            commands,
            published,
        };
        (handle, publisher)
    }

    /// Sends a command, waiting for room; false when the thread has ended.
    #[must_use]
    pub(crate) fn send(&self, command: Command) -> bool {
        self.commands.send(command).is_ok()
    }

    /// Sends a command and waits for its answer; `None` when the thread has ended.
    fn ask<T>(&self, command: impl FnOnce(Sender<T>) -> Command) -> Option<T> {
        let (reply, answer) = bounded(1);
        self.commands.send(command(reply)).ok()?;
        answer.recv().ok()
    }

    /// Everything that was acknowledged so far; `None` when the thread has ended.
    pub(crate) async fn view(&self) -> Option<Arc<View>> {
        self.request_view().await.ok()
    }

    /// The same for a thread of its own.
    #[must_use]
    pub(crate) fn wait_for_view(&self) -> Option<Arc<View>> {
        self.request_view().blocking_recv().ok()
    }

    fn request_view(&self) -> oneshot::Receiver<Arc<View>> {
        self.published.request(|| {
            // Without room the thread is busy, and looks who waits after each command.
            let _busy = self.commands.try_send(Command::Publish);
        })
    }

    /// Waits until all commands so far are done; false when the thread has ended.
    #[must_use]
    pub(crate) fn catch_up(&self) -> bool {
        self.ask(|reply| Command::CatchUp { reply }).is_some()
    }

    /// Sets a mark; its number. `None` when the thread has ended.
    #[must_use]
    pub(crate) fn mark(&self, name: Arc<str>, time: u64) -> Option<u64> {
        self.ask(|reply| Command::Mark { name, time, reply })
    }

    /// Forgets what is known of a pid, on behalf of a user.
    pub(crate) fn forget(
        &self,
        pid: u32,
        uid: u32,
        time: u64,
    ) -> Result<Vec<Released>, ForgetError> {
        let answer = self.ask(|reply| Command::Forget {
            pid,
            uid,
            time,
            reply,
        });
        answer.unwrap_or(Err(ForgetError::Stopping))
    }
}

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
}

pub(crate) fn start(config: LedgerThreadConfig) -> std::io::Result<(LedgerHandle, JoinHandle<()>)> {
    let (commands, queue) = bounded(COMMAND_QUEUE);
    let (handle, publisher) = LedgerHandle::to(commands);
    let thread = std::thread::Builder::new()
        .name("ttmem-ledger".to_owned())
        .spawn(move || LedgerThread::new(config, publisher).run(&queue))?;
    Ok((handle, thread))
}

struct LedgerThread {
    config: LedgerThreadConfig,
    ledger: Ledger,
    publisher: Publisher,
    slots: HashMap<ProcessNumber, u32>,
    effects: Vec<Effect>,
    entries: Vec<LogEntry>,
    /// Events for a log that has them as they are, and how many.
    batches: Vec<NamedBatch>,
    batched_events: usize,
    answered: bool,
    /// Marks that readers have set.
    marks: u64,
}

impl LedgerThread {
    fn new(config: LedgerThreadConfig, publisher: Publisher) -> Self {
        let mut ledger = Ledger::new(Limits::default());
        for device in &config.devices {
            ledger.configure_device(device.facts.clone());
        }
        Self {
            config,
            ledger,
            publisher,
            slots: HashMap::new(),
            effects: Vec::new(),
            entries: Vec::new(),
            batches: Vec::new(),
            batched_events: 0,
            answered: false,
            marks: 0,
        }
    }

    fn run(mut self, queue: &Receiver<Command>) {
        let mut unanswered: u32 = 0;
        loop {
            let command = match queue.try_recv() {
                Ok(command) => command,
                Err(TryRecvError::Empty) => {
                    // Nothing to do: those who wait for answers or lines get them now.
                    self.flush();
                    match queue.recv() {
                        Ok(command) => command,
                        Err(_disconnected) => break,
                    }
                }
                Err(TryRecvError::Disconnected) => break,
            };
            if matches!(command, Command::Stop) {
                break;
            }
            if command.is_change() {
                self.publisher.invalidate();
            }
            self.execute(command);
            self.publisher.publish_if_requested(&mut self.ledger);
            unanswered = if self.answered { unanswered + 1 } else { 0 };
            let logged = self.entries.len() + self.batched_events;
            if logged >= LOG_BATCH || unanswered >= ANSWER_BATCH {
                self.flush();
            }
        }
        self.flush();
        self.print(DumpKind::Summary);
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
        if std::mem::take(&mut self.answered) {
            // The counter of an eventfd cannot fill up by ones; a failure means it is closed.
            let _closed = rustix::io::write(&self.config.wake, &1_u64.to_ne_bytes());
        }
    }

    fn execute(&mut self, command: Command) {
        match command {
            Command::Join(process, identity, claimed_pid) => {
                let (pid, name) = (identity.pid, identity.name.to_string());
                let slot = self.ledger.join(identity);
                self.ledger.set_claimed_pid(slot, claimed_pid);
                self.slots.insert(process, slot);
                self.note(Note::ProcessJoined { pid, name });
            }
            Command::Process(process, ProcessCommand::Depart(departure, time)) => {
                self.release(process, departure, time);
            }
            Command::Process(process, command) => {
                let memory = match &command {
                    ProcessCommand::Resync(_state, memory) => Some(*memory),
                    _other => None,
                };
                if let Some(slot) = self.slots.get(&process) {
                    self.update_process(*slot, command);
                }
                if let Some(memory) = memory {
                    self.answer(Answer::Resynced(memory));
                }
                for (slot, reason) in self.ledger.take_newly_incomplete() {
                    let pid = self.pid(slot);
                    self.note(Note::ProcessIncomplete { pid, reason });
                }
            }
            Command::Acknowledge(session, next_sequence) => {
                let mut bytes = Vec::new();
                Frame::put_ack(&mut bytes, next_sequence);
                self.answer(Answer::Bytes(session, bytes));
            }
            Command::LegacyQuery(session, generation, request) => {
                let bytes = self.legacy_answer(generation, &request);
                self.answer(Answer::Bytes(session, bytes));
            }
            Command::Print(kind) => self.print(kind),
            // A requester that went away needs no reply.
            Command::CatchUp { reply } => {
                reply.send(()).ok();
            }
            Command::Forget {
                pid,
                uid,
                time,
                reply,
            } => {
                reply.send(self.forget(pid, uid, time)).ok();
            }
            Command::Mark { name, time, reply } => {
                self.marks += 1;
                self.ledger.set_mark(time, name, self.marks);
                reply.send(self.marks).ok();
            }
            // Views are published after every command.
            Command::Publish | Command::Stop => {}
        }
    }

    fn update_process(&mut self, slot: u32, command: ProcessCommand) {
        match command {
            ProcessCommand::State(state, connections) => {
                let before = self.ledger.set_state(slot, state);
                self.ledger.set_connections(slot, connections);
                let pid = self.pid(slot);
                match (before, state) {
                    (Some(ProcessState::Detached), ProcessState::Live) => {
                        self.note(Note::ProcessReturned { pid });
                    }
                    (_, ProcessState::Detached) => self.note(Note::ProcessDetached { pid }),
                    _unchanged => {}
                }
            }
            ProcessCommand::Define(definitions) => {
                for definition in &definitions {
                    // A refusal is counted where it happens.
                    let _refused = self.ledger.define(slot, definition);
                }
            }
            ProcessCommand::Events(events) => self.apply_and_record(slot, events, false),
            ProcessCommand::Recovered(events) => self.apply_and_record(slot, events, true),
            ProcessCommand::Refuse(anomaly, count) => self.ledger.refuse(slot, anomaly, count),
            ProcessCommand::Lost {
                gone_events,
                lost_events,
                time,
            } => {
                let process = self.ledger.process(slot);
                let reported = process.map_or(0, |process| process.account.lost_events);
                let unreported = lost_events.saturating_sub(reported);
                let count = unreported.saturating_add(gone_events);
                if count > 0 {
                    let kind = EventKind::EventsLost { count };
                    self.apply_and_record(slot, vec![Event { time, kind }], true);
                }
            }
            ProcessCommand::ResyncBegan => self.ledger.set_resyncing(slot, true),
            ProcessCommand::Resync(resync, _memory) => self.ledger.resync(slot, &resync),
            ProcessCommand::Incomplete(reason, count) => {
                self.ledger.mark_incomplete(slot, reason, count);
            }
            // Its slot is given up: see `execute`.
            ProcessCommand::Depart(..) => {}
        }
    }

    fn pid(&self, slot: u32) -> Option<u32> {
        self.ledger.identity(slot)?.pid
    }

    /// Applies events and keeps them for the log, for streams and for questions about the past.
    fn apply_and_record(&mut self, slot: u32, events: Vec<Event>, recovered: bool) {
        let anomalies = self.apply(slot, &events);
        let batch = self.config.journal.push(Batch {
            first_id: 0,
            slot,
            pid: self.pid(slot),
            applied: crate::clock::unix_nanos(),
            recovered,
            events,
            anomalies,
        });
        if let Some(batch) = batch {
            self.log_batch(batch);
        }
    }

    /// Whether the log has the effects of events, and not the events themselves.
    fn logs_effects(&self) -> bool {
        let options = self.config.log.options;
        options.format == LogFormat::Plain && !options.quiet
    }

    /// Logs what the effects of its events do not.
    fn log_batch(&mut self, batch: Arc<Batch>) {
        let LogOptions { format, quiet, .. } = self.config.log.options;
        // `--quiet` hides events, but not what is wrong with them.
        if quiet && batch.anomalies.is_empty() {
            return;
        }
        match format {
            LogFormat::Plain if quiet => {
                for (index, anomaly) in &batch.anomalies {
                    let Event { time, kind: event } = batch.events[*index];
                    let anomaly = *anomaly;
                    let effect = Effect {
                        time,
                        process: batch.slot,
                        device: None,
                        change: Change::Contradicted { anomaly, event },
                    };
                    self.entries.push(LogEntry {
                        effect,
                        pid: batch.pid,
                        device: None,
                    });
                }
            }
            LogFormat::Plain => {}
            LogFormat::Json => {
                // With their names: the process may be gone when they are written.
                if let Some(process) = self.ledger.process(batch.slot) {
                    let logical_id = |device| self.ledger.logical_id(device);
                    let names = Names::of(process, logical_id, &batch.events);
                    self.batched_events += batch.events.len();
                    self.batches.push(NamedBatch { batch, names });
                }
            }
        }
    }

    /// Applies events; returns what is wrong with them, by index.
    fn apply(&mut self, slot: u32, events: &[Event]) -> Vec<(usize, Anomaly)> {
        let logs_effects = self.logs_effects();
        let mut counts = self.anomaly_counts(slot).cloned().unwrap_or_default();
        let mut anomalies = Vec::new();
        for (index, event) in events.iter().enumerate() {
            let effects = logs_effects.then_some(&mut self.effects);
            let outcome = self.ledger.apply(slot, event, effects);
            // What was booked in spite of a contradiction is no error, but it is counted.
            if let Some(now) = self.anomaly_counts(slot)
                && *now != counts
            {
                let mut changed = now.iter().filter(|(kind, count)| *count > counts.of(*kind));
                let anomaly = outcome.err().or(changed.next().map(|(kind, _count)| kind));
                anomalies.extend(anomaly.map(|anomaly| (index, anomaly)));
                counts = now.clone();
            }
            if self.effects.len() >= LOG_BATCH {
                // One event of a large mesh has many effects, and a batch has many events.
                self.collect_entries(slot);
                self.flush();
            }
        }
        self.collect_entries(slot);
        anomalies
    }

    fn anomaly_counts(&self, slot: u32) -> Option<&Anomalies> {
        Some(&self.ledger.process(slot)?.account.anomalies)
    }

    /// Turns the effects so far into log entries.
    fn collect_entries(&mut self, slot: u32) {
        let omitted = self.ledger.take_omitted_effects();
        if omitted > 0 {
            self.config.log.count_lost(omitted);
        }
        if self.effects.is_empty() {
            return;
        }
        let pid = self.pid(slot);
        let ledger = &self.ledger;
        self.entries
            .extend(self.effects.drain(..).map(|effect| LogEntry {
                effect,
                pid,
                device: effect.device.and_then(|index| ledger.logical_id(index)),
            }));
        // A mesh that closed with a million buffers must not cost their room for good.
        self.effects.shrink_to(2 * LOG_BATCH);
    }

    /// Releases what a process held, but keeps its last events.
    fn release(
        &mut self,
        process: ProcessNumber,
        departure: Departure,
        time: u64,
    ) -> Option<Released> {
        let slot = self.slots.remove(&process)?;
        let process = self.ledger.process(slot)?;
        let pid = process.facts.identity.pid;
        let logical_id = |device| self.ledger.logical_id(device);
        self.config.journal.depart(slot, process, logical_id);
        let exit = self.ledger.depart(slot, departure, time)?;
        self.note(Note::ProcessDeparted { pid, exit });
        Some(exit.released)
    }

    fn forget(&mut self, pid: u32, uid: u32, time: u64) -> Result<Vec<Released>, ForgetError> {
        let processes = self.slots.iter().filter_map(|(number, slot)| {
            let identity = self.ledger.identity(*slot)?;
            (identity.pid == Some(pid)).then_some((*number, identity.uid))
        });
        let found: Vec<(ProcessNumber, u32)> = processes.collect();
        if found.is_empty() {
            return Err(ForgetError::Unknown(pid));
        }
        let may = |owner: u32| uid == 0 || uid == self.config.uid || uid == owner;
        if !found.iter().all(|(_number, owner)| may(*owner)) {
            return Err(ForgetError::NotAllowed(pid));
        }
        let mut released = Vec::new();
        for (process, _owner) in found {
            released.extend(self.release(process, Departure::Forgotten, time));
            self.answer(Answer::Forgotten(process));
        }
        Ok(released)
    }

    fn totals(&self, logical_id: i32) -> Totals {
        let mut totals = Totals::default();
        for device in self.devices_numbered(logical_id) {
            let held = &device.totals;
            let class = |class: Class| held.class(class).charged.bytes();
            // Any number of devices can claim one logical id.
            let add = |sum: &mut u64, bytes: u64| *sum = sum.saturating_add(bytes);
            add(&mut totals.dram, class(Class::Dram));
            add(&mut totals.l1, class(Class::L1));
            add(&mut totals.l1_small, class(Class::L1Small));
            add(&mut totals.trace, class(Class::Trace));
            add(&mut totals.cb, held.cb.registered.bytes());
            add(&mut totals.kernel, held.kernel.registered.bytes());
        }
        totals
    }

    fn devices_numbered(&self, logical_id: i32) -> impl Iterator<Item = &ttmem_ledger::Device> {
        let wanted = u32::try_from(logical_id).ok();
        let devices = self.ledger.devices().iter();
        devices.filter(move |device| Some(device.facts.logical_id) == wanted)
    }

    fn legacy_answer(&self, generation: Generation, request: &Request) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(generation.record_bytes());
        let device = request.device_id;
        if request.kind == RequestKind::Query {
            encode_response(generation, device, &self.totals(device), &mut bytes);
        } else if device == -1 {
            encode_device_count(generation, self.device_count(), &mut bytes);
        } else {
            let info = self.known_info(device);
            encode_device_info(generation, device, info.as_ref(), &mut bytes);
        }
        bytes
    }

    /// From the configuration, else from what clients opened.
    fn device_count(&self) -> u32 {
        let configured = self.config.devices.len();
        let devices = self.ledger.devices().iter();
        let opened = devices.filter(|device| device.facts.arch.is_some()).count();
        u32::try_from(if configured > 0 { configured } else { opened }).unwrap_or(u32::MAX)
    }

    fn known_info(&self, logical_id: i32) -> Option<DeviceInfo> {
        let wanted = u32::try_from(logical_id).ok()?;
        let mut configured = self.config.devices.iter();
        if let Some(device) = configured.find(|device| device.facts.logical_id == wanted) {
            return Some(device.info);
        }
        let mut reported = self.devices_numbered(logical_id);
        let reported = reported.find(|device| device.facts.arch.is_some())?;
        Some(info_of(&reported.facts))
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
