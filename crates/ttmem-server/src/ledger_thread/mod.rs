//! The thread that owns the ledger.
//!
//! Sessions decode and send [`Command`]s; this thread applies them one after the
//! other, so that no lock is needed and every answer is about a definite moment.
//! It never waits for a reader, a session or the log: answers are bounded by what
//! sessions may have outstanding, log entries that find no room are counted. Readers
//! take the view that it has published.

mod command;
mod published;

pub use command::{Answer, Command, ForgetError, ProcessNumber, SessionNumber};

use crate::hardware::{KnownDevice, info_of};
use crate::journal::{Batch, Journal, NamedBatch, Names};
use crate::log::{DumpKind, LogEntry, LogFormat, LogHandle, Note};
use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded};
use published::Published;
pub(crate) use published::Publisher;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::sync::oneshot;
use ttmem_event::legacy::{
    DeviceInfo, Generation, Totals, encode_device_count, encode_device_info, encode_response,
};
use ttmem_event::wire::Frame;
use ttmem_event::{Class, Event, EventKind};
use ttmem_ledger::{
    Anomaly, Change, Departure, Effect, Exit, Ledger, Limits, ProcessState, Released, View,
};

/// Commands that may wait: enough to keep the thread busy, few enough that a
/// burst backs up into the sockets and not into memory.
const COMMAND_QUEUE: usize = 256;

/// Log entries handed over at once.
const LOG_BATCH: usize = 4096;

/// Commands that are done before those who wait for answers are woken although
/// more is to do: somebody else's burst must not hold them up.
const ANSWER_BATCH: u32 = 16;

/// A way to reach the ledger thread.
#[derive(Clone, Debug)]
pub struct LedgerHandle {
    commands: Sender<Command>,
    published: Published,
}

impl LedgerHandle {
    /// A handle to whoever receives these commands, and that one's way to publish views.
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
    pub fn send(&self, command: Command) -> bool {
        self.commands.send(command).is_ok()
    }

    /// Sends a command and waits for its answer; `None` when the thread has ended.
    fn ask<T>(&self, command: impl FnOnce(Sender<T>) -> Command) -> Option<T> {
        let (reply, answer) = bounded(1);
        self.commands.send(command(reply)).ok()?;
        answer.recv().ok()
    }

    /// Everything that was acknowledged so far; `None` when the thread has ended.
    pub async fn view(&self) -> Option<Arc<View>> {
        self.request_view().await.ok()
    }

