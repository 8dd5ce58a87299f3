//! What commands do to a process: as much of each as its turn allows.

use super::{
    Answer, COMMAND_UNITS, Command, DEFINITION_UNITS, EVENT_UNITS, ForgetError, LOG_BATCH,
    LedgerThread, MAX_RECOVERING, ProcessCommand, ProcessNumber, Reports, ResyncMemory,
};
use crate::ingest::Recovery;
use crate::journal::{Batch, NamedBatch, Names};
use crate::log::{FailedNote, LogEntry, LogFormat, LogOptions, Note};
use std::sync::Arc;
use ttmem_event::{Event, EventKind};
use ttmem_ledger::{
    Anomalies, Change, Departure, Effect, EffectKind, Leaving, ProcessState, Released, Resync,
    Resyncing, is_same_user,
};

impl LedgerThread {
    /// Changes what is known of a process; what that cost, and what is left to do.
    pub(super) fn update_process(
        &mut self,
        slot: u32,
        command: ProcessCommand,
        budget: u64,
    ) -> (u64, Option<ProcessCommand>) {
        let mut units = COMMAND_UNITS;
        match command {
            ProcessCommand::State(state, connections) => {
                let before = self.ledger.set_state(slot, state);
                self.ledger.set_connections(slot, connections);
                self.record(|| Change::SetState {
                    process: slot,
                    state,
                    connections,
                });
                let pid = self.pid(slot);
                match (before, state) {
                    (Some(ProcessState::Detached), ProcessState::Live) => {
                        self.note(Note::ProcessReturned { pid });
                    }
                    (_, ProcessState::Detached) => self.note(Note::ProcessDetached { pid }),
                    _unchanged => {}
                }
            }
            ProcessCommand::Labels(labels) => {
                self.ledger.set_labels(slot, labels.clone());
                self.record(|| Change::SetLabels {
                    process: slot,
                    labels,
                });
            }
            ProcessCommand::Define(definitions) => {
                units += DEFINITION_UNITS * definitions.len() as u64;
                for definition in &definitions {
                    // A refusal is counted where it happens.
                    let _refused = self.ledger.define(slot, definition);
                }
                self.record(|| Change::Define {
                    process: slot,
                    definitions: Arc::new(definitions),
                });
            }
            ProcessCommand::Events(reports) => {
                let (units, rest) = self.apply_and_record(slot, reports, budget);
                return (units, rest.map(ProcessCommand::Events));
            }
            ProcessCommand::Recover(recovery) => return self.recover(slot, recovery, budget),
            ProcessCommand::Refuse(anomaly, count) => {
                self.ledger.refuse(slot, anomaly, count);
                self.record(|| Change::Refuse {
                    process: slot,
                    anomaly,
                    count,
                });
            }
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
                    let reports = Reports::recovered(vec![Event { time, kind }]);
                    self.apply_and_record(slot, reports, u64::MAX);
                }
            }
            ProcessCommand::ResyncBegan => {
                self.ledger.set_resyncing(slot, true);
                self.record(|| Change::BeginResync { process: slot });
            }
            ProcessCommand::Resync(resync, memory) => {
                let Some(begun) = self.ledger.begin_resync(slot) else {
                    self.answer(Answer::Resynced(memory));
                    return (units, None);
                };
                let rest = self.resync(slot, resync, memory, begun.into(), budget);
                return (units, rest);
            }
            ProcessCommand::Resyncing(resync, memory, begun) => {
                return (units, self.resync(slot, resync, memory, begun, budget));
            }
            ProcessCommand::Incomplete(reason, count) => {
                self.ledger.mark_incomplete(slot, reason, count);
                self.record(|| Change::MarkIncomplete {
                    process: slot,
                    reason,
                    count,
                });
            }
            // Its slot is given up: see `execute`.
            ProcessCommand::Depart(..) | ProcessCommand::Departing(..) => {}
        }
        (units, None)
    }

    /// Builds a process's new state as far as the budget goes; what is left.
    fn resync(
        &mut self,
        slot: u32,
        resync: Resync,
        memory: ResyncMemory,
        mut begun: Box<Resyncing>,
        budget: u64,
    ) -> Option<ProcessCommand> {
        let ledger = &mut self.ledger;
        if !ledger.go_on_with_resync(slot, &resync, &mut begun, budget) {
            return Some(ProcessCommand::Resyncing(resync, memory, begun));
        }
        self.record(|| Change::Resync {
            process: slot,
            resync: Arc::new(resync),
        });
        self.answer(Answer::Resynced(memory));
        None
    }

    /// Reads and applies what a dead process left, as far as the budget goes.
    fn recover(
        &mut self,
        slot: u32,
        mut recovery: Box<Recovery>,
        budget: u64,
    ) -> (u64, Option<ProcessCommand>) {
        if !recovery.has_begun() {
            if self.recovering >= MAX_RECOVERING {
                // Others are in the middle of it, and come first.
                return (budget, Some(ProcessCommand::Recover(recovery)));
            }
            self.recovering += 1;
        }
        let (mut units, work) = (0, self.ledger.work());
        loop {
            let spent = units + (self.ledger.work() - work);
            if spent >= budget {
                return (units, Some(ProcessCommand::Recover(recovery)));
            }
            let Some((next, read)) = recovery.next() else {
                self.abandon(ProcessCommand::Recover(recovery));
                return (units + COMMAND_UNITS, None);
            };
            let (own, rest) = self.update_process(slot, next, budget - spent);
            recovery.put_back(rest);
            units += read + own;
        }
    }

    /// A command comes to nothing more, or its process is unknown.
    pub(super) fn abandon(&mut self, command: ProcessCommand) {
        match command {
            ProcessCommand::Recover(recovery) => {
                self.recovering -= usize::from(recovery.has_begun());
                let count = recovery.segments();
                self.queue.close_segments(recovery.holder, count);
                self.answered = true;
            }
            ProcessCommand::Resync(_resync, memory) => self.answer(Answer::Resynced(memory)),
            ProcessCommand::Resyncing(_resync, memory, begun) => {
                self.ledger.abandon_resync(&begun);
                self.answer(Answer::Resynced(memory));
            }
            _no_part => {}
        }
    }

    pub(super) fn pid(&self, slot: u32) -> Option<u32> {
        self.ledger.identity(slot)?.pid
    }

    /// Applies events as far as the budget goes; all that were applied are kept for the log, for
    /// streams and for questions about the past. What that cost, and what is left.
    fn apply_and_record(
        &mut self,
        slot: u32,
        mut reports: Reports,
        budget: u64,
    ) -> (u64, Option<Reports>) {
        let units = self.apply(slot, &mut reports, budget);
        if reports.applied < reports.events.len() {
            return (units, Some(reports));
        }
        let batch = self.config.journal.push(Batch {
            first_id: 0,
            slot,
            pid: self.pid(slot),
            applied: crate::clock::unix_nanos(),
            recovered: reports.recovered,
            events: reports.events,
            anomalies: reports.anomalies,
        });
        if let Some(batch) = batch {
            self.log_batch(batch);
        }
        (units, None)
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
                        kind: EffectKind::Contradicted { anomaly, event },
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
                    let names = Names::of(process, logical_id, batch.events.iter());
                    self.batched_events += batch.events.len();
                    self.batches.push(NamedBatch { batch, names });
                }
            }
        }
    }

    /// Applies events until the budget is used; returns what they cost besides what they touched.
    fn apply(&mut self, slot: u32, reports: &mut Reports, budget: u64) -> u64 {
        let logs_effects = self.logs_effects();
        let mut counts = self.anomaly_counts(slot).cloned().unwrap_or_default();
        let (first, work) = (reports.applied, self.ledger.work());
        let mut units = 0;
        let mut unfinished = None;
        for (index, event) in reports.events.iter().enumerate().skip(first) {
            if units + (self.ledger.work() - work) >= budget {
                break;
            }
            let effects = logs_effects.then_some(&mut self.effects);
            let left = budget - units - (self.ledger.work() - work);
            let outcome = self.ledger.apply_within(slot, event, effects, left);
            if outcome == Ok(false) {
                unfinished = Some((*event, left));
                break;
            }
            units += EVENT_UNITS;
            reports.applied = index + 1;
            if outcome.is_ok() && is_failure(&event.kind) {
                self.note_failure(slot);
            }
            // What was booked in spite of a contradiction is no error, but it is counted.
            if let Some(now) = self.anomaly_counts(slot)
                && *now != counts
            {
                let mut changed = now.iter().filter(|(kind, count)| *count > counts.of(*kind));
                let anomaly = outcome.err().or(changed.next().map(|(kind, _count)| kind));
                let anomaly = anomaly.map(|anomaly| (index, anomaly));
                reports.anomalies.extend(anomaly);
                counts = now.clone();
            }
            if self.effects.len() >= LOG_BATCH {
                // One event of a large mesh has many effects, and a batch has many events.
                self.collect_entries(slot);
                self.flush();
            }
        }
        self.collect_entries(slot);
        if reports.applied > first {
            self.record(|| {
                Change::Apply(ttmem_ledger::Batch {
                    process: slot,
                    recovered: reports.recovered,
                    events: Arc::clone(&reports.events),
                    range: first..reports.applied,
                })
            });
        }
        if let Some((event, work)) = unfinished {
            self.record(|| Change::ApplyPart {
                process: slot,
                event,
                work,
            });
        }
        units
    }

    /// Logs the failure that was just applied; of one that repeats, only ever tenfold as many.
    fn note_failure(&mut self, slot: u32) {
        let Some(moment) = self.ledger.failures().newest().map(Arc::clone) else {
            return;
        };
        if !is_power_of_ten(moment.times) {
            return;
        }
        let devices = moment.devices.iter();
        let device_ids = devices.filter_map(|device| self.ledger.logical_id(*device));
        let mut device_ids: Vec<u32> = device_ids.collect();
        device_ids.sort_unstable();
        self.collect_entries(slot);
        self.note(Note::Failed(FailedNote { moment, device_ids }));
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

    /// Releases what a process held as far as the budget goes; what is left to do.
    pub(super) fn release(
        &mut self,
        process: ProcessNumber,
        departure: Departure,
        time: u64,
        mut leaving: Box<Leaving>,
        budget: u64,
    ) -> Option<Command> {
        let slot = *self.slots.get(&process)?;
        if self.ledger.go_on_leaving(slot, &mut leaving, budget) {
            self.let_go(process, slot, departure, time, *leaving);
            return None;
        }
        let rest = ProcessCommand::Departing(departure, time, leaving);
        Some(Command::Process(process, rest))
    }

    /// Lets a process go, but keeps its last events.
    fn let_go(
        &mut self,
        process: ProcessNumber,
        slot: u32,
        departure: Departure,
        time: u64,
        leaving: Leaving,
    ) -> Option<Released> {
        self.slots.remove(&process);
        let known = self.ledger.process(slot)?;
        let pid = known.facts.identity.pid;
        let logical_id = |device| self.ledger.logical_id(device);
        self.config.journal.depart(slot, known, logical_id);
        let (exit, account) = self.ledger.leave(slot, leaving, departure, time)?;
        self.record(|| Change::Depart {
            process: slot,
            departure,
            time,
        });
        // Without room there it is dropped here.
        let _full = self.dropper.try_send(account);
        self.note(Note::ProcessDeparted { pid, exit });
        Some(exit.released)
    }

    pub(super) fn forget(
        &mut self,
        pid: u32,
        uid: u32,
        time: u64,
    ) -> Result<Vec<Released>, ForgetError> {
        let processes = self.slots.iter().filter_map(|(number, slot)| {
            let identity = self.ledger.identity(*slot)?;
            (identity.pid == Some(pid)).then_some((*number, identity.uid))
        });
        let found: Vec<(ProcessNumber, u32)> = processes.collect();
        if found.is_empty() {
            return Err(ForgetError::Unknown(pid));
        }
        let may = |owner: u32| uid == 0 || uid == self.config.uid || is_same_user(uid, owner);
        if !found.iter().all(|(_number, owner)| may(*owner)) {
            return Err(ForgetError::NotAllowed(pid));
        }
        let mut released = Vec::new();
        for (process, _owner) in found {
            let slot = self.slots.get(&process).copied();
            if let Some(slot) = slot
                && let Some(mut leaving) = self.ledger.begin_leaving(slot)
            {
                // Somebody waits for the answer.
                while !self.ledger.go_on_leaving(slot, &mut leaving, u64::MAX) {}
                let left = self.let_go(process, slot, Departure::Forgotten, time, leaving);
                released.extend(left);
            }
            self.answer(Answer::Forgotten(process));
        }
        Ok(released)
    }
}

const fn is_failure(event: &EventKind) -> bool {
    matches!(
        event,
        EventKind::AllocationFailed { .. } | EventKind::Clashed { .. }
    )
}

const fn is_power_of_ten(mut number: u64) -> bool {
    while number > 1 && number.is_multiple_of(10) {
        number /= 10;
    }
    number == 1
}