    /// The same for a thread of its own.
    #[must_use]
    pub fn wait_for_view(&self) -> Option<Arc<View>> {
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
    ///
    /// # Errors
    /// When nothing is known of it, or the user may not.
    pub fn forget(&self, pid: u32, uid: u32, time: u64) -> Result<Vec<Released>, ForgetError> {
        let answer = self.ask(|reply| Command::Forget {
            pid,
            uid,
            time,
            reply,
        });
        answer.unwrap_or(Err(ForgetError::Stopping))
    }
}

/// What the thread needs besides the ledger.
#[derive(Debug)]
pub struct LedgerThreadConfig {
    /// Devices that are known from the start.
    pub devices: Vec<KnownDevice>,
    pub log: LogHandle,
    /// Where answers to sessions go; must have room for all that can be outstanding.
    pub answers: Sender<Answer>,
    /// Wakes the sessions when there is an answer.
    pub wake: Arc<OwnedFd>,
    /// The server's own user, who may forget any process.
    pub uid: u32,
    /// Where applied events are kept.
    pub(crate) journal: Journal,
}

/// Starts the thread.
///
/// # Errors
/// When the system has no thread left.
pub fn start(config: LedgerThreadConfig) -> std::io::Result<(LedgerHandle, JoinHandle<()>)> {
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
                    // Nothing to do: whoever waits for answers or lines gets them now.
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
            Command::Join {
                process,
                identity,
                claimed_pid,
            } => {
                let (pid, name) = (identity.pid, identity.name.to_string());
                let slot = self.ledger.join(identity);
                self.ledger.set_claimed_pid(slot, claimed_pid);
                self.slots.insert(process, slot);
                self.note(Note::Joined { pid, name });
            }
            Command::State {
                process,
                state,
                connections,
            } => {
                let Some(slot) = self.slots.get(&process).copied() else {
                    return;
                };
                let before = self.ledger.set_state(slot, state);
                self.ledger.set_connections(slot, connections);
                let pid = self.ledger.identity(slot).and_then(|identity| identity.pid);
                match (before, state) {
                    (Some(ProcessState::Detached), ProcessState::Live) => {
                        self.note(Note::Returned { pid });
                    }
                    (_, ProcessState::Detached) => self.note(Note::Detached { pid }),
                    _unchanged => {}
                }
            }
            Command::Define {
                process,
                definitions,
            } => {
                let Some(slot) = self.slots.get(&process).copied() else {
                    return;
                };
                for definition in &definitions {
                    // A refusal is counted where it happens.
                    let _refused = self.ledger.define(slot, definition);
                }
            }
            Command::Events {
                process,
                events,
                acknowledge,
            } => {
                if let Some(slot) = self.slots.get(&process).copied() {
                    self.apply_and_record(slot, events, false);
                }
                if let Some((session, next_sequence)) = acknowledge {
                    self.acknowledge(session, next_sequence);
                }
            }
            Command::Refuse {
                process,
                anomaly,
                count,
            } => {
                if let Some(slot) = self.slots.get(&process).copied() {
                    self.ledger.refuse(slot, anomaly, count);
                }
            }
            Command::Recovered { process, events } => {
                if let Some(slot) = self.slots.get(&process).copied() {
                    self.apply_and_record(slot, events, true);
                }
            }
            Command::Lost {
                process,
                gone_events,
                lost_events,
                time,
            } => self.apply_lost(process, gone_events, lost_events, time),
            Command::ResyncBegan { process } => {
                if let Some(slot) = self.slots.get(&process).copied() {
                    self.ledger.set_resyncing(slot, true);
                }
            }
            Command::Resync { process, resync } => {
                if let Some(slot) = self.slots.get(&process).copied() {
                    self.ledger.resync(slot, &resync);
                }
            }
            Command::Depart {
                process,
                departure,
                time,
            } => self.depart(process, departure, time),
            Command::LegacyQuery {
                session,
                generation,
                device,
            } => {
                let mut bytes = Vec::with_capacity(generation.record_bytes());
                encode_response(generation, device, &self.totals(device), &mut bytes);
                self.answer(Answer::Bytes { session, bytes });
            }
            Command::LegacyDeviceInfo {
                session,
                generation,
                device,
            } => {
                let bytes = self.device_info(generation, device);
                self.answer(Answer::Bytes { session, bytes });
            }
            Command::Print(kind) => self.print(kind),
            Command::CatchUp { reply } => {
                // An asker that went away needs no answer.
                let _gone = reply.send(());
            }
            Command::Forget {
                pid,
                uid,
                time,
                reply,
            } => {
                let outcome = self.forget(pid, uid, time);
                let _gone = reply.send(outcome);
            }
            Command::Mark { name, time, reply } => {
                self.marks += 1;
                self.ledger.set_mark(time, name, self.marks);
                let _gone = reply.send(self.marks);
            }
            // Views are published behind every command.
            Command::Publish | Command::Stop => {}
        }
    }

    /// Books events that nobody will see, those aside that their process has reported itself.
    fn apply_lost(
        &mut self,
        process: ProcessNumber,
        gone_events: u64,
        lost_events: u64,
        time: u64,
    ) {
        let Some(slot) = self.slots.get(&process).copied() else {
            return;
        };
        let process = self.ledger.process(slot);
        let reported = process.map_or(0, |process| process.account.lost_events);
        let count = lost_events
            .saturating_sub(reported)
            .saturating_add(gone_events);
        if count > 0 {
            let content = EventKind::EventsLost { count };
            self.apply_and_record(
                slot,
                vec![Event {
                    time,
                    kind: content,
                }],
                true,
            );
        }
    }

    /// Applies events and keeps them for those who ask what happened.
    fn apply_and_record(&mut self, slot: u32, events: Vec<Event>, recovered: bool) {
        let anomalies = self.apply(slot, &events);
        let pid = self.ledger.identity(slot).and_then(|identity| identity.pid);
        let batch = self.config.journal.push(Batch {
            first_id: 0,
            slot,
            pid,
            applied: crate::clock::unix_nanos(),
            recovered,
            events,
            anomalies,
        });
        if let Some(batch) = batch
            && !self.logs_effects()
        {
            self.log_batch(batch);
        }
    }

    /// Whether the log has the effects of events, and not the events themselves.
    fn logs_effects(&self) -> bool {
        let options = self.config.log.options();
        options.format == LogFormat::Plain && !options.quiet
    }

    /// Hands events to the log with their names: the process may be gone when they are written.
    fn log_batch(&mut self, batch: Arc<Batch>) {
        // Events may be hidden; what is wrong with them may not.
        if self.config.log.options().quiet && batch.anomalies.is_empty() {
            return;
        }
        if let Some(process) = self.ledger.process(batch.slot) {
            let logical_id = |device| self.ledger.logical_id(device);
            let names = Names::of(process, logical_id, &batch.events);
            self.batched_events += batch.events.len();
            self.batches.push(NamedBatch { batch, names });
        }
    }

    /// Applies events; what is wrong with them, by their places.
    fn apply(&mut self, slot: u32, events: &[Event]) -> Vec<(usize, Anomaly)> {
        let mut anomalies = Vec::new();
        for (place, event) in events.iter().enumerate() {
            let before = self.effects.len();
            let effects = (!self.config.log.options().quiet).then_some(&mut self.effects);
            let outcome = self.ledger.apply(slot, event, effects);
            // What was booked in spite of a contradiction is known by its effects only.
            let contradiction = || self.effects[before..].iter().find_map(anomaly_of);
            let anomaly = outcome.err().or_else(contradiction);
            anomalies.extend(anomaly.map(|anomaly| (place, anomaly)));
            if self.effects.len() >= LOG_BATCH {
                // One event of a large mesh has many effects, and a batch has many events.
                self.collect_entries(slot);
                self.flush();
            }
        }
        self.collect_entries(slot);
        anomalies
    }

    /// Makes log entries of the effects so far.
    fn collect_entries(&mut self, slot: u32) {
        let left_out = self.ledger.take_omitted_effects();
        if !self.logs_effects() {
            self.effects.clear();
        } else if left_out > 0 {
            self.config.log.count_lost(left_out);
        }
        if self.effects.is_empty() {
            return;
        }
        let pid = self.ledger.identity(slot).and_then(|identity| identity.pid);
        for effect in self.effects.drain(..) {
            let device = effect.device.and_then(|index| self.ledger.device(index));
            let device = device.map(|device| device.facts.logical_id);
            self.entries.push(LogEntry {
                effect,
                pid,
                device,
            });
        }
        // A mesh that closed with a million buffers must not cost their room for good.
        self.effects.shrink_to(2 * LOG_BATCH);
    }

    fn depart(&mut self, process: ProcessNumber, departure: Departure, time: u64) {
        let Some(slot) = self.slots.remove(&process) else {
            return;
        };
        let pid = self.ledger.identity(slot).and_then(|identity| identity.pid);
        if let Some(exit) = self.release(slot, departure, time) {
            self.note(Note::Departed { pid, exit });
        }
    }

    /// Lets go of a process, but not of its last events.
    fn release(&mut self, slot: u32, departure: Departure, time: u64) -> Option<Exit> {
        let process = self.ledger.process(slot)?;
        let logical_id = |device| self.ledger.logical_id(device);
        self.config.journal.depart(slot, process, logical_id);
        self.ledger.depart(slot, departure, time)
    }

    fn forget(&mut self, pid: u32, uid: u32, time: u64) -> Result<Vec<Released>, ForgetError> {
        let found: Vec<(ProcessNumber, u32)> = self
            .slots
            .iter()
            .filter_map(|(number, slot)| {
                let identity = self.ledger.identity(*slot)?;
                (identity.pid == Some(pid)).then_some((*number, identity.uid))
            })
            .collect();
        if found.is_empty() {
            return Err(ForgetError::Unknown(pid));
        }
        let may = |owner: u32| uid == 0 || uid == self.config.uid || uid == owner;
        if !found.iter().all(|(_number, owner)| may(*owner)) {
            return Err(ForgetError::NotAllowed(pid));
        }
        let mut released = Vec::new();
        for (process, _owner) in found {
            let Some(slot) = self.slots.remove(&process) else {
                continue;
            };
            if let Some(exit) = self.release(slot, Departure::Forgotten, time) {
                self.note(Note::Departed {
                    pid: Some(pid),
                    exit,
                });
                released.push(exit.released);
            }
            self.answer(Answer::Forgotten { process });
        }
        Ok(released)
    }

    /// What everybody holds on the devices with a logical id.
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

    fn device_info(&self, generation: Generation, device: i32) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(generation.record_bytes());
        if device == -1 {
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
        let configured = configured.find(|device| device.facts.logical_id == wanted);
        if let Some(device) = configured {
            return Some(device.info);
        }
        let mut reported = self.devices_numbered(logical_id);
        let reported = reported.find(|device| device.facts.arch.is_some())?;
        Some(info_of(&reported.facts))
    }

    fn acknowledge(&mut self, session: SessionNumber, next_sequence: u64) {
        let mut bytes = Vec::new();
        Frame::put_ack(&mut bytes, next_sequence);
        self.answer(Answer::Bytes { session, bytes });
    }

    fn answer(&mut self, answer: Answer) {
        // Full cannot be: sessions stop reading before they could ask for more than fits.
        let _full = self.config.answers.try_send(answer);
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

/// What was wrong with an event, by one of its effects.
fn anomaly_of(effect: &Effect) -> Option<Anomaly> {
    match effect.change {
        Change::Contradicted { anomaly, .. } => Some(anomaly),
        _sound => None,
    }
}
